#!/usr/bin/python3
"""truemax vectors and truemax nearest agree with the tensors of the model file."""
import json
import os
import subprocess
import unittest

import numpy as np

from model_reader import character_ngrams, read_model, xxh64
from support import PROGRAM, ProgramTest, RefusalTest, truemax

LEARN = ("--hidden", 6, "--epochs", 5, "--step", 0.01, "--ridge", 0.1, "--rows-per-step", 10, "--log", "none")
TEXT = ("__label__pos good film with a great cast\n__label__neg bad film with a dull cast\n"
        "__label__pos great plot and a good ending\n__label__neg dull plot and a bad ending\n") * 10


def read_vec(text):
    """{name: float32 vector} of word2vec text, in its order."""
    first, *lines = text.splitlines()
    rows, columns = map(int, first.split(" "))
    assert len(lines) == rows
    vectors = {}
    for line in lines:
        name, *numbers = line.split(" ")
        assert len(numbers) == columns, line
        vectors[name] = np.array(numbers, np.float32)
    assert len(vectors) == rows
    return vectors


def cosine(a, b):
    a, b = a.astype(float), b.astype(float)
    return a @ b / np.sqrt((a @ a) * (b @ b))


class Vectors(ProgramTest):
    def trained(self, content, *more):
        self.write("a.txt", content)
        self.fine("train", "a.txt", *LEARN, "--model", "m.safetensors", *more)
        return read_model(self.path("m.safetensors"))

    def written(self, *more):
        self.fine("vectors", "m.safetensors", "out.vec", *more)
        return read_vec(self.read("out.vec").decode())

    def test_words_and_classes_are_the_rows_of_the_tensors(self):
        about, tensors = self.trained(TEXT)
        for more, names, tensor in (((), about["features"]["words"], "embedding"),
                                    (("--of", "classes"), about["classes"], "weight")):
            with self.subTest(tensor):
                vectors = self.written(*more)
                self.assertEqual(list(vectors), names)
                self.assertTrue(np.array_equal(np.stack(list(vectors.values())), tensors[tensor]), "the same float32")

    def test_features_without_words_have_numbers(self):
        self.generate("n.txt")
        self.fine("train", "n.txt", *LEARN, "--model", "m.safetensors")
        _, tensors = read_model(self.path("m.safetensors"))
        vectors = self.written()
        self.assertEqual(list(vectors), [str(f) for f in range(60)])
        self.assertTrue(np.array_equal(np.stack(list(vectors.values())), tensors["embedding"]))
        self.assertEqual(len(self.fine("nearest", "m.safetensors", 7, "--top", 3).stdout.splitlines()), 3)

    def test_words_with_characters_are_sums(self):
        about, tensors = self.trained(TEXT, "--char-ngrams", "3-4")
        embedding, words = tensors["embedding"].astype(float), about["features"]["words"]
        buckets = np.cumsum(about["features"]["buckets"]).tolist()

        def summed(word):
            rows = [words.index(word)] if word in words else []
            for gram in character_ngrams(word, 3, 4):
                bucket = xxh64(gram.encode()) % 2000000
                rows += [len(words) + buckets.index(bucket)] if bucket in buckets else []
            return embedding[rows].sum(0)
        vectors = self.written()
        self.assertEqual(list(vectors), words)
        for word, vector in vectors.items():
            np.testing.assert_allclose(vector, summed(word), rtol=1e-4, atol=1e-6)
        ngrams = self.written("--of", "ngrams")
        self.assertEqual(list(ngrams), [str(bucket) for bucket in buckets])
        self.assertTrue(np.array_equal(np.stack(list(ngrams.values())), tensors["embedding"][len(words):]))
        result = self.fine("nearest", "m.safetensors", "goodness", "--json", "--top", len(words))
        self.assertIn("'goodness' is not a word of the model", result.stderr)
        for found in json.loads(result.stdout)["queries"][0]["nearest"]:
            self.assertAlmostEqual(found["cosine"], cosine(summed(found["name"]), summed("goodness")), delta=1e-5)

    def test_nearest_are_those_of_numpy(self):
        about, tensors = self.trained(TEXT)
        for of, names, tensor in (("words", about["features"]["words"], tensors["embedding"]),
                                  ("classes", about["classes"], tensors["weight"])):
            with self.subTest(of):
                asked = names[:2]
                said = json.loads(self.fine("nearest", "m.safetensors", *asked, "--of", of, "--top", 4, "--json").stdout)
                self.assertEqual([query["name"] for query in said["queries"]], asked)
                for query in said["queries"]:
                    me = names.index(query["name"])
                    wanted = sorted(((-cosine(tensor[me], tensor[i]), name) for i, name in enumerate(names) if i != me))[:4]
                    self.assertEqual([found["name"] for found in query["nearest"]], [name for _, name in wanted])
                    np.testing.assert_allclose([found["cosine"] for found in query["nearest"]], [-c for c, _ in wanted],
                                               rtol=1e-9)
        lines = self.fine("nearest", "m.safetensors", "good", "bad", "--top", 2).stdout.splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["good", "good", "bad", "bad"])
        self.assertEqual(self.fine("nearest", "m.safetensors", "good", "--threads", 1).stdout,
                         self.fine("nearest", "m.safetensors", "good", "--threads", 3).stdout)

    def test_standard_output_pipes_and_existing_files(self):
        self.trained(TEXT)
        whole = self.fine("vectors", "m.safetensors", "-").stdout
        self.write("out.vec", "an older file")
        said = json.loads(self.fine("vectors", "m.safetensors", "out.vec", "--json").stdout)
        self.assertEqual(said, {"path": "out.vec", "vectors": len(read_vec(whole)), "columns": 6})
        self.assertEqual(self.read("out.vec").decode(), whole)
        os.mkfifo(self.path("pipe"))
        with subprocess.Popen([PROGRAM, "vectors", "m.safetensors", "pipe"], cwd=self.folder,
                              stdout=subprocess.DEVNULL) as program:
            self.assertEqual(self.read("pipe").decode(), whole)
        self.assertEqual(program.returncode, 0)


class Refused(RefusalTest):
    def setUp(self):
        super().setUp()
        self.write("a.txt", TEXT)

    def learnt(self, *more):
        self.fine("train", "a.txt", *LEARN, "--model", "m.safetensors", *more)

    def test_linear_model(self):
        self.fine("train", "a.txt", "--method", "implicit", "--epochs", 1, "--model", "m.safetensors", "--log", "none")
        for command in (["vectors", "m.safetensors", "out.vec"], ["nearest", "m.safetensors", "good"],
                        ["vectors", "m.safetensors", "out.vec", "--of", "classes"]):
            self.refused(command, "m.safetensors: is a linear model", "train with --hidden")

    def test_outputs(self):
        self.learnt()
        self.refused(["vectors", "m.safetensors", "m.safetensors"], "this is the model")
        self.refused(["vectors", "m.safetensors", "no/such/out.vec"], "no/such")
        self.refused(["vectors", "m.safetensors", "out.vec.gz"], r"truemax vectors m\.safetensors - \| gzip > out\.vec\.gz")
        self.refused(["vectors", "m.safetensors", "-", "--json"], "--json")
        self.refused(["vectors", "m.safetensors", "out.vec", "--of", "ngrams"], "no n-grams")
        self.refused(["vectors", "a.txt", "out.vec"], r"a\.txt")
        self.refused(["vectors", "m.safetensors", "out.vec", "--memory-limit", "100"], "not enough memory")

    def test_names_with_blanks(self):
        np.save(self.path("X.npy"), np.eye(4, dtype=np.float32))
        np.save(self.path("y.npy"), np.array(["new york", "rome", "new york", "rome"]))
        self.fine("train", "X.npy", "--hidden", 2, "--epochs", 1, "--step", 0.01, "--ridge", 0.1, "--rows-per-step", 2,
                  "--model", "m.safetensors", "--log", "none")
        self.refused(["vectors", "m.safetensors", "out.vec", "--of", "classes"], "'new york' has a blank", "rename it")
        self.assertEqual(truemax("nearest", "m.safetensors", "new york", "--of", "classes", cwd=self.folder).returncode, 0)

    def test_unknown_words(self):
        self.learnt()
        self.refused(["nearest", "m.safetensors", "goot"], "'goot' is not a word of the model; did you mean 'good'")
        self.refused(["nearest", "m.safetensors", "good", "zzzzzzzz"], "'zzzzzzzz' is not a word .*inspect --json")
        self.refused(["nearest", "m.safetensors", "pas", "--of", "classes"], "is not a class .*'pos'")
        self.learnt("--hash-features", 50)
        self.refused(["nearest", "m.safetensors", "good"], "keeps no words: give a feature number from 0 to 49")
        self.assertEqual(truemax("nearest", "m.safetensors", 49, cwd=self.folder).returncode, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
