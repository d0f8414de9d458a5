"""The cases of same_results.py; same_data.py makes their data.

A case is the text of one or more commands, separated by " ; ". Before a command, "old" lets the old build run it for
both, "stop:N" presses Ctrl-C after N trials, and "ranks:N" runs truemax-mpi on N ranks. The first command, if it
trains, writes 1.safetensors and 1.jsonl, the second one 2.safetensors and so on.
"""
import itertools

METHODS = ["implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce", "importance",
           "bsgd", "softplus", "exact", "adam", "lbfgs"]
DRAWS = ["uniform", "uniform-skip", "all", "frequency", "blocks", "head-blocks", "active"]


def all_of(*parts):
    """Every choice of one text of each part, joined."""
    for choice in itertools.product(*parts):
        yield " ".join(text for text in choice if text)


def named(parts):
    """Runs of named methods on d.txt: where nothing else is said, two epochs with step 3."""
    for text in all_of(*parts):
        step = "" if " --step " in text else " --step 3"
        yield f"train d.txt {text}{step}" + ("" if " --steps " in text else " --epochs 2")


def methods(names):
    return [f"--method {name}" for name in names]


STEPS = ["--ridge 0.5", "--ridge 0.5 --intercept", "--intercept", "--ridge 0.5 --intercept --ridge-intercept",
         "--rows-per-step 7", "--rows-per-step 7 --ridge 0.5 --intercept", "--visit shuffle --schedule linear",
         "--valid-share 0.2 --patience 1", "--step 1000", "--step 1e9", "--steps 777",
         "--valid-share 0.3 --labels all --visit file"]
HEAD = "--draw head-blocks --head 16 --classes-per-step 32"
TEXT = "train text.txt --format text --test text-test.txt"
TRIPLES = "train g.tsv --format triples --test g-test.tsv"
LEARNT = "--hidden 8 --step 0.02 --ridge 0.2 --epochs 3"
SAVED = "--checkpoint c.tmx --checkpoint-every 1epochs"
NAMED = "--method prox --draw blocks --classes-per-step 16 --step 3"

# Runs that --resume can continue, and --replay repeat: data and options without --epochs.
CONTINUED = [f"d.txt {NAMED}", f"d.txt {NAMED} --ridge 0.5 --intercept --visit shuffle",
             "d.txt --method implicit --step 3", "d.txt --method umax --classes-per-step 5 --step 1 --rows-per-step 4",
             "d.txt --method scent --draw active --step 1", "d.txt --method adam --step 0.05", "d.txt --method lbfgs",
             "d.txt --method exact --step 1", "d.txt --method raman --step 0.01",
             "d.txt --method composition --step 0.01", "d.txt --method sox --step 0.1",
             f"d.txt --method prox {HEAD} --step 3 --group 8", "d.txt --method prox --draw blocks --rivals 2 --step 3",
             "d.txt --method prox --valid-share 0.2 --patience 9 --step 3", "d.txt --hidden 8 --step 0.02 --ridge 0.2",
             "d.txt --hidden 8 --dropout 0.2 --row-state --step 0.02 --ridge 0.2",
             "d.cache --stream --method prox --step 3", "several.txt --labels all --method prox --step 3 --ridge 0.1",
             "dense.txt --method prox --step 1 --newton 9 --ridge 1",
             "text.txt --format text --hidden 8 --step 0.02 --layers 1 --tied --dropout 0.1",
             "text.txt --format text --encoder skipgram --hidden 8 --step 0.02",
             "g.tsv --format triples --hidden 8 --step 0.05"]
# Searches: data and options, to be stopped in the middle.
SEARCHES = ["many.txt", "many.txt --encoder linear", "many.txt --hidden 16", "many.txt --labels all --ridge 0.1",
            "topics.txt", "big.txt", "many.cache --stream", "text.txt --format text --hidden 16",
            "g.tsv --format triples --hidden 64"]


def resumed(by):
    """Runs with a checkpoint, written by `by` ("" or "old "), that this build continues."""
    for run in CONTINUED:
        yield f"{by}train {run} --epochs 3 {SAVED} ; train {run} --epochs 6 {SAVED} --resume"
    for run in SEARCHES:
        for trials in (1, 4):
            yield f"{by}stop:{trials} train {run} {SAVED} ; train {run} {SAVED} --resume"


def replayed(by):
    for run in CONTINUED:
        yield f"{by}train {run} --epochs 3 ; train {run.split()[0]} --replay 1.jsonl"
    for run in [*SEARCHES, "few.txt", "dense.txt", "d.txt --target train --epochs 3"]:
        yield f"{by}train {run} ; train {run.split()[0]} --replay 1.jsonl"


def cases():
    """{kind: the cases of this kind}"""
    return {
        "draws": named((methods(METHODS), [f"--draw {draw}" for draw in DRAWS], ["--classes-per-step 5"])),
        "steps": named((methods(METHODS), ["--classes-per-step 1", "--classes-per-step 16"], STEPS)),
        "blocks": named((["--method prox --draw blocks", "--method prox --draw head-blocks"],
                         ["--classes-per-step 32 --head 16"], ["--threads 1", "--threads 2"], STEPS)),
        "rivals": named((methods(["prox", "implicit", "scent"]), ["--draw blocks", "--draw head-blocks --head 16"],
                         ["--rivals 1", "--rivals 3 --ridge 0.5 --intercept"], ["--classes-per-step 16"])),
        "options of methods": named((
            ["--method umax --delta 0.1", "--method umax --double-sum-alpha 1",
             "--method vanilla --double-sum-alpha 0.5", "--method nce --no-log-q", "--method nce --label-noise",
             "--method importance --no-log-q", "--method raman --refresh 2", "--method composition --running-rate 0.1",
             "--method prox --rho 0.1", "--method scent --rho 10 --no-rho-falls", "--method sox --sox-rate 0.9",
             "--method softplus --softplus-bend 0.1", "--method prox --start-at-frequencies --intercept",
             "--method prox --draw frequency --draw-power 0.5", "--method prox --draw frequency --draw-uniform 0.9",
             "--method prox --draw active --active 2"],
            ["--classes-per-step 5", "--classes-per-step 5 --step 0.01 --decay 0.5"])),
        "group": named((methods(["prox", "scent", "umax", "exact"]), ["--group 3", "--group 64", "--group 5000"],
                        ["", f"{HEAD} --threads 2", f"{HEAD} --ridge 0.5 --intercept",
                         "--visit shuffle --schedule linear", "--intercept --start-at-frequencies --valid-share 0.2"])),
        "evaluation": [f"train d.txt --test t.txt --method prox --step 3 --epochs 3 {more}" for more in (
            "", "--eval sampled", "--eval sampled --eval-rows 100 --eval-classes 64", "--eval-every 1",
            "--no-eval-train", "--valid t.txt --patience 1", "--valid-share 0.2 --seed 5", "--threads 1",
            "--split-model")],
        "learnt": learnt(),
        "text": text(),
        "triples": [f"{TRIPLES} {more}" for more in (
            "", "--hidden 16", "--hidden 8 --epochs 3", "--hidden 8 --epochs 3 --step 0.05", "--ridge 0.1 --epochs 4",
            "--hidden 8 --epochs 3 --step 0.05 --ridge 0 --threads 1",
            "--hidden 8 --epochs 3 --step 0.05 --rows-per-step 50",
            "--hidden 8 --epochs 3 --step 0.05 --row-state --dropout 0.2", "--hidden 8 --steps 33 --step 0.05",
            "--hidden 8 --epochs 3 --step 0.05 --classes-per-step 5", "--hidden 7", "--method prox")],
        "several labels": several(),
        "stream": stream(),
        "newton": newton(),
        "plain": plain(),
        "target train": [f"train {data} --target train {more}"  # prox, adam, lbfgs or Newton's method
                         for data in ("d.txt", "few.txt", "hard.txt", "many.txt", "big.txt", "dense.txt")
                         for more in ("", "--epochs 3", "--epochs 12", "--epochs 90", "--step 1 --epochs 4",
                                      "--intercept --ridge 0.1 --epochs 5", "--intercept --ridge 0.1 --newton 0")],
        "formats": formats(),
        "init": init(),
        "resume": resumed(""),
        "resume from old": resumed("old "),
        "replay": replayed(""),
        "replay of old": replayed("old "),
        "compare": [f"compare {more} --json" for more in (
            "d.txt --epochs 2", "d.txt hard.txt --epochs 3 --methods auto,prox,lbfgs,adam --grid -1:1",
            "d.txt --test t.txt --by test --epochs 2 --methods auto,implicit,sox --grid -1:1 --points 1",
            "hard.txt --epochs 2 --ridge 0.5 --intercept --methods prox:draw=blocks,umax,exact:step=1 --by-step",
            "several.txt --labels all --epochs 2 --methods prox,implicit --normalize l2 --threads 1")],
        "tune": [f"tune {more} --json" for more in (
            "d.txt --try step=0.1,1,10 --try ridge=0,0.1,1 --epochs 4",
            "d.txt --try method=prox,implicit,umax --try step=0.1,1 --epochs 4 --random 4",
            "many.txt --try step=1,10 --try classes-per-step=16,64 --epochs 3 --subset 0.5 --valid-share 0.2",
            "d.txt --valid t.txt --try draw=blocks,uniform --try rows-per-step=1,4 --epochs 3",
            "hard.txt --try step=0.01,0.1 --method adam --epochs 4", "d.txt --epochs 4",
            "d.txt --valid t.txt --try draw=blocks,uniform --try classes-per-step=1,16 --epochs 3")],
        "use": use(),
        "refused": refused(),
        "help": ["--version", "--help", "methods", "methods --json", "options", *(
            f"{name} --help-all" for name in ("train", "evaluate", "predict", "index", "compare", "tune", "generate"))],
        "card": card(),
        "ranks": ranks(),
    }


def learnt():
    for more in ("", "--no-lock-free", "--lock-free --threads 1", "--row-state", "--dropout 0.2", "--threads 1",
                 "--rows-per-step 5", "--classes-per-step 5", "--schedule decay --visit random", "--labels all",
                 "--valid-share 0.2 --patience 1", "--no-intercept --no-start-at-frequencies", "--normalize l2",
                 "--method scent", "--method prox", "--method scent --draw uniform --classes-per-step 9 --rho 0.5",
                 "--seed 9", "--steps 50", "--draw blocks", "--group 4"):
        yield f"train d.txt {LEARNT} {more}"
    for more in ("--hidden 8", "--hidden 8 --no-lock-free", "--hidden 8 --lock-free --threads 1", "--encoder bag",
                 "--hidden 8 --ridge 0.1", "--hidden 8 --step 0.02", "--hidden 8 --epochs 2",
                 "--encoder bag --target train"):
        yield f"train d.txt {more}"
    yield "train many.txt --hidden 16 --epochs 4"


def text():
    fixed = f"{TEXT} {LEARNT}"
    yield from all_of([fixed], ["--tied", "--no-tied"], ["--layers 0", "--layers 1"], ["--dropout 0", "--dropout 0.2"])
    for encoder in ("cbow", "skipgram"):
        for more in ("", "--tied", "--row-state", "--dropout 0.2", "--context 2"):
            yield f"{fixed} --encoder {encoder} {more}"
        yield f"{TEXT} --hidden 8 --encoder {encoder}"
        yield f"{TEXT} --hidden 8 --encoder {encoder} --epochs 2"
    for more in ("--hidden 8", "--hidden 8 --context 3 --epochs 3", "--hidden 8 --min-count 20 --tied",
                 "--hidden 8 --layers 1", "--hidden 8 --no-tied --dropout 0", "--hidden 8 --no-lock-free --step 0.02",
                 "--context 2"):
        yield f"{TEXT} {more}"
    for more in ("--threads 1", "--no-lock-free", "--lock-free --threads 1", "--min-count 5", "--rows-per-step 7",
                 "--classes-per-step 9", "--context 2 --row-state"):
        yield f"{fixed} --layers 0 --no-tied {more}"


def several():
    for data in ("several.txt --labels all", "several.txt", "several.txt --labels all --threads 1"):
        for more in ("", "--encoder linear", "--ridge 0.1 --epochs 3", "--target train --epochs 3", "--newton 0"):
            yield f"train {data} {more}"
    for more in ("--hidden 8 --epochs 3", "--method prox --step 3 --group 8 --epochs 3", "--newton 30 --ridge 1",
                 "--class-weights balanced --epochs 3", "--method lbfgs --epochs 5 --ridge 1",
                 "--valid-share 0.3 --patience 2 --method prox --step 1 --epochs 6"):
        yield f"train several.txt --labels all {more}"


def stream():
    for more in ("", "--encoder linear", "--epochs 3", "--target train --epochs 3", "--stream-window 64K",
                 "--hidden 8 --epochs 3"):
        yield f"train d.cache --stream {more}"
    for method in ("prox", "implicit", "umax", "exact", "adam", "lbfgs", "raman"):
        yield f"train d.cache --stream --method {method} --step 0.5 --epochs 3 --test t.txt"
    for more in ("--stream-window 16K", "--visit file", "--visit shuffle --schedule linear", "--threads 1", "--group 8",
                 "--valid-share 0.2", "--max-features 50",
                 "--draw blocks --classes-per-step 16 --ridge 0.5 --intercept", "--normalize l2", "--hash-features 32"):
        yield f"train d.cache --stream --method prox --step 3 --epochs 3 {more}"
    yield "train several.cache --stream --labels all --epochs 2"
    yield "train d.txt --stream --epochs 2"  # refused: not a cache
    yield "train d.cache --method prox --step 3 --epochs 3"
    yield "train many.cache --stream --encoder linear"
    yield "train d.cache --stream --method scent --step 0.5 --epochs 3 --rows-per-step 5"


def newton():
    for data in ("few.txt", "dense.txt", "hard.txt", "X.npy", "two.txt"):
        yield f"train {data}"
        yield f"train {data} --newton 20 --ridge 1"
        yield f"train {data} --newton 20"
        yield f"train {data} --newton 20 --ridge 1 --ridge-by-spread --epochs 0"
        yield f"train {data} --method prox --step 1 --epochs 0 --newton 30 --ridge 0.5 --intercept"
    for more in ("--threads 1", "--no-intercept", "--ridge-by-spread", "--no-ridge-by-spread", "--labels all",
                 "--normalize l2", "--class-weights balanced", "--newton 1", "--target train", "--ridge 0",
                 "--valid-share 0.3", "--seed 4", "--ridge 1e9", "--epochs 3", "--newton 0"):
        yield f"train few.txt {more}"
    yield "train d.txt --method implicit --step 3 --epochs 2 --newton 3 --ridge 0.5"


def plain():
    for data in ("d.txt", "two.txt", "hard.txt", "many.txt", "more.txt", "topics.txt", "big.txt"):
        yield f"train {data}"
        yield f"train {data} --newton 0"
        yield f"train {data} --encoder linear --threads 1"
        yield f"train {data} --ridge 0.1 --epochs 3"
    for more in ("--seed 1", "--seed 2", "--seed 3", "--test t.txt", "--row-weights weights.txt",
                 "--class-weights balanced", "--class-weights class-weights.txt",
                 "--row-weights weights.txt --class-weights balanced --encoder linear", "--normalize l2",
                 "--hash-features 64", "--max-features 60", "--max-rows 300", "--valid t.txt",
                 "--valid t.txt --patience 2 --epochs 8", "--valid-share 0.3", "--step 5", "--ridge 0",
                 "--no-intercept", "--classes-per-step 32", "--draw blocks", "--draw uniform", "--head 0", "--rivals 2",
                 "--method auto --ridge auto", "--schedule decay", "--visit random", "--group 8", "--steps 2000",
                 "--epochs 1", "--method auto --encoder linear --device auto", "--ridge-intercept",
                 "--lock-free --threads 1", "--memory-limit 40M", "--memory-limit 25M"):
        yield f"train d.txt {more}"
    yield "train dense.txt --newton 0"
    yield "train X.npy --newton 0"
    yield "train X.npy --newton 0 --label-file y.npy --encoder linear"


def formats():
    for data in ("d.svm", "d.lshtc", "words.txt", "words.txt --word-ngrams 2 --ngram-buckets 500",
                 "words.txt --char-ngrams 2-3 --ngram-buckets 300", "words.txt --word-ngrams 2 --hash-features 128",
                 "words.txt --max-features 50", "d.txt --hash-features 16", "d.txt --max-features 40 --max-rows 222",
                 "X.npy", "X.npy --label-file y.npy"):
        for more in ("--method prox --step 3", "--encoder linear --newton 0"):
            yield f"train {data} {more} --epochs 2"
        yield f"train {data} --hidden 8 --epochs 2"


def init():
    for before, after in ((f"{NAMED} --intercept", "--method adam --step 0.05 --intercept"), (NAMED, "--method lbfgs"),
                          (NAMED, "--method implicit --step 1 --ridge 0.5 --intercept"), (NAMED, f"{NAMED} --group 8"),
                          ("--method prox --step 3", NAMED), (NAMED, "--step 5"), (NAMED, ""), (NAMED, LEARNT),
                          (NAMED, "--encoder linear --ridge 0.1"), (LEARNT, LEARNT), (LEARNT, "--hidden 8"),
                          (LEARNT, "")):
        for data in ("d.txt", "more.txt", "several.txt --labels all"):
            epochs = "" if "--epochs" in before else "--epochs 2"
            then = "" if "--epochs" in after else "--epochs 2"
            yield f"train d.txt {before} {epochs} ; train {data} --init 1.safetensors {after} {then}"
    yield "train few.txt ; train few.txt --init 1.safetensors"
    yield f"{TEXT} {LEARNT} ; {TEXT} {LEARNT} --init 1.safetensors"
    yield f"{TRIPLES} {LEARNT} ; {TRIPLES} {LEARNT} --init 1.safetensors"


def use():
    models = {"d.txt --method prox --step 3 --epochs 3 --intercept": "t.txt", f"d.txt {LEARNT}": "t.txt",
              "several.txt --labels all --epochs 3": "several.txt",
              "words.txt --epochs 3 --encoder linear": "words.txt"}
    for train, data in models.items():
        for more in (f"evaluate 1.safetensors {data} --json", f"evaluate 1.safetensors {data} --eval sampled --json",
                     f"predict 1.safetensors {data} --top 3 --json", f"predict 1.safetensors {data} --threads 1",
                     "inspect 1.safetensors", "inspect 1.safetensors --json",
                     "vectors 1.safetensors v.txt --of classes",
                     f"index 1.safetensors --rows {data} --cells 4"
                     f" ; predict 1.safetensors {data} --index 1.index --top 3"):
            yield f"train {train} ; {more}"
    for train, data, query in ((f"{TEXT} {LEARNT}", "text-test.txt", "prompts.txt"),
                               (f"{TEXT} {LEARNT} --encoder skipgram", "text-test.txt", "prompts.txt"),
                               (f"{TRIPLES} {LEARNT}", "g-test.tsv --filter g.tsv", "g-test.tsv")):
        yield f"{train} ; evaluate 1.safetensors {data} --json ; predict 1.safetensors {query} --top 3 --json"
        yield f"{train} ; vectors 1.safetensors v.txt"
    yield f"{TEXT} {LEARNT} ; nearest 1.safetensors w1 w5 --json"
    made = "generate g.txt --rows 300 --classes 20 --features 50"
    yield f"{made} --test h.txt --test-rows 50 --skew 0.5 --separability 0.3"
    yield f"{made} --format fasttext --seed 7"
    yield "convert d.txt n.cache ; convert several.txt s.cache --max-rows 99"
    yield "convert words.txt w.cache --word-ngrams 2 ; train w.cache --word-ngrams 2 --method prox --epochs 2"


def refused():
    for more in ("--method nosuch", "--step 0", "--epochs 1.5", "--method lbfgs --rows-per-step 4",
                 "--method adam --draw blocks", "--method implicit --draw all", "--method bsgd --rows-per-step 3",
                 "--hidden 8 --method lbfgs", "--ridge-by-spread", "--ridge-by-spread --newton 5 --epochs 3",
                 "--hidden 8 --newton 5", "--layers 1", "--tied", "--patience 3", "--stream",
                 "--lock-free --method lbfgs", "--group 4 --method lbfgs", "--group 4 --hidden 8",
                 "--rivals 2 --method prox --rows-per-step 4", "--device cuda:0", "--memory-limit 1M", "--resume",
                 "--resume --checkpoint none.tmx --epochs 1", "--replay none.jsonl", "--init none.safetensors",
                 "--valid none.txt", "--row-weights class-weights.txt", "--class-weights weights.txt",
                 "--encoder context", "--encoder complex", "--target train --valid-share 0.1",
                 "--method prox --target train", "--word-ngrams 2", "--format text --epochs 1", "--format triples",
                 "--nonsense", "--context 3", "--delta 3", "--shard-embedding", "--eval-classes 64",
                 "--test more.txt --method prox --epochs 1", "--seconds 1 --replay none.jsonl",
                 "--max-rows 1", "--max-features 1", "--head 9 --method prox --epochs 1"):
        yield f"train d.txt {more}"
    for method in ("adam", "lbfgs", "prox", "implicit"):
        yield f"train d.txt --target train --method {method}"
        yield f"train d.txt --group 4 --rows-per-step 4 --method {method}"
    yield "train d.txt --method implicit --group 4"
    yield "train d.txt --method prox --ridge auto"
    yield "train bad.txt"
    yield "train none.txt"
    yield f"train d.txt {NAMED} --epochs 1 {SAVED} ; train d.txt {NAMED} --ridge 3 --epochs 2 {SAVED} --resume"
    yield f"train d.txt {NAMED} --epochs 1 {SAVED} ; train few.txt {NAMED} --epochs 2 {SAVED} --resume"
    yield f"train d.txt {NAMED} --epochs 1 ; train few.txt --replay 1.jsonl"
    yield f"train d.txt {NAMED} --epochs 1 ; train d.txt --replay 1.jsonl --step 3"
    yield f"train d.txt {NAMED} --epochs 1 ; evaluate 1.safetensors more.txt --json ; predict 1.safetensors g.tsv"


def card():
    """On the GPU that libtruemax_emulated.so stands in for, whose runs are the same every time."""
    small = "--max-rows 60 --device cuda"
    for more in ("--method prox --draw blocks --classes-per-step 16", "--method implicit --step 3", "--method scent",
                 "--method umax --step 0.5", "--method exact", "--method prox --ridge 0.5 --intercept",
                 f"--method prox {HEAD}", "--hidden 8 --step 0.02 --ridge 0.2", "--method lbfgs",
                 "--method prox --group 4", "--encoder linear --step 3 --ridge 0.1", "--method scent --rows-per-step 4",
                 "--labels all --method prox", "--method prox --visit shuffle --schedule linear", "--newton 5"):
        yield f"train d.txt --epochs 1 {small} {more}"
    yield f"train text.txt --format text --hidden 4 --epochs 1 --step 0.02 --layers 0 --no-tied --dropout 0 {small}"
    yield f"train g.tsv --format triples --hidden 4 --epochs 1 --step 0.05 --ridge 0.1 {small}"
    prox = f"train d.txt --method prox --draw blocks --classes-per-step 16 {small} {SAVED}"
    yield f"{prox} --epochs 1 ; {prox} --epochs 2 --resume"
    yield "train d.txt --method prox --epochs 1 --max-rows 60 ; evaluate 1.safetensors t.txt --device cuda --json"


def ranks():
    for more in ("--method prox --epochs 2 --step 3", f"--method prox {HEAD} --group 32 --epochs 2 --step 3",
                 "--method scent --group 32 --epochs 2 --step 0.3", "--method umax --group 16 --epochs 2 --step 0.3",
                 "--method exact --epochs 2 --step 0.01", "--method prox --ridge 2 --intercept --epochs 2 --step 3",
                 "--encoder linear", "", "--hidden 8 --epochs 2 --step 0.02 --ridge 0.2", "--hidden 8",
                 "--hidden 8 --epochs 2 --step 0.02 --ridge 0.2 --shard-embedding", "--target train",
                 "--method lbfgs --epochs 3", "--method prox --epochs 2 --step 3 --split-model --test t.txt"):
        yield f"ranks:2 train d.txt {more}"
    yield "ranks:1 train d.txt --encoder linear"
    yield "ranks:2 train few.txt"
    yield f"ranks:2 {TRIPLES} {LEARNT}"
    yield f"ranks:2 {TEXT} {LEARNT} --layers 0 --tied"
    run = "train d.txt --method prox --step 3"
    yield f"ranks:2 {run} --epochs 2 {SAVED} ; ranks:2 {run} --epochs 4 {SAVED} --resume"
    yield f"ranks:2 {run} --epochs 2 ; train d.txt --replay 1.jsonl"
