#!/usr/bin/python3
"""--init: runs that start from a model."""
import random
import unittest

from support import RefusalTest


class Init(RefusalTest):
    def loss(self, model, data):
        return self.metrics(model, data)["log_loss"]

    def test_no_epoch_gives_the_model_back(self):
        self.generate("a.txt", "--test", "t.txt", "--test-rows", 100)
        for name, options in (("linear", ("--method", "prox", "--epochs", 5)), ("auto", ()), ("learnt", ("--hidden", 8))):
            with self.subTest(name):
                self.fine("train", "a.txt", *options, "--model", "a.safetensors")
                self.fine("train", "a.txt", "--init", "a.safetensors", "--epochs", 0, "--model", "b.safetensors")
                self.assertAlmostEqual(self.loss("b.safetensors", "t.txt"), self.loss("a.safetensors", "t.txt"), places=6)

    def test_new_rows_classes_and_features(self):
        self.write("a.txt", "".join(f"{i % 3} {i % 3 + 1}:1 {i % 7 + 6}:1\n" for i in range(300)))
        self.write("b.txt", "".join(f"{i % 5} {i % 5 + 1}:1 {i % 7 + 6}:1 {i % 9 + 13}:1\n" for i in range(300)))
        for options in ((), ("--hidden", 8)):
            self.fine("train", "a.txt", *options, "--model", "a.safetensors")
            said = self.fine("train", "b.txt", "--init", "a.safetensors", "--epochs", 20, "--model", "b.safetensors").stdout
            self.assertIn("start   a.safetensors: 3 of 5 classes and 12 of 21 features are known to it", said)
            self.assertLess(self.loss("b.safetensors", "b.txt"), 1)
        result = self.fine("train", "b.txt", "--init", "a.safetensors", "--normalize", "l2", "--model", "c.safetensors")
        self.assertIn("--normalize: the model to start from was trained with none", result.stdout + result.stderr)

    def test_words_are_matched_by_name(self):
        self.write("a.txt", "".join(f"__label__{'ab'[i % 2]} {'cat dog'.split()[i % 2]} the w{i % 9}\n" for i in range(200)))
        # Other counts, so that words and classes have other numbers.
        self.write("b.txt", "".join(f"__label__b dog it w{i % 9}\n__label__a cat\n" for i in range(20)) +
                   "__label__b dog new words here\n" * 50)
        self.fine("train", "a.txt", "--model", "a.safetensors", "--method", "prox", "--epochs", 20)
        self.fine("train", "b.txt", "--init", "a.safetensors", "--method", "prox", "--epochs", 0, "--model", "b.safetensors")
        self.write("x.txt", "__label__a cat\n__label__b dog\n")
        self.assertAlmostEqual(self.loss("b.safetensors", "x.txt"), self.loss("a.safetensors", "x.txt"), places=5)

    def test_text_and_triples(self):
        draw = random.Random(1)
        self.write("t.txt", " ".join(draw.choice("a of the cat sat on mat dog ran .".split()) for _ in range(2000)))
        self.write("u.txt", " ".join(draw.choice("the cat sat new words ran .".split()) for _ in range(1000)))
        for encoder in ("context", "cbow", "skipgram"):
            self.fine("train", "t.txt", "--format", "text", "--encoder", encoder, "--hidden", 8, "--step", 0.01, "--epochs", 3,
                      "--model", "a.safetensors")
            self.fine("train", "t.txt", "--init", "a.safetensors", "--epochs", 0, "--model", "b.safetensors")
            self.assertAlmostEqual(self.loss("b.safetensors", "t.txt"), self.loss("a.safetensors", "t.txt"), places=5)
            self.fine("train", "u.txt", "--init", "a.safetensors", "--step", 0.01, "--epochs", 3, "--model", "c.safetensors")
        for name, entities in (("g.tsv", 30), ("h.tsv", 40)):
            self.write(name, "".join(f"e{draw.randrange(entities)}\tr{draw.randrange(4)}\te{draw.randrange(entities)}\n"
                                     for _ in range(800)))
        self.fine("train", "g.tsv", "--format", "triples", "--hidden", 8, "--step", 0.01, "--epochs", 3, "--model", "a.safetensors")
        self.fine("train", "g.tsv", "--init", "a.safetensors", "--epochs", 0, "--model", "b.safetensors")
        self.assertAlmostEqual(self.loss("b.safetensors", "g.tsv"), self.loss("a.safetensors", "g.tsv"), places=5)
        self.fine("train", "h.tsv", "--init", "a.safetensors", "--step", 0.01, "--epochs", 3, "--model", "c.safetensors")

    def test_refusals(self):
        self.generate("a.txt")
        self.write("w.txt", "".join(f"__label__{'ab'[i % 2]} {'cat dog'.split()[i % 2]} the\n" for i in range(200)))
        self.fine("train", "a.txt", "--method", "prox", "--epochs", 2, "--model", "a.safetensors")
        no = self.refused
        no(["train", "a.txt", "--init", "nosuch.safetensors", "--model", "x.safetensors"], "nosuch.safetensors")
        no(["train", "a.txt", "--init", "a.txt", "--model", "x.safetensors"], "a.txt")
        no(["train", "w.txt", "--init", "a.safetensors", "--model", "x.safetensors"], "features without names")
        no(["train", "a.txt", "--init", "a.safetensors", "--hidden", 4, "--model", "x.safetensors"], "linear")
        no(["train", "a.txt", "--init", "a.safetensors", "--hash-features", 16, "--model", "x.safetensors"], "--hash-features")
        no(["train", "a.txt", "--init", "a.safetensors", "--model", "a.safetensors"], "input")
        self.write("other.txt", "cat 1:1 2:1\ndog 2:1 3:1\n" * 20)
        no(["train", "other.txt", "--init", "a.safetensors", "--model", "x.safetensors"], "no class in common")
        no(["train", "a.txt", "--init", "a.safetensors", "--format", "text", "--model", "x.safetensors"], "plain text|words")
        self.fine("train", "a.txt", "--method", "prox", "--intercept", "--epochs", 1, "--model", "b.safetensors")
        no(["train", "a.txt", "--init", "b.safetensors", "--no-intercept", "--model", "x.safetensors"], "leave --no-intercept out")
        self.fine("train", "a.txt", "--hidden", 4, "--step", 0.01, "--epochs", 1, "--model", "h.safetensors")
        no(["train", "a.txt", "--init", "h.safetensors", "--method", "umax", "--model", "x.safetensors"],
           "--hidden comes from --init h.safetensors")
        self.write("t.txt", "the cat sat\non the mat\n" * 20)
        self.fine("train", "t.txt", "--format", "text", "--hidden", 4, "--epochs", 1, "--model", "t.safetensors")
        no(["train", "other.txt", "--format", "libsvm", "--init", "t.safetensors", "--model", "x.safetensors"],
           "is of plain text, and --format is libsvm")


if __name__ == "__main__":
    unittest.main()
