"""Random training runs for tests/torture.py: small data sets of every kind, and options for them.

A run is a function of its seed. Its undisturbed model is what every disturbed run must end with, byte for byte.
"""
import os
import random
import shutil
import subprocess
import time

import support

METHODS = ("implicit", "prox", "scent", "umax", "vanilla", "raman", "composition", "sox", "ove", "nce", "importance",
           "softplus", "exact", "adam", "lbfgs", "bsgd")
ONE_ROW = ("prox",)
NOT_STREAMED = ("composition", "exact", "lbfgs")
DRAWS = ("uniform", "uniform-skip", "all", "frequency", "blocks", "head-blocks", "active")
SMALL_STEP = ("vanilla", "raman", "composition", "sox", "exact", "importance", "bsgd", "nce")  # may diverge
INIT = "INIT"  # stands for a model to start from
DIVERGED = 3  # exit code
LIMIT_SECONDS = 120


def make_data(folder):
    """The data files that all runs share: {kind: path}."""
    os.makedirs(folder, exist_ok=True)

    def generated(name, rows, features, classes, seed):
        path = os.path.join(folder, name)
        result = support.truemax("generate", path, "--rows", rows, "--features", features, "--classes", classes,
                                 "--nonzeros", 8, "--seed", seed)
        if result.returncode != 0:
            raise RuntimeError(result.stderr)
        return path

    words = random.Random(1)
    text = " ".join(f"w{int(60 * words.random() ** 3)}" for _ in range(4000))
    triples = "".join(f"e{words.randrange(60)}\tr{words.randrange(4)}\te{words.randrange(60)}\n" for _ in range(1500))
    files = {"rows": generated("rows.txt", 3000, 300, 60, 1), "classes": generated("classes.txt", 2500, 200, 900, 2),
             "few": generated("few.txt", 300, 40, 5, 3)}
    # A model to start from.
    result = support.truemax("train", files["few"], "--method", "prox", "--epochs", 2, "--model",
                             os.path.join(folder, "init.safetensors"), "--log", "none", "--quiet")
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    files["cache"] = os.path.join(folder, "rows.cache")
    result = support.truemax("convert", files["rows"], files["cache"])
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    for kind, content in (("text", text), ("triples", triples)):
        files[kind] = os.path.join(folder, f"{kind}.txt")
        with open(files[kind], "w", encoding="utf-8") as file:
            file.write(content)
    return files


def random_options(rng):
    """(kind of data, words of the command line)."""
    kind = rng.choice(["linear"] * 7 + ["bag", "context", "cbow", "skipgram", "triples", "auto"])
    common = ["--seed", str(rng.randrange(1000)), "--visit", rng.choice(["random", "shuffle", "file"])]
    if rng.random() < 0.3:
        common += ["--eval-every", "1"]
    if kind == "auto":
        return "few", ["--epochs", "8", *common[:2]]
    if kind == "linear":
        method, draw = rng.choice(METHODS), rng.choice(DRAWS)
        options = ["--method", method, "--step", "0.01" if method in SMALL_STEP else rng.choice(["0.1", "1", "10"])]
        if method != "exact":
            options += ["--draw", draw]
            if draw != "all":
                options += ["--classes-per-step", str(rng.choice([1, 3, 16]))]
        if method not in ONE_ROW and draw != "active" and rng.random() < 0.4:
            options += ["--rows-per-step", str(rng.choice([2, 8]))]
        if rng.random() < 0.4:
            options += ["--ridge", rng.choice(["0.01", "1"])]
        if rng.random() < 0.4:
            options += ["--intercept"]
        if rng.random() < 0.2:
            options += ["--valid-share", "0.2", "--patience", "3"]
        if rng.random() < 0.1:
            options += ["--schedule", "linear"]
        if rng.random() < 0.1:
            return "few", [*options, "--epochs", "6", *common, "--init", INIT]
        if method not in NOT_STREAMED and rng.random() < 0.15 and "--valid-share" not in options:
            return "cache", [*options, "--epochs", "6", *common, "--stream", "--stream-window", "64K"]
        slow = method == "exact" or draw == "all"
        return ("few" if slow else rng.choice(["rows", "classes", "few"])), [
            *options, "--epochs", str(rng.choice([6, 15, 40])), *common]
    options = ["--method", "scent", "--hidden", "16", "--rows-per-step", "32", "--classes-per-step", "24", "--draw",
               rng.choice(["uniform", "frequency", "blocks"]), "--step", "0.01", "--epochs", str(rng.choice([4, 10]))]
    if rng.random() < 0.3:
        options += ["--dropout", "0.2"] if kind != "skipgram" else ["--row-state"]
    if kind == "bag":
        return "rows", [*options, *common]
    if kind == "triples":
        return "triples", [*options, "--format", "triples", *common]
    if kind == "context" and rng.random() < 0.5:
        options += ["--layers", "1"]
    return "text", [*options, "--format", "text", "--encoder", kind, *common]


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Run:
    """A random run in a folder of its own, and its undisturbed model."""

    def __init__(self, seed, files, folder, options=None):
        self.rng = random.Random(seed)
        self.seed = seed
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        kind, words = options or random_options(self.rng)
        words = [os.path.join(os.path.dirname(files["few"]), "init.safetensors") if word == INIT else word for word in words]
        self.words = ["train", files[kind], *words]
        self.threads = self.rng.choice([1, 2, 3])
        for _ in range(5):
            start = time.monotonic()
            result = self.truemax("--model", "whole.safetensors", "--log", "whole.jsonl")
            self.seconds = time.monotonic() - start
            if result.returncode != DIVERGED:
                break
            at = self.words.index("--step") + 1  # the methods that can diverge do so at smaller steps on some data
            self.words[at] = str(float(self.words[at]) / 100)
        self.valid = result.returncode == 0
        self.said = result.stderr
        self.expected = contents(self.path("whole.safetensors")) if self.valid else None

    def path(self, name):
        return os.path.join(self.folder, name)

    def command(self, *more):
        return [support.PROGRAM, *self.words, "--threads", str(self.threads), "--quiet", *more]

    def truemax(self, *more, environment=None, before=None):
        """Runs to its end."""
        return subprocess.run(self.command(*more), cwd=self.folder, capture_output=True, text=True, check=False,
                              errors="replace", timeout=LIMIT_SECONDS, preexec_fn=before,
                              env={**os.environ, **(environment or {})})

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)
