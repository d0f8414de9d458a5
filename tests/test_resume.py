#!/usr/bin/python3
"""Checkpoints: a run that was killed and resumed ends with the same model file, byte for byte, as one that was not."""
import concurrent.futures
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from support import LIMIT_SECONDS, PROGRAM, ProgramTest, RefusalTest, events, snapshot, truemax

CAN_DIVERGE = ("vanilla", "raman", "composition")


def methods():
    return json.loads(truemax("methods", "--json").stdout)


def lines_so_far(path):
    """The events of a log that is being written: none if a resumed run is writing it anew just now."""
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except (FileNotFoundError, ValueError):
        return []


class ResumeTest(ProgramTest):
    def setUp(self):
        super().setUp()
        memory = "/dev/shm"  # syncing hundreds of checkpoints to a disk takes minutes
        if os.access(memory, os.W_OK):
            self.folder = tempfile.mkdtemp(prefix="truemax-test-", dir=memory)
            self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def train(self, folder, *options):
        return truemax("train", *options, cwd=folder)

    def until(self, folder, when, sig, *options):
        """Starts a run and sends `sig` once `when` holds for its log; its exit code, or None if it ended before."""
        run = subprocess.Popen([PROGRAM, "train", *map(str, options)], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + LIMIT_SECONDS
            while run.poll() is None and time.monotonic() < deadline:
                if when(lines_so_far(os.path.join(folder, "m.jsonl.part"))):
                    run.send_signal(sig)
                    break
                time.sleep(0.001)
            _, said = run.communicate(timeout=LIMIT_SECONDS)
        finally:
            run.kill()
        return run.returncode, said

    def cut_and_resumed(self, options, seed=1, sig=signal.SIGKILL, cuts=2, when=None, more=()):
        """Runs once undisturbed, and once cut `cuts` times and resumed; compares the model files. Returns how often it
        was cut in the middle of the fit."""
        folder = self.path(f"run{random.randrange(10**12)}")
        os.mkdir(folder)
        try:
            whole = self.train(folder, *options, "--model", "whole.safetensors")
            self.assertEqual(whole.returncode, 0, f"{options}\n{whole.stderr}")
            saved = [*options, *more, "--model", "m.safetensors", "--checkpoint", "c.tmx"]
            draw, cut = random.Random(seed), 0
            for turn in range(cuts):
                steps = [0]

                def far_enough(lines, wait=draw.randrange(1, 6), steps=steps):
                    done = [e["steps"] for e in lines if e["event"] == "checkpoint" and e["steps"] > 0]
                    steps[0] = done[-1] if done else 0
                    return len(set(done)) >= wait + 3 * turn
                code, said = self.until(folder, when or far_enough, sig, *saved, *(["--resume"] if turn else []))
                self.assertIn(code, (0, -sig, 128 + sig), said)
                cut += code != 0
                if code == 0:
                    break
                self.assertTrue(os.path.exists(os.path.join(folder, "c.tmx")))
            end = self.train(folder, *saved, "--resume")
            self.assertEqual(end.returncode, 0, end.stderr)
            with open(os.path.join(folder, "whole.safetensors"), "rb") as a, \
                    open(os.path.join(folder, "m.safetensors"), "rb") as b:
                self.assertTrue(a.read() == b.read(), f"another model after resuming: {' '.join(map(str, options))}")
            log = events(os.path.join(folder, "m.jsonl"))
            self.assertEqual([log[0]["event"], log[-1]["event"]], ["start", "end"])
            self.assertEqual(sum(e["event"] == "start" for e in log), 1)
            return cut
        finally:
            shutil.rmtree(folder)

    def all_cut(self, runs, **how):
        """cut_and_resumed() of many runs side by side; most of them must really have been cut."""
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            cut = list(pool.map(lambda run: self.cut_and_resumed(run[1], seed=run[0], **how), enumerate(runs)))
        print(f"cut {sum(c > 0 for c in cut)} of {len(runs)} runs", file=sys.stderr)
        self.assertGreater(sum(c > 0 for c in cut), 0.7 * len(runs), "too many runs ended before they were cut")
        return cut


OFTEN = ("--checkpoint-every", "0.001s")  # in the middle of epochs too


class EveryRun(ResumeTest):
    def setUp(self):
        super().setUp()
        self.data = self.generate("a.txt", rows=500, classes=40)

    def test_every_method_and_draw(self):
        table = methods()
        runs = []
        for method in table["methods"]:
            name = method["name"]
            step = 0.005 if name in CAN_DIVERGE else 0.5
            for draw in (["uniform"] if method["all_classes"] else [d["name"] for d in table["draws"]]):
                ridge = len(runs) % 2
                runs.append([self.data, "--method", name, "--draw", draw, "--step", step, "--epochs", 150, "--classes-per-step",
                             16, "--head", 4, "--active", 2, "--eval-every", 0, "--ridge", 0.3 * ridge,
                             *(["--intercept"] if ridge else []), "--visit", ("random", "shuffle", "file")[len(runs) % 3],
                             "--threads", 1 + len(runs) % 2])
            if method["most_rows"] != 1:
                runs.append([self.data, "--method", name, "--step", step, "--epochs", 150, "--rows-per-step", 5,
                             "--classes-per-step", 7, "--eval-every", 7])
        self.assertGreater(len(runs), 80)
        self.all_cut(runs, more=OFTEN)

    def test_every_encoder(self):
        text = "".join(random.Random(1).choice(("a", "of", "the", "cat", "sat", "on", "mat", "dog", "ran", ".")) + " "
                       for _ in range(3000))
        words = self.write("t.txt", text)
        draw = random.Random(2)
        triples = self.write("g.tsv", "".join(f"e{draw.randrange(30)}\tr{draw.randrange(4)}\te{draw.randrange(30)}\n"
                                              for _ in range(800)))
        common = ["--step", 0.01, "--epochs", 25, "--eval-every", 0, "--ridge", 0.1]
        runs = [[self.data, "--hidden", 8, *common], [self.data, "--hidden", 8, "--row-state", "--dropout", 0.2, *common]]
        for encoder in ("context", "cbow", "skipgram"):
            for more in ([], ["--tied"], ["--layers", 1] if encoder == "context" else ["--row-state"]):
                runs.append([words, "--format", "text", "--encoder", encoder, "--hidden", 8, "--dropout", 0.1, *more, *common])
        runs.append([triples, "--format", "triples", "--hidden", 8, *common])
        self.all_cut([run + ["--threads", 1 + i % 2] for i, run in enumerate(runs)], more=OFTEN)

    def test_every_save_every_epoch_and_other_threads(self):
        for first, then in ((1, 3), (3, 1)):
            run = [self.data, "--method", "prox", "--draw", "blocks", "--classes-per-step", 16, "--epochs", 300, "--eval-every",
                   0]
            folder = self.path(f"t{first}")
            os.mkdir(folder)
            whole = self.train(folder, *run, "--model", "whole.safetensors")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            saved = [*run, "--model", "m.safetensors", "--checkpoint", "c.tmx", "--checkpoint-every", "1epochs"]
            code, said = self.until(folder, lambda lines: any(e.get("epochs", 0) > 20 for e in lines), signal.SIGKILL, *saved,
                                    "--threads", first)
            self.assertEqual(code, -signal.SIGKILL, said)
            end = self.train(folder, *saved, "--threads", then, "--resume")
            self.assertEqual(end.returncode, 0, end.stderr)
            self.assertEqual(self.read(f"t{first}/whole.safetensors"), self.read(f"t{first}/m.safetensors"))


class Search(ResumeTest):
    def setUp(self):
        super().setUp()
        self.data = self.generate("a.txt", "--skew", 0.5, rows=4000, features=300, classes=300)

    def test_killed_in_the_search_and_in_the_fit(self):
        options = [self.data, "--seed", 3]
        trials = self.cut_and_resumed(options, when=lambda lines: sum(e["event"] == "trial" for e in lines) >= 6, cuts=1)
        self.assertEqual(trials, 1)
        self.cut_and_resumed(options, when=lambda lines: any(e["event"] == "checkpoint" and e["steps"] > 0 for e in lines),
                             cuts=1, more=OFTEN)

    def test_trials_are_not_run_again(self):
        # So many rows that most of the search is still to come.
        data = self.generate("b.txt", "--skew", 0.5, rows=20000, features=300, classes=300)
        saved = [data, "--model", "m.safetensors", "--checkpoint", "c.tmx"]

        def saved_trials(lines):  # a checkpoint that follows trials
            last = max((i for i, e in enumerate(lines) if e["event"] == "checkpoint"), default=0)
            return sum(e["event"] == "trial" for e in lines[:last]) >= 2
        code, said = self.until(self.folder, saved_trials, signal.SIGKILL, *saved)
        self.assertEqual(code, -signal.SIGKILL, said)
        end = self.fine("train", *saved, "--resume")
        self.assertRegex(end.stdout, r"resume  c\.tmx: in the search, \d+ trials? done")
        log = events(self.path("m.jsonl"))
        numbers = [e["number"] for e in log if e["event"] == "trial"]
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)), "each trial once")
        at = [e["event"] for e in log].index("resume")
        self.assertGreaterEqual(sum(e["event"] == "trial" for e in log[:at]), 2)

    def test_log_of_a_resumed_run_is_replayable(self):
        saved = [self.data, "--model", "m.safetensors", "--checkpoint", "c.tmx", *OFTEN]
        code, said = self.until(self.folder, lambda lines: any(e["event"] == "checkpoint" and e["steps"] > 0 for e in lines),
                                signal.SIGKILL, *saved)
        self.assertEqual(code, -signal.SIGKILL, said)
        self.fine("train", *saved, "--resume")
        self.fine("train", self.data, "--replay", "m.jsonl", "--model", "again.safetensors")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))


class Parts(ResumeTest):
    RUN = ("a.txt", "--method", "umax", "--step", 0.5, "--epochs", 400, "--classes-per-step", 5)
    SAVED = (*RUN, "--model", "m.safetensors", "--checkpoint", "c.tmx", "--checkpoint-every", "1epochs")

    def setUp(self):
        super().setUp()
        self.data = self.generate("a.txt", "--test", "t.txt", "--test-rows", 100)

    def cut(self, *more, epochs=30, sig=signal.SIGKILL):
        code, said = self.until(self.folder, lambda lines: any(e.get("epochs", 0) >= epochs for e in lines), sig, *self.SAVED,
                                *more)
        self.assertIn(code, (-sig, 128 + sig), said)
        return said

    def test_signals_save_where_they_stop(self):
        self.fine("train", *self.RUN, "--model", "whole.safetensors")
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(sig):
                for name in ("c.tmx", "m.safetensors", "m.jsonl"):
                    if os.path.exists(self.path(name)):
                        os.remove(self.path(name))
                saved = [*self.SAVED[:-1], "1h"]  # nothing but the signal saves
                code, said = self.until(self.folder, lambda lines: any(e["event"] == "evaluate" for e in lines), sig, *saved)
                self.assertEqual(code, 128 + sig, said)
                self.assertIn("to go on, run:", said)
                self.assertIn("--resume", said)
                done = int(said.split("stopped after ")[1].split()[0])
                end = self.fine("train", *saved, "--resume")
                self.assertIn(f"{done} steps done", end.stdout)
                self.assertEqual(self.read("m.safetensors"), self.read("whole.safetensors"))

    def test_patience_keeps_its_best_model(self):
        options = [self.data, "--method", "implicit", "--step", 30, "--decay", 1, "--valid-share", 0.3, "--patience", 30,
                   "--epochs", 1000]
        self.all_cut([options, [*options, "--seed", 2]], more=("--checkpoint-every", "1epochs"))

    def test_run_with_a_clock_gets_the_rest_of_its_time(self):
        options = ["a.txt", "--method", "umax", "--seconds", 2, "--model", "m.safetensors", "--checkpoint", "c.tmx",
                   "--checkpoint-every", "0.1s", "--schedule", "linear"]
        code, said = self.until(self.folder, lambda lines: sum(e["event"] == "checkpoint" for e in lines) > 5, signal.SIGKILL,
                                *options)
        self.assertEqual(code, -signal.SIGKILL, said)
        self.fine("train", *options, "--resume")
        end = events(self.path("m.jsonl"))[-1]
        self.assertAlmostEqual(end["train_seconds"], 2, delta=0.4)
        self.fine("train", "a.txt", "--replay", "m.jsonl", "--model", "again.safetensors")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))

    def test_newton_and_few_rows(self):
        for options in (["--newton", 20, "--epochs", 0], ["--epochs", 5], []):
            saved = ["a.txt", *options, "--model", "m.safetensors", "--checkpoint", "c.tmx"]
            self.fine("train", *saved)
            first = self.read("m.safetensors")
            os.remove(self.path("m.safetensors"))
            self.assertIn("which was all", self.fine("train", *saved, "--resume").stdout)
            self.assertEqual(self.read("m.safetensors"), first)
            os.remove(self.path("c.tmx"))

    def test_finished_run_writes_its_model_again(self):
        self.fine("train", *self.SAVED)
        model, log = self.read("m.safetensors"), self.read("m.jsonl")
        os.remove(self.path("m.safetensors"))
        result = self.fine("train", *self.SAVED, "--resume")
        self.assertIn("which was all", result.stdout)
        self.assertEqual(self.read("m.safetensors"), model)
        now = events(self.path("m.jsonl"))
        self.assertEqual([sum(e["event"] == kind for e in now) for kind in ("start", "end", "resume")], [1, 1, 1])
        self.assertEqual([e for e in now if e["event"] == "evaluate"],
                         [e for e in map(json.loads, log.splitlines()) if e["event"] == "evaluate"])

    def test_more_epochs_go_on_from_the_end(self):
        self.fine("train", *self.SAVED)
        more = [*self.SAVED, "--epochs", 450]
        more.remove("--epochs"), more.remove(400)
        self.fine("train", *more, "--resume")
        self.fine("train", *[450 if word == 400 else word for word in self.RUN], "--model", "whole.safetensors")
        self.assertEqual(self.read("m.safetensors"), self.read("whole.safetensors"))

    def test_log_of_a_run_with_more_epochs_is_replayable(self):
        self.fine("train", *self.SAVED)
        more = [450 if word == 400 else word for word in self.SAVED]
        said = self.fine("train", *more, "--resume").stderr
        self.assertIn("--epochs is 400 in the checkpoint, which has 400 done, and 450 here", said)
        self.fine("train", "a.txt", "--replay", "m.jsonl", "--model", "again.safetensors")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))

    def test_log_of_a_linear_schedule_with_other_epochs_is_not_replayed(self):
        self.fine("train", *self.SAVED, "--schedule", "linear")
        self.fine("train", *[450 if word == 400 else word for word in self.SAVED], "--schedule", "linear", "--resume")
        result = truemax("train", "a.txt", "--replay", "m.jsonl", "--model", "x.safetensors", cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        self.assertIn("resumed with other --epochs", result.stderr)

    def test_newton_that_was_stopped_begins_again(self):
        self.generate("n.txt", rows=4000, classes=120, features=1000, nonzeros=20)
        options = ["n.txt", "--method", "prox", "--epochs", 2, "--newton", 3, "--ridge", 0.1]
        began = time.monotonic()
        self.fine("train", *options, "--model", "whole.safetensors")
        seconds = time.monotonic() - began
        saved = [*options, "--model", "m.safetensors", "--checkpoint", "c.tmx"]
        for turn in range(6):
            run = subprocess.Popen([PROGRAM, "train", *map(str, saved)], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
            time.sleep(seconds * (0.3 + 0.1 * turn))
            run.send_signal(signal.SIGTERM)
            run.wait()
            self.fine("train", *saved, "--resume")
            self.assertEqual(self.read("m.safetensors"), self.read("whole.safetensors"))
            os.remove(self.path("c.tmx"))

    def test_without_a_checkpoint_resume_starts_afresh(self):
        self.fine("train", *self.RUN, "--model", "whole.safetensors")
        self.fine("train", *self.SAVED, "--resume")
        self.assertEqual(self.read("m.safetensors"), self.read("whole.safetensors"))

    def test_names_that_were_not_given_are_those_of_the_first_run(self):
        saved = ["a.txt", *self.RUN[1:], "--checkpoint", "c.tmx", "--checkpoint-every", "1h"]
        run = subprocess.Popen([PROGRAM, "train", *map(str, saved)], cwd=self.folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        while not os.path.exists(self.path("c.tmx")):
            time.sleep(0.001)
        run.send_signal(signal.SIGINT)
        self.assertIn(run.wait(), (0, 130))
        self.fine("train", *saved, "--resume")
        names = {n for n in os.listdir(self.folder) if n.startswith("model")}
        self.assertEqual(names, {"model.safetensors", "model.jsonl"})

    def test_nothing_but_the_outputs_is_left(self):
        self.cut()
        self.fine("train", *self.SAVED, "--resume")
        self.assertEqual(set(os.listdir(self.folder)), {"a.txt", "t.txt", "c.tmx", "m.safetensors", "m.jsonl"})

    def test_all_of_it_in_another_folder(self):
        self.cut()
        os.mkdir(self.path("there"))
        for name in ("a.txt", "c.tmx"):
            shutil.copy(self.path(name), self.path("there"))
        os.rename(self.path("there/a.txt"), self.path("there/b.txt"))
        renamed = ["b.txt" if word == "a.txt" else word for word in self.SAVED]
        result = truemax("train", *renamed, "--resume", "--log", "other.jsonl", cwd=self.path("there"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.fine("train", *self.RUN, "--model", "whole.safetensors")
        self.assertEqual(self.read("there/m.safetensors"), self.read("whole.safetensors"))
        self.assertEqual(events(self.path("there/other.jsonl"))[0]["event"], "start")


class Names(ResumeTest):
    """A run that chose the names of its outputs itself."""

    RUN = ["train", "a.txt", "--method", "prox", "--step", 0.5, "--eval-every", 0, "--checkpoint", "c.tmx"]

    def setUp(self):
        super().setUp()
        self.generate("a.txt")

    def test_models_of_other_runs_stay(self):
        run = subprocess.Popen([PROGRAM, *map(str, self.RUN), "--epochs", "1000000", "--checkpoint-every", "1h"], cwd=self.folder,
                               stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + LIMIT_SECONDS
        while not os.path.exists(self.path("c.tmx")) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        run.kill()
        run.wait()
        self.fine("train", "a.txt", "--method", "umax", "--epochs", 2)
        other = self.read("model.safetensors"), self.read("model.jsonl")
        said = self.fine(*self.RUN, "--epochs", 3, "--resume")
        self.assertIn("model.safetensors is of another run by now", said.stderr)
        self.assertIn("model-2.safetensors", said.stdout)
        self.assertEqual((self.read("model.safetensors"), self.read("model.jsonl")), other)
        again = self.fine(*self.RUN, "--epochs", 3, "--resume")  # its own model is replaced by itself
        self.assertIn("model-2.safetensors", again.stdout)
        self.assertNotIn("of another run", again.stderr)


class Refusals(RefusalTest):
    RUN = ["train", "a.txt", "--method", "umax", "--epochs", 3, "--model", "m.safetensors", "--checkpoint", "c.tmx"]

    def setUp(self):
        super().setUp()
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 100)
        self.generate("b.txt", seed=2)

    def finished(self):
        result = truemax(*self.RUN, cwd=self.folder)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_of_options(self):
        def no(*more, words):
            self.refused(["train", "a.txt", "--model", "m.safetensors", *more], *words)
        no("--resume", words=["--resume", "add --checkpoint FILE"])
        no("--checkpoint-every", "1epochs", words=["--checkpoint-every", "add --checkpoint FILE"])
        for bad in ("5", "0epochs", "-1min", "1.5epochs", "epochs", "nan", "1e99h", "3 min"):
            no("--checkpoint", "c.tmx", "--checkpoint-every", bad, words=["--checkpoint-every", "1epochs or 10min"])
        no("--checkpoint", "-", words=["--checkpoint takes the name of a file"])
        no("--checkpoint", "none", words=["--checkpoint takes the name of a file", "leave it out"])
        no("--checkpoint", "no/such/c.tmx", words=["--checkpoint", "there is no folder"])
        no("--checkpoint", "a.txt", words=["a.txt", "exists"])
        no("--checkpoint", "a.txt", "--resume", words=["a.txt", "this is not a checkpoint"])
        no("--checkpoint", "m.safetensors", words=["--checkpoint m.safetensors", "model"])

    def test_existing_checkpoint_without_resume(self):
        self.finished()
        self.refused(self.RUN, "--checkpoint c.tmx", "add --resume")

    def test_other_options_and_data(self):
        self.finished()
        for more, words in ((["--step", 3], ["--step is 0.1 there and 3"]), (["--seed", 9], ["--seed is 1 there and 9 here"]),
                            (["--ridge", 2, "--intercept"], ["--ridge", "--intercept is false there and true here"]),
                            (["--normalize", "l2"], ["--normalize is none there and l2 here"]),
                            (["--test", "t.txt"], ["test rows"]), (["--max-rows", 50], ["--max-rows"])):
            with self.subTest(more):
                self.refused([*self.RUN, *more, "--resume"], "c.tmx is the checkpoint of another run", *words)
        self.refused(["train", "b.txt", *self.RUN[2:], "--resume"], "another run", "training rows are others")
        self.refused([w if w != "umax" else "implicit" for w in self.RUN] + ["--resume"], "--method is umax there")

    def test_fewer_epochs_than_are_done(self):
        self.finished()
        fewer = [2 if word == 3 else word for word in self.RUN]
        self.refused([*fewer, "--resume"], "--epochs 2: the run in c.tmx is in epoch 3 already", "give --epochs 3")

    def test_model_to_start_from_is_missing(self):
        self.finished()
        run = [{"c.tmx": "i.tmx", "m.safetensors": "i.safetensors"}.get(word, word) for word in self.RUN]
        self.fine(*run, "--init", "m.safetensors")
        self.refused([*run, "--resume"], "it started from a model, and --init is missing here")
        self.refused([*self.RUN, "--init", "i.safetensors", "--resume"], "it did not start from a model")

    def test_link_to_nothing_is_a_new_checkpoint(self):
        os.symlink("real.tmx", self.path("c.tmx"))
        self.finished()
        self.assertTrue(os.path.islink(self.path("c.tmx")))
        self.assertGreater(os.path.getsize(self.path("real.tmx")), 0)

    def test_damaged_checkpoints(self):
        self.finished()
        good = self.read("c.tmx")
        draw = random.Random(1)
        for turn in range(60):
            bad = bytearray(good)
            if turn % 3 == 0:
                del bad[draw.randrange(len(bad)):]
            elif turn % 3 == 1:
                bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
            else:
                bad += b"x" * draw.randrange(1, 50)
            self.write("c.tmx", bytes(bad))
            self.refused([*self.RUN, "--resume"], "c.tmx")
        self.write("c.tmx", good)
        self.assertEqual(truemax(*self.RUN, "--resume", cwd=self.folder).returncode, 0)

    def test_two_runs_do_not_share_a_checkpoint(self):
        run = subprocess.Popen([PROGRAM, "train", "a.txt", "--method", "umax", "--seconds", "60", "--checkpoint", "c.tmx",
                                "--model", "x.safetensors"], cwd=self.folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(self.path("c.tmx")):
                time.sleep(0.01)
            result = truemax(*self.RUN, "--resume", cwd=self.folder)
        finally:
            run.kill()
            run.wait()
        self.assertEqual(result.returncode, 2)
        self.assertIn("another run is still writing there", result.stderr)


if __name__ == "__main__":
    unittest.main()
