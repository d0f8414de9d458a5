"""Item 2: evaluation, compared with a kernel that does only the same loads and exponentials, and with the multiply-add
peak of the same run (`truemax_bench evaluate`)."""
import os

import sets
from tables import show

SETS = ("yso-finna-en", "mnist")
SHARE = 0.7


def with_seconds(said):
    """The fields that the items use, computed from rates and fractions if these were printed."""
    if said is None or "bound_seconds" in said:
        return said
    seconds = said["rows"] / said["evaluate_rows_per_second"]
    return {**said, "seconds": seconds, "bound_seconds": said["rows"] / said["bound_rows_per_second"],
            "share": said["fraction_of_bound"], "fma_fraction": said["fraction_of_peak"],
            "fma_peak_gflops": said["peak_gflops"], "threads": {"1": seconds, "2": seconds / said["threads_ratio"]}}


def said_of(bench, name):
    """The output of `truemax_bench evaluate` on a data set, run once; None if it or the data are missing."""
    if name not in bench.evaluations:
        path, said = sets.file_of(name, "train"), None
        if bench.options.size < 1:
            path = sets.make(name, bench.options.program, bench.path(name), bench.options.size).about["train"]
        if not os.path.exists(path):
            bench.floors.skip(f"evaluation, {name}", f"not at {path}; set TRUEMAX_DATA")
        else:
            said = with_seconds(bench.bench_json(f"evaluation, {name}", "evaluate", path,
                                                 f"rounds={bench.options.rounds}"))
        bench.evaluations[name] = said
    return bench.evaluations[name]


def run(bench):
    found, rows = {}, []
    for name in SETS:
        said = said_of(bench, name)
        if said is None:
            continue
        found[name] = said
        rows.append((name, f"{said['seconds']:.4f}", f"{said['bound_seconds']:.4f}", f"{said['share']:.3f}",
                     f"{said['fma_fraction']:.3f}", f"{said['fma_peak_gflops']:.1f}"))
        bench.floors.require(f"item 2, {name}: share of loads and exponentials alone", said["share"], SHARE)
        bench.ratio(2, f"evaluation of {name}, share of loads and exponentials alone", said["share"],
                    f"{said['fma_fraction']:.3f} of the multiply-add peak")
    if rows:
        show("Item 2: evaluation, one thread",
             ("", "seconds", "loads and exp only", "share", "of FMA peak", "peak GFLOP/s"), rows)
    return found
