"""Texts and triples of Python as files, which the library reads."""
from __future__ import annotations

import codecs
import contextlib
import errno
import os
import tempfile
from typing import IO, Any, Callable, Iterable, Iterator, Mapping


def path_of(value: str | os.PathLike, argument: str, instead: str) -> str:
    """The absolute path of an existing file, so that '-' is not standard input. `instead`: what else could be given."""
    path = os.fsdecode(os.fspath(value))
    if "\0" in path:
        raise ValueError(f"{argument} is {path!r}, which has a zero byte; {instead}")
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, f"{argument} is a folder; give a file", path)
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, f"{argument}: there is no such file; {instead}", path)
    return os.path.abspath(path)


@contextlib.contextmanager
def temporary_file(write: Callable[[IO[bytes]], None], argument: str) -> Iterator[str]:
    """A file that exists in the block. Messages about it name the argument in its place."""
    with tempfile.TemporaryDirectory(prefix="truemax-") as folder:
        path = os.path.join(folder, "data")
        with open(path, "wb") as file:
            write(file)
        _keep_byte_order_mark(path)
        try:
            yield path
        except ValueError as error:
            raise ValueError(str(error).replace(path, argument)) from None


def _keep_byte_order_mark(path: str) -> None:
    """The reader takes a mark at the beginning for that of the file. One that belongs to the first word needs another
    before it."""
    with open(path, "r+b") as file:
        if file.read(len(codecs.BOM_UTF8)) == codecs.BOM_UTF8:
            rest = file.read()
            file.seek(0)
            file.write(2 * codecs.BOM_UTF8 + rest)


def in_utf8(text: str, what: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has {text[error.start]!r}, half of a character, which UTF-8 cannot write; leave it "
                         "out") from None


def require_order(value: Any, argument: str) -> None:
    if isinstance(value, (set, frozenset, Mapping)):
        raise TypeError(f"{argument} is a {type(value).__name__}, which has no order to rely on; give a list")


def _line(line: Any, number: int, argument: str) -> bytes:
    if not isinstance(line, str):
        hint = "join the words of a line by blanks" if isinstance(line, (list, tuple)) else "give a str for each line"
        raise TypeError(f"{argument}: line {number} is {type(line).__name__}, not str; {hint}")
    line = line[:-1] if line.endswith("\n") else line
    if "\n" in line:
        raise ValueError(f"{argument}: line {number} has a line break inside; split it with splitlines()")
    if "\0" in line:
        raise ValueError(f"{argument}: line {number} has a zero character; leave it out")
    return in_utf8(line, f"{argument}: line {number}")


@contextlib.contextmanager
def text_file(text: Any, argument: str) -> Iterator[str]:
    """A file of plain text: the one that is named, or a temporary one of lines."""
    instead = "give lines of text as a list of str"
    if isinstance(text, os.PathLike) or (isinstance(text, str) and ("\n" not in text or os.path.exists(text))):
        yield path_of(text, argument, instead)
        return
    if isinstance(text, str):
        text = text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")
    require_order(text, argument)
    if isinstance(text, (bytes, bytearray)) or not isinstance(text, Iterable):
        raise TypeError(f"{argument} is {type(text).__name__}; give the path of a file, or lines of text as a list of "
                        "str")

    def write(file: IO[bytes]) -> None:
        number = -1
        for number, line in enumerate(text):
            file.write(_line(line, number, argument) + b"\n")
        if number < 0:
            raise ValueError(f"{argument} has no lines; give at least one")

    with temporary_file(write, argument) as path:
        yield path
