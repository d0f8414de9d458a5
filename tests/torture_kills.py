"""Kills: runs with checkpoints are killed at random times, several times each, and resumed until they end.

After every kill the newest checkpoint that the log announced, or a newer one, is found by --resume. At the end the
model has the bytes of an undisturbed run, the log repeats the run, and no other file is left.
"""
import json
import os
import re
import signal
import subprocess
import time

import support
from torture_runs import LIMIT_SECONDS, Run, contents

SAVES = ("--checkpoint", "run.ckpt", "--resume", "--model", "m.safetensors", "--log", "m.jsonl")
MOST_KILLS = 8  # of one run


def whole_events(path):
    """The whole lines of a log that may be torn."""
    try:
        text = contents(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    found = []
    for line in text.split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            return found
    return found


def steps_of(events, name):
    """The steps of the last event of this name; None if there is none."""
    steps = [event["steps"] for event in events if event.get("event") == name]
    return steps[-1] if steps else None


def random_interval(rng):
    return rng.choice(["1epochs", "1epochs", "2epochs", "0.005s", "0.05s"])


class KilledRun:
    def __init__(self, run, faults):
        self.run = run
        self.faults = faults  # the preload library
        self.kills = 0
        self.every = random_interval(run.rng)
        self.announced = None  # steps of the newest checkpoint that a log has
        self.events = []       # of the last log
        self.problems = []

    def expect(self, holds, what):
        if not holds:
            self.problems.append(what)

    def log(self):
        for name in ("m.jsonl.part", "m.jsonl"):
            found = whole_events(self.run.path(name))
            if found:
                return found
        return []

    def start(self, environment):
        return subprocess.Popen(self.run.command(*SAVES, "--checkpoint-every", self.every), cwd=self.run.folder,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
                                env={**os.environ, **environment})

    def attempt(self):
        """Starts the run and ends it; True if it came to its end by itself."""
        rng = self.run.rng
        kind = rng.choice(["kill", "kill", "kill", "in a write", "term", "int"])
        environment = {}
        if kind == "in a write":
            call = rng.choice([f"write,KILL,{rng.randrange(400000)}b", f"sync,KILL,{rng.randrange(8)}",
                               f"rename,KILL,{rng.randrange(6)}"])
            environment = {"LD_PRELOAD": self.faults, "TRUEMAX_FAULTS": f"{call},run.ckpt"}
        process = self.start(environment)
        try:
            said = self.end(process, kind, rng.uniform(0, self.run.seconds * 1.1 + 0.02))
        finally:
            process.kill()
            process.wait()
        self.check_end(process.returncode, kind, said)
        return process.returncode == 0

    def end(self, process, kind, after):
        """Sends the signal; what the process said."""
        if kind == "in a write":
            return process.communicate(timeout=LIMIT_SECONDS)[1]
        try:
            return process.communicate(timeout=after)[1]
        except subprocess.TimeoutExpired:
            number = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}[kind]
            process.send_signal(number)
            return process.communicate(timeout=LIMIT_SECONDS)[1]

    def check_end(self, code, kind, said):
        if code != 0:
            self.kills += 1
        allowed = {"kill": (0, -9), "in a write": (0, -9), "term": (0, 143, -15), "int": (0, 130, -2)}[kind]
        self.expect(code in allowed, f"{kind}: exit code {code}: {said.strip()[-300:]}")
        self.check_resumed(self.log())
        if self.announced is not None:
            self.expect(os.path.exists(self.run.path("run.ckpt")), "the announced checkpoint is not there")

    def check_resumed(self, log):
        """A run that went on must not have gone on from before what the last one announced.

        Its log begins with the lines that the checkpoint has, which are those of the last log; then comes its own event.
        It has none if the process was killed before it wrote that.
        """
        new = next((at for at, event in enumerate(log) if event.get("event") == "resume" and
                    (at >= len(self.events) or event != self.events[at])), None)
        if self.events and new is None:
            return
        if self.announced is not None:
            steps = log[new]["steps"]
            self.expect(steps >= self.announced, f"a checkpoint of step {self.announced} was announced, the run went on from {steps}")
        self.events = log
        steps = steps_of(log, "checkpoint")
        if steps is not None:
            self.announced = max(steps, self.announced or 0)

    def check_files(self):
        # A run that was stopped twice before its first step leaves its second log under another name.
        left = sorted(name for name in os.listdir(self.run.folder) if not re.fullmatch(r"m-stopped(-\d+)?\.jsonl", name))
        wanted = sorted(["whole.safetensors", "whole.jsonl", "m.safetensors", "m.jsonl", "run.ckpt"])
        self.expect(left == wanted, f"files at the end: {left}")
        self.expect(contents(self.run.path("m.safetensors")) == self.run.expected, "the model has other bytes")
        log = whole_events(self.run.path("m.jsonl"))
        self.expect(bool(log) and log[-1]["event"] == "end", "the log has no end")

    def check_again(self):
        """On a finished run --resume writes the model again; and the log repeats the run."""
        os.remove(self.run.path("m.safetensors"))
        result = self.run.truemax(*SAVES, "--checkpoint-every", self.every)
        self.expect(result.returncode == 0, f"resuming a finished run: {result.returncode} {result.stderr[-300:]}")
        again = os.path.exists(self.run.path("m.safetensors")) and contents(self.run.path("m.safetensors"))
        self.expect(again == self.run.expected, "resuming a finished run gives other bytes")
        replayed = support.truemax("train", self.run.words[1], "--replay", "m.jsonl", "--model", "r.safetensors",
                                   "--log", "none", "--quiet", cwd=self.run.folder)
        self.expect(replayed.returncode == 0, f"--replay: {replayed.stderr[-300:]}")
        if replayed.returncode == 0:
            self.expect(contents(self.run.path("r.safetensors")) == self.run.expected, "--replay gives other bytes")

    def torture(self):
        rng = self.run.rng
        done = False
        while not done and self.kills < MOST_KILLS and not self.problems:
            self.run.threads = rng.choice([1, 2, 3])
            done = self.attempt()
        if not done and not self.problems:
            result = self.run.truemax(*SAVES, "--checkpoint-every", self.every)
            self.check_end(result.returncode, "kill", result.stderr)
            self.expect(result.returncode == 0, f"the last resume ended with {result.returncode}: {result.stderr[-300:]}")
        if not self.problems:
            self.check_files()
        if not self.problems and rng.random() < 0.5:
            self.check_again()


def kills(seed, files, folder, faults):
    """One run; (kills, problems)."""
    run = Run(seed, files, folder)
    if not run.valid:
        return 0, [f"the undisturbed run failed: {run.said.strip()[-300:]}"]
    killed = KilledRun(run, faults)
    try:
        killed.torture()
    except subprocess.TimeoutExpired:
        killed.problems.append(f"a run of {run.seconds:.1f} s did not end in {LIMIT_SECONDS} s")
    words = " ".join(run.words[2:])
    if not killed.problems:
        run.remove()
    return killed.kills, [f"{problem} ({words}, --checkpoint-every {killed.every})" for problem in killed.problems]
