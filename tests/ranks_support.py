"""Shared by the tests of truemax-mpi: finding it, and running it on several ranks of this machine."""
import os
import shutil
import subprocess

from support import LIMIT_SECONDS, PROGRAM, skip

PROGRAM_OF_RANKS = os.path.abspath(os.environ.get("TRUEMAX_MPI", PROGRAM + "-mpi"))


def require_mpi():
    """Skips the test, and says why, without MPI."""
    if "thread" in os.environ.get("TRUEMAX_SANITIZE", ""):
        skip("Open MPI is not built for the thread sanitizer")
    if shutil.which("mpirun") is None:
        skip("no mpirun: install openmpi-bin")
    if not os.access(PROGRAM_OF_RANKS, os.X_OK):
        skip(f"no program at {PROGRAM_OF_RANKS}: it is built where MPI is found")


def mpirun(ranks):
    """The words before the program. As root and with more ranks than cores, as in a container."""
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)]


def on_ranks(ranks, *arguments, cwd=None, seconds=LIMIT_SECONDS):
    """Runs truemax-mpi; the result has returncode, stdout and stderr (text)."""
    return subprocess.run([*mpirun(ranks), PROGRAM_OF_RANKS, *map(str, arguments)], cwd=cwd, capture_output=True,
                          text=True, timeout=seconds, check=False)


def on_different_ranks(*of_ranks, cwd=None, seconds=LIMIT_SECONDS):
    """One rank for each list of arguments."""
    command = mpirun(1)[:-2]
    for number, arguments in enumerate(of_ranks):
        command += [*([":"] if number > 0 else []), "-n", "1", PROGRAM_OF_RANKS, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)


def ranks_of(run):
    """The process ids of the ranks of a running mpirun, in order."""
    listed = subprocess.run(["pgrep", "-P", str(run.pid)], capture_output=True, text=True, check=False).stdout
    return sorted(int(word) for word in listed.split())


def errors(result):
    """What truemax says on standard error, without what mpirun adds."""
    return [line for line in result.stderr.splitlines() if line.startswith("truemax: error:")]
