"""Writes truemax/_parameters.py and the type stubs: parameters of the estimators, from the descriptions of the command
line's options.

    generate.py            writes them into the source tree
    generate.py --check    exit code 1 if they are not up to date
"""
from __future__ import annotations

import argparse
import ast
import pathlib
import re
import sys
import textwrap

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from truemax import _library as lib  # noqa: E402
from truemax._names import python_name, python_words  # noqa: E402

WIDTH = 116

OWN = {  # parameters that are not options of the command line: type, default, words
    "class_weight": ("Mapping[Any, float] | Literal['balanced'] | None", None,
                     "Class weights, multiplied with the weights of rows. 'balanced' gives all classes the same total "
                     "weight."),
    "early_stopping": ("bool", False,
                       "Hold out validation_fraction of the rows, stop after n_iter_no_change evaluations without a "
                       "better log-loss on them, and keep the best model."),
    "warm_start": ("bool", False, "fit() starts from the model of the last fit. Classes may be new."),
    "verbose": ("bool | int | None", None,
                "Progress: a line on a terminal, a bar in a notebook, nothing elsewhere. 0: nothing anywhere; 1: lines "
                "of text everywhere."),
}
# Parameters whose default or words differ from the option's.
INSTEAD = {
    "fit_intercept": ("bool", True, None),
    "random_state": ("int | np.random.RandomState | None", None,
                     "Random seed: the same one gives bit-identical results. None: 1."),
    "device": ("str | None", None,
               "Where fit() computes: 'cpu', 'cuda' (the first card), 'cuda:1' and so on, or 'auto': a GPU if there is "
               "one and it is faster, else the CPU. None: 'auto', or 'cpu' if a method is named. Results of a GPU are "
               "not the same bit for bit."),
    "n_jobs": ("int | None", None, "Threads; None or -1: all cores. Never changes a result, unless lock_free."),
    "validation_fraction": ("float", 0.1,
                            "The share of the training rows that trials, and early_stopping, are judged on. Trials fit "
                            "all rows at the end; early_stopping does not."),
    "n_iter_no_change": ("int", 5, "For early_stopping: evaluations without a better log-loss before it stops."),
    "eval_train": ("bool | None", None,
                   "Evaluate the training rows too, which costs a pass over all rows and classes. None: only if "
                   "eval_every is given."),
    "labels": ("Literal['first', 'all'] | None", None,
               "Rows with several labels count once for the first (lowest) one, or once for each with weight 1 / their "
               "number. None: all."),
}
# By estimator: type (None: the option's) and words that differ from the option's.
LEARNT = {
    "step": (None, "Step size: about the most by which a number moves in one step; it falls linearly to 1%. None: "
                   "found by trials."),
    "schedule": (None, "How the step decreases: by the factor 0.9 after each epoch, or linearly to 1% of its start "
                       "over the whole run. None: linear."),
    "rows-per-step": (None, "Examples that share the drawn classes of a step. None: chosen from the data, up to "
                            "1024."),
    "classes-per-step": (None, "Classes drawn per step. None: 1024."),
    "row-state": (None, "RMSprop keeps one running mean of squared gradients for a vector instead of one for each "
                        "of its numbers, which takes about a third less memory. None: only if memory is short."),
    "eval-every": (None, "Epochs between evaluations; the last epoch is always evaluated. None: 0, only the last."),
    "lock-free": (None, "Threads take steps without waiting for each other (Hogwild), which is not reproducible bit "
                        "for bit. None: off."),
}
INSTEAD_OF = {
    "text": {
        **LEARNT,
        "context": (None, "How many words before a word predict it; for 'cbow' and 'skipgram' how many on each "
                          "side. None: 8, for 'cbow' and 'skipgram' 5."),
        "hidden": ("int | None", "Numbers in the vector of a word (h). None: 256."),
        "ridge": ("float | None", "Ridge (L2) penalty: adds ridge/N times a number to its gradient whenever a step "
                                  "touches it, for N words. None: 7.5e-5 per word, for 'skipgram' 1.5e-5 per pair."),
        "layers": (None, "1 puts a tanh layer between the words of a context and the features; 0 adds the words' "
                         "vectors with a factor for each place and number (log-bilinear). None: found by trials."),
        "tied": (None, "Whether a word has one vector, as context and as class, or two. None: found by trials."),
        "dropout": (None, "The share of the numbers of a row that a step leaves out at random, from 0 to 0.95. "
                          "None: found by trials."),
        "min-count": (None, "Words that occur less often than this in the training text become <unk>. None: 1."),
        "validation-fraction": (None, "The share of the text that trials are judged on, ten contiguous pieces of "
                                      "it, unless there is an eval_text. All of the text is fitted at the end."),
        "rho": (None, "How far one step moves the estimates of the log-normalisers; large values follow each draw. "
                      "None: 0.1, for 'skipgram' 4."),
    },
    "triples": {
        **LEARNT,
        "hidden": ("int | None", "Numbers in the vector of an entity or a relation (h), an even number: h/2 complex "
                                 "ones. None: 200."),
        "ridge": ("float | None", "The weight of the N3 penalty in the loss of a triple. None: found by trials, or "
                                  "0.05 if there are too many triples for a trial."),
        "validation-fraction": (None, "The share of the triples that trials are judged on, unless there are "
                                      "eval_triples. All triples are fitted at the end."),
        "rho": (None, "How far one step moves the estimates of the log-normalisers; large values follow each draw. "
                      "None: 4."),
    },
}
ENCODERS = {"classifier": ["auto", "linear", "bag"], "text": ["context", "cbow", "skipgram"]}

TRAIN = ["step", "ridge", "epochs", "seconds", "steps"]
COMMON = ["random-state", "n-jobs", "device", "memory-limit", "verbose"]
ESTIMATORS = {
    "ClassifierParameters": ("classifier", ["method", *TRAIN, "hidden", "encoder", "fit-intercept", "class-weight",
                                            "early-stopping", "validation-fraction", "n-iter-no-change", "warm-start",
                                            "target", "schedule", "decay", "rows-per-step", "group", "visit",
                                            "classes-per-step", "draw", "draw-power", "draw-uniform", "head", "active",
                                            "row-state", "dropout", "start-at-frequencies", "ridge-intercept",
                                            "newton", "ridge-by-spread",
                                            "eval-every", "eval-train", "eval", "eval-rows",
                                            "lock-free", "delta", "double-sum-alpha", "log-q", "label-noise",
                                            "refresh", "running-rate", "rho", "rho-falls", "sox-rate",
                                            "softplus-bend", "labels", "normalize", "max-features", "hash-features",
                                            *COMMON]),
    "TextParameters": ("text", ["encoder", "context", "hidden", *TRAIN, "layers", "tied", "dropout", "min-count",
                                "schedule", "rows-per-step", "classes-per-step", "row-state", "eval-every",
                                "validation-fraction", "lock-free", "rho", *COMMON]),
    "TripleParameters": ("triples", ["hidden", *TRAIN, "schedule", "rows-per-step", "classes-per-step", "row-state",
                                     "eval-every", "validation-fraction", "lock-free", "rho", *COMMON]),
}
DEFAULTS = {("classifier", "method"): "auto", ("text", "encoder"): "context"}


def type_of(option: dict, kind: str) -> str:
    if option["name"] == "encoder":
        return f"Literal[{', '.join(map(repr, ENCODERS[kind]))}] | None"
    if option["is_switch"]:
        return "bool | None"
    first = option["value"].split("|")[0]
    words = option["values"]
    literal = f"Literal[{', '.join(map(repr, words))}]" if words else ""
    number = {"COUNT": "int", "NUMBER": "float", "SIZE": "int | str"}.get(first)
    if number is None:
        return f"{literal} | None"
    return " | ".join(filter(None, [number, literal, "None"]))


def parameter(name: str, kind: str, options: dict[str, dict]) -> tuple[str, str, object, str]:
    """(Python name, type, default, words)."""
    python = name.replace("-", "_")
    if python in OWN:
        return python, *OWN[python]
    option = options[name]
    words = python_words(option["help"])
    if option["range"] and python_words(option["range"]) not in words:  # a help text may say it itself
        words += f" Takes {python_words(option['range'])}."
    kind_of, default = type_of(option, kind), DEFAULTS.get((kind, name))
    plain = option["plain_default"] or option["default"]
    if python in INSTEAD:
        kind_of, default, instead = INSTEAD[python]
        words = instead or words
    elif default is None:
        words += f" None: {python_words(plain)}." if plain else ""
    instead_of = INSTEAD_OF.get(kind, {}).get(name)
    if instead_of is not None:
        kind_of, words = instead_of[0] or kind_of, instead_of[1]
    if name == "encoder":
        words = {"classifier": "What the classes are linear in: the features of the data ('linear') or learnt "
                               "features ('bag', see hidden). None or 'auto': trials decide.",
                 "text": "The words before a word, in order ('context'), or around it ('cbow'), or a word that predicts "
                         "those around it ('skipgram')."}[kind]
    return python, kind_of, default, words


def signature(parameters: list[tuple], indent: str) -> str:
    text = ", ".join(f"{name}: {kind} = {default!r}" for name, kind, default, _ in parameters)
    filled = textwrap.fill(f"def __init__(self, *, {text})\u00a0->\u00a0None:", WIDTH, initial_indent=indent,
                           subsequent_indent=indent + " " * len("def __init__("), break_long_words=False,
                           break_on_hyphens=False)
    return filled.replace("\u00a0", " ")  # a line cannot break before the arrow


def documentation(parameters: list[tuple]) -> str:
    lines = ["Parameters", "----------"]
    for name, kind, default, words in parameters:
        kind = re.sub(r"Literal\[(.*?)\]", r"{\1}", kind.replace("np.random.", ""))
        lines.append(f"{name} : {kind.replace(' | None', '')}, default={default!r}")
        lines += textwrap.wrap(words, WIDTH - 4, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)


def parameters_module() -> tuple[str, dict[str, list[tuple]]]:
    options = {o["name"]: o for o in lib.options()}
    for option in list(options.values()):
        options[python_name(option["name"]).replace("_", "-")] = option
    tables = {name: [parameter(p, kind, options) for p in names] for name, (kind, names) in ESTIMATORS.items()}
    text = '"""Generated by python/generate.py from the descriptions of the options; a test checks that it is up to date.\n'
    text += '"""\n# fmt: off\nfrom __future__ import annotations\n\nfrom typing import Any, Literal, Mapping\n\n'
    text += "import numpy as np\n"
    for name, (kind, names) in ESTIMATORS.items():
        parameters = tables[name]
        of = [(p[0], options[n]["name"], options[n]["of"]) for p, n in zip(parameters, names) if p[0] not in OWN]
        text += f"\n\nclass {name}:\n    # Parameter: (option, what it belongs to).\n    _options = {{\n"
        text += "".join(f"        {p!r}: ({o!r}, {w!r}),\n" for p, o, w in of) + "    }\n\n"
        text += signature(parameters, "    ") + "\n"
        text += "".join(f"        self.{p[0]} = {p[0]}\n" for p in parameters)
        text += f'\n\n{name.upper()}_DOC = """\\\n{documentation(parameters)}\n"""\n'
    return text, tables


def stub_of(path: pathlib.Path, tables: dict[str, list[tuple]]) -> str:
    """The public classes and functions of a module without their bodies; parameters in place of their base class."""
    tree = ast.parse(path.read_text())
    lines = ["# Generated by python/generate.py; a test checks that it is up to date.", "# fmt: off"]

    def header(node: ast.FunctionDef, indent: str) -> None:
        for decorator in node.decorator_list:
            lines.append(f"{indent}@{ast.unparse(decorator)}")
        result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        lines.append(f"{indent}def {node.name}({ast.unparse(node.args)}){result}: ...")

    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            lines.append(ast.unparse(node))
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            header(node, "")
        elif isinstance(node, ast.AnnAssign):
            lines.append(f"{ast.unparse(node.target)}: {ast.unparse(node.annotation)}")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not isinstance(
                node.value, ast.Constant) and node.targets[0].id[0].isupper() and not node.targets[0].id.isupper():
            lines.append(ast.unparse(node))
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            bases = [ast.unparse(b) for b in node.bases]
            given = [b for b in bases if b in tables]
            lines.append(f"\nclass {node.name}({', '.join(bases)}):" if bases else f"\nclass {node.name}:")
            before = len(lines)
            if given:
                lines.append(signature(tables[given[0]], "    ") + " ...")
                lines += [f"    {name}: {kind}" for name, kind, *_ in tables[given[0]]]
            for item in node.body:
                if isinstance(item, ast.AnnAssign):
                    lines.append(f"    {ast.unparse(item.target)}: {ast.unparse(item.annotation)}")
                elif isinstance(item, ast.FunctionDef) and (
                        not item.name.startswith("_") or item.name in ("__init__", "__contains__", "__sklearn_tags__")):
                    header(item, "    ")
            if len(lines) == before:
                lines.append("    ...")
    imported = any(line.startswith("from typing ") and "Literal" in line for line in lines)
    if any("Literal[" in line for line in lines) and not imported:  # the parameters need it
        lines.insert(3, "from typing import Literal")
    return "\n".join(lines) + "\n"


STUBS = ["classifier", "language", "links", "plot", "torch"]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    check = arguments.parse_args().check
    package = HERE / "truemax"
    text, tables = parameters_module()
    files = {package / "_parameters.py": text}
    for module in STUBS:
        source = package / f"{module}.py"
        if source.exists():
            files[package / f"{module}.pyi"] = stub_of(source, tables)
    stale = [path for path, content in files.items() if not path.exists() or path.read_text() != content]
    if check:
        for path in stale:
            print(f"{path.relative_to(HERE.parent)} is not up to date: run ./dev python --generate")
        return 1 if stale else 0
    for path in stale:
        path.write_text(files[path])
        print(path.relative_to(HERE.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
