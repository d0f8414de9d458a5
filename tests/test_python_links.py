#!/usr/bin/python3
"""truemax.LinkPredictor: the same bits as the command line, probabilities and filtered ranks of NumPy, files both ways,
misuse."""
import gzip
import json
import os
import pathlib
import pickle
import signal
import sys
import threading
import unittest
import warnings

import numpy as np
import pandas as pd

from support import ROOT, ProgramTest, data_file
from test_triples import Slow, made_triples, text_of

sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))

import truemax  # noqa: E402
from truemax import LinkPredictor  # noqa: E402

FIXED = {"hidden": 16, "epochs": 12, "step": 0.01, "ridge": 0.02, "rows_per_step": 50}
OPTIONS = ("--hidden", 16, "--epochs", 12, "--step", 0.01, "--ridge", 0.02, "--rows-per-step", 50)
FIGURES = ("log_loss", "perplexity", "error", "mrr", "hits_at_1", "hits_at_3", "hits_at_10", "rows", "ranks", "unseen",
           "candidates", "filtered")


def in_numbers(triples):
    """The same graph with whole numbers as names."""
    entities = sorted({e for h, _, t in triples for e in (h, t)})
    relations = sorted({r for _, r, _ in triples})
    return np.array([[10 * entities.index(h) - 50, relations.index(r), 10 * entities.index(t) - 50]
                     for h, r, t in triples])


class Links(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train, cls.valid, cls.test = made_triples(800, 1), made_triples(50, 3), made_triples(60, 2)
        cls.test += [("unseen", "lies in 1", "é3"), ("é3", "new", "é4"), ("é1", "lies in 2", "stranger")]
        cls.known = [("é1", "lies in 2", "another"), ("é1", "lies in 2", "é2")]
        cls.fitted = LinkPredictor(**FIXED).fit(cls.train)

    def setUp(self):
        super().setUp()
        for name, triples in (("train", self.train), ("valid", self.valid), ("test", self.test), ("known", self.known)):
            self.write(f"{name}.tsv", text_of(triples))

    def slow(self):
        self.fitted.save(self.path("p.safetensors"))
        return Slow(self.path("p.safetensors"))


class Agrees(Links):
    def test_with_the_command_line_bit_for_bit(self):
        self.fine("train", "train.tsv", "--format", "triples", *OPTIONS, "--model", "m.safetensors", "--log", "none")
        self.fitted.save(self.path("p.safetensors"))
        self.assertEqual(self.read("p.safetensors"), self.read("m.safetensors"))
        loaded = truemax.load(self.path("m.safetensors"))
        self.assertIsInstance(loaded, LinkPredictor)
        for known, more in ((None, ()), (self.known, ("--filter", "known.tsv"))):
            wanted = self.metrics("m.safetensors", "test.tsv", "--filter", "train.tsv", *more)
            found = self.fitted.evaluate(self.test, known)
            self.assertEqual({name: found[name] for name in FIGURES}, {name: wanted[name] for name in FIGURES})
            self.assertEqual(self.fitted.mrr(self.test, known), wanted["mrr"])
            both = [self.train] if known is None else [self.path("train.tsv"), known]
            self.assertEqual(loaded.evaluate(self.test, both), found)
        self.assertEqual(self.fitted.log_loss(self.test), wanted["log_loss"])
        self.assertEqual(self.fitted.perplexity(self.test), wanted["perplexity"])
        self.assertEqual(self.fitted.score(self.test), self.fitted.mrr(self.test))

    def test_with_the_trials_of_the_command_line(self):
        self.fine("train", "train.tsv", "--format", "triples", "--hidden", 8, "--valid", "valid.tsv", "--epochs", 4,
                  "--seed", 3, "--model", "m.safetensors", "--log", "m.jsonl")
        model = LinkPredictor(hidden=8, epochs=4, random_state=3).fit(self.train, eval_triples=self.valid)
        model.save(self.path("p.safetensors"))
        self.assertEqual(self.read("p.safetensors"), self.read("m.safetensors"))
        self.assertGreater(len(model.trials_), 1)
        self.assertEqual(model.history_[-1]["valid_log_loss"], model.log_loss(self.valid))
        # Training and validation triples are known.
        wanted = self.metrics("m.safetensors", "test.tsv", "--filter", "train.tsv", "--filter", "valid.tsv")
        self.assertEqual(model.mrr(self.test), wanted["mrr"])

    def test_ranks_are_those_of_sorting(self):
        slow = self.slow()
        for known in ([], self.known):
            ranks, _ = slow.ranks(self.test, self.train + known)
            found = self.fitted.ranks(self.test, known)
            self.assertEqual(found.shape, (len(self.test), 2))
            np.testing.assert_array_equal(found.ravel(), ranks)
            self.assertAlmostEqual(self.fitted.mrr(self.test, known), np.mean(1 / ranks), places=12)

    def test_probabilities_are_those_of_the_vectors(self):
        slow, model = self.slow(), self.fitted
        pairs = [("é1", "lies in 2"), ("new town 5", "lies in 0"), ("é7", "lies in 3")]
        e, r = model.entity_vectors_.astype(complex), model.relation_vectors_.astype(complex)
        names, relations = model.entities_.tolist(), model.relations_.tolist()
        self.assertEqual((names, relations), (slow.entities, list(slow.relation)))
        np.testing.assert_array_equal(np.concatenate([e, r, model.inverse_relation_vectors_]), slow.vectors)
        z = np.array([((e[names.index(h)] * r[relations.index(q)]) * e.conj()).real.sum(1) for h, q in pairs])
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        np.testing.assert_allclose(model.predict_proba(pairs), p, rtol=1e-5)
        tails, found = model.predict_topk(pairs, 4)
        self.assertEqual(tails.tolist(), [[names[k] for k in np.argsort(-row)[:4]] for row in p])
        np.testing.assert_allclose(found, -np.sort(-p, axis=1)[:, :4], rtol=1e-5)
        self.assertEqual(model.predict(pairs).tolist(), tails[:, 0].tolist())
        self.assertEqual(model.predict([(h, q, "ignored") for h, q in pairs]).tolist(), tails[:, 0].tolist())
        path = self.write("pairs.tsv", "".join(f"{h}\t{q}\n" for h, q in pairs))
        self.assertEqual(model.predict_topk(path, 4)[0].tolist(), tails.tolist())
        said = self.fine("predict", "p.safetensors", "pairs.tsv", "--top", 4, "--json").stdout.splitlines()
        self.assertEqual([json.loads(line)["probabilities"] for line in said], found.tolist())

        # Without the known tails: the rest, as it was.
        true = set(self.train + self.known)
        for asked, known in ((pairs, None), (path, None), (pairs, self.known), (pairs, set(self.known))):
            names_true = true if known else set(self.train)
            new, of_new = model.predict_topk(asked, 5, only_new=True, known=known)
            for row, (h, q) in enumerate(pairs):
                order = [k for k in np.argsort(-p[row]) if (h, q, names[k]) not in names_true][:5]
                self.assertEqual(new[row].tolist(), [names[k] for k in order])
                np.testing.assert_allclose(of_new[row], p[row][order], rtol=1e-5)

    def test_a_byte_order_mark_is_part_of_a_name(self):
        triples = [("\ufeffa", "r", "b"), ("\ufeffa", "s", "b"), ("b", "r", "\ufeffa")] * 20
        model = LinkPredictor(**FIXED).fit(triples)
        self.assertEqual(sorted(model.entities_), ["b", "\ufeffa"])
        self.assertEqual(model.evaluate(triples)["unseen"], 0)

    def test_unseen_names(self):
        with self.assertWarnsRegex(UserWarning, "2 of 3 pairs have a head or relation not seen"):
            p = self.fitted.predict_proba([("nobody", "lies in 1"), ("é1", "new"), ("é1", "lies in 1")])
        np.testing.assert_allclose(p[:2], 1 / 40, rtol=1e-6)
        self.assertGreater(p[2].max(), 0.1)
        self.assertEqual(self.fitted.evaluate(self.test)["unseen"], 3)

    def test_most_similar_is_truemax_nearest(self):
        self.fitted.save(self.path("p.safetensors"))
        for name in ("é1", "lies in 2", "lies in 0^-1"):
            out = self.fine("nearest", "p.safetensors", name, "--top", 9, "--json").stdout
            wanted = json.loads(out)["queries"][0]["nearest"]
            found = self.fitted.most_similar(name, 9, among="all")
            self.assertEqual([n for n, _ in found], [n["name"] for n in wanted])
            np.testing.assert_allclose([c for _, c in found], [n["cosine"] for n in wanted], rtol=1e-12)
            everything = self.fitted.most_similar(name, 1000, among="all")
            self.assertEqual(len(everything), 40 + 2 * 4 - 1)
            entities = [pair for pair in everything if pair[0] in set(self.fitted.entities_)]
            self.assertEqual([n for n, _ in self.fitted.most_similar(name, 5)], [n for n, _ in entities[:5]])
            others = [pair for pair in everything if pair not in entities]
            self.assertEqual([n for n, _ in self.fitted.most_similar(name, among="relations")], [n for n, _ in others])
        row = self.fitted.entities_.tolist().index("é1")
        np.testing.assert_array_equal(self.fitted.vector("é1"), self.fitted.entity_vectors_[row])
        np.testing.assert_array_equal(self.fitted.vector("lies in 2^-1"), self.fitted.inverse_relation_vectors_[
            self.fitted.relations_.tolist().index("lies in 2")])

    def test_every_way_to_give_triples(self):
        wanted, mrr = self.fitted.log_loss(self.test), self.fitted.mrr(self.test)
        packed = self.write("train.tsv.gz", gzip.compress(text_of(self.train, "\r\n").encode()))
        for given in (np.array(self.train), np.array(self.train, dtype=object), pd.DataFrame(self.train),
                      [list(row) for row in self.train], list(np.array(self.train)), (row for row in self.train),
                      self.path("train.tsv"), pathlib.Path(packed)):
            with self.subTest(type(given)):
                model = LinkPredictor(**FIXED, n_jobs=1).fit(given)
                self.assertEqual((model.log_loss(np.array(self.test)), model.mrr(self.path("test.tsv"))), (wanted, mrr))
                tails, _ = model.predict_topk([("é1", "lies in 2")], 3, only_new=True)
                self.assertEqual(tails.tolist(),
                                 self.fitted.predict_topk([("é1", "lies in 2")], 3, only_new=True)[0].tolist())

    def test_whole_numbers_come_back_as_numbers(self):
        triples = in_numbers(self.train)
        for given in (triples, pd.DataFrame(triples), [tuple(row) for row in triples], triples.tolist()):
            model = LinkPredictor(**FIXED).fit(given)
            self.assertEqual(model.entities_.dtype, np.int64)
            self.assertEqual(sorted(model.entities_), sorted({e for row in triples.tolist() for e in (row[0], row[2])}))
            self.assertEqual(sorted(model.relations_), [0, 1, 2, 3])
        self.assertEqual(model.predict(triples[:5, :2]).dtype, np.int64)
        self.assertGreater(model.mrr(triples[:100]), 0.3)
        name, _ = model.most_similar(model.entities_[0], 1)[0]
        self.assertIsInstance(name, int)
        model.save(self.path("n.safetensors"))
        np.testing.assert_array_equal(truemax.load(self.path("n.safetensors")).entities_, model.entities_)
        mixed = pd.DataFrame({"h": triples[:, 0], "r": [f"r{r}" for r in triples[:, 1]], "t": triples[:, 2]})
        model = LinkPredictor(**FIXED).fit(mixed)
        self.assertEqual((model.entities_.dtype, model.relations_.dtype), (np.int64, object))
        texts = LinkPredictor(**FIXED).fit(triples.astype(str))
        self.assertEqual(texts.predict(triples[:1, :2].astype(str)).dtype, object)

    def test_fb15k_237(self):
        with gzip.open(data_file("fb15k-237", "train.txt.gz"), "rt") as file:
            rows = [line.split() for _, line in zip(range(20001), file)][1:]
        triples = [(int(h.split(":")[0]), int(r.split(":")[0]), int(t.split(",")[0])) for t, h, r in rows]
        model = LinkPredictor(hidden=32, epochs=2, step=0.02, ridge=0.01).fit(triples)
        found = model.evaluate(triples[:500])
        self.assertLess(found["log_loss"], 0.95 * np.log(len(model.entities_)))
        self.assertEqual((found["filtered"], found["ranks"]), (True, 1000))


class Estimator(Links):
    def test_pickles_and_clones(self):
        from sklearn.base import clone
        again = pickle.loads(pickle.dumps(self.fitted))
        self.assertEqual(again.mrr(self.test), self.fitted.mrr(self.test))
        np.testing.assert_array_equal(again.entity_vectors_, self.fitted.entity_vectors_)
        self.assertEqual(clone(self.fitted).get_params(), self.fitted.get_params())
        self.assertEqual(repr(LinkPredictor(hidden=8)), "LinkPredictor(hidden=8)")

    def test_a_loaded_model_says_that_it_knows_no_triples(self):
        self.fitted.save(self.path("p.safetensors"))
        loaded = truemax.load(self.path("p.safetensors"))
        for use in (loaded.mrr, loaded.ranks, loaded.evaluate):
            with self.assertWarnsRegex(UserWarning, "give them as known"):
                use(self.test)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(loaded.mrr(self.test, self.train), self.fitted.mrr(self.test))
            self.assertEqual(loaded.log_loss(self.test), self.fitted.log_loss(self.test))
            np.testing.assert_array_equal(loaded.predict_proba([("é1", "lies in 2")]),
                                          self.fitted.predict_proba([("é1", "lies in 2")]))

    def test_grid_search_takes_triples(self):
        from sklearn.model_selection import GridSearchCV
        search = GridSearchCV(LinkPredictor(**FIXED), {"step": [1e-6, 0.02]}, cv=2)
        self.assertEqual(search.fit(np.array(self.train)).best_params_, {"step": 0.02})

    def test_callbacks_stop_and_interrupts_leave_a_model(self):
        model = LinkPredictor(**FIXED, eval_every=1)
        model.fit(self.train, callbacks=lambda e: e["event"] == "evaluate" and e["epoch"] == 2)
        self.assertEqual((model.n_iter_, model.interrupted_), (2, True))
        self.assertGreater(model.mrr(self.test), 0.05)
        model = LinkPredictor(**{**FIXED, "epochs": 10**6})
        threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(self.train)
        self.assertGreater(model.mrr(self.test), 0.4)
        self.assertNotIn("_given", vars(model))


class Misuse(Links):
    def refused(self, error, words, function, *arguments, **named):
        with self.assertRaisesRegex(error, words) as caught:
            function(*arguments, **named)
        self.assertNotRegex(str(caught.exception), r"/truemax-\w+/data", "the user gave no such file")

    def test_bad_triples(self):
        fit = LinkPredictor(**FIXED).fit
        good = ("a", "r", "b")
        self.refused(ValueError, "triples has no rows", fit, [])
        self.refused(ValueError, "triples has no rows", fit, np.empty((0, 3), dtype=int))
        self.refused(ValueError, "triples: row 1 has 2 columns; give all rows as", fit, [good, ("a", "r")])
        self.refused(ValueError, r"triples has the shape \(2, 2\)", fit, np.array([["a", "r"], ["b", "r"]]))
        self.refused(ValueError, "triples has 2 columns", fit, pd.DataFrame([["a", "r"]]))
        self.refused(TypeError, "triples: row 0 is 'abc'", fit, ["abc"])
        self.refused(TypeError, "the tail of row 1 is None", fit, [good, ("a", "r", None)])
        self.refused(TypeError, "the head of row 0 is 1.5", fit, np.array([[1.5, 2, 3]]))
        self.refused(TypeError, "the relation of row 0 is True", fit, [("a", True, "b")])
        self.refused(TypeError, "the tail is a text in some rows and a whole number", fit, [good, ("a", "r", 1)])
        self.refused(TypeError, "heads and tails are of two kinds", fit, [("a", "r", 1)])
        self.refused(TypeError, "triples is a set", fit, {good})
        self.refused(TypeError, "triples is int", fit, 3)
        self.refused(TypeError, "triples is NoneType", fit, None)
        for name, words in (("", "is empty"), ("x\ty", r"character '\\t'"), ("x\n", r"'\\n'"), ("x\r", r"'\\r'"),
                            ("\0", r"'\\x00'"), ("\ud800", "half of a character")):
            self.refused(ValueError, f"triples: the tail.*{words}", fit, [("a", "r", name)])
            self.refused(ValueError, f"triples: the relation.*{words}", fit, [("a", name, "b")])
        self.refused(ValueError, "triples:1: the tail has 70000 bytes", fit, [("a", "r", "x" * 70000)])
        self.refused(ValueError, "triples: .*two entities or more", fit, [("a", "r", "a")])
        self.refused(FileNotFoundError, "triples: there is no such file; give triples as", fit, "none.tsv")
        self.refused(ValueError, "test.tsv:1: 1 column", fit, self.write("test.tsv", "a b c\n"))
        self.refused(TypeError, "y is given", fit, self.train, self.valid)
        self.refused(ValueError, "eval_triples has no rows", fit, self.train, eval_triples=[])
        self.refused(ValueError, "hidden.7.*even", LinkPredictor(hidden=7).fit, self.train)

    def test_bad_use(self):
        from sklearn.exceptions import NotFittedError
        fresh, model = LinkPredictor(), self.fitted
        for use in (fresh.predict, fresh.predict_proba, fresh.mrr, fresh.ranks, fresh.log_loss, fresh.evaluate,
                    fresh.vector, fresh.most_similar, fresh.save):
            self.refused(NotFittedError, "not fitted", use, "a")
        self.assertFalse(hasattr(fresh, "entity_vectors_"))
        pairs = [("é1", "lies in 2")]
        self.refused(ValueError, "k is 41; give a number from 1 to the 40 entities", model.predict_topk, pairs, 41)
        self.refused(TypeError, "k is '3'", model.predict_topk, pairs, "3")
        self.refused(ValueError, r"k is 40, but row 0 of pairs has only \d\d tails", model.predict_topk, pairs, 40,
                     only_new=True)
        self.refused(ValueError, "add only_new=True", model.predict_topk, pairs, 3, known=self.known)
        self.refused(ValueError, "pairs has no rows", model.predict, [])
        self.refused(ValueError, "pairs: row 0 has 1 columns", model.predict, [("é1",)])
        self.refused(KeyError, "'é01' is not an entity.*did you mean 'é", model.most_similar, "é01")
        self.refused(TypeError, "name is 1.5", model.vector, 1.5)
        self.refused(ValueError, "among is 'words'", model.most_similar, "é1", among="words")
        self.refused(ValueError, "no row can be evaluated", model.log_loss, [("x", "y", "z")])
        self.refused(FileNotFoundError, "known: there is no such file", model.ranks, self.test, "none.tsv")
        self.refused(ValueError, "known: row 0 has 2 columns", model.ranks, self.test, [("a", "b")])


if __name__ == "__main__":
    unittest.main()
