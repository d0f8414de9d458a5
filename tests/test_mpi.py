#!/usr/bin/python3
"""truemax-mpi: runs on 1 to 4 ranks beside the ordinary program, what is refused, and how runs end."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from support import LIMIT_SECONDS, PROGRAM, ProgramTest, data_file, events, truemax

MPI = os.path.join(os.path.dirname(PROGRAM), "truemax-mpi")
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
BLOCKS = ("--draw", "head-blocks", "--head", "16", "--classes-per-step", "32")


def setUpModule():
    if shutil.which("mpirun") is None or not os.access(MPI, os.X_OK):
        print("skipped: no mpirun, or no truemax-mpi beside the program", flush=True)
        raise unittest.SkipTest("no MPI")


def mpi(ranks, *arguments, cwd):
    return subprocess.run([*MPIRUN, "-n", str(ranks), MPI, *map(str, arguments)], cwd=cwd, capture_output=True,
                          text=True, timeout=LIMIT_SECONDS, check=False)


def errors(result):
    return [line for line in result.stderr.splitlines() if line.startswith("truemax: error:")]


class Runs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 200, rows=600, classes=200,
                                   features=80)

    def result(self, *arguments, ranks=0):
        arguments = ("train", "train.txt", "--test", "test.txt", "--model", "none", "--json", *arguments)
        said = mpi(ranks, *arguments, cwd=self.folder) if ranks > 0 else truemax(*arguments, cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def test_losses_are_those_of_one_process(self):
        for method in ("prox", "scent", "umax", "exact"):
            step = 2 if method == "prox" else 0.3
            for more in ((), ("--intercept", "--ridge", 2)):
                options = ("--method", method, "--step", step, "--epochs", 2, "--group", 32, *BLOCKS, *more)
                expected = self.result(*options)
                for ranks in (1, 2, 3, 4):
                    with self.subTest(method=method, more=more, ranks=ranks):
                        found = self.result(*options, ranks=ranks)
                        for part in ("train", "test"):
                            one, other = expected[part], found[part]
                            if ranks == 1:
                                self.assertEqual(one, other)
                            self.assertAlmostEqual(other["log_loss"] / one["log_loss"], 1, delta=1e-6)
                            self.assertEqual(other["rows"], one["rows"])

    def test_one_rank_is_the_ordinary_program(self):
        for options in (("--method", "prox", "--epochs", 2), ("--method", "implicit", "--epochs", 2),
                        ("--epochs", 2)):
            with self.subTest(options=options):
                one, other = self.result(*options), self.result(*options, ranks=1)
                self.assertEqual(one["train"], other["train"])

    def test_search_and_table(self):
        said = mpi(2, "train", "train.txt", "--test", "test.txt", "--encoder", "linear", "--model", "none",
                   "--log", "log.jsonl", cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(said.stdout.count("class frequencies"), 1)
        self.assertIn("chosen ", said.stdout)
        log = events(self.path("log.jsonl"))
        self.assertEqual(log[0]["ranks"], 2)
        self.assertEqual(log[-1]["event"], "end")
        # The log repeats the run in one process.
        again = truemax("train", "train.txt", "--test", "test.txt", "--replay", "log.jsonl", "--model", "none",
                        "--json", cwd=self.folder)
        self.assertEqual(again.returncode, 0, again.stderr)
        first = [event for event in log if event["event"] == "evaluate"][-1]
        self.assertAlmostEqual(json.loads(again.stdout)["train"]["log_loss"] / first["train"]["log_loss"], 1,
                               delta=1e-5)

    def test_seconds_end_all_ranks(self):
        found = self.result("--method", "prox", "--seconds", "0.5", *BLOCKS, ranks=3)
        self.assertGreater(found["steps"], 0)


class Ends(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", rows=600, classes=200, features=80)

    def refused(self, ranks, words, *arguments):
        said = mpi(ranks, *arguments, cwd=self.folder)
        self.assertEqual(said.returncode, 2, said.stderr)
        found = errors(said)
        self.assertEqual(len(found), 1, said.stderr)
        self.assertRegex(found[0], words)

    def test_an_error_of_all_is_said_once(self):
        self.refused(3, "no such file", "train", "nowhere.txt")
        self.refused(3, "--method 'none-such'", "train", "train.txt", "--method", "none-such")

    def test_what_ranks_cannot_do_is_refused(self):
        none = ("--model", "none")
        self.refused(2, "2 ranks: the method implicit has no groups.*give --method prox", "train", "train.txt",
                     "--method", "implicit", *none)
        self.refused(2, "whole blocks: give --draw blocks", "train", "train.txt", "--method", "prox", "--draw",
                     "uniform", *none)
        self.refused(2, "'compare' runs in one process", "compare", "train.txt")
        self.refused(2, "standard input", "train", "-", *none)
        self.assertFalse(os.path.exists(self.path("other.txt")))

    def test_ranks_compare_options_and_data(self):
        shutil.copy(self.path("train.txt"), self.path("copy.txt"))
        other = self.generate("other.txt", rows=600, classes=200, features=80, seed=2)
        common = ["--method", "prox", "--epochs", "1", "--model", "none"]
        for second, words in (([self.train, "--step", "7"], "same options.*rank 1 differ"),
                              ([other, "--step", "1"], "same data.*rank 1 differ"),
                              ([self.path("copy.txt"), "--step", "1"], None)):
            said = subprocess.run([*MPIRUN, "-n", "1", MPI, "train", self.train, "--step", "1", *common, ":", "-n", "1",
                                   MPI, "train", *second, *common], cwd=self.folder, capture_output=True, text=True,
                                  timeout=LIMIT_SECONDS, check=False)
            if words is None:
                self.assertEqual(said.returncode, 0, said.stderr)
                continue
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertEqual(len(errors(said)), 1, said.stderr)
            self.assertRegex(errors(said)[0], words)

    def test_only_rank_0_writes_files(self):
        said = mpi(3, "train", "train.txt", "--method", "prox", "--epochs", 1, "--model", "none", "--log", "l.jsonl",
                   cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["l.jsonl", "train.txt"])

    def long_run(self):
        run = subprocess.Popen([*MPIRUN, "-n", "3", MPI, "train", "train.txt", "--method", "prox", "--epochs", "100000000",
                                "--model", "none", "--log", "l.jsonl", "--eval-every", "0"], cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        while not os.path.exists(self.path("l.jsonl.part")) or os.path.getsize(self.path("l.jsonl.part")) == 0:
            time.sleep(0.05)
        time.sleep(0.5)
        return run

    def ranks_of(self, run):
        listed = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=False).stdout
        return [int(word) for word in listed.split()]

    def test_a_signal_to_one_rank_stops_all(self):
        run = self.long_run()
        os.kill(self.ranks_of(run)[1], signal.SIGINT)
        run.communicate(timeout=LIMIT_SECONDS)
        end = events(self.path("l.jsonl"))[-1]
        self.assertEqual((end["event"], end["interrupted"]), ("end", True))

    def test_a_dead_rank_ends_all(self):
        run = self.long_run()
        ranks = self.ranks_of(run)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[2], signal.SIGKILL)
        said = run.communicate(timeout=30)[1]
        self.assertNotEqual(run.returncode, 0)
        self.assertNotEqual(said, "")
        end = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{rank}") for rank in ranks):
            self.assertLess(time.monotonic(), end, "a rank is left")
            time.sleep(0.05)


class RealData(ProgramTest):
    def test_bibtex(self):
        arguments = ("train", data_file("bibtex", "train.txt.gz"), "--test", data_file("bibtex", "test.txt.gz"),
                     "--method", "prox", "--step", "1", "--epochs", "1", "--group", "64", *BLOCKS, "--model", "none",
                     "--json")
        one = json.loads(self.fine(*arguments).stdout)
        for ranks in (2, 3):
            other = json.loads(mpi(ranks, *arguments, cwd=self.folder).stdout)
            for part in ("train", "test"):
                self.assertAlmostEqual(other[part]["log_loss"] / one[part]["log_loss"], 1, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
