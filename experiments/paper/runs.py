"""Runs of truemax. Their outcomes are kept: a finished run is not repeated.

A run is identified by its arguments and the hash of its data, and is reused only if the same program made it (by the
hash of its file). Its outcome is a JSON file in build/paper/runs with everything needed to run it again.
"""
import concurrent.futures
import dataclasses
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time

from . import measure, protocol
from .files import file_hash


@dataclasses.dataclass(frozen=True)
class Spec:
    """A run to make. `files`: TRAIN, or the arguments in its place; `options`: all other options of `truemax train`."""
    set: str
    part: str                  # train, tenth or recorded
    protocol: str
    method: str
    step: float                # as the paper counts it
    seed: int
    files: tuple
    options: tuple
    epochs: int = protocol.EPOCHS
    every: int = 0             # epochs between recordings; 0: only the last
    double_softmax: tuple = ()  # epochs after which the double softmax is measured
    features: int = 10000
    cost: float = 1.0          # seconds, about

    @property
    def max_rows(self):
        """The row limit of the file; None: no limit."""
        return int(self.options[self.options.index("--max-rows") + 1]) or None if "--max-rows" in self.options else None

    @property
    def key(self):
        return (self.set, self.part, self.protocol, self.method, self.step, self.seed)


class Runner:
    def __init__(self, program, folder, any_build=False):
        self.program, self.folder = program, os.path.join(folder, "runs")
        self.any_build = any_build
        self.planned = {}  # {stage: seconds of one core} of what is still to come, for the time left
        os.makedirs(self.folder, exist_ok=True)
        self.build = file_hash(program)
        self.clear_leftovers()

    def clear_leftovers(self):
        """Removes incomplete files of processes that have ended."""
        for path in glob.glob(os.path.join(self.folder, "*", "*.part*")):
            owner = re.search(r"\.part(\d+)", path)
            if owner and not os.path.exists(f"/proc/{owner[1]}"):
                os.unlink(path)

    def path(self, spec):
        told = {**dataclasses.asdict(spec),
                "files": [file_hash(name) if os.path.exists(name) else name for name in spec.files]}
        told.pop("cost")
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
        folder = os.path.join(self.folder, f"{spec.set}-{spec.part}")
        return os.path.join(folder, f"{spec.protocol}-{spec.method}-{spec.step:g}-seed{spec.seed}-{digest}.json")

    def found(self, spec):
        """The outcome of a finished run, or None."""
        path = self.path(spec)
        if not os.path.exists(path):
            return None
        try:
            with open(path, encoding="utf-8") as file:
                outcome = json.load(file)
        except ValueError:  # not the file of a run: it is run again
            return None
        return outcome if self.any_build or outcome["build"] == self.build else None

    def train(self, spec, epochs, stem, every, model):
        """One call of the program: its events, and why it stopped early."""
        log = stem + ".jsonl"
        command = [self.program, "train", *spec.files, *spec.options, "--epochs", str(epochs), "--eval-every",
                   str(every), "--threads", "1", "--quiet", "--model", model, "--log", log]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        with open(log, encoding="utf-8") as file:
            events = [json.loads(line) for line in file]
        os.unlink(log)
        why = done.stderr.strip().splitlines()[-1] if done.returncode == 3 else ""
        return events, why, command

    def make(self, spec):
        """Runs it, measures, and keeps the outcome."""
        path = self.path(spec)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        stem = f"{path[:-5]}.part{os.getpid()}"
        model = stem + ".safetensors"
        begin = time.monotonic()
        try:
            events, diverged, command = self.train(spec, spec.epochs, stem, spec.every,
                                                   model if spec.double_softmax else "none")
            doubled = {}
            for epoch in spec.double_softmax if not diverged else ():
                if epoch != spec.epochs:  # the same seed gives the same bits up to there
                    os.unlink(model)
                    self.train(spec, epoch, stem, 0, model)
                doubled[epoch] = measure.measure(model, spec.files[0], spec.features, spec.max_rows)
        finally:
            if os.path.exists(model):
                os.unlink(model)
        evaluations = [event for event in events if event["event"] == "evaluate"]
        start = next(event for event in events if event["event"] == "start")
        outcome = {"set": spec.set, "part": spec.part, "protocol": spec.protocol, "method": spec.method,
                   "step": spec.step, "seed": spec.seed, "build": self.build, "diverged": diverged,
                   "data": start["data"], "evaluations": evaluations,
                   "double_softmax": {str(epoch): value for epoch, value in sorted(doubled.items())},
                   "seconds": time.monotonic() - begin, "command": ["truemax", *command[1:]]}
        with open(stem, "w", encoding="utf-8") as file:
            json.dump(outcome, file, indent=1)
        os.replace(stem, path)
        return outcome

    def all(self, specs, jobs, title, stage=None):
        """{key: outcome} of all runs; finished ones are reused. `stage`: which of `planned` this is."""
        outcomes, missing = {}, []
        for spec in specs:
            found = self.found(spec)
            if found is None:
                missing.append(spec)
            else:
                outcomes[spec.key] = found
        self.planned.pop(stage, None)
        progress = Progress(title, len(specs), missing, jobs, sum(self.planned.values()))
        missing.sort(key=lambda spec: -spec.cost)  # long runs first, so that no core waits for the last
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            waiting = {pool.submit(self.make, spec): spec for spec in missing}
            try:
                for future in concurrent.futures.as_completed(waiting):
                    spec = waiting[future]
                    outcomes[spec.key] = future.result()
                    progress.done(spec, outcomes[spec.key])
            except BaseException:
                for future in waiting:
                    future.cancel()
                raise
        return outcomes


class Progress:
    """Progress on standard error; on a terminal also a live line with the time left, estimated from planned and actual
    costs."""

    def __init__(self, title, count, missing, jobs, later):
        self.title, self.later = title, later
        self.left = sum(spec.cost for spec in missing)
        self.todo, self.planned, self.begin = len(missing), 0.0, time.monotonic()
        self.lock = threading.Lock()
        print(f"{title}: {count} runs, {count - len(missing)} there already"
              + (f", about {self.left / jobs / 60:.1f} min" if missing else ""), file=sys.stderr, flush=True)

    def done(self, spec, outcome):
        with self.lock:
            self.todo -= 1
            self.left -= spec.cost
            self.planned += spec.cost
            if sys.stderr.isatty():
                print(f"\r\x1b[K{self.line(spec, outcome)}" if self.todo else "\r\x1b[K", end="", file=sys.stderr,
                      flush=True)

    def line(self, spec, outcome):
        pace = (time.monotonic() - self.begin) / max(self.planned, 1e-9)
        said = "diverged"
        if not outcome["diverged"] and outcome["evaluations"]:
            last = outcome["evaluations"][-1]
            said = f"log-loss {last.get('train', last.get('test'))['log_loss']:.4f}"
        return (f"  {self.todo} left, {max(0.0, self.left) * pace / 60:.1f} min, in all "
                f"{max(0.0, self.left + self.later) * pace / 60:.1f} min; {spec.set} {spec.method} step {spec.step:g} "
                f"seed {spec.seed}: {said}")
