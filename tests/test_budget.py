"""Budgets of time and steps, replays, validation and early stopping."""
import json
import os
import signal
import subprocess
import time
import unittest

import model_reader
from support import LIMIT_SECONDS, PROGRAM, ProgramTest, events, truemax


def weights(path):
    return model_reader.read_model(path)[1]["weight"].tobytes()


class Budgets(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", rows=2000, features=300, classes=50, nonzeros=20)

    def end(self, *options, name="m"):
        self.fine("train", self.train, "--method", "implicit", "--step", 1, "--model", name + ".safetensors",
                  "--log", name + ".jsonl", *options)
        return events(self.path(name + ".jsonl"))[-1]

    def test_timed_run_keeps_its_seconds_and_evaluates_once(self):
        for seconds in (0.02, 0.3):
            with self.subTest(seconds=seconds):
                end = self.end("--seconds", seconds)
                # How soon after them it ends is tested with a fake clock (src/train/schedule_test.cpp).
                self.assertGreaterEqual(end["train_seconds"], seconds)
                self.assertFalse(end["interrupted"])
                evaluations = [e for e in events(self.path("m.jsonl")) if e["event"] == "evaluate"]
                self.assertEqual([e["steps"] for e in evaluations], [end["steps"]])
                self.assertEqual(end["model"], "m.safetensors")

    def test_steps_of_a_timed_run_repeat_it_bit_for_bit(self):
        end = self.end("--seconds", 0.1)
        # A slow machine may take no step at all, and --steps 0 would mean no limit.
        again = self.end(*(("--steps", end["steps"]) if end["steps"] else ("--epochs", 0)), name="again")
        self.assertEqual((again["steps"], again["epochs"]), (end["steps"], end["epochs"]))
        self.assertEqual(weights(self.path("m.safetensors")), weights(self.path("again.safetensors")))

    def test_first_of_epochs_steps_and_seconds_ends_the_run(self):
        self.assertEqual(self.end("--seconds", 100, "--epochs", 2)["steps"], 4000)
        self.assertEqual(self.end("--seconds", 100, "--epochs", 2, "--steps", 2500)["steps"], 2500)
        self.assertEqual(self.end("--steps", 4100)["epochs"], 2)

    def test_eval_every_applies_within_a_timed_run(self):
        self.end("--epochs", 4, "--seconds", 100, "--eval-every", 2)
        epochs = [e["epoch"] for e in events(self.path("m.jsonl")) if e["event"] == "evaluate"]
        self.assertEqual(epochs, [2, 4])

    def test_linear_schedule_learns_and_logs_its_segments(self):
        end = self.end("--seconds", 0.2, "--schedule", "linear")
        segments = end.get("segments", [])
        self.assertEqual([s["first_step"] for s in segments[:1]], [0] if end["steps"] else [])
        self.assertLessEqual(len(segments), 200)
        for before, after in zip(segments, segments[1:]):
            self.assertLess(before["first_step"], after["first_step"])
            self.assertGreater(before["step"], after["step"])
        for s in segments:  # one for each segment of the time
            self.assertLess(s["first_step"], end["steps"])
            self.assertAlmostEqual(200 * s["step"], max(2, round(200 * s["step"])), places=9)
        self.assertNotIn("segments", self.end("--epochs", 3, "--schedule", "linear"))

    def test_bad_budgets_are_refused(self):
        for option, value in (("--seconds", "-1"), ("--seconds", "nan"), ("--seconds", "ten"), ("--steps", "-1"),
                              ("--steps", "1.5"), ("--schedule", "cosine")):
            with self.subTest(option=option, value=value):
                result = truemax("train", self.train, f"{option}={value}", cwd=self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(option, result.stderr)
                self.assertEqual(os.listdir(self.folder), ["train.txt"])


class Replays(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 200, rows=2000, features=300,
                                   classes=50, nonzeros=20)

    def run_it(self, *options, name="m"):
        self.fine("train", self.train, *options, "--model", name + ".safetensors", "--log", name + ".jsonl")
        return self.read(name + ".safetensors"), events(self.path(name + ".jsonl"))

    def test_replay_of_a_timed_run_gives_the_same_file(self):
        implicit = ("--method", "implicit")
        runs = ((), ("--target", "train"), implicit, (*implicit, "--schedule", "linear"), ("--method", "umax", "--step", 0.1, "--classes-per-step", 5),
                ("--method", "exact", "--step", 0.1, "--schedule", "linear", "--normalize", "l2"),
                (*implicit, "--schedule", "linear", "--valid-share", 0.2, "--patience", 2, "--test", "test.txt"))
        for options in runs:
            with self.subTest(options=options):
                model, log = self.run_it("--seconds", 0.15, *options)
                again, log_again = self.run_it("--replay", "m.jsonl", "--threads", 1, name="again")
                self.assertEqual(again, model)
                keys = ("epochs", "steps", "segments", "best")
                self.assertEqual(*([log[-1].get(key) for key in keys] for log in (log, log_again)))
                third, _ = self.run_it("--replay", "again.jsonl", name="third")
                self.assertEqual(third, model)

    def test_replay_of_a_run_by_epochs_gives_the_same_file(self):
        model, _ = self.run_it("--epochs", 3, "--schedule", "linear")
        self.assertEqual(self.run_it("--replay", "m.jsonl", name="again")[0], model)

    def test_replay_overwrites_nothing_and_takes_new_outputs(self):
        model, _ = self.run_it("--epochs", 2)
        self.fine("train", self.train, "--replay", "m.jsonl", "--test", "test.txt")
        self.assertEqual(self.read("model.safetensors"), model)
        self.assertEqual(self.read("m.safetensors"), model)
        self.assertIn("test", events(self.path("model.jsonl"))[1])
        self.assertEqual(events(self.path("model.jsonl"))[0]["config"]["replay"], "m.jsonl")

    def refused(self, *options, words):
        before = sorted(os.listdir(self.folder))
        result = truemax("train", *options, cwd=self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(words, result.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_replay_refuses_options_that_change_the_result(self):
        self.run_it("--epochs", 2)
        for option in (("--step", 3), ("--seed", 2), ("--seconds", 1), ("--intercept",), ("--valid", "test.txt")):
            with self.subTest(option=option):
                self.refused(self.train, "--replay", "m.jsonl", *option, words=f"{option[0]}: with --replay it comes from the log")

    def test_replay_refuses_other_data(self):
        self.run_it("--epochs", 2)
        self.refused("test.txt", "--replay", "m.jsonl", words="its run had other data: 2000 rows there, 200 here")

    def test_replay_refuses_bad_and_unfinished_logs(self):
        _, log = self.run_it("--method", "implicit", "--seconds", 0.05, "--schedule", "linear")
        lines = self.read("m.jsonl").decode().splitlines()

        def changed(**end):
            return "\n".join(lines[:-1] + [json.dumps({**log[-1], **end})])

        unknown = json.dumps({**log[0], "config": {**log[0]["config"], "nonsense": 1}})
        bad_value = json.dumps({**log[0], "config": {**log[0]["config"], "step": -1}})
        cases = (("", "the log has no end"), ("\n".join(lines[:-1]), "the log has no end"),
                 ("not json", "is not an event of a run"), ("{}", "is not an event"), ("\n".join(lines[1:]), "begins with"),
                 ("\n".join(lines[:1] + lines), "begins with"), ("\n".join(lines + lines[-1:]), "after the end"),
                 (changed(steps=-1), "does not say its steps"), (changed(segments=3), "segments are not"),
                 (changed(segments=[{"first_step": 1, "step": 1.0}]), "segments are not"),
                 (changed(segments=[{"first_step": 0, "step": 0}]), "segments are not"),
                 (changed(segments=[{"first_step": 0, "step": 1}, {"first_step": 0, "step": 1}]), "segments are not"),
                 ("\n".join([unknown] + lines[1:]), "unknown option"), ("\n".join([bad_value] + lines[1:]), "--step"),
                 ("\n".join(['{"event":"start"}'] + lines[1:]), "does not say its options"))
        for text, words in cases:
            with self.subTest(words=words, text=text[:60]):
                self.write("bad.jsonl", text)
                self.refused(self.train, "--replay", "bad.jsonl", words=words)
        self.refused(self.train, "--replay", "missing.jsonl", words="--replay missing.jsonl")
        self.refused(self.train, "--replay", self.folder, words="this file cannot be read")
        self.refused(self.train, "--replay", "m.jsonl", "--log", "m.jsonl", words="this is an input of the run")


class Validation(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "valid.txt", "--test-rows", 300, rows=300, features=200,
                                   classes=10, nonzeros=20)

    def log_of(self, *options):
        result = self.fine("train", self.train, "--method", "implicit", "--step", 5, "--model", "m.safetensors", "--log",
                           "m.jsonl", *options)
        return result.stdout, events(self.path("m.jsonl"))

    def test_validation_rows_are_in_the_log_and_in_the_table(self):
        said, log = self.log_of("--valid", "valid.txt", "--epochs", 2, "--eval-every", 1)
        evaluations = [e for e in log if e["event"] == "evaluate"]
        self.assertEqual([set(e) >= {"train", "valid"} for e in evaluations], [True, True])
        self.assertIn("valid log-loss", said)
        self.assertEqual(log[0]["valid_data"]["rows"], 300)
        self.assertAlmostEqual(self.metrics("m.safetensors", "valid.txt")["log_loss"],
                               evaluations[-1]["valid"]["log_loss"], places=12)

    def test_auto_judges_trials_on_the_validation_file(self):
        self.fine("train", self.train, "--valid", "valid.txt", "--model", "m.safetensors", "--log", "m.jsonl")
        log = events(self.path("m.jsonl"))
        trials = [e for e in log if e["event"] == "trial"]
        self.assertGreater(len(trials), 2)
        self.assertEqual({(e["rows"], e["judged_on"]) for e in trials}, {(300, 300)})
        self.assertIn("valid", [e for e in log if e["event"] == "evaluate"][-1])

    def test_valid_share_keeps_all_classes_and_features(self):
        _, whole = self.log_of("--epochs", 1)
        _, log = self.log_of("--epochs", 1, "--valid-share", 0.1)
        self.assertEqual((log[0]["data"]["rows"], log[0]["valid_data"]["rows"]), (270, 30))
        for key in ("classes", "features"):
            self.assertEqual(log[0]["data"][key], whole[0]["data"][key])
        nonzeros = log[0]["data"]["nonzeros"] + log[0]["valid_data"]["nonzeros"]
        self.assertEqual(nonzeros, whole[0]["data"]["nonzeros"])

    def test_patience_ends_the_run_and_saves_the_best_model(self):
        needed = None
        for place in ("memory", "disk"):
            with self.subTest(place=place):
                # One byte too few for a second copy of the weights: it goes to a file.
                limit = ("--memory-limit", needed - 1) if place == "disk" else ()
                said, log = self.log_of("--valid", "valid.txt", "--epochs", 300, "--decay", 1, "--patience", 3, *limit)
                if place == "disk":
                    self.assertLess(log[0]["memory"]["needed"], needed)
                needed = log[0]["memory"]["needed"]
                watched = [e["valid"]["log_loss"] for e in log if e["event"] == "evaluate" and "best" not in e]
                best = watched.index(min(watched))
                self.assertLess(len(watched), 300)
                self.assertEqual(len(watched), best + 1 + 3)
                self.assertEqual(log[-1]["best"]["epoch"], best + 1)
                self.assertEqual(log[-1]["epochs"], len(watched))
                final = log[-2]
                self.assertEqual((final["epoch"], final["best"], "train" in final), (best + 1, True, True))
                self.assertIn(f"best epoch {best + 1} of {len(watched)}", said)
                self.assertAlmostEqual(self.metrics("m.safetensors", "valid.txt")["log_loss"], min(watched), places=12)
                self.assertEqual(sorted(os.listdir(self.folder)),
                                 ["m.jsonl", "m.safetensors", "train.txt", "valid.txt"])

    def test_stopped_run_leaves_only_the_best_model(self):
        _, log = self.log_of("--valid", "valid.txt", "--epochs", 1, "--patience", 1)
        limit = log[0]["memory"]["needed"] - 1  # the best model is kept on disk
        for name in ("m.jsonl", "m.safetensors"):
            os.remove(self.path(name))
        for signal_number, code, kept in ((signal.SIGINT, 130, ["m.jsonl", "m.safetensors"]),
                                          (signal.SIGKILL, -9, ["m.jsonl.part", "m.safetensors.part"])):
            with self.subTest(signal=signal_number):
                run = subprocess.Popen([PROGRAM, "train", self.train, "--method", "implicit", "--valid", "valid.txt",
                                        "--patience", "1000000", "--seconds", "1e6", "--model", "m.safetensors",
                                        "--log", "m.jsonl", "--memory-limit", str(limit)], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.addCleanup(run.kill)
                while not (os.path.exists(self.path("m.jsonl.part")) and self.read("m.jsonl.part").count(b"evaluate") > 2):
                    self.assertIsNone(run.poll(), "the run ended by itself")
                    time.sleep(0.01)
                run.send_signal(signal_number)
                self.assertEqual(run.wait(LIMIT_SECONDS), code)
                self.assertEqual(sorted(os.listdir(self.folder)), [*kept, "train.txt", "valid.txt"])
                if signal_number == signal.SIGINT:
                    log = events(self.path("m.jsonl"))
                    best = min(e["valid"]["log_loss"] for e in log if e["event"] == "evaluate")
                    self.assertAlmostEqual(self.metrics("m.safetensors", "valid.txt")["log_loss"], best, places=12)
                for name in kept:
                    os.remove(self.path(name))

    def test_contradictory_validation_options_are_refused(self):
        for options, words in (
                (("--method", "implicit", "--patience", 3), "add --valid FILE, or --valid-share"),
                (("--valid", "valid.txt", "--valid-share", 0.1), "leave one of the two out"),
                (("--valid-label-file", "x"), "add --valid FILE"),
                (("--valid-share", 0.95), "--valid-share"),
                (("--valid-share", 0.001), "leaves none to validate on"),
                (("--valid", "missing.txt"), "missing.txt"),
                (("--method", "implicit", "--valid", "valid.txt", "--patience", 3, "--eval-every", 0),
                 "give --eval-every 1"),
                (("--valid", "valid.txt", "--model", "valid.txt"), "this is an input of the run")):
            with self.subTest(options=options):
                before = sorted(os.listdir(self.folder))
                result = truemax("train", self.train, *options, cwd=self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)
                self.assertEqual(sorted(os.listdir(self.folder)), before)


if __name__ == "__main__":
    unittest.main()
