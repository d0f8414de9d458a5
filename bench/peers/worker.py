#!/usr/bin/python3
"""One run of one peer in its own process, with a limit on its memory:

    worker.py PEER PROBLEM-FOLDER SETTINGS-JSON MEMORY-BYTES

Prints lines of JSON: first {"blas": the library and its speed} if the peer multiplies matrices (MATRICES); then
{"clock": "on"} and {"clock": "off"} around training, so that the waiting process can end it when its time is up; and
after each stretch of training a point of its curve: {"seconds", "train", "test", "memory", "mass"}, with seconds of
training only, log-losses by losses.log_loss, and peak memory in bytes before judging.
"""
import importlib
import json
import os
import resource
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import blas  # noqa: E402
from harness import Watched, own_memory  # noqa: E402
from losses import log_loss  # noqa: E402
from sets import Problem  # noqa: E402


class Failed(Exception):
    """Why a program that a peer started failed."""


class Marks:
    """The clock of a run."""

    def __init__(self, problem):
        self.problem, self.seconds, self.memory, self.started = problem, 0.0, 0, None

    def say(self, **what):
        print(json.dumps(what), flush=True)

    def begin(self):
        self.say(clock="on")
        self.started = time.perf_counter()

    def running(self):
        """Seconds of training so far."""
        return self.seconds + (time.perf_counter() - self.started if self.started is not None else 0.0)

    def stop(self):
        self.seconds, self.started = self.running(), None
        self.say(clock="off")

    def point(self, scores, memory=None, note=None, seconds=None):
        """Stops the clock and judges. scores: as for losses.log_loss. memory: of a started program; by default, of this
        process. seconds: if they were measured otherwise."""
        if self.started is not None:
            self.stop()
        if memory is None and self.memory == 0:  # later points would include the memory of judging
            self.memory = own_memory()
        p = self.problem
        train, mass = log_loss(p.seen_x, p.seen_y, scores, p.K)
        test, _ = log_loss(p.test_x, p.test_y, scores, p.K)
        self.say(seconds=self.seconds if seconds is None else seconds, train=train, test=test, mass=mass,
                 memory=memory or self.memory, **({"note": note} if note else {}))


def started_program(command):
    """Runs a program; returns (seconds, peak bytes)."""
    begin = time.perf_counter()
    watched = Watched(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if watched.wait() != 0:
        raise Failed(f"out of memory: {command[0]} ended with {watched.process.returncode}")
    return time.perf_counter() - begin, watched.memory


def main():
    peer, folder, settings, memory = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    problem = Problem(folder)
    marks = Marks(problem)
    module = importlib.import_module(peer if "." in peer else f"peers.{peer}")
    kind = getattr(module, "MATRICES", None)
    try:
        if kind:
            marks.say(blas=blas.measure(kind, len(os.sched_getaffinity(0))))
            blas.use_threads(1)
        module.fit(problem, json.loads(settings), marks)
    except MemoryError:
        marks.say(failed="out of memory")
    except Failed as why:
        marks.say(failed=str(why))
    except RuntimeError as why:  # how PyTorch reports it
        if "memory" not in str(why):
            raise
        marks.say(failed="out of memory")


if __name__ == "__main__":
    sys.modules["peers.worker"] = sys.modules["__main__"]  # one Failed for both names
    main()
