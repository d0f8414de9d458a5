#!/usr/bin/python3
"""truemax-mpi with learnt features: the losses of one process for every encoder, and equal choices of all ranks."""
import json
import random
import unittest

from ranks_support import on_ranks, require_mpi
from support import ProgramTest, data_file, events, truemax

STEPS = ("--method", "scent", "--visit", "shuffle", "--step", 0.005, "--epochs", 1, "--hidden", 16, "--draw", "frequency",
         "--rows-per-step", 64, "--classes-per-step", 48)


def setUpModule():
    require_mpi()


class LearntRuns(ProgramTest):
    def result(self, *arguments, ranks=0):
        arguments = ("train", *arguments, "--model", "none", "--json")
        said = on_ranks(ranks, *arguments, cwd=self.folder) if ranks > 0 else truemax(*arguments, cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        return json.loads(said.stdout)

    def same_losses(self, *arguments, ranks=(1, 2, 3, 4)):
        expected = self.result(*arguments)["train"]
        for size in ranks:
            for more in ((), ("--shard-embedding",)):
                with self.subTest(ranks=size, more=more, arguments=arguments):
                    found = self.result(*arguments, *more, ranks=size)["train"]
                    if size == 1:
                        self.assertEqual(found, expected)
                    self.assertAlmostEqual(found["log_loss"] / expected["log_loss"], 1, delta=1e-6)
                    self.assertEqual(found["rows"], expected["rows"])

    def test_bag(self):
        data = self.generate("train.txt", rows=2000, classes=200, features=300)
        self.same_losses(data, *STEPS, "--intercept", "--start-at-frequencies", "--ridge", 2)
        self.same_losses(data, *STEPS, "--dropout", 0.2, "--row-state", ranks=(3,))

    def test_plain_text(self):
        words = random.Random(1)
        lines = [" ".join(f"w{int(words.paretovariate(0.7)) % 150}" for _ in range(12)) for _ in range(400)]
        text = self.write("text.txt", "\n".join(lines) + "\n")
        common = (text, "--format", "text", *STEPS, "--intercept")
        for more in (("--encoder", "context"), ("--encoder", "context", "--tied"),
                     ("--encoder", "context", "--layers", 1, "--dropout", 0.1),
                     ("--encoder", "context", "--layers", 1, "--tied"), ("--encoder", "cbow"),
                     ("--encoder", "cbow", "--tied", "--ridge", 1), ("--encoder", "skipgram")):
            self.same_losses(*common, *more, ranks=(3,))

    def test_triples(self):
        made = random.Random(2)
        lines = [f"e{made.randrange(120)}\tr{made.randrange(4)}\te{made.randrange(120)}" for _ in range(2000)]
        triples = self.write("train.tsv", "\n".join(lines) + "\n")
        test = self.write("test.tsv", "\n".join(lines[:50]) + "\n")
        arguments = (triples, "--format", "triples", *STEPS, "--ridge", 0.02, "--test", test)
        self.same_losses(*arguments)
        one, three = self.result(*arguments)["test"], self.result(*arguments, ranks=3)["test"]
        self.assertAlmostEqual(one["mrr"], three["mrr"], delta=1e-3)
        self.assertEqual((one["ranks"], one["candidates"]), (three["ranks"], three["candidates"]))

    def test_trials_of_all_ranks_choose_alike(self):
        data = self.generate("train.txt", rows=1500, classes=150, features=200)
        said = on_ranks(3, "train", data, "--log", "log.jsonl", "--model", "none", cwd=self.folder)
        self.assertEqual(said.returncode, 0, said.stderr)
        log = events(self.path("log.jsonl"))
        self.assertGreater(sum(event["event"] == "trial" for event in log), 4)
        self.assertEqual(log[-1]["event"], "end")
        self.assertFalse(log[-1]["interrupted"])

    def test_what_does_not_apply_is_refused(self):
        data = self.generate("train.txt", rows=300, classes=100)
        for more, words in ((("--method", "prox", "--shard-embedding"), "linear model has no vectors"),
                            ((*STEPS, "--lock-free"), "take every step together")):
            said = on_ranks(2, "train", data, *more, "--model", "none", cwd=self.folder)
            self.assertEqual(said.returncode, 2, said.stderr)
            self.assertIn(words, said.stderr)


class RealData(ProgramTest):
    def test_bibtex(self):
        arguments = ("train", data_file("bibtex", "train.txt.gz"), *STEPS, "--model", "none", "--json")
        one = json.loads(self.fine(*arguments).stdout)["train"]["log_loss"]
        for more in ((), ("--shard-embedding",)):
            other = json.loads(on_ranks(3, *arguments, *more, cwd=self.folder).stdout)["train"]["log_loss"]
            self.assertAlmostEqual(other / one, 1, delta=1e-6)


if __name__ == "__main__":
    unittest.main()
