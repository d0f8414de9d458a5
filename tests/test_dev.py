"""./dev installs packages: what it does while another program holds the package locks.

Nothing is installed: apt-get, dpkg-query, id and sudo are stand-ins that come first in PATH. If they fail, they print
the messages of apt 2.6."""
import os
import shutil
import stat
import subprocess
import tempfile
import unittest

from support import ROOT

LISTS = """E: Could not get lock /var/lib/apt/lists/lock. It is held by process 4711 (apt-get)
E: Unable to lock directory /var/lib/apt/lists/"""
DPKG = """E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)
E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using it?"""
OTHER = "E: Unable to locate package clang-format"

APT = """#!/bin/bash
echo "$*" >> calls
word=$1
count=$(cat "$word.left" 2>/dev/null || echo 0)
if [ "$count" -gt 0 ]; then
  echo $((count - 1)) > "$word.left"
  cat "$word.says" >&2
  exit 100
fi
"""


class PackageLock(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="truemax-dev-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        shutil.copy(os.path.join(ROOT, "dev"), self.folder)
        os.mkdir(self.path("bin"))
        self.program("apt-get", APT)
        self.program("dpkg-query", "#!/bin/bash\nexit 1\n")
        self.program("id", "#!/bin/bash\necho 0\n")
        # Called by `./dev format` once it has its packages.
        self.program("git", "#!/bin/bash\nexit 0\n")
        self.program("clang-format", "#!/bin/bash\nexit 0\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def program(self, name, text):
        with open(self.path(f"bin/{name}"), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(f"bin/{name}"), stat.S_IRWXU)

    def fails(self, word, times, says):
        for ending, text in (("left", str(times)), ("says", says)):
            with open(self.path(f"{word}.{ending}"), "w", encoding="utf-8") as file:
                file.write(text + "\n")

    def run_dev(self, seconds=60):
        environment = {**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}",
                       "DEV_LOCK_PAUSE": "0.05", "DEV_LOCK_SECONDS": str(seconds)}
        result = subprocess.run(["bash", "dev", "format"], cwd=self.folder, env=environment, capture_output=True,
                                text=True, timeout=60, check=False)
        with open(self.path("calls"), encoding="utf-8") as file:
            calls = [line.split()[0] for line in file]
        return result, calls

    def test_without_a_lock_each_call_is_made_once(self):
        result, calls = self.run_dev()
        self.assertEqual((result.returncode, calls), (0, ["update", "install"]), result.stderr)
        self.assertNotIn("waiting", result.stdout)

    def test_held_lock_is_waited_for_and_reported_once(self):
        for word, says in (("update", LISTS), ("install", DPKG)):
            with self.subTest(word):
                self.fails(word, 2, says)
                result, calls = self.run_dev()
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(calls[-4:].count(word), 3, calls)
                self.assertEqual(result.stdout.count("waiting for another program"), 1, result.stdout)
                self.assertIn("It is held by process 4711", result.stdout)

    def test_stuck_lock_ends_with_advice(self):
        self.fails("update", 1000000, LISTS)
        result, calls = self.run_dev(seconds=0)
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("install", calls)
        self.assertIn("still holds the package lock", result.stderr)
        self.assertIn("run this again", result.stderr)

    def test_other_failures_are_not_retried(self):
        self.fails("install", 1, OTHER)
        result, calls = self.run_dev()
        self.assertEqual((result.returncode, calls), (1, ["update", "install"]))
        self.assertIn(OTHER, result.stderr)
        self.assertNotIn("waiting", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
