"""The whole program through its command line: run log, seeds, threads, Ctrl-C, defaults, step sizes, exit codes."""
import fcntl
import json
import math
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import numpy as np

import model_reader
from support import LIMIT_SECONDS, OLDER_MODEL, PROGRAM, ProgramTest, events, last_evaluation, truemax

# The command contract: other tools use exactly these options, and every option has a default.
CONTRACT = {
    "method": "implicit", "step": 10, "decay": 0.9, "epochs": 50, "classes-per-step": 1, "rows-per-step": 1,
    "draw": "uniform", "visit": "random", "labels": "first", "max-features": 10000, "max-rows": 100000,
    "normalize": "l2", "seed": 1, "threads": 1, "eval-every": 10,
}


def contract(**changes):
    """The contract's options as arguments, with changes."""
    options = {**CONTRACT, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return [word for name, value in options.items() for word in (f"--{name}", str(value))]


class RunLog(ProgramTest):
    def run_of(self, *more, **changes):
        train = self.generate("train.txt", "--test", "test.txt", "--test-rows", 100)
        self.fine("train", train, "--test", "test.txt", *contract(**changes), "--model", "M.safetensors", "--log",
                  "RUN.jsonl", *more)
        return events(self.path("RUN.jsonl"))

    def test_events_and_their_fields(self):
        log = self.run_of(epochs=7, eval_every=3)
        self.assertEqual([e["event"] for e in log][0], "start")
        self.assertEqual([e["event"] for e in log][-1], "end")
        start, evaluations, end = log[0], [e for e in log if e["event"] == "evaluate"], log[-1]
        self.assertEqual([e["event"] for e in log], ["start"] + ["evaluate"] * len(evaluations) + ["end"])
        rows, features = model_reader.read_xmlrepository(self.path("train.txt"))
        rows, *_ = model_reader.prepare(rows, {"max-features": 10000, "normalize": "l2"})
        self.assertEqual(start["data"]["rows"], len(rows))
        self.assertEqual(start["data"]["features"], features)
        self.assertEqual(start["data"]["classes"], len({row.labels[0] for row in rows}))
        self.assertEqual(start["data"]["nonzeros"], sum(len(row.features) for row in rows))
        seconds = -1.0
        for e in evaluations:
            self.assertEqual(set(e) & {"epoch", "train_seconds", "train", "test"},
                             {"epoch", "train_seconds", "train", "test"})
            self.assertGreaterEqual(e["train_seconds"], seconds)
            seconds = e["train_seconds"]
            for part in ("train", "test"):
                self.assertTrue(math.isfinite(e[part]["log_loss"]))
                self.assertTrue(0 <= e[part]["error"] <= 1)
            self.assertIsInstance(e["test"]["unseen"], int)
        self.assertFalse(end.get("interrupted", False))

    def test_config_holds_every_option_of_the_command(self):
        config = self.run_of(epochs=2)[0]["config"]
        for name, value in {**CONTRACT, "epochs": 2}.items():
            self.assertIn(name, config)
            self.assertEqual(config[name], value, name)
        for name in ("delta", "intercept", "format"):
            self.assertIn(name, config)

    def test_epoch_counts_finished_epochs_up_to_the_last(self):
        for epochs, every, wanted in ((7, 3, [3, 6, 7]), (6, 3, [3, 6]), (5, 10, [5]), (1, 10, [1]), (3, 1, [1, 2, 3]),
                                      (4, 0, [4])):
            with self.subTest(epochs=epochs, every=every):
                log = self.run_of(epochs=epochs, eval_every=every)
                seen = [e["epoch"] for e in log if e["event"] == "evaluate"]
                self.assertEqual([e for e in seen if e != 0], wanted)

    def test_without_test_file_there_is_no_test_part(self):
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "none", "--log", "RUN.jsonl")
        self.assertFalse(last_evaluation(self.path("RUN.jsonl")).get("test"))

    def test_evaluations_of_a_long_run_match_shorter_runs(self):
        """Evaluation changes nothing: the loss after e epochs does not depend on how often it is evaluated."""
        often = {e["epoch"]: e["train"]["log_loss"] for e in self.run_of(epochs=6, eval_every=1)
                 if e["event"] == "evaluate"}
        seldom = {e["epoch"]: e["train"]["log_loss"] for e in self.run_of(epochs=6, eval_every=4)
                  if e["event"] == "evaluate"}
        self.assertEqual(seldom[6], often[6])
        self.assertEqual(seldom[4], often[4])

    def test_numbers_keep_all_their_digits(self):
        """The log and evaluate give the same number, bit for bit."""
        log = self.run_of(epochs=2)
        said = self.metrics("M.safetensors", "test.txt")
        self.assertEqual(log[-2]["test"]["log_loss"], said["log_loss"])
        self.assertEqual(log[-2]["test"]["error"], said["error"])

    def test_first_loss_is_log_K(self):
        """A tiny step leaves W near 0: every class is equally likely."""
        log = self.run_of(epochs=1, step=1e-12)
        K = log[0]["data"]["classes"]
        self.assertAlmostEqual(log[-2]["train"]["log_loss"], math.log(K), delta=1e-6)


class SeedsAndThreads(ProgramTest):
    METHODS = (("implicit", ()), ("umax", ("--classes-per-step", 3)))

    def model(self, train, name, *options):
        self.fine("train", train, "--epochs", 3, "--step", 1, "--model", name, "--log", "none", *options)
        return self.read(name)

    def test_same_seed_same_bytes_other_seed_other_bytes(self):
        train = self.generate("train.txt")
        for method, more in self.METHODS:
            for visit in ("random", "shuffle", "file"):
                with self.subTest(method=method, visit=visit):
                    options = ("--method", method, "--visit", visit, *more)
                    first = self.model(train, "a.safetensors", *options, "--seed", 1)
                    os.remove(self.path("a.safetensors"))
                    again = self.model(train, "a.safetensors", *options, "--seed", 1)
                    self.assertEqual(first, again)
                    other = self.model(train, "a.safetensors", *options, "--seed", 2)
                    weight = [model_reader.read_model(self.write("w", m))[1]["weight"] for m in (first, other)]
                    self.assertFalse(np.array_equal(*weight), "another seed draws other classes")

    def test_weights_do_not_depend_on_the_file_name(self):
        train = self.generate("train.txt")
        self.model(train, "a.safetensors", "--method", "implicit", "--seed", 1)
        self.model(train, "b.safetensors", "--method", "implicit", "--seed", 1)
        a, b = (model_reader.read_model(self.path(name))[1]["weight"] for name in ("a.safetensors", "b.safetensors"))
        self.assertTrue(np.array_equal(a, b))

    def test_visit_orders_differ(self):
        train = self.generate("train.txt")
        weights = []
        for visit in ("random", "shuffle", "file"):
            self.model(train, "a.safetensors", "--method", "implicit", "--visit", visit, "--seed", 1)
            weights.append(model_reader.read_model(self.path("a.safetensors"))[1]["weight"].tobytes())
        self.assertEqual(len(set(weights)), 3)

    def test_threads_do_not_change_the_evaluation(self):
        train = self.generate("train.txt", rows=3000, classes=200, features=300)
        self.model(train, "a.safetensors", "--method", "implicit")
        one, two = (self.metrics("a.safetensors", train, "--threads", n) for n in (1, 2))
        self.assertEqual(one, two)
        for n in (1, 2):
            self.fine("train", train, "--method", "implicit", "--epochs", 2, "--seed", 1, "--threads", n, "--model",
                      f"{n}.safetensors", "--log", f"{n}.jsonl")
        a, b = (last_evaluation(self.path(f"{n}.jsonl")) for n in (1, 2))
        self.assertEqual(a["train"], b["train"])
        predicted = [self.fine("predict", "a.safetensors", train, "--threads", n, "--json").stdout for n in (1, 2)]
        self.assertEqual(*predicted)


def default_signals():
    """The tests may be run with signals ignored."""
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_DFL)


class CtrlC(ProgramTest):
    def evaluations(self):
        """The number in the log: with --eval-every 1, the finished epochs."""
        return self.read("RUN.jsonl.part").count(b'"evaluate"') if os.path.exists(self.path("RUN.jsonl.part")) else 0

    def wait_for_epochs(self, process, count):
        """Waits until this many are finished."""
        while self.evaluations() < count:
            self.assertIsNone(process.poll(), "the run ended by itself")
            time.sleep(0.02)

    def interrupted_run(self, method, sig):
        train = self.generate("train.txt", rows=2000, classes=50, features=200)
        process = subprocess.Popen(
            [PROGRAM, "train", train, "--method", method, "--epochs", "1000000", "--step", "0.1", "--decay", "1",
             "--eval-every", "1", "--model", "M.safetensors", "--log", "RUN.jsonl"],
            cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default_signals)
        try:
            self.wait_for_epochs(process, 3)
            process.send_signal(sig)
            output, errors = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 130, errors.decode())
        log = events(self.path("RUN.jsonl"))
        self.assertEqual((log[0]["event"], log[-1]["event"]), ("start", "end"))
        self.assertIs(log[-1]["interrupted"], True)
        self.assertLess(log[-1]["epochs"], 1000000)
        said = self.metrics("M.safetensors", train)
        self.assertTrue(math.isfinite(said["log_loss"]))
        self.assertLess(said["log_loss"], math.log(50), "what was learnt until then is saved")
        self.assertEqual(sorted(os.listdir(self.folder)), ["M.safetensors", "RUN.jsonl", "train.txt"])

    def test_saves_and_exits_with_130(self):
        for method in ("implicit", "umax"):
            with self.subTest(method):
                for name in os.listdir(self.folder):
                    os.remove(self.path(name))
                self.interrupted_run(method, signal.SIGINT)

    def test_ignored_signal_stays_ignored(self):
        """As under nohup and in background jobs of a shell."""
        train = self.generate("train.txt", rows=2000, classes=50, features=200)

        def ignore():
            for sig in (signal.SIGINT, signal.SIGHUP):
                signal.signal(sig, signal.SIG_IGN)

        process = subprocess.Popen([PROGRAM, "train", train, "--method", "implicit", "--epochs", "1000000",
                                    "--eval-every", "1", "--model", "none", "--log", "RUN.jsonl"], cwd=self.folder, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=ignore)
        try:
            self.wait_for_epochs(process, 1)
            for sig in (signal.SIGINT, signal.SIGHUP):
                process.send_signal(sig)
            self.wait_for_epochs(process, self.evaluations() + 3)  # it is still running
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_generate_leaves_nothing_behind(self):
        self.write("big.txt", "older data")
        process = subprocess.Popen([PROGRAM, "generate", "big.txt", "--rows", "1000000", "--classes", "1000001",
                                    "--features", "100000", "--nonzeros", "2000"], cwd=self.folder,
                                   stderr=subprocess.PIPE, preexec_fn=default_signals)
        try:
            while len(os.listdir(self.folder)) < 2:
                self.assertIsNone(process.poll(), "writing never began")
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
            process.wait()
        self.assertEqual(process.returncode, 130)
        self.assertEqual((os.listdir(self.folder), self.read("big.txt")), (["big.txt"], b"older data"))

    def test_while_reading_there_is_nothing_to_save(self):
        """Standard input stays open and silent; Ctrl-C ends the run and keeps an older model."""
        self.write("M.safetensors", OLDER_MODEL)
        process = subprocess.Popen([PROGRAM, "train", "-", "--model", "M.safetensors", "--log", "none"],
                                   cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=default_signals)
        try:
            process.stdin.write(b"3 5 3\n0 0:1\n")
            process.stdin.flush()
            waiting = 1
            while waiting > 0:  # until it has read all of it
                self.assertIsNone(process.poll(), "the run ended by itself")
                waiting, = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4))
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
            process.communicate()
        self.assertIn(process.returncode, (130, -signal.SIGINT))
        self.assertEqual(self.read("M.safetensors"), OLDER_MODEL.encode())
        self.assertEqual(os.listdir(self.folder), ["M.safetensors"])


class Defaults(ProgramTest):
    def test_train_alone(self):
        """The result is better than the class frequencies; model and log go to the current folder."""
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 300, rows=2000)
        self.fine("train", "train.txt")
        files = set(os.listdir(self.folder))
        self.assertEqual(files - {"train.txt", "test.txt"}, {"model.safetensors", "model.jsonl"})
        rows, _ = model_reader.read_xmlrepository(self.path("test.txt"))
        said = self.metrics("model.safetensors", "test.txt")
        about, _ = model_reader.read_model(self.path("model.safetensors"))
        share = dict(zip(about["classes"], np.array(about["class_counts"]) / sum(about["class_counts"])))
        baseline = np.mean([-math.log(share[row.labels[0]]) for row in rows if row.labels and row.labels[0] in share])
        self.assertLess(said["log_loss"], baseline)

    def test_a_second_run_keeps_the_first_model(self):
        self.generate("train.txt")
        for _ in range(3):
            self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1)
        files = set(os.listdir(self.folder)) - {"train.txt"}
        self.assertEqual(files, {f"model{n}.{kind}" for n in ("", "-2", "-3") for kind in ("safetensors", "jsonl")})

    def test_none_writes_nothing(self):
        self.generate("train.txt")
        self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1, "--model", "none", "--log", "none")
        self.assertEqual(os.listdir(self.folder), ["train.txt"])

    def test_named_model_is_replaced_and_its_log_put_beside_it(self):
        self.generate("train.txt")
        os.mkdir(self.path("out"))
        for seed in (1, 2):
            self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1, "--seed", seed, "--model",
                      "out/m.safetensors")
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["m.jsonl", "m.safetensors"])
        self.assertEqual(events(self.path("out/m.jsonl"))[0]["config"]["seed"], 2)

    def test_model_behind_a_symbolic_link_is_replaced_in_place(self):
        self.generate("train.txt")
        os.mkdir(self.path("far"))
        self.write("far/m.safetensors", OLDER_MODEL)
        os.symlink("far/m.safetensors", self.path("m.safetensors"))
        self.fine("train", "train.txt", "--method", "implicit", "--epochs", 1, "--model", "m.safetensors",
                  "--log", "none")
        self.assertTrue(os.path.islink(self.path("m.safetensors")))
        self.assertGreater(model_reader.read_model(self.path("far/m.safetensors"))[1]["weight"].size, 0)

    def test_command_contract(self):
        self.generate("TRAIN", "--test", "TEST", "--test-rows", 50)
        command = ("train TRAIN --test TEST --method implicit --step 10 --decay 0.9 --epochs 50 --classes-per-step 1 "
                   "--rows-per-step 1 --draw uniform --visit random --labels first --max-features 10000 "
                   "--max-rows 100000 --normalize l2 --seed 1 --threads 1 --eval-every 10 --model M.safetensors "
                   "--log RUN.jsonl")
        self.fine(*command.split())
        log = events(self.path("RUN.jsonl"))
        self.assertEqual([e.get("epoch") for e in log if e["event"] == "evaluate" and e["epoch"]], [10, 20, 30, 40, 50])

    def test_naming_only_the_method_uses_the_stated_defaults(self):
        self.generate("train.txt")
        self.fine("train", "train.txt", "--method", "umax", "--log", "RUN.jsonl", "--model", "none")
        config = events(self.path("RUN.jsonl"))[0]["config"]
        self.assertEqual((config["rows-per-step"], config["classes-per-step"], config["draw"], config["decay"],
                          config["intercept"], config["delta"], config["visit"]), (1, 1, "uniform", 0.9, False, 1,
                                                                                  "random"))


class Inputs(ProgramTest):
    """No output may overwrite an input, even one that the program found by itself."""

    def test_outputs_never_replace_an_input(self):
        np.save(self.path("X.npy"), np.eye(4, dtype=np.float32))
        np.save(self.path("y.npy"), np.array([0, 1, 0, 1]))
        before = self.read("X.npy"), self.read("y.npy")
        for data, output in (("X.npy", "y.npy"), ("X.npy", "X.npy"), ("X.npy,y.npy", "X.npy"), ("X.npy,y.npy", "./y.npy")):
            for option in ("--log", "--model"):
                with self.subTest(data=data, output=output, option=option):
                    result = truemax("train", data, option, output, cwd=self.folder)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertRegex(result.stderr, "input of the run|is not a (model|run log); give another name")
                    self.assertEqual((self.read("X.npy"), self.read("y.npy")), before)


class ExtremeSteps(ProgramTest):
    def test_every_step_size_is_finite_or_diverges_cleanly(self):
        """implicit always stays finite; umax may diverge, with exit code 3."""
        train = self.generate("train.txt", rows=500)
        for method, more in (("implicit", ()), ("umax", ("--classes-per-step", 5))):
            for power in range(-12, 13):
                with self.subTest(method=method, step=f"1e{power}"):
                    self.write("M.safetensors", OLDER_MODEL)
                    result = truemax("train", train, "--method", method, *more, "--step", f"1e{power}", "--epochs", 3,
                                     "--normalize", "l2", "--model", "M.safetensors", "--log", "RUN.jsonl",
                                     cwd=self.folder)
                    if method == "umax" and result.returncode == 3:
                        self.assertRegex(result.stderr, r"(?m)^truemax: error: .*diverged.*--step")
                        continue
                    self.assertEqual(result.returncode, 0, result.stderr)
                    _, tensors = model_reader.read_model(self.path("M.safetensors"))
                    self.assertTrue(np.isfinite(tensors["weight"]).all())
                    for e in events(self.path("RUN.jsonl")):
                        if e["event"] == "evaluate":
                            self.assertTrue(math.isfinite(e["train"]["log_loss"]))


class Divergence(ProgramTest):
    def test_exit_code_3_says_what_to_try_and_leaves_a_finite_model(self):
        """U-max with features of 1e30 and an absurd step leaves the range of float32."""
        self.write("train.txt", "4 3 3\n0 0:1e30 1:1e30\n1 1:1e30\n2 2:1e30\n0 0:1e30\n")
        result = truemax("train", "train.txt", "--method", "umax", "--step", "1e12", "--epochs", 5, "--normalize",
                         "none", "--model", "M.safetensors", "--log", "RUN.jsonl", cwd=self.folder)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^truemax: error: .*diverged.*--step")
        self.assertEqual(events(self.path("RUN.jsonl"))[-1]["event"], "end")
        if os.path.exists(self.path("M.safetensors")):
            self.assertTrue(np.isfinite(model_reader.read_model(self.path("M.safetensors"))[1]["weight"]).all())
            self.fine("predict", "M.safetensors", "train.txt")


class Terminal(ProgramTest):
    def test_quiet_in_pipes(self):
        """No carriage returns, escape codes or progress lines."""
        train = self.generate("train.txt", rows=5000, classes=100)
        for arguments in (["train", train, "--method", "implicit", "--epochs", 20, "--model", "m.safetensors"],
                          ["evaluate", "m.safetensors", train], ["predict", "m.safetensors", train],
                          ["inspect", "m.safetensors"], ["generate", "more.txt", "--rows", 1000], ["--help"]):
            with self.subTest(arguments[0]):
                result = self.fine(*arguments)
                for text in (result.stdout, result.stderr):
                    self.assertNotIn("\r", text)
                    self.assertNotIn("\x1b", text)

    def test_memory_is_printed_before_the_run(self):
        train = self.generate("train.txt")
        said = self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "none", "--log", "none")
        self.assertRegex(said.stdout + said.stderr, r"(?i)memory.*\d+(\.\d+)? (bytes|[KMG]B)")

    def test_memory_limit_refuses_with_the_numbers(self):
        train = self.generate("train.txt")
        for arguments in (["train", train, "--memory-limit", "1K", "--model", "m.safetensors", "--log", "none"],):
            result = truemax(*arguments, cwd=self.folder)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, r"(?m)^truemax: error: .*\d+(\.\d+)? [KMG]B.* 1(\.0)? KB.*--memory-limit")
        self.assertEqual(os.listdir(self.folder), ["train.txt"])

    def test_help_of_every_command(self):
        for arguments in (["--help"], ["help"], *([command, "--help"] for command in
                                                 ("train", "evaluate", "predict", "inspect", "generate"))):
            with self.subTest(" ".join(arguments)):
                result = self.fine(*arguments)
                self.assertRegex(result.stdout, r"(?i)example")
                self.assertRegex(result.stdout, r"(?m)^\s+(\$ )?truemax \w+")
        text = self.fine("train", "--help-all").stdout
        for name in (*CONTRACT, "model", "log", "test", "delta", "intercept", "memory-limit", "format", "split",
                     "split-column", "test-split"):
            self.assertRegex(text, rf"--{name}\b")

    def test_version(self):
        self.assertRegex(self.fine("--version").stdout, r"\d+\.\d+\.\d+")

    def test_exit_codes(self):
        self.assertEqual(truemax(cwd=self.folder).returncode, 2)
        self.assertEqual(truemax("nonsense", cwd=self.folder).returncode, 2)
        self.assertEqual(truemax("train", "absent", cwd=self.folder).returncode, 2)
        self.assertEqual(truemax("--help", cwd=self.folder).returncode, 0)

    def test_only_results_go_to_stdout(self):
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        for line in self.fine("predict", "m.safetensors", train, "--json").stdout.splitlines():
            json.loads(line)
        json.loads(self.fine("evaluate", "m.safetensors", train, "--json").stdout)

    def test_full_standard_output_is_an_error(self):
        """Predictions lost on a full disk must not look like success."""
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        with open("/dev/full", "wb") as full:
            result = subprocess.run([PROGRAM, "predict", "m.safetensors", train], cwd=self.folder, stdout=full,
                                    stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn(b"truemax: error: ", result.stderr)
        for arguments in (["train", "--help"], ["help"], ["--version"], ["options"], ["methods"],
                          ["inspect", "m.safetensors"], ["evaluate", "m.safetensors", train],
                          ["train", train, "--epochs", "1", "--model", "none", "--log", "none"]):
            for closed in (False, True):
                with self.subTest(arguments, closed=closed), open("/dev/full", "wb") as full:
                    result = subprocess.run([PROGRAM, *arguments], cwd=self.folder, stdout=full, stderr=subprocess.PIPE,
                                            timeout=60, preexec_fn=(lambda: os.close(1)) if closed else None)
                    self.assertEqual((result.returncode, result.stderr.decode()),
                                     (2, "truemax: error: standard output could not be written; is the disk full?\n"))

    def test_a_failed_write_ends_the_prediction_of_endless_rows(self):
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        with open(os.path.join(self.folder, train), "rb") as file:
            row = file.read().splitlines()[-1]
        for threads in (1, 2):
            with self.subTest(threads=threads), open("/dev/full", "wb") as full, \
                    subprocess.Popen(["yes", row], stdout=subprocess.PIPE) as rows:
                result = subprocess.run([PROGRAM, "predict", "m.safetensors", "-", "--threads", str(threads)], cwd=self.folder,
                                        stdin=rows.stdout, stdout=full, stderr=subprocess.PIPE, timeout=60)
                rows.kill()
            self.assertEqual((result.returncode, result.stderr.decode()),
                             (2, "truemax: error: standard output could not be written; is the disk full?\n"))

    def test_one_thread_answers_rows_of_a_pipe_that_pauses(self):
        train = self.generate("train.txt")
        self.fine("train", train, "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        with open(os.path.join(self.folder, train), "rb") as file:
            row = file.read().splitlines()[-1]
        for threads in (1, 2):
            with self.subTest(threads=threads), \
                    subprocess.Popen([PROGRAM, "predict", "m.safetensors", "-", "--threads", str(threads)], cwd=self.folder,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as program:
                for _ in range(3):
                    program.stdin.write(3 * (row + b"\n"))
                    program.stdin.flush()
                    for _ in range(3):
                        self.assertTrue(select.select([program.stdout], [], [], 30)[0], "no answer while the pipe pauses")
                        self.assertIn(b"\t", program.stdout.readline())
                program.stdin.close()
                self.assertEqual(program.wait(30), 0)

    def test_closed_standard_error_changes_nothing(self):
        train = self.generate("train.txt")
        for arguments, code in ((["train", "absent"], 2), (["nonsense"], 2),
                                (["train", train, "--epochs", 1, "--model", "m.safetensors", "--log", "none"], 0)):
            with self.subTest(arguments):
                result = truemax(*arguments, cwd=self.folder, before=lambda: os.close(2))
                self.assertEqual(result.returncode, code)
        self.fine("inspect", "m.safetensors")

    def test_lost_terminal_does_not_stop_the_training(self):
        """SIGHUP is ignored, as under nohup; the progress line cannot be written."""
        train = self.generate("train.txt", rows=2000, classes=50)
        screen, line = pty.openpty()
        process = subprocess.Popen([PROGRAM, "train", train, "--epochs", "2000", "--eval-every", "100", "--model",
                                    "m.safetensors", "--log", "none"], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=line, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        os.close(line)
        self.assertTrue(os.read(screen, 10))
        os.close(screen)
        self.assertEqual(process.wait(timeout=LIMIT_SECONDS), 0)
        self.fine("inspect", "m.safetensors")

    def test_quiet_prints_nothing(self):
        self.write("train.txt", "1,2 1:1 2:2\n2 1:1\n3 2:1\n")  # read as libsvm, which is worth a note
        arguments = ["train", "train.txt", "--epochs", 1, "--model", "none", "--log", "none"]
        self.assertIn("note", self.fine(*arguments).stderr)
        result = self.fine(*arguments, "--quiet")
        self.assertEqual((result.stdout, result.stderr), ("", ""))

    def test_last_of_a_switch_and_its_opposite_wins(self):
        train = self.generate("train.txt")
        for switches, wanted in ((["--intercept", "--no-intercept"], False), (["--no-intercept", "--intercept"], True),
                                 (["--intercept", "--intercept", "--no-intercept"], False)):
            with self.subTest(switches):
                self.fine("train", train, "--epochs", 1, *switches, "--model", "m.safetensors", "--log", "none")
                self.assertIs(json.loads(self.fine("inspect", "m.safetensors", "--json").stdout)["intercept"], wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
