"""Builds libtruemax.so with CMake and puts it into the package. One wheel serves every Python 3: the package calls the
library through ctypes."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent


def version():
    return re.search(r"project\(truemax VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def library():
    """The built library: TRUEMAX_LIBRARY, or made here."""
    given = os.environ.get("TRUEMAX_LIBRARY")
    if given:
        return pathlib.Path(given)
    try:
        subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True)
        subprocess.run(["cmake", "--build", "--preset", "release", "--target", "truemax_library"], cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"truemax: {error}; the library could not be built: './dev python' installs what it needs on Debian")
    return ROOT / "build" / "release" / "libtruemax.so"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        target = pathlib.Path(self.build_lib, "truemax")
        target.mkdir(parents=True, exist_ok=True)
        built = library()
        shutil.copyfile(built.resolve(), target / "libtruemax.so")
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", target / "libtruemax.so"], check=True)
        if built.with_name("libtruemax_cuda.so").exists():  # of './dev gpu build'
            shutil.copyfile(built.with_name("libtruemax_cuda.so"), target / "libtruemax_cuda.so")


class WheelOfAnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return True  # the wheel is of one platform


setup(version=version(), distclass=WithLibrary, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": WheelOfAnyPython})
