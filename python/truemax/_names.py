"""Names of the command line's options in Python, and texts that mention them."""
from __future__ import annotations

import re

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
