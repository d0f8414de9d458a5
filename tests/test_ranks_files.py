#!/usr/bin/python3
"""Files and commands of truemax-mpi: models as one file or a set, loaded by any number of ranks; checkpoints that
another number of ranks resumes; commands that are not shared out."""
import json
import os
import shutil
import sys
import unittest

from model_reader import read_model
from ranks_support import errors, on_ranks, require_mpi
from support import PACKAGE, ProgramTest, truemax

LINEAR = ("--method", "prox", "--step", 1, "--ridge", 0.1, "--intercept", "--group", 64, "--log", "none")
LEARNT = ("--method", "scent", "--hidden", 12, "--rows-per-step", 32, "--step", 0.01, "--log", "none")


class RanksTest(ProgramTest):
    def setUp(self):
        require_mpi()
        super().setUp()
        self.generate("train.txt", "--test", "test.txt", "--test-rows", 150, rows=1500, features=80, classes=150)

    def shared(self, ranks, *arguments):
        """Runs truemax-mpi in the test's folder; it must succeed."""
        result = on_ranks(ranks, *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 0, f"{arguments}\n{result.stdout}\n{result.stderr}")
        self.assertEqual(errors(result), [])
        return result

    def loss_on_ranks(self, ranks, model, *more):
        return json.loads(self.shared(ranks, "evaluate", model, "test.txt", "--json", *more).stdout)

    def refused(self, ranks, *arguments):
        """The one message of a run that must be refused."""
        result = on_ranks(ranks, *arguments, cwd=self.folder)
        self.assertEqual(result.returncode, 2, f"{arguments}\n{result.stdout}\n{result.stderr}")
        said = errors(result)
        self.assertEqual(len(said), 1, result.stderr)
        return said[0]

    def assert_close(self, one, other, relative=1e-6):
        self.assertLessEqual(abs(one - other), relative * abs(other), (one, other))


class Models(RanksTest):
    def test_one_rank_writes_the_file_of_the_ordinary_program(self):
        self.fine("train", "train.txt", *LINEAR, "--epochs", 2, "--model", "one.safetensors")
        self.shared(1, "train", "train.txt", *LINEAR, "--epochs", 2, "--model", "mpi.safetensors")
        self.assertEqual(self.read("one.safetensors"), self.read("mpi.safetensors"))

    def test_both_forms_are_read_by_any_number_of_ranks(self):
        for name, options in (("linear", LINEAR), ("learnt", LEARNT), ("shard", (*LEARNT, "--shard-embedding"))):
            for form in ((), ("--split-model",)):
                model = f"{name}{len(form)}.safetensors"
                with self.subTest(model=model):
                    self.shared(3, "train", "train.txt", *options, "--epochs", 2, "--model", model, *form)
                    one = self.metrics(model, "test.txt")
                    for ranks in (2, 4):
                        other = self.loss_on_ranks(ranks, model)
                        self.assert_close(other["log_loss"], one["log_loss"])
                        self.assertEqual(other["error"], one["error"])
                    self.assertEqual(self.fine("inspect", model).stdout.splitlines()[2].split(":")[0].split()[-1], "150")

    def test_a_set_has_the_tensors_that_its_page_describes(self):
        self.shared(3, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "m.safetensors")
        about, whole = read_model(self.path("m.safetensors"))
        self.shared(3, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "m.safetensors", "--split-model")
        self.assertFalse(os.path.exists(self.path("m.safetensors")))  # replaced
        with open(self.path("m.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        rows = {name: number for number, name in enumerate(about["classes"])}
        seen = 0
        for part in range(1, 4):
            weight = f"weight.{part:05}"
            file = index["weight_map"][weight]
            self.assertEqual(file, f"m-{part:05}-of-00003.safetensors")
            of_part, tensors = read_model(self.path(file))
            for number, name in enumerate(of_part["classes"]):
                self.assertEqual(tensors[weight][number].tolist(), whole["weight"][rows[name]].tolist())
                self.assertEqual(tensors[f"intercept.{part:05}"][number], whole["intercept"][rows[name]])
            seen += len(of_part["classes"])
        self.assertEqual(seen, 150)
        self.assertEqual(index["metadata"]["total_size"], whole["weight"].nbytes + whole["intercept"].nbytes)

    def test_predictions_are_those_of_one_process(self):
        self.fine("train", "train.txt", *LINEAR, "--epochs", 2, "--model", "m.safetensors")
        for form in ((), ("--json",)):
            one = self.fine("predict", "m.safetensors", "test.txt", "--top", 4, *form).stdout.splitlines()
            for ranks in (2, 3):
                many = self.shared(ranks, "predict", "m.safetensors", "test.txt", "--top", 4, *form).stdout.splitlines()
                self.assertEqual(len(many), len(one))
                for here, there in zip(many, one):
                    if form:
                        here, there = json.loads(here), json.loads(there)
                        self.assertEqual(here["classes"], there["classes"])
                        pairs = zip(here["probabilities"], there["probabilities"])
                    else:
                        here, there = here.split("\t"), there.split("\t")
                        self.assertEqual(here[::2], there[::2])
                        pairs = zip(map(float, here[1::2]), map(float, there[1::2]))
                    for p, q in pairs:
                        self.assert_close(p, q, 3e-6)

    def test_sampled_evaluation_is_that_of_one_process(self):
        self.fine("train", "train.txt", *LINEAR, "--epochs", 2, "--model", "m.safetensors")
        more = ("--eval", "sampled", "--eval-rows", 100)
        self.assert_close(self.loss_on_ranks(3, "m.safetensors", *more)["log_loss"],
                          self.metrics("m.safetensors", "test.txt", *more)["log_loss"])

    def test_init_on_several_ranks_starts_where_one_process_does(self):
        for name, options in (("linear", LINEAR), ("learnt", LEARNT)):
            with self.subTest(name):
                self.shared(3, "train", "train.txt", *options, "--epochs", 2, "--model", "start.safetensors",
                            "--split-model")
                start = ("train", "test.txt", *options, "--epochs", 1, "--init", "start.safetensors")
                self.fine(*start, "--model", "one.safetensors")
                self.shared(2, *start, "--model", "two.safetensors")
                one, two = (self.metrics(model, "test.txt")["log_loss"] for model in ("one.safetensors", "two.safetensors"))
                self.assert_close(two, one)

    def test_python_loads_a_set(self):
        if not os.path.isdir(os.path.join(PACKAGE, "truemax")):
            from support import skip
            skip(f"no package in {PACKAGE}: ./dev python builds it")
        from truemax import load
        self.shared(2, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "m.safetensors", "--split-model")
        for path in ("m.safetensors", "m.safetensors.index.json"):
            model = load(self.path(path))
            self.assertEqual(len(model.classes_), 150)

    def test_damaged_sets_are_one_message_with_what_to_do(self):
        self.shared(3, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "m.safetensors", "--split-model")
        self.shared(3, "train", "train.txt", *LINEAR, "--epochs", 2, "--model", "o.safetensors", "--split-model")
        second = self.path("m-00002-of-00003.safetensors")
        kept = self.read("m-00002-of-00003.safetensors")
        os.remove(second)
        for refuse in (lambda *words: self.refused(2, *words), self.refused_by_one):
            self.assertIn("part 2 of 3, is missing; copy all files", refuse("evaluate", "m.safetensors", "test.txt"))
        shutil.copy(self.path("o-00002-of-00003.safetensors"), second)
        self.assertIn("of another model, or damaged", self.refused(2, "evaluate", "m.safetensors", "test.txt"))
        damaged = bytearray(kept)
        damaged[-9] ^= 1
        self.write("m-00002-of-00003.safetensors", bytes(damaged))
        self.assertIn("checksum", self.refused(2, "predict", "m.safetensors", "test.txt"))
        self.write("m-00002-of-00003.safetensors", kept)
        self.loss_on_ranks(2, "m.safetensors")

    def refused_by_one(self, *words):
        result = truemax(*words, cwd=self.folder)
        self.assertEqual(result.returncode, 2)
        return result.stderr

    def test_a_model_that_cannot_be_written_leaves_the_old_one(self):
        os.mkdir(self.path("out"))
        self.shared(2, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "out/m.safetensors")
        old = self.read("out/m.safetensors")
        os.mkdir(self.path("out/m.safetensors.index.json"))  # in the way of the index
        said = self.refused(2, "train", "train.txt", *LINEAR, "--epochs", 1, "--model", "out/m.safetensors",
                            "--split-model")
        self.assertIn("index.json", said)
        self.assertEqual(self.read("out/m.safetensors"), old)
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["m.safetensors", "m.safetensors.index.json"])


class Checkpoints(RanksTest):
    def test_another_number_of_ranks_resumes_to_the_same_loss(self):
        for name, options in (("linear", (*LINEAR, "--valid", "test.txt", "--patience", 9)), ("learnt", LEARNT),
                              ("shard", (*LEARNT, "--shard-embedding"))):
            with self.subTest(name):
                plain = tuple(word for word in options if word != "--shard-embedding")
                run = ("train", "train.txt", "--model", "m.safetensors", "--checkpoint-every", "1epochs")
                self.fine(*run, *plain, "--epochs", 4, "--checkpoint", f"{name}-whole.ckpt")
                expected = self.metrics("m.safetensors", "train.txt")["log_loss"]
                self.shared(3, *run, *options, "--epochs", 2, "--checkpoint", f"{name}.ckpt")
                for resumed_by in (0, 1, 2, 4):
                    copy = f"{name}-{resumed_by}.ckpt"
                    shutil.copy(self.path(f"{name}.ckpt"), self.path(copy))
                    more = ("--epochs", 4, "--checkpoint", copy, "--resume")
                    if resumed_by == 0:
                        self.fine(*run, *plain, *more)
                    else:
                        self.shared(resumed_by, *run, *options, *more)
                    self.assert_close(self.metrics("m.safetensors", "train.txt")["log_loss"], expected)
                # What one process wrote, several go on with: it is finished, and its model is written again.
                self.shared(2, *run, *options, "--epochs", 4, "--checkpoint", f"{name}-whole.ckpt", "--resume")
                self.assert_close(self.metrics("m.safetensors", "train.txt")["log_loss"], expected)

    def test_a_damaged_checkpoint_is_one_message(self):
        run = ("train", "train.txt", *LINEAR, "--epochs", 2, "--model", "none", "--checkpoint", "c.ckpt")
        self.shared(2, *run)
        bad = bytearray(self.read("c.ckpt"))
        bad[len(bad) // 2] ^= 1
        self.write("c.ckpt", bytes(bad))
        self.assertIn("truncated or damaged", self.refused(3, *run, "--resume"))
        self.assertEqual(self.read("c.ckpt"), bytes(bad))

    def test_a_checkpoint_that_cannot_be_written_is_one_message(self):
        self.assertIn("no/such", self.refused(2, "train", "train.txt", *LINEAR, "--epochs", 2, "--model", "none",
                                              "--checkpoint", "no/such/c.ckpt"))


class Commands(RanksTest):
    def test_what_is_not_shared_out_runs_once(self):
        self.shared(3, "generate", "more.txt", "--rows", 50)
        self.assertEqual(len(self.read("more.txt").splitlines()), 51)
        self.assertEqual(self.shared(2, "methods").stdout, self.fine("methods").stdout)
        self.shared(2, "convert", "train.txt", "train.cache")
        self.assertTrue(os.path.exists(self.path("train.cache")))
        self.fine("train", "train.txt", *LEARNT, "--epochs", 1, "--model", "m.safetensors")
        for words in (("inspect", "m.safetensors"), ("nearest", "m.safetensors", 3)):
            self.assertEqual(self.shared(2, *words).stdout, self.fine(*words).stdout)

    def test_what_is_for_one_process_is_refused(self):
        for command in ("compare", "tune"):
            self.assertIn("one process", self.refused(2, command, "train.txt"))

    def test_standard_input_is_refused(self):
        self.fine("train", "train.txt", *LINEAR, "--epochs", 1, "--model", "m.safetensors")
        for words in (("predict", "m.safetensors", "-"), ("evaluate", "m.safetensors", "-"), ("train", "-")):
            self.assertIn("standard input", self.refused(2, *words))

    def test_errors_of_the_first_rank_are_one_message(self):
        self.assertIn("no such file", self.refused(3, "inspect", "missing.safetensors"))
        self.assertIn("no such file", self.refused(3, "evaluate", "missing.safetensors", "test.txt"))


if __name__ == "__main__":
    sys.exit(unittest.main())
