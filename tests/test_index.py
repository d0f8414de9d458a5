#!/usr/bin/python3
"""truemax index and predict --index: against exact search, refusals, files, Python."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

from support import LIMIT_SECONDS, PROGRAM, ROOT, ProgramTest, RefusalTest, truemax

LEARN = ("--hidden", 16, "--epochs", 4, "--step", 0.02, "--ridge", 0.1, "--log", "none")


def rows_of(text):
    """[(class, probability), ...] of each line."""
    return [[(c, float(p)) for c, p in zip(*[iter(line.split("\t"))] * 2)] for line in text.splitlines()]


def cpu_seconds(pid):
    """Of a process that is running, or has ended and was not waited for."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Index(ProgramTest):
    def setUp(self):
        super().setUp()
        self.fine("generate", "train.txt", "--rows", 6000, "--classes", 2000, "--features", 500, "--test", "test.txt",
                  "--test-rows", 400)
        self.fine("train", "train.txt", *LEARN, "--model", "m.safetensors")

    def compare(self, model, data, *more, least=0.97):
        exact = rows_of(self.fine("predict", model, data, "--top", 5).stdout)
        run = self.fine("predict", model, data, "--top", 5, "--index", "m.index", *more)
        found = rows_of(run.stdout)
        self.assertEqual(len(found), len(exact))
        hits = [len({c for c, _ in a} & {c for c, _ in b}) / 5 for a, b in zip(exact, found)]
        self.assertGreater(np.mean(hits), least)
        both = [(dict(a)[c], p) for a, b in zip(exact, found) for c, p in b if c in dict(a)]
        true, estimate = np.array(both).T
        self.assertTrue((estimate <= 1).all() and (estimate >= 0).all())
        seen = true > 1e-200
        self.assertLess(np.abs(np.log(estimate[seen] / true[seen])).mean(), 0.05)
        self.assertIn("recall", run.stderr)
        return run

    def test_finds_what_exact_search_finds(self):
        said = json.loads(self.fine("index", "m.safetensors", "--rows", "test.txt", "--json").stdout)
        self.assertEqual(said["path"], "m.index")
        self.assertLessEqual(said["probes"], said["cells"])
        self.compare("m.safetensors", "test.txt")
        self.compare("m.safetensors", "test.txt", "--recall", 0.9, least=0.85)
        self.compare("m.safetensors", "test.txt", "--normaliser", "exact")

    def test_without_rows_the_first_ones_choose_the_effort(self):
        said = self.fine("index", "m.safetensors").stdout
        self.assertIn("not known", said)
        self.compare("m.safetensors", "test.txt")
        run = self.fine("predict", "m.safetensors", "test.txt", "--index", "m.index", "--max-rows", 3)
        self.assertIn("searched exactly", run.stderr)

    def test_same_bits_for_any_number_of_threads(self):
        outputs = []
        for threads in (1, 3):
            self.fine("index", "m.safetensors", "--rows", "test.txt", "--threads", threads, "--out", f"{threads}.index")
            outputs.append(self.fine("predict", "m.safetensors", "test.txt", "--index", f"{threads}.index", "--top", 3,
                                     "--json", "--threads", threads).stdout)
        self.assertEqual(self.read("1.index"), self.read("3.index"))
        self.assertEqual(outputs[0], outputs[1])
        first = json.loads(outputs[0].splitlines()[0])
        self.assertEqual(set(first), {"row", "classes", "probabilities", "error"})

    def test_linear_tied_and_split_models(self):
        self.fine("train", "train.txt", "--encoder", "linear", "--method", "implicit", "--step", 1, "--epochs", 3,
                  "--intercept", "--log", "none", "--model", "linear.safetensors")
        self.fine("index", "linear.safetensors", "--rows", "test.txt", "--out", "m.index")
        self.compare("linear.safetensors", "test.txt")
        rng = np.random.default_rng(1)
        self.write("text.txt", "\n".join(" ".join(f"w{i}" for i in rng.zipf(1.3, 20) % 300) for _ in range(300)))
        self.fine("train", "text.txt", "--format", "text", "--tied", "--hidden", 8, "--epochs", 1, "--step", 0.01,
                  "--ridge", 0.1, "--log", "none", "--model", "tied.safetensors")
        self.fine("index", "tied.safetensors", "--rows", "text.txt", "--out", "m.index")
        self.compare("tied.safetensors", "text.txt")
        self.write("triples.txt", "".join(f"e{a}\tr{b}\te{(7 * a + b) % 200}\n" for a in range(200) for b in range(4)))
        self.fine("train", "triples.txt", "--format", "triples", "--hidden", 8, "--epochs", 2, "--step", 0.05, "--ridge",
                  0.01, "--log", "none", "--model", "triples.safetensors")
        self.fine("index", "triples.safetensors", "--rows", "triples.txt", "--out", "m.index")
        self.compare("triples.safetensors", "triples.txt")
        self.fine("train", "train.txt", *LEARN, "--split-model", "--model", "set.safetensors")
        self.fine("index", "set.safetensors", "--rows", "test.txt", "--out", "m.index")
        self.compare("set.safetensors", "test.txt")

    def test_ctrl_c_leaves_no_file(self):
        """The signal comes when the cells are being made: that takes most of some seconds of CPU time."""
        self.fine("generate", "many.txt", "--rows", 60000, "--classes", 40000, "--features", 50, "--nonzeros", 5)
        self.fine("train", "many.txt", "--encoder", "linear", "--method", "implicit", "--step", 1, "--epochs", 1, "--log",
                  "none", "--model", "many.safetensors")
        before = sorted(os.listdir(self.folder))
        run = subprocess.Popen([PROGRAM, "index", "many.safetensors", "--cells", "20000"], cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            while cpu_seconds(run.pid) < 0.5:
                self.assertIsNone(run.poll(), "the index was finished too soon")
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=LIMIT_SECONDS)
        finally:
            run.kill()
        self.assertEqual(run.returncode, 130, said)
        self.assertIn("many.index was not written", said)
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_ctrl_c_while_rows_are_read_leaves_no_file(self):
        before = sorted(os.listdir(self.folder))
        for sig in (signal.SIGINT, signal.SIGTERM):
            run = subprocess.Popen([PROGRAM, "index", "m.safetensors", "--rows", "-"], cwd=self.folder,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            try:
                while not os.path.exists(self.path("m.index.part")):
                    self.assertIsNone(run.poll())
                    time.sleep(0.01)
                run.send_signal(sig)
                run.wait(LIMIT_SECONDS)
                run.communicate()
            finally:
                run.kill()
            self.assertEqual(run.returncode, -sig)  # a shell shows 128 + sig
            self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_next_command_can_be_typed(self):
        said = self.fine("index", "m.safetensors", "--top", 100000).stdout
        self.assertRegex(said, r"next +truemax predict m.safetensors DATA --index m.index --top [0-9]{1,4}\n")
        self.write("text.txt", "a b c d e f g\n" * 50)
        self.fine("train", "text.txt", "--format", "text", "--encoder", "cbow", "--hidden", 4, "--epochs", 1, "--step", 0.01,
                  "--ridge", 0.1, "--log", "none", "--model", "cbow.safetensors")
        self.assertNotIn("next", self.fine("index", "cbow.safetensors").stdout)  # predict refuses such models

    @unittest.skipIf(os.environ.get("TRUEMAX_SANITIZE"), "Python cannot load the library")
    def test_from_python(self):
        sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))
        import truemax as package
        model = package.load(self.path("m.safetensors"))
        rng = np.random.default_rng(1)
        X = np.where(rng.random((300, 500)) < 0.04, 1.0, 0.0)
        X[:, 0] = 1
        labels, probabilities = model.predict_topk(X, 5)
        index = model.build_index(X, recall=0.99, top=5)
        found, estimates = model.predict_topk(X, 5, index=index)
        self.assertGreater((found == labels).mean(), 0.9)
        self.assertGreater(index.measured_["recall"], 0.97)
        self.assertEqual(index.errors_.shape, (300,))
        same = found == labels
        self.assertLess(np.abs(np.log(estimates[same] / probabilities[same])).mean(), 0.05)
        index.save(self.path("python.index"))
        again = model.load_index(self.path("python.index"))
        np.testing.assert_array_equal(model.predict_topk(X, 5, index=again)[0], found)
        self.fine("predict", "m.safetensors", "test.txt", "--index", "python.index")
        other = package.load(self.path("m.safetensors"))
        with self.assertRaisesRegex(ValueError, "another model"):
            other.predict_topk(X, 5, index=index)
        with self.assertRaises(TypeError):
            model.predict_topk(X, 5, index="python.index")
        with self.assertRaises(OSError):
            index.save(self.path("m.safetensors"))


class Refusals(RefusalTest):
    def test_indexes_that_do_not_fit(self):
        truemax("generate", "train.txt", "--rows", 400, "--classes", 50, cwd=self.folder)
        for seed, name in ((1, "m"), (2, "other")):
            truemax("train", "train.txt", "--method", "implicit", "--step", 1, "--epochs", 1, "--seed", seed, "--model",
                    f"{name}.safetensors", cwd=self.folder)
        self.assertEqual(truemax("index", "m.safetensors", cwd=self.folder).returncode, 0)
        good = self.read("m.index")
        predict = ("predict", "m.safetensors", "train.txt", "--index")
        self.refused((*predict, "none.index"), "no such file", "truemax index m.safetensors")
        self.refused((*predict, "train.txt"), "not an index", "truemax index m.safetensors")
        self.refused(("predict", "other.safetensors", "train.txt", "--index", "m.index"), "other weights",
                     "truemax index other.safetensors")
        for name, content in (("cut", good[:-1]), ("longer", good + b"x"), ("bit", good[:-9] + b"\x55" + good[-8:]),
                              ("head", good[:40] + b"~" + good[41:]), ("short", good[:12])):
            with open(self.path(f"{name}.index"), "wb") as file:
                file.write(content)
            self.refused((*predict, f"{name}.index"), "damaged", "truemax index m.safetensors")
        self.refused(("index", "m.safetensors", "--out", "train.txt"), "not an index")
        self.refused(("index", "m.safetensors", "--out", "m.safetensors"), "model")
        self.refused(("index", "m.safetensors", "--recall", "1.5"), "recall")
        self.refused(("predict", "m.safetensors", "train.txt", "--recall", "0.9"), "--index")
        self.refused((*predict, "m.index", "--device", "cuda"), "CPU")
        self.refused((*predict, "m.index", "--memory-limit", "1K"), "not enough memory", "the index needs", "1.0 KB")
        self.refused(("index", "m.safetensors", "--memory-limit", "1K"), "not enough memory", "50 classes", "1.0 KB")
        self.refused(("index", "m.index"), "an index of a model, not a model")
        self.refused(("predict", "m.index", "train.txt"), "index")


if __name__ == "__main__":
    unittest.main()
