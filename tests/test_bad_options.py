"""Options out of range: the message names the option and its range, and nothing is touched."""
import os
import re
import resource
import unittest

from support import OUTPUT, RefusalTest, skip, truemax

DATA = "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n"

# Option, values it must refuse, how the message describes its range.
NOT_NUMBERS = ("abc", "nan", "inf", "1e400", "1x")
TRAIN_OPTIONS = (
    ("--step", ("0", "-1", *NOT_NUMBERS), "above 0"),
    ("--decay", ("0", "-0.5", "1.5", *NOT_NUMBERS), "above 0 to 1"),
    ("--delta", ("-1", *NOT_NUMBERS), "0"),
    ("--epochs", ("-1", "1.5", *NOT_NUMBERS), "whole number"),
    ("--classes-per-step", ("0", "-1", "2.5", *NOT_NUMBERS), "from 1"),
    ("--rows-per-step", ("0", "-1", "2.5", *NOT_NUMBERS), "from 1"),
    ("--max-features", ("-1", "2.5", *NOT_NUMBERS), "from 1 up or 'unlimited'"),
    ("--max-rows", ("-1", "2.5", *NOT_NUMBERS), "from 1 to 4e9 or 'unlimited'"),
    ("--seed", ("-1", "2.5", *NOT_NUMBERS), "from 0"),
    ("--threads", ("-1", "2.5", *NOT_NUMBERS), "from 0|from 1"),
    ("--eval-every", ("-1", "2.5", *NOT_NUMBERS), "from 0|from 1"),
    ("--split-column", ("0", "-1", "2.5", *NOT_NUMBERS), "from 1"),
    ("--memory-limit", ("-1", "5Q", "K", *NOT_NUMBERS), "size"),
    ("--draw-power", ("-1", "11", *NOT_NUMBERS), "from 0 to 10"),
    ("--draw-uniform", ("0", "1.5", *NOT_NUMBERS), "to 1"),
    ("--head", ("-1", "2.5", *NOT_NUMBERS), "from 0"),
    ("--active", ("0", "5000", *NOT_NUMBERS), "from 1 to 4096"),
)
CHOICES = (
    ("--method", "newton", "implicit.*umax"),
    ("--draw", "poisson", "uniform.*all.*frequency.*blocks.*head-blocks.*active"),
    ("--visit", "backwards", "random.*shuffle.*file"),
    ("--labels", "second", "first.*all"),
    ("--normalize", "l1", "none.*l2"),
    ("--format", "csv", "xmlrepository.*libsvm"),
)
GENERATE_OPTIONS = (
    ("--rows", ("0", "-1", "2.5", *NOT_NUMBERS)),
    ("--features", ("0", "-1", "2.5", *NOT_NUMBERS)),
    ("--classes", ("0", "-1", "2.5", *NOT_NUMBERS)),
    ("--nonzeros", ("0", "-1", *NOT_NUMBERS)),
    ("--skew", ("-1", *NOT_NUMBERS)),
    ("--separability", ("-1", *NOT_NUMBERS)),
    ("--seed", ("-1", "2.5", *NOT_NUMBERS)),
    ("--test-rows", ("-1", "2.5", *NOT_NUMBERS)),
)


class BadOption(RefusalTest):
    def setUp(self):
        super().setUp()
        self.good = self.write("good.txt", DATA)

    def test_numbers_out_of_range(self):
        for option, values, words in TRAIN_OPTIONS:
            for value in values:
                with self.subTest(option=option, value=value):
                    self.refused(["train", self.good, f"{option}={value}", *OUTPUT], option, re.escape(value), words)

    def test_numbers_out_of_range_as_separate_words(self):
        """`--step -1` too, not only `--step=-1`."""
        for option, values, words in TRAIN_OPTIONS:
            for value in (values[0], "-7"):
                with self.subTest(option=option, value=value):
                    self.refused(["train", self.good, option, value, *OUTPUT], option, re.escape(value), words)

    def test_unknown_choices(self):
        for option, value, words in CHOICES:
            with self.subTest(option):
                self.refused(["train", self.good, option, value, *OUTPUT], option, value, words)

    def test_generate(self):
        for option, values in GENERATE_OPTIONS:
            for value in values:
                with self.subTest(option=option, value=value):
                    self.refused(["generate", "new.txt", f"{option}={value}"], option, re.escape(value),
                                 "from|above|whole number|number")
        with self.subTest("more features a row than there are"):
            self.refused(["generate", "new.txt", "--features", 5, "--nonzeros", 6], "--nonzeros", "5")
        with self.subTest("a format that is no text"):
            self.refused(["generate", "new.txt", "--format", "idx"], "--format")

    def test_out_of_memory_names_options_of_the_command(self):
        def little_memory():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

        if truemax("--version", before=little_memory).returncode != 0:
            skip("this build does not start in 1 GB of addresses (a sanitizer's needs more)")
        self.write("new.txt", "older data")
        for size in (200000000, 4294967294):  # too much for the limit, too much for most machines
            message = self.refused(["generate", "new.txt", "--features", size], "--features", "--classes",
                                   before=little_memory)
            self.assertNotIn("--max", message)

    def test_generate_keeps_an_older_file_when_refused(self):
        self.write("new.txt", "older data")
        self.refused(["generate", "new.txt", "--rows", "0"], "--rows")
        self.refused(["generate", "new.txt", "--nonzeros", "5", "--features", "4"], "--nonzeros")
        self.refused(["generate", "new.txt", "--test", "absent/t.txt", "--test-rows", "5"], "--test absent/t.txt")

    def test_predict(self):
        self.fine("train", self.good, "--epochs", 1, "--model", "good.safetensors", "--log", "none")
        for value in ("0", "-1", "2.5", *NOT_NUMBERS):
            with self.subTest(value):
                self.refused(["predict", "good.safetensors", self.good, f"--top={value}"], "--top", re.escape(value),
                             "from 1")

    def test_steps_larger_than_the_data(self):
        self.refused(["train", self.good, "--method", "umax", "--classes-per-step", 10**6, *OUTPUT],
                     "--classes-per-step", "1000000", "at most")
        self.refused(["train", self.good, "--method", "umax", "--rows-per-step", 10**6, *OUTPUT], "--rows-per-step",
                     "1000000", "at most")

    def test_draw_that_takes_one_row_per_step(self):
        self.refused(["train", self.good, "--method", "umax", "--draw", "active", "--rows-per-step", 2, *OUTPUT], "--rows-per-step 2",
                     "the draw active is for --rows-per-step 1")

    def test_options_without_effect_get_a_note(self):
        for method, arguments, option in (("implicit", ["--delta", 2], "--delta"),
                                          ("vanilla", ["--no-log-q"], "--log-q"),
                                          ("umax", ["--refresh", 2], "--refresh"),
                                          ("exact", ["--classes-per-step", 3], "--classes-per-step"),
                                          ("ove", ["--double-sum-alpha", 1], "--double-sum-alpha"),
                                          ("exact", ["--draw", "all"], "--draw"),
                                          ("exact", ["--head", 3], "--head"),
                                          ("umax", ["--head", 3], "--head"),
                                          ("umax", ["--draw", "blocks", "--active", 3], "--active"),
                                          ("umax", ["--draw", "all", "--classes-per-step", 1], "--classes-per-step"),
                                          ("implicit", ["--rho", 1], "--rho"),
                                          ("sox", ["--no-rho-falls"], "--rho-falls"),
                                          ("scent", ["--sox-rate", 0.5], "--sox-rate"),
                                          ("bsgd", ["--softplus-bend", 0.5], "--softplus-bend"),
                                          ("implicit", ["--ridge-intercept"], "--ridge-intercept")):
            with self.subTest(option):
                said = self.fine("train", self.good, "--method", method, "--epochs", 1, "--step", 0.01, *arguments,
                                 "--model", "none", "--log", "none").stderr
                self.assertIn(f"{option} has no effect", said)
        said = self.fine("train", self.good, "--method", "umax", "--epochs", 1, "--delta", 2, "--model", "none", "--log",
                         "none").stderr
        self.assertNotIn("no effect", said)

    def test_commands_and_option_names(self):
        self.refused(["tarin", self.good], "tarin")
        self.refused(["train", self.good, "--stepp", "1", *OUTPUT], "--stepp")
        self.refused(["train", *OUTPUT], "TRAIN")
        self.refused(["train", self.good, "--step"], "--step")
        self.refused(["evaluate", "M.safetensors"], "DATA")
        self.refused(["predict"], "MODEL")
        self.refused(["train", self.good, self.good, *OUTPUT], "good.txt")
        self.refused(["train", self.good, "--step", "1", "--step", "2", *OUTPUT], "--step is given 2 times; give it once")

    def test_where_to_write(self):
        os.mkdir(self.path("folder"))
        for option in ("--model", "--log"):
            with self.subTest(option):
                self.refused(["train", self.good, option, "absent/file"], option, "absent", "folder")
                self.refused(["train", self.good, option, "folder"], option, "folder")
                self.refused(["train", self.good, option, ""], option)
        self.refused(["generate", "absent/new.txt"], "absent")

    def test_a_model_never_replaces_a_device(self):
        """A rename onto /dev/null would replace the device; the test uses a named pipe instead."""
        os.mkfifo(self.path("pipe"))
        before = os.lstat(self.path("pipe"))
        result = truemax("train", self.good, "--epochs", 1, "--model", "pipe", "--log", "none", cwd=self.folder)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^truemax: error: --model pipe.*; \S")
        self.assertEqual(os.lstat(self.path("pipe")), before)

    def test_outputs_that_are_inputs_or_each_other(self):
        """Writing the log must not overwrite the rows, nor the model the log."""
        for outputs in (["--model", "good.txt", "--log", "none"], ["--model", "none", "--log", self.good],
                        ["--model", "none", "--log", "./good.txt"], ["--model", "none", "--log", self.path("test.txt")],
                        ["--model", "RUN.jsonl", "--log", "RUN.jsonl"]):
            with self.subTest(outputs):
                self.write("good.txt", DATA)
                self.write("test.txt", DATA)
                self.refused(["train", "good.txt", "--test", "test.txt", "--epochs", 1, *outputs], "--model|--log")
        with self.subTest("generate"):
            self.refused(["generate", "new.txt", "--test", "new.txt", "--test-rows", 5], "new.txt")
            self.refused(["generate", "new.txt", "--test", "./new.txt", "--test-rows", 5], r"--test \./new\.txt")

    def test_too_little_memory(self):
        message = self.refused(["train", self.good, "--memory-limit", "1K", *OUTPUT], "--memory-limit", "memory")
        self.assertGreaterEqual(len(re.findall(r"\d", message)), 2, "both numbers are said: " + message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
