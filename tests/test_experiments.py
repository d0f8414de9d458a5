#!/usr/bin/python3
"""The scripts of experiments/ write what they promise, and the program reads it."""
import gzip
import os
import subprocess
import sys
import unittest

from support import ROOT, ProgramTest, data_file

SCRIPT = os.path.join(ROOT, "experiments", "next_word.py")
# "b" three times, "a" and <eos> twice ("a" came first), then "c" and "d" once each in the order of their places.
TRAIN = " a b \n c b d b a \n"
TEST = "b x\n"


class NextWord(ProgramTest):
    def run_script(self, *arguments, train=TRAIN, test=TEST, packed=True):
        os.makedirs(self.path("data/wikitext2"), exist_ok=True)
        for part, text in (("train", train), ("test", test)):
            if packed:
                with gzip.open(self.path(f"data/wikitext2/wiki.{part}.tokens.gz"), "wb") as file:
                    file.write(text.encode())
            else:
                self.write(f"data/wikitext2/wiki.{part}.tokens", text)
        return subprocess.run([sys.executable, SCRIPT, self.path("data"), "--out", self.path("out"), *map(str, arguments)],
                              capture_output=True, text=True, check=False)

    def test_a_tiny_text_by_hand(self):
        # b 0, a 1, <eos> 2, c 3, d 4; the two commonest have features 0 and 1 at position 0, 3 and 4 at position 1;
        # the rest, and what lies before the text, 2 and 5
        result = self.run_script("--words", 2, "--context", 2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.read("out/train.txt").decode().splitlines(), [
            "9 6 6",
            "1 2:1 5:1",  # a
            "0 1:1 5:1",  # b, after a
            "2 0:1 4:1",  # <eos>, after a b
            "3 2:1 3:1",  # c: the context crosses the line end
            "0 2:1 5:1",
            "4 0:1 5:1",
            "0 2:1 3:1",
            "1 0:1 5:1",
            "2 1:1 3:1",
        ])
        self.assertEqual(self.read("out/test.txt").decode().splitlines(), [
            "3 6 6",
            "0 2:1 5:1",
            "5 0:1 5:1",  # x: a word that training never saw
            "2 2:1 3:1",
        ])
        self.assertRegex(result.stdout, r"train +N +9 +D 6 +K +5 ")
        self.assertIn("1 words of the test text are not in the training text", result.stdout)

    def test_packed_text_gives_the_same_bytes(self):
        self.run_script()
        packed = self.read("out/train.txt"), self.read("out/test.txt")
        for part in ("train", "test"):
            os.remove(self.path(f"data/wikitext2/wiki.{part}.tokens.gz"))
        self.run_script(packed=False)
        self.assertEqual((self.read("out/train.txt"), self.read("out/test.txt")), packed)

    def test_rows_cut_the_files_but_not_the_numbering(self):
        self.run_script("--words", 2)
        whole = self.read("out/train.txt").decode().splitlines()
        self.run_script("--words", 2, "--rows", 4, "--test-rows", 1)
        cut = self.read("out/train.txt").decode().splitlines()
        self.assertEqual(cut[0].split()[0], "4")
        self.assertEqual(cut[1:], whole[1:5])
        self.assertEqual(len(self.read("out/test.txt").splitlines()), 2)

    def test_the_program_trains_on_it(self):
        self.run_script("--words", 2)
        self.fine("train", "out/train.txt", "--test", "out/test.txt", "--intercept", "--epochs", 2, "--model", "m")
        found = self.metrics("m", "out/test.txt")
        self.assertEqual((found["rows"], found["unseen"]), (2, 1), found)

    def test_missing_data_and_bad_options_are_refused(self):
        for arguments, words in (([self.path("nothing")], "no .*wikitext2.*TRUEMAX_DATA"),
                                 (["--context", "0"], "--context is 0; give a whole number from 1 up")):
            result = subprocess.run([sys.executable, SCRIPT, *arguments, "--out", self.path("out")], capture_output=True,
                                    text=True, check=False)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertRegex(result.stderr, words)
            self.assertFalse(os.path.exists(self.path("out")))
        result = self.run_script(train="a <eos> b\n")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"tokens\.gz:1: has the word <eos>")

    def test_the_real_text_has_the_known_size(self):
        folder = os.path.dirname(os.path.dirname(data_file("wikitext2", "wiki.train.tokens.gz")))
        result = subprocess.run([sys.executable, SCRIPT, folder, "--out", self.path("out"), "--rows", "1000"],
                                capture_output=True, text=True, check=True)
        self.assertEqual(self.read("out/train.txt").split(b"\n", 1)[0], b"1000 30003 33278")
        self.assertRegex(result.stdout, r"test +N +245,569 +D 30,003")


if __name__ == "__main__":
    unittest.main()
