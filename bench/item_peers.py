"""Items 4 and 5: time to a train log-loss, and test log-loss against time, compared with other programs.

Every peer runs its grid (peers/*.py) on the same rows, in its own process with at most 120 s and 16 GiB. Its
points are judged by one function (losses.py). Item 4 takes, for each peer, its lowest train log-loss and the seconds
of the run that reached it, and asks how long `truemax train --target train --seconds T` takes to the same log-loss;
"least on its way" is the least such ratio along the peer's curve (a lower bound, from the runs of truemax at hand).
Item 5 compares its lowest test log-loss with that of `truemax train --encoder linear`.
"""
import concurrent.futures
import math
import os

import numpy as np

import blas
import contest
import sets
from harness import fail
from tables import show

SETS = ("bibtex", "delicious", "mnist", "yso-finna-en")
# Item 4: times faster than the best peer: 5 on every set, more where it was reached.
TIMES = {"bibtex": 5.0, "delicious": 10.0, "mnist": 5.0, "yso-finna-en": 50.0}
# Seconds of training after which a peer starts no further run of its grid on a data set.
CAPS = {"bibtex": 8.0, "delicious": 9.0, "mnist": 10.0, "yso-finna-en": contest.SECONDS}
LEAST_RUNS = 2  # but it always gets this many: one for each of the two items
# Peers that run at the same time, on sets where each uses all its time anyway.
TOGETHER = {"yso-finna-en": (("sklearn_saga", "liblinear"), ("sklearn_lbfgs", "fasttext"))}
AGREE = 1e-4


def check_rows(program, problem):
    """truemax trains on the same rows and is judged the same way: the shared function, applied to its model file, gives
    the log-losses that truemax reports."""
    from losses import linear, log_loss
    from reference_implicit import model_reader
    path = os.path.join(problem.folder, "model.safetensors")
    judged = problem.about["judged"]
    runner = contest.Truemax(program, problem)
    run = runner.train("--target", "train", "--seconds", 0.1, "--test", judged["test" if runner.judges_all else "seen"],
                       *([] if runner.judges_all else ["--no-eval-train"]), model=path)
    about, tensors = model_reader.read_model(path)
    place = {label: k for k, label in enumerate(about["classes"])}
    weights = np.ascontiguousarray(tensors["weight"][[place[label] for label in problem.about["labels"]]].T)
    scores = linear(weights, tensors.get("intercept"))
    parts = ({"train": "seen", "test": "test"} if runner.judges_all else {"test": "seen"})
    for said, part in parts.items():
        found, _ = log_loss(getattr(problem, f"{part}_x"), getattr(problem, f"{part}_y"), scores, problem.K)
        if not abs(found - run[said]) <= AGREE * max(1.0, found):
            fail(f"{problem.name}: truemax says log-loss {run[said]} on the {part} rows, its model file {found}")
    os.remove(path)


def words_of(settings):
    return " ".join(name if value is True else f"{name}={value:g}" for name, value in settings.items() if name != "at")


def words_of_point(point):
    return words_of(point["settings"]) + (f" ({point['note']})" if point.get("note") else "")


def runs_of(bench, problem, peer):
    """The runs of one peer on a data set: its grid, until the cap."""
    name = problem.about["set"]
    cap, runs, spent = CAPS[name], [], 0.0
    least = 1 if bench.options.quick else LEAST_RUNS
    for settings in contest.module_of(peer).runs(name):
        enough = len(runs) >= least and (spent >= cap or bench.options.quick)
        if enough or spent >= contest.SECONDS or bench.seconds > bench.options.minutes * 60:
            break
        if bench.options.quick and hasattr(contest.module_of(peer), "quick"):
            settings = contest.module_of(peer).quick(settings, bench.options.quick_cap)
        bench.say(f"{problem.name}: {contest.module_of(peer).WHAT} {words_of(settings)}")
        contest.warm_for(problem)
        run = contest.run_peer(peer, problem.folder, settings, contest.SECONDS - spent)
        spent += run["seconds"]
        runs.append(run)
    return runs


def curves_of(bench, problem):
    """{peer: its runs} on a data set, one peer after the other; one whose package is missing is reported and left
    out."""
    there = []
    for peer in bench.options.peers:
        if not contest.module_of(peer).runs(problem.about["set"]):
            continue
        missing = contest.module_of(peer).needs()
        if missing:
            bench.floors.skip(f"item 4, {problem.name}: {contest.module_of(peer).WHAT}", f"install {missing}")
        else:
            there.append(peer)
    curves = dict.fromkeys(there)
    together = [[peer for peer in group if peer in there] for group in TOGETHER.get(problem.about["set"], ())]
    alone = [[peer] for peer in there if not any(peer in group for group in together)]
    for group in alone + together:  # those that may end in time come first
        with concurrent.futures.ThreadPoolExecutor(max(1, len(group))) as pool:
            curves.update(zip(group, pool.map(lambda peer: runs_of(bench, problem, peer), group)))
    return curves


def points_of(runs):
    return [{**point, "settings": run["settings"]} for run in runs for point in run["points"]
            if math.isfinite(point["train"]) and math.isfinite(point["test"])]


def front(points):
    """The points of a curve with a lower train log-loss than all points that took no longer."""
    out = []
    for point in sorted(points, key=lambda p: (p["seconds"], p["train"])):
        if not out or point["train"] < out[-1]["train"]:
            out.append(point)
    return out


def why_not(runs):
    return "; ".join(sorted({run["ended"] for run in runs if run["ended"]})) or "not run: out of time"


def item_4(bench, problem, curves):
    """Ratios to each peer's lowest train log-loss. A peer without a model when its time is up is credited with the
    lowest log-loss of all: its ratio is a lower bound."""
    truemax = contest.Truemax(bench.options.program, problem)
    name, rows, results = problem.about["set"], [], []
    reached = {peer: min(points_of(runs), key=lambda p: p["train"]) for peer, runs in curves.items() if points_of(runs)}
    lowest = min((point["train"] for point in reached.values()), default=None)
    seeds = 1 if bench.options.quick else 3
    # Highest log-loss first: its runs are reused for the lower ones, not the other way round.
    for peer in sorted(curves, key=lambda peer: -reached[peer]["train"] if peer in reached else 0.0):
        what, runs, point = contest.module_of(peer).WHAT, curves[peer], reached.get(peer)
        bound = point is None
        loss = lowest if bound else point["train"]
        seconds = sum(run["seconds"] for run in runs) if bound else point["seconds"]
        if bound and "out of memory" in why_not(runs):
            seconds = contest.SECONDS  # no time is enough
        ours = None
        if loss is not None and runs:
            ours = truemax.time_to(loss, most=max(seconds, truemax.FIRST), seeds=seeds)
        ratio = None if ours is None else seconds / ours["seconds"]
        note = (words_of_point(point) if not bound else why_not(runs) if not runs
                else f"{why_not(runs)}; log-loss of the best peer, lower bound")
        on_the_way = [p["seconds"] / t for p in front(points_of(runs)) if (t := truemax.known_time_to(p["train"]))]
        results.append({"peer": what, "loss": None if bound else point["train"], "seconds": seconds,
                        "lower_bound": bound, "truemax": ours, "ratio": ratio, "note": note,
                        "least_on_the_way": min(on_the_way, default=None),
                        "memory": None if bound else point["memory"], "runs": runs})
        rows.append((what, "-" if bound else f"{point['train']:.4f}", f"{'> ' if bound else ''}{seconds:.2f}",
                     "-" if ours is None else f"{ours['seconds']:.3f}", "-" if ours is None else f"{ours['loss']:.4f}",
                     "slower" if ours is None and loss is not None and runs else "-" if ours is None
                     else f"{'>= ' if bound else ''}{ratio:.1f}", "-" if not on_the_way else f"{min(on_the_way):.1f}",
                     "-" if bound else f"{point['memory'] / 1e6:,.0f}",
                     "-" if ours is None else f"{ours['memory'] / 1e6:,.0f}", note))
    some = "" if truemax.judges_all else f"; log-loss on the first {len(problem.seen_y):,} rows, for all alike"
    show(f"Item 4: {problem.name} (N {problem.N:,}, D {problem.D:,}, K {problem.K:,}), seconds of training to a train "
         f"log-loss{some}",
         ("", "log-loss", "seconds", "truemax s", "its loss", "times faster", "least on its way", "MB", "truemax MB",
          "settings"), rows, text=(0, -1))
    told = [r for r in results if r["runs"]]
    if not told:
        bench.floors.skip(f"item 4, {problem.name}", "no peer ran")
        return results
    # If truemax does not reach the log-loss there is no ratio: it is below any floor.
    worst = min(told, key=lambda r: 0.0 if r["ratio"] is None else r["ratio"])
    value = worst["ratio"] if worst["ratio"] is not None else 0.0
    bench.floors.require(f"item 4, {problem.name}: times faster than the best peer ({worst['peer']})", value,
                         TIMES[name])
    for r in told:
        bench.ratio(4, f"{problem.name}: seconds to the train log-loss of {r['peer']}", r["ratio"],
                    "lower bound" if r["lower_bound"] else "")
    return results


def item_5(bench, problem, curves):
    """Test log-loss against time: each peer's best with its curve, and truemax, as linear as they are, untuned."""
    contest.warm_for(problem)
    rounds = [contest.Truemax(bench.options.program, problem).train(
        "--test", problem.about["judged"]["test"], "--no-eval-train", "--encoder", "linear",
        *(["--seconds", 1] if bench.options.quick else []))
        for _ in range(1 if bench.options.quick else 2)]
    ours = {"seconds": min(run["seconds"] for run in rounds), "test": max(run["test"] for run in rounds),
            "memory": max(run["memory"] for run in rounds),
            "all_seconds": min(run["wall"] - run["read_seconds"] for run in rounds)}
    rows, results = [], []
    for peer, runs in curves.items():
        what, points = contest.module_of(peer).WHAT, points_of(runs)
        curve = sorted(((p["seconds"], p["test"]) for p in points))
        best = min(points, key=lambda p: p["test"], default=None)
        results.append({"peer": what, "best": best, "curve": curve, "ended": "" if points else why_not(runs)})
        if best is None:
            rows.append((what, "-", "-", "-", "-", why_not(runs)))
            continue
        rows.append((what, f"{best['test']:.4f}", f"{best['seconds']:.2f}", f"{best['seconds'] / ours['seconds']:.2f}",
                     f"{best['test'] - ours['test']:+.4f}", words_of_point(best)))
        bench.ratio(5, f"{problem.name}: seconds at the best test log-loss, {what}", best["seconds"] / ours["seconds"],
                    f"log-loss {best['test'] - ours['test']:+.4f}")
    rows.append(("truemax, all defaults", f"{ours['test']:.4f}", f"{ours['seconds']:.2f}", "1.00", "",
                 f"search and fit; whole process without reading {ours['all_seconds']:.2f} s"))
    show(f"Item 5: {problem.name}, best test log-loss of the grid and the seconds of that one fit",
         ("", "log-loss", "seconds", "times truemax", "above truemax", "settings"), rows, text=(0, -1))
    show("  the curves (seconds: test log-loss)", ("", ""),
         [(r["peer"], "  ".join(f"{s:.2f}: {loss:.3f}" for s, loss in r["curve"]) or r["ended"]) for r in results],
         text=(0, 1))
    return {"truemax": ours, "peers": results}


def matrices(bench, results):
    """The BLAS of each peer and its speed: the best over the data sets. A peer on the reference BLAS is not at its
    best, and ratios to it are void."""
    found = []
    for peer in bench.options.peers:
        module, ran = contest.module_of(peer), [result["blas"] for result in results if peer in result["blas"]]
        said = [of_set[peer] for of_set in ran if of_set[peer]]
        if said:
            found.append({"peer": module.WHAT, **max(said, key=lambda one: one["gflops"])})
        elif ran and hasattr(module, "blas_files"):
            files = module.blas_files()
            found.append({"peer": module.WHAT, "library": blas.name_of(files), "files": files})
    for one in found:
        if one["library"] in (blas.REFERENCE, "none"):
            bench.floors.broken(f"items 4 and 5: {one['peer']} at its best",
                                f"it multiplies matrices with {', '.join(one['files']) or 'no BLAS'}")
    for line in blas.complaints(blas.alternatives()) if found else ():
        print(line)
    if found:
        show("Items 4 and 5: the BLAS in each peer's process, and a product of two square matrices there",
             ("", "BLAS", "GFLOP/s", "numbers", "threads", "files"),
             [(one["peer"], one["library"], f"{one['gflops']:.1f}" if "gflops" in one else "-", one.get("numbers", "-"),
               one.get("threads", "-"), ", ".join(one["files"]) or "inside PyTorch") for one in found],
             text=(0, 1, 3, -1))
    return found


def run(bench):
    results = []
    for name in bench.options.sets:
        problem = sets.make(name, bench.options.program, bench.path(name), bench.options.size)
        check_rows(bench.options.program, problem)
        curves = curves_of(bench, problem)
        result = {"data": problem.name, "blas": {peer: next((run["blas"] for run in runs if run["blas"]), None)
                                                for peer, runs in curves.items()}}
        if 4 in bench.options.only:
            result["item_4"] = item_4(bench, problem, curves)
        if 5 in bench.options.only:
            result["item_5"] = item_5(bench, problem, curves)
        results.append(result)
    multiply_with = matrices(bench, results)
    caps = ', '.join(f'{CAPS[n]:g} s on {n}' for n in SETS)
    print("fastText cannot take values: it trains on the list of a row's features. LIBLINEAR's one-vs-rest and "
          "fastText's ns probabilities do not sum to 1 and are normalised; hs sums to 1. A peer has 120 s and 16 GiB "
          f"on a data set and starts no third run of its grid after {caps}."
          " PyTorch on dense rows has no form for yso-finna-en, whose rows would take 4 GB. Rows and threads of "
          "L-BFGS and of PyTorch on dense rows are those that were faster, tried off the clock."
          " On yso-finna-en SAGA and LIBLINEAR, of one thread each, run at once, and so do L-BFGS and fastText softmax.")
    return {"data": results, "blas": multiply_with}
