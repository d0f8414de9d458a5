"""Names of the command line's options in Python, and texts that mention them."""
from __future__ import annotations

import re
from typing import Sequence

import numpy as np

RENAMED = {
    "intercept": "fit_intercept",
    "seed": "random_state",
    "threads": "n_jobs",
    "valid-share": "validation_fraction",
    "patience": "n_iter_no_change",
    "class-weights": "class_weight",
    "row-weights": "sample_weight",
    "valid": "eval_set",
}


def python_name(option: str) -> str:
    return RENAMED.get(option, option.replace("-", "_"))


def python_words(text: str) -> str:
    """A text of the command line with its options as parameters: --rows-per-step becomes rows_per_step."""
    def named(match: re.Match) -> str:
        name = match[1]
        if name.startswith("no-"):
            return f"{python_name(name[3:])}=False"
        return python_name(name)

    return re.sub(r"--([a-z][a-z-]*[a-z]|C)\b", named, text)


_WHOLE = re.compile("0|-?[1-9][0-9]{0,17}")


def are_whole(names: Sequence[str]) -> bool:
    """Whether all names are whole numbers as Python writes them, and fit into int64."""
    return all(_WHOLE.fullmatch(name) for name in names)


def values_of_names(names: Sequence[str], whole: bool | None = None) -> np.ndarray:
    """An array of int64 or of texts. `whole`: whether they were numbers, None if only the names can tell."""
    if whole is not False and are_whole(names):
        return np.array([int(name) for name in names], dtype=np.int64)
    return np.array(names, dtype=object)
