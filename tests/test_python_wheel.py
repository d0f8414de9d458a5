"""The package as a user gets it: a wheel built from the source tree, installed in a fresh environment without network."""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from support import PACKAGE, ROOT


class Wheel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="truemax-wheel-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        # A copy, so that builds at the same time do not meet; the library that the build has just made.
        self.source = os.path.join(self.folder, "source")
        os.mkdir(self.source)
        for name in ("pyproject.toml", "setup.py", "CMakeLists.txt", "README.md", "LICENSE"):
            shutil.copy(os.path.join(ROOT, name), self.source)
        shutil.copytree(os.path.join(ROOT, "python"), os.path.join(self.source, "python"),
                        ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        self.environment = {**os.environ, "TRUEMAX_LIBRARY": os.path.join(PACKAGE, "truemax", "libtruemax.so")}

    def run_in(self, *command, **more):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                              cwd=self.folder, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_installs_in_a_fresh_environment_and_runs_the_first_example(self):
        self.run_in(sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "-w",
                    self.folder, self.source, env=self.environment)
        wheel, = glob.glob(os.path.join(self.folder, "*.whl"))
        self.assertRegex(os.path.basename(wheel), r"^truemax-[0-9.]+-py3-none-linux_\w+\.whl$")
        with zipfile.ZipFile(wheel) as content:
            names = content.namelist()
        for name in ("libtruemax.so", "py.typed", "classifier.pyi", "language.py", "links.py"):
            self.assertIn(f"truemax/{name}", names)
        self.run_in(sys.executable, "-m", "venv", "--system-site-packages", "env")
        python = os.path.join(self.folder, "env", "bin", "python")
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("PYTHONPATH", "TRUEMAX_LIBRARY", "TRUEMAX_PACKAGE")}
        self.run_in(python, "-m", "pip", "install", "--no-index", "--no-deps", wheel, env=clean)
        where = self.run_in(python, "-c", "import truemax; print(truemax.__file__)", env=clean)
        self.assertTrue(where.startswith(os.path.join(self.folder, "env")), where)
        example = os.path.join(ROOT, "examples", "text_classification.py")
        self.assertIn("log-loss", self.run_in(python, example, env={**clean, "TRUEMAX_QUICK": "1"}))

    def test_the_library_needs_nothing_but_the_systems_own(self):
        out = self.run_in("ldd", os.path.join(PACKAGE, "truemax", "libtruemax.so"))
        for library in ("fmt", "hwy", "zstd", "libz"):
            self.assertNotIn(library, out)


if __name__ == "__main__":
    unittest.main()
