"""python3 -m experiments.paper: see `--help`. `./dev paper` and `./dev paper-quick` call this."""
import argparse
import fcntl
import json
import os
import subprocess
import sys
import time

from . import docs, figures, layout, optimum, plan, registry, report, tables, timing
from .files import BENCH, ROOT, Refused
from .results import Results
from .runs import Runner

sys.path.insert(0, BENCH)
from tables import show  # noqa: E402

RECORDED = "recorded"


def at_least_one(text):
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 up, found '{text}'")
    return int(text)


def options():
    parser = argparse.ArgumentParser(prog="./dev paper", description="The paper's experiments with truemax.")
    parser.add_argument("--data",
                        help="folder of the data sets, one folder each (default: $TRUEMAX_DATA, ../shared/data)")
    parser.add_argument("--out", default=os.path.join(ROOT, "build", "paper"))
    parser.add_argument("--program",
                        default=os.environ.get("TRUEMAX", os.path.join(ROOT, "build", "release", "truemax")))
    parser.add_argument("--jobs", type=at_least_one, default=min(2, os.cpu_count() or 1), help="runs at the same time")
    parser.add_argument("--sets", help="only these, separated by commas")
    parser.add_argument("--as-recorded", action="store_true", help="only the authors' own protocol")
    parser.add_argument("--as-written", action="store_true", help="only the protocol that the paper describes")
    parser.add_argument("--quick", action="store_true",
                        help="a small part, in two minutes: bibtex, few steps, one seed")
    parser.add_argument("--any-build", action="store_true", help="also use runs of other builds of the program")
    parser.add_argument("--plan", action="store_true", help="print the plan and stop")
    parser.add_argument("--docs", action="store_true", help="write the figures into docs/paper.md afterwards")
    return parser.parse_args()


def folders(told):
    if told is not None:
        if not os.path.isdir(told):
            raise Refused(f"--data {told}: there is no such folder; it holds a folder for each data set")
        return [os.path.abspath(told)]
    found = [os.environ.get("TRUEMAX_DATA"), os.path.join(os.path.dirname(ROOT), "shared", "data")]
    return [os.path.abspath(folder) for folder in found if folder]


def find_sets(told, program, data_folder, where, twins):
    """The sets that will be run, and notes on missing ones."""
    founds, notes = [], []
    for one in registry.SETS:
        if told and one.name not in told:
            continue
        found, why = registry.find(one, where, data_folder)
        if found is None and one.has_twin and twins:
            notes.append(f"{why}. A generated twin of the same N, D and K is run in its place and marked as such.")
            found = registry.twin(one, program, data_folder)
        elif found is None:
            notes.append(f"{why}. Skipped.")
        if found is not None:
            registry.check(found, program, data_folder)
            founds.append(found)
    return founds, notes


def stages_of(made, recorded, written):
    """{stage: its runs}, as far as they are known before steps are chosen."""
    stages = {RECORDED: [*made.as_recorded(), *made.variants()] if recorded else []}
    for found, one in made.by_set() if written else ():
        stages[found.name, "searches"] = one.searches()
        # The chosen steps are not known yet; a run takes equally long at any step.
        stages[found.name, "finals"] = one.finals({(found.name, m.name): 1.0 for m in one.methods_of(found)})
        stages[found.name, "sensitivity"] = one.sensitivity()
    return stages


def search_and_run(runner, made, jobs):
    """As written, set by set: steps, then the runs, with lower steps if a method overflowed with every seed."""
    outcomes, chosen = {}, {}
    for found, one in made.by_set():
        outcomes.update(runner.all(one.searches(), jobs, f"{found.title}, steps on a tenth of the rows",
                                   (found.name, "searches")))
        steps = plan.choose(one, outcomes)
        outcomes.update(runner.all(one.finals(steps), jobs, f"{found.title}, as written", (found.name, "finals")))
        while lower := plan.lower_where_all_diverged(one, steps, outcomes):
            steps.update(lower)
            outcomes.update(runner.all(one.finals(steps), jobs, f"{found.title}, lower steps"))
        if every := [spec for spec in one.sensitivity() if spec.key not in outcomes]:
            outcomes.update(runner.all(every, jobs, f"{found.title}, every step on all rows",
                                       (found.name, "sensitivity")))
        chosen.update(steps)
    return outcomes, chosen


def names_of(told):
    """The sets given by --sets; None: all."""
    if told.sets is None:
        return ["bibtex"] if told.quick else None
    names = [name.strip() for name in told.sets.split(",")]
    for name in names:
        if name not in registry.BY_NAME:
            raise Refused(f"--sets {name}: there is no such set; known are {', '.join(registry.BY_NAME)}")
    return names


def part_of(told):
    """A description of the part of the experiments that is run; "": all of them."""
    parts = [f"--sets {told.sets}"] if told.sets else []
    if told.as_recorded != told.as_written:
        parts.append("--as-recorded" if told.as_recorded else "--as-written")
    if told.quick:
        parts.append("--quick (one seed, four steps, only bibtex where no sets are named)")
    return ", ".join(parts)


def lock(folder):
    """Held until the process ends: two runs at once would write the same files."""
    os.makedirs(folder, exist_ok=True)
    file = open(os.path.join(folder, "lock"), "w", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"another run is at work in {folder}; wait until it ends, or give another folder with --out") \
            from None
    return file


def main():
    try:
        return run(options())
    except Refused as why:
        print(f"./dev paper: {why}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"./dev paper: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2
    except (RuntimeError, subprocess.CalledProcessError) as error:  # the program refused or failed
        print(f"./dev paper: {error}\nFiles under data/ of the output are made of those of the data sets.",
              file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; finished runs are kept: run the same command again to continue", file=sys.stderr)
        return 130


def run(told):
    begin = time.monotonic()
    if not os.access(told.program, os.X_OK):
        raise Refused(f"no program at {told.program}; build it with ./dev build")
    part = part_of(told)
    if told.docs and part:
        raise Refused(f"--docs writes docs/paper.md from all experiments, and this is a part: {part}")
    sets, where = names_of(told), folders(told.data)
    with lock(told.out):
        return locked_run(told, part, sets, where, begin)


def locked_run(told, part, sets, where, begin):
    data_folder = plan.folder_of(told.out, "data")
    founds, notes = find_sets(sets, told.program, data_folder, where, not told.as_recorded)
    for note in notes:
        print(note, file=sys.stderr)
    if not founds:
        raise Refused("no data set was found; see above")
    missing = [one.title for one in registry.SETS if not one.has_twin and one not in [found.set for found in founds]]
    if told.docs and missing:
        raise Refused(f"--docs writes docs/paper.md from all experiments, and these sets are not there: "
                      f"{', '.join(missing)}")
    quick = {"seeds": (1,), "powers": (-2, 0, 1, 2)} if told.quick else {}
    made = plan.Plan(founds, data_folder, **quick)
    runner = Runner(told.program, told.out, told.any_build)
    both = told.as_recorded == told.as_written
    written = both or told.as_written
    stages = stages_of(made, both or told.as_recorded, written)
    everything = sum(stages.values(), [])
    print(f"plan: {len(everything)} runs, about {sum(s.cost for s in everything) / told.jobs / 60:.0f} min "
          f"on {told.jobs} cores", file=sys.stderr)
    for found in founds:
        own = [spec for spec in everything if spec.set == found.name]
        print(f"  {found.title:<24} {len(own):>4} runs {sum(s.cost for s in own) / told.jobs / 60:>6.1f} min",
              file=sys.stderr)
    for (name, method), why in made.skipped.items():
        print(f"  {name} {method}: {why}", file=sys.stderr)
    if told.plan:
        return 0
    runner.planned = {stage: sum(spec.cost for spec in specs) for stage, specs in stages.items()}
    outcomes = runner.all(stages[RECORDED], told.jobs, "as recorded", RECORDED)
    chosen = {}
    if written:
        more, chosen = search_and_run(runner, made, told.jobs)
        outcomes.update(more)
    times = timing.all_sets(told.program, founds, told.out) if written else {}
    results = Results(made, outcomes, chosen, times, optimum.load())
    shown_tables = tables.all_tables(results)
    layout.write_csv(shown_tables, os.path.join(told.out, "tables"))
    with open(os.path.join(told.out, "tables.json"), "w", encoding="utf-8") as file:
        json.dump({table["id"]: table for table in shown_tables}, file, indent=1)
    shown = report.write(os.path.join(told.out, "report.html"), results, shown_tables, notes, part)
    figures.write_files(shown, os.path.join(told.out, "figures"))
    if told.docs:
        docs.refresh(shown_tables, os.path.join(told.out, "figures"))
    for table in shown_tables:
        if table["id"] in ("recorded", "table-3"):
            show(table["title"], table["columns"], [[layout.text(value) for value in row] for row in table["rows"]],
                 layout.words_only(table))
    print(f"\n{os.path.join(told.out, 'report.html')}: {len(shown_tables)} tables, {len(shown)} figures; "
          f"{(time.monotonic() - begin) / 60:.1f} min", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
