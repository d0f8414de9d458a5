#!/usr/bin/python3
"""truemax plan: it says what train then does, refuses what train refuses, and writes nothing."""
import json
import os
import re
import unittest

from support import OUTPUT, ProgramTest, RefusalTest, events, snapshot, truemax

# Of small generated data; the first word is the data set.
OPTION_SETS = (
    ("a.txt",),
    ("a.txt", "--target", "train"),
    ("a.txt", "--method", "prox", "--step", "3", "--epochs", "4", "--draw", "head-blocks"),
    ("a.txt", "--method", "implicit", "--epochs", "3", "--test", "t.txt"),
    ("a.txt", "--method", "lbfgs", "--epochs", "5"),
    ("a.txt", "--method", "exact", "--epochs", "2", "--valid-share", "0.2", "--patience", "2"),
    ("a.txt", "--newton", "10", "--ridge", "1"),
    ("a.txt", "--method", "prox", "--epochs", "2", "--group", "8"),
    ("a.txt", "--hidden", "16", "--step", "0.01", "--ridge", "1", "--epochs", "2"),
    ("wide.txt", "--encoder", "linear", "--epochs", "3"),
    ("wide.txt", "--target", "train", "--epochs", "80"),
    ("wide.txt", "--target", "train", "--epochs", "10", "--rivals", "2"),
    ("wide.txt", "--lock-free", "--step", "1", "--epochs", "2", "--ridge", "0"),
    ("wide.txt", "--seconds", "0.2"),
)
SOUGHT = {"step", "ridge", "ridge-by-spread", "epochs", "hidden", "layers", "tied", "dropout"}
# What only the fit after trials has: all rows, and no more to find.
OF_TRIALS = {"target", "valid-share", "patience"}


class Plan(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 50)
        self.generate("wide.txt", rows=1000, features=200, classes=100)

    def plan(self, *arguments):
        result = self.fine("plan", *arguments, "--json")
        self.assertEqual(result.stdout.count("\n"), 1)
        return json.loads(result.stdout), result.stderr

    def test_train_does_what_the_plan_says(self):
        for words in OPTION_SETS:
            with self.subTest(" ".join(words)):
                said, notes = self.plan(*words)
                self.assertEqual(notes, "".join(f"truemax: note: {note}\n" for note in said["notes"]))
                trained = self.fine("train", *words, *OUTPUT)
                self.assertTrue(trained.stderr.startswith(notes), trained.stderr)
                log = events(self.path("RUN.jsonl"))
                # The free memory of the machine may differ.
                plan, logged = said["plan"], log[0]["plan"]
                del plan["memory"]["there"], logged["memory"]["there"]
                self.assertEqual(plan, logged)
                self.assertEqual(plan["options"].items() & log[0]["config"].items(), plan["options"].items())
                chosen = [event for event in log if event["event"] == "chosen"]
                if not chosen:
                    self.assertEqual(said["plan"]["sought"], [])
                    continue
                found = {one["option"] for one in plan["sought"]}
                fit = chosen[0]["plan"]
                self.assertLessEqual(found, SOUGHT)
                if "rival" not in plan:
                    self.assertEqual(plan["solver"], fit["solver"])
                    for name, value in fit["options"].items():
                        if name not in found | OF_TRIALS | {"ridge-by-spread"}:
                            self.assertEqual(plan["options"][name], value, name)
                self.assertEqual(fit["sought"], [])

    def test_lines_are_those_of_train(self):
        for words in (("a.txt", "--test", "t.txt"), ("wide.txt", "--method", "prox", "--epochs", "1")):
            lines = [line for line in self.fine("train", *words, *OUTPUT).stdout.split("\n\n")[0].splitlines()
                     if re.match("(train|test|method) ", line)]
            self.assertEqual(self.fine("plan", *words).stdout.splitlines()[:len(lines)], lines)

    def test_asked_is_only_what_was_said(self):
        words = ("a.txt", "--epochs", "3", "--no-intercept", "--normalize", "l2", "--ridge", "auto")
        said, _ = self.plan(*words)
        asked = {"epochs": 3, "intercept": False, "normalize": "l2", "ridge": "auto"}
        self.assertEqual(said["asked"], asked)
        self.fine("train", *words, *OUTPUT)
        logged = events(self.path("RUN.jsonl"))[0]["asked"]
        self.assertEqual({name: asked[name] for name in logged}, logged)
        self.assertNotIn("step", logged)

    def test_it_writes_nothing(self):
        self.write("M.safetensors", "older")
        before = snapshot(self.folder)
        for words in (("a.txt",), ("a.txt", "--model", "M.safetensors", "--log", "RUN.jsonl"),
                      ("a.txt", "--checkpoint", "run.tmx", "--resume")):
            self.plan(*words)
        self.assertEqual(snapshot(self.folder), before)

    def test_a_plan_of_a_run_that_goes_on(self):
        self.fine("train", "a.txt", "--method", "prox", "--epochs", "2", "--checkpoint", "run.tmx", *OUTPUT)
        text = self.fine("plan", "a.txt", "--method", "prox", "--epochs", "4", "--checkpoint", "run.tmx", "--resume").stdout
        self.assertRegex(text, r"(?m)^resume  run.tmx: 2 epochs, ")
        self.assertRegex(self.fine("plan", "a.txt", "--replay", "RUN.jsonl").stdout, r"(?m)^replay  800 steps of RUN.jsonl$")
        self.assertRegex(self.fine("plan", "a.txt", "--init", "M.safetensors").stdout, r"(?m)^start   M.safetensors: 12 of 12")

    def test_seconds_of_a_named_method_are_within_a_factor_of_two(self):
        said, _ = self.plan("wide.txt", "--method", "prox", "--step", "3", "--epochs", "20", "--draw", "head-blocks")
        low, high = said["plan"]["seconds"]
        self.assertGreater(low, 0)
        self.assertLessEqual(high / low, 2)

    def test_reasons_have_numbers(self):
        text = self.fine("plan", "wide.txt").stdout
        self.assertIn("newton: it is for at most 64 classes or features, of which there are 100 and 200", text)
        text = self.fine("plan", "wide.txt", "--target", "train").stdout
        self.assertRegex(text, r"lbfgs: there are 50 epochs; it is taken from 80")

    def test_newton_has_one_name(self):
        trained = self.fine("train", "a.txt", *OUTPUT).stdout
        self.assertRegex(trained, r"(?m)^method  newton, all rows and classes")
        self.assertRegex(trained, r"(?m)^newton +")
        self.assertEqual(json.loads(self.fine("train", "a.txt", *OUTPUT, "--json").stdout)["method"], "newton")
        self.assertRegex(self.fine("inspect", "M.safetensors").stdout, r"(?m)^method +newton$")
        self.assertEqual(json.loads(self.fine("inspect", "M.safetensors", "--json").stdout)["method"], "newton")


class Refused(RefusalTest):
    def test_what_train_refuses(self):
        self.generate("a.txt")
        for words in (("none.txt",), ("a.txt", "--method", "prox", "--rows-per-step", "2"), ("a.txt", "--memory-limit", "1M"),
                      ("a.txt", "--method", "prox", "--patience", "2"), ("a.txt", "--model", "a.txt"),
                      ("a.txt", "--resume")):
            with self.subTest(" ".join(words)):
                outputs = () if "--model" in words else OUTPUT
                refused = [self.refused([command, *words, *outputs]) for command in ("train", "plan")]
                self.assertEqual(*refused)

    def test_a_plan_that_does_not_fit_is_refused(self):
        self.generate("a.txt")
        self.fine("train", "a.txt", "--method", "prox", "--epochs", "2", "--model", "m.safetensors", "--log", "m.jsonl")
        lines = self.read("m.jsonl").decode().splitlines()
        start = json.loads(lines[0])
        for name, value, words in (("solver", "block", "the solver \"block\""), ("steps_per_epoch", 7, "steps an epoch 7"),
                                   ("rows", 7, "rows 7")):
            changed = {**start, "plan": {**start["plan"], name: value}}
            self.write("changed.jsonl", "\n".join([json.dumps(changed), *lines[1:]]) + "\n")
            self.refused(["train", "a.txt", "--replay", "changed.jsonl", *OUTPUT], "changed.jsonl: its plan has " + words)
        # A log of an older version has no plan.
        del start["plan"]
        self.write("older.jsonl", "\n".join([json.dumps(start), *lines[1:]]) + "\n")
        self.fine("train", "a.txt", "--replay", "older.jsonl", "--model", "m.safetensors", "--log", "none")


if __name__ == "__main__":
    unittest.main()
