#!/usr/bin/python3
"""Runs every code block of README.md and docs/. The blocks of a page run in order, in one temporary folder:

  sh         by bash, which stops at the first error; truemax is in PATH, and ./dev only checks that the command exists
  python     in one namespace for the whole page, with truemax importable
  c, cpp     compiled against include/, linked with libtruemax.so and run; what has no main() is put into one
  json       parsed
  text       data, or what a program prints; not run

What a reader need not see is in HTML comments before a block, each beginning a line:

  <!-- not run: WHY -->             the test lists these
  <!-- setup: COMMANDS -->          sh, run at this place; may have several lines
  <!-- test with: OLD => NEW -->    the next block is run with this change: less data, fewer epochs; may occur repeatedly
  <!-- file: NAME -->               the next block is this file
  <!-- output -->                   the next block is what the block before it prints; numbers may differ by 2%

TRUEMAX_SHARED_LIBRARY  libtruemax.so (default: beside the program)
TRUEMAX_PACKAGE         the folder that has the package truemax (default: build/python)
TRUEMAX_DOC_PAGES       only these pages, such as "README.md docs/c.md", with the seconds of each block
"""
import contextlib
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import unittest
from typing import NamedTuple

from support import PACKAGE, PROGRAM, ROOT, ProgramTest

LIBRARY = os.path.abspath(os.environ.get("TRUEMAX_SHARED_LIBRARY",
                                         os.path.join(os.path.dirname(PROGRAM), "libtruemax.so")))
ONLY = os.environ.get("TRUEMAX_DOC_PAGES", "").split()
PAGE_SECONDS = 300

# The stand-in of ./dev: the real one would build and test, from inside a test.
DEV = r"""#!/bin/bash
grep -qE "^  ([a-z-]+ \| )*$1( \| [a-z-]+)*\)" {root}/dev || {{ echo "dev has no command '$1'"; exit 1; }}
"""


class Block(NamedTuple):
    line: int  # of the first line of code
    language: str
    code: str
    not_run: str = ""
    file: str = ""
    output: bool = False
    changes: tuple = ()


def pages():
    names = ["README.md", *(os.path.relpath(path, ROOT) for path in
                            sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)))]
    return [name for name in names if name in ONLY] if ONLY else names


def blocks_of(text):
    """The blocks of a page. A setup comment is a block of sh."""
    found, marks, lines = [], {}, text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"( *)(```+) *(\S*)", line)
        comment = re.match(r"<!-- *(not run|setup|test with|file|output)\b:?", line)
        if fence:
            begin = at = at + 1
            while not re.match(rf" *{fence[2]} *$", lines[at]):
                at += 1
            code = "\n".join(row.removeprefix(fence[1]) for row in lines[begin:at]) + "\n"
            found.append(Block(begin + 1, fence[3], code, **{**marks, "changes": tuple(marks.get("changes", ()))}))
            marks = {}
        elif comment:
            begin, words = at, line[comment.end():]
            while "-->" not in words:
                at += 1
                words += "\n" + lines[at]
            words, kind = words[:words.index("-->")], comment[1]
            if kind == "setup":
                found.append(Block(begin + 1, "sh", words.strip() + "\n"))
            elif kind == "test with":
                marks.setdefault("changes", []).append(tuple(part.strip() for part in words.split("=>")))
            elif kind == "output":
                marks["output"] = True
            else:
                marks[kind.replace(" ", "_")] = words.strip()
        at += 1
    return found


class Skip(Exception):
    """A block that cannot run here, and why."""


class PageRunner:
    """Runs the blocks of one page in the working folder. Each returns what it printed or throws."""

    def __init__(self, page):
        self.page, self.scope, self.why_no_python, self.programs = page, {"__name__": "__main__"}, "", 0

    def run(self, block):
        for old, new in block.changes:
            assert old in block.code, f"'test with': the block has no '{old}'"
            block = block._replace(code=block.code.replace(old, new))
        if block.file:
            with open(block.file, "w", encoding="utf-8") as file:
                file.write(block.code)
            return ""
        runner = getattr(self, "run_" + block.language, None)
        assert runner, f"unknown language '{block.language}': name one of sh, python, c, cpp, json, text"
        return runner(block)

    def run_text(self, block):
        return ""

    def run_json(self, block):
        json.loads(block.code)
        return ""

    def call(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_sh(self, block):
        return self.call("bash", "-euo", "pipefail", "-c", block.code)

    def run_python(self, block):
        if re.search(r"^\s*(import|from) truemax\b", block.code, re.M):
            if not os.path.isdir(os.path.join(PACKAGE, "truemax")):
                self.why_no_python = f"no Python package at {PACKAGE}: ./dev python builds it, or set TRUEMAX_PACKAGE"
        if self.why_no_python:
            raise Skip(self.why_no_python)
        code = compile("\n" * (block.line - 1) + block.code, self.page, "exec")
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                exec(code, self.scope)
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] == "truemax":
                raise
            self.why_no_python = f"no Python module {error.name}"
            raise Skip(self.why_no_python) from None
        return said.getvalue()

    def compiled(self, block, ending, *compiler):
        if not os.path.exists(LIBRARY):
            raise Skip(f"no library at {LIBRARY}: ./dev build builds it, or set TRUEMAX_SHARED_LIBRARY")
        if not shutil.which(compiler[0]):
            raise Skip(f"no compiler {compiler[0]}")
        self.programs += 1
        name = f"block{self.programs}"
        with open(name + ending, "w", encoding="utf-8") as file:
            file.write(block.code)
        self.call(*compiler, "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), name + ending, "-o", name,
                  LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY))
        return self.call("./" + name)

    def run_c(self, block):
        return self.compiled(block, ".c", "gcc", "-std=c99", "-pedantic")

    def run_cpp(self, block):
        if "main(" not in block.code:
            lines = block.code.splitlines()
            top = [line for line in lines if re.match(r"#|namespace |using ", line)]
            rest = [line for line in lines if line not in top]
            block = block._replace(code="\n".join([*top, "int main() {", *rest, "}", ""]))
        return self.compiled(block, ".cpp", "g++", "-std=c++20")


def same_output(said, shown):
    """Whether two texts agree: words exactly, numbers up to 2%, because instruction sets round differently."""
    said, shown = said.split(), shown.split()
    number = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
    for one, other in zip(said, shown):
        if re.sub(number, "#", one) != re.sub(number, "#", other):
            return False
        for a, b in zip(re.findall(number, one), re.findall(number, other)):
            if abs(float(a) - float(b)) > 0.02 * abs(float(b)):
                return False
    return len(said) == len(shown)


def run_page(page):
    """In a process of its own: runs the blocks and prints a line of JSON before and after each."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        blocks = blocks_of(file.read())
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a block prints must not end up in the report
    runner, said = PageRunner(page), ""
    for block in blocks:
        result = {"line": block.line, "language": block.language, "status": "begun"}
        print(json.dumps(result), file=report, flush=True)
        start = time.time()
        try:
            if block.not_run:
                result.update(status="not run", words=block.not_run)
            elif block.output:
                assert said is None or same_output(said, block.code), f"it prints\n{said}"
                result.update(status="fine")
            else:
                said = None  # if it is skipped
                said = runner.run(block)
                result.update(status="fine")
        except Skip as why:
            result.update(status="skipped", words=str(why))
        except AssertionError as error:
            result.update(status="failed", words=str(error) or traceback.format_exc())
        except BaseException:  # a block of Python may throw anything
            result.update(status="failed", words=traceback.format_exc())
        result["seconds"] = time.time() - start
        print(json.dumps(result), file=report, flush=True)


class DocumentedBlocks(ProgramTest):
    def check(self, page):
        with tempfile.TemporaryDirectory(prefix="truemax-page-") as folder:
            stand_in = os.path.join(folder, "dev")
            with open(stand_in, "w", encoding="utf-8") as file:
                file.write(DEV.format(root=ROOT))
            os.chmod(stand_in, 0o755)
            environment = {**os.environ, "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"],
                           "PYTHONPATH": PACKAGE, "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
            done = subprocess.run([sys.executable, os.path.abspath(__file__), "--page", page], cwd=folder,
                                  env=environment, capture_output=True, text=True, timeout=PAGE_SECONDS)
        results = {}
        for line in done.stdout.splitlines():
            result = json.loads(line)
            results[result["line"]] = result
        for line, result in results.items():
            with self.subTest(f"{page}:{line}", language=result["language"]):
                if result["status"] == "begun":
                    self.fail(f"{page}:{line}: it ended the interpreter\n{done.stderr}")
                if result["status"] == "failed":
                    self.fail(f"{page}:{line}: {result['words']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return results

    def test_every_block_runs(self):
        seconds, count = {}, {}
        for page in pages():
            start = time.time()
            for line, result in self.check(page).items():
                count[result["status"]] = count.get(result["status"], 0) + 1
                if "words" in result and result["status"] != "failed":
                    print(f"{result['status']}: {page}:{line}: {result['words']}", file=sys.stderr)
                if ONLY:
                    print(f"{result.get('seconds', 0):6.2f} s  {result['status']}  {page}:{line}", file=sys.stderr)
            seconds[page] = time.time() - start
        slow = sorted(seconds, key=seconds.get, reverse=True)[:5]
        print("blocks:", ", ".join(f"{n} {status}" for status, n in count.items()), "-", sum(seconds.values()).__round__(),
              "s; the slowest:", ", ".join(f"{page} {seconds[page]:.1f} s" for page in slow), file=sys.stderr)


class Parser(unittest.TestCase):
    def test_blocks_have_their_marks(self):
        text = ("<!-- setup: touch a -->\n```sh\ncat a\n```\n<!-- test with: 10 => 1 -->\n<!-- not run: big\ndata -->\n\n"
                "```python\nprint(10)\n```\n<!-- output -->\n```text\n10\n```\n  ```\n  x\n  ```\n")
        self.assertEqual(blocks_of(text), [
            Block(1, "sh", "touch a\n"), Block(3, "sh", "cat a\n"),
            Block(10, "python", "print(10)\n", not_run="big\ndata", changes=(("10", "1"),)),
            Block(14, "text", "10\n", output=True), Block(17, "", "x\n")])

    def test_output_may_differ_by_rounding(self):
        self.assertTrue(same_output("loss 1.001 in  3 rows\n", "loss 1.000 in 3 rows"))
        self.assertFalse(same_output("loss 1.1 in 3 rows", "loss 1.0 in 3 rows"))
        self.assertFalse(same_output("loss 1.0", "error 1.0"))
        self.assertFalse(same_output("loss 1.0 of", "loss 1.0"))


if __name__ == "__main__":
    if "--page" in sys.argv:
        run_page(sys.argv[-1])
    else:
        unittest.main()
