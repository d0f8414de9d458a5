"""What is run: the methods, the two protocols, and how a step is chosen.

as recorded   as the authors' runs were: rows in file order, classes from all with the label skipped, steps of the
              paper's Table 2, OVE/NCE/IS with 100 rows a step whose gradients are summed. Only on sets whose records
              can be compared. NCE has the label among its noise (--label-noise), IS subtracts log q from the label and
              the drawn alike, which cancels for uniform draws (--no-log-q).
as written    as the paper says: rows at random, classes from all but the label, gradients averaged, the step of
              each method chosen by the true log-loss on other training rows of 50 epochs on a tenth of them.

Both: 50 epochs, the step falls by 0.9 each, no ridge, u = 0 and W = 0 at the start, the log-loss recorded 10 times.
"""
import dataclasses

EPOCHS, DECAY, RECORDINGS = 50, 0.9, 10
SEEDS = (1, 2, 3)
POWERS = range(-3, 4)           # powers of ten: the steps tried
LOW_POWERS = (-5, -4)           # and these for vanilla, which overflows otherwise
BATCH = 100                     # rows per step of OVE, NCE and IS
RECORDED, WRITTEN = "as-recorded", "as-written"
LONGER = "implicit-longer"      # Implicit as recorded, with the epochs of the paper's Figure 4


@dataclasses.dataclass(frozen=True)
class Method:
    name: str
    title: str
    method: str                 # of truemax
    rows: int = 1
    classes: int = 1
    options: tuple = ()
    recorded_options: tuple = ()
    of_paper: bool = True

    @property
    def biased_of_paper(self):
        return self.name in ("ove", "nce", "is")

    @property
    def shape(self):
        return "1 x K" if self.method == "exact" else f"{self.rows} x {self.classes}"


METHODS = (
    Method("ove", "OVE", "ove", BATCH, 5),
    Method("nce", "NCE", "nce", BATCH, 5, recorded_options=("--label-noise",)),
    Method("is", "IS", "importance", BATCH, 5, ("--no-log-q",), ("--no-log-q",)),
    Method("vanilla", "Vanilla", "vanilla", 1, 5),
    Method("umax", "U-max", "umax", 1, 5, ("--delta", "1"), ("--delta", "1")),
    Method("implicit", "Implicit", "implicit", 1, 1),
    Method("ove-row", "OVE 1x5", "ove", 1, 5, of_paper=False),
    Method("nce-row", "NCE 1x5", "nce", 1, 5, of_paper=False),
    Method("is-row", "IS 1x5", "importance", 1, 5, ("--no-log-q",), of_paper=False),
    Method("is-corrected", "IS 1x5 corrected", "importance", 1, 5, of_paper=False),
    Method("scent", "SCENT", "scent", 1, 5, of_paper=False),
    Method("prox", "prox", "prox", 1, 5, of_paper=False),
    Method("prox-blocks", "prox, blocks", "prox", 1, 16, ("--draw", "head-blocks"), of_paper=False),
    Method("exact", "exact", "exact", of_paper=False),
)
BY_NAME = {one.name: one for one in METHODS}
PAPER_METHODS = tuple(one for one in METHODS if one.of_paper)
# The second double sum of Figure 3: U-max on Raman's.
UMAX_RAMAN = Method("umax-raman", "U-max, Raman's sum", "umax", 1, 5, ("--delta", "1", "--double-sum-alpha", "1"),
                    of_paper=False)


def steps_to_try(method):
    powers = (*LOW_POWERS, *POWERS) if method.name == "vanilla" else POWERS
    return [10.0**power for power in powers]


def arguments(method, protocol, step, seed, classes=None):
    """The options of `truemax train` for a run. `step` is the paper's eta*N; `classes` is K, if it is known."""
    if protocol == RECORDED:
        # Gradients of a batch are summed, so the division by --rows-per-step is undone. A batch shares
        # classes drawn from all, so OVE's scale is K/m here.
        step = step * method.rows
        more = ["--visit", "file", "--draw", "uniform-skip", *method.recorded_options]
    else:
        if method.method == "ove" and method.rows > 1 and classes:
            # (K-1)/m: the draw of a batch weighs K/m, and the step is linear in it.
            step = step * (classes - 1) / classes
        more = ["--visit", "random", *method.options]
    if method.method == "exact":
        more = ["--visit", "random"]
    else:
        more += ["--classes-per-step", str(method.classes), "--rows-per-step", str(method.rows)]
    return ["--method", method.method, "--step", repr(step), "--decay", repr(DECAY), "--seed", str(seed), *more]


@dataclasses.dataclass(frozen=True)
class Variant:
    """A run as recorded with one thing changed, to show how the authors' choices affect their records."""
    name: str
    words: str
    methods: tuple
    change: tuple = ()          # (option, in whose place)
    usual_rows: bool = False    # the usual train file, not the authors' split
    averaged: bool = False      # gradients of a batch averaged, not summed

    def options(self, options):
        given = list(options)
        for old, new in self.change:
            if old in given:
                given[given.index(old):given.index(old) + 1] = [new] if new else []
        if self.averaged:
            at = given.index("--step") + 1
            given[at] = repr(float(given[at]) / BATCH)
        return tuple(given)


VARIANTS = (
    Variant("visit", "rows at random, not in file order", ("umax", "implicit"), (("file", "random"),)),
    Variant("draw", "classes from all but the label, not from all with the label skipped", ("umax", "vanilla"),
            (("uniform-skip", "uniform"),)),
    Variant("rows", "the usual train file, not 75% of all rows", ("implicit", "umax", "vanilla"), usual_rows=True),
    Variant("averaged", "gradients of a batch averaged, not summed", ("ove", "nce", "is"), averaged=True),
    Variant("noise", "NCE without the label among its noise", ("nce",), (("--label-noise", ""),)),
    Variant("log-q", "IS with the correction of the drawn classes", ("is",), (("--no-log-q", ""),)),
)
