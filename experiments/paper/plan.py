"""All runs of an experiment, in order of dependence: steps on a tenth of the rows, then the runs.

Costs are rough: they order the runs and give the printed plan. The time left is corrected by the clock.
"""
import copy
import dataclasses
import os

from . import authors, protocol, registry
from .files import Refused
from .runs import Spec

EXACT_SECONDS = 600      # for exact, including the choice of its step; if it would take longer it is marked and not run
IN_CACHE = 500           # about the classes whose weights fit into the cache
LONG_SECONDS = 60        # of a run, above which only one seed is run
MANY_CELLS = 1e9         # rows x classes above which only the first seed at the chosen step is recorded along the way
SENSITIVITY = ("mnist", "bibtex", "delicious", "eurlex", "yso-finna-en", "fb15k-237")  # every step on all rows


class Plan:
    def __init__(self, founds, data_folder, methods=protocol.METHODS, seeds=protocol.SEEDS, powers=None, epochs=None):
        self.founds, self.folder, self.methods, self.seeds = founds, data_folder, methods, seeds
        self.powers, self.epochs = powers, epochs or protocol.EPOCHS
        self.shapes, self.skipped = {}, {}
        for found in founds:
            files = self.tenth_files(found)
            self.shapes[found.name, "train"] = registry.shape(found, [found.train], data_folder)
            tenth = self.shapes[found.name, "tenth"] = registry.shape(found, files, data_folder)
            if tenth["rows"] < protocol.BATCH:
                raise Refused(f"{found.train}: a tenth of its rows are {tenth['rows']}, fewer than the "
                              f"{protocol.BATCH} that a step of OVE, NCE and IS takes")

    def by_set(self):
        """The plan of each set alone."""
        for found in self.founds:
            one = copy.copy(self)
            one.founds = [found]
            yield found, one

    def tenth_files(self, found):
        return registry.tenth(found, self.folder)

    def recorded(self, found):
        return registry.recorded(found, self.folder)

    def seconds(self, shape, method, epochs, evaluated):
        """Estimate on one core; `evaluated`: rows, counted each time they are evaluated."""
        rows, classes, nonzeros = shape["rows"], shape["classes"], shape["nonzeros"]
        if method.method == "exact":
            step = classes * (0.8 * nonzeros + 3)
        elif method.name == "prox-blocks":
            step = 400 + 18 * nonzeros  # many classes, but contiguous in memory
        else:
            weight = 1.5 if classes < IN_CACHE else 8
            step = 150 + (method.classes + 1) * (weight * nonzeros + 20)
        load = 1000 + 100 * nonzeros
        return 1e-9 * (rows * (epochs * step + load) + evaluated * classes * (0.07 * nonzeros + 0.5)) + 0.1

    def judges(self, found):
        """How many rows judge a step."""
        return min(registry.JUDGES, 9 * self.shapes[found.name, "tenth"]["rows"])

    def runs_exact(self, found):
        """Whether exact is run on a set; if not, `skipped` says why."""
        method = protocol.BY_NAME["exact"]
        shape = self.shapes[found.name, "train"]
        seconds = (self.seconds(shape, method, self.epochs, protocol.RECORDINGS * shape["rows"])
                   + len(self.steps(method)) * self.seconds(self.shapes[found.name, "tenth"], method, self.epochs,
                                                            self.judges(found)))
        if seconds > EXACT_SECONDS:
            self.skipped[found.name, "exact"] = f"not run: about {seconds / 60:.0f} min"
        return seconds <= EXACT_SECONDS

    def methods_of(self, found):
        return [one for one in self.methods if one.method != "exact" or self.runs_exact(found)]

    def spec(self, found, part, which, method, step, seed, every=0, doubled=()):
        files = self.tenth_files(found) if part == "tenth" else [found.train]
        shape = self.shapes.get((found.name, part)) or self.shapes[found.name, "train"]
        options = protocol.arguments(method, which, step, seed, shape["classes"]) + registry.cut(found)
        evaluated = self.judges(found) if part == "tenth" else shape["rows"] * (self.epochs // every if every else 1)
        cost = self.seconds(shape, method, self.epochs * (1 + len(doubled) / 2), evaluated)
        return Spec(found.name, part, which, method.name, step, seed, tuple(files), tuple(options), self.epochs, every,
                    tuple(doubled), registry.MAX_FEATURES if found.set.cut_features else 1 << 60, cost)

    def steps(self, method):
        steps = protocol.steps_to_try(method)
        return steps if self.powers is None else [step for step in steps if step in [10.0**p for p in self.powers]]

    def searches(self):
        """Every method at every step on a tenth of the rows."""
        return [self.spec(found, "tenth", protocol.WRITTEN, method, step, 1) for found in self.founds
                for method in self.methods_of(found) for step in self.steps(method)]

    def many_cells(self, found):
        shape = self.shapes[found.name, "train"]
        return shape["rows"] * shape["classes"] > MANY_CELLS

    def final(self, found, method, step, seed, recorded=True):
        every = self.epochs // protocol.RECORDINGS if recorded or not self.many_cells(found) else 0
        return self.spec(found, "train", protocol.WRITTEN, method, step, seed, every)

    def seeds_of(self, found, method):
        """One seed for runs that take minutes."""
        long = self.seconds(self.shapes[found.name, "train"], method, self.epochs, 0) > LONG_SECONDS
        return self.seeds[:1] if long else self.seeds

    def finals(self, chosen):
        return [self.final(found, method, chosen[found.name, method.name], seed, seed == self.seeds[0])
                for found in self.founds
                for method in self.methods_of(found) for seed in self.seeds_of(found, method)
                if chosen.get((found.name, method.name)) is not None]

    def as_recorded(self):
        """The six methods of the paper with the steps of the authors' records, on real data only."""
        records = authors.load()["tuned"]
        every = self.epochs // protocol.RECORDINGS
        specs = []
        for found in self.founds:
            if found.twin or not found.set.of_paper:
                continue
            split = self.recorded(found)
            for method in protocol.PAPER_METHODS:
                if method not in self.methods:
                    continue
                for seed in self.seeds:
                    doubled = ()
                    if method.biased_of_paper:  # the last first: its model is the one of the run itself
                        doubled = (self.epochs,)
                        if seed == self.seeds[0]:
                            doubled += tuple(range(every, self.epochs, every))
                    specs.append(self.spec(split, "recorded", protocol.RECORDED, method,
                                           records[found.name][method.name]["step"], seed, every, doubled))
                    if method.name == "implicit" and seed == self.seeds[0]:  # Figure 4 goes on to their last epoch
                        longer = authors.load()["longer"][found.name][-1][0]
                        specs.append(dataclasses.replace(specs[-1], method=protocol.LONGER, epochs=longer))
        return specs

    def variants(self):
        """The runs as recorded with one thing changed."""
        by_name = {found.name: found for found in self.founds}
        specs = []
        for spec in self.as_recorded():
            found = by_name[spec.set]
            for one in protocol.VARIANTS:
                if spec.method not in one.methods or (one.usual_rows and not found.set.three_quarters):
                    continue
                specs.append(dataclasses.replace(
                    spec, method=f"{spec.method}-{one.name}", options=one.options(spec.options), every=0,
                    files=(found.train,) if one.usual_rows else spec.files, double_softmax=spec.double_softmax[:1]))
        return specs

    def sensitivity(self):
        """Figures 2 and 3: every step on all rows, one seed; only the end is recorded if rows x classes is large."""
        specs = []
        for found in self.founds:
            if found.name not in SENSITIVITY:
                continue
            for method in (*self.methods_of(found), protocol.UMAX_RAMAN):
                for step in self.steps(method):
                    specs.append(self.final(found, method, step, self.seeds[0], False))
        return specs


def end_loss(outcome):
    """The train log-loss of a run's last epoch; None if it diverged."""
    if outcome is None or outcome["diverged"] or not outcome["evaluations"]:
        return None
    return outcome["evaluations"][-1]["train"]["log_loss"]


def judged_loss(outcome):
    """The log-loss of a run on a tenth of the rows, on the rows that judge it; None if it diverged."""
    if outcome is None or outcome["diverged"] or not outcome["evaluations"]:
        return None
    return outcome["evaluations"][-1]["test"]["log_loss"]


def choose(plan, outcomes):
    """{(set, method): step}: lowest true log-loss on rows outside the tenth; None if every step diverged."""
    chosen = {}
    for found in plan.founds:
        for method in plan.methods_of(found):
            losses = {step: judged_loss(outcomes[found.name, "tenth", protocol.WRITTEN, method.name, step, 1])
                      for step in plan.steps(method)}
            losses = {step: loss for step, loss in losses.items() if loss is not None}
            chosen[found.name, method.name] = min(losses, key=losses.get) if losses else None
    return chosen


def lower_where_all_diverged(plan, chosen, outcomes):
    """Steps a tenth as large for methods that diverged with every seed, as the paper did for vanilla; {}: none."""
    lower = {}
    for (name, method), step in chosen.items():
        if step is None:
            continue
        ends = [end_loss(outcomes.get((name, "train", protocol.WRITTEN, method, step, seed))) for seed in plan.seeds]
        if all(end is None for end in ends) and step > 1e-8:
            lower[name, method] = float(f"{step / 10:.0e}")
    return lower


def folder_of(out, name):
    path = os.path.join(out, name)
    os.makedirs(path, exist_ok=True)
    return path
