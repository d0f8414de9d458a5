#!/usr/bin/python3
"""Plain text (--format text): training, the model file, evaluation and prediction agree with NumPy."""
import gzip
import json
import unittest

import numpy as np

from model_reader import read_model
from support import OUTPUT, RefusalTest, ProgramTest, last_evaluation

FIXED = ("--hidden", 20, "--epochs", 10, "--step", 0.01, "--ridge", 1, "--rows-per-step", 64, "--dropout", 0.1)


def made_text(lines, seed):
    """Words that mostly follow from the word before them."""
    random = np.random.default_rng(seed)
    words = [f"w{i}" for i in range(30)]
    last, out = 1, []
    for _ in range(lines):
        line = []
        for _ in range(random.integers(3, 12)):
            last = (7 * last + 3) % 30 if random.random() < 0.8 else int(random.integers(30))
            line.append(words[last])
        out.append(" ".join(line))
    return "\n".join(out) + "\n"


class Text(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("train.txt", made_text(400, 1))
        self.write("test.txt", made_text(60, 2) + "w1 never seen\n")

    def train(self, *more, name="m"):
        return self.fine("train", "train.txt", "--format", "text", "--test", "test.txt", *FIXED, *more,
                         "--model", f"{name}.safetensors", "--log", f"{name}.jsonl")

    def words_of(self, name):
        return [w for line in self.read(name).decode().splitlines() for w in line.split() + ["<eos>"]]

    def probabilities(self, model, words):
        """[words][K] in float64, the labels, and what the model says about itself."""
        about, t = read_model(self.path(model))
        features = about["features"]
        place = {w: i for i, w in enumerate(features["words"])}  # in the rows of the embedding
        ids = [place.get(w, place["<unk>"]) for w in words]
        c, eos = features["context"], place["<eos>"]
        cbow = features["encoder"] == "cbow"
        padded = [eos] * c + ids + ([eos] * c if cbow else [])
        width = 2 * c + 1 if cbow else c
        e, mixing = t["embedding"].astype(float), t["context"].astype(float)
        windows = np.array([padded[i:i + width] for i in range(len(ids))])
        if features["layers"] == 1:
            x = np.tanh(e[windows].reshape(len(ids), -1) @ mixing[:-1] + mixing[-1])
        else:
            x = (e[windows] * mixing[None]).sum(1)
        z = x @ t["weight"].astype(float).T + t["intercept"].astype(float)
        z -= z.max(1, keepdims=True)
        p = np.exp(z)
        of_class = {name: k for k, name in enumerate(about["classes"])}
        return p / p.sum(1, keepdims=True), [of_class[features["words"][i]] for i in ids], about

    def test_log_loss_is_that_of_the_model_file(self):
        for number, more in enumerate((("--layers", 0, "--no-tied", "--context", 3), ("--layers", 1, "--tied", "--context", 2),
                                       ("--layers", 1, "--no-tied"), ("--encoder", "cbow", "--no-tied", "--context", 2))):
            with self.subTest(options=more):
                self.train(*more, name=f"m{number}")
                p, labels, about = self.probabilities(f"m{number}.safetensors", self.words_of("test.txt"))
                loss = -np.mean(np.log(p[np.arange(len(labels)), labels]))
                found = json.loads(self.fine("evaluate", f"m{number}.safetensors", "test.txt", "--json").stdout)
                self.assertAlmostEqual(found["log_loss"], loss, delta=1e-5 * loss)
                self.assertAlmostEqual(found["perplexity"], np.exp(loss), delta=1e-4 * np.exp(loss))
                self.assertEqual(found["examples"], len(labels))
                self.assertEqual(found["unk_words"], 2)
                logged = last_evaluation(self.path(f"m{number}.jsonl"))["test"]["log_loss"]
                self.assertAlmostEqual(logged, found["log_loss"], places=12)
                self.assertLess(loss, 0.9 * np.log(len(about["classes"])))  # it has learnt something
                tied = "--tied" in more
                _, tensors = read_model(self.path(f"m{number}.safetensors"))
                order = [about["classes"].index(w) for w in about["features"]["words"]]
                self.assertEqual(np.array_equal(tensors["weight"][order], tensors["embedding"]), tied)

    def test_skip_gram_is_that_of_the_model_file(self):
        self.train("--encoder", "skipgram", "--context", 2)
        about, t = read_model(self.path("m.safetensors"))
        self.assertEqual(about["features"]["encoder"], "skipgram")
        self.assertEqual(sorted(t), ["embedding", "intercept", "weight"])
        place = {w: i for i, w in enumerate(about["features"]["words"])}
        of_class = {name: k for k, name in enumerate(about["classes"])}
        words = [w if w in place else "<unk>" for w in self.words_of("test.txt")]
        z = t["embedding"].astype(float) @ t["weight"].astype(float).T + t["intercept"].astype(float)
        log_p = z - np.log(np.exp(z - z.max(1, keepdims=True)).sum(1, keepdims=True)) - z.max(1, keepdims=True)
        pairs = [(w, words[j]) for i, w in enumerate(words) for j in range(max(0, i - 2), min(len(words), i + 3)) if j != i]
        loss = -np.mean([log_p[place[w], of_class[near]] for w, near in pairs])
        found = json.loads(self.fine("evaluate", "m.safetensors", "test.txt", "--json").stdout)
        self.assertEqual((found["examples"], found["rows"]), (len(pairs), len(words)))
        self.assertAlmostEqual(found["log_loss"], loss, delta=1e-5 * loss)
        self.assertAlmostEqual(found["perplexity"], np.exp(loss), delta=1e-4 * np.exp(loss))
        self.assertLess(loss, 0.95 * np.log(len(place)))
        # predict: what is near the last word of each line
        self.write("prompts.txt", "w7 w1\nw5\n")
        for line, word in zip(self.fine("predict", "m.safetensors", "prompts.txt", "--top", 3, "--json").stdout.splitlines(),
                              ("w1", "w5")):
            best = np.argsort(-log_p[place[word]])[:3]
            self.assertEqual(json.loads(line)["classes"], [about["classes"][k] for k in best])
        self.assertIn("w1\t", self.fine("nearest", "m.safetensors", "w1").stdout)
        self.fine("train", "train.txt", "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "again.jsonl")
        self.assertEqual(self.read("m.safetensors"), self.read("again.safetensors"))

    def test_skip_gram_is_tuned_by_trials(self):
        out = self.fine("train", "train.txt", "--format", "text", "--encoder", "skipgram", "--test", "test.txt", "--hidden", 16,
                        "--model", "c.safetensors", "--log", "c.jsonl").stdout
        self.assertRegex(out, r"train   \d+ pairs of \d+ words")
        self.assertRegex(out, r"chosen  hidden 16, skip-gram, separate vectors, dropout 0, step")
        tried = [json.loads(line).get("about") for line in self.read("c.jsonl").splitlines()]
        self.assertIn("step", tried)
        self.assertNotIn("layers", tried)

    def test_predict_goes_on_after_each_line(self):
        self.train("--layers", 0, "--no-tied", "--context", 3)
        self.write("prompts.txt", "w1 w2 w3 w4\n\nw5\n")
        lines = [json.loads(line) for line in
                 self.fine("predict", "m.safetensors", "prompts.txt", "--top", 3, "--json").stdout.splitlines()]
        self.assertEqual(len(lines), 3)
        for line, words in zip(lines, (["w2", "w3", "w4"], ["<eos>"] * 3, ["<eos>", "<eos>", "w5"])):
            # The word after `words` in a text that begins with them: its row is the one after them.
            p, _, about = self.probabilities("m.safetensors", words + ["w1"])
            best = np.argsort(-p[-1])[:3]
            self.assertEqual(line["classes"], [about["classes"][k] for k in best])
            np.testing.assert_allclose(line["probabilities"], p[-1][best], rtol=1e-4)

    def test_options_that_were_not_given_are_chosen_by_trials(self):
        out = self.fine("train", "train.txt", "--format", "text", "--test", "test.txt", "--hidden", 16, "--context", 3,
                        "--model", "c.safetensors", "--log", "c.jsonl").stdout
        lines = [json.loads(line) for line in self.read("c.jsonl").splitlines()]
        tried = [line["about"] for line in lines if line["event"] == "trial"]
        for about in ("layers", "step", "dropout", "epochs"):
            self.assertIn(about, tried)
        self.assertRegex(out, r"chosen  hidden 16, (log-bilinear|a tanh layer), (tied|separate) vectors, dropout")
        self.assertRegex(out, r"perplexity \d+\.\d+ on the test text")
        self.assertLess(last_evaluation(self.path("c.jsonl"))["test"]["log_loss"], 2.6)

    def test_without_trials_no_rows_are_set_aside(self):
        for more in (("--layers", 0, "--no-tied"), ("--encoder", "skipgram"), ("--encoder", "cbow", "--no-tied")):
            with self.subTest(options=more):
                out = self.fine("train", "train.txt", "--format", "text", "--hidden", 8, "--epochs", 1, "--step", 0.01,
                                "--dropout", 0, *more, "--model", "none", "--log", "none").stdout
                self.assertNotIn("valid ", out)
                self.assertIn("(0 trials", out)

    def test_a_text_of_unknown_words_is_noticed(self):
        self.train("--layers", 0, "--no-tied")
        self.write("other.txt", "quite other words\n")
        result = self.fine("evaluate", "m.safetensors", "other.txt")
        self.assertIn("3 of 4 words are unknown to the model", result.stderr)
        self.assertNotIn("unknown to the model", self.fine("evaluate", "m.safetensors", "test.txt").stderr)

    def test_replay_gives_the_same_file(self):
        self.train("--layers", 1, "--tied")
        self.fine("train", "train.txt", "--replay", "m.jsonl", "--model", "again.safetensors", "--log", "again.jsonl")
        with open(self.path("m.safetensors"), "rb") as a, open(self.path("again.safetensors"), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_gzip_and_missing_last_newline(self):
        with open(self.path("train.txt"), "rb") as f, gzip.open(self.path("train.txt.gz"), "wb") as to:
            to.write(f.read().rstrip(b"\n"))
        self.train("--layers", 0, "--no-tied")
        self.fine("train", "train.txt.gz", "--format", "text", *FIXED, "--layers", 0, "--no-tied", "--model",
                  "z.safetensors", "--log", "none")
        self.assertTrue(np.array_equal(read_model(self.path("m.safetensors"))[1]["weight"],
                                       read_model(self.path("z.safetensors"))[1]["weight"]))

    def test_inspect_says_what_it_is(self):
        self.train("--layers", 1, "--tied")
        out = self.fine("inspect", "m.safetensors").stdout
        self.assertIn("learnt", out)


class TextRefusals(RefusalTest):
    def setUp(self):
        super().setUp()
        self.write("train.txt", made_text(60, 1))

    def test_bad_input(self):
        self.write("blank.txt", "\n \n\n")
        self.write("binary.txt", "a \0 b\n")
        with open(self.path("latin.txt"), "wb") as f:
            f.write(b"caf\xe9 au lait\n")
        for name, part in (("blank.txt", "no word"), ("binary.txt", "binary"), ("latin.txt", "UTF-8")):
            with self.subTest(file=name):
                self.refused(["train", name, "--format", "text", "--hidden", 8, "--epochs", 1, *OUTPUT], name, part)

    def test_options(self):
        self.write("rows.txt", "3 2 2\n0 0:1\n1 1:1\n0 0:2\n")
        for command, part in (
                (("train", "train.txt", "--format", "text", "--hidden", 0), "--hidden"),
                (("train", "train.txt", "--format", "text", "--method", "umax"), "--hidden 256"),
                (("train", "train.txt", "--format", "text", "--labels", "all"), "--labels all"),
                (("train", "train.txt", "--format", "text", "--encoder", "cbow", "--layers", 1), "--encoder context"),
                (("train", "train.txt", "--format", "text", "--encoder", "skipgram", "--layers", 1), "--encoder context"),
                (("train", "train.txt", "--format", "text", "--min-count", 100000), "--min-count"),
                (("train", "rows.txt", "--context", 3), "--context"),
                (("train", "rows.txt", "--hidden", 4, "--tied"), "--tied"),
                (("train", "rows.txt", "--dropout", 0.5), "--hidden")):
            with self.subTest(command=command):
                self.refused([*command, *OUTPUT], part)

    def test_model_of_another_kind(self):
        self.fine("train", "train.txt", "--format", "text", "--hidden", 8, "--epochs", 1, "--step", 0.01, "--ridge", 0,
                  "--layers", 0, "--no-tied", "--dropout", 0, "--model", "t.safetensors", "--log", "none")
        self.write("rows.txt", "3 2 2\n0 0:1\n1 1:1\n0 0:2\n")
        self.refused(["evaluate", "t.safetensors", "rows.txt", "--format", "xmlrepository"], "rows.txt", "plain text")

    def test_damaged_model(self):
        self.fine("train", "train.txt", "--format", "text", "--hidden", 8, "--epochs", 1, "--step", 0.01, "--ridge", 0,
                  "--layers", 0, "--no-tied", "--dropout", 0, "--model", "t.safetensors", "--log", "none")
        with open(self.path("t.safetensors"), "rb") as f:
            whole = f.read()
        for cut in (len(whole) - 1, len(whole) // 2):
            with open(self.path("cut.safetensors"), "wb") as f:
                f.write(whole[:cut])
            self.refused(["evaluate", "cut.safetensors", "train.txt"], "cut.safetensors")
        with open(self.path("bit.safetensors"), "wb") as f:
            f.write(whole[:-3] + bytes([whole[-3] ^ 1]) + whole[-2:])
        self.refused(["evaluate", "bit.safetensors", "train.txt"], "checksum")


if __name__ == "__main__":
    unittest.main()
