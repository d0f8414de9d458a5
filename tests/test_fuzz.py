"""The fuzz targets, briefly: seeds replayed and changed at random, and damaged models. `./dev fuzz` runs them for longer, by
libFuzzer and with sanitizers."""
import json
import os
import re
import subprocess
import tempfile
import unittest

from support import PROGRAM, ROOT

FOLDER = os.path.dirname(PROGRAM)
CORPUS = os.path.join(ROOT, "fuzz", "corpus")
SECONDS = 3  # for each target, at most
RUNS = 3000  # so that a fast machine tries no more than the others


class Fuzz(unittest.TestCase):
    def run_program(self, name, *arguments):
        with tempfile.TemporaryDirectory() as folder:  # a crash leaves its input there
            result = subprocess.run([os.path.join(FOLDER, name), *map(str, arguments)], cwd=folder, capture_output=True,
                                    text=True, errors="replace", timeout=600, check=False)
            kept = []
            for file in os.listdir(folder):
                with open(os.path.join(folder, file), "rb") as content:
                    kept.append((file, content.read()[:4000]))
        self.assertEqual(result.returncode, 0, f"{result.stdout}\n{result.stderr}\n{kept}")
        return result.stdout

    def test_targets_keep_their_promises(self):
        output = self.run_program("truemax_fuzz", "--corpus", CORPUS, "--seconds", SECONDS, "--runs", RUNS)
        runs = {name: (int(all_runs), int(accepted))
                for name, all_runs, accepted in re.findall(r"^(\w+) +(\d+) runs +(\d+) accepted$", output, re.M)}
        self.assertGreaterEqual(len(runs), 20)
        for name, (all_runs, accepted) in runs.items():
            self.assertGreater(all_runs, 10, name)
            self.assertGreater(accepted, 0, name)

    def test_every_folder_of_seeds_has_a_target(self):
        for name in os.listdir(CORPUS):
            with open(os.path.join(ROOT, "fuzz", "targets.cpp"), encoding="utf-8") as file:
                self.assertIn(f'{{"{name}"', file.read())

    def test_damaged_models_are_refused(self):
        output = self.run_program("truemax_corrupt", "--count", 5000, "--seed", 1)
        result = json.loads(output.splitlines()[-1])
        self.assertGreater(result["damaged"], 4900)
        self.assertEqual((result["refused"], result["failures"]), (result["damaged"], 0), output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
