#!/usr/bin/python3
"""The code that judges the contestants of ./dev bench: losses, limits, the search for a time, fastText's models."""
import concurrent.futures
import contextlib
import io
import math
import os
import struct
import subprocess
import sys
import tempfile
import time
import types
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

    import blas
    import contest
    import item_peers
    import losses
    import markdown
    import sets
    from harness import Floors, Watched, best_of_turns


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Judging(unittest.TestCase):
    def test_log_loss_does_not_depend_on_chunks(self):
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

    def test_log_loss_takes_unnormalised_and_huge_scores(self):
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

    def test_missed_floors_fail_and_unmeasured_ones_do_not(self):
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

    def test_front_of_a_curve_decreases(self):
        points = [{"seconds": s, "train": t} for s, t in ((3, 1.0), (1, 2.0), (2, 2.5), (1, 3.0), (4, 1.0))]
        self.assertEqual([(p["seconds"], p["train"]) for p in item_peers.front(points)], [(1, 2.0), (3, 1.0)])


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class TimeTo(unittest.TestCase):
    """The search for the least time, with log-losses from a formula instead of runs."""

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

    def test_least_time_is_found_within_a_fifth(self):
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

    def test_unreachable_loss_is_not_reached(self):
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
import signal
import types
WHAT = "a peer of the test"
def needs():
    return ""
def fit(problem, settings, marks):
    from losses import linear
    from peers import worker
    import numpy as np
    model = linear(np.zeros((problem.D, problem.K)))
    if settings["does"] == "never ends":
        marks.point(model)
        marks.begin()
        signal.pause()
    now = [0.0]
    worker.time = types.SimpleNamespace(perf_counter=lambda: now[0])
    marks.begin()
    if settings["does"] == "eats":
        list(np.empty(1 << 27) for _ in range(1000))  # never touched
    now[0] += 5
    marks.stop()
    now[0] += 1000  # judging does not count as training
    marks.point(model)
    marks.begin()
    now[0] += 2
    marks.point(model)
'''


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Peers(ProgramTest):
    def setUp(self):
        super().setUp()
        self.problem = sets.make("bibtex", PROGRAM, self.path("p"), 0.02)

    def run_peer(self, does, seconds=120.0):
        os.makedirs(self.path("more/of_test"), exist_ok=True)
        with open(self.path("more/of_test/peer.py"), "w", encoding="utf-8") as file:
            file.write(PEER)
        before = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join([self.path("more"), before])
        try:
            return contest.run_peer("of_test.peer", self.problem.folder, {"does": does}, seconds)
        finally:
            os.environ["PYTHONPATH"] = before

    def test_run_reports_seconds_and_losses(self):
        run = self.run_peer("learns")
        self.assertEqual(run["ended"], "")
        self.assertEqual([point["seconds"] for point in run["points"]], [5, 7], "judging counted as training")
        self.assertAlmostEqual(run["points"][0]["train"], math.log(self.problem.K), places=6)
        self.assertGreater(run["points"][0]["memory"], 1e7)

    def test_run_that_takes_too_long_is_ended_and_keeps_its_points(self):
        run = self.run_peer("never ends", 1.0)
        self.assertEqual(run["ended"], "did not finish in 1 s")
        self.assertEqual(len(run["points"]), 1)

    def test_run_that_takes_too_much_memory_is_ended(self):
        self.assertEqual(self.run_peer("eats")["ended"], "out of memory")

    def test_truemax_agrees_with_the_shared_log_loss(self):
        item_peers.check_rows(PROGRAM, self.problem)
        wrong = sets.Problem(self.problem.folder)
        wrong.test_y = np.roll(wrong.test_y, 1)
        with contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit):
            item_peers.check_rows(PROGRAM, wrong)
        self.assertRegex(errors.getvalue(), "truemax says log-loss .* on the test rows, its model file")

    def test_rows_match_the_slow_reader(self):
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

    def test_memory_excludes_that_of_the_parent(self):
        here = bytearray(300 << 20)
        for at in range(0, len(here), 4096):
            here[at] = 1
        watched = Watched([sys.executable, "-c", "import sys; x = bytearray(b'1' * (50 << 20)); sys.stdin.read()"],
                          stdin=subprocess.PIPE)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            ended = pool.submit(watched.wait)
            while watched.memory <= 50 << 20 and not ended.done():
                time.sleep(0.01)
            watched.process.stdin.close()
            self.assertEqual(ended.result(), 0)
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
        # Features 0, 1 (an unseen word) and 2: the mean of three vectors, including that of the end of the line.
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
class Blas(unittest.TestCase):
    OPEN = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3"
    PLAIN = "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3.11.0"

    def test_library_is_recognised_by_its_file(self):
        self.assertEqual(blas.name_of([self.OPEN]), "OpenBLAS")
        self.assertEqual(blas.name_of([self.PLAIN]), "reference BLAS")
        self.assertEqual(blas.name_of(["/opt/intel/libmkl_rt.so.2"]), "MKL")
        self.assertEqual(blas.name_of([]), "none")

    def test_loaded_libraries_are_read_from_the_maps(self):
        with tempfile.NamedTemporaryFile("w", suffix=".maps") as file:
            for path in (self.PLAIN, "/usr/lib/libc.so.6", self.PLAIN, "[heap]", "/tmp/notes-on-blas.txt"):
                file.write(f"7f00-7f01 r-xp 00000000 00:1f 12 {path}\n")
            file.write("7f00-7f01 r-xp 00000000 00:00 0 \n")
            file.flush()
            self.assertEqual(blas.libraries(file.name), [self.PLAIN])

    def test_blas_of_numpy_is_found(self):
        found = blas.measure("numpy", 1)
        self.assertNotEqual(found["library"], "none")
        self.assertTrue(all(os.path.exists(path) for path in found["files"]))
        self.assertGreater(found["gflops"], 0)

    def said(self, value, status):
        return (f"Name: n\nStatus: {status}\nBest: {self.OPEN}\nValue: {value}\n\nAlternative: {self.PLAIN}\n"
                f"Priority: 10\n\nAlternative: {self.OPEN}\nPriority: 100\n")

    def test_reference_blas_gets_a_complaint_with_advice(self):
        self.assertEqual(blas.complaints(blas.alternatives(lambda name: self.said(self.OPEN, "auto"))), [])
        self.assertEqual(blas.complaints(blas.alternatives(lambda name: self.said(self.OPEN, "manual"))), [])
        by_hand = blas.complaints(blas.alternatives(lambda name: self.said(self.PLAIN, "manual")))
        self.assertEqual(len(by_hand), 2)
        self.assertRegex(by_hand[0], "set by hand to .* and is left so; 'update-alternatives --auto libblas.so.3-")
        missing = blas.complaints(blas.alternatives(lambda name: self.said(self.PLAIN, "auto")))
        self.assertRegex(missing[0], "install libopenblas0-pthread")
        self.assertEqual(blas.alternatives(lambda name: ""), {})

    def test_faster_number_of_threads_stays_set(self):
        for slow in (1, 4):
            now = []
            # More work takes longer on any machine.
            work = lambda: sum(range(2_000_000 if now[-1] == slow else 10))  # noqa: E731
            best = blas.faster_threads(work, now.append, most=4)
            self.assertEqual((best, now[-1]), ({1: 4, 4: 1}[slow],) * 2)

    def test_peer_on_the_reference_blas_fails_the_run(self):
        for library, met in (("OpenBLAS", True), ("reference BLAS", False)):
            bench = types.SimpleNamespace(options=types.SimpleNamespace(peers=["torch_adam"]), floors=Floors())
            said = {"library": library, "files": [self.PLAIN], "threads": 2, "gflops": 4.7, "numbers": "float32"}
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                found = item_peers.matrices(bench, [{"blas": {"torch_adam": said}}])
                self.assertEqual(bench.floors.show(), met)
            self.assertEqual(found, [{"peer": "PyTorch Adam", **said}])
            self.assertRegex(printed.getvalue(), rf"PyTorch Adam +{library} +4\.7")


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class SciPyObjective(unittest.TestCase):
    def test_gradient_matches_differences_for_all_row_layouts(self):
        from peers import scipy_lbfgs
        random = np.random.default_rng(5)
        x, y = sparse.random(41, 7, 0.5, "csr", random_state=5), random.integers(0, 4, 41)
        w = random.normal(0, 2, 28)
        before = scipy_lbfgs.GROUP_BYTES
        for ridge in (0, 3.0):
            wanted = losses.log_loss(x, y, losses.linear(w.reshape(7, 4)), 4)[0] + 0.5 * ridge / 41 * w @ w
            for group in (1e9, 8 * 4 * 10):
                for rows in (x, x.toarray()):
                    scipy_lbfgs.GROUP_BYTES = group
                    try:
                        of = scipy_lbfgs.Objective(rows, y, 4, ridge, np.float64)
                    finally:
                        scipy_lbfgs.GROUP_BYTES = before
                    loss, gradient = of(w)
                    self.assertAlmostEqual(loss, wanted, places=12)
                    for i in range(28):
                        to = np.zeros(28)
                        to[i] = 1e-5
                        self.assertAlmostEqual(gradient[i], (of(w + to)[0] - of(w - to)[0]) / 2e-5, places=8)


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class MatrixPeers(ProgramTest):
    """Each peer that multiplies matrices learns generated rows and reports its BLAS."""

    def test_they_learn(self):
        problem = sets.make("bibtex", PROGRAM, self.path("p"), 0.05)
        for peer in ("scipy_lbfgs", "sklearn_lbfgs", "torch_dense_sgd", "torch_dense_adam"):
            module = contest.module_of(peer)
            with self.subTest(peer):
                if module.needs():
                    self.skipTest(f"{module.needs()} is not there")
                settings = module.runs("bibtex")[0]
                if hasattr(module, "quick"):
                    settings = module.quick(settings, 0.3)
                run = contest.run_peer(peer, problem.folder, settings, 60.0)
                self.assertEqual(run["ended"], "")
                self.assertLess(run["points"][-1]["train"], 0.9 * math.log(problem.K))
                self.assertLess(abs(run["points"][-1]["mass"]), math.inf)
                self.assertNotEqual(run["blas"]["library"], "none")
                self.assertRegex(run["points"][-1]["note"], r"\d threads?$")

    def test_rows_too_large_for_a_matrix_are_refused_or_left_sparse(self):
        from peers import rows, torch_dense_sgd
        from peers.worker import Failed
        problem = sets.make("bibtex", PROGRAM, self.path("p"), 0.02)
        before, rows.DENSE_BYTES = rows.DENSE_BYTES, 1
        try:
            x, form = rows.faster_rows(problem, np.float32, lambda x: lambda: x @ np.ones(problem.D, np.float32))
            self.assertTrue(sparse.issparse(x))
            self.assertEqual(form, "sparse rows, 1 thread")
            if not torch_dense_sgd.needs():
                with self.assertRaises(Failed):
                    torch_dense_sgd.fit(problem, torch_dense_sgd.runs("bibtex")[0], None)
        finally:
            rows.DENSE_BYTES = before
        for peer in ("torch_dense_sgd", "torch_dense_adam"):
            self.assertEqual(contest.module_of(peer).runs("yso-finna-en"), [])

    def test_every_peer_has_a_grid_for_each_of_its_sets(self):
        for peer in contest.PEERS:
            for name in item_peers.SETS:
                grid = contest.module_of(peer).runs(name)
                self.assertEqual(bool(grid), not (name == "yso-finna-en" and "dense" in peer), (peer, name))


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Markdown(ProgramTest):
    RESULTS = {"item_4_5": {
        "data": [{"data": "bibtex",
                  "item_4": [{"peer": "A", "loss": 0.0512, "seconds": 6.0, "lower_bound": False, "runs": [1],
                              "truemax": {"seconds": 0.25, "loss": 0.05}, "ratio": 24.0, "note": "lr=3 | x"},
                             {"peer": "B", "loss": None, "seconds": 120.0, "lower_bound": True, "runs": [1],
                              "truemax": {"seconds": 0.1, "loss": 0.05}, "ratio": 1200.0, "note": "out of memory"},
                             {"peer": "C", "loss": 0.01, "seconds": 2.0, "lower_bound": False, "runs": [1],
                              "truemax": None, "ratio": None, "note": ""}],
                  "item_5": {"truemax": {"test": 2.61, "seconds": 0.5},
                             "peers": [{"peer": "A", "best": {"test": 2.7, "seconds": 3.0}},
                                       {"peer": "C", "best": {"test": 2.58, "seconds": 1.0}},
                                       {"peer": "B", "best": None}]}}],
        "blas": [{"peer": "A", "library": "OpenBLAS", "gflops": 93.4, "threads": 2},
                 {"peer": "L", "library": "OpenBLAS"}]},
        "item_7": [{"data": "delicious", "better": "learnt", "ratio": 0.8,
                    "grids": {"linear": [{"test": 3.6}, {"test": 9.0}], "learnt": [{"test": 3.2}, {"test": 9.0}]},
                    "plain": {"test": 4.0, "hidden": 256, "seconds": 21.4}}]}

    def page(self):
        return self.write("page.md", "before\n" + "".join(
            f"<!-- bench: {name} -->\nold {name}\n<!-- bench: end -->\nbetween\n" for name in markdown.NAMES))

    def test_new_tables_replace_old_ones_and_nothing_else(self):
        page = self.page()
        markdown.renew(page, markdown.tables(self.RESULTS))
        text = self.read("page.md").decode()
        self.assertNotIn("old", text)
        self.assertEqual((text.count("between"), text.startswith("before\n")), (len(markdown.NAMES), True))
        rows = [line for line in text.splitlines() if line.startswith("|")]
        self.assertIn("|  | A | 0.0512 | 6.00 | 0.25 | 24.0 | lr=3 \\| x |", rows)
        self.assertIn("| bibtex | C | 0.0100 | 2.00 | - | slower |  |", rows, "the least beaten stands first")
        self.assertIn("|  | B | - | over 120.00 | 0.10 | at least 1,200.0 | out of memory |", rows)
        self.assertIn("| A | OpenBLAS | 93 | 2 |", rows)
        self.assertIn("| delicious | 3.600 | 3.200 | 4.000 | 256 learnt | 21 | +25.0% |", rows)
        self.assertLess(rows.index("|  | C | 2.5800 | 1.00 |"), rows.index("|  | A | 2.7000 | 3.00 |"))
        markdown.renew(page, markdown.tables(self.RESULTS))
        self.assertEqual(self.read("page.md").decode(), text, "twice is once")

    def test_unmeasured_tables_stay(self):
        page = self.page()
        before = self.read("page.md")
        markdown.renew(page, markdown.tables({}))
        self.assertEqual(self.read("page.md"), before)

    def test_page_without_placeholders_is_refused(self):
        with self.assertRaises(markdown.NoPlace):
            markdown.check(self.write("empty.md", "nothing here\n"))
        markdown.check(os.path.join(ROOT, "docs", "performance.md"))


@unittest.skipUnless(SCIPY, "python3-scipy is not there")
class Options(ProgramTest):
    def test_unknown_names_are_refused_before_any_work(self):
        import bench
        for words, said in ((["--only", "8"], "item '8'"), (["--data", "x"], "data set 'x'"),
                            (["--peers", "y"], "peer 'y'"), (["--bench", self.path("no")], "no program"),
                            (["--rounds", "0"], "--rounds"), (["--jobs", "0"], "--jobs"), (["--jobs", "4096"], "half of the cores"),
                            (["--markdown", self.path("no.md")], "--markdown"),
                            (["--markdown", os.path.join(ROOT, "docs", "performance.md"), "--quick"],
                             "leave one of the two out")):
            with self.subTest(words):
                errors = io.StringIO()
                with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as ended:
                    bench.options_of(["--program", PROGRAM, "--bench", PROGRAM, *words])
                self.assertEqual(ended.exception.code, 1)
                self.assertIn(said, errors.getvalue())


if __name__ == "__main__":
    unittest.main()
