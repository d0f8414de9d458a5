"""Faults: full disks, failing reads and writes, short transfers, no memory, damaged files.

Each case is one run of the program under one fault. After it the exit code is right, at most one error line was printed
and it ends with advice, older files are untouched, and --resume without the fault ends with the bytes of an undisturbed
run.
"""
import os
import re
import resource
import subprocess

import support
from torture_runs import Run, contents

CHECKPOINT = ("--checkpoint", "run.ckpt", "--checkpoint-every", "1epochs", "--resume")
OUTPUTS = ("--model", "m.safetensors", "--log", "m.jsonl")
OLD = support.OLDER_MODEL.encode()


class Case:
    """One fault on one run."""

    def __init__(self, run, faults):
        self.run = run
        self.rng = run.rng
        self.faults = faults
        self.problems = []
        self.what = ""

    def expect(self, holds, what):
        if not holds:
            self.problems.append(f"{self.what}: {what}")

    def under(self, rule, *words, before=None):
        """The run with a rule of the preload library."""
        self.what = rule
        environment = {"LD_PRELOAD": self.faults, "TRUEMAX_FAULTS": rule} if rule else {}
        return self.run.truemax(*words, environment=environment, before=before)

    def refused(self, result, *patterns):
        """Exit code 2 with one error line that ends with advice."""
        self.expect(result.returncode == 2, f"exit code {result.returncode}: {result.stderr.strip()[-300:]}")
        errors = [line for line in result.stderr.splitlines() if line.startswith("truemax: error: ")]
        self.expect(len(errors) == 1, f"{len(errors)} error lines: {result.stderr.strip()[-300:]}")
        for line in errors:
            self.expect(re.search(r"[;:] \S", line[len("truemax: error: "):]) is not None, f"no advice: {line}")
            for pattern in patterns:
                self.expect(re.search(pattern, line) is not None, f"the error does not say {pattern}: {line}")

    def recovers(self):
        """Without the fault, --resume ends with the undisturbed model and leaves nothing else behind."""
        for name in ("m.safetensors", "m.jsonl"):
            if os.path.exists(self.run.path(name)):
                os.remove(self.run.path(name))
        result = self.run.truemax(*CHECKPOINT, *OUTPUTS)
        self.expect(result.returncode == 0, f"afterwards --resume fails: {result.stderr.strip()[-300:]}")
        if result.returncode == 0:
            self.expect(contents(self.run.path("m.safetensors")) == self.run.expected, "--resume gives other bytes")
        left = sorted(set(os.listdir(self.run.folder)) -
                      {"whole.safetensors", "whole.jsonl", "m.safetensors", "m.jsonl", "run.ckpt", "m-failed.jsonl"})
        self.expect(not left, f"left behind: {left}")

    def write_old(self):
        with open(self.run.path("m.safetensors"), "wb") as file:
            file.write(OLD)

    def checkpoint_cannot_be_written(self):
        rng = self.rng
        result = self.under(rng.choice([f"write,ENOSPC,{rng.randrange(300000)}b,run.ckpt", f"write,EIO,{rng.randrange(9)},run.ckpt",
                                        f"sync,EIO,{rng.randrange(6)},run.ckpt", f"rename,EIO,{rng.randrange(4)},run.ckpt",
                                        f"open,ENOSPC,{rng.randrange(1, 5)},run.ckpt"]), *CHECKPOINT, *OUTPUTS)
        if result.returncode == 0:
            self.expect("error" not in result.stderr, f"exit code 0 with {result.stderr.strip()[-300:]}")
        else:
            self.refused(result, "run.ckpt")
        # The run goes on without: its model is whole, unless there was no checkpoint at all.
        if os.path.exists(self.run.path("m.safetensors")):
            self.expect(contents(self.run.path("m.safetensors")) == self.run.expected, "the model has other bytes")
        self.recovers()

    def model_cannot_be_written(self):
        rng = self.rng
        self.write_old()
        result = self.under(rng.choice([f"write,ENOSPC,{rng.randrange(2000)}b,m.safetensors", "allocate,ENOSPC,0,m.safetensors",
                                        "sync,EIO,0,m.safetensors", "rename,EIO,0,m.safetensors",
                                        "open,EACCES,1,m.safetensors"]), *CHECKPOINT, *OUTPUTS)
        self.refused(result, "m.safetensors")
        self.expect(contents(self.run.path("m.safetensors")) == OLD, "the older model is not untouched")
        self.recovers()

    def folder_cannot_be_synced(self):
        """A file that is renamed may be lost with the power until its folder is on the disk: that is no success."""
        after = self.rng.randrange(4)
        result = self.under(f"sync,EIO,{after},/{os.path.basename(self.run.folder)}$", *CHECKPOINT, *OUTPUTS)
        self.refused(result, "syncing its folder failed")
        if os.path.exists(self.run.path("m.safetensors")):
            self.expect(contents(self.run.path("m.safetensors")) == self.run.expected, "the model has other bytes")
        self.recovers()

    def log_cannot_be_written(self):
        """A file size limit fails the writes of libc too; nothing but the log is larger than the limit."""
        self.what = "file size limit"
        limit = self.rng.randrange(1, 1500)

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        result = self.run.truemax("--model", "none", "--log", "m.jsonl", before=small_files)
        self.refused(result, "m.jsonl")
        for name in os.listdir(self.run.folder):
            if name.startswith("m.jsonl"):
                os.remove(self.run.path(name))
        self.recovers()

    def data_cannot_be_read(self):
        rng, path = self.rng, self.run.words[1]
        rule = f"read,EIO,{rng.randrange(os.path.getsize(path))}b,{os.path.basename(path)}"
        self.write_old()
        result = self.under(rule, *CHECKPOINT, *OUTPUTS)
        self.refused(result, re.escape(os.path.basename(path)))
        self.expect(contents(self.run.path("m.safetensors")) == OLD, "the older model is not untouched")
        self.expect(not os.path.exists(self.run.path("run.ckpt")), "there is a checkpoint of nothing")
        self.recovers()

    def calls_are_interrupted(self):
        """EINTR and short transfers are no faults: all is as without them."""
        rule = ";".join([self.rng.choice(["write,short,0", "write,EINTR,0"]), self.rng.choice(["read,short,0", "read,EINTR,0"])])
        result = self.under(rule, *CHECKPOINT, *OUTPUTS)
        self.expect(result.returncode == 0, f"exit code {result.returncode}: {result.stderr.strip()[-300:]}")
        if result.returncode == 0:
            self.expect(contents(self.run.path("m.safetensors")) == self.run.expected, "the model has other bytes")
        self.recovers()

    def memory_runs_out(self):
        result = self.under(f"memory,ENOMEM,{int(10 ** self.rng.uniform(4, 7.5))}b", *CHECKPOINT, *OUTPUTS)
        if result.returncode != 0:
            self.refused(result, "memory")
        self.recovers()

    def checkpoint_is_damaged(self):
        rng = self.rng
        result = self.run.truemax(*CHECKPOINT, *OUTPUTS)
        self.what = "damaged checkpoint"
        self.expect(result.returncode == 0, f"exit code {result.returncode}: {result.stderr.strip()[-300:]}")
        whole = contents(self.run.path("run.ckpt"))
        damaged = bytearray(whole)
        if rng.random() < 0.5:
            del damaged[rng.randrange(len(damaged)):]
        else:
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        with open(self.run.path("run.ckpt"), "wb") as file:
            file.write(damaged)
        self.refused(self.run.truemax(*CHECKPOINT, *OUTPUTS), "run.ckpt")
        self.expect(contents(self.run.path("run.ckpt")) == damaged, "the refused file was changed")
        self.refused(self.run.truemax("--checkpoint", "run.ckpt", *OUTPUTS), "--resume")  # exists, so not overwritten
        self.expect(contents(self.run.path("run.ckpt")) == damaged, "the refused file was changed")
        with open(self.run.path("run.ckpt"), "wb") as file:
            file.write(whole)
        self.recovers()

    def model_is_damaged(self):
        rng = self.rng
        damaged = bytearray(self.run.expected)
        at = rng.randrange(len(damaged))
        if rng.random() < 0.5:
            del damaged[at:]
        else:
            damaged[at] ^= 1 << rng.randrange(8)
        with open(self.run.path("m.safetensors"), "wb") as file:
            file.write(damaged)
        self.what = f"damaged model at byte {at}"
        words = ["--format", self.run.words[self.run.words.index("--format") + 1]] if "--format" in self.run.words else []
        self.refused(support.truemax("evaluate", "m.safetensors", self.run.words[1], *words, cwd=self.run.folder),
                     "m.safetensors")

    def other_options_are_refused(self):
        self.run.truemax(*CHECKPOINT, *OUTPUTS)
        before = contents(self.run.path("run.ckpt"))
        self.what = "other options"
        result = self.run.truemax(*CHECKPOINT, *OUTPUTS, "--decay", "0.123")
        self.refused(result, "decay")
        self.expect(contents(self.run.path("run.ckpt")) == before, "the checkpoint was changed")

    def disk_is_full(self):
        """A real file system of a few pages, where the rights allow one."""
        self.what = "small file system"
        size = self.rng.choice([16, 48, 128, 400])
        script = (f"mount -t tmpfs -o size={size}k tmpfs disk && cd disk && exec \"$@\"")
        os.makedirs(self.run.path("disk"), exist_ok=True)
        words = self.run.command("--checkpoint", "run.ckpt", "--checkpoint-every", "1epochs", *OUTPUTS)
        result = subprocess.run(["unshare", "-m", *(["-r"] if os.getuid() != 0 else []), "sh", "-c", script, "sh", *words],
                                cwd=self.run.folder, capture_output=True, text=True, check=False, errors="replace")
        os.rmdir(self.run.path("disk"))
        if "mount" in result.stderr or "unshare" in result.stderr:
            return "skipped: no right to mount a small file system"
        if result.returncode != 0:
            self.refused(result)
        return None

    def output_cannot_be_written(self):
        """Predictions and the page of a report on a full disk."""
        rng = self.rng
        words = ["--format", self.run.words[self.run.words.index("--format") + 1]] if "--format" in self.run.words else []
        self.what = "standard output is full"
        if "cbow" in self.run.words:
            words = None  # cbow has no prediction
        if words is not None:
            with open("/dev/full", "wb") as full:
                done = subprocess.run([support.PROGRAM, "predict", "whole.safetensors", self.run.words[1], *words],
                                      cwd=self.run.folder, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
            self.refused(done, "standard output")
        self.what = "the report's page"
        with open(self.run.path("page.html"), "wb") as file:
            file.write(b"older")
        rule = rng.choice(["write,ENOSPC,100b,page.html", "sync,EIO,0,page.html", "rename,EIO,0,page.html"])
        done = support.truemax("report", "whole.jsonl", "--out", "page.html", cwd=self.run.folder,
                               environment={"LD_PRELOAD": self.faults, "TRUEMAX_FAULTS": rule})
        self.refused(done, "page.html")
        self.expect(contents(self.run.path("page.html")) == b"older", "the older page is not untouched")
        os.remove(self.run.path("page.html"))


CASES = ("checkpoint_cannot_be_written", "model_cannot_be_written", "log_cannot_be_written", "folder_cannot_be_synced",
         "data_cannot_be_read", "calls_are_interrupted", "memory_runs_out", "checkpoint_is_damaged",
         "model_is_damaged", "other_options_are_refused", "disk_is_full", "output_cannot_be_written")


def fault(seed, name, files, folder, faults):
    """One case; (note or None, problems)."""
    run = Run(seed, files, folder)
    if not run.valid:
        return None, [f"the undisturbed run failed: {run.said.strip()[-300:]}"]
    case = Case(run, faults)
    note = getattr(case, name)()
    if not case.problems:
        run.remove()
    return note, [f"{name}: {problem} ({' '.join(run.words[2:])})" for problem in case.problems]
