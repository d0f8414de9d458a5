#!/usr/bin/python3
"""Models of every earlier format version load and give the numbers that they gave then: tests/data/models/README.md."""
import json
import os
import re
import sys
import unittest

from support import PROGRAM, ROOT, ProgramTest

MODELS = os.path.join(ROOT, "tests", "data", "models")
sys.path.insert(0, MODELS)
import make  # noqa: E402  pylint: disable=wrong-import-position


def folders():
    """{folder: its expected.json}"""
    found = {}
    for name in sorted(os.listdir(MODELS)):
        path = os.path.join(MODELS, name, "expected.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found[name] = json.load(file)
    return found


class Compatibility(ProgramTest):
    def test_old_models_give_the_numbers_they_gave_then(self):
        seen = 0
        for folder, expected in folders().items():
            for kind, then in expected["models"].items():
                with self.subTest(folder=folder, kind=kind):
                    seen += 1
                    model = os.path.join(folder, kind + ".safetensors")
                    now = make.log_loss(PROGRAM, model, then["data"], then["reading"])
                    # Old versions summed in another order.
                    self.assertAlmostEqual(now, then["log_loss"], delta=1e-9 * (1 + abs(now)))
                    self.same_predictions(make.predictions(PROGRAM, model, then["data"], then["reading"]),
                                          then["predictions"])
        self.assertGreater(seen, 10)

    def same_predictions(self, now, then):
        self.assertEqual(now is None, then is None)
        if then is None:
            return
        self.assertEqual(len(now), len(then))
        for row_now, row_then in zip(now, then):
            self.assertEqual([name for name, _ in row_now], [name for name, _ in row_then])
            for (_, p), (_, q) in zip(row_now, row_then):
                self.assertAlmostEqual(p, q, delta=1e-9)

    def test_current_format_version_and_every_kind_have_a_file(self):
        with open(os.path.join(ROOT, "src", "model", "model.hpp"), encoding="utf-8") as file:
            version = int(re.search(r"kModelVersion = (\d+)", file.read())[1])
        kinds = set()
        for expected in folders().values():
            if expected["format_version"] == version:
                kinds |= set(expected["models"])
        self.assertEqual(kinds, set(make.KINDS), "tests/data/models/README.md says how to add the missing ones")
        with open(os.path.join(ROOT, "src", "core", "row_encoder.hpp"), encoding="utf-8") as file:
            encoders = set(re.findall(r'\{"(\w+)", EncoderKind', file.read())) - {"auto"}
        self.assertEqual(encoders - kinds, {"complex"}, "complex is the encoder of triples")

    def test_old_logs_are_read(self):
        for folder in folders():
            with self.subTest(folder):
                log = os.path.join(MODELS, folder, "linear.jsonl")
                self.fine("report", log, "--out", f"{folder}.html")
                self.fine("train", os.path.join(MODELS, "rows.txt"), "--replay", log, "--model", f"{folder}.safetensors",
                          "--log", "none")


if __name__ == "__main__":
    unittest.main()
