#!/usr/bin/python3
"""truemax-mpi: runs on 1 to 4 ranks beside the ordinary program, what is refused, and how runs end."""
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

from ranks_support import PROGRAM_OF_RANKS, errors, mpirun, on_different_ranks, on_ranks, ranks_of, require_mpi
from support import LIMIT_SECONDS, ProgramTest, data_file, events, truemax

BLOCKS = ("--draw", "head-blocks", "--head", "16", "--classes-per-step", "32")


def setUpModule():
    require_mpi()


class Runs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 200, rows=600, classes=200,
                                   features=80)

    def result(self, *arguments, ranks=0):
        arguments = ("train", "train.txt", "--test", "test.txt", "--model", "none", "--json", *arguments)
        said = on_ranks(ranks, *arguments, cwd=self.folder) if ranks > 0 else truemax(*arguments, cwd=self.folder)
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

    def test_the_number_of_ranks_changes_no_choice(self):
        # The defaults; few rows, which truemax would solve by Newton's method; a method of all classes.
        for options in (("--method", "prox", "--epochs", 2), ("--encoder", "linear"),
                        ("--method", "exact", "--epochs", 2, "--step", 0.01)):
            runs = {}
            for ranks in (1, 2):
                runs[ranks] = self.result(*options, "--log", f"{ranks}.jsonl", ranks=ranks)
            with self.subTest(options=options):
                logs = [events(self.path(f"{ranks}.jsonl")) for ranks in (1, 2)]
                one, two = ([event["config"] for event in log if event["event"] in ("start", "chosen")] for log in logs)
                for here, there in zip(one, two, strict=True):
                    for name in here.keys() - {"log"}:
                        if isinstance(here[name], float):
                            self.assertAlmostEqual(here[name], there[name], delta=1e-4 * abs(here[name]), msg=name)
                        else:
                            self.assertEqual(here[name], there[name], name)
                self.assertGreater(one[0]["group"], 1)
                self.assertAlmostEqual(runs[2]["train"]["log_loss"] / runs[1]["train"]["log_loss"], 1, delta=1e-5)
        # In truemax, the group asks for the rest.
        again = self.result(*options, "--group", one[0]["group"])
        self.assertEqual(again["train"], runs[1]["train"])

    def test_search_and_table(self):
        said = on_ranks(2, "train", "train.txt", "--test", "test.txt", "--encoder", "linear", "--model", "none",
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
        said = on_ranks(ranks, *arguments, cwd=self.folder)
        self.assertEqual(said.returncode, 2, said.stderr)
        found = errors(said)
        self.assertEqual(len(found), 1, said.stderr)
        self.assertRegex(found[0], words)

    def test_an_error_of_all_is_said_once(self):
        self.refused(3, "no such file", "train", "nowhere.txt")
        self.refused(3, "--method 'none-such'", "train", "train.txt", "--method", "none-such")

    def test_what_ranks_cannot_do_is_refused(self):
        none = ("--model", "none")
        self.refused(2, "whole blocks: give --draw blocks", "train", "train.txt", "--method", "prox", "--draw",
                     "uniform", *none)
        for ranks in (1, 2):
            self.refused(ranks, f"{ranks} ranks?: the method implicit has no groups.*, or use truemax", "train",
                         "train.txt", "--method", "implicit", *none)
        self.refused(1, "'compare' runs in one process", "compare", "train.txt")
        self.refused(2, "--log take the name of a file", "train", "train.txt", "--log", "-", *none)
        self.refused(2, "standard input", "train", "-", *none)
        self.assertFalse(os.path.exists(self.path("other.txt")))

    def refused_beside(self, words, one, other):
        said = on_different_ranks(one, other, cwd=self.folder, seconds=30)
        self.assertEqual(said.returncode, 2, said.stderr)
        self.assertEqual(len(errors(said)), 1, said.stderr)
        self.assertRegex(errors(said)[0], words)
        self.assertNotIn("MPI_", said.stderr)

    def test_ranks_compare_options_and_data(self):
        shutil.copy(self.path("train.txt"), self.path("copy.txt"))
        self.generate("other.txt", rows=600, classes=200, features=80, seed=2)
        common = ("--method", "prox", "--epochs", 1, "--model", "none")
        one = ("train", "train.txt", *common)
        self.refused_beside("same options, but --step is 0.1 on rank 0 and 7.0 on rank 1", one, (*one, "--step", 7))
        self.refused_beside(r"same data, but .* training rows .* on rank 1 \(other.txt\)", one,
                            ("train", "other.txt", *common))
        said = on_different_ranks(one, ("train", "copy.txt", *common), cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)

    def test_ranks_that_use_a_model_compare_options_and_rows(self):
        self.fine("train", "train.txt", "--method", "prox", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        lines = self.read("train.txt").splitlines()
        self.write("reversed.txt", b"\n".join([lines[0], *reversed(lines[1:])]) + b"\n")
        self.write("short.txt", b"\n".join([lines[0].replace(b"600", b"300"), *lines[1:301]]) + b"\n")
        for command, other in (("evaluate", "reversed.txt"), ("predict", "short.txt")):
            one = (command, "m.safetensors", "train.txt")
            self.refused_beside(f"same data.*{other}", one, (command, "m.safetensors", other))
            self.refused_beside("nowhere.txt: no such file", one, (command, "m.safetensors", "nowhere.txt"))
        self.refused_beside("--top is 2 on rank 0 and 5 on rank 1", (*one, "--top", 2), (*one, "--top", 5))

    def test_ranks_compare_what_they_are_told_to_do(self):
        one = ("train", "train.txt", "--model", "none")
        self.refused_beside("it is train on rank 0 and generate on rank 1", one, ("generate", "x.txt"))
        self.refused_beside("it is train on rank 0 and help on rank 1", one, ("--help",))
        self.refused_beside("rank 1: .*--frob; see 'truemax train --help'", one, (*one, "--frob"))
        self.refused_beside("no such file|same command", ("inspect", "x.safetensors"), one)
        self.assertEqual(os.listdir(self.folder), ["train.txt"])

    def test_only_rank_0_writes_files(self):
        said = on_ranks(3, "train", "train.txt", "--method", "prox", "--epochs", 1, "--model", "none", "--log", "l.jsonl",
                   cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertEqual(sorted(os.listdir(self.folder)), ["l.jsonl", "train.txt"])

    def long_run(self, *more):
        run = subprocess.Popen([*mpirun(3), PROGRAM_OF_RANKS, "train", "train.txt", "--method", "prox", "--epochs",
                                "100000000", "--model", "none", "--log", "l.jsonl", "--eval-every", "0", *more],
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        while not os.path.exists(self.path("l.jsonl.part")) or os.path.getsize(self.path("l.jsonl.part")) == 0:
            time.sleep(0.05)
        time.sleep(0.5)
        return run

    def test_a_signal_to_one_rank_stops_all(self):
        run = self.long_run("--checkpoint", "c.tmx")
        os.kill(ranks_of(run)[1], signal.SIGINT)
        said = run.communicate(timeout=LIMIT_SECONDS)[1]
        self.assertEqual(run.returncode, 130, said)
        end = events(self.path("l.jsonl"))[-1]
        self.assertEqual((end["event"], end["interrupted"]), ("end", True))
        # What it tells the user to type goes on, on any number of ranks and in truemax.
        hint = next(line for line in said.splitlines() if line.endswith("--resume")).split()
        self.assertEqual(hint[:5], ["mpirun", "-n", "3", "truemax-mpi", "train"])
        more = [str(end["epochs"] + 1) if word == "100000000" else word for word in hint[4:]]
        losses = []
        for ranks in (0, 2):
            shutil.copy(self.path("c.tmx"), self.path(f"c{ranks}.tmx"))
            words = [f"c{ranks}.tmx" if word == "c.tmx" else word for word in more] + ["--json", "--log", f"{ranks}.jsonl"]
            words.remove("l.jsonl"), words.remove("--log")
            result = on_ranks(ranks, *words, cwd=self.folder) if ranks else truemax(*words, cwd=self.folder)
            self.assertEqual(result.returncode, 0, result.stderr)
            losses.append(json.loads(result.stdout)["train"]["log_loss"])
        self.assertLess(max(losses) / min(losses), 1 + 1e-6)

    def test_mpirun_ends_ranks_by_sigcont_first(self):
        run = self.long_run()
        ranks = ranks_of(run)
        for rank in ranks:  # suspended and continued: not the end
            os.kill(rank, signal.SIGSTOP)
        time.sleep(0.6)
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        time.sleep(1.1)
        self.assertIsNone(run.poll())
        self.assertFalse(os.path.exists(self.path("l.jsonl")))
        for rank in ranks:
            os.kill(rank, signal.SIGCONT)
        said = run.communicate(timeout=LIMIT_SECONDS)[1]
        self.assertEqual(run.returncode, 143, said)
        self.assertTrue(events(self.path("l.jsonl"))[-1]["interrupted"])
        self.assertNotIn("told to end", said)

    def test_a_dead_rank_ends_all(self):
        run = self.long_run()
        ranks = ranks_of(run)
        self.assertEqual(len(ranks), 3)
        os.kill(ranks[2], signal.SIGKILL)
        said = run.communicate(timeout=30)[1]
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(said.count("if one has died or after Ctrl-C. Start it again"), 1, said)
        end = time.monotonic() + 10
        while any(os.path.exists(f"/proc/{rank}") for rank in ranks):
            self.assertLess(time.monotonic(), end, "a rank is left")
            time.sleep(0.05)

    def test_a_dead_rank_is_told_outside_of_training_too(self):
        self.generate("many.txt", rows=20000, classes=200, features=80)
        self.fine("train", "train.txt", "--method", "prox", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        run = subprocess.Popen([*mpirun(2), PROGRAM_OF_RANKS, "evaluate", "m.safetensors", "many.txt"], cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)

        def listens(process):
            with open(f"/proc/{process}/status") as file:
                caught = next(line.split()[1] for line in file if line.startswith("SigCgt"))
            return int(caught, 16) >> (signal.SIGTERM - 1) & 1

        while len(ranks := ranks_of(run)) < 2 or not all(map(listens, ranks)):
            self.assertIsNone(run.poll())
            time.sleep(0.002)
        os.kill(ranks[1], signal.SIGKILL)
        said = run.communicate(timeout=30)[1]
        self.assertNotEqual(run.returncode, 0)
        self.assertEqual(said.count("if one has died or after Ctrl-C. Start it again\n"), 1, said)


class RealData(ProgramTest):
    def test_bibtex(self):
        arguments = ("train", data_file("bibtex", "train.txt.gz"), "--test", data_file("bibtex", "test.txt.gz"),
                     "--method", "prox", "--step", "1", "--epochs", "1", "--group", "64", *BLOCKS, "--model", "none",
                     "--json")
        one = json.loads(self.fine(*arguments).stdout)
        for ranks in (2, 3):
            other = json.loads(on_ranks(ranks, *arguments, cwd=self.folder).stdout)
            for part in ("train", "test"):
                self.assertAlmostEqual(other[part]["log_loss"] / one[part]["log_loss"], 1, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
