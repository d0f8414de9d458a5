"""The data sets and the cases of tests/record_plans.py."""

NOWHERE = "/nowhere/libtruemax_cuda.so"
# What a machine has: the variables that pretend it. The emulated library itself is added where none is named.
CARDS = {
    "none": {"TRUEMAX_CUDA_LIBRARY": NOWHERE},  # this truemax was built without the library
    "one": {},
    "two": {"TRUEMAX_EMULATED_CARDS": "2"},
    "no card": {"TRUEMAX_EMULATED_CARDS": "0"},
    "no driver": {"TRUEMAX_EMULATED_CARDS": "-1"},
    "other version": {"TRUEMAX_EMULATED_VERSION": "99"},
    "busy": {"TRUEMAX_EMULATED_BUSY": "1"},
}


def generated(name, rows, features, classes, nonzeros, seed, *more):
    return ["generate", name, "--rows", str(rows), "--features", str(features), "--classes", str(classes), "--nonzeros",
            str(nonzeros), "--seed", str(seed), *more]


def trained(name, data, *options):
    return ["train", data, *options, "--threads", "2", "--memory-limit", "16G", "--model", name, "--log", "none"]


# In the order in which they are made.
DATA = {
    # Few rows, classes and features: Newton's method.
    "plain.txt": generated("plain.txt", 400, 60, 12, 8, 1, "--test", "valid.txt", "--test-rows", "100"),
    # Enough classes and features to try learnt ones; few rows for each feature.
    "wide.txt": generated("wide.txt", 2000, 400, 200, 10, 2),
    # Many classes, of which some are frequent: a head.
    "head.txt": generated("head.txt", 3000, 500, 5000, 6, 3, "--skew", "1.2"),
    # Weights of more than 4 MB, hundreds of blocks.
    "blocks.txt": generated("blocks.txt", 6000, 500, 4000, 6, 4, "--skew", "0.7"),
    # Weights of some 100 MB.
    "vast.txt": generated("vast.txt", 5000, 9000, 3000, 5, 5, "--skew", "0.2"),
    # Few features and many classes: learnt features take more memory than linear ones, Adam more time than drawing.
    "classes.txt": generated("classes.txt", 20000, 70, 8000, 2, 14, "--skew", "0"),
    # Too few classes for learnt features, too many rows for Newton's method.
    "steps.txt": generated("steps.txt", 6000, 500, 64, 20, 6),
    # On either side of the bounds of Newton's method: 1.2e7 below 2000 rows, 4e6 from there; 100 classes.
    "newton-1999.txt": generated("newton-1999.txt", 1999, 300, 60, 40, 7),
    "newton-2000.txt": generated("newton-2000.txt", 2000, 300, 60, 40, 7),
    "newton-classes.txt": generated("newton-classes.txt", 600, 60, 104, 4, 8, "--skew", "0"),
    # Dense rows: work of up to 2e7.
    "dense.txt": {"dense": {"rows": 300, "features": 10, "classes": 3, "seed": 1}},
    "dense-large.txt": {"dense": {"rows": 7000, "features": 40, "classes": 64, "seed": 2}},
    "dense-wide.txt": {"dense": {"rows": 300, "features": 130, "classes": 130, "seed": 3}},
    "few.txt": generated("few.txt", 40, 30, 5, 6, 9),
    "few-wide.txt": generated("few-wide.txt", 45, 200, 80, 12, 10, "--skew", "0"),
    "one-row.txt": {"dense": {"rows": 1, "features": 3, "classes": 1, "seed": 4}},
    "one-class.txt": {"dense": {"rows": 60, "features": 5, "classes": 1, "seed": 5}},
    "two-classes.txt": generated("two-classes.txt", 500, 50, 2, 8, 11),
    "huge.txt": {"dense": {"rows": 120, "features": 6, "classes": 4, "seed": 6, "low": 1e29, "high": 1e30}},
    "huge-wide.txt": {"dense": {"rows": 200, "features": 70, "classes": 70, "seed": 7, "low": 1e29, "high": 1e30}},
    "middle-wide.txt": {"dense": {"rows": 200, "features": 70, "classes": 70, "seed": 7}},
    "far-wide.txt": {"dense": {"rows": 200, "features": 70, "classes": 70, "seed": 7, "low": 1e37, "high": 1e38}},
    "tiny.txt": {"dense": {"rows": 120, "features": 6, "classes": 4, "seed": 8, "low": 1e-30, "high": 1e-29}},
    "short.txt": {"dense": {"rows": 400, "features": 8, "classes": 5, "seed": 9, "low": 0.01, "high": 0.05}},
    "short-wide.txt": {"dense": {"rows": 300, "features": 80, "classes": 80, "seed": 10, "low": 0.001, "high": 0.005}},
    "column.txt": {"one_column": {"rows": 1500, "classes": 70, "seed": 11, "size": 1e7}},
    "column-huge.txt": {"one_column": {"rows": 1500, "classes": 70, "seed": 11, "size": 1e35}},
    "column-tiny.txt": {"one_column": {"rows": 1500, "classes": 70, "seed": 11, "size": 1e-30}},
    "several.txt": {"several_labels": {"rows": 500, "features": 90, "classes": 90, "seed": 12}},
    "few-several.txt": {"several_labels": {"rows": 45, "features": 90, "classes": 90, "seed": 16}},
    "empty.txt": {"empty_rows": {"rows": 90, "classes": 4}},
    "weights.txt": {"row_weights": {"rows": 400, "seed": 13}},
    "words.txt": generated("words.txt", 800, 300, 70, 8, 12, "--format", "fasttext"),
    "other-words.txt": {"labelled_lines": {"lines": 100}},
    "text.txt": {"text": {"lines": 400, "words": 90, "seed": 14}},
    "triples.txt": {"triples": {"count": 600, "entities": 40, "relations": 4, "seed": 15}},
    "plain.cache": ["convert", "plain.txt", "plain.cache"],
    "wide.cache": ["convert", "wide.txt", "wide.cache"],
    "steps.cache": ["convert", "steps.txt", "steps.cache"],
    "text.cache": ["convert", "text.txt", "text.cache", "--format", "text"],
    # Models to start from.
    "linear.safetensors": trained("linear.safetensors", "wide.txt", "--method", "prox", "--epochs", "2"),
    "intercept.safetensors": trained("intercept.safetensors", "wide.txt", "--method", "prox", "--epochs", "2",
                                     "--intercept"),
    "learnt.safetensors": trained("learnt.safetensors", "wide.txt", "--method", "scent", "--hidden", "32",
                                  "--rows-per-step", "32", "--epochs", "2"),
    "normalized.safetensors": trained("normalized.safetensors", "wide.txt", "--method", "prox", "--epochs", "2",
                                      "--normalize", "l2"),
    "words.safetensors": trained("words.safetensors", "words.txt", "--method", "prox", "--epochs", "2"),
    "text.safetensors": trained("text.safetensors", "text.txt", "--format", "text", "--method", "scent", "--hidden",
                                "16", "--epochs", "2", "--rows-per-step", "32"),
    "triples.safetensors": trained("triples.safetensors", "triples.txt", "--format", "triples", "--method", "scent",
                                   "--hidden", "16", "--epochs", "2", "--rows-per-step", "32"),
}

CASES = []


def case(name, data, options="", stop=False, limit="16G", threads=2, ranks=0, card="none"):
    assert all(name != other["case"] for other in CASES), name
    CASES.append({"case": name, "data": data, "words": options.split(), "stop": stop,
                  "machine": {"memory-limit": limit, "threads": threads, "ranks": ranks, "card": card}})


def plan(name, data, options="", **machine):
    """A case of which only the plan counts: it is stopped then."""
    case(name, data, options, stop=True, **machine)


# Nothing asked.
for NAME in ("plain", "wide", "head", "steps", "newton-1999", "newton-2000", "newton-classes", "dense", "dense-large",
             "dense-wide", "few", "few-wide", "one-row", "one-class", "two-classes", "huge", "tiny", "short",
             "short-wide", "column", "column-huge", "column-tiny", "several", "empty", "words", "few-several"):
    case(f"plain {NAME}", f"{NAME}.txt")
plan("plain blocks", "blocks.txt")
plan("plain vast", "vast.txt")
plan("plain huge-wide", "huge-wide.txt")
plan("plain classes", "classes.txt")
case("plain few-several all", "few-several.txt", "--labels all")
case("plain several all", "several.txt", "--labels all")
case("plain weighted", "plain.txt", "--row-weights weights.txt")
case("plain balanced", "plain.txt", "--class-weights balanced")
case("plain one thread", "plain.txt", threads=1)
plan("plain wide one thread", "wide.txt", threads=1)
case("plain short normalized", "short-wide.txt", "--normalize l2")
case("plain words hashed", "words.txt", "--hash-features 64")
plan("plain max-features", "wide.txt", "--max-features 60")
plan("plain max-rows", "wide.txt", "--max-rows 49")
case("plain cache", "plain.cache")

# Every method by itself.
for NAME in ("implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce", "importance",
             "softplus", "exact", "adam", "lbfgs", "bsgd"):
    case(f"method {NAME}", "plain.txt", f"--method {NAME} --epochs 2")
for NAME in ("implicit", "raman", "adam", "lbfgs"):
    plan(f"method {NAME} head", "head.txt", f"--method {NAME}")
case("method prox with all it takes", "plain.txt", "--method prox --epochs 3 --step 2 --ridge 1 --intercept "
     "--start-at-frequencies --schedule linear --visit shuffle --classes-per-step 4 --rho 0.5 --no-rho-falls --seed 9")
case("method prox of short rows", "short.txt", "--method prox --epochs 2 --intercept")
case("method lbfgs with options of steps", "plain.txt", "--method lbfgs --epochs 5 --step 1 --visit file --decay 0.5 "
     "--schedule linear --rows-per-step 5 --classes-per-step 3 --draw blocks --head 16")
case("method adam of 256", "plain.txt", "--method adam --epochs 2 --rows-per-step 256 --step 0.1")
case("method with options of others", "plain.txt", "--method nce --epochs 2 --delta 2 --sox-rate 0.5 --log-q "
     "--label-noise --refresh 2")
case("method bsgd with an option of importance", "plain.txt", "--method bsgd --epochs 2 --no-log-q")
case("method exact with classes-per-step", "plain.txt", "--method exact --epochs 1 --classes-per-step 5")
case("method several all", "several.txt", "--method prox --epochs 2 --labels all")
case("method one class", "one-class.txt", "--method prox --epochs 1")
case("method decay of a linear schedule", "plain.txt", "--method prox --epochs 1 --schedule linear --decay 0.5")
case("method ridge-intercept without intercept", "plain.txt", "--method prox --epochs 1 --ridge 1 --ridge-intercept")

# Every draw.
for NAME in ("uniform", "uniform-skip", "all", "frequency", "blocks", "head-blocks", "active"):
    plan(f"draw {NAME}", "head.txt", f"--method prox --epochs 1 --classes-per-step 32 --draw {NAME}")
    plan(f"draw {NAME} of auto", "wide.txt", f"--draw {NAME}")
case("draw of rows that active refuses", "plain.txt", "--method scent --rows-per-step 4 --draw active")
case("draw blocks of rows", "plain.txt", "--method scent --epochs 1 --rows-per-step 4 --draw blocks")
plan("draw head of auto", "head.txt", "--head 100")
plan("draw head of auto, Newton's data", "plain.txt", "--head 0")
case("draw head of uniform", "plain.txt", "--method prox --epochs 1 --head 32")
plan("draw rivals of auto", "head.txt", "--rivals 2")
plan("draw rivals and target of auto", "blocks.txt", "--rivals 2 --target train")
plan("draw rivals", "head.txt", "--method prox --epochs 1 --draw blocks --rivals 4")
plan("draw rivals of uniform", "head.txt", "--method prox --epochs 1 --rivals 4")
case("draw rivals of several rows", "head.txt", "--method scent --epochs 1 --draw blocks --rivals 4 --rows-per-step 2")
case("draw power and active of blocks", "plain.txt",
     "--method prox --epochs 1 --draw blocks --draw-power 0.5 --active 3")
plan("draw power of auto", "wide.txt", "--draw-power 0.5 --draw-uniform 0.5")
plan("draw active count of auto", "wide.txt", "--active 3")

# Single options of auto.
SINGLE = ("step 0.5", "ridge 1", "ridge 0", "ridge auto", "epochs 3", "epochs 0", "steps 300", "schedule decay",
          "visit file", "rho 0.5", "no-rho-falls", "decay 0.5", "no-intercept", "intercept", "no-start-at-frequencies",
          "classes-per-step 5", "eval-every 1", "seed 7", "ridge-intercept", "delta 2", "eval sampled")
for NAME in SINGLE:
    case(f"auto {NAME}", "plain.txt", f"--{NAME}")
for NAME in SINGLE[:-8]:
    plan(f"auto wide {NAME}", "wide.txt", f"--{NAME}")
for NAME in ("plain", "wide", "steps"):
    for SECONDS in ("0.001", "0.05", "20"):
        plan(f"auto {NAME} seconds {SECONDS}", f"{NAME}.txt", f"--seconds {SECONDS}")
case("auto step, ridge and epochs", "wide.txt", "--step 5 --ridge 1 --epochs 3")
case("auto ridge and epochs", "wide.txt", "--ridge 1 --epochs 3")
case("auto ridge and epochs, Newton's data", "plain.txt", "--ridge 1 --epochs 3")
case("auto ridge and step, Newton's data", "plain.txt", "--ridge 1 --step 3")
case("auto epochs 0 and hidden", "wide.txt", "--epochs 0 --hidden 32")
plan("auto epochs unlimited and steps", "wide.txt", "--epochs unlimited --steps 50")
plan("auto epochs and seconds", "wide.txt", "--epochs 4 --seconds 3")
plan("auto epochs and seconds and encoder", "wide.txt", "--epochs 4 --seconds 3 --encoder bag")
case("auto few with valid-share", "few.txt", "--valid-share 0.2")
plan("auto rows-per-step", "plain.txt", "--rows-per-step 8")
case("auto rows-per-step 1", "plain.txt", "--rows-per-step 1")
plan("auto wide rows-per-step 1", "wide.txt", "--rows-per-step 1")

# The training likelihood.
for NAME in ("plain", "wide", "head", "blocks", "steps", "few", "huge", "column", "column-huge", "column-tiny",
             "several", "one-class", "classes"):
    plan(f"train {NAME}", f"{NAME}.txt", "--target train")
case("train newton", "plain.txt", "--target train --ridge 1")
case("train adam", "steps.txt", "--target train")
case("train lbfgs", "wide.txt", "--target train --epochs 80")
case("train prox", "wide.txt", "--target train --epochs 5")
plan("train adam of 79 epochs", "wide.txt", "--target train --epochs 79")
plan("train adam of 8 epochs", "steps.txt", "--target train --epochs 8")
plan("train prox of 7 epochs", "steps.txt", "--target train --epochs 7")
for SECONDS in ("0.001", "0.3", "2", "1000"):
    plan(f"train wide seconds {SECONDS}", "wide.txt", f"--target train --seconds {SECONDS}")
    plan(f"train blocks seconds {SECONDS}", "blocks.txt", f"--target train --seconds {SECONDS}")
plan("train huge-wide", "huge-wide.txt", "--target train")
case("train ridge", "steps.txt", "--target train --ridge 2")
case("train intercept", "steps.txt", "--target train --intercept")
plan("train column intercept", "column.txt", "--target train --intercept")
plan("train step", "steps.txt", "--target train --step 3")
plan("train a number of steps", "steps.txt", "--target train --steps 300")
plan("train rows-per-step", "steps.txt", "--target train --rows-per-step 1")
plan("train draw", "steps.txt", "--target train --draw blocks")
plan("train rho", "steps.txt", "--target train --rho 0.5")
plan("train group", "blocks.txt", "--target train --group 8")
plan("train hidden", "wide.txt", "--target train --hidden 32")
plan("train bag", "wide.txt", "--target train --encoder bag")
plan("train newton given", "steps.txt", "--target train --newton 5")
plan("train encoder linear", "wide.txt", "--target train --encoder linear")
case("train valid file", "steps.txt", "--target train --valid steps.txt")
plan("train lock-free", "steps.txt", "--target train --lock-free")
plan("train text", "text.txt", "--target train --format text")
case("train refuses valid-share", "plain.txt", "--target train --valid-share 0.1")
case("train refuses ridge auto", "plain.txt", "--target train --ridge auto")
case("train refuses a method", "plain.txt", "--target train --method prox")
case("train refuses patience", "plain.txt", "--target train --patience 2")

# Newton's method.
case("newton given", "plain.txt", "--newton 10")
case("newton 0", "plain.txt", "--newton 0")
case("newton given with epochs", "plain.txt", "--newton 10 --epochs 2")
case("newton given with step", "plain.txt", "--newton 10 --step 1")
case("newton given with ridge", "plain.txt", "--newton 10 --ridge 1")
plan("newton given, learnt features possible", "wide.txt", "--newton 5")
case("newton with valid-share", "plain.txt", "--newton 5 --valid-share 0.2")
case("newton with valid", "plain.txt", "--valid valid.txt")
case("newton of a named method", "plain.txt", "--method prox --newton 10 --epochs 0")
case("newton after epochs", "plain.txt", "--method prox --newton 3 --epochs 2")
case("newton after exact", "plain.txt", "--method exact --newton 3 --epochs 2 --ridge 1 --intercept")
case("newton by spread", "plain.txt", "--method prox --newton 10 --epochs 0 --ridge 1 --ridge-by-spread")
case("newton by spread of auto", "plain.txt", "--newton 10 --ridge-by-spread")
case("newton by spread of auto without newton", "plain.txt", "--ridge-by-spread")
case("newton by spread after epochs", "plain.txt", "--method prox --newton 10 --epochs 2 --ridge-by-spread")
case("newton of learnt features", "wide.txt", "--newton 10 --hidden 32")
case("newton of a bag", "wide.txt", "--newton 10 --encoder bag")
case("newton of lbfgs", "plain.txt", "--method lbfgs --newton 2 --epochs 2")
case("newton closed by schedule and lock-free", "plain.txt", "--schedule linear --lock-free")
case("newton of one row", "one-row.txt", "--newton 5 --ridge 1")

# Learnt features.
case("hidden", "wide.txt", "--hidden 32")
plan("hidden more than classes", "plain.txt", "--hidden 128")
plan("hidden with all found", "wide.txt", "--hidden 32 --step 0.01 --ridge 1 --epochs 2")
plan("hidden with draw", "wide.txt", "--hidden 32 --draw uniform --classes-per-step 50")
plan("hidden with rows-per-step", "wide.txt", "--hidden 32 --rows-per-step 7")
plan("hidden with seconds", "wide.txt", "--hidden 32 --seconds 2")
plan("hidden with rho", "wide.txt", "--hidden 32 --rho 0.5 --rho-falls")
plan("hidden with row-state", "wide.txt", "--hidden 32 --row-state")
plan("hidden without row-state", "wide.txt", "--hidden 32 --no-row-state")
plan("hidden with dropout", "wide.txt", "--hidden 32 --dropout 0.3")
plan("hidden lock-free", "wide.txt", "--hidden 32 --lock-free")
case("hidden of huge rows", "huge-wide.txt", "--hidden 16")
case("hidden of huge validation rows", "middle-wide.txt", "--hidden 16 --epochs 1 --valid far-wide.txt")
case("hidden of huge test rows", "middle-wide.txt", "--hidden 16 --epochs 1 --test far-wide.txt")
case("hidden of rows beyond float", "far-wide.txt", "--hidden 16 --epochs 1")
plan("hidden of short rows", "short-wide.txt", "--hidden 16")
plan("hidden of few rows", "few.txt", "--hidden 16")
plan("hidden of weighted rows", "plain.txt", "--hidden 16 --row-weights weights.txt")
plan("hidden of a named method", "wide.txt", "--method scent --hidden 32 --epochs 2")
plan("hidden of a named method, row-state", "wide.txt", "--method scent --hidden 32 --epochs 2 --row-state")
plan("hidden with shard-embedding", "wide.txt", "--hidden 32 --shard-embedding")
case("hidden of prox", "wide.txt", "--method prox --hidden 32")
case("hidden tied", "wide.txt", "--hidden 32 --tied")
case("hidden layers", "wide.txt", "--hidden 32 --layers 1")
case("encoder linear", "wide.txt", "--encoder linear")
plan("encoder bag", "wide.txt", "--encoder bag")
plan("encoder bag, too few classes", "plain.txt", "--encoder bag")
plan("encoder bag of few rows", "few-wide.txt", "--encoder bag")
plan("encoder bag with seconds", "wide.txt", "--encoder bag --seconds 2")
plan("encoder bag with step", "wide.txt", "--encoder bag --step 0.01")
plan("encoder bag of scent and hidden", "wide.txt", "--method scent --hidden 8 --encoder bag --epochs 1")
case("encoder bag of a named method", "wide.txt", "--method scent --encoder bag")
case("encoder linear with hidden", "wide.txt", "--encoder linear --hidden 32")
case("encoder linear with layers", "wide.txt", "--encoder linear --layers 1")
for NAME in ("context", "cbow", "skipgram", "complex"):
    case(f"encoder {NAME} of rows", "wide.txt", f"--encoder {NAME}")
    plan(f"encoder {NAME} of rows, hidden", "wide.txt", f"--encoder {NAME} --hidden 16")
for NAME in ("layers 1", "tied", "dropout 0.1", "row-state"):
    case(f"linear with {NAME}", "plain.txt", f"--method prox --{NAME}")
case("linear with shard-embedding", "plain.txt", "--method prox --shard-embedding")
plan("auto with shard-embedding", "wide.txt", "--shard-embedding")
case("auto with shard-embedding, Newton's data", "plain.txt", "--shard-embedding")
plan("auto with tied", "wide.txt", "--tied")

# Plain text.
plan("text", "text.txt", "--format text")
case("text with all found", "text.txt", "--format text --hidden 16 --step 0.01 --epochs 1 --layers 0 --no-tied "
     "--dropout 0 --ridge 1")
for NAME in ("context", "cbow", "skipgram"):
    plan(f"text {NAME}", "text.txt", f"--format text --encoder {NAME}")
plan("text hidden", "text.txt", "--format text --hidden 32")
plan("text layers", "text.txt", "--format text --layers 1")
plan("text tied", "text.txt", "--format text --tied")
plan("text dropout", "text.txt", "--format text --dropout 0.1")
plan("text seconds", "text.txt", "--format text --seconds 5")
plan("text epochs", "text.txt", "--format text --epochs 3")
plan("text ridge auto", "text.txt", "--format text --ridge auto")
plan("text scent", "text.txt", "--format text --method scent --hidden 16 --epochs 1")
plan("text scent cbow", "text.txt", "--format text --method scent --hidden 16 --epochs 1 --encoder cbow --tied")
plan("text of three words", "text.txt", "--format text --context 3 --min-count 5")
case("text of a method", "text.txt", "--format text --method prox")
case("text linear", "text.txt", "--format text --encoder linear")
case("text bag", "text.txt", "--format text --encoder bag")
case("text complex", "text.txt", "--format text --encoder complex")
case("text layers of cbow", "text.txt", "--format text --encoder cbow --layers 1")
plan("text no layers of cbow", "text.txt", "--format text --encoder cbow --layers 0")
case("text newton", "text.txt", "--format text --newton 5")
case("text group", "text.txt", "--format text --group 5")

# Triples.
plan("triples", "triples.txt", "--format triples")
case("triples with all found", "triples.txt", "--format triples --hidden 16 --step 0.01 --epochs 1 --ridge 0.1")
plan("triples hidden", "triples.txt", "--format triples --hidden 32")
plan("triples ridge", "triples.txt", "--format triples --ridge 0.1")
plan("triples seconds", "triples.txt", "--format triples --seconds 5")
plan("triples target", "triples.txt", "--format triples --target train")
plan("triples scent", "triples.txt", "--format triples --method scent --hidden 16 --epochs 1")
case("triples odd", "triples.txt", "--format triples --hidden 31")
case("triples intercept", "triples.txt", "--format triples --intercept")
case("triples linear", "triples.txt", "--format triples --encoder linear")
case("triples bag", "triples.txt", "--format triples --encoder bag")
case("triples context", "triples.txt", "--format triples --encoder context")
plan("triples complex", "triples.txt", "--format triples --encoder complex")
case("triples of scent without hidden", "triples.txt", "--format triples --method scent")
case("triples of prox", "triples.txt", "--format triples --method prox --hidden 16")
case("triples tied", "triples.txt", "--format triples --tied")
plan("triples start-at-frequencies", "triples.txt", "--format triples --start-at-frequencies")
plan("triples recognised", "triples.txt")

# Shapes of steps.
case("shape rows", "plain.txt", "--method scent --epochs 1 --rows-per-step 400")
case("shape too many rows", "plain.txt", "--method scent --epochs 1 --rows-per-step 401")
case("shape too many rows of prox", "plain.txt", "--method prox --rows-per-step 2")
case("shape most rows of implicit", "steps.txt", "--method implicit --epochs 1 --rows-per-step 1024", stop=True)
case("shape too many rows of implicit", "steps.txt", "--method implicit --rows-per-step 1025")
case("shape too many rows of auto", "plain.txt", "--rows-per-step 500")
case("shape too many rows of hidden", "few.txt", "--hidden 8 --rows-per-step 41")
case("shape rows of lbfgs", "plain.txt", "--method lbfgs --epochs 1 --rows-per-step 401")
plan("shape most classes", "plain.txt", "--method prox --epochs 1 --classes-per-step 1200")
case("shape too many classes", "plain.txt", "--method prox --epochs 1 --classes-per-step 1201")
plan("shape classes of several rows", "plain.txt", "--method scent --epochs 1 --classes-per-step 12 --rows-per-step 4")
plan("shape all other classes", "plain.txt", "--method prox --epochs 1 --classes-per-step 11")
plan("shape classes of draw all", "plain.txt", "--method prox --epochs 1 --classes-per-step 5 --draw all")
plan("shape more classes than there are, of auto", "plain.txt", "--classes-per-step 500")
case("shape more classes than there are, of hidden", "plain.txt", "--hidden 8 --classes-per-step 1201")

# Groups of rows.
for NAME in ("prox", "scent", "umax", "exact"):
    case(f"group {NAME}", "plain.txt", f"--method {NAME} --epochs 1 --group 8")
for NAME in ("implicit", "vanilla", "adam", "lbfgs", "bsgd"):
    case(f"group {NAME}", "plain.txt", f"--method {NAME} --epochs 1 --group 8")
case("group auto", "plain.txt", "--group 8")
plan("group auto wide", "wide.txt", "--group 16")
plan("group auto head", "head.txt", "--group 64 --encoder linear")
plan("group more than the rows", "plain.txt", "--method prox --epochs 1 --group 4096")
plan("group of auto more than the rows", "plain.txt", "--group 4096")
plan("group one thread", "plain.txt", "--method prox --epochs 1 --group 8", threads=1)
plan("group ridge", "plain.txt", "--method prox --epochs 1 --group 8 --ridge 1")
plan("group head", "head.txt", "--method prox --epochs 1 --group 8 --draw head-blocks")
case("group 1", "plain.txt", "--method prox --epochs 1 --group 1")
case("group with draw uniform", "plain.txt", "--method prox --epochs 1 --group 8 --draw uniform")
case("group of exact with draw uniform", "plain.txt", "--method exact --epochs 1 --group 8 --draw uniform")
case("group with rows-per-step", "plain.txt", "--method scent --epochs 1 --group 8 --rows-per-step 4")
case("group with newton", "plain.txt", "--method prox --epochs 1 --group 8 --newton 2")
case("group with newton of auto", "plain.txt", "--group 8 --newton 2")
case("group with lock-free", "plain.txt", "--method prox --epochs 1 --group 8 --lock-free")
case("group with rivals", "plain.txt", "--method prox --epochs 1 --group 8 --rivals 2")
case("group with double-sum-alpha", "plain.txt", "--method umax --epochs 1 --group 8 --double-sum-alpha 0.5")
case("group of huge rows", "huge.txt", "--method prox --epochs 1 --group 4")
case("group of huge rows of auto", "huge.txt", "--group 4")
case("group of huge normalized rows", "huge.txt", "--method prox --epochs 1 --group 4 --normalize l2")
case("group of tiny rows", "tiny.txt", "--method prox --epochs 1 --group 4")
case("group of hidden", "wide.txt", "--hidden 32 --group 8")
case("group of bag", "wide.txt", "--encoder bag --group 8")
case("group of the training likelihood", "plain.txt", "--group 8 --target train")

# Lock-free steps.
case("lock-free auto", "plain.txt", "--lock-free")
plan("lock-free auto wide", "wide.txt", "--lock-free")
plan("lock-free one thread", "wide.txt", "--lock-free", threads=1)
plan("lock-free prox", "plain.txt", "--method prox --lock-free --draw blocks")
plan("lock-free prox head", "plain.txt", "--method prox --lock-free --draw head-blocks")
plan("lock-free implicit", "plain.txt", "--method implicit --lock-free --draw blocks")
case("lock-free implicit with ridge", "plain.txt", "--method implicit --lock-free --draw blocks --ridge 1")
case("lock-free prox of uniform", "plain.txt", "--method prox --lock-free")
case("lock-free auto of uniform", "plain.txt", "--lock-free --draw uniform")
case("lock-free scent", "plain.txt", "--method scent --lock-free --draw blocks")
case("lock-free exact", "plain.txt", "--method exact --lock-free")
case("lock-free rows", "plain.txt", "--method implicit --lock-free --draw blocks --rows-per-step 4")
case("lock-free rows of auto", "plain.txt", "--lock-free --rows-per-step 4")
plan("lock-free scent hidden", "wide.txt", "--method scent --hidden 16 --lock-free --epochs 1")
plan("lock-free with newton", "plain.txt", "--method prox --lock-free --draw blocks --newton 2 --epochs 1")

# Validation, evaluation, the end of a run.
case("valid share", "plain.txt", "--method prox --epochs 2 --valid-share 0.2")
case("valid share of auto", "steps.txt", "--valid-share 0.2")
case("valid share 0 of auto", "steps.txt", "--valid-share 0")
case("valid share 0 of auto wide", "wide.txt", "--valid-share 0")
case("valid file", "plain.txt", "--method prox --epochs 2 --valid valid.txt")
case("valid file of auto", "steps.txt", "--valid steps.txt --encoder linear")
plan("valid file of few rows", "few.txt", "--valid valid.txt")
case("valid file and share", "plain.txt", "--valid valid.txt --valid-share 0.1")
case("valid patience", "plain.txt", "--method prox --epochs 5 --valid-share 0.2 --patience 2")
plan("valid patience without end", "plain.txt", "--method prox --epochs unlimited --valid-share 0.2 --patience 2")
case("valid patience without rows", "plain.txt", "--method prox --patience 2")
case("valid patience of auto", "plain.txt", "--patience 2")
case("valid patience of auto with epochs and valid", "steps.txt", "--patience 2 --epochs 5 --valid steps.txt")
case("valid patience of auto, Newton's data", "plain.txt", "--patience 2 --valid valid.txt")
case("valid patience without evaluations", "plain.txt",
     "--method prox --valid-share 0.2 --patience 2 --eval-every 0")
case("valid patience without evaluations of auto", "steps.txt", "--patience 2 --eval-every 0 --step 1 --ridge 1 "
     "--epochs 3 --valid steps.txt")
plan("valid patience and seconds", "plain.txt", "--method prox --valid-share 0.2 --patience 2 --seconds 3")
case("valid eval-every", "plain.txt", "--method prox --epochs 5 --valid-share 0.2 --patience 1 --eval-every 2")
case("valid eval-classes of exact", "plain.txt", "--eval-classes 64")
case("valid eval sampled", "plain.txt", "--method prox --epochs 1 --eval sampled --eval-classes 64 --eval-rows 100")
case("valid no-eval-train", "plain.txt", "--no-eval-train")
case("valid no-eval-train with share of auto", "plain.txt", "--no-eval-train --valid-share 0.2")
case("valid no-eval-train with valid", "plain.txt", "--method prox --epochs 1 --no-eval-train --valid valid.txt")
case("valid share of one row", "one-row.txt", "--method prox --epochs 1 --valid-share 0.5")
case("end unlimited", "plain.txt", "--method prox --epochs unlimited")
case("end unlimited of auto", "plain.txt", "--epochs unlimited")
plan("end unlimited with seconds", "plain.txt", "--method prox --epochs unlimited --seconds 2")
plan("end steps", "plain.txt", "--method prox --steps 100")
plan("end seconds", "plain.txt", "--method prox --seconds 1")
plan("end seconds with epochs", "plain.txt", "--method prox --seconds 1 --epochs 5")
case("end epochs 0", "plain.txt", "--method prox --epochs 0")

# Rules that check() has and others before it.
case("check ridge auto of a method", "plain.txt", "--method prox --ridge auto")
case("check start-at-frequencies", "plain.txt", "--method prox --start-at-frequencies")
case("check start-at-frequencies of auto", "plain.txt", "--start-at-frequencies --no-intercept")
case("check resume without checkpoint", "plain.txt", "--resume")
case("check checkpoint-every without checkpoint", "plain.txt", "--checkpoint-every 1h")
case("check several wrongs", "plain.txt", "--method prox --ridge auto --rows-per-step 5 --start-at-frequencies "
     "--lock-free --patience 3 --device cuda")
case("check wrongs of the data and the machine", "plain.txt", "--method prox --rows-per-step 1 "
     "--classes-per-step 9999 --device cuda --patience 1")
case("check test-label-file", "plain.txt", "--test-label-file valid.txt")
case("check no such file", "absent.txt", "--method prox --patience 2")

# GPUs.
case("device cuda without library", "plain.txt", "--device cuda")
case("device cuda without library, named", "plain.txt", "--method prox --epochs 1 --device cuda")
for NAME in ("no card", "no driver", "other version", "busy"):
    case(f"device cuda with {NAME}", "plain.txt", "--method prox --epochs 1 --device cuda", card=NAME)
    case(f"device auto with {NAME}", "plain.txt", "--method prox --seconds 0.05 --device auto", card=NAME, stop=True)
case("device cuda:7", "plain.txt", "--device cuda:7", card="one")
case("device cuda:7 of two", "plain.txt", "--device cuda:7", card="two")
plan("device cuda:1 of two", "plain.txt", "--device cuda:1 --method prox --epochs 1", card="two")
case("device gpu", "plain.txt", "--device gpu", card="one")
for NAME in ("prox", "implicit", "scent", "umax", "exact"):
    plan(f"device cuda {NAME}", "plain.txt", f"--method {NAME} --epochs 1 --device cuda", card="one")
for NAME in ("vanilla", "adam", "lbfgs", "nce"):
    case(f"device cuda {NAME}", "plain.txt", f"--method {NAME} --epochs 1 --device cuda", card="one")
plan("device cuda auto", "plain.txt", "--device cuda", card="one")
plan("device cuda auto wide", "wide.txt", "--device cuda", card="one")
plan("device cuda auto head", "head.txt", "--device cuda --encoder linear", card="one")
plan("device cuda train", "blocks.txt", "--device cuda --target train", card="one")
plan("device cuda train steps", "steps.txt", "--device cuda --target train", card="one")
plan("device cuda hidden", "wide.txt", "--device cuda --hidden 32", card="one")
plan("device cuda bag", "wide.txt", "--device cuda --encoder bag", card="one")
case("device cuda hidden without room", "head.txt", "--device cuda --hidden 20000", card="one")
case("device cuda linear without room", "vast.txt", "--device cuda --method prox --epochs 1", card="one")
case("device cuda auto without room", "vast.txt", "--device cuda --encoder linear", card="one")
plan("device cuda text", "text.txt", "--device cuda --format text", card="one")
plan("device cuda triples", "triples.txt", "--device cuda --format triples", card="one")
case("device cuda stream", "plain.cache", "--device cuda --stream --method prox --epochs 1", card="one")
case("device cuda stream auto", "plain.cache", "--device cuda --stream", card="one")
case("device cuda stream hidden", "wide.cache", "--device cuda --stream --hidden 16 --epochs 1 --step 0.01 --ridge 0",
     card="one")
case("device cuda newton", "plain.txt", "--device cuda --method prox --newton 2 --epochs 1", card="one")
case("device cuda newton auto", "plain.txt", "--device cuda --newton 2", card="one")
case("device cuda huge", "huge.txt", "--device cuda --method prox --epochs 1", card="one")
case("device cuda huge auto", "huge.txt", "--device cuda", card="one")
case("device cuda huge exact", "huge.txt", "--device cuda --method exact --epochs 1", card="one")
case("device cuda rows-per-step", "plain.txt", "--device cuda --method scent --epochs 1 --rows-per-step 4", card="one")
case("device cuda rows-per-step exact", "plain.txt", "--device cuda --method exact --epochs 1 --rows-per-step 4",
     card="one", stop=True)
case("device cuda draw uniform", "plain.txt", "--device cuda --method prox --epochs 1 --draw uniform", card="one")
case("device cuda draw uniform auto", "plain.txt", "--device cuda --draw uniform", card="one")
case("device cuda double-sum-alpha", "plain.txt", "--device cuda --method umax --epochs 1 --double-sum-alpha 0.5",
     card="one")
case("device cuda too many blocks", "head.txt", "--device cuda --method prox --epochs 1 --draw head-blocks --head 600",
     card="one")
case("device cuda group", "plain.txt", "--device cuda --method prox --epochs 1 --group 8", card="one", stop=True)
case("device cuda lock-free", "plain.txt", "--device cuda --method prox --epochs 1 --lock-free", card="one", stop=True)
plan("device auto named", "plain.txt", "--device auto --method prox --epochs 1", card="one")
plan("device auto seconds", "steps.txt", "--seconds 5", card="one")
plan("device auto seconds named", "steps.txt", "--seconds 5 --method prox --draw blocks --device auto", card="one")
plan("device auto seconds uniform", "steps.txt", "--seconds 5 --method prox --device auto", card="one")
plan("device auto seconds hidden", "wide.txt", "--seconds 5 --hidden 32", card="one")
plan("device auto seconds train", "wide.txt", "--seconds 5 --target train", card="one")
plan("device auto seconds stream", "steps.cache", "--seconds 5 --stream", card="one")
plan("device auto seconds huge", "huge.txt", "--seconds 5", card="one")
plan("device auto seconds without room", "vast.txt", "--seconds 5 --encoder linear", card="one")
plan("device auto seconds, Newton's data", "plain.txt", "--seconds 5", card="one")
plan("device auto seconds cpu", "steps.txt", "--seconds 5 --device cpu", card="one")
plan("device auto seconds busy", "steps.txt", "--seconds 5", card="busy")
plan("device auto epochs", "steps.txt", "--epochs 5000 --encoder linear", card="one")
plan("device auto epochs few", "steps.txt", "--epochs 5 --encoder linear", card="one")

# Streams.
case("stream", "plain.cache", "--stream")
plan("stream wide", "wide.cache", "--stream")
plan("stream wide window", "wide.cache", "--stream --stream-window 1M")
case("stream steps linear", "steps.cache", "--stream --encoder linear")
plan("stream train", "steps.cache", "--stream --target train")
plan("stream hidden", "wide.cache", "--stream --hidden 16")
case("stream prox", "plain.cache", "--stream --method prox --epochs 2")
plan("stream group", "plain.cache", "--stream --method prox --epochs 1 --group 8")
for NAME in ("lbfgs", "composition", "raman", "adam"):
    case(f"stream {NAME}", "plain.cache", f"--stream --method {NAME} --epochs 1")
case("stream newton", "plain.cache", "--stream --newton 3")
case("stream newton named", "plain.cache", "--stream --method prox --newton 3 --epochs 1")
case("stream of no cache", "plain.txt", "--stream")
case("stream of text", "text.cache", "--stream")
case("stream window without stream", "plain.cache", "--stream-window 1M")
case("stream max-rows", "plain.cache", "--stream --max-rows 10")
case("stream row-weights", "plain.cache", "--stream --row-weights weights.txt")
case("stream valid-share", "plain.cache", "--stream --method prox --epochs 1 --valid-share 0.2")
plan("stream active", "wide.cache", "--stream --method prox --epochs 1 --draw active")

# Memory.
MEMORY = (("vast", "", "60M"), ("vast", "", "100M"), ("vast", "", "130M"), ("vast", "", "36M"), ("vast", "", "30M"),
          ("vast", "--encoder linear", "60M"), ("vast", "--encoder bag", "60M"), ("vast", "--encoder bag", "32M"),
          ("vast", "--method prox --epochs 1", "60M"), ("vast", "--method adam --epochs 1", "200M"),
          ("vast", "--method lbfgs --epochs 1", "300M"), ("vast", "--method composition --epochs 1", "200M"),
          ("vast", "--target train", "60M"), ("vast", "--seconds 2", "60M"),
          ("vast", "--method prox --epochs 1", "20M"), ("vast", "--hidden 512", "60M"),
          ("vast", "--hidden 256 --row-state", "40M"), ("vast", "--hidden 256", "48M"),
          ("vast", "--hidden 256", "43M"), ("vast", "--hidden 256 --no-row-state", "43M"),
          ("wide", "", "25M"), ("wide", "", "24500K"), ("wide", "--hidden 64", "25M"),
          ("plain", "", "25M"), ("plain", "", "2M"), ("plain", "", "100K"),
          ("plain", "--method prox --epochs 1", "24M"),
          ("vast", "--method prox --epochs 2 --valid-share 0.1 --patience 1", "150M"),
          ("vast", "--method prox --epochs 2 --valid-share 0.1 --patience 1", "300M"),
          ("vast", "--method prox --epochs 2 --valid-share 0.1 --patience 1", "100M"))
for NAME, OPTIONS, LIMIT in MEMORY:
    plan(f"memory {LIMIT} of {NAME} {OPTIONS}".strip(), f"{NAME}.txt", OPTIONS, limit=LIMIT)
plan("memory of a stream", "steps.cache", "--stream", limit="40M")
case("memory of a stream, too little", "steps.cache", "--stream", limit="20M")
case("memory of a stream, too large a window", "steps.cache", "--stream --stream-window 20M", limit="30M")
case("memory of text", "text.txt", "--format text --hidden 4096", limit="30M")
case("memory of triples", "triples.txt", "--format triples --hidden 65536", limit="60M")
case("memory of hashed words", "words.txt", "--hash-features 10000000 --method prox --epochs 1", limit="200M")

# What the rows of --test and --valid take is known only after the first choice.
plan("memory that a test set takes", "vast.txt", "--test vast.txt", limit="134500000")
plan("memory that a test set takes from learnt features", "vast.txt", "--hidden 256 --test vast.txt", limit="57500000")
plan("memory that a test set takes from the best weights", "vast.txt",
     "--method prox --epochs 2 --valid vast.txt --patience 1", limit="242500000")
for LIMIT in ("28M", "29M", "34M"):
    plan(f"memory {LIMIT} of classes", "classes.txt", limit=LIMIT)
plan("memory of 2 ranks without room for learnt features", "wide.txt", ranks=2, limit="60M")

# A model to start from.
INIT = (("wide", "linear", ""), ("wide", "intercept", ""), ("wide", "learnt", ""), ("wide", "normalized", ""),
        ("wide", "linear", "--method prox --epochs 2"), ("wide", "linear", "--method adam --epochs 1"),
        ("wide", "intercept", "--method prox --epochs 2"), ("wide", "intercept", "--method prox --no-intercept"),
        ("wide", "intercept", "--no-intercept"), ("wide", "linear", "--method prox --epochs 1 --intercept"),
        ("wide", "linear", "--no-intercept"), ("wide", "intercept", "--target train"),
        ("wide", "linear", "--hidden 32"), ("wide", "linear", "--encoder bag"), ("wide", "linear", "--encoder linear"),
        ("wide", "linear", "--newton 3"), ("wide", "linear", "--target train"), ("wide", "learnt", "--hidden 32"),
        ("wide", "learnt", "--hidden 16"), ("wide", "learnt", "--encoder linear"), ("wide", "learnt", "--encoder bag"),
        ("wide", "learnt", "--method prox"), ("wide", "learnt", "--method scent --epochs 1"),
        ("wide", "learnt", "--newton 3"), ("wide", "learnt", "--tied"), ("wide", "learnt", "--layers 1"),
        ("wide", "learnt", "--group 8"), ("wide", "learnt", "--lock-free"), ("wide", "learnt", "--step 0.01"),
        ("wide", "normalized", "--normalize none --method prox --epochs 1"),
        ("wide", "normalized", "--max-features 10"), ("plain", "linear", "--method prox --epochs 1"),
        ("plain", "linear", ""), ("steps", "learnt", ""), ("words", "linear", ""), ("words", "words", ""),
        ("words", "words", "--method prox --epochs 1"), ("wide", "words", ""), ("wide", "text", ""),
        ("text", "text", ""), ("text", "text", "--format text --method scent --epochs 1"),
        ("text", "text", "--layers 1"), ("text", "text", "--encoder cbow"), ("text", "text", "--context 4"),
        ("text", "text", "--format fasttext"), ("text", "linear", "--format text"), ("triples", "triples", ""),
        ("triples", "triples", "--method scent --epochs 1"), ("triples", "triples", "--hidden 32"),
        ("wide", "triples", ""), ("triples", "linear", "--format triples"), ("other-words", "words", ""))
for NAME, MODEL, OPTIONS in INIT:
    plan(f"init {MODEL} on {NAME} {OPTIONS}".strip(), f"{NAME}.txt", f"--init {MODEL}.safetensors {OPTIONS}")
case("init learnt on huge-wide", "huge-wide.txt", "--init learnt.safetensors")
case("init on a stream", "wide.cache", "--stream --method prox --epochs 1 --init linear.safetensors")
case("init of no model", "wide.txt", "--init wide.txt")
plan("init with cuda", "wide.txt", "--method prox --epochs 1 --init linear.safetensors --device cuda", card="one")

# truemax-mpi.
for RANKS in (1, 2):
    for NAME, DATA_SET, OPTIONS in (
            ("auto", "plain", ""), ("auto wide", "wide", ""), ("prox", "plain", "--method prox --epochs 1"),
            ("head", "head", "--method prox --epochs 1 --draw head-blocks"), ("hidden", "wide", "--hidden 16"),
            ("train", "steps", "--target train"), ("lock-free", "plain", "--lock-free"),
            ("vanilla", "plain", "--method vanilla --epochs 1"),
            ("newton", "plain", "--newton 3")):
        plan(f"{RANKS} ranks {NAME}", f"{DATA_SET}.txt", OPTIONS, ranks=RANKS)
for NAME, DATA_SET, OPTIONS in (
        ("exact", "plain", "--method exact --epochs 1"), ("umax", "plain", "--method umax --epochs 1"),
        ("group", "plain", "--method prox --epochs 1 --group 4"), ("adam", "plain", "--method adam --epochs 1"),
        ("lbfgs", "plain", "--method lbfgs --epochs 1"), ("blocks", "blocks", "--target train"),
        ("rows-per-step", "plain", "--method scent --epochs 1 --rows-per-step 4"),
        ("draw uniform", "plain", "--method prox --epochs 1 --draw uniform"),
        ("rivals", "plain", "--method prox --epochs 1 --rivals 2"),
        ("double-sum-alpha", "plain", "--method umax --epochs 1 --double-sum-alpha 0.5"),
        ("device cuda", "plain", "--device cuda"), ("device auto", "plain", "--device auto"),
        ("huge", "huge", "--method prox --epochs 1"), ("huge auto", "huge", ""),
        ("shard-embedding", "wide", "--hidden 16 --shard-embedding"),
        ("text", "text", "--format text"), ("triples", "triples", "--format triples"),
        ("init", "wide", "--method prox --epochs 1 --init linear.safetensors"),
        ("group of hidden", "wide", "--hidden 16 --group 8"), ("seconds", "wide", "--seconds 2"),
        ("newton named", "plain", "--method prox --epochs 1 --newton 2")):
    plan(f"2 ranks {NAME}", f"{DATA_SET}.txt", OPTIONS, ranks=2)
plan("2 ranks without memory", "vast.txt", "--encoder linear", ranks=2, limit="60M")
plan("2 ranks without memory for hidden", "vast.txt", "--hidden 512", ranks=2, limit="60M")
plan("2 ranks with little memory", "vast.txt", "", ranks=2, limit="60M")
plan("2 ranks with a card", "plain.txt", "--seconds 2", ranks=2, card="one")
plan("2 ranks stream", "steps.cache", "--stream --encoder linear", ranks=2)
