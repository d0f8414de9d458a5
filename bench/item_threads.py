"""Item 6: one thread and two. Training with weights larger than the cache, lock-free and reproducible, with the draws
blocks and head-blocks, at equal steps; evaluation; prediction. Reading is in item_reading.py."""
import os
import subprocess

import contest
import item_evaluate
import item_reading
import sets
from tables import show

# If yso-finna-en is missing: rows generated in memory.
GENERATED = ["classes=100000", "features=1000", "rows=100000", "skew=0.5"]
EPOCHS, STEP = 5, 10
LOCK_FREE, REPRODUCIBLE, EVALUATION = 1.6, 1.3, 1.8
EQUAL = 0.99  # least ratio of log-loss, one thread over two


def training(bench):
    """prox with one thread and two, at equal steps, in one process each: memory already touched, wall-clock time."""
    real = sets.file_of("yso-finna-en", "train")
    if bench.options.size < 1:
        shown, where = "generated, 2,000 rows", ["classes=2000", "features=500", "rows=2000"]
    elif os.path.exists(real):
        shown, where = "yso-finna-en", [real]
    else:
        shown, where = "generated", GENERATED
    ways = [(draw, threads, lock_free) for draw in ("blocks", "head-blocks")
            for threads, lock_free in ((1, False), (2, False), (2, True))]
    best = {}
    for turn in range(min(3, bench.options.rounds)):
        for draw, threads, lock_free in ways:
            said = bench.bench_json(f"item 6, training, {draw}", "steps", *where, "method=prox", f"draw={draw}",
                                    "head=64", f"threads={threads}", f"lock_free={int(lock_free)}", f"step={STEP}",
                                    f"epochs={EPOCHS}", "rounds=2", f"check={int(turn == 0)}")
            if said is None:
                continue
            old = best.get((draw, threads, lock_free))
            best[draw, threads, lock_free] = {
                "steps_per_second": max(said["steps_per_second"], old["steps_per_second"] if old else 0),
                "loss": old["loss"] if old else said["log_loss"]}
    rows, found = [], []
    for draw, threads, lock_free in ways:
        run, one = best.get((draw, threads, lock_free)), best.get((draw, 1, False))
        if run is None or one is None:
            continue
        name = "one thread" if threads == 1 else "two threads, lock-free" if lock_free else "two threads, reproducible"
        what = f"training, {draw}, {name}"
        ratio = run["steps_per_second"] / one["steps_per_second"]
        rows.append((f"{draw}, {name}", f"{run['steps_per_second']:,.0f}", f"{ratio:.2f}", f"{run['loss']:.4f}"))
        found.append({"draw": draw, "threads": threads, "lock_free": lock_free, "ratio": ratio, **run})
        if threads == 1:
            continue
        bench.ratio(6, f"{what}: times one thread", ratio, f"log-loss {run['loss'] - one['loss']:+.4f}")
        if draw == "blocks":
            bench.floors.require_of_threads(f"item 6, {what}: times one thread", ratio,
                                            LOCK_FREE if lock_free else REPRODUCIBLE)
            if run["loss"] > 0:  # generated rows have nothing to learn
                bench.floors.require(f"item 6, {what}: log-loss of one thread over this", one["loss"] / run["loss"],
                                     EQUAL)
    if rows:
        show(f"Item 6: training with prox on {shown}, steps of {EPOCHS} epochs, train log-loss after them",
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
