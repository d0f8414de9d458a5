#!/usr/bin/python3
"""bench/flagship.py reports what it measured and what it could not; the plot of log-loss by step shows every run."""
import gzip
import json
import os
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

from support import PROGRAM, ROOT, ProgramTest, truemax

sys.path.insert(0, os.path.join(ROOT, "bench"))
import step_plot  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class Flagship(ProgramTest):
    def flagship(self, *arguments, program=PROGRAM):
        os.makedirs(self.path("data"), exist_ok=True)
        return subprocess.run([sys.executable, os.path.join(ROOT, "bench", "flagship.py"), *map(str, arguments), "--program",
                               program, "--logs", self.path("logs"), "--json", self.path("f.json")], capture_output=True, text=True,
                              check=False, env={**os.environ, "TRUEMAX_DATA": self.path("data")})

    def test_without_data_every_part_is_reported_as_skipped(self):
        result = self.flagship("train", "words", "robust")
        self.assertEqual(result.returncode, 0, result.stderr)
        verdicts = json.loads(self.read("f.json"))["verdicts"]
        self.assertEqual([v["item"] for v in verdicts], [1, 1, 1, 1, 2, 2, 4, 4])
        self.assertTrue(all(v["ok"] is None for v in verdicts), verdicts)
        self.assertEqual(result.stdout.count("SKIPPED"), 8, result.stdout)
        self.assertEqual(result.stderr.count("set TRUEMAX_DATA"), 8, result.stderr)

    def test_missed_promise_sets_the_exit_code(self):
        # Labels unrelated to the features: no method comes near the log-loss of bibtex.
        os.makedirs(self.path("data/bibtex"))
        self.generate("rows.txt", "--separability", 0, rows=400, classes=12)
        with gzip.open(self.path("data/bibtex/train.txt.gz"), "wb") as file:
            file.write(self.read("rows.txt"))
        result = self.flagship("train", "--data", "bibtex", "--rounds", 1, "--instead",
                               "--method prox --step 1e-6 --draw blocks --classes-per-step 16")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("MISSED", result.stdout)
        found = json.loads(self.read("f.json"))
        run = found["train"][0]["runs"][-1]
        self.assertGreater(run["loss"], 1)
        self.assertEqual(found["train"][0]["budget"], 0.15, "never below")
        self.assertGreaterEqual(run["train_seconds"], 0.14)
        self.assertEqual(len(found["load_before"]), 3)

    def test_without_a_program_nothing_is_measured(self):
        result = self.flagship("train", program=self.path("nothing"))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, "no program at .*nothing; build it")
        self.assertFalse(os.path.exists(self.path("f.json")))

    def log(self, method, step, loss):
        """A run log; a loss of None is a run that diverged."""
        name = f"{method}-{step:g}.jsonl"
        lines = [{"event": "start", "config": {"method": method, "step": step, "train": "/data/bibtex/train.txt.gz"}}]
        if loss is not None:
            lines += [{"event": "evaluate", "train": {"log_loss": loss}}, {"event": "end"}]
        return self.write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def test_the_picture_has_every_run(self):
        logs = [self.log("prox", 10.0**p, 0.05 * (p + 2)) for p in range(-1, 4)]
        logs += [self.log("umax", 0.1, 0.5), self.log("umax", 1.0, 12.0), self.log("umax", 10.0, None)]
        step_plot.draw(logs, self.path("p.svg"), "A & B <title>")
        root = ElementTree.fromstring(self.read("p.svg"))
        circles = [c for c in root.iter(SVG + "circle")]
        self.assertEqual(len(circles), 5 + 1, "a mark for each run of prox, one in the legend")
        crosses = [p for p in root.iter(SVG + "path") if p.get("class") == "off"]
        self.assertEqual(len(crosses), 2 + 1, "a loss above 10, a run that diverged, one in the legend")
        marks = [(float(c.get("cx")), float(c.get("cy"))) for c in circles[1:]]
        self.assertEqual(marks, sorted(marks, key=lambda place: (place[0], -place[1])), "larger losses stand higher")
        width, height = map(float, root.get("viewBox").split()[2:])
        for x, y in marks:
            self.assertTrue(0 < x < width and 0 < y < height)
        self.assertIn("prefers-color-scheme: dark", self.read("p.svg").decode())

    def test_logs_of_the_program_are_read(self):
        os.makedirs(self.path("bibtex"))
        self.generate("bibtex/t.txt")
        self.fine("train", "bibtex/t.txt", "--method", "scent", "--step", 0.5, "--epochs", 2, "--model", "none", "--log", "a.jsonl")
        method, data, step, loss = step_plot.read_log(self.path("a.jsonl"))
        self.assertEqual((method, data, step), ("scent", "bibtex", 0.5))
        self.assertGreater(loss, 0)
        done = truemax("train", "bibtex/t.txt", "--method", "vanilla", "--step", 1e15, "--epochs", 9, "--model", "none", "--log",
                       "b.jsonl", cwd=self.folder)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIsNone(step_plot.read_log(self.path("b.jsonl"))[3])


if __name__ == "__main__":
    unittest.main()
