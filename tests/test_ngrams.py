#!/usr/bin/python3
"""--word-ngrams and --char-ngrams through the whole program, against n-grams made and hashed here in Python."""
import json
import random
import unittest

import numpy as np

import model_reader
from model_reader import ngrams, read_fasttext_ngrams, read_model, xxh64
from support import OUTPUT, ProgramTest, RefusalTest, events
from test_hashing import bucket_of

FIT = ("--method", "implicit", "--step", 1, "--epochs", 2, "--seed", 3)
LEARN = ("--hidden", 12, "--epochs", 20, "--step", 0.01, "--ridge", 0.1, "--rows-per-step", 20)
STEMS = ("play", "cook", "größ", "東京", "run", "code")
ENDINGS = ("", "s", "ed", "ing", "er", "🙂")


def lines(count, seed, endings=ENDINGS):
    """Rows whose class shows in the stems of their words, or in the order of two of them."""
    draw = random.Random(seed)
    for _ in range(count):
        k = draw.randrange(6)
        words = [STEMS[k] + draw.choice(endings) for _ in range(2)] + [draw.choice(STEMS) for _ in range(2)]
        draw.shuffle(words)
        words += ["not", "good"] if k % 2 else ["good", "not"]
        yield f"__label__{STEMS[k]} " + " ".join(words)


class Ngrams(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.txt", "\n".join(lines(300, 1)) + "\n")
        self.write("test.txt", "\n".join(lines(80, 2)) + "\n__label__play unheard words\n\n")

    def trained(self, *options, fit=FIT):
        self.fine("train", "train.txt", *fit, *options, "--model", "m.safetensors", "--log", "none")
        return read_model(self.path("m.safetensors"))

    def test_features_are_the_words_and_the_buckets_that_occur(self):
        for options, buckets in ((("--word-ngrams", 2), 2000000), (("--char-ngrams", "3-6"), 2000000),
                                 (("--word-ngrams", 10, "--char-ngrams", "1-20"), 2000000),
                                 (("--word-ngrams", 3, "--char-ngrams", "2-4", "--ngram-buckets", 100), 100)):
            with self.subTest(options):
                about, tensors = self.trained(*options)
                used = set()
                for line in self.read("train.txt").decode().splitlines():
                    used |= {xxh64(gram.encode()) % buckets for gram in ngrams(line.split()[1:], about["preprocessing"])}
                self.assertEqual(np.cumsum(about["features"]["buckets"]).tolist(), sorted(used))
                self.assertEqual(tensors["weight"].shape[1], len(about["features"]["words"]) + len(used))
                said = self.fine("inspect", "m.safetensors").stdout
                self.assertRegex(said, rf"(?m)^n-grams +{len(used)} of {buckets} buckets$")

    def test_metrics_and_predictions_are_those_of_numpy(self):
        for options in (("--word-ngrams", 3), ("--char-ngrams", "3-6"),
                        ("--word-ngrams", 2, "--char-ngrams", "2-3", "--ngram-buckets", 500, "--normalize", "l2")):
            with self.subTest(options):
                model = self.trained(*options)
                rows, words, grams = read_fasttext_ngrams(self.path("test.txt"), model[0])
                wanted = model_reader.evaluate(model, rows)
                found = self.metrics("m.safetensors", "test.txt")
                self.assertAlmostEqual(found["log_loss"], wanted["log_loss"], delta=1e-5)
                self.assertAlmostEqual(found["error"], wanted["error"], delta=1e-12)
                self.assertEqual((found["unknown_words"], found["unknown_ngrams"]), (words, grams))
                result = self.fine("predict", "m.safetensors", "test.txt", "--json")
                self.assertIn(f"{grams} n-grams not seen in training were left out", result.stderr)
                self.assertEqual(len(result.stdout.splitlines()), len(rows))

    def test_learnt_features_are_sums_over_words_and_ngrams(self):
        about, tensors = self.trained("--char-ngrams", "3-5", "--word-ngrams", 2, fit=LEARN)
        rows, _, _ = read_fasttext_ngrams(self.path("test.txt"), about)
        embedding = tensors["embedding"].astype(float)
        x = np.stack([sum((v * embedding[f] for f, v in row.features.items()), np.zeros(12)) for row in rows])
        p = model_reader.softmax(x @ tensors["weight"].astype(float).T + tensors["intercept"].astype(float))
        said = [json.loads(line) for line in
                self.fine("predict", "m.safetensors", "test.txt", "--top", 6, "--json").stdout.splitlines()]
        for line, of in zip(said, p):
            at = [about["classes"].index(name) for name in line["classes"]]
            np.testing.assert_allclose(line["probabilities"], of[at], rtol=1e-4, atol=1e-9)

    def test_unseen_words_are_understood_by_their_characters(self):
        """No ending of the test words occurs in training, so words say nothing and characters everything."""
        self.write("train.txt", "\n".join(lines(300, 1, ("s", "ed"))) + "\n")
        self.write("test.txt", "\n".join(f"__label__{stem} {stem}ing {stem}er" for stem in STEMS) + "\n")
        self.trained("--char-ngrams", "3-6")
        found = self.metrics("m.safetensors", "test.txt")
        self.assertEqual((found["rows"], found["error"], found["unknown_words"]), (6, 0, 12))

    def test_order_of_words_counts_with_word_ngrams(self):
        self.write("train.txt", "__label__a not good\n__label__b good not\n" * 20)
        self.write("test.txt", "__label__a not good\n__label__b good not\n")
        self.trained("--word-ngrams", 2)
        self.assertEqual(self.metrics("m.safetensors", "test.txt")["error"], 0)
        self.trained()
        self.assertEqual(self.metrics("m.safetensors", "test.txt")["error"], 0.5)

    def test_hash_features_takes_words_and_ngrams(self):
        """Bit-identical to training on a file hashed beforehand."""
        buckets, preprocessing = 64, {"word-ngrams": 2, "char-ngrams": "3-4"}
        for name in ("train", "test"):
            text, out = self.read(f"{name}.txt").decode(), []
            for k, stem in enumerate(STEMS):
                text = text.replace(f"__label__{stem} ", f"__label__{k} ")
            self.write(f"{name}.txt", text)
            for line in text.splitlines():
                label, *words = line.split() or [""]
                sums = {}
                for at in ([bucket_of(word, buckets) for word in words] +
                           [xxh64(gram.encode()) % buckets for gram in ngrams(words, preprocessing)]):
                    sums[at] = sums.get(at, 0) + 1
                out.append(label.removeprefix("__label__") + "".join(f" {f}:{v}" for f, v in sorted(sums.items())))
            self.write(f"{name}.h", f"{len(out)} {buckets} 6\n" + "\n".join(out) + "\n")
        about, tensors = self.trained("--word-ngrams", 2, "--char-ngrams", "3-4", "--hash-features", buckets)
        self.fine("train", "train.h", *FIT, "--model", "h.safetensors", "--log", "none")
        self.assertNotIn("buckets", about["features"])
        self.assertTrue(np.array_equal(tensors["weight"], read_model(self.path("h.safetensors"))[1]["weight"]))
        self.assertEqual(self.metrics("m.safetensors", "test.txt")["log_loss"],
                         self.metrics("h.safetensors", "test.h")["log_loss"])

    def test_threads_replay_and_standard_input_give_the_same_bits(self):
        models = []
        for threads in (1, 2, 5):
            self.fine("train", "train.txt", *FIT, "--word-ngrams", 3, "--char-ngrams", "2-5", "--threads", threads,
                      "--model", "m.safetensors", "--log", "m.jsonl")
            models.append(self.read("m.safetensors"))
        self.fine("train", "train.txt", "--replay", "m.jsonl", "--model", "m.safetensors", "--log", "none")
        models.append(self.read("m.safetensors"))
        self.fine("train", "-", *FIT, "--word-ngrams", 3, "--char-ngrams", "2-5", "--model", "m.safetensors", "--log",
                  "none", stdin=self.read("train.txt"))
        models.append(self.read("m.safetensors"))
        for model in models[1:]:
            self.assertEqual(model, models[0])
        config = events(self.path("m.jsonl"))[0]["config"]
        self.assertEqual((config["word-ngrams"], config["char-ngrams"], config["ngram-buckets"]), (3, "2-5", 2000000))
        a, b = (self.fine("predict", "m.safetensors", *more).stdout
                for more in (["test.txt", "--threads", 2], ["test.txt", "--threads", 1]))
        self.assertEqual(a, b)

    def test_model_without_ngram_options_still_loads(self):
        """A file as an older version wrote it."""
        self.trained()
        raw = self.read("m.safetensors")
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:8 + size])
        about = json.loads(header["__metadata__"].pop("truemax"))
        for name in ("word-ngrams", "char-ngrams", "ngram-buckets"):
            about["preprocessing"].pop(name)
        header["__metadata__"]["truemax"] = json.dumps(about)
        header["__metadata__"]["truemax_checksum"] = f"{xxh64(json.dumps(about).encode()):016x}"
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.write("old.safetensors", len(text).to_bytes(8, "little") + text + raw[8 + size:])
        self.assertEqual(self.metrics("old.safetensors", "test.txt"), self.metrics("m.safetensors", "test.txt"))


class Refused(RefusalTest):
    def test_options(self):
        self.write("a.txt", "__label__a x y\n__label__b y x\n")
        for name, value, words in (("word-ngrams", 0, "from 1 to 10"), ("word-ngrams", 11, "from 1 to 10"),
                                   ("char-ngrams", "3", "as in 3-6"), ("char-ngrams", "6-3", "as in 3-6"),
                                   ("char-ngrams", "3-21", "from 1 to 20"), ("ngram-buckets", 0, "from 1 to 1e8")):
            self.refused(["train", "a.txt", f"--{name}", value, *OUTPUT], f"--{name}", words)
        self.refused(["train", "a.txt", "--ngram-buckets", 7, *OUTPUT], "there are no n-grams; add --word-ngrams 2")
        self.refused(["train", "a.txt", "--ngram-buckets", 7, "--word-ngrams", 2, "--hash-features", 7, *OUTPUT],
                     "leave --ngram-buckets out")
        self.refused(["train", "a.txt", "--wordNgrams", 2], "--wordNgrams is called --word-ngrams here")

    def test_other_formats(self):
        self.generate("a.txt")
        for more, words in ((("--word-ngrams", 2), "--word-ngrams 2"), (("--char-ngrams", "3-6"), "--char-ngrams 3-6")):
            self.refused(["train", "a.txt", *more, *OUTPUT], r"a\.txt: is xmlrepository data, which has no words for " + words,
                         "give fastText text")
            self.refused(["compare", "a.txt", *more], "no words")
        self.write("t.txt", "__label__a x y\n__label__b y x\n")
        self.fine("train", "t.txt", *FIT, "--word-ngrams", 2, "--model", "m.safetensors", "--log", "none")
        self.refused(["evaluate", "m.safetensors", "a.txt"], "the model was trained on words")

    def test_a_line_of_ten_megabytes_is_refused_if_memory_is_short(self):
        draw = random.Random(1)
        word = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=10_000_000))
        self.write("long.txt", f"__label__a x\n__label__b {word}\n")
        self.refused(["train", "long.txt", *OUTPUT], r"long\.txt:2: a word has 10000000 bytes", "separate words by blanks")
        words = " ".join(word[i:i + 60_000] for i in range(0, len(word), 60_000))
        self.write("a.txt", f"__label__a x\n__label__b {words}\n__label__a y z\n")
        message = self.refused(["train", "a.txt", "--char-ngrams", "3-6", "--memory-limit", "100M", *OUTPUT],
                               r"a\.txt:2: not enough memory to read on after 1 row", "fewer n-grams")
        self.assertIn("--memory-limit is 100 MB", message)
        self.write("b.txt", "__label__a x\n__label__b " + word.replace("a", " ") + "\n")
        self.refused(["train", "b.txt", "--word-ngrams", 10, "--memory-limit", "30M", *OUTPUT], "fewer n-grams")


if __name__ == "__main__":
    unittest.main(verbosity=2)
