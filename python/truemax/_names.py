"""Names of the command line's options in Python, and texts that mention them."""
from __future__ import annotations

import re
from typing import Collection, Mapping

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


# What the command line says, and what it means here; after options have become parameters.
_OTHERWISE = {
    "; see 'truemax help'": "",
    "and run the command again": "and try again",
    "eval_set FILE": "eval_set=(X, y)",
    " (max_rows)": "",
}
_NUMBER = re.compile(r"-?[0-9][0-9.e+-]*|nan|-?inf")
_SWITCH = {"on": "True", "off": "False"}


def python_words(text: str, words: Mapping[str, Collection[str]] | None = None) -> str:
    """A text of the command line with its options as parameters: --rows-per-step 4 becomes rows_per_step=4.

    words: of each option, the words that it takes as a value.
    """
    words = words or {}

    def named(match: re.Match) -> str:
        name, blank, value = match[1], match[2] or "", match[3] or ""
        if name.startswith("no-"):
            return f"{python_name(name[3:])}=False{blank}{value}"
        if value.rstrip(",.:;") in words.get(name, ()):
            word = value.rstrip(",.:;")
            return f"{python_name(name)}='{word}'{value[len(word):]}"
        if re.fullmatch(r"[0-9][0-9.e+-]*[,.:;]?", value):
            return f"{python_name(name)}={value}"
        return f"{python_name(name)}{blank}{value}"

    refused = re.fullmatch(r"--([a-z][a-z-]*) '(.*)': this option takes (.*); see 'truemax help'", text, re.DOTALL)
    if refused:
        found = _SWITCH.get(refused[2], refused[2] if _NUMBER.fullmatch(refused[2]) else f"'{refused[2]}'")
        takes = refused[3].replace("no value, or on or off", "True or False")
        if refused[1] == "patience":
            takes = takes.replace(" or 'off'", "")  # that is early_stopping=False
        return f"{python_name(refused[1])} is {found}; give {takes}"
    text = re.sub(r"--([a-z][a-z-]*[a-z]|C)\b(?:( )([^ ]+))?", named, text)
    for said, here in _OTHERWISE.items():
        text = text.replace(said, here)
    return text
