"""Looks up the outcomes of runs."""
import statistics

from . import authors, protocol, registry
from .plan import SENSITIVITY, end_loss


class Results:
    def __init__(self, plan, outcomes, chosen, times, optimum):
        self.plan, self.outcomes, self.chosen, self.times, self.optimum = plan, outcomes, chosen, times, optimum
        self.authors = authors.load()

    def run(self, found, method, seed, step=None, part="train", which=protocol.WRITTEN):
        if step is None:
            step = self.chosen.get((found.name, method.name))
        return self.outcomes.get((found.name, part, which, method.name, step, seed))

    def record(self, found, method):
        """The authors' tuned run: its step and curve."""
        return self.authors["tuned"][found.set.name][method.name]

    def recorded_run(self, found, method, seed, name=None):
        """A run as recorded; `name`: that of another run at the same step (a variant, or Implicit with more epochs)."""
        step = self.record(found, method)["step"]
        return self.outcomes.get((found.name, "recorded", protocol.RECORDED, name or method.name, step, seed))

    def recorded_runs(self, found, method, name=None):
        return [self.recorded_run(found, method, seed, name) for seed in self.plan.seeds]

    def ends(self, found, method):
        return [end_loss(self.run(found, method, seed)) for seed in self.plan.seeds]

    def mean_end(self, found, method):
        return mean_of(self.ends(found, method))

    def measured(self, run, doubled):
        """The end of a run as recorded: its true log-loss, or its double softmax; None if it diverged."""
        if run is None or run["diverged"]:
            return None
        return run["double_softmax"][str(self.plan.epochs)]["double_softmax"] if doubled else end_loss(run)

    def recorded_ends(self, found, method, doubled):
        return [self.measured(run, doubled) for run in self.recorded_runs(found, method)]

    def has_records(self, found):
        return found.set.of_paper and not found.twin and \
            self.recorded_run(found, protocol.BY_NAME["implicit"], self.plan.seeds[0]) is not None

    def with_records(self):
        return [found for found in self.plan.founds if self.has_records(found)]

    def with_all_steps(self):
        """Sets for which every step was run on all rows."""
        return [found for found in self.plan.founds if found.name in SENSITIVITY]

    def end_by_step(self, found, method):
        """{step: log-loss} of the first seed on all rows; None if it diverged."""
        return {step: end_loss(self.run(found, method, self.plan.seeds[0], step)) for step in self.plan.steps(method)}

    def best_end(self, found, method):
        """(step, log-loss) of the best step on all rows; (None, None) if all diverged."""
        ends = {step: end for step, end in self.end_by_step(found, method).items() if end is not None}
        return min(ends.items(), key=lambda item: item[1]) if ends else (None, None)

    def not_run(self):
        """The paper's sets with only the authors' values."""
        there = {found.set.name for found in self.plan.founds if not found.twin}
        return [registry.BY_NAME[name] for name in authors.ORDER if name not in there]


def mean_of(values):
    """The mean of the values that are not None; None if there are none."""
    kept = [value for value in values if value is not None]
    return statistics.mean(kept) if kept else None


def error_of(run):
    """The train error at the end of a run; None if it diverged."""
    return None if run is None or run["diverged"] else run["evaluations"][-1]["train"]["error"]
