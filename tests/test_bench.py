#!/usr/bin/python3
"""What judges the contestants of ./dev bench is right: losses, limits, the search for a time, fastText's models."""
import contextlib
import io
import math
import os
import struct
import sys
import time
import unittest

import numpy as np

from support import PROGRAM, ROOT, ProgramTest

sys.path.insert(0, os.path.join(ROOT, "bench"))
try:
    import scipy  # noqa: F401
    SCIPY = True
except ImportError:
    SCIPY = False
if SCIPY:
    from scipy import sparse

    import contest
    import item_peers
    import losses
    import sets
    from harness import Floors, Watched, best_of_turns


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Judging(unittest.TestCase):
    def test_log_loss_is_the_sum_over_all_classes_in_any_chunks(self):
        random = np.random.default_rng(1)
        x = sparse.random(37, 11, 0.4, "csr", random_state=1)
        y, w = random.integers(0, 5, 37), random.normal(0, 30, (11, 5))
        wanted = 0.0
        for i in range(37):  # the plain way
            z = [sum(x[i, f] * w[f, k] for f in range(11)) for k in range(5)]
            wanted += math.log(math.fsum(math.exp(v - max(z)) for v in z)) + max(z) - z[y[i]]
        for chunk in (1, 7 * 5 * 8, 1e9):
            losses.CHUNK_BYTES, before = chunk, losses.CHUNK_BYTES
            try:
                found, _ = losses.log_loss(x, y, losses.linear(w), 5)
            finally:
                losses.CHUNK_BYTES = before
            self.assertAlmostEqual(found, wanted / 37, places=10)

    def test_scores_need_not_be_normalised_and_may_be_huge(self):
        x = sparse.csr_matrix(np.ones((2, 1)))
        loss, mass = losses.log_loss(x, np.array([0, 1]), lambda rows: np.log(np.array([[0.2, 0.2], [0.2, 0.6]])), 2)
        self.assertAlmostEqual(loss, -(math.log(0.5) + math.log(0.75)) / 2)
        self.assertAlmostEqual(mass, (0.4 + 0.8) / 2)
        loss, mass = losses.log_loss(x, np.array([0, 0]), lambda rows: np.array([[1e4, -1e4], [-1e4, 1e4]]), 2)
        self.assertEqual(loss, 1e4)
        self.assertTrue(math.isfinite(mass))

    def test_contestants_take_turns_and_the_best_counts(self):
        order, times = [], {"a": iter((3.0, 1.0, 2.0)), "b": iter((4.0, 6.0, 5.0))}
        best = best_of_turns({name: lambda name=name: order.append(name) or next(times[name]) for name in "ab"}, 3)
        self.assertEqual(best, {"a": 1.0, "b": 4.0})
        self.assertEqual(order, list("ababab"))

    def test_a_missed_floor_is_missed_and_what_was_not_measured_is_not(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.check_floors()

    def check_floors(self):
        for value, ok in ((2.0, True), (1.9, False), (None, False)):
            floors = Floors()
            floors.require("x", value, 2)
            self.assertEqual(floors.show(), ok, value)
        floors = Floors()
        floors.skip("x", "not there")
        self.assertTrue(floors.show())
        floors.require_of_threads("x", 1.9, 1.6)
        floors.require_of_threads("x", 5.0, 1.6)
        self.assertEqual([r["ok"] for r in floors.results], [None, True, None])
        self.assertTrue(floors.show())
        floors.broken("x", "a check failed")
        self.assertFalse(floors.show())

    def test_the_front_of_a_curve_falls(self):
        points = [{"seconds": s, "train": t} for s, t in ((3, 1.0), (1, 2.0), (2, 2.5), (1, 3.0), (4, 1.0))]
        self.assertEqual([(p["seconds"], p["train"]) for p in item_peers.front(points)], [(1, 2.0), (3, 1.0)])


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class TimeTo(unittest.TestCase):
    """The search for the least time, with log-losses by a formula in place of runs."""

    def make(self, loss_of):
        runner = contest.Truemax("", None)
        asked = []

        def for_seconds(seconds, seed=1):
            if (seconds, seed) not in runner.runs:
                asked.append(seconds)
                runner.runs[(seconds, seed)] = (seconds, loss_of(seconds, seed), 1)
            return runner.runs[(seconds, seed)]

        runner.for_seconds = for_seconds
        return runner, asked

    def test_it_finds_the_least_time_to_a_fifth(self):
        for wanted in (0.011, 0.02, 0.5, 7.3):
            runner, _ = self.make(lambda t, seed: 1 / t)
            found = runner.time_to(1 / wanted, most=100)
            self.assertLessEqual(found["loss"], 1 / wanted)
            self.assertGreaterEqual(found["seconds"], wanted)
            self.assertLessEqual(found["seconds"], max(1.2 * wanted, runner.FIRST))

    def test_one_lucky_seed_is_not_enough(self):
        runner, _ = self.make(lambda t, seed: (1.0 if seed == 1 else 3.0) / t)
        found = runner.time_to(1.0, most=100)
        self.assertGreaterEqual(found["seconds"], 3.0)
        self.assertLessEqual(found["seconds"], 3.0 * 1.25)

    def test_what_is_out_of_reach_is_not_reached(self):
        runner, asked = self.make(lambda t, seed: 1.0)
        self.assertIsNone(runner.time_to(0.5, most=2.0))
        self.assertLessEqual(max(asked), 2.0)
        self.assertIsNone(runner.known_time_to(0.5))

    def test_runs_are_shared(self):
        runner, asked = self.make(lambda t, seed: 1 / t)
        runner.time_to(1.0, most=100)
        before = len(asked)
        runner.time_to(1.0, most=100)
        self.assertEqual(len(asked), before)
        self.assertLessEqual(runner.known_time_to(1.0), 1.2)


PEER = '''
import time
WHAT = "a peer of the test"
def needs():
    return ""
def fit(problem, settings, marks):
    from losses import linear
    import numpy as np
    marks.begin()
    if settings["does"] == "sleeps":
        marks.point(linear(np.zeros((problem.D, problem.K))))
        marks.begin()
        time.sleep(60)
    if settings["does"] == "eats":
        list(np.empty(1 << 27) for _ in range(1000))  # never touched
    time.sleep(0.1)
    marks.stop()
    time.sleep(1.5)  # judging is not training
    marks.point(linear(np.zeros((problem.D, problem.K))))
'''


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Peers(ProgramTest):
    def setUp(self):
        super().setUp()
        self.problem = sets.make("bibtex", PROGRAM, self.path("p"), 0.02)

    def run_peer(self, does, seconds=30.0):
        os.makedirs(self.path("more/of_test"), exist_ok=True)
        with open(self.path("more/of_test/peer.py"), "w", encoding="utf-8") as file:
            file.write(PEER)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([self.path("more"), before])
        try:
            return contest.run_peer("of_test.peer", self.problem.folder, {"does": does}, seconds)
        finally:
            os.environ["PYTHONPATH"] = before

    def test_a_run_has_its_seconds_and_its_losses(self):
        run = self.run_peer("learns")
        self.assertEqual(run["ended"], "")
        (point,) = run["points"]
        self.assertAlmostEqual(point["train"], math.log(self.problem.K), places=6)
        self.assertGreaterEqual(point["seconds"], 0.1)
        self.assertLess(point["seconds"], 1.5, "judging counted as training")
        self.assertGreater(point["memory"], 1e7)

    def test_a_run_that_takes_too_long_is_ended_and_keeps_what_it_had(self):
        begin = time.monotonic()
        run = self.run_peer("sleeps", 1.0)
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(run["ended"], "did not finish in 1 s")
        self.assertEqual(len(run["points"]), 1)

    def test_a_run_that_takes_too_much_memory_is_ended(self):
        self.assertEqual(self.run_peer("eats")["ended"], "out of memory")

    def test_truemax_and_the_one_function_agree(self):
        item_peers.check_rows(PROGRAM, self.problem)
        wrong = sets.Problem(self.problem.folder)
        wrong.test_y = np.roll(wrong.test_y, 1)
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit):
            item_peers.check_rows(PROGRAM, wrong)
        self.assertRegex(errors.getvalue(), "truemax says log-loss .* on the test rows, its model file")

    def test_the_rows_are_those_of_the_slow_reader(self):
        import model_reader
        raw, features = model_reader.read_xmlrepository(self.problem.about["train"])
        rows, *_ = model_reader.prepare(raw, {"max-features": 10000, "normalize": "l2"})
        self.assertEqual((len(rows), features), (self.problem.N, self.problem.D))
        dense = self.problem.train_x.toarray()
        for i, row in enumerate(rows):
            self.assertEqual(self.problem.about["labels"][self.problem.train_y[i]], row.labels[0])
            wanted = np.zeros(features)
            wanted[list(row.features)] = list(row.features.values())
            np.testing.assert_allclose(dense[i], wanted, rtol=1e-6)

    def test_the_memory_is_that_of_the_program(self):
        here = bytearray(300 << 20)
        for at in range(0, len(here), 4096):
            here[at] = 1
        watched = Watched([sys.executable, "-c", "import time; x = bytearray(b'1' * (50 << 20)); time.sleep(0.5)"])
        self.assertEqual(watched.wait(), 0)
        self.assertGreater(watched.memory, 50 << 20)
        self.assertLess(watched.memory, 200 << 20, "what started it counted too")


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class FastText(ProgramTest):
    """A model file of fastText written by hand."""

    COUNTS = (9, 5, 4, 2)

    def write_model(self, loss):
        random = np.random.default_rng(3)
        words = [("</s>", 20), ("f2", 7), ("f0", 3)]
        labels = [(f"__label__{k}", c) for k, c in enumerate(self.COUNTS)]
        self.input, self.output = (random.normal(size=shape).astype(np.float32) for shape in ((3, 2), (4, 2)))
        kinds = {"hs": 1, "ns": 2, "softmax": 3}
        data = struct.pack("<2i12id", 793712314, 12, 2, 5, 1, 1, 5, 1, kinds[loss], 3, 0, 0, 0, 100, 1e-4)
        data += struct.pack("<3i2q", 7, 3, 4, 50, -1)
        for kind, entries in ((0, words), (1, labels)):
            for word, count in entries:
                data += word.encode() + b"\0" + struct.pack("<qb", count, kind)
        for matrix in (self.input, self.output):
            data += struct.pack("<?2q", False, *matrix.shape) + matrix.tobytes()
        return self.write("m.bin", data)

    def test_scores(self):
        from peers.fasttext import Model
        # A row of the features 0, 1 (a word it never saw) and 2: the mean of three vectors, with the end of the line.
        x = sparse.csr_matrix(np.array([[0.5, 0.1, 0.7]]))
        sigmoid = lambda v: 1 / (1 + math.exp(-v))  # noqa: E731
        for loss in ("softmax", "ns", "hs"):
            with self.subTest(loss):
                model = Model(self.write_model(loss))
                self.assertEqual(model.loss, loss)
                hidden = (self.input[0] + self.input[2] + self.input[1]).astype(float) / 3
                z = self.output.astype(float) @ hidden
                found = model.scores(x, 5)[0]
                self.assertEqual(found[4], -np.inf, "a label it never saw")
                if loss == "softmax":
                    wanted = z
                elif loss == "ns":
                    wanted = [math.log(sigmoid(v)) for v in z]
                else:  # leaves 0..3; 4 = (3, 2), 5 = (1, 4), 6 = (0, 5): the root, whose row is the last
                    self.assertEqual(model.tree(), [[3, 2], [1, 4], [0, 5]])
                    wanted = [math.log(sigmoid(-z[2])), math.log(sigmoid(z[2]) * sigmoid(-z[1])),
                              math.log(sigmoid(z[2]) * sigmoid(z[1]) * sigmoid(z[0])),
                              math.log(sigmoid(z[2]) * sigmoid(z[1]) * sigmoid(-z[0]))]
                np.testing.assert_allclose(found[:4], wanted, rtol=1e-5)


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Options(ProgramTest):
    def test_what_is_not_there_is_refused_before_any_work(self):
        import bench
        for words, said in ((["--only", "7"], "item '7'"), (["--data", "x"], "data set 'x'"),
                            (["--peers", "y"], "peer 'y'"), (["--bench", self.path("no")], "no program"),
                            (["--rounds", "0"], "--rounds")):
            with self.subTest(words):
                errors = io.StringIO()
                with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
                    bench.options_of(["--program", PROGRAM, "--bench", PROGRAM, *words])
                self.assertEqual(ended.exception.code, 1)
                self.assertIn(said, errors.getvalue())


if __name__ == "__main__":
    unittest.main()
