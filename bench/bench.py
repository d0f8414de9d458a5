#!/usr/bin/python3
"""Run by `./dev bench`: measures truemax against its bounds and against other programs, in one run.

  1  steps/s of the methods and of a kernel that only touches the same cache lines; Implicit SGD and NumPy
  2  evaluation and a kernel that only does the same loads and exponentials
  3  steps/s against the number of classes and of rows
  4  time to a train log-loss, with scikit-learn, SciPy, LIBLINEAR, fastText, PyTorch and NumPy; peak memory
  5  test log-loss against time, the same programs at the best of their grids
  6  one thread and two, prediction, reading
  7  linear and learnt features at the best of their grids, and the plain command (its large sets only with --only 7: forty minutes)

Correctness is checked first; contestants take turns and the best of several turns counts. Prints tables, ending with
all ratios and all floors, and writes JSON. The exit code is 1 if a floor is missed or a check fails. Missing data sets
(TRUEMAX_DATA) and packages are named; a missing set is replaced by generated rows of its size, marked as such. --quick
runs every part on little data in about a minute to see that it works, without floors.
"""
import argparse
import json
import os
import sys
import tempfile

import contest
import item_evaluate
import item_learnt
import item_peers
import item_scaling
import item_steps
import item_threads
import markdown
from harness import ROOT, Bench, fail
from tables import show

QUICK_SIZE, QUICK_CAP = 0.05, 0.2
ITEMS = {(1,): item_steps, (2,): item_evaluate, (3,): item_scaling, (6,): item_threads, (4, 5): item_peers,
         (7,): item_learnt}
SETS = tuple(dict.fromkeys([*item_peers.SETS, *item_learnt.SETS]))


def some_of(text, known, kind):
    names = text.split(",")
    for name in names:
        if name not in known:
            fail(f"there is no {kind} '{name}'; there are {', '.join(known)}")
    return names


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=os.environ.get("TRUEMAX", os.path.join(ROOT, "build/release/truemax")))
    parser.add_argument("--bench", default=os.path.join(ROOT, "build/release/truemax_bench"))
    parser.add_argument("--only", help="the items to run, such as 1,4 (default: all, item 7 on small sets)")
    parser.add_argument("--data", default=",".join(SETS), help="the data sets, such as bibtex,mnist (default: all)")
    parser.add_argument("--peers", default=",".join(contest.PEERS), help="the peers of items 4 and 5 (default: all)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each contestant (default 3)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn of the NumPy reference")
    parser.add_argument("--read-rows", type=int, default=60000, help="rows of the file to read (default 60000)")
    parser.add_argument("--minutes", type=float, default=19.0,
                        help="no further run of a peer starts after this many (default 19)")
    parser.add_argument("--jobs", type=int, default=1,
                        help="commands of item 7 that run at a time, on two cores each (default 1, on all cores)")
    parser.add_argument("--quick", action="store_true", help="little data, no floors: checks that everything works")
    parser.add_argument("--core", type=int, help="the core for parts on one core (default: the first allowed one)")
    parser.add_argument("--markdown", metavar="FILE",
                        help="renew the tables of items 4, 5 and 7 on this page, such as docs/performance.md")
    parser.add_argument("--json", default=os.path.join(ROOT, "build/bench/bench.json"))
    options = parser.parse_args(arguments)
    only = options.only or "1,2,3,4,5,6,7"
    large = item_learnt.PART if options.only is None and not options.quick else ()
    options.only = [int(n) for n in some_of(only, [str(n) for n in range(1, 8)], "item")]
    names = some_of(options.data, SETS, "data set")
    options.sets = [name for name in names if name in item_peers.SETS]
    options.learnt_sets = [name for name in names if name in item_learnt.SETS and name not in large]
    options.peers = some_of(options.peers, contest.PEERS, "peer")
    options.size, options.quick_cap = (QUICK_SIZE, QUICK_CAP) if options.quick else (1.0, 0.0)
    if options.quick:
        options.rounds, options.seconds, options.read_rows = 1, 0.1, 2000
    if options.rounds < 1:
        fail("--rounds takes a whole number from 1 up")
    if not 1 <= options.jobs <= max(1, len(os.sched_getaffinity(0)) // 2):
        fail(f"--jobs takes a whole number from 1 to {max(1, len(os.sched_getaffinity(0)) // 2)}, half of the cores here")
    if options.markdown:
        if options.quick:
            fail("--markdown: results of --quick are not fit for a page; leave one of the two out")
        try:
            markdown.check(options.markdown)
        except (markdown.NoPlace, OSError) as why:
            fail(f"--markdown: {why}")
    for path in (options.program, options.bench):
        if not os.access(path, os.X_OK):
            fail(f"no program at {path}; ./dev bench builds it")
    return options


def show_ratios(bench):
    rows = [(f"{r['item']}  {r['what']}", "not reached" if r["ratio"] is None else f"{r['ratio']:,.2f}", r["note"])
            for r in bench.ratios]
    if rows:
        show("All ratios (above 1: truemax is faster; shares: of the bound)", ("", "ratio", ""), rows, text=(0, -1))


def main(arguments=None):
    options = options_of(arguments)
    results = {"load_before": os.getloadavg(), "seconds": {}}
    with tempfile.TemporaryDirectory(prefix="truemax-bench-") as folder:
        bench = Bench(options, folder)
        for items, module in ITEMS.items():
            if not set(items) & set(options.only):
                continue
            name, before = "item_" + "_".join(map(str, items)), bench.seconds
            bench.say(f"item {' and '.join(map(str, items))}")
            results[name] = module.run(bench)
            results["seconds"][name] = bench.seconds - before
    results["seconds"]["all"] = bench.seconds
    show_ratios(bench)
    met = bench.floors.show()
    results.update(ratios=bench.ratios, floors=bench.floors.results, load_after=os.getloadavg())
    os.makedirs(os.path.dirname(os.path.abspath(options.json)), exist_ok=True)
    with open(options.json, "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    if options.markdown:
        markdown.renew(options.markdown, markdown.tables(results))
    print(f"\n{bench.seconds / 60:.1f} minutes; load of the machine {results['load_before'][0]:.1f} before, "
          f"{results['load_after'][0]:.1f} after"
          + (" (other programs were running: times are for shape only)" if results["load_before"][0] > 0.5 else "")
          + f"\nwritten to {options.json}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
