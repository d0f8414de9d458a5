#!/usr/bin/python3
"""Learnt features (--hidden, --encoder): the choice, training, the model file, evaluation, prediction and replay agree with NumPy."""
import json
import unittest

import numpy as np

from model_reader import read_model, read_xmlrepository
from support import ProgramTest, RefusalTest, events, last_evaluation, truemax

TRAIN = ("--hidden", 24, "--epochs", 20, "--step", 0.01, "--ridge", 0.1, "--rows-per-step", 50)


class Learnt(ProgramTest):
    def setUp(self):
        super().setUp()
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 100)

    def train(self, name="m", *more):
        return self.fine("train", "train.txt", "--test", "test.txt", *TRAIN, "--model", f"{name}.safetensors",
                         "--log", f"{name}.jsonl", *more)

    def probabilities(self, model, data):
        """[rows][K] in float64, and the rows."""
        about, tensors = read_model(self.path(model))
        rows, _ = read_xmlrepository(self.path(data))
        embedding = tensors["embedding"].astype(float)
        x = np.stack([sum((value * embedding[f] for f, value in row.features.items()), np.zeros(embedding.shape[1]))
                      for row in rows])
        z = x @ tensors["weight"].astype(float).T + tensors["intercept"].astype(float)
        z -= z.max(1, keepdims=True)
        return np.exp(z) / np.exp(z).sum(1, keepdims=True), rows, about

    def test_log_loss_and_predictions_are_those_of_the_model_file(self):
        self.train()
        p, rows, about = self.probabilities("m.safetensors", "test.txt")
        place = {name: k for k, name in enumerate(about["classes"])}
        seen = [(i, place[row.labels[0]]) for i, row in enumerate(rows) if row.labels[0] in place]
        loss = -np.mean([np.log(p[i, k]) for i, k in seen])
        found = json.loads(self.fine("evaluate", "m.safetensors", "test.txt", "--json").stdout)
        self.assertAlmostEqual(found["log_loss"], loss, delta=1e-5 * loss)
        self.assertAlmostEqual(last_evaluation(self.path("m.jsonl"))["test"]["log_loss"], found["log_loss"], places=12)
        self.assertLess(loss, 0.8 * np.log(len(place)))  # it has learnt something
        lines = [json.loads(line) for line in
                 self.fine("predict", "m.safetensors", "test.txt", "--top", 3, "--json").stdout.splitlines()]
        self.assertEqual(len(lines), len(rows))
        for line, of in zip(lines, p):
            best = np.argsort(-of)[:3]
            np.testing.assert_allclose(line["probabilities"], of[best], rtol=1e-4)

    def test_step_is_chosen_on_training_rows_and_for_a_number_of_steps(self):
        for number, more in enumerate((("--target", "train", "--epochs", 5), ("--steps", 60),
                                       ("--target", "train", "--steps", 60))):
            with self.subTest(options=more):
                log = f"s{number}.jsonl"
                self.fine("train", "train.txt", "--hidden", 8, *more, "--model", f"s{number}.safetensors", "--log", log)
                lines = [json.loads(line) for line in self.read(log).splitlines()]
                tried = {line["step"] for line in lines if line["event"] == "trial"}
                self.assertGreater(len(tried), 1)
                chosen = next(line for line in lines if line["event"] == "chosen")
                self.assertIn(chosen["config"]["step"], tried)

    def test_shapes_and_names_in_the_file(self):
        self.train()
        about, tensors = read_model(self.path("m.safetensors"))
        _, features = read_xmlrepository(self.path("train.txt"))
        self.assertEqual(tensors["weight"].shape, (len(about["classes"]), 24))
        self.assertEqual(tensors["embedding"].shape, (features, 24))
        self.assertEqual(about["options"]["hidden"], 24)
        self.assertIn("embedding", about["checksums"])
        self.assertIn("learnt", self.fine("inspect", "m.safetensors").stdout)

    def test_the_same_bits_again_for_any_threads_and_on_replay(self):
        self.train("m", "--threads", 1)
        self.train("two", "--threads", 2)
        self.assertEqual(self.read("m.safetensors"), self.read("two.safetensors"))
        self.fine("train", "train.txt", "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "none")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))

    def test_plain_hidden_needs_no_other_option(self):
        self.fine("train", "train.txt", "--test", "test.txt", "--hidden", 16, "--model", "m.safetensors",
                  "--log", "m.jsonl")
        self.assertLess(last_evaluation(self.path("m.jsonl"))["test"]["log_loss"], 2.4)

    def test_seconds_end_the_run(self):
        self.fine("train", "train.txt", "--hidden", 8, "--seconds", 0.2, "--model", "m.safetensors", "--log", "m.jsonl")
        last = json.loads(self.read("m.jsonl").splitlines()[-1])
        self.assertGreaterEqual(last["train_seconds"], 0.2)  # not ended by its epochs
        self.assertGreater(last["steps"], 0)

    def test_all_labels_row_weights_and_patience(self):
        rows = len(read_xmlrepository(self.path("train.txt"))[0])
        self.write("w.txt", "".join(f"{1 + i % 3}\n" for i in range(rows)))
        self.train("m", "--labels", "all", "--row-weights", "w.txt", "--valid", "test.txt", "--patience", 2)
        self.fine("evaluate", "m.safetensors", "test.txt")


class Chosen(ProgramTest):
    """Plain train compares linear and learnt features."""

    def topics(self, name, rows, classes=120, features=200, topics=10, seed=1):
        """Rows of a topic: three of its features, any of its classes. Classes of a topic share what they learn only if
        features are learnt."""
        random = np.random.default_rng(seed)
        lines = [f"{rows} {features} {classes}"]
        for topic in random.integers(0, topics, rows):
            label = topic + topics * random.integers(0, classes // topics)
            mine = sorted(topic + topics * random.choice(features // topics, 3, replace=False))
            lines.append(f"{label} " + " ".join(f"{f}:1" for f in mine))
        self.write(name, "\n".join(lines) + "\n")

    def log(self, name):
        return events(self.path(name + ".jsonl"))

    def plain(self, name, *more):
        return self.fine("train", "train.txt", "--test", "test.txt", "--model", f"{name}.safetensors", "--log", f"{name}.jsonl",
                         *more)

    def loss(self, name):
        return last_evaluation(self.path(name + ".jsonl"))["test"]["log_loss"]

    def test_learnt_features_where_they_are_better_and_why(self):
        self.topics("train.txt", 2000)
        self.topics("test.txt", 500, seed=2)
        said = self.plain("m", "--threads", 1).stdout
        self.assertIn("to be tuned: linear or learnt features, step, ridge, epochs", said)
        self.assertRegex(said, r"chosen  64 learnt features: log-loss \S+ on held-out rows, linear \S+\n"
                               r"chosen  hidden 64, step \S+, ridge \S+, \d+ epochs? \(\d+ trials in ")
        log = self.log("m")
        self.assertEqual(log[0]["asked"].keys() & {"encoder", "hidden"}, set())
        chosen = next(e for e in log if e["event"] == "chosen")
        self.assertEqual((chosen["config"]["encoder"], chosen["config"]["hidden"], chosen["config"]["method"]), ("bag", 64, "scent"))
        trials = [e for e in log if e["event"] == "trial"]
        self.assertEqual([t["number"] for t in trials], list(range(1, chosen["trials"] + 1)))
        self.assertEqual(chosen["compared"]["learnt"], min(t["log_loss"] for t in trials if t["hidden"] > 0))
        self.assertEqual(chosen["compared"]["linear"], next(t for t in trials if t["about"] == "linear")["log_loss"])
        about, _ = read_model(self.path("m.safetensors"))
        self.assertEqual(about["options"]["encoder"], "bag")
        # The choice is right, the same for any threads, and can be repeated.
        self.plain("linear", "--encoder", "linear")
        self.assertLess(self.loss("m"), self.loss("linear"))
        self.assertFalse([e for e in self.log("linear") if e.get("hidden")])
        self.plain("two", "--threads", 2)
        self.fine("train", "train.txt", "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "none")
        for other in ("two", "again"):
            self.assertEqual(self.read(f"{other}.safetensors"), self.read("m.safetensors"))

    def test_linear_where_that_is_better(self):
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 500, rows=1500, features=300, classes=80, nonzeros=10)
        said = self.plain("m").stdout
        self.assertRegex(said, r"chosen  linear: log-loss \S+ on held-out rows, 64 learnt features \S+\n")
        self.plain("linear", "--encoder", "linear")
        self.assertEqual(self.read("m.safetensors"), self.read("linear.safetensors"))

    def test_few_classes_are_linear_and_why(self):
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 50)
        self.assertIn("chosen  linear: learnt features need more than 64 classes and features", self.plain("m").stdout)
        self.assertNotIn("chosen  linear", self.plain("m", "--encoder", "linear").stdout)

    def test_encoder_bag_finds_h(self):
        self.topics("train.txt", 600)
        self.topics("test.txt", 100, seed=2)
        said = self.plain("m", "--encoder", "bag", "--epochs", 3).stdout
        self.assertIn("to be tuned: hidden, step, ridge", said)
        chosen = next(e for e in self.log("m") if e["event"] == "chosen")
        self.assertEqual((chosen["config"]["encoder"], chosen["config"]["hidden"]), ("bag", 64))
        self.assertNotIn("compared", chosen)

    def test_ctrl_c_in_the_trials_of_learnt_features(self):
        self.topics("train.txt", 12000, classes=400, features=800)
        said = self.stopped("train.txt", lambda e: e.get("hidden", 0))
        best = next(e for e in self.log("m") if e["event"] == "best_so_far")
        compared = [e for e in self.log("m") if e["event"] == "trial" and (e["hidden"] > 0 or e["about"] == "linear")]
        command = next(line for line in said.splitlines() if line.startswith("  truemax train ")).split()
        better = compared[-1]["log_loss"] < compared[0]["log_loss"] * (1 - 0.002)
        self.assertEqual("--hidden" in command, better, compared)
        self.assertEqual(best["hidden"] > 0, better)
        self.assertEqual(float(command[command.index("--ridge") + 1]), float(f"{best['ridge']:.6g}"))


class Searched(ProgramTest):
    def test_patience_watches_the_fit_of_given_epochs(self):
        self.generate("train.txt", "--test", "valid.txt", "--test-rows", 200)
        for more, stops in ((("--epochs", 60), True), ((), False)):
            with self.subTest(options=more):
                self.fine("train", "train.txt", "--valid", "valid.txt", "--hidden", 8, "--step", 0.2, "--patience", 1, *more,
                          "--model", "none", "--log", "p.jsonl")
                evaluated = [e for e in events(self.path("p.jsonl")) if e["event"] == "evaluate"]
                self.assertEqual(len(evaluated) > 1, stops)
                if stops:
                    self.assertLess(evaluated[-2]["epoch"], 60)

    def test_lock_free_runs_choose_as_those_in_order(self):
        self.generate("train.txt", rows=8000)
        chosen = []
        for options in ((), ("--lock-free", "--threads", 2)):
            said = json.loads(self.fine("train", "train.txt", "--hidden", 8, "--epochs", 4, "--rows-per-step", 16,
                                          *options, "--json").stdout)
            chosen.append((said["step"], said["ridge"], said["trials"]))
        self.assertGreater(chosen[0][2], 2)
        self.assertEqual(*chosen)

    def test_values_too_large_for_learnt_features(self):
        self.write("big.txt", "".join(f"{k} {1 + k}:1e30 {4 + k}:1e30\n" for k in range(3)) * 20)
        result = truemax("train", "big.txt", "--hidden", 4, "--epochs", 2, "--step", 1e-12, "--ridge", 0, "--model", "none",
                         "--log", "none", cwd=self.folder)
        self.assertEqual(result.returncode, 3)
        self.assertIn("values that are too large for learnt features: try --encoder linear or --normalize l2", result.stderr)
        self.fine("train", "big.txt", "--hidden", 4, "--epochs", 2, "--step", 0.01, "--ridge", 0, "--normalize", "l2",
                  "--model", "none", "--log", "none")


class BeyondFloat(RefusalTest):
    """Rows whose values times learnt vectors leave float32: nothing that is said of them may be NaN, or wrong."""

    def setUp(self):
        super().setUp()
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 30)
        self.fine("train", "train.txt", *TRAIN, "--model", "m.safetensors", "--log", "none")
        head, *rows = self.read("test.txt").decode().splitlines()
        self.head = ["31", *head.split()[1:]]
        self.rows = rows

    def with_row(self, value, features=40):
        """A file in which row 17 has this value in so many features."""
        far = "0 " + " ".join(f"{f}:{value}" for f in range(features))
        self.write("far.txt", "\n".join([" ".join(self.head), *self.rows[:16], far, *self.rows[16:]]) + "\n")

    def test_such_a_row_is_refused_by_its_number(self):
        self.fine("index", "m.safetensors", "--rows", "test.txt")
        for value in ("3e38", "-3e38"):
            self.with_row(value)
            for command in (["predict", "m.safetensors", "far.txt", "--top", "3"], ["evaluate", "m.safetensors", "far.txt"],
                            ["predict", "m.safetensors", "far.txt", "--json", "--threads", "1"],
                            ["predict", "m.safetensors", "far.txt", "--index", "m.index"],
                            ["predict", "m.safetensors", "far.txt", "--index", "m.index", "--normaliser", "exact"],
                            ["evaluate", "m.safetensors", "far.txt", "--eval", "sampled"],
                            ["index", "m.safetensors", "--rows", "far.txt", "--out", "far.index"]):
                self.refused(command, "far.txt: row 17", "leave float32", "scale the values down")
        piped = truemax("predict", "m.safetensors", "-", cwd=self.folder, stdin=self.read("far.txt"))
        self.assertEqual(piped.returncode, 2)
        self.assertIn("row 17", piped.stderr)

    def test_smaller_values_have_finite_probabilities(self):
        for value in ("1e-38", "1e30", "-1e35", "1e36"):
            with self.subTest(value=value):
                self.with_row(value)
                for more in ((), ("--index", "m.index"), ("--index", "m.index", "--normaliser", "exact")):
                    self.fine("index", "m.safetensors", "--rows", "test.txt")
                    lines = [json.loads(line) for line in self.fine("predict", "m.safetensors", "far.txt", "--top", 3,
                                                                    "--json", *more).stdout.splitlines()]
                    p = np.array([line["probabilities"] for line in lines], float)
                    self.assertEqual(p.shape, (31, 3))
                    self.assertTrue(np.isfinite(p).all() and (p >= 0).all() and (p <= 1).all())
                found = json.loads(self.fine("evaluate", "m.safetensors", "far.txt", "--json").stdout)
                self.assertTrue(np.isfinite(found["log_loss"]))

    def test_as_rows_to_evaluate_they_are_refused_before_training(self):
        self.with_row("3e38")
        for option in ("--test", "--valid"):
            self.refused(["train", "train.txt", *map(str, TRAIN), option, "far.txt", "--model", "new.safetensors"],
                         "far.txt: row 17", "--normalize l2")
        self.fine("train", "train.txt", *TRAIN, "--normalize", "l2", "--test", "far.txt", "--model", "none", "--log", "none")

    def test_if_large_steps_make_them_so_the_model_is_saved(self):
        self.with_row("8e36")
        run = truemax("train", "train.txt", "--hidden", 8, "--step", 5, "--ridge", 0, "--epochs", 20, "--rows-per-step", 5,
                      "--test", "far.txt", "--model", "new.safetensors", "--log", "new.jsonl", cwd=self.folder)
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertIn("test rows: row 17 of those that count", run.stderr)
        self.assertIn("new.safetensors holds the model so far", run.stderr)
        self.assertEqual(events(self.path("new.jsonl"))[-1]["epochs"], 20)
        self.assertTrue(np.isfinite(json.loads(self.fine("evaluate", "new.safetensors", "test.txt", "--json").stdout)["log_loss"]))


class Refused(RefusalTest):
    def setUp(self):
        super().setUp()
        self.generate("train.txt")

    def test_bad_options(self):
        self.refused(["train", "train.txt", "--hidden", 0], "--hidden '0': .*1 to 65536")
        self.refused(["train", "train.txt", "--hidden", 99999999], "--hidden")
        self.refused(["train", "train.txt", "--hidden", 8, "--method", "prox"], "--hidden 8: .*scent")
        self.refused(["train", "train.txt", "--hidden", 60000, "--memory-limit", "50M"],
                     "not enough memory.*--hidden")
        self.refused(["train", "train.txt", "--dim", 8], "--dim is called --hidden here")
        self.refused(["train", "train.txt", "--encoder", "linear", "--hidden", 8],
                     "--encoder linear --hidden 8: .*leave one of the two out")
        self.refused(["train", "train.txt", "--encoder", "bag", "--method", "scent"], "--encoder bag: .*add --hidden")
        self.refused(["train", "train.txt", "--encoder", "deep"], "--encoder 'deep': .*auto")

    def test_damaged_models(self):
        self.fine("train", "train.txt", "--hidden", 8, "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        whole = self.read("m.safetensors")
        for change in (whole[:-4], whole[:-1000]):
            with open(self.path("cut.safetensors"), "wb") as file:
                file.write(change)
            self.refused(["predict", "cut.safetensors", "train.txt"], "cut.safetensors")
        flipped = bytearray(whole)
        flipped[-5] ^= 1  # in the embedding, which comes last
        with open(self.path("flipped.safetensors"), "wb") as file:
            file.write(flipped)
        self.refused(["evaluate", "flipped.safetensors", "train.txt"], "embedding.*checksum")
        self.refused(["evaluate", "m.safetensors", "train.txt", "--memory-limit", "1K"], "not enough memory.*--hidden")


if __name__ == "__main__":
    unittest.main(verbosity=2)
