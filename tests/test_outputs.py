#!/usr/bin/python3
"""What runs write: at the same time, when they are killed, stopped or diverge, and when they are replayed."""
import json
import os
import random
import shutil
import signal
import subprocess
import time
import unittest

import model_reader
from support import OLDER_MODEL, PROGRAM, ProgramTest, ROOT, events, snapshot, truemax

FOREVER = ("--method", "implicit", "--epochs", 1000000, "--eval-every", 1, "--step", 1)
# umax takes two good steps here and leaves the range of float32 in the third.
WILD = "1 1:1 2:-1\n2 1:1 3:1\n3 4:3e38\n"
DIVERGING = ("wild.txt", "--method", "umax", "--visit", "file", "--step", 10, "--epochs", 5)


class Outputs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", rows=2000, classes=30, features=100)

    def start(self, *arguments, **keywords):
        process = subprocess.Popen([PROGRAM, "train", *map(str, arguments)], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **keywords)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def wait_for(self, what, process):
        deadline = time.monotonic() + 60
        while not what():
            self.assertLess(time.monotonic(), deadline, "it never happened")
            self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(0.005)

    def has(self, name, word):
        return os.path.exists(self.path(name)) and word in self.read(name)

    def start_until(self, log, word, *arguments):
        """Starts a run and waits until `word` is in its log."""
        process = self.start(*arguments)
        self.wait_for(lambda: self.has(log, word), process)
        return process

    def stop(self, process, sig=signal.SIGINT):
        process.send_signal(sig)
        said = process.communicate(timeout=60)[1]
        return process.returncode, said

    def files(self):
        return sorted(set(os.listdir(self.folder)) - {"train.txt"})

    def refused(self, *arguments):
        before = snapshot(self.folder)
        result = truemax("train", *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertEqual(snapshot(self.folder), before)
        return result.stderr


class AtTheSameTime(Outputs):
    def test_unnamed_runs_get_separate_names(self):
        runs = [self.start(self.train, "--method", "implicit", "--epochs", 20, "--seed", seed) for seed in range(6)]
        for run in runs:
            self.assertEqual((run.communicate(timeout=60)[1], run.returncode), ("", 0))
        names = ["model"] + [f"model-{n}" for n in range(2, 7)]
        self.assertEqual(self.files(), sorted(f"{n}.{kind}" for n in names for kind in ("safetensors", "jsonl")))
        seeds = set()
        for name in names:
            log = events(self.path(f"{name}.jsonl"))
            self.assertEqual(log[-1]["model"], f"{name}.safetensors", "the log beside a model is its own")
            about, _ = model_reader.read_model(self.path(f"{name}.safetensors"))
            self.assertEqual(about["options"]["seed"], log[0]["config"]["seed"])
            seeds.add(log[0]["config"]["seed"])
        self.assertEqual(len(seeds), 6)

    def test_name_of_a_live_run_is_refused_until_it_ends(self):
        os.symlink("m.safetensors", self.path("link.safetensors"))
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        run = self.start_until("m.jsonl.part", b"evaluate", self.train, *FOREVER, "--model", "m.safetensors")
        for output in (["--model", "m.safetensors"], ["--model", "./m.safetensors", "--log", "other.jsonl"],
                       ["--model", "link.safetensors", "--log", "other.jsonl"],
                       ["--model", "none", "--log", "m.jsonl"], ["--model", "m.jsonl", "--log", "none"],
                       ["--model", "none", "--log", "m.safetensors"]):
            with self.subTest(output):
                said = truemax("train", self.train, "--epochs", 1, *output, cwd=self.folder)
                self.assertEqual(said.returncode, 2, said.stderr)
                self.assertRegex(said.stderr, r"another run is still writing there.*; wait for it, or give another name")
        self.assertIsNone(run.poll())
        self.assertEqual(self.stop(run)[0], 130)
        self.assertEqual(self.files(), ["link.safetensors", "m.jsonl", "m.safetensors"])
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")

    def test_reading_run_claims_its_name_and_leaves_no_file(self):
        run = self.start("-", "--model", "m.safetensors", stdin=subprocess.PIPE)
        self.wait_for(lambda: os.path.exists(self.path("m.jsonl.part")), run)  # claimed last
        self.assertIn("another run", self.refused(self.train, "--model", "m.safetensors"))
        self.assertEqual(self.stop(run)[0], -signal.SIGINT)
        self.assertEqual(self.files(), [])

    def test_unnamed_reports_get_separate_names(self):
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "none", "--log", "m.jsonl")
        reports = [subprocess.Popen([PROGRAM, "report", "m.jsonl"], cwd=self.folder, stdout=subprocess.PIPE)
                   for _ in range(6)]
        for report in reports:
            report.communicate(timeout=60)
            self.assertEqual(report.returncode, 0)
        self.assertEqual(self.files(), sorted(["m.jsonl", "report.html", *(f"report-{n}.html" for n in range(2, 7))]))

    def test_compare_claims_the_names_of_its_outputs(self):
        run = subprocess.Popen([PROGRAM, "compare", self.train, "--methods", "implicit", "--grid", "0:5", "--seconds",
                                "100", "--json-file", "runs.json"], cwd=self.folder, stdout=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        self.wait_for(lambda: os.path.exists(self.path("runs.json.part")), run)
        for command in (["tune", self.train, "--try", "step=1,2", "--json-file", "runs.json"],
                        ["compare", self.train, "--plot", "runs.json"]):
            result = truemax(*command, cwd=self.folder)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("another run is still writing there", result.stderr)
        self.assertEqual(self.files(), ["runs.json.part"])

    def test_refused_run_releases_its_names(self):
        self.assertIn("bad.txt", self.refused(self.write("bad.txt", "1 1:x\n"), "--model", "m.safetensors"))
        self.assertIn("--memory-limit", self.refused(self.train, "--memory-limit", "1K"))


    def test_log_with_the_default_name_of_a_model(self):
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--log", "model.safetensors")
        self.assertEqual(self.files(), ["model-2.safetensors", "model.safetensors"])
        self.assertEqual(events(self.path("model.safetensors"))[-1]["model"], "model-2.safetensors")


class Killed(Outputs):
    def test_killed_run_keeps_older_files_and_blocks_no_later_run(self):
        """Killed at random times: while it reads, searches, trains and saves."""
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        older = self.read("m.safetensors"), self.read("m.jsonl")
        chosen = random.Random(7)
        for _ in range(8):
            run = self.start(self.train, "--epochs", 3, "--ridge", 0.1, "--model", "m.safetensors")
            time.sleep(chosen.uniform(0, 0.25))  # varies when the run is killed
            run.kill()
            run.wait()
            log = events(self.path("m.jsonl"))
            self.assertEqual((log[0]["event"], log[-1]["event"]), ("start", "end"))
            self.fine("inspect", "m.safetensors")
            self.fine("train", self.train, "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "none")
            new = self.read("m.safetensors"), self.read("m.jsonl")
            if new[1] != older[1]:  # it had finished
                older = new
            self.assertEqual(self.read("again.safetensors"), older[0], "the log is that of a whole model")
            os.remove(self.path("again.safetensors"))
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        self.assertEqual(self.files(), ["m.jsonl", "m.safetensors"])

    def test_next_run_takes_the_name_of_a_killed_one(self):
        run = self.start_until("model.jsonl.part", b"evaluate", self.train, *FOREVER)
        run.kill()
        run.wait()
        self.assertEqual(self.files(), ["model.jsonl.part", "model.safetensors.part"])
        with open(self.path("model.jsonl.part"), encoding="utf-8") as file:
            self.assertEqual(json.loads(file.readline())["event"], "start")
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1)
        self.assertEqual(self.files(), ["model.jsonl", "model.safetensors"])

    def test_next_save_removes_the_remains_of_a_killed_one(self):
        """generate writes for long enough to be killed while it writes."""
        run = subprocess.Popen([PROGRAM, "generate", "big.txt", "--rows", "1000000", "--classes", "1000001",
                                "--features", "100000", "--nonzeros", "2000"], cwd=self.folder)
        self.addCleanup(run.kill)
        self.wait_for(lambda: any(name.startswith("big.txt.tmp-") for name in self.files()), run)
        left = self.files()
        small = ("generate", "big.txt", "--rows", 10)
        self.fine(*small)
        self.assertEqual(self.files(), ["big.txt", *left], "that of a live run stays")
        run.kill()
        run.wait()
        self.fine(*small)
        self.assertEqual(self.files(), ["big.txt"])


class Names(Outputs):
    def test_link_to_a_missing_file_stays_a_link(self):
        os.mkdir(self.path("disk"))
        os.symlink("disk/real.safetensors", self.path("m.safetensors"))
        self.fine("train", self.train, "--method", "prox", "--epochs", 1, "--model", "m.safetensors", "--log", "m.jsonl")
        self.assertTrue(os.path.islink(self.path("m.safetensors")))
        self.assertGreater(os.path.getsize(self.path("disk/real.safetensors")), 0)
        self.assertEqual(os.listdir(self.path("disk")), ["real.safetensors"])
        os.symlink("nowhere/real.safetensors", self.path("lost.safetensors"))
        lost = truemax("train", self.train, "--method", "prox", "--model", "lost.safetensors", cwd=self.folder)
        self.assertEqual(lost.returncode, 2, lost.stderr)
        self.assertIn("there is no folder", lost.stderr)

    def test_other_kinds_of_files_are_not_replaced(self):
        self.write("rows.txt", "1 1:1\n2 2:1\n")
        for option, kind in (("--model", "model"), ("--log", "run log")):
            self.assertIn(f"{option} rows.txt: this file exists and is not a {kind}; give another name",
                          self.refused(self.train, "--method", "prox", option, "rows.txt"))
        self.assertEqual(self.read("rows.txt"), b"1 1:1\n2 2:1\n")

    def test_file_of_somebody_where_the_log_would_grow_stays(self):
        self.write("m.jsonl.part", "precious\n")
        self.assertIn("m.jsonl.part first, which exists and is not the log of a run that was killed",
                      self.refused(self.train, "--method", "prox", "--model", "m.safetensors"))
        self.assertEqual(self.read("m.jsonl.part"), b"precious\n")

    def test_part_files_are_refused_as_outputs(self):
        for option in ("--model", "--log"):
            self.assertIn("give another name", self.refused(self.train, "--method", "prox", option, "A.jsonl.part"))

    def test_run_without_a_step_leaves_an_older_model(self):
        self.fine("train", self.train, "--method", "prox", "--epochs", 1, "--model", "m.safetensors")
        before = self.read("m.safetensors"), self.read("m.jsonl")
        result = self.fine("train", self.train, "--method", "prox", "--seconds", 1e-9, "--model", "m.safetensors")
        self.assertIn("no step was taken", result.stderr)
        self.assertEqual((self.read("m.safetensors"), self.read("m.jsonl")), before)
        self.assertIn("m-untrained.safetensors", result.stdout)
        self.assertEqual(self.files(), ["m-untrained.jsonl", "m-untrained.safetensors", "m.jsonl", "m.safetensors"])


class Stopped(Outputs):
    def test_in_the_search_older_model_and_log_stay(self):
        large = self.generate("large.txt", rows=60000, features=3000, classes=2000, nonzeros=40)
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        os.rename(self.train, self.path("elsewhere.txt"))
        before = self.read("m.safetensors"), self.read("m.jsonl")
        code, said = self.stop(self.start_until("m.jsonl.part", b'"trial"', large, "--model", "m.safetensors"))
        self.assertEqual(code, 130, said)
        self.assertEqual((self.read("m.safetensors"), self.read("m.jsonl")), before)
        self.assertIn("m-stopped.jsonl", said)
        self.assertEqual(self.files(), ["elsewhere.txt", "large.txt", "m-stopped.jsonl", "m.jsonl", "m.safetensors"])
        self.assertIn("nothing to repeat", self.refused(large, "--replay", "m-stopped.jsonl"))
        # Without an older model, the log gets its usual name.
        code, said = self.stop(self.start_until("n.jsonl.part", b'"trial"', large, "--model", "n.safetensors"))
        self.assertEqual(code, 130, said)
        self.assertEqual([name for name in self.files() if name.startswith("n")], ["n.jsonl"])
        said = self.refused(large, "--replay", "n.jsonl", "--model", "r.safetensors")
        self.assertRegex(said, r"stopped before its first step.*; train without --replay")

    def test_in_training_model_and_log_are_replaced_together(self):
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        before = self.read("m.safetensors"), self.read("m.jsonl")
        run = self.start_until("m.jsonl.part", b"evaluate", self.train, *FOREVER, "--model", "m.safetensors")
        self.assertEqual((self.read("m.safetensors"), self.read("m.jsonl")), before, "until it ends")
        self.assertEqual(self.stop(run)[0], 130)
        self.assertEqual(self.files(), ["m.jsonl", "m.safetensors"])
        self.fine("train", self.train, "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "none")
        self.assertEqual(self.read("again.safetensors"), self.read("m.safetensors"))


class Diverged(Outputs):
    def setUp(self):
        super().setUp()
        self.write("wild.txt", WILD)

    def diverge(self, *outputs):
        result = truemax("train", *DIVERGING, *outputs, cwd=self.folder)
        self.assertEqual(result.returncode, 3, result.stderr)
        return result.stderr

    def test_diverged_run_never_replaces_a_model_or_its_log(self):
        self.fine("train", self.train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors")
        before = self.read("m.safetensors"), self.read("m.jsonl")
        for ending in ("-diverged", "-diverged-2"):
            said = self.diverge("--model", "m.safetensors")
            self.assertEqual((self.read("m.safetensors"), self.read("m.jsonl")), before)
            for name in (f"m{ending}.safetensors", f"m{ending}.jsonl"):
                self.assertIn(name, said)
            end = events(self.path(f"m{ending}.jsonl"))[-1]
            self.assertEqual(end["model"], f"m{ending}.safetensors")
            self.fine("inspect", end["model"])
        self.assertFalse([name for name in self.files() if name.endswith(".part")])

    def test_without_an_older_model_the_last_good_one_is_saved(self):
        self.assertIn("m.safetensors holds the model before that step", self.diverge("--model", "m.safetensors"))
        self.assertEqual(self.files(), ["m.jsonl", "m.safetensors", "wild.txt"])

    def test_log_with_a_new_name_is_written_there(self):
        self.write("m.safetensors", OLDER_MODEL)
        self.diverge("--model", "m.safetensors", "--log", "run.jsonl")
        self.assertEqual(self.files(), ["m-diverged.safetensors", "m.safetensors", "run.jsonl", "wild.txt"])
        self.assertEqual(self.read("m.safetensors"), OLDER_MODEL.encode())


class Replayed(Outputs):
    def setUp(self):
        super().setUp()
        self.fine("train", self.train, "--method", "implicit", "--epochs", 2, "--valid-share", 0.1, "--model",
                  "m.safetensors")
        self.lines = self.read("train.txt").decode().splitlines()

    def replay(self, lines, *more):
        path = self.write("other.txt", "\n".join(lines) + "\n")
        return truemax("train", path, "--replay", "m.jsonl", "--model", "r.safetensors", "--log", "none", *more,
                       cwd=self.folder)

    def test_changed_data_are_refused(self):
        self.assertEqual(self.replay(self.lines).returncode, 0)
        self.assertEqual(self.read("r.safetensors"), self.read("m.safetensors"))
        labels, _, features = self.lines[7].partition(" ")
        first, _, rest = features.partition(" ")
        feature, _, value = first.partition(":")
        other = next(line.partition(" ")[0] for line in self.lines[1:] if line.partition(" ")[0] != labels)
        swapped = self.lines[:]
        swapped[5], swapped[9] = swapped[9], swapped[5]
        for name, line in (("a value", f"{labels} {feature}:{float(value) * 1.001:.9g} {rest}"),
                           ("a label", f"{other} {features}")):
            with self.subTest(name):
                said = self.replay(self.lines[:7] + [line] + self.lines[8:])
                self.assertEqual(said.returncode, 2, said.stdout)
                self.assertRegex(said.stderr, "its run had other data.*; give the files")
        said = self.replay(swapped)
        self.assertEqual(said.returncode, 2, said.stdout)
        self.assertRegex(said.stderr, "not the same ones in the same order")

    def test_other_validation_rows_are_refused(self):
        self.generate("valid.txt", rows=100, classes=30, features=100, seed=2)
        self.fine("train", self.train, "--method", "implicit", "--epochs", 2, "--valid", "valid.txt", "--model",
                  "m.safetensors")
        self.assertEqual(self.replay(self.lines).returncode, 0)
        self.generate("valid.txt", rows=100, classes=30, features=100, seed=3)
        self.assertIn("validation rows", self.replay(self.lines).stderr)

    def test_log_without_hashes_replays_with_a_note(self):
        shutil.copy(os.path.join(ROOT, "tests", "data", "before_checksums.jsonl"), self.path("old.jsonl"))
        self.write("rows.txt", "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n")
        said = self.fine("train", "rows.txt", "--replay", "old.jsonl", "--model", "r.safetensors", "--log", "none")
        self.assertIn("no hash of its data", said.stderr)
        old = model_reader.read_model(os.path.join(ROOT, "tests", "data", "before_checksums.safetensors"))[1]
        new = model_reader.read_model(self.path("r.safetensors"))[1]
        self.assertEqual({name: t.tobytes() for name, t in new.items()}, {name: t.tobytes() for name, t in old.items()})


if __name__ == "__main__":
    unittest.main()
