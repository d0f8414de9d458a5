"""Item 3: steps/s against the number of classes and of rows, compared with a kernel that touches the same cache lines
(`truemax_bench classes sweep=1`). More memory slows down any program: what counts is how much more prox loses."""
from harness import OneCore
from tables import show

# prox may lose this much more than the touch-only kernel, from 10^4 to 10^6 classes and from 10^4 to 10^7 rows.
TIMES_TOUCH = 1.25
WORDS = {"spread": "labels and blocks uniform", "skewed": "labels by Zipf's law, 64 classes always"}


def line(what, one, first):
    prox, touch = one["prox_steps_per_second"], one["touch_steps_per_second"]
    lost, lost_touch = first["prox_steps_per_second"] / prox, first["touch_steps_per_second"] / touch
    return (what, f"{prox:,.0f}", f"{touch:,.0f}", f"{prox / touch:.3f}", f"{lost:.2f}", f"{lost_touch:.2f}")


def run(bench):
    small = ["rows=2000", "few=1000", "many=10000", "most-rows=20000", "epochs=1"] if bench.options.size < 1 else []
    with OneCore(bench.options.core):
        said = bench.bench_json("item 3", "classes", "sweep=1", f"rounds={min(3, bench.options.rounds)}", *small)
    if said is None:
        return None
    head = ("", "prox", "touch only", "share", "times slower than the first", "touch only")
    for setting, words in WORDS.items():
        part = said[setting]
        show(f"Item 3: steps/s against the number of classes, {part['blocks_per_step']} blocks a step: {words}", head,
             [line(f"K = {one['classes']:,}", one, part["all"][0]) for one in part["all"]])
        few, many = (f"{part[size]['classes']:,}" for size in ("few", "many"))
        what = f"K {few} -> {many}, {setting}: loss of touch-only over loss of prox"
        bench.floors.require(f"item 3, {what}", 1 / part["quotient"], 1 / TIMES_TOUCH)
        bench.ratio(3, what, 1 / part["quotient"], f"prox {part['prox_ratio']:.2f} times slower")
    by_rows = said["by_rows"]
    first, last = by_rows[0], by_rows[-1]
    show(f"Item 3: steps/s against the number of rows, K = {first['classes']:,}", head,
         [line(f"N = {one['rows']:,}", one, first) for one in by_rows])
    lost, lost_touch = (first[f"{kind}_steps_per_second"] / last[f"{kind}_steps_per_second"]
                        for kind in ("prox", "touch"))
    what = f"N {first['rows']:,} -> {last['rows']:,}: loss of touch-only over loss of prox"
    bench.floors.require(f"item 3, {what}", lost_touch / lost, 1 / TIMES_TOUCH)
    bench.ratio(3, what, lost_touch / lost, f"prox {lost:.2f} times slower")
    return said
