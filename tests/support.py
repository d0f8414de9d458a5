"""Shared by the whole-program tests: finding the program and the data, running it, comparing folders.

TRUEMAX       the program (default: build/release/truemax of this repository)
TRUEMAX_DATA  the folder of real data sets (default: ../shared/data beside this repository)
TRUEMAX_PACKAGE  the folder of the Python package (default: build/python of this repository)
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# Begins as a model does, so that a run may replace it.
OLDER_MODEL = "\x0e\0\0\0\0\0\0\0{} older model"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.abspath(os.environ.get("TRUEMAX", os.path.join(ROOT, "build", "release", "truemax")))
DATA = os.path.abspath(os.environ.get("TRUEMAX_DATA", os.path.join(os.path.dirname(ROOT), "shared", "data")))
PACKAGE = os.path.abspath(os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))
sys.path.insert(0, PACKAGE)  # so that a test can import truemax
LIMIT_SECONDS = 300  # for one run of the program, so that a hanging test ends


OUTPUT = ("--model", "M.safetensors", "--log", "RUN.jsonl")


def skip(why):
    """Skips the test and prints why: tests are never skipped silently."""
    print(f"skipped: {why}", file=sys.stderr, flush=True)
    raise unittest.SkipTest(why)


def data_file(*parts):
    """The path of a real data file."""
    path = os.path.join(DATA, *parts)
    if not os.path.exists(path):
        skip(f"no data at {path}, set TRUEMAX_DATA")
    return path


def truemax(*arguments, cwd=None, stdin=b"", before=None, environment=None):
    """Runs the program; the result has returncode, stdout and stderr (text)."""
    result = subprocess.run([PROGRAM, *map(str, arguments)], cwd=cwd, input=stdin, capture_output=True,
                            timeout=LIMIT_SECONDS, preexec_fn=before,
                            env={**os.environ, **(environment or {})})
    result.stdout = result.stdout.decode("utf-8", "surrogateescape")
    result.stderr = result.stderr.decode("utf-8", "surrogateescape")
    return result


def events(path):
    """The events of a run log."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def last_evaluation(path):
    return [event for event in events(path) if event["event"] == "evaluate"][-1]


def snapshot(folder):
    """Everything under a folder: {relative path: (bytes, mtime, inode)}; folders have None for bytes."""
    seen = {}
    for at, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(at, name)
            status = os.lstat(path)
            content = None
            if name in files:
                with open(path, "rb") as file:
                    content = file.read()
                seen[os.path.relpath(path, folder)] = (content, status.st_mtime_ns, status.st_ino)
            else:
                seen[os.path.relpath(path, folder)] = None
    return seen


class ProgramTest(unittest.TestCase):
    """A test with its own temporary folder, in which the program runs."""

    @classmethod
    def setUpClass(cls):
        if not os.access(PROGRAM, os.X_OK):
            raise AssertionError(f"no program at {PROGRAM}: build it with ./dev build, or set TRUEMAX")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="truemax-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def fine(self, *arguments, **keywords):
        """Runs the program in the test's folder; it must exit with 0 and report no error."""
        result = truemax(*arguments, cwd=self.folder, **keywords)
        words = f"truemax {' '.join(map(str, arguments))}\n{result.stdout}\n{result.stderr}"
        self.assertEqual(result.returncode, 0, words)
        self.assertNotIn("truemax: error:", result.stderr, words)
        return result

    def stopped(self, data, when):
        """Trains on `data` and presses Ctrl-C once the log has an event for which `when` holds; what was said."""
        run = subprocess.Popen([PROGRAM, "train", data, "--model", "m.safetensors", "--log", "m.jsonl"],
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while run.poll() is None:
                try:
                    if any(when(event) for event in events(self.path("m.jsonl.part"))):
                        break
                except (FileNotFoundError, ValueError):
                    pass
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=LIMIT_SECONDS)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 130, said)
        return said

    def metrics(self, model, data, *more, **keywords):
        """The output of `truemax evaluate --json`."""
        return json.loads(self.fine("evaluate", model, data, "--json", *more, **keywords).stdout)

    def generate(self, name, *more, rows=400, features=60, classes=12, nonzeros=8, seed=1, form="xmlrepository"):
        """Generates a small data set in the test's folder and returns its path."""
        self.fine("generate", name, "--rows", rows, "--features", features, "--classes", classes, "--nonzeros",
                  nonzeros, "--seed", seed, "--format", form, *more)
        return self.path(name)


class RefusalTest(ProgramTest):
    """Bad input gets a message with file, line, what was found and what to do, and exit code 2; no file changes.

    The folder holds an older model and run log under the names in OUTPUT. After the refusal their content and times are
    unchanged and there are no new files, not even temporary ones.
    """

    def setUp(self):
        super().setUp()
        self.write("M.safetensors", OLDER_MODEL)
        self.write("RUN.jsonl", '{"event":"an older log"}\n')

    def refused(self, arguments, *words, **keywords):
        """The command is refused with one line that matches all the words; nothing on disk changes."""
        before = snapshot(self.folder)
        result = truemax(*arguments, cwd=self.folder, **keywords)
        shown = f"truemax {' '.join(map(str, arguments))}\nexit code {result.returncode}\n{result.stderr}"
        self.assertEqual(result.returncode, 2, shown)
        errors = [line for line in result.stderr.splitlines() if line.startswith("truemax: error: ")]
        self.assertEqual(len(errors), 1, shown)
        self.assertEqual(result.stderr.splitlines()[-1], errors[0], "the error is the last line\n" + shown)
        message = errors[0]
        for word in words:
            self.assertRegex(message, word, shown)
        self.assertRegex(message, r"; \S|\. See '", "what to do is said\n" + shown)
        self.assertNotRegex(message, r"[\x00-\x1f\x7f-\x9f]", "no control characters reach the terminal")
        after = snapshot(self.folder)
        self.assertEqual(sorted(after), sorted(before), "files appeared or vanished\n" + shown)
        self.assertEqual(after, before, shown)
        return message

    def train_refused(self, content, *words, name="bad.txt", options=()):
        """Training on a file of this content is refused; the message names the file."""
        path = self.write(name, content)
        return self.refused(["train", path, *options, *OUTPUT], re.escape(name), *words)
