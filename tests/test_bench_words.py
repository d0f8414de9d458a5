#!/usr/bin/python3
"""The code that judges truemax beside fastText's words and on grids: bench/fasttext.py, skipgram.py, item_learnt.py."""
import contextlib
import gzip
import io
import math
import os
import shutil
import subprocess
import sys
import types
import unittest

import numpy as np

from support import PROGRAM, ROOT, ProgramTest, skip

sys.path.insert(0, os.path.join(ROOT, "bench"))
try:
    import scipy  # noqa: F401
    SCIPY = True
except ImportError:
    SCIPY = False
if SCIPY:
    import fasttext
    import item_learnt
    import skipgram
    from harness import Bench
    from peers import fasttext as peer

ROWS = "6 5 4\n" + "".join(f"{label} {features}\n" for label, features in (
    ("3,1", "0:0.5 1:0.2"), ("1", "1:0.1 2:1"), ("3", "0:1"), ("", "0:1"), ("2", ""), ("0", "2:1 3:1")))
TEST_ROWS = "5 5 4\n3,0 0:1 4:1\n2 0:1\n1 4:1\n0 2:1\n1 1:1\n"


def need_fasttext():
    if not shutil.which("fasttext"):
        skip("fastText is not installed")


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class FastTextModels(ProgramTest):
    """Trained models of fastText: what is read from the file gives what fastText predicts."""

    def setUp(self):
        super().setUp()
        need_fasttext()
        random = np.random.default_rng(1)
        rows = [(k, random.choice(12, 4, replace=False)) for k in range(7) for _ in range(3 + 5 * k)]
        self.words = "".join(f"__label__{k} {' '.join(f'f{f}' for f in {k, *features})}\n" for k, features in rows)
        self.path_of_rows = self.write("train.txt", self.words)
        index = [sorted({k, *features}) for k, features in rows]
        dense = np.zeros((len(rows), 12))
        for i, features in enumerate(index):
            dense[i, features] = 1
        self.x = scipy.sparse.csr_matrix(dense)

    def trained(self, loss):
        peer.train(["fasttext", "supervised", "-input", self.path_of_rows, "-output", self.path("m"), "-loss", loss, "-dim", 6,
                    "-epoch", 20, "-lr", 0.5, "-thread", 1, "-minCount", 1])
        said = subprocess.run(["fasttext", "predict-prob", self.path("m.bin"), self.path_of_rows, "-1", "0.0"], check=True,
                              capture_output=True, text=True).stdout
        found = np.zeros((self.x.shape[0], 7))
        for i, line in enumerate(said.splitlines()):
            words = line.split()
            for label, p in zip(words[::2], words[1::2]):
                found[i, int(label[len("__label__"):])] = float(p)
        return peer.Model(self.path("m.bin")), found

    def test_probabilities_are_those_of_predict_prob(self):
        for loss in ("softmax", "hs"):
            with self.subTest(loss):
                model, said = self.trained(loss)
                ours = np.exp(fasttext.scores_of(model, 7)[""](self.x))
                if loss == "softmax":
                    ours /= ours.sum(axis=1)[:, None]
                np.testing.assert_allclose(ours.sum(axis=1), 1, rtol=1e-5)
                # It adds 1e-5 to a probability at every node of the tree, and prints six digits.
                np.testing.assert_allclose(ours, said, atol=1e-4)

    def test_noise_of_ns_is_added_to_its_outputs(self):
        model, said = self.trained("ns")
        ways = fasttext.scores_of(model, 7)
        z, corrected = (ways[how](self.x) for how in ("outputs", "outputs and noise"))
        # Its sigmoid is a table of 512 values over [-8, 8].
        np.testing.assert_allclose(1 / (1 + np.exp(-z)), said, atol=1e-3 + 16 / 512 / 4)
        counts = [self.words.count(f"__label__{k} ") for k in range(7)]
        np.testing.assert_allclose(corrected - z, np.tile(0.5 * np.log(counts), (len(z), 1)), rtol=1e-6)


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class SameWords(ProgramTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("yso-finna-en"))
        for part, text in (("train", ROWS), ("test", TEST_ROWS)):
            with gzip.open(self.path(f"yso-finna-en/{part}.txt.gz"), "wt") as file:
                file.write(text)

    def test_files_have_first_labels_and_no_values(self):
        words = fasttext.Words(self.folder, self.folder, 5, 0)
        self.assertEqual(self.read("train.txt").decode(), "__label__3 f0 f1\n__label__1 f1 f2\n__label__3 f0\n")
        self.assertEqual((words.N, words.D, words.K), (3, 3, 2), "rows without label or words are left out")
        # Labels 2 and 0 are unseen within the first five rows, and the only word of the third test row too.
        self.assertEqual((words.unseen, words.empty), (2, 1))
        self.assertEqual(self.read("test.txt").decode(), "__label__3 f0 f4\n__label__1 f1\n")
        self.assertEqual(words.y.tolist(), [1, 0])
        np.testing.assert_array_equal(words.x.toarray(), [[1, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
        self.assertEqual(len(fasttext.Words(self.folder, self.folder, 0, 1).y), 1)

    def test_missing_data_are_named(self):
        need_fasttext()
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertEqual(fasttext.main([PROGRAM, "--data", self.path("no")]), 0)
            skipgram.main([PROGRAM, "--data", self.path("no")])
        self.assertEqual(said.getvalue().count("skipped: no "), 2)

    def test_whole_contest_runs(self):
        need_fasttext()
        rows = "".join(f"{i % 9} {i % 9}:0.5 {10 + i % 7}:0.25\n" for i in range(600))
        for part in ("train", "test"):
            with gzip.open(self.path(f"yso-finna-en/{part}.txt.gz"), "wt") as file:
                file.write(f"600 20 9\n{rows}")
        with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.redirect_stderr(io.StringIO()):
            fasttext.main([PROGRAM, "--data", self.folder, "--dim", "4", "--threads", "1", "--rates", "0.5", "--epochs", "1",
                           "--repeats", "2", "--no-search", "--keep", self.path("kept")])
        text = said.getvalue()
        for words in (r"\| fastText hs \| rate 0\.5 \| 1 \|", r"\| fastText ns, outputs", r"\| fastText softmax",
                      r"\| truemax \| step 0\.004, ridge 6 \| 1 \|", "fastText's best test log-loss is"):
            self.assertRegex(text, words)
        self.assertTrue(os.path.exists(self.path("kept/softmax-lr0.5-epoch5-dim4.bin")))

    def test_fastest_run_below_a_log_loss_is_found(self):
        contest = fasttext.Contest(None, None, self.folder)
        contest.runs = {(epochs, 1): {"seconds": s, "test": t} for epochs, (s, t) in enumerate(((1, 9.0), (3, 7.0), (2, 7.5)))}
        self.assertEqual([contest.first_below(loss) for loss in (9.5, 8.0, 7.0, 6.9)], [(0, 1), (2, 1), (1, 1), None])


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class SkipGram(ProgramTest):
    def test_log_loss_is_that_of_all_pairs_one_by_one(self):
        random = np.random.default_rng(2)
        ids, before = random.integers(0, 6, 40), skipgram.CHUNK
        z = random.normal(0, 3, (6, 6))
        total, pairs = 0.0, 0
        for i in range(40):
            for j in range(max(0, i - 5), min(40, i + 6)):
                if j != i:
                    row = z[ids[i]]
                    total += math.log(math.fsum(math.exp(v) for v in row)) - row[ids[j]]
                    pairs += 1
        counted = skipgram.pairs_of(ids, 6)
        self.assertEqual(counted.sum(), pairs)
        try:
            for skipgram.CHUNK in (1, 4, 100):
                self.assertAlmostEqual(skipgram.log_loss(counted, lambda words: z[words]), total / pairs, places=12)
        finally:
            skipgram.CHUNK = before

    def test_vectors_of_a_trained_model_are_matched_to_the_words(self):
        need_fasttext()
        lines = "a b c d\nb c a <unk>\n" * 50
        for part in ("train", "valid", "test"):
            os.makedirs(self.path("wikitext2"), exist_ok=True)
            with gzip.open(self.path(f"wikitext2/wiki.{part}.tokens.gz"), "wt") as file:
                file.write(lines + ("new a\n" if part == "test" else ""))
        text = skipgram.Text({part: self.path(f"wikitext2/wiki.{part}.tokens.gz") for part in ("train", "valid", "test")})
        self.assertEqual(list(text.number), ["a", "b", "c", "d", "<eos>", "<unk>"])
        self.assertEqual(text.count.tolist(), [100, 100, 100, 50, 100, 50])
        self.assertEqual(text.ids(["new", "a"]).tolist(), [5, 0])
        path = self.write("t.txt", " ".join(text.train))
        peer.train(["fasttext", "skipgram", "-input", path, "-output", self.path("m"), "-minn", 0, "-maxn", 0, "-minCount", 1,
                    "-dim", 3, "-thread", 1, "-t", 1, "-epoch", 20])
        scores = skipgram.Scores(self.path("m.bin"), text)
        with open(self.path("m.vec"), encoding="utf-8") as file:
            vectors = {line.split()[0]: [float(v) for v in line.split()[1:]] for line in list(file)[1:]}
        for word, vector in vectors.items():
            np.testing.assert_allclose(scores.input[text.number[word]], vector, atol=1e-4)
        raw = skipgram.log_loss(text.pairs, scores(1, 0))
        self.assertLess(skipgram.log_loss(text.pairs, scores(*scores.fitted(text.fit_pairs))), raw)


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Grids(ProgramTest):
    """Item 7, with log-losses from a formula instead of runs."""

    def bench(self, **more):
        options = types.SimpleNamespace(quick=False, size=1.0, jobs=1, program=PROGRAM, learnt_sets=["bibtex"], **more)
        bench = Bench(options, self.folder)
        bench.say = lambda what: None
        return bench

    def runner(self, best_epochs=5):
        asked = []

        def train(problem, *words):
            said = dict(zip(words[::2], words[1::2]))
            asked.append(said)
            early = "--patience" in said
            loss = 2 + abs(math.log(said["--step"] / 0.13)) + abs(math.log(said["--ridge"] / 0.22))
            return {"test": loss - (0 if early else 0.1), "valid": loss if early else None, "seconds": 1.0,
                    "epochs": best_epochs if early else said["--epochs"], "hidden": 0, "rows": 1000}
        return types.SimpleNamespace(train=train, all=lambda runs: [run() for run in runs], asked=asked)

    def test_best_points_are_fitted_again_on_all_rows(self):
        runner = self.runner()
        found = item_learnt.best_of_grid(self.bench(), runner, {"name": "x"}, "bibtex", "linear", 1000)
        self.assertEqual(len(found), 9 + 9)
        self.assertEqual((found[0]["step"], found[0]["ridge"], found[0]["early"]), (0.13, 0.22, False))
        self.assertFalse(item_learnt.at_edge(self.bench(), "bibtex", "linear", found[0]))
        self.assertTrue(item_learnt.at_edge(self.bench(), "bibtex", "linear", {"step": 0.13, "ridge": 0.7}))
        self.assertEqual([said["--epochs"] for said in runner.asked], [8] * 9 + [3, 5, 10] * 3)
        self.assertTrue(all(said["--encoder"] == "linear" for said in runner.asked))

    def test_grid_on_a_part_keeps_the_ridge_per_row(self):
        runner = self.runner()
        found = item_learnt.best_of_grid(self.bench(), runner, {"name": "x"}, "fb15k-237", "learnt", 200000)
        grid, fits = runner.asked[:9], runner.asked[9:]
        self.assertEqual({said["--max-rows"] for said in grid}, {100000})
        self.assertEqual({said["--ridge"] for said in grid}, {3, 9.5, 30})
        self.assertTrue(all("--max-rows" not in said and said["--ridge"] in (6, 19, 60) for said in fits))
        self.assertEqual([said["--epochs"] for said in fits], [3, 5, 3, 5])
        self.assertEqual(len(found), 4, "log-losses of a part are not compared")

    def test_missing_data_are_reported(self):
        bench = self.bench()
        before, item_learnt.sets.DATA = item_learnt.sets.DATA, self.path("no")
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(item_learnt.run(bench), [])
        finally:
            item_learnt.sets.DATA = before
        self.assertIn("skipped: item 7, bibtex: not at", said.getvalue())

    def test_runs_of_the_program(self):
        rows = "".join(f"{i % 5} {i % 5}:1 {5 + i % 3}:0.5\n" for i in range(200))
        data = self.write("rows.txt", f"200 8 5\n{rows}")
        runner = item_learnt.Runner(self.bench())
        problem = {"name": "x", "train": data, "test": data, "more": []}
        for model, hidden in (("linear", 0), ("learnt", item_learnt.HIDDEN)):
            run = runner.train(problem, *item_learnt.words_of_model(model, 0.01, 0.1, 3), "--valid-share", 0.1, "--patience", 3)
            self.assertEqual((run["rows"], run["hidden"], run["config"]["epochs"]), (180, hidden, 3))
            self.assertLess(run["valid"], math.log(5) + 0.1)


if __name__ == "__main__":
    unittest.main()
