"""--hash-features through the whole program, against hashing done here in Python."""
import json
import re
import unittest

import numpy as np

import model_reader
from support import OUTPUT, ProgramTest, RefusalTest, truemax

MASK = (1 << 64) - 1


def mixed(z):
    z = (z + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def bucket_of(feature, buckets):
    """As in docs/formats.md: of a number from 0, or of the bytes of a word."""
    if isinstance(feature, int):
        return mixed(feature) % buckets
    h = 0xCBF29CE484222325
    for byte in feature.encode():
        h = ((h ^ byte) * 0x100000001B3) & MASK
    return mixed(h) % buckets


def parsed(text, form):
    """Rows [(labels, [(feature, value)])] of a generated file; features are numbers from 0, or words."""
    lines = text.splitlines()
    if form == "xmlrepository":
        lines = lines[1:]
    for line in lines:
        if form == "fasttext":
            words = line.split()
            labels = [w.removeprefix("__label__") for w in words if w.startswith("__label__")]
            yield labels, [(w, 1.0) for w in words if not w.startswith("__label__")]
            continue
        labels, _, features = line.replace(", ", ",").partition(" ")
        base = 1 if form == "libsvm" else 0
        yield labels.split(","), [(int(f) - base, float(np.float32(v))) for f, v in
                                  (token.split(":") for token in features.split())]


def hashed(rows, buckets):
    """The text of an XMLRepository file with the features in their buckets."""
    rows, lines = list(rows), []
    for labels, features in rows:
        sums = {}
        for feature, value in sorted(features, key=lambda pair: pair[1]):
            at = bucket_of(feature, buckets)
            sums[at] = sums.get(at, 0.0) + value
        lines.append(",".join(labels) + "".join(f" {f}:{np.float32(v):.9g}" for f, v in sorted(sums.items()) if v != 0))
    return "\n".join([f"{len(rows)} {buckets} 1000000", *lines]) + "\n"


class Hashing(ProgramTest):
    def trained(self, data, model, *options):
        self.fine("train", data, "--method", "implicit", "--step", 1, "--epochs", 2, "--seed", 3, "--model", model,
                  "--log", "none", *options)
        return model_reader.read_model(self.path(model))

    def test_every_text_format_matches_the_python_hash(self):
        """Training with --hash-features is bit-identical to training on a file hashed beforehand."""
        for form in ("xmlrepository", "libsvm", "lshtc", "fasttext"):
            for buckets in (1, 7, 40, 5000):
                with self.subTest(form=form, buckets=buckets):
                    self.generate("a.txt", "--test", "t.txt", "--test-rows", 60, form=form, seed=buckets)
                    for name in ("a.txt", "t.txt"):
                        self.write("h" + name, hashed(parsed(self.read(name).decode(), form), buckets))
                    about, tensors = self.trained("a.txt", "a.safetensors", "--format", form, "--hash-features", buckets,
                                                  "--normalize", "l2")
                    _, wanted = self.trained("ha.txt", "h.safetensors", "--normalize", "l2")
                    self.assertEqual(tensors["weight"].shape[1], buckets)
                    self.assertTrue(np.array_equal(tensors["weight"], wanted["weight"]))
                    self.assertEqual(about["preprocessing"]["hash-features"], buckets)
                    self.assertEqual(about["features"]["words"], [], "no vocabulary is kept")
                    self.assertEqual(self.metrics("a.safetensors", "t.txt", "--format", form),
                                     self.metrics("h.safetensors", "ht.txt"))
                    self.assertEqual(self.fine("predict", "a.safetensors", "t.txt", "--format", form, "--top", 3).stdout,
                                     self.fine("predict", "h.safetensors", "ht.txt", "--top", 3).stdout)

    def test_dense_rows_and_values_that_cancel(self):
        rows = np.array([[1, -1, 0, 2], [0.5, 0, 3, 0], [0, 0, 0, 1], [2, -2, 1, 1]], np.float32)
        np.save(self.path("X.npy"), rows)
        np.save(self.path("y.npy"), np.array([0, 1, 0, 1]))
        sparse = [(str(y), [(f, float(v)) for f, v in enumerate(row) if v != 0]) for y, row in zip((0, 1, 0, 1), rows)]
        for buckets in (1, 2, 3, 100):
            with self.subTest(buckets=buckets):
                self.write("h.txt", hashed([([y], features) for y, features in sparse], buckets))
                _, tensors = self.trained("X.npy", "a.safetensors", "--label-file", "y.npy", "--hash-features", buckets)
                _, wanted = self.trained("h.txt", "h.safetensors")
                self.assertTrue(np.array_equal(tensors["weight"], wanted["weight"]))

    def test_threads_and_replay_give_the_same_bits(self):
        self.generate("a.txt", form="fasttext", rows=3000, features=900)
        models = []
        for threads in (1, 2, 5):
            self.fine("train", "a.txt", "--hash-features", 64, "--epochs", 2, "--step", 1, "--ridge", 0.1, "--threads",
                      threads, "--model", "m.safetensors", "--log", "m.jsonl")
            models.append(self.read("m.safetensors"))
        self.fine("train", "a.txt", "--replay", "m.jsonl", "--model", "r.safetensors", "--log", "none")
        models.append(self.read("r.safetensors"))
        for model in models[1:]:
            self.assertEqual(model, models[0])

    def test_unseen_features_fall_into_their_buckets(self):
        self.write("a.txt", "0 1:1\n1 2:1\n0 1:1 2:1\n")
        self.trained("a.txt", "a.safetensors", "--format", "libsvm", "--hash-features", 8)
        self.write("t.txt", "0 1:1 4000000:2\n")
        said = self.metrics("a.safetensors", "t.txt", "--format", "libsvm")
        self.assertEqual((said["rows"], said["unknown_features"]), (1, 0))

    def test_compare_and_tune_accept_hashing(self):
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 60)
        for name in ("a.txt", "t.txt"):
            self.write("h" + name, hashed(parsed(self.read(name).decode(), "xmlrepository"), 16))
        found = []
        for data, test, more in (("a.txt", "t.txt", ("--hash-features", 16)), ("ha.txt", "ht.txt", ())):
            self.fine("compare", data, "--test", test, "--methods", "implicit", "--grid", "-1:0", "--epochs", 2, "--json-file",
                      "c.json", *more)
            self.fine("tune", data, "--method", "implicit", "--epochs", 2, "--try", "step=0.5,1", "--json-file", "t.json", *more)
            losses = [re.findall(rb'"([a-z_]*loss[a-z_]*)": ?([-0-9.e]+)', self.read(name))
                      for name in ("c.json", "t.json")]
            self.assertTrue(losses[0] and losses[1])
            found.append(losses)
        self.assertEqual(found[0], found[1])


class Refused(RefusalTest):
    def test_numbers_of_buckets(self):
        path = self.write("a.txt", "3 5 3\n0 0:1\n1 1:1\n2 2:1 4:2\n")
        for value in ("0", "-1", "2.5", "1e10", "nan", "all"):
            with self.subTest(value):
                self.refused(["train", path, "--hash-features", value, *OUTPUT], "--hash-features", "from 1 to 1e9")

    def test_with_max_features(self):
        path = self.write("a.txt", "3 5 3\n0 0:1\n1 1:1\n2 2:1 4:2\n")
        self.refused(["train", path, "--hash-features", 3, "--max-features", 3, *OUTPUT], "--max-features", "--hash-features")

    def test_sums_beyond_float(self):
        self.train_refused("2 3 2\n0 0:3e38 1:3e38\n1 2:1\n", r":2:", "32-bit", options=("--hash-features", 1))

    def test_words_for_a_model_of_hashed_numbers(self):
        path = self.write("a.txt", "3 5 3\n0 0:1\n1 1:1\n2 2:1 4:2\n")
        words = self.write("w.txt", "__label__0 a b\n__label__1 c\n")
        for data, other in ((path, words), (words, path)):
            self.assertEqual(truemax("train", data, "--hash-features", 4, "--epochs", 1, "--model", "n.safetensors", "--log",
                                     "none", "--method", "implicit", cwd=self.folder).returncode, 0)
            self.refused(["evaluate", "n.safetensors", other], "fastText")

    def test_contradictory_metadata(self):
        path = self.write("a.txt", "3 5 3\n0 0:1\n1 1:1\n2 2:1 4:2\n")
        self.assertEqual(truemax("train", path, "--hash-features", 4, "--epochs", 1, "--model", "n.safetensors", "--log",
                                 "none", "--method", "implicit", cwd=self.folder).returncode, 0)
        raw = self.read("n.safetensors")
        size = int.from_bytes(raw[:8], "little")
        for key, value in (("hash-features", 5), ("hash-features", 0), ("max-features", 2)):
            with self.subTest(key=key, value=value):
                header = json.loads(raw[8:8 + size])
                about = json.loads(header["__metadata__"]["truemax"])
                about["preprocessing"][key] = value
                header["__metadata__"]["truemax"] = json.dumps(about)
                text = json.dumps(header).encode()
                text += b" " * (-len(text) % 8)
                self.write("bad.safetensors", len(text).to_bytes(8, "little") + text + raw[8 + size:])
                self.refused(["evaluate", "bad.safetensors", path], "hash")


if __name__ == "__main__":
    unittest.main(verbosity=2)
