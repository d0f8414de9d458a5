#!/usr/bin/python3
"""Triples: training, the model file, evaluation, prediction and replay agree with NumPy; bad files are refused."""
import gzip
import json
import random
import unittest

import numpy as np

from model_reader import read_model
from support import OUTPUT, ProgramTest, RefusalTest, last_evaluation

TRAIN = ("--format", "triples", "--hidden", 16, "--epochs", 20, "--step", 0.01, "--ridge", 0.02, "--rows-per-step", 50)


def made_triples(count, seed):
    """Triples of 40 entities, some with blanks in their names; head and relation mostly decide the tail."""
    dice = random.Random(seed)
    name = lambda e: f"new town {e}" if e % 5 == 0 else f"é{e}"
    triples = []
    for _ in range(count):
        head, relation = dice.randrange(40), dice.randrange(4)
        tail = dice.randrange(40) if dice.random() < 0.2 else (head * (relation + 1) + relation) % 40
        triples.append((name(head), f"lies in {relation}", name(tail)))
    return triples


def text_of(triples, end="\n"):
    return "".join("\t".join(triple) + end for triple in triples)


class Slow:
    """The model in float64, and ranks by sorting."""

    def __init__(self, path):
        about, tensors = read_model(path)
        names = about["classes"]
        # Entities are numbered by falling count, ties in the order of their names, as the file has them.
        order = sorted(range(len(names)), key=lambda k: -about["class_counts"][k])
        self.entities = [names[k] for k in order]
        self.entity = {name: k for k, name in enumerate(self.entities)}
        self.relation = {name: r for r, name in enumerate(about["features"]["relations"])}
        numbers = tensors["embedding"].astype(float)
        half = numbers.shape[1] // 2
        self.vectors = numbers[:, :half] + 1j * numbers[:, half:]
        self.weight, self.names = tensors["weight"], names

    def scores(self, entity, relation, backward, others=()):
        """Of the model's entities, then 0 for each of the others."""
        known = len(self.entities)
        if entity not in self.entity or relation not in self.relation:
            return np.zeros(known + len(others))
        r = known + self.relation[relation] + (len(self.relation) if backward else 0)
        x = self.vectors[self.entity[entity]] * self.vectors[r]
        return np.concatenate([(x * self.vectors[:known].conj()).real.sum(1), np.zeros(len(others))])

    def log_loss(self, triples):
        losses = []
        for head, relation, tail in triples:
            if head in self.entity and relation in self.relation and tail in self.entity:
                z = self.scores(head, relation, False)
                losses.append(z.max() + np.log(np.exp(z - z.max()).sum()) - z[self.entity[tail]])
        return np.mean(losses), len(losses)

    def ranks(self, triples, known):
        others = sorted({e for t in triples + known for e in (t[0], t[2])} - set(self.entities))
        place = {name: k for k, name in enumerate(self.entities + others)}
        true = set(triples + known)
        found = []
        for head, relation, tail in triples:
            for backward, given, answer in ((False, head, tail), (True, tail, head)):
                z = self.scores(given, relation, backward, others).astype(np.float32)
                rivals = [name for name in place if name != answer and
                          ((name, relation, given) if backward else (given, relation, name)) not in true]
                z_rivals, own = z[[place[name] for name in rivals]], z[place[answer]]
                # float32 sums in another order: scores this near are taken as ties, which the data avoid but for 0
                above = (z_rivals > own + 1e-6 * abs(own)).sum()
                equal = (abs(z_rivals - own) <= 1e-6 * abs(own)).sum()
                found.append(1 + above + equal / 2)
        return np.array(found), len(place)


class Triples(ProgramTest):
    def setUp(self):
        super().setUp()
        self.train_triples, self.test_triples = made_triples(800, 1), made_triples(60, 2)
        self.test_triples += [("unseen", "lies in 1", "é3"), ("é3", "new", "é4"), ("é1", "lies in 2", "stranger")]
        self.known = [("é1", "lies in 2", "another"), ("é1", "lies in 2", "é2")]
        self.write("train.tsv", text_of(self.train_triples))
        self.write("test.tsv", text_of(self.test_triples, "\r\n"))
        self.write("known.tsv.gz", gzip.compress(text_of(self.known).encode()))

    def train(self, name="m", *more):
        return self.fine("train", "train.tsv", "--test", "test.tsv", *TRAIN, "--model", f"{name}.safetensors", "--log",
                         f"{name}.jsonl", *more)

    def check_ranks(self, found, ranks, candidates):
        self.assertEqual(found["candidates"], candidates)
        self.assertEqual(found["ranks"], len(ranks))
        self.assertAlmostEqual(found["mrr"], np.mean(1 / ranks), places=9)
        for k in (1, 3, 10):
            self.assertAlmostEqual(found[f"hits_at_{k}"], np.mean(ranks <= k), places=9)

    def test_evaluation_is_that_of_the_model_file(self):
        said = self.train().stdout
        self.assertRegex(said, r"train +800 triples, 40 entities, 4 relations")
        self.assertIn("3 test triples with a name unseen in training", said)
        slow = Slow(self.path("m.safetensors"))
        loss, counted = slow.log_loss(self.test_triples)
        for more, known in (((), []), (("--filter", "train.tsv"), self.train_triples),
                            (("--filter", "train.tsv", "--filter", "known.tsv.gz"), self.train_triples + self.known)):
            with self.subTest(more):
                found = self.metrics("m.safetensors", "test.tsv", *more)
                self.assertAlmostEqual(found["log_loss"], loss, delta=1e-5 * loss)
                self.assertEqual((found["rows"], found["unseen"]), (counted, 3))
                self.assertEqual(found["filtered"], bool(known))
                self.check_ranks(found, *slow.ranks(self.test_triples, known))
        logged = last_evaluation(self.path("m.jsonl"))["test"]
        self.assertAlmostEqual(logged["log_loss"], loss, delta=1e-5 * loss)
        self.check_ranks(logged, *slow.ranks(self.test_triples, self.train_triples))
        self.assertGreater(logged["mrr"], 0.4)  # it has learnt something

    def test_text_output_says_what_was_ranked(self):
        self.train()
        said = self.fine("evaluate", "m.safetensors", "test.tsv").stdout
        for words in ("mean reciprocal rank", "hits at 10", "126 heads and tails among 42 entities, 2 of them unseen",
                      "--filter FILE"):
            self.assertIn(words, said)
        self.assertIn("known triples do not count",
                      self.fine("evaluate", "m.safetensors", "test.tsv", "--filter", "train.tsv").stdout)
        self.assertIn("ranks need all entities",
                      self.fine("evaluate", "m.safetensors", "test.tsv", "--eval", "sampled").stderr)

    def test_predict_lists_tails(self):
        self.train()
        slow = Slow(self.path("m.safetensors"))
        asked = [("é1", "lies in 2"), ("new town 5", "lies in 0", "é2"), ("unseen", "lies in 0")]
        self.write("asked.tsv", "".join("\t".join(line) + "\n" for line in asked))
        result = self.fine("predict", "m.safetensors", "asked.tsv", "--top", 3, "--json")
        self.assertIn("1 names not seen in training", result.stderr)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(lines), 3)
        for line, triple in zip(lines, asked):
            z = slow.scores(triple[0], triple[1], False)
            p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
            np.testing.assert_allclose(line["probabilities"], np.sort(p)[::-1][:3], rtol=1e-4)
            if triple[0] != "unseen":
                self.assertEqual(line["classes"], [slow.entities[k] for k in np.argsort(-p)[:3]])

    def test_vectors_have_the_names_of_the_triples(self):
        self.train()
        slow = Slow(self.path("m.safetensors"))
        out = self.fine("nearest", "m.safetensors", "é1", "--top", 3, "--json").stdout
        self.assertIn("é1", out)
        numbers = np.concatenate([slow.vectors.real, slow.vectors.imag], axis=1)
        names = slow.entities + sorted(slow.relation, key=slow.relation.get)
        names += [f"{name}^-1" for name in names[len(slow.entities):]]
        lengths = np.sqrt((numbers ** 2).sum(1))
        for asked in ("é1", "lies in 2", "lies in 0^-1"):
            at = names.index(asked)
            cosines = numbers @ numbers[at] / lengths / lengths[at]
            cosines[at] = -2
            line = self.fine("nearest", "m.safetensors", asked, "--top", 1).stdout.splitlines()[0].split("\t")
            self.assertEqual(line[1], names[int(np.argmax(cosines))])

    def test_weight_and_embedding_share_the_entities(self):
        self.train()
        about, tensors = read_model(self.path("m.safetensors"))
        slow = Slow(self.path("m.safetensors"))
        self.assertEqual(tensors["embedding"].shape, (40 + 2 * 4, 16))
        self.assertNotIn("intercept", tensors)
        for row, name in enumerate(about["classes"]):
            np.testing.assert_array_equal(tensors["weight"][row], tensors["embedding"][slow.entity[name]])

    def test_the_same_bits_again_for_any_threads_and_on_replay(self):
        self.train("m", "--threads", 1)
        self.train("two", "--threads", 2)
        self.assertEqual(self.read("m.safetensors"), self.read("two.safetensors"))
        self.fine("train", "train.tsv", "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "none")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))

    def test_plain_command_needs_only_the_format(self):
        for more, hidden in (((), 200), (("--hidden", 16), 16)):
            with self.subTest(more):
                said = self.fine("train", "train.tsv", "--format", "triples", *more, "--test", "test.tsv", "--model",
                                 "m.safetensors", "--log", "m.jsonl").stdout
                self.assertRegex(said, f"chosen  hidden {hidden}, step")
                self.assertNotIn("linear or learnt", said)
                self.assertEqual(read_model(self.path("m.safetensors"))[1]["embedding"].shape[1], hidden)
                self.assertGreater(last_evaluation(self.path("m.jsonl"))["test"]["mrr"], 0.4)
                self.fine("inspect", "m.safetensors")
                with open(self.path("m.jsonl"), encoding="utf-8") as log:
                    trials = [line for line in map(json.loads, log) if line["event"] == "trial"]
                self.assertEqual({trial["hidden"] for trial in trials}, {hidden})  # none is linear

    def test_valid_file_patience_and_row_weights(self):
        self.write("w.txt", "".join(f"{i % 3}\n" for i in range(800)))
        self.train("m", "--row-weights", "w.txt", "--valid", "test.tsv", "--patience", 2, "--eval-every", 1)
        self.train("n", "--valid-share", 0.2)
        self.assertIn("valid", last_evaluation(self.path("n.jsonl")))


class Refused(RefusalTest):
    def setUp(self):
        super().setUp()
        self.write("good.tsv", text_of(made_triples(100, 1)))
        self.options = ("--format", "triples", "--hidden", 8)

    def test_bad_lines(self):
        for content, words in (("a\tr\tb\na\tr\n", ":2: 2 columns where a triple has 3.*tabs"),
                               ("a r b\n", ":1: 1 column where a triple has 3.*tabs"),
                               ("a\tr\tb\tc\n", ":1: 4 columns"),
                               ("a\t\tb\n", ":1: the relation has no name"),
                               (b"a\tr\tb\n\xff\tr\tb\n", ":2: .*not UTF-8"),
                               (b"a\tr\tb\0\n", ":1: looks like a binary file"),
                               ("a\tr\ta\n", "two entities or more"),
                               ("\n\n", "no triple to train on"),
                               ("", "is empty")):
            with self.subTest(content):
                self.train_refused(content, words, name="bad.tsv", options=self.options)

    def test_lines_of_100_megabytes(self):
        long = b"x" * (100 << 20)
        self.train_refused(b"a\tr\tb\n" + long + b"\n", ":2: 1 column where a triple has 3", name="bad.tsv",
                           options=self.options)
        self.train_refused(b"a\tr\t" + long + b"\n", ":1: the tail has 104857600 bytes", name="bad.tsv",
                           options=self.options)
        self.train_refused(b"a\tr\tb\n" + long, "bad.tsv.*not enough memory.*--memory-limit", name="bad.tsv",
                           options=(*self.options, "--memory-limit", "40M"))

    def test_bad_options(self):
        train = ["train", "good.tsv", "--format", "triples", *OUTPUT]
        self.refused([*train, "--hidden", 7], "--hidden 7: .*even")
        self.refused([*train, "--hidden", "none"], "--format triples: .*--hidden 200")
        self.refused([*train, "--method", "scent"], "--format triples: .*--hidden 200")
        for encoder in ("linear", "bag", "context", "cbow"):
            self.refused([*train, "--encoder", encoder], "--encoder")
        self.refused([*train, "--hidden", 8, "--intercept"], "--intercept: ")
        self.refused([*train, "--hidden", 8, "--normalize", "l2"], "--normalize: triples")
        self.refused([*train, "--hidden", 8, "--hash-features", 10], "--hash-features: triples")
        self.refused(["train", "good.tsv", *OUTPUT], "good.tsv:1: .*--format triples")
        self.generate("rows.txt")
        self.refused(["train", "rows.txt", "--encoder", "complex", *OUTPUT], "--encoder complex: .*--format triples")
        self.refused(["generate", "new.tsv", "--format", "triples"], "--format")

    def test_bad_use(self):
        self.fine("train", "good.tsv", *self.options, "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        self.generate("rows.txt")
        self.fine("train", "rows.txt", "--epochs", 1, "--model", "rows.safetensors", "--log", "none")
        self.write("two.tsv", "é1\tlies in 1\n")
        self.write("strangers.tsv", "x\ty\tz\n")
        self.refused(["evaluate", "m.safetensors", "two.tsv"], "two.tsv:1: 2 columns")
        self.refused(["evaluate", "m.safetensors", "good.tsv", "--filter", "two.tsv"], "two.tsv:1: 2 columns")
        self.refused(["evaluate", "m.safetensors", "good.tsv", "--filter", "none.tsv"], "none.tsv")
        self.refused(["evaluate", "m.safetensors", "-", "--filter", "-"], "standard input")
        self.refused(["evaluate", "m.safetensors", "strangers.tsv"], "no row can be evaluated")
        self.refused(["evaluate", "m.safetensors", "rows.txt"], "rows.txt:1: 1 column")
        self.refused(["evaluate", "rows.safetensors", "rows.txt", "--filter", "good.tsv"], "--filter: ")
        self.refused(["evaluate", "rows.safetensors", "good.tsv", "--format", "triples"], "is triples data")
        self.write("one.tsv", "é1\n")
        self.refused(["predict", "m.safetensors", "one.tsv"], "one.tsv:1: 1 column")

    def test_damaged_models(self):
        self.fine("train", "good.tsv", *self.options, "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        whole = self.read("m.safetensors")
        for old, new, words in ((b"lies in 1", b"lies in 2", "appears twice|checksum"),
                                (b"complex", b"complEx", "encoder|context|checksum"),
                                (b"relations", b"relation_", "relations")):
            self.write("bad.safetensors", whole.replace(old, new, 1))
            self.refused(["evaluate", "bad.safetensors", "good.tsv"], "bad.safetensors", words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
