#!/usr/bin/python3
"""The Debian package of ./dev package, made from this build, installed into a scratch root, and run."""
import glob
import gzip
import os
import shutil
import subprocess
import unittest

from support import PROGRAM, ProgramTest, skip

BUILD = os.path.dirname(PROGRAM)


def run(*words, **keywords):
    result = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, **keywords)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(words)}\n{result.stdout}\n{result.stderr}")
    return result.stdout


class Package(ProgramTest):
    def test_it_installs_and_runs(self):
        for tool in ("cpack", "dpkg", "dpkg-deb", "dpkg-shlibdeps"):
            if shutil.which(tool) is None:
                skip(f"there is no {tool}")
        run("cpack", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", self.path("package"), cwd=self.folder)
        package, = glob.glob(self.path("package/*.deb"))
        version = run(PROGRAM, "--version").split()[1]
        field = lambda name: run("dpkg-deb", "-f", package, name).strip()
        self.assertEqual(field("Package"), "truemax")
        self.assertEqual(field("Version"), version)
        self.assertEqual(field("Section"), "science")
        self.assertEqual(field("Architecture"), run("dpkg", "--print-architecture").strip())
        description = field("Description").splitlines()
        self.assertEqual(description[0], "softmax models with very many classes")
        self.assertTrue(description[1].startswith(" truemax trains softmax"), description)
        for library in ("libc6", "libstdc++6", "libfmt", "libzstd1", "zlib1g"):
            self.assertIn(library, field("Depends"))

        root = self.install(package)
        program = os.path.join(root, "usr/bin/truemax")
        self.assertEqual(run(program, "--version").split()[1], version)
        self.write("rows.txt", "4 5 3\n0,2 0:1 3:0.5\n1 1:1\n2 2:1 4:2\n1 0:0.5\n")
        run(program, "train", "rows.txt", "--epochs", "2", "--model", "m.safetensors", cwd=self.folder)
        self.assertEqual(len(run(program, "predict", "m.safetensors", "rows.txt", cwd=self.folder).splitlines()), 4)

        with gzip.open(os.path.join(root, "usr/share/man/man1/truemax.1.gz"), "rt", encoding="utf-8") as page:
            self.assertEqual(page.read(), run(PROGRAM, "help", "--man"))
        with open(os.path.join(root, "usr/share/bash-completion/completions/truemax"), encoding="utf-8") as script:
            self.assertEqual(script.read(), run(PROGRAM, "help", "--completion", "bash"))
        for path in ("usr/include/truemax/truemax.hpp", "usr/lib/cmake/truemax/truemax-config.cmake",
                     "usr/share/doc/truemax/copyright"):
            self.assertTrue(os.path.isfile(os.path.join(root, path)), path)

    def install(self, package):
        """Installs with dpkg, which checks the dependencies against the packages of this machine. Without root, only
        unpacks the files."""
        root = self.path("root")
        os.mkdir(root)
        if os.geteuid() != 0:
            run("dpkg-deb", "-x", package, root)
            return root
        admin = self.path("admin")
        for folder in ("", "info", "updates", "triggers"):
            os.mkdir(os.path.join(admin, folder))
        shutil.copy("/var/lib/dpkg/status", admin)  # the installed packages
        # The package's script runs ldconfig, which must not touch this machine's cache.
        os.mkdir(self.path("bin"))
        self.write("bin/ldconfig", "#!/bin/sh\nexit 0\n")
        os.chmod(self.path("bin/ldconfig"), 0o755)
        run("dpkg", f"--admindir={admin}", f"--instdir={root}", "--force-script-chrootless", "--log=/dev/null", "-i",
            package, env={**os.environ, "PATH": f"{self.path('bin')}:{os.environ['PATH']}:/usr/sbin:/sbin"})
        return root


if __name__ == "__main__":
    unittest.main()
