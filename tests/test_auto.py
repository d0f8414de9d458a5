"""The program without options: what it chooses, what it reports, and that a run can be repeated."""
import json
import os
import unittest

from support import ProgramTest, events, truemax


class Auto(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 500, rows=3000, features=400,
                                   classes=40, nonzeros=12)

    def log(self, name="model"):
        return events(self.path(name + ".jsonl"))

    def test_train_needs_only_the_data(self):
        result = self.fine("train", self.train, "--test", "test.txt", "--newton", 0)
        self.assertIn("to be tuned: step, ridge, epochs", result.stdout)
        self.assertRegex(result.stdout, r"chosen  step \S+, ridge \S+, \d+ epochs? \(\d+ trials in ")
        log = self.log()
        self.assertEqual([e["event"] for e in log[:2]], ["start", "trial"])
        self.assertEqual(log[0]["asked"].keys() & {"method", "ridge", "newton"}, {"newton"})
        self.assertEqual([one["option"] for one in log[0]["plan"]["sought"]], ["ridge", "step", "epochs"])
        trials = [e for e in log if e["event"] == "trial"]
        self.assertGreaterEqual({t["about"] for t in trials}, {"ridge", "step", "epochs"})
        self.assertTrue(all(t["rows"] == 2700 and t["judged_on"] == 300 for t in trials), "a tenth is set aside")
        chosen = next(e for e in log if e["event"] == "chosen")
        self.assertEqual(chosen["config"]["method"], "prox")
        self.assertEqual(chosen["trials"], len(trials))
        # The chosen options are the best tried, within the noise of the held-out rows.
        best = min(t["log_loss"] for t in trials)
        taken = min(t["log_loss"] for t in trials
                    if (t["ridge"], t["step"]) == (chosen["config"]["ridge"], chosen["config"]["step"]))
        self.assertLessEqual(taken, best / (1 - 0.01))
        end = log[-1]
        self.assertEqual(end["steps"], 3000 * chosen["config"]["epochs"], "the fit has all rows")
        self.assertGreaterEqual(end["train_seconds"], chosen["seconds"])
        frequencies = float(next(line for line in result.stdout.splitlines()
                                 if line.startswith("class frequencies")).split()[5])
        evaluated = [e for e in log if e["event"] == "evaluate"][-1]
        self.assertLess(evaluated["test"]["log_loss"], 0.8 * frequencies)

    def test_same_model_for_any_threads_and_when_replayed(self):
        for options in ((), ("--newton", 0)):
            with self.subTest(options=options):
                for name, threads in (("a", 1), ("b", 2)):
                    self.fine("train", self.train, *options, "--model", name + ".safetensors", "--threads", threads)
                self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))
                self.fine("train", self.train, "--replay", "a.jsonl", "--model", "c.safetensors")
                self.assertEqual(self.read("a.safetensors"), self.read("c.safetensors"))
                self.assertFalse([e for e in self.log("c") if e["event"] == "trial"])
                for name in "abc":
                    os.remove(self.path(name + ".safetensors"))

    def test_few_rows_are_solved_by_newton(self):
        few = self.generate("few.txt", "--test", "few-test.txt", "--test-rows", 500, rows=300, features=30, classes=5,
                            nonzeros=10)
        result = self.fine("train", few, "--test", "few-test.txt")
        self.assertIn("to be tuned: ridge", result.stdout)
        self.assertRegex(result.stdout, r"chosen  ridge \S+.*, Newton's method \(\d+ trials in ")
        log = self.log()
        trials = [e for e in log if e["event"] == "trial"]
        self.assertTrue(all(t["about"] == "ridge" and t["judged_on"] == 300 for t in trials), "every row judges")
        config = next(e for e in log if e["event"] == "chosen")["config"]
        self.assertEqual(config["epochs"], 0)
        found = [e for e in log if e["event"] == "evaluate"][-1]["test"]["log_loss"]

        def loss(*options):
            self.fine("train", few, "--test", "few-test.txt", *options, "--model", "o.safetensors")
            return [e for e in self.log("o") if e["event"] == "evaluate"][-1]["test"]["log_loss"]

        by_spread = ("--ridge-by-spread",) if config["ridge-by-spread"] else ()
        for factor in (0.01, 0.1, 10, 100):
            self.assertLess(found, 1.02 * loss("--newton", 100, "--ridge", factor * config["ridge"], *by_spread))
        # A ridge that is set is kept, and needs no trial.
        self.assertGreater(loss("--ridge", 1e9), found)
        self.assertFalse([e for e in self.log("o") if e["event"] == "trial"])

    def test_target_train_aims_at_the_training_rows(self):
        hard = self.generate("hard.txt", rows=3000, features=30, classes=40, nonzeros=8)  # classes overlap
        self.fine("train", hard, "--target", "train", "--epochs", 20)
        log = self.log()
        config = next(e for e in log if e["event"] == "chosen")["config"]
        self.assertEqual((config["ridge"], config["intercept"], config["valid-share"]), (0, False, 0))
        loss = [e for e in log if e["event"] == "evaluate"][-1]["train"]["log_loss"]
        exact = []
        for step in (0.1, 1, 10):
            self.fine("train", hard, "--method", "exact", "--step", step, "--epochs", 20, "--model", "exact.safetensors")
            exact.append([e for e in self.log("exact") if e["event"] == "evaluate"][-1]["train"]["log_loss"])
        print(f"train log-loss {loss:.4f}, exact {min(exact):.4f}")
        self.assertLess(loss, 1.02 * min(exact))

    def test_newton_keeps_its_place_within_seconds(self):
        """Columns of very different scales, which steps hardly learn from."""
        lines = []
        for i in range(600):
            label = i % 5
            row = [((i * (7 + f) * 31) % 101 / 50 - 1 + (2 if f == label else 0)) * 10 ** (f - 4) for f in range(8)]
            lines.append(f"{label} " + " ".join(f"{f}:{v:.6g}" for f, v in enumerate(row)))
        rows = self.write("scales.txt", "600 8 5\n" + "\n".join(lines) + "\n")
        free, timed, short = (json.loads(self.fine("train", rows, "--json", *seconds).stdout)
                              for seconds in ((), ("--seconds", 10), ("--seconds", 0.01)))
        self.assertEqual(free["train"]["log_loss"], timed["train"]["log_loss"])
        self.assertLess(timed["train_seconds"], 10)
        self.assertNotIn("unsolved", timed)
        self.assertGreater(short["train"]["log_loss"], timed["train"]["log_loss"])
        cut = self.fine("train", rows, "--method", "prox", "--epochs", 0, "--newton", 1, "--ridge", 0.01, "--json")
        self.assertIn("give more --newton", json.loads(cut.stdout)["unsolved"])
        self.assertIn("truemax: note: Newton's method has not reached the optimum in 1 step;", cut.stderr)

    def test_seconds_include_the_search(self):
        """Judged by the log, so that it holds on a machine of any speed: no trial begins after 70% of the seconds. That
        the step falls over the seconds that are left is tested with a clock of its own, in src/train/schedule_test.cpp."""
        for seconds in (0.02, 0.1, 0.5):
            for target in ("train", "valid"):
                with self.subTest(seconds=seconds, target=target):
                    # Names of its own: a run without a step leaves an older model and its log alone.
                    name = f"s{seconds}-{target}"
                    self.fine("train", self.train, "--seconds", seconds, "--target", target, "--model",
                              f"{name}.safetensors")
                    log = self.log(name)
                    chosen, end = next(e for e in log if e["event"] == "chosen"), log[-1]
                    trials = [e["seconds"] for e in log if e["event"] == "trial"]
                    self.assertLessEqual(sum(trials[:-1]), 0.7 * seconds)
                    self.assertLessEqual(sum(trials), chosen["seconds"])
                    self.assertGreaterEqual(end["train_seconds"], chosen["seconds"])
                    if chosen["config"]["epochs"] == 1000000000:  # the clock ends the fit
                        self.assertGreaterEqual(end["train_seconds"], seconds)
                    segments = end.get("segments", [])
                    self.assertEqual(bool(segments), end["steps"] > 0)
                    if chosen["seconds"] >= seconds:
                        self.assertEqual(end["steps"], 0, "no time was left for a fit")
                    elif segments:
                        self.assertLessEqual(segments[0]["step"], chosen["config"]["step"])

    def test_patience_applies_to_the_search_and_replays(self):
        self.fine("train", self.train, "--patience", 2, "--model", "a.safetensors")
        doubled = [e for e in self.log("a") if e["event"] == "trial" and e["about"] == "epochs"]
        self.assertGreaterEqual(len(doubled), 2)
        self.fine("train", self.train, "--replay", "a.jsonl", "--model", "b.safetensors")
        self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))

    def test_impossible_options_are_refused_before_any_work(self):
        for options, words in ((("--method", "umax", "--ridge", "auto"), "only --method auto chooses the ridge"),
                               (("--target", "train", "--ridge", "auto"), "no validation rows"),
                               (("--method", "umax", "--target", "train"), "leave --target or --method out"),
                               (("--rows-per-step", 3), "takes one row a step"),
                               (("--no-intercept", "--start-at-frequencies"), "add --intercept"),
                               (("--valid-share", 0.0001), "leaves none to validate on")):
            with self.subTest(options=options):
                result = truemax("train", self.train, *options, "--model", "no.safetensors", cwd=self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)

    def test_ctrl_c_in_the_search_prints_how_to_continue(self):
        large = self.generate("large.txt", rows=60000, features=3000, classes=2000, nonzeros=40)
        said = self.stopped(large, lambda e: e["event"] == "trial")
        self.assertIn("stopped in the search", said)
        command = next(line for line in said.splitlines() if line.startswith("  truemax train ")).split()
        best = next(e for e in self.log("m") if e["event"] == "best_so_far")
        self.assertEqual(float(command[command.index("--ridge") + 1]), float(f"{best['ridge']:.6g}"))
        self.assertFalse(os.path.exists(self.path("m.safetensors")))
        # The printed command works, and does not tune what it sets.
        for option in ("--step", "--epochs"):
            if option not in command:
                command += [option, "1"]
        command[command.index("--log") + 1] = "next.jsonl"
        self.fine(*command[1:])
        chosen = next(e for e in self.log("next") if e["event"] == "chosen")
        self.assertEqual((chosen["trials"], chosen["config"]["ridge"]), (0, float(f"{best['ridge']:.6g}")))

    def test_ridge_is_near_the_best_for_new_rows(self):
        """Rare classes: a tenth of the held-out rows have a label that no trial has seen, and on those more ridge
        always looks better."""
        data = self.generate("rare.txt", "--test", "rare-test.txt", "--test-rows", 1500, "--skew", 0.5, "--separability", 0.5,
                             rows=6000, features=1000, classes=600, nonzeros=20)
        self.fine("train", data, "--test", "rare-test.txt", "--encoder", "linear", "--model", "a.safetensors")
        chosen = next(e for e in self.log("a") if e["event"] == "chosen")["config"]

        def loss(name):
            return [e for e in self.log(name) if e["event"] == "evaluate"][-1]["test"]["log_loss"]

        by_hand = []
        for factor in (0.001, 0.01, 0.1, 10):
            self.fine("train", data, "--test", "rare-test.txt", "--ridge", chosen["ridge"] * factor, "--step", chosen["step"],
                      "--epochs", chosen["epochs"], "--model", "b.safetensors")
            by_hand.append(loss("b"))
        self.assertLess(loss("a"), 1.05 * min(by_hand))

    def test_classes_that_can_be_told_apart_get_long_steps_and_little_ridge(self):
        """Their best step is some hundred times the first one, and few rows can afford many epochs."""
        data = self.generate("apart.txt", "--test", "apart-test.txt", "--test-rows", 1000, "--separability", 0.8,
                             rows=2000, features=300, classes=300, nonzeros=30)
        plain = ("train", data, "--test", "apart-test.txt", "--encoder", "linear", "--json")
        found = json.loads(self.fine(*plain).stdout)
        by_hand = [json.loads(self.fine(*plain, "--ridge", 1e-4, "--step", step, "--epochs", 64).stdout)["test"]["log_loss"]
                   for step in (1, 10, 100)]
        self.assertLess(found["test"]["log_loss"], 0.95 * min(by_hand))

    def test_short_rows_are_named_with_what_helps(self):
        def scaled(name, factor):
            lines = self.read(name).decode().splitlines()
            for i, line in enumerate(lines[1:], 1):
                label, *values = line.split(" ")
                lines[i] = " ".join([label, *(f"{f}:{float(v) * factor:.9g}" for f, v in
                                              (value.split(":") for value in values))])
            return self.write(f"scaled-{name}", "\n".join(lines) + "\n")

        short = (scaled("train.txt", 0.01), "--test", scaled("test.txt", 0.01), "--newton", 0, "--seconds", 0.5)
        self.assertIn("--normalize l2", self.fine("train", *short, "--json").stderr)
        self.assertNotIn("rows are short", self.fine("train", self.train, "--seconds", 0.2, "--json").stderr)
        for without in (("--normalize", "l2"), ("--no-intercept", "--encoder", "linear")):
            result = self.fine("train", *short, *without, "--json")
            self.assertNotIn("rows are short", result.stderr)
            self.assertLess(json.loads(result.stdout)["test"]["log_loss"], 2.5)

    def test_values_too_large_for_adam_and_lbfgs_go_to_prox(self):
        rows = "".join(f"{i % 4} 0:{1 + i % 3}e37 1:{(i % 5) * 1e36:.3g}\n" for i in range(200))
        huge = self.write("huge.txt", "200 2 4\n" + rows)
        result = self.fine("train", huge, "--target", "train", "--newton", 0)
        self.assertRegex(result.stdout, r"method +prox")
        far_apart = self.write("apart.txt", "200 2 4\n" + "".join(
            f"{i % 4} 0:{1 + i % 3}e30 1:{(i % 5) + 1}e-30\n" for i in range(200)))
        self.assertRegex(self.fine("train", far_apart, "--target", "train", "--newton", 0).stdout, r"method +prox")
        said = truemax("train", huge, "--method", "lbfgs", cwd=self.folder)
        self.assertEqual(said.returncode, 3)
        self.assertIn("give --method prox or --normalize l2", said.stderr)

    def test_useless_features_are_not_blamed_on_the_step(self):
        with open(self.path("noise.txt"), "w") as out:
            out.write("40 3 2\n")
            for row in range(40):
                out.write(f"{row * 7 % 5 % 2} {row % 3}:1e-9\n")
        result = self.fine("train", self.path("noise.txt"), "--ridge", 0, "--epochs", 1, "--model", "n.safetensors")
        self.assertIn("above that of the class frequencies", result.stderr)
        self.assertNotIn("--step", result.stderr)


if __name__ == "__main__":
    unittest.main()
