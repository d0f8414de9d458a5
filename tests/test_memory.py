"""How much memory the program takes, and what it refuses before it takes any.

The bound of a training run: 1.15 x (W + row states + data) + 64 MB, with W = 4 bytes x D x K rounded up to whole blocks
of 16 classes, 16 bytes of state per row, and as data 8 bytes per non-zero, 16 bytes of offsets per row and 8 bytes of
labels per row, over all sets, as read: before --max-features."""
import os
import re
import subprocess
import unittest

from support import OUTPUT, PROGRAM, ProgramTest, RefusalTest, data_file, events, skip

SANITIZED = os.environ.get("TRUEMAX_SANITIZE", "")


def needed(start):
    """W, row states and data of a run, in bytes, from the first event of its log."""
    data = start["data"]
    weights = 4 * ((data["classes"] + 15) // 16 * 16) * data["features"]
    sets = [data, *(start[name] for name in ("test_data", "valid_data") if name in start)]
    return weights, 16 * data["rows"], sum(8 * (s["nonzeros"] + s["cut_features"]) + 24 * s["rows"] for s in sets)


class Training(ProgramTest):
    def peak(self, *arguments):
        """Trains and returns the largest resident memory in bytes, and the first event of the log."""
        with open(os.devnull, "wb") as nowhere:
            child = subprocess.Popen([PROGRAM, "train", *map(str, arguments), "--model", "none", "--log",
                                      self.path("m.jsonl")], cwd=self.folder, stdout=nowhere)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(child.returncode, 0)
        return usage.ru_maxrss * 1024, events(self.path("m.jsonl"))[0]

    def within(self, *arguments):
        if SANITIZED:
            skip("a sanitizer keeps several times the memory that is used: nothing to measure")
        peak, start = self.peak(*arguments)
        bound = 1.15 * sum(needed(start)) + 64e6
        self.assertLess(peak, bound, f"{peak / 1e6:.0f} MB, of {bound / 1e6:.0f} MB; needed {needed(start)}")

    WAYS = (("--method", "implicit", "--epochs", 1), ("--method", "prox", "--draw", "blocks", "--epochs", 1),
            ("--method", "prox", "--draw", "blocks", "--epochs", 1, "--valid-share", 0.1), ("--seconds", 2))

    def test_large_data_and_small_weights(self):
        data = self.generate("a.txt", "--test", "t.txt", "--test-rows", 60000, rows=300000, features=1000, classes=64,
                             nonzeros=50)
        for way in self.WAYS:
            with self.subTest(way):
                self.within(data, *way)
                self.within(data, "--test", "t.txt", "--normalize", "l2", *way)
        with self.subTest("features that are cut or hashed"):
            self.within(data, "--method", "implicit", "--epochs", 1, "--max-features", 300)
            self.within(data, "--method", "implicit", "--epochs", 1, "--hash-features", 100000)

    def test_large_weights_and_small_data(self):
        data = self.generate("a.txt", "--test", "t.txt", "--test-rows", 300, rows=20000, features=5000, classes=20000,
                             nonzeros=10)
        for way in self.WAYS:
            with self.subTest(way):
                self.within(data, "--test", "t.txt", "--no-eval-train", *way)

    def test_yso_finna(self):
        train, test = data_file("yso-finna-en", "train.txt.gz"), data_file("yso-finna-en", "test.txt.gz")
        for way in (self.WAYS[1], self.WAYS[3]):
            with self.subTest(way):
                self.within(train, "--max-rows", 100000, "--max-features", 2000, "--test", test, "--no-eval-train",
                            *way)

    def test_untouched_blocks_take_no_memory(self):
        """A few steps with many classes: most of W is never written, and evaluation only reads."""
        if SANITIZED:
            skip("a sanitizer keeps several times the memory that is used: nothing to measure")
        data = self.generate("a.txt", "--test", "t.txt", "--test-rows", 20, rows=3000, features=100000, classes=3000,
                             nonzeros=5)
        peak, start = self.peak(data, "--test", "t.txt", "--no-eval-train", "--method", "implicit", "--steps", 20)
        self.assertGreater(needed(start)[0], 1e9)
        self.assertLess(peak, needed(start)[0] / 2)


class TooLarge(RefusalTest):
    def test_too_large_weights_are_refused_with_advice_that_works(self):
        self.fine("generate", "a.txt", "--rows", 3000, "--classes", 1000, "--features", 100000)
        message = self.refused(["train", "a.txt", "--encoder", "linear", "--memory-limit", "100M", *OUTPUT],
                               "1000 classes x 100000 features",
                               "weights 38[0-9] MB|weights 0.4 GB", "of 100 MB", "--max-features", "fewer classes",
                               "--memory-limit")
        buckets = int(re.search(r"--hash-features (\d+) would fit", message)[1])
        self.fine("train", "a.txt", "--memory-limit", "100M", "--hash-features", buckets, "--method", "implicit", "--epochs",
                  0, "--model", "none", "--log", "none")
        self.refused(["train", "a.txt", "--encoder", "linear", "--memory-limit", "100M", "--hash-features", 2 * buckets, *OUTPUT],
                     f"1000 classes x {2 * buckets} features")

    def test_plain_train_learns_features_if_the_weights_do_not_fit(self):
        self.fine("generate", "a.txt", "--rows", 300, "--classes", 200, "--features", 100000)
        said = self.fine("train", "a.txt", "--epochs", 1, "--memory-limit", "90M", "--model", "m.safetensors", "--log", "m.jsonl")
        self.assertRegex(said.stderr, r"do not fit: 2\d\d classes x 100000 features need 7\d MB, 90 MB available; learning features")
        self.assertRegex(said.stdout, r"method  scent.*to be tuned: hidden, step, ridge")
        self.assertRegex(said.stdout, r"chosen  hidden \d+, step")
        log = events(self.path("m.jsonl"))
        self.assertNotIn("encoder", log[0]["asked"])
        self.assertLessEqual(log[0]["memory"]["needed"], 90 << 20)
        chosen = next(e for e in log if e["event"] == "chosen")["config"]
        self.assertEqual(chosen["encoder"], "bag")
        # In a given time, without trials.
        self.fine("train", "a.txt", "--seconds", 0.2, "--memory-limit", "90M", "--model", "s.safetensors", "--log", "s.jsonl")
        self.assertFalse([e for e in events(self.path("s.jsonl")) if e["event"] == "trial"])
        self.fine("train", "a.txt", "--replay", "m.jsonl", "--memory-limit", "90M", "--model", "r.safetensors", "--log", "none")
        with open(self.path("m.safetensors"), "rb") as one, open(self.path("r.safetensors"), "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_model_larger_than_memory(self):
        self.fine("generate", "a.txt", "--rows", 300, "--classes", 100, "--features", 10000)
        self.fine("train", "a.txt", "--method", "implicit", "--epochs", 0, "--model", "m.safetensors", "--log", "none")
        for command in ("evaluate", "predict"):
            self.refused([command, "m.safetensors", "a.txt", "--memory-limit", "1M"], "100 classes x 10000 features",
                         "1(.0)? MB", "--hash-features 2048 would fit", "fewer classes", "--memory-limit")

    def test_nothing_fits(self):
        self.fine("generate", "a.txt", "--rows", 300, "--classes", 100, "--features", 10000)
        self.refused(["train", "a.txt", "--memory-limit", "1M", *OUTPUT], "too much even without its weights", "--memory-limit")


if __name__ == "__main__":
    unittest.main(verbosity=2)
