"""Item 6: one thread and two. Training on generated rows whose weights are larger than the cache, lock-free and
reproducible, with the draws of blocks and of head-blocks, at equal steps; evaluation; prediction. Reading is in
item_reading.py."""
import json
import os
import subprocess

import contest
import item_evaluate
import item_reading
import sets
from harness import output_of, warm_memory
from tables import show

ROWS, FEATURES, CLASSES, EPOCHS = 200000, 5000, 10000, 5
JUDGED = 5000  # training rows whose log-loss is compared
LOCK_FREE, REPRODUCIBLE, EVALUATION = 1.6, 1.3, 1.8
EQUAL = 0.99  # log-loss of one thread over that of two, at least


def make_rows(bench):
    """The generated rows, and a file of the first of them."""
    path, few = bench.path("threads.txt"), bench.path("threads-few.txt")
    rows = max(2000, int(ROWS * bench.options.size))
    output_of([bench.options.program, "generate", path, "--rows", rows, "--features", FEATURES, "--classes", CLASSES,
               "--nonzeros", 20, "--seed", 1, "--format", "xmlrepository"])
    with open(path, encoding="utf-8") as source, open(few, "w", encoding="utf-8") as out:
        _, features, labels = source.readline().split()
        count = min(JUDGED, rows)
        out.write(f"{count} {features} {labels}\n")
        for _, text in zip(range(count), source):
            out.write(text)
    return path, few


def train(bench, path, few, draw, threads, lock_free):
    """One run: {"steps_per_second", "loss"}; a text where the program does not take the options."""
    log = bench.path("threads.jsonl")
    command = [bench.options.program, "train", path, "--normalize", "l2", "--method", "prox", "--draw", draw,
               "--classes-per-step", 16, "--step", 3, "--schedule", "linear", "--visit", "shuffle", "--epochs",
               1 if bench.options.quick else EPOCHS, "--eval-every", 0, "--test", few, "--no-eval-train", "--threads",
               threads, "--model", "none", "--log", log, "--quiet", *(["--lock-free"] if lock_free else [])]
    warm_memory(8 * FEATURES * CLASSES)
    done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        return (done.stderr.strip().splitlines() or ["?"])[0]
    with open(log, encoding="utf-8") as lines:
        last = [event for event in map(json.loads, lines) if event["event"] == "evaluate"][-1]
    return {"steps_per_second": last["steps"] / last["train_seconds"], "loss": last["test"]["log_loss"]}


def training(bench):
    path, few = make_rows(bench)
    ways = [(draw, threads, lock_free) for draw in ("blocks", "head-blocks")
            for threads, lock_free in ((1, False), (2, False), (2, True))]
    best, why = {}, {}
    for _ in range(min(3, bench.options.rounds)):
        for way in ways:
            if way in why:
                continue
            run = train(bench, path, few, *way)
            if isinstance(run, str):
                why[way] = run
            elif way not in best or run["steps_per_second"] > best[way]["steps_per_second"]:
                best[way] = run
    rows, found = [], []
    for draw, threads, lock_free in ways:
        run, one = best.get((draw, threads, lock_free)), best.get((draw, 1, False))
        name = "one thread" if threads == 1 else "two threads, lock-free" if lock_free else "two threads, reproducible"
        what = f"training, {draw}, {name}"
        if run is None or one is None:
            bench.floors.skip(f"item 6, {what}", why.get((draw, threads, lock_free), "no run with one thread"))
            continue
        ratio = run["steps_per_second"] / one["steps_per_second"]
        rows.append((f"{draw}, {name}", f"{run['steps_per_second']:,.0f}", f"{ratio:.2f}", f"{run['loss']:.4f}"))
        found.append({"draw": draw, "threads": threads, "lock_free": lock_free, "ratio": ratio, **run})
        if threads == 1:
            continue
        bench.ratio(6, f"{what}: times one thread", ratio, f"log-loss {run['loss'] - one['loss']:+.4f}")
        if draw == "blocks":
            bench.floors.require_of_threads(f"item 6, {what}: times one thread", ratio,
                                            LOCK_FREE if lock_free else REPRODUCIBLE)
            bench.floors.require(f"item 6, {what}: log-loss of one thread over this", one["loss"] / run["loss"], EQUAL)
    if rows:
        show(f"Item 6: training with prox, equal steps, generated rows (N {ROWS * min(1, bench.options.size):,.0f}, "
             f"D {FEATURES:,}, K {CLASSES:,}: weights of {FEATURES * CLASSES * 4 / 1e6:,.0f} MB), log-loss on the "
             f"first {JUDGED:,}",
             ("", "steps/s", "times one thread", "log-loss"), rows)
    return found


def evaluation(bench):
    rows = []
    for name in item_evaluate.SETS:
        said = item_evaluate.said_of(bench, name)
        if said is None:
            continue
        one, two = said["threads"]["1"], said["threads"]["2"]
        rows.append((name, f"{one:.4f}", f"{two:.4f}", f"{one / two:.2f}", f"{said['predict_rows_per_second']:,.0f}"))
        bench.floors.require_of_threads(f"item 6, evaluation of {name}: two threads, times one", one / two, EVALUATION)
        bench.ratio(6, f"evaluation of {name}: two threads, times one", one / two)
    if rows:
        show("Item 6: evaluation with one thread and with two; prediction",
             ("", "one thread s", "two threads s", "times", "predicted rows/s"), rows)
    return rows


def prediction(bench):
    """The whole program on files: `truemax predict`, reading the model and the rows, writing the answers."""
    found, rows = [], []
    for name in ("bibtex", "mnist"):
        if name not in bench.options.sets:
            continue
        problem = sets.make(name, bench.options.program, bench.path(name), bench.options.size)
        truemax, model = contest.Truemax(bench.options.program, problem), bench.path("predict.safetensors")
        if os.path.exists(model):
            os.remove(model)
        truemax.train("--target", "train", "--seconds", 0.1, model=model)
        seconds = {}
        for _ in range(min(3, bench.options.rounds)):
            for threads in (1, 2):
                begin = bench.seconds
                done = subprocess.run([bench.options.program, "predict", model, problem.about["train"], "--top", "5",
                                       "--max-rows", "100000", "--threads", str(threads)], check=False,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                took = bench.seconds - begin
                if done.returncode != 0:
                    bench.floors.skip(f"item 6, prediction, {name}", done.stderr.decode().strip())
                    return found
                seconds[threads] = min(took, seconds.get(threads, took))
        found.append({"data": problem.name, "rows": problem.N, "seconds": seconds})
        rows.append((problem.name, f"{problem.N / seconds[1]:,.0f}", f"{problem.N / seconds[2]:,.0f}"))
    if rows:
        show("Item 6: truemax predict --top 5, rows/s of the whole program (reading and writing too)",
             ("", "one thread", "two threads"), rows)
    return found


def run(bench):
    return {"training": training(bench), "evaluation": evaluation(bench), "prediction": prediction(bench),
            "reading": item_reading.run(bench)}
