"""Budgets of time and steps, runs that repeat without a clock, validation and early stop."""
import os
import unittest

import model_reader
from support import ProgramTest, events, truemax


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

    def test_seconds_are_kept_and_the_run_is_evaluated_once_at_its_end(self):
        for seconds in (0.02, 0.3):
            with self.subTest(seconds=seconds):
                end = self.end("--seconds", seconds)
                self.assertGreaterEqual(end["train_seconds"], seconds)
                # 5% or 10 ms on a quiet machine; a busy one takes the processor away in between.
                self.assertLess(end["train_seconds"], seconds + 0.25)
                self.assertFalse(end["interrupted"])
                evaluations = [e for e in events(self.path("m.jsonl")) if e["event"] == "evaluate"]
                self.assertEqual([e["steps"] for e in evaluations], [end["steps"]])
                self.assertEqual(end["model"], "m.safetensors")

    def test_the_steps_of_a_timed_run_repeat_it_bit_for_bit(self):
        end = self.end("--seconds", 0.1)
        again = self.end("--steps", end["steps"], name="again")
        self.assertEqual((again["steps"], again["epochs"]), (end["steps"], end["epochs"]))
        self.assertEqual(weights(self.path("m.safetensors")), weights(self.path("again.safetensors")))

    def test_whichever_of_epochs_steps_and_seconds_comes_first_ends_the_run(self):
        self.assertEqual(self.end("--seconds", 100, "--epochs", 2)["steps"], 4000)
        self.assertEqual(self.end("--seconds", 100, "--epochs", 2, "--steps", 2500)["steps"], 2500)
        self.assertEqual(self.end("--steps", 4100)["epochs"], 2)

    def test_evaluations_within_a_timed_run_are_made_where_they_are_asked_for(self):
        self.end("--epochs", 4, "--seconds", 100, "--eval-every", 2)
        epochs = [e["epoch"] for e in events(self.path("m.jsonl")) if e["event"] == "evaluate"]
        self.assertEqual(epochs, [2, 4])

    def test_a_linear_schedule_learns_and_writes_its_segments(self):
        end = self.end("--seconds", 0.2, "--schedule", "linear")
        segments = end["segments"]
        self.assertEqual(segments[0]["first_step"], 0)
        self.assertGreater(len(segments), 3)
        self.assertEqual(sorted(s["step"] for s in segments), [s["step"] for s in reversed(segments)])
        self.assertNotIn("segments", self.end("--epochs", 3, "--schedule", "linear"))

    def test_bad_budgets_are_refused(self):
        for option, value in (("--seconds", "-1"), ("--seconds", "nan"), ("--seconds", "ten"), ("--steps", "-1"),
                              ("--steps", "1.5"), ("--schedule", "cosine")):
            with self.subTest(option=option, value=value):
                result = truemax("train", self.train, f"{option}={value}", cwd=self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(option, result.stderr)
                self.assertEqual(os.listdir(self.folder), ["train.txt"])


if __name__ == "__main__":
    unittest.main()
