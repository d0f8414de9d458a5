"""The program without options: what it chooses, what it says of it, and that a run can be repeated."""
import signal
import subprocess
import time
import unittest

from support import PROGRAM, ProgramTest, events, truemax


class Auto(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 500, rows=3000, features=400,
                                   classes=40, nonzeros=12)

    def log(self, name="model"):
        return events(self.path(name + ".jsonl"))

    def test_nothing_but_the_data_is_needed(self):
        result = self.fine("train", self.train, "--test", "test.txt")
        self.assertIn("to be found: step, ridge, epochs", result.stdout)
        self.assertRegex(result.stdout, r"chosen  step \S+, ridge \S+, \d+ epochs? \(\d+ trials in ")
        log = self.log()
        self.assertEqual([e["event"] for e in log[:2]], ["start", "trial"])
        self.assertEqual(log[0]["config"]["method"], "auto")
        self.assertEqual(log[0]["config"]["ridge"], "auto")
        trials = [e for e in log if e["event"] == "trial"]
        self.assertGreaterEqual({t["about"] for t in trials}, {"ridge", "step", "epochs"})
        self.assertTrue(all(t["rows"] == 2700 and t["judged_on"] == 300 for t in trials), "a tenth is set aside")
        chosen = next(e for e in log if e["event"] == "chosen")
        self.assertEqual(chosen["config"]["method"], "prox")
        self.assertEqual(chosen["trials"], len(trials))
        best = min(trials, key=lambda t: t["log_loss"])
        self.assertEqual((chosen["config"]["ridge"], chosen["config"]["step"]), (best["ridge"], best["step"]))
        end = log[-1]
        self.assertEqual(end["steps"], 3000 * chosen["config"]["epochs"], "the fit has all rows")
        self.assertGreaterEqual(end["train_seconds"], chosen["seconds"])
        frequencies = float(next(line for line in result.stdout.splitlines()
                                 if line.startswith("class frequencies")).split()[5])
        evaluated = [e for e in log if e["event"] == "evaluate"][-1]
        self.assertLess(evaluated["test"]["log_loss"], 0.8 * frequencies)

    def test_the_same_seed_chooses_the_same_with_any_threads_and_a_replay_needs_no_search(self):
        self.fine("train", self.train, "--model", "a.safetensors", "--threads", 1)
        self.fine("train", self.train, "--model", "b.safetensors", "--threads", 2)
        self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))
        self.fine("train", self.train, "--replay", "a.jsonl", "--model", "c.safetensors")
        self.assertEqual(self.read("a.safetensors"), self.read("c.safetensors"))
        self.assertFalse([e for e in self.log("c") if e["event"] == "trial"])

    def test_target_train_aims_at_the_training_rows(self):
        hard = self.generate("hard.txt", rows=3000, features=30, classes=40, nonzeros=8)  # cannot be told apart
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

    def test_seconds_include_the_search(self):
        for seconds in (0.02, 0.1, 0.5):
            for target in ("train", "valid"):
                with self.subTest(seconds=seconds, target=target):
                    taken = []
                    for _ in range(3):  # a busy machine can only add to what a run takes: the least counts
                        self.fine("train", self.train, "--seconds", seconds, "--target", target, "--model",
                                  "s.safetensors")
                        taken.append(self.log("s")[-1]["train_seconds"])
                    self.assertLessEqual(min(taken), max(1.05 * seconds, seconds + 0.01), taken)

    def test_patience_is_that_of_the_search_and_the_run_can_be_repeated(self):
        self.fine("train", self.train, "--patience", 2, "--model", "a.safetensors")
        doubled = [e for e in self.log("a") if e["event"] == "trial" and e["about"] == "epochs"]
        self.assertGreaterEqual(len(doubled), 2)
        self.fine("train", self.train, "--replay", "a.jsonl", "--model", "b.safetensors")
        self.assertEqual(self.read("a.safetensors"), self.read("b.safetensors"))

    def test_what_cannot_be_is_refused_before_any_work(self):
        for options, words in ((("--method", "umax", "--ridge", "auto"), "only --method auto chooses the ridge"),
                               (("--target", "train", "--ridge", "auto"), "no validation rows"),
                               (("--method", "umax", "--target", "train"), "leave --target or --method out"),
                               (("--rows-per-step", 3), "takes one row a step"),
                               (("--no-intercept", "--warm-start"), "add --intercept"),
                               (("--valid-share", 0.0001), "leaves none to validate on")):
            with self.subTest(options=options):
                result = truemax("train", self.train, *options, "--model", "no.safetensors", cwd=self.folder)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(words, result.stderr)

    def test_ctrl_c_in_the_search_ends_it(self):
        large = self.generate("large.txt", rows=60000, features=3000, classes=2000, nonzeros=40)
        run = subprocess.Popen([PROGRAM, "train", large, "--model", "m.safetensors", "--log", "m.jsonl"],
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and run.poll() is None:
                try:
                    if any(e["event"] == "trial" for e in events(self.path("m.jsonl.part"))):
                        break
                except (FileNotFoundError, ValueError):
                    pass
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=60)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("stopped", said)


if __name__ == "__main__":
    unittest.main()
