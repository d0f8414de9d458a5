"""Runs one command of a case of same_results.py, and says what came of it in a form that two builds can be compared by.

An outcome is a dict. A run of `truemax train` has: code, the exit code; weights, a hash of the tensors of its model;
names, one of its classes, their counts and its features; said, what it printed about choices and mistakes; trials,
evaluations and end, events of its log; config, the options that a search chose. Times and memory are left out.
"""
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import time

LIMIT_SECONDS = 300  # for one command, so that a hanging one ends
NO_CARD = "/nowhere/libtruemax_cuda.so"  # so that a GPU of this machine does not take part
SAID = ("train ", "test ", "valid ", "method ", "device ", "chosen ", "class frequencies ")
OF_TRIAL = ("about", "number", "hidden", "step", "ridge", "rows", "steps", "judged_on", "log_loss")
OF_NAMES = ("classes", "class_counts", "features")
TIMES = re.compile(r"\b\d[\d.]*(?:e[-+]\d+)? (?:s|ms|min|seconds?|rows/s)\b")


class TooLong(Exception):
    """A command did not end."""


class Build:
    """A build of truemax: the program, what lies beside it, and the folder in which its commands run."""

    def __init__(self, program, folder):
        self.program = os.path.abspath(program)
        self.beside = os.path.dirname(self.program)
        self.folder = folder

    def find(self, *names):
        """The first of these files that is beside the program, in the folder above, or None."""
        for name in names:
            for folder in (self.beside, os.path.dirname(self.beside)):
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    return path
        return None

    def environment(self, card=False):
        library = self.find("libtruemax_emulated.so") if card else NO_CARD
        return {**os.environ, "TRUEMAX_CUDA_LIBRARY": library, "OMPI_MCA_btl_base_warn_component_unused": "0"}

    def plain(self, text):
        """Without what depends on where the build lies, and without times."""
        return TIMES.sub("(time)", text.replace(self.beside, "BUILD").replace(self.folder, "FOLDER"))

    def clear(self):
        for name in os.listdir(self.folder):
            path = os.path.join(self.folder, name)
            if not os.path.islink(path):  # the data are links
                os.unlink(path)


def header_of(path):
    """The header of a safetensors file and where its tensors begin."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(size)), 8 + size


def weights_hash(path):
    """Hash of all tensors of a safetensors file, without its metadata, which name the version."""
    header, start = header_of(path)
    total = hashlib.sha256()
    with open(path, "rb") as file:
        for name in sorted(key for key in header if key != "__metadata__"):
            begin, end = header[name]["data_offsets"]
            file.seek(start + begin)
            total.update(f"{name} {header[name]['dtype']} {header[name]['shape']}".encode() + file.read(end - begin))
    return total.hexdigest()[:16]


def names_hash(path):
    about = json.loads(header_of(path)[0].get("__metadata__", {}).get("truemax", "{}"))
    return hash_of([about.get(name) for name in OF_NAMES])


def hash_of(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def file_hash(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def without_times(value):
    """JSON without what a clock had a say in."""
    if isinstance(value, dict):
        return {key: without_times(v) for key, v in value.items() if "second" not in key and "version" not in key}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def events_of(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except (FileNotFoundError, ValueError):  # not begun, or being written just now
        return []


def said_of(build, done):
    """Notes and errors, and the lines of the summary that tell what was decided."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("truemax")]
    lines += [line for line in done.stdout.splitlines() if line.startswith(SAID)]
    # Newton's method had another name in this line than elsewhere.
    return [build.plain(line).replace("method  Newton's,", "method  newton,") for line in lines]


def of_log(path):
    """What a log tells of decisions and results; config only if a search chose it."""
    events = events_of(path)
    found = {}
    for event in events:
        if event["event"] == "chosen":
            found["config"] = event["config"]
    found["trials"] = [{name: event.get(name) for name in OF_TRIAL} for event in events if event["event"] == "trial"]
    for kind in ("end", "evaluate"):
        found[kind] = [without_times(event) for event in events if event["event"] == kind]
    return found


def command(build, words):
    """The command line, and its environment."""
    program = [build.program]
    if words[0].startswith("ranks:"):
        program = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", words[0][6:], build.find("truemax-mpi")]
        words = words[1:]
    return [*program, *words], build.environment(card="cuda" in words)


def finished(build, words, stop_at=0, log=""):
    """The finished process; SIGINT ends it once `log` has so many trials."""
    line, environment = command(build, words)
    with subprocess.Popen(line, cwd=build.folder, env=environment, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while stop_at and process.poll() is None:
                trials = sum(e["event"] == "trial" for e in events_of(os.path.join(build.folder, log + ".part")))
                if trials >= stop_at:
                    process.send_signal(signal.SIGINT)
                    break
                time.sleep(0.001)
            out, said = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise TooLong(f"{' '.join(words)}: took more than {LIMIT_SECONDS} seconds") from None
    return subprocess.CompletedProcess(line, process.returncode, out, said)


def train(build, words, number):
    """Trains into the files NUMBER.safetensors and NUMBER.jsonl. "stop:N" before it ends it after N trials: then
    nothing is told, as when exactly it ended depends on the clock, but whether it was stopped."""
    stop_at = int(words[0][5:]) if words[0].startswith("stop:") else 0
    words = words[1:] if stop_at else words
    if "--model" not in words:
        words = [*words, "--model", f"{number}.safetensors", "--log", f"{number}.jsonl"]
    done = finished(build, words, stop_at, f"{number}.jsonl")
    if stop_at and done.returncode in (0, 130):
        return {"stopped": done.returncode == 130}
    models = sorted(name for name in os.listdir(build.folder)
                    if name.startswith(str(number)) and name.endswith(".safetensors"))
    paths = [os.path.join(build.folder, name) for name in models]
    log = of_log(os.path.join(build.folder, f"{number}.jsonl"))
    return {"code": done.returncode, "weights": " ".join(map(weights_hash, paths)) or "no model", "files": models,
            "names": [names_hash(path) for path in paths], "said": said_of(build, done), **log}


def other(build, words):
    """A command that does not train: what it prints, JSON where it is some, and the files that it writes."""
    before = set(os.listdir(build.folder))
    done = finished(build, words)
    try:
        said = [without_times(json.loads(line)) for line in done.stdout.splitlines()]
    except ValueError:
        said = build.plain(done.stdout).splitlines()
    files = {name: file_hash(os.path.join(build.folder, name)) for name in sorted(os.listdir(build.folder))
             if name not in before and not name.endswith(".safetensors")}
    return {"code": done.returncode, "said": said_of(build, done), "out": hash_of(said), "files": files,
            **({"printed": said} if len(str(said)) < 20000 else {})}


def is_train(words):
    return "train" in words[:2]


def commands(case):
    """The words of each command of a case."""
    return [shlex.split(text) for text in case.split(" ; ")]


def run(case, build, first):
    """The outcome of each command of a case. Those that begin with "old" are run by the build `first`, in the folder of
    `build`."""
    build.clear()
    outcomes = []
    for number, words in enumerate(commands(case), 1):
        by = build
        if words[0] == "old":
            by, words = Build(first.program, build.folder), words[1:]
        outcomes.append(train(by, words, number) if is_train(words) else other(by, words))
    return outcomes
