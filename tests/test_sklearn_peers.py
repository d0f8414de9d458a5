"""bench/sklearn_peers.py runs, compares the same rows, and says what was met."""
import os
import subprocess
import sys
import unittest

from support import ROOT


@unittest.skipUnless(os.path.isdir(os.path.join(ROOT, "build", "python", "truemax")), "./dev python was not run")
class SklearnPeers(unittest.TestCase):
    def test_quick_run_prints_a_table_of_every_method(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "bench", "sklearn_peers.py"), "--quick"],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("SoftmaxClassifier()", "LogisticRegression, C=10", "SGDClassifier"):
            self.assertEqual(done.stdout.count(name), 2, done.stdout)
        self.assertIn("all targets met", done.stdout)
        lines = [line for line in done.stdout.splitlines() if line.startswith("  ")]
        self.assertEqual(len(lines), 2 * 6)


if __name__ == "__main__":
    unittest.main()
