#!/usr/bin/python3
"""truemax.LanguageModel: the same bits as the command line, probabilities of NumPy, files both ways, misuse."""
import gzip
import json
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

import numpy as np

from model_reader import read_model
from support import ROOT, ProgramTest, data_file
from test_text import made_text

sys.path.insert(0, os.environ.get("TRUEMAX_PACKAGE", os.path.join(ROOT, "build", "python")))

import truemax  # noqa: E402
from truemax import LanguageModel  # noqa: E402

FIXED = {"hidden": 16, "epochs": 4, "step": 0.01, "ridge": 1, "rows_per_step": 64, "dropout": 0.1}
CASES = {  # parameters beside FIXED
    "log-bilinear": {"layers": 0, "tied": False, "context": 3},
    "tanh": {"layers": 1, "tied": True, "context": 2},
    "cbow": {"encoder": "cbow", "tied": False, "context": 2},
    "skipgram": {"encoder": "skipgram", "context": 2, "min_count": 3},
}


def options_of(parameters):
    """The parameters as the command line has them."""
    names = {"random_state": "seed", "validation_fraction": "valid-share", "n_jobs": "threads"}
    words = []
    for name, value in parameters.items():
        option = names.get(name, name.replace("_", "-"))
        words += [f"--{'' if value else 'no-'}{option}"] if isinstance(value, bool) else [f"--{option}", value]
    return words


def probabilities(path, prompts):
    """Of the words after each list of words, in float64, in the order of the words of the model file."""
    about, t = read_model(path)
    words = about["features"]["words"]
    row = {w: i for i, w in enumerate(words)}
    e = t["embedding"].astype(float)
    width = about["features"]["context"]
    out = []
    for prompt in prompts:
        ids = [row["<eos>"]] * width + [row.get(w, row["<unk>"]) for w in prompt]
        if about["features"]["encoder"] == "skipgram":
            x = e[ids[-1]]
        elif about["features"]["layers"] == 1:
            x = np.tanh(e[ids[-width:]].ravel() @ t["context"][:-1].astype(float) + t["context"][-1])
        else:
            x = (e[ids[-width:]] * t["context"]).sum(0)
        z = t["weight"].astype(float) @ x + t["intercept"]
        p = np.exp(z - z.max())
        of_class = dict(zip(about["classes"], p / p.sum()))
        out.append([of_class[w] for w in words])
    return np.array(out)


class Text(ProgramTest):
    def setUp(self):
        super().setUp()
        self.lines, self.test_lines = made_text(300, 1).splitlines(), made_text(60, 2).splitlines() + ["w1 never seen"]
        self.write("train.txt", "\n".join(self.lines) + "\n")
        self.write("test.txt", "\n".join(self.test_lines) + "\n")

    def program(self, parameters, *more):
        self.fine("train", "train.txt", "--format", "text", *options_of(parameters), *more, "--model", "m.safetensors",
                  "--log", "m.jsonl")
        return self.path("m.safetensors")

    def model(self, **more):
        return LanguageModel(**{**FIXED, **CASES["log-bilinear"], **more}).fit(self.lines)


class Agrees(Text):
    def test_with_the_command_line_bit_for_bit(self):
        for name, case in CASES.items():
            with self.subTest(name):
                path = self.program({**FIXED, **case})
                model = LanguageModel(**FIXED, **case).fit(self.lines)
                model.save(self.path("p.safetensors"))
                self.assertEqual(self.read("p.safetensors"), self.read("m.safetensors"))
                found, wanted = model.evaluate(self.test_lines), self.metrics(path, "test.txt")
                for figure in ("log_loss", "perplexity", "error", "rows", "examples", "unk_words"):
                    self.assertEqual(found[figure], wanted[figure], figure)
                self.assertEqual(model.log_loss(self.test_lines), wanted["log_loss"])
                self.assertEqual(model.perplexity(self.test_lines), wanted["perplexity"])
                self.assertEqual(model.score(self.test_lines), -wanted["log_loss"])
                # Into the command line, and back.
                self.assertEqual(self.metrics("p.safetensors", "test.txt")["log_loss"], wanted["log_loss"])
                loaded = truemax.load(path)
                self.assertIsInstance(loaded, LanguageModel)
                self.assertEqual(loaded.log_loss(self.test_lines), wanted["log_loss"])
                for parameter, value in case.items():
                    self.assertEqual(getattr(loaded, parameter), value, parameter)

    def test_with_the_trials_of_the_command_line(self):
        parameters = {"hidden": 8, "context": 2, "layers": 0, "random_state": 3, "epochs": 2, "dropout": 0}
        self.program(parameters, "--valid", "test.txt")
        model = LanguageModel(**parameters).fit(self.lines, eval_text=self.test_lines)
        model.save(self.path("p.safetensors"))
        self.assertEqual(self.read("p.safetensors"), self.read("m.safetensors"))
        self.assertGreater(len(model.trials_), 1)
        self.assertEqual(model.history_[-1]["valid_log_loss"], model.log_loss(self.test_lines))
        other = LanguageModel(**parameters, validation_fraction=0.3).fit(self.lines)
        self.program({**parameters, "validation_fraction": 0.3})
        other.save(self.path("p.safetensors"))
        self.assertEqual(self.read("p.safetensors"), self.read("m.safetensors"))

    def test_probabilities_are_those_of_the_model_file(self):
        prompts = ["w1 w2 w3 w4", "", "w5\n", "w6\tstranger  w7"]
        for name in ("log-bilinear", "tanh", "skipgram"):
            with self.subTest(name), warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model = LanguageModel(**FIXED, **CASES[name]).fit(self.lines)
                model.save(self.path("p.safetensors"))
                p = probabilities(self.path("p.safetensors"), [prompt.split() for prompt in prompts])
                np.testing.assert_allclose(model.predict_proba(prompts), p, rtol=1e-5)
                words, found = model.predict_topk(prompts, 5)
                self.assertIn("1 words not seen in training were read as <unk>", str(caught[-1].message))
                np.testing.assert_allclose(found, -np.sort(-p, axis=1)[:, :5], rtol=1e-5)
                columns = [[model.vocabulary_[word] for word in line] for line in words]
                np.testing.assert_allclose(np.take_along_axis(p, np.array(columns), 1), found, rtol=1e-5)
                self.assertEqual(model.predict(prompts).tolist(), words[:, 0].tolist())
                self.write("prompts.txt", "".join(prompt.rstrip("\n") + "\n" for prompt in prompts))
                said = self.fine("predict", "p.safetensors", "prompts.txt", "--top", 5, "--json").stdout.splitlines()
                self.assertEqual([json.loads(line)["classes"] for line in said], words.tolist())
                self.assertEqual([json.loads(line)["probabilities"] for line in said], found.tolist())
                of_file, _ = model.predict_topk(pathlib.Path(self.path("prompts.txt")), 5)
                self.assertEqual(of_file.tolist(), words.tolist())

    def test_most_similar_is_truemax_nearest(self):
        model = self.model()
        model.save(self.path("p.safetensors"))
        for word in ("w1", "<eos>"):
            out = self.fine("nearest", "p.safetensors", word, "--top", 7, "--json").stdout
            wanted = json.loads(out)["queries"][0]["nearest"]
            found = model.most_similar(word, 7)
            self.assertEqual([name for name, _ in found], [n["name"] for n in wanted])
            np.testing.assert_allclose([cosine for _, cosine in found], [n["cosine"] for n in wanted], rtol=1e-12)
        self.assertEqual(len(model.most_similar("w1", 1000)), len(model.vocabulary_) - 1)
        about, tensors = read_model(self.path("p.safetensors"))
        self.assertEqual(list(model.vocabulary_), about["features"]["words"])
        np.testing.assert_array_equal(model.embedding_, tensors["embedding"])
        np.testing.assert_array_equal(model.vector("w1"), model.embedding_[model.vocabulary_["w1"]])
        model.embedding_[:] = 0
        model.vector("w1")[:] = 0
        self.assertTrue(np.any(model.vector("w1")))
        self.assertTrue("w1" in model and "never" not in model and 3 not in model)

    def test_every_way_to_give_a_text(self):
        wanted = self.model().log_loss(self.test_lines)
        text = "\n".join(self.lines)
        self.write("train.txt.gz", gzip.compress(text.encode()))
        with open(self.path("train.txt"), encoding="utf-8") as file:
            for given in (text, text + "\n", self.path("train.txt"), pathlib.Path(self.path("train.txt.gz")),
                          np.array(self.lines), tuple(self.lines), (line for line in self.lines), file):
                model = LanguageModel(**FIXED, **CASES["log-bilinear"]).fit(given)
                self.assertEqual(model.log_loss(self.test_lines), wanted, type(given))
        self.assertEqual(self.model(n_jobs=1).log_loss(self.path("test.txt")), wanted)

    def test_words_are_separated_by_blanks_of_ascii_only(self):
        model = LanguageModel(**FIXED, **CASES["log-bilinear"]).fit(["\ufeffa b\u2028c\x85d\v\fe\r"] * 40)
        self.assertEqual(sorted(model.vocabulary_), ["<eos>", "<unk>", "b\u2028c\x85d", "e", "\ufeffa"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.predict(["\ufeffa e", "b\u2028c\x85d"])

    def test_wikitext2(self):
        path = data_file("wikitext2", "wiki.valid.tokens.gz")
        model = LanguageModel(hidden=32, epochs=1, step=0.004, layers=0, tied=False, dropout=0, min_count=5).fit(path)
        self.assertLess(model.perplexity(path), 600)
        self.assertGreater(model.predict_proba(["the capital of"])[0, model.vocabulary_["the"]], 0.02)


class Estimator(Text):
    def test_pickles_copies_and_clones(self):
        from sklearn.base import clone
        model = self.model(random_state=5)
        wanted = model.predict_proba(["w1 w2"])
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(["w1 w2"]), wanted)
        self.assertEqual(again.history_, model.history_)
        self.assertEqual(again.most_similar("w1"), model.most_similar("w1"))
        fresh = clone(model)
        self.assertEqual(fresh.get_params(), model.get_params())
        self.assertFalse(hasattr(fresh, "model_"))
        self.assertEqual(repr(LanguageModel(hidden=8)), "LanguageModel(hidden=8)")
        self.assertEqual(fresh.set_params(hidden=4).fit(self.lines).embedding_.shape[1], 4)

    def test_grid_search_takes_lines(self):
        from sklearn.model_selection import GridSearchCV
        search = GridSearchCV(LanguageModel(**{**FIXED, **CASES["log-bilinear"]}), {"step": [1e-6, 0.01]}, cv=2)
        self.assertEqual(search.fit(self.lines).best_params_, {"step": 0.01})

    def test_without_scikit_learn(self):
        code = ("import sys; sys.modules['sklearn'] = None; sys.path.insert(0, sys.argv[1])\n"
                "import truemax\n"
                "m = truemax.LanguageModel(hidden=4, epochs=1, step=0.01, layers=0, tied=False, dropout=0)\n"
                "try: m.predict(['a'])\n"
                "except ValueError as error: assert 'not fitted' in str(error)\n"
                "m.fit(['a b c', 'b c a'] * 20).set_params(hidden=5)\n"
                "assert m.get_params()['hidden'] == 5\n"
                "try: m.set_params(other=1)\n"
                "except ValueError as error: print(m, error)\n")
        package = os.path.dirname(os.path.dirname(truemax.__file__))
        result = subprocess.run([sys.executable, "-c", code, package], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("LanguageModel(dropout=0, epochs=1, hidden=5, layers=0, step=0.01, tied=False) Invalid parameter "
                      "'other'", result.stdout)

    def test_callbacks_see_the_run_and_stop_it(self):
        events = []
        model = LanguageModel(**{**FIXED, **CASES["log-bilinear"], "epochs": 5}, eval_every=1)
        model.fit(self.lines, eval_text=self.test_lines, callbacks=events.append)
        epochs = [event["epoch"] for event in events if event["event"] == "evaluate"]
        self.assertEqual(epochs, [entry["epoch"] for entry in model.history_])
        self.assertEqual((epochs[-1], model.n_iter_), (5, 5))
        self.assertIn("valid_perplexity", model.history_[-1])
        model.fit(self.lines, callbacks=[lambda e: e["event"] == "evaluate" and e["epoch"] == 2])
        self.assertTrue(model.interrupted_)
        self.assertEqual(model.n_iter_, 2)
        self.assertGreater(model.perplexity(self.test_lines), 1)

        def fails(event):
            raise RuntimeError("from a callback")

        with self.assertRaisesRegex(RuntimeError, "from a callback"):
            model.fit(self.lines, callbacks=fails)
        with self.assertRaisesRegex(TypeError, "callbacks"):
            model.fit(self.lines, callbacks=[3])

    def test_an_interrupt_leaves_a_model(self):
        model = LanguageModel(**{**FIXED, **CASES["log-bilinear"], "epochs": 10**6})
        threading.Timer(0.4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            model.fit(self.lines)
        self.assertTrue(model.interrupted_)
        self.assertLess(model.perplexity(self.lines), 31)
        self.assertEqual(model.predict(["w1"]).shape, (1,))

    def test_no_temporary_file_stays(self):
        before = tempfile.tempdir
        tempfile.tempdir = self.path("temporary")
        os.mkdir(tempfile.tempdir)
        try:
            model = self.model()
            model.predict(["w1"])
            for bad in ([], ["a", 3], ["\n \n"]):
                with self.assertRaises((TypeError, ValueError)):
                    model.fit(bad)
            self.assertEqual(os.listdir(tempfile.tempdir), [])
        finally:
            tempfile.tempdir = before


class Misuse(Text):
    def refused(self, error, words, function, *arguments, **named):
        with self.assertRaisesRegex(error, words) as caught:
            function(*arguments, **named)
        self.assertNotRegex(str(caught.exception), r"/truemax-\w+/data", "the user gave no such file")

    def test_bad_texts(self):
        fit = LanguageModel(**FIXED, **CASES["log-bilinear"]).fit
        self.refused(ValueError, "text has no lines", fit, [])
        self.refused(ValueError, "text: holds no word", fit, ["", " \t"])
        self.refused(TypeError, "text: line 1 is float", fit, ["a b", float("nan")])
        self.refused(TypeError, "text: line 0 is list.*join the words", fit, [["a", "b"]])
        self.refused(TypeError, "text: line 0 is bytes", fit, [b"a b"])
        self.refused(TypeError, "text is bytes", fit, b"a b")
        self.refused(TypeError, "text is int", fit, 3)
        self.refused(TypeError, "text is NoneType", fit, None)
        self.refused(TypeError, "text is a set", fit, {"a b"})
        self.refused(ValueError, "text: line 0 has a line break inside", fit, ["a\nb"])
        self.refused(ValueError, "text: line 1 has a zero character", fit, ["a", "b\0"])
        self.refused(ValueError, "text: line 0 has .*half of a character", fit, ["a \ud800"])
        self.refused(ValueError, "text:1: a word has 70000 bytes", fit, ["x" * 70000])
        self.refused(FileNotFoundError, "give lines of text as a list", fit, "the cat sat on the mat")
        self.refused(FileNotFoundError, "no such file", fit, pathlib.Path("none.txt"))
        self.refused(FileNotFoundError, "no such file", fit, "-")
        self.refused(IsADirectoryError, "folder", fit, self.folder)
        self.refused(ValueError, "zero byte", fit, "a\0b")
        self.refused(TypeError, "y is given", fit, self.lines, self.test_lines)
        self.refused(FileNotFoundError, "eval_text", fit, self.lines, eval_text="none.txt")
        self.refused(ValueError, "eval_text has no lines", fit, self.lines, eval_text=[])

    def test_bad_parameters(self):
        for parameters, error, words in (({"encoder": "bag"}, ValueError, "encoder is 'bag'; give one of 'context'"),
                                         ({"hidden": 0}, ValueError, "hidden"),
                                         ({"hidden": "many"}, ValueError, "hidden"),
                                         ({"min_count": 10**6}, ValueError, "text: no word occurs.*min_count"),
                                         ({"context": [1]}, TypeError, "context"),
                                         ({"n_jobs": 0}, ValueError, "n_jobs"),
                                         ({"validation_fraction": 2}, ValueError, "validation_fraction|valid-share"),
                                         ({"encoder": "cbow", "layers": 1}, ValueError, "encoder")):
            with self.subTest(parameters):
                self.refused(error, words, LanguageModel(**{**FIXED, **CASES["log-bilinear"], **parameters}).fit,
                             self.lines)

    def test_bad_use(self):
        from sklearn.exceptions import NotFittedError
        fresh = LanguageModel()
        for use in (fresh.predict, fresh.perplexity, fresh.predict_proba, fresh.vector, fresh.most_similar, fresh.save):
            self.refused(NotFittedError, "not fitted", use, "w1")
        self.assertFalse(hasattr(fresh, "embedding_"))
        model = self.model()
        self.refused(ValueError, "k is 0; give a number from 1 to the 32 words", model.predict_topk, ["w1"], 0)
        self.refused(ValueError, "k is 33", model.predict_topk, ["w1"], 33)
        self.refused(TypeError, "k is 1.5", model.predict_topk, ["w1"], 1.5)
        self.refused(TypeError, "k is True", model.predict_topk, ["w1"], True)
        self.refused(ValueError, "k is -1", model.most_similar, "w1", -1)
        self.refused(KeyError, "'w01' is not a word of the model; did you mean 'w", model.most_similar, "w01")
        self.refused(KeyError, "not a word", model.vector, "never")
        self.refused(TypeError, "word is int", model.vector, 3)
        self.refused(ValueError, "contexts has no lines", model.predict, [])
        self.refused(FileNotFoundError, "contexts: there is no such file; give lines", model.predict, "w1 w2")
        self.refused(TypeError, "contexts: line 0 is int", model.predict, [1])
        self.refused(ValueError, "text has no lines", model.log_loss, [])
        cbow = LanguageModel(**FIXED, **CASES["cbow"]).fit(self.lines)
        self.refused(ValueError, "encoder is 'cbow'.*most_similar", cbow.predict, ["w1"])
        with self.assertWarnsRegex(UserWarning, "3 of 4 words are unknown"):
            model.evaluate(["quite other words"])

    def test_a_failed_fit_keeps_the_model_before(self):
        model = self.model()
        wanted = model.log_loss(self.test_lines)
        with self.assertRaises(ValueError):
            model.set_params(step=-1).fit(self.lines)
        self.assertEqual(model.log_loss(self.test_lines), wanted)


if __name__ == "__main__":
    unittest.main()
