"""Item 1: steps/s of implicit, umax, prox and exact, one thread, compared with a kernel that only touches the same
cache lines; and Implicit SGD compared with the same algorithm in NumPy/SciPy (reference_implicit.py: the pseudo-code
line by line, and as fast as NumPy allows)."""
import json
import os

import blas
import sets
from harness import OneCore, fail, output_of
from tables import show

METHODS = ("implicit", "umax", "prox", "exact")
SHARES = {"implicit": 0.6, "umax": 0.7, "prox": 0.7}  # of touch-only
# Steps at which the methods learn. A step of exact passes over all weights, so a few rows are enough.
SETTINGS = {"implicit": ["step=10"], "umax": ["step=0.001"], "prox": ["step=10"], "exact": ["step=1", "rows=1000", "epochs=1"]}
GENERATED = 1000000  # classes; exact would touch them all
GENERATED_METHODS = ("implicit", "umax", "prox")
STEP = {"bibtex": 10.0, "delicious": 0.01}
# Epochs after which truemax and the reference are compared.
EPOCHS = {"bibtex": 30, "delicious": 8}
# Which of the two NumPy versions the floor of 50 refers to.
FLOOR_AGAINST = "line by line"
TIMES_NUMPY, SHARE_OF_TOUCH, REFERENCE_STEPS = 50.0, 0.5, 10000.0


def shares(bench):
    """The output of `truemax_bench steps` for each method, on a real set and on a generated one with a million
    classes."""
    contests = []
    real = sets.file_of("yso-finna-en", "train")
    if bench.options.size < 1:
        contests += [("generated, 1,000 classes", ["classes=1000", "rows=2000"], m)
                     for m in GENERATED_METHODS]
    else:
        if os.path.exists(real):
            contests += [("yso-finna-en", [real], m) for m in METHODS]
        else:
            bench.floors.skip("item 1, yso-finna-en", f"not at {real}; set TRUEMAX_DATA")
        contests += [(f"generated, {GENERATED:,} classes", [f"classes={GENERATED}"], m)
                     for m in GENERATED_METHODS]
    found, rows = [], []
    for shown, where, method in contests:
        what = f"{shown}: {method}, share of touch-only"
        said = bench.bench_json(f"item 1, {what}", "steps", *where, f"method={method}", *SETTINGS[method],
                                f"rounds={bench.options.rounds}")
        if said is None:
            continue
        if said.get("method") != method:
            bench.floors.skip(f"item 1, {what}", "this truemax_bench has no method=")
            continue
        found.append({"data": shown, **said})
        rows.append((f"{shown}: {method}", f"{said['steps_per_second']:,.0f}", f"{said['touch_steps_per_second']:,.0f}",
                     f"{said['share']:.3f}", f"{said['share_of_together']:.3f}"))
        if method in SHARES:
            bench.floors.require(f"item 1, {what}", said["share"], SHARES[method])
        bench.ratio(1, what, said["share"])
    if rows:
        show("Item 1: steps/s beside a kernel that only touches the same cache lines, one core, best of "
             f"{bench.options.rounds}",
             ("", "steps/s", "touch only", "share", "share of touching 8 steps at once"), rows)
    return found


def numpy_beside(bench, name):
    try:
        import reference_implicit
    except ImportError as missing:
        bench.floors.skip(f"item 1, {name}: times NumPy", f"{missing}; install python3-scipy")
        return None
    multiplies = blas.measure("numpy", 1)
    if multiplies["library"] in (blas.REFERENCE, "none"):
        bench.floors.broken(f"item 1, {name}: NumPy at its best",
                            f"it has {', '.join(multiplies['files']) or 'no BLAS'}")
    problem = sets.make(name, bench.options.program, bench.path(name), bench.options.size)
    path, shown = problem.about["train"], problem.name
    few = {"epochs": 5, "ours": 2, "theirs": 4} if bench.options.quick else {"epochs": EPOCHS[name]}
    agreement = reference_implicit.check(bench.options.program, path, STEP[name], **few)
    if not agreement["ok"]:
        fail(f"{shown}: truemax and the reference reach other losses: {json.dumps(agreement)}")
    problem = reference_implicit.Problem(path)
    best = {"implicit": 0.0, "touch": 0.0, "tuned": 0.0, "line by line": 0.0}
    for _ in range(bench.options.rounds):
        for version, method in (("tuned", reference_implicit.train),
                                ("line by line", reference_implicit.train_line_by_line)):
            _, steps, seconds = method(problem, STEP[name], 0.9, 50, 1, bench.options.seconds)
            best[version] = max(best[version], steps / seconds)
        said = json.loads(output_of([bench.options.bench, "steps", path, "method=implicit", f"step={STEP[name]}"]))
        best["implicit"] = max(best["implicit"], said["steps_per_second"])
        best["touch"] = max(best["touch"], said["touch_steps_per_second"])
    show(f"Item 1: Implicit SGD on {shown} (N {problem.N:,}, D {problem.D:,}, K {problem.K}), one core, "
         f"best of {bench.options.rounds}; losses agree (difference {agreement['difference']:+.4f}, "
         f"allowed {agreement['allowed']:.4f}); NumPy with {multiplies['library']}, {multiplies['gflops']:.1f} GFLOP/s",
         ("", "steps/s", "times line by line", "times tuned", "of touch-only"),
         [(label, f"{best[key]:,.0f}", f"{best[key] / best['line by line']:.1f}", f"{best[key] / best['tuned']:.1f}",
           f"{best[key] / best['touch']:.3f}")
          for key, label in (("line by line", "NumPy/SciPy, line by line"), ("tuned", "NumPy/SciPy, tuned"),
                             ("implicit", "truemax"), ("touch", "touch the same lines only"))])
    times = best["implicit"] / best[FLOOR_AGAINST]
    bench.floors.require(f"item 1, {shown}: times NumPy, {FLOOR_AGAINST}", times, TIMES_NUMPY)
    bench.floors.require(f"item 1, {shown}: share of touch-only", best["implicit"] / best["touch"], SHARE_OF_TOUCH)
    if name == "bibtex":
        bench.floors.require(f"item 1, {shown}: NumPy, {FLOOR_AGAINST}, itself: steps/s", best[FLOOR_AGAINST],
                             REFERENCE_STEPS)
    bench.ratio(1, f"{shown}: steps/s of Implicit SGD, times NumPy", times)
    return {"data": shown, "steps_per_second": best, "agreement": agreement, "blas": multiplies}


def run(bench):
    with OneCore(bench.options.core):
        return {"shares": shares(bench),
                "numpy": [numpy_beside(bench, name) for name in ("bibtex", "delicious") if name in bench.options.sets]}
