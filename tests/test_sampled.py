"""--eval sampled through the whole program: estimates are marked, and their error bars hold."""
import unittest

from support import OUTPUT, ProgramTest, RefusalTest, data_file, events


class Sampled(ProgramTest):
    def test_agrees_with_the_exact_value_within_its_error_bar(self):
        train = data_file("bibtex", "train.txt.gz")
        self.fine("train", train, "--method", "implicit", "--epochs", 5, "--model", "m.safetensors", "--log", "none")
        exact = self.metrics("m.safetensors", train)
        self.assertNotIn("estimate", exact)
        for more in ((), ("--eval-classes", 64)):
            with self.subTest(more):
                said = self.metrics("m.safetensors", train, "--eval", "sampled", "--eval-rows", 1000, "--seed", 4, *more)
                bar = said["estimate"]["log_loss_error_bar_95"]
                self.assertLess(abs(said["log_loss"] - exact["log_loss"]), bar)
                self.assertLess(bar, 0.2 * exact["log_loss"] + 0.05)
                self.assertEqual("error" in said, not more)
                for threads in (1, 3):
                    self.assertEqual(said, self.metrics("m.safetensors", train, "--eval", "sampled", "--eval-rows", 1000,
                                                        "--seed", 4, "--threads", threads, *more))
                text = self.fine("evaluate", "m.safetensors", train, "--eval", "sampled", "--eval-rows", 1000, *more).stdout
                self.assertRegex(text, r"log-loss, estimated +\d")
                self.assertRegex(text, r"95% error bar")
                self.assertRegex(text, r"an estimate from 1000 of \d+ rows")

    def test_run_marks_estimates(self):
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 500, rows=3000, classes=100)
        said = self.fine("train", "a.txt", "--test", "t.txt", "--method", "implicit", "--epochs", 2, "--eval", "sampled",
                         "--eval-rows", 300, "--model", "m.safetensors", "--log", "m.jsonl").stdout
        self.assertRegex(said, r"\d \+- \d")
        self.assertRegex(said, "the train log-loss is an estimate with its 95% error bar, from 300 of 3000 rows, all classes")
        last = [event for event in events(self.path("m.jsonl")) if event["event"] == "evaluate"][-1]
        self.assertEqual(last["test"]["estimate"]["rows"], 300)
        self.fine("train", "a.txt", "--replay", "m.jsonl", "--model", "r.safetensors", "--log", "none")
        self.assertEqual(self.read("m.safetensors"), self.read("r.safetensors"))
        exact = self.metrics("m.safetensors", "t.txt")
        self.assertLess(abs(exact["log_loss"] - last["test"]["log_loss"]), last["test"]["estimate"]["log_loss_error_bar_95"])


class SampledRefused(RefusalTest):
    def test_options(self):
        path = self.write("a.txt", "3 5 3\n0 0:1\n1 1:1\n2 2:1 4:2\n")
        self.refused(["train", path, "--eval-classes", 100, *OUTPUT], "--eval-classes", "--eval sampled")
        self.refused(["train", path, "--eval", "guessed", *OUTPUT], "exact.*sampled")
        self.refused(["train", path, "--eval", "sampled", "--eval-rows", 5, *OUTPUT], "from 100")
        self.refused(["train", path, "--eval", "sampled", "--eval-classes", 5, *OUTPUT], "from 64")


if __name__ == "__main__":
    unittest.main(verbosity=2)
