"""Which BLAS a process multiplies matrices with, and how fast.

NumPy, SciPy and PyTorch take Debian's libblas.so.3. Without another package that is the reference implementation, some
twenty times slower than OpenBLAS: a peer that runs on it is not at its best, and ratios to it are meaningless. `./dev
bench` installs libopenblas0-pthread, which Debian then prefers, unless the alternative was set by hand; that is
reported and left as it is.
"""
import ctypes
import os
import re
import subprocess
import sysconfig
import time

PACKAGE = "libopenblas0-pthread"
# By the name of the file or its folder; the first match counts.
NAMES = (("openblas", "OpenBLAS"), ("mkl", "MKL"), ("blis", "BLIS"), ("atlas", "ATLAS"), ("blas", "reference BLAS"))
REFERENCE = "reference BLAS"
LIBRARY = re.compile(r"lib[^/]*(blas|mkl|blis|atlas)[^/]*\.so")
SIZE, ROUNDS = 768, 5


def libraries(maps="/proc/self/maps"):
    """Paths of the BLAS libraries that a process has loaded."""
    with open(maps, encoding="utf-8") as file:
        paths = {line.split(maxsplit=5)[5].strip() for line in file if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if LIBRARY.search(os.path.basename(path)))


def files_of_program(path):
    """Paths of the BLAS libraries that a program would load."""
    said = subprocess.run(["ldd", path], check=False, capture_output=True, text=True).stdout
    found = {os.path.realpath(file) for file in re.findall(r"=> (\S+) \(", said)}
    return sorted(file for file in found if LIBRARY.search(os.path.basename(file)))


def name_of(paths):
    """The name of the BLAS, given the loaded files; of several, calls end in the fast one."""
    for part, name in NAMES:
        if any(part in path for path in paths):
            return name
    return "none"


def use_threads(count):
    """Sets the threads of every OpenBLAS in this process; those of PyTorch are set by its caller."""
    for path in libraries():
        if "openblas" in path:
            set_threads = getattr(ctypes.CDLL(path), "openblas_set_num_threads", None)
            if set_threads is not None:
                set_threads(count)


def faster_threads(work, use=use_threads, most=None):
    """1 or all cores, whichever runs `work()` faster: threads slow down small products, and all products on a busy
    machine. Leaves the faster one set."""
    most = most or len(os.sched_getaffinity(0))
    took = {}
    for count in dict.fromkeys((1, most)):
        use(count)
        work()  # starts the threads
        begin = time.perf_counter()
        work()
        took[count] = time.perf_counter() - begin
    best = min(took, key=took.get)
    use(best)
    return best


def gflops(multiply):
    """For a product of two square matrices of SIZE rows: the best of several."""
    multiply()
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        multiply()
        best = min(best, time.perf_counter() - begin)
    return 2e-9 * SIZE**3 / best


def numpy_product(dtype):
    import numpy as np
    a = np.ones((SIZE, SIZE), dtype)
    return lambda: a @ a


def torch_product():
    import torch
    a = torch.ones(SIZE, SIZE)
    return lambda: a @ a


def measure(kind, threads):
    """The BLAS of this process: {"library", "files", "threads", "gflops", "numbers"}; kind: numpy or torch."""
    use_threads(threads)
    if kind == "torch":
        import torch
        torch.set_num_threads(threads)
        found = gflops(torch_product())
    else:
        found = gflops(numpy_product("float64"))
    files = libraries()
    # PyTorch may have MKL built in.
    inside = kind == "torch" and not files and "BLAS_INFO=mkl" in torch.__config__.show()
    return {"library": "MKL" if inside else name_of(files), "files": files, "threads": threads, "gflops": found,
            "numbers": "float32" if kind == "torch" else "float64"}


def alternatives(query=None):
    """{"libblas.so.3": {"value", "best", "manual"}, ...} from update-alternatives; empty if there is none."""
    found = {}
    for link in ("libblas.so.3", "liblapack.so.3"):
        name = f"{link}-{sysconfig.get_config_var('MULTIARCH')}"
        try:
            said = query(name) if query else subprocess.run(["update-alternatives", "--query", name], check=False,
                                                            capture_output=True, text=True).stdout
        except OSError:
            continue
        fields = dict(re.findall(r"(?m)^(Status|Best|Value): (.*)$", said.split("\nAlternative:")[0]))
        if "Value" in fields:
            found[link] = {"name": name, "value": fields["Value"], "best": fields.get("Best", ""),
                           "manual": fields.get("Status") == "manual"}
    return found


def complaints(found):
    """What is wrong with the alternatives, one line each. Nothing set by hand is changed."""
    out = []
    for link, a in found.items():
        if name_of([a["value"]]) != REFERENCE and "/lapack/" not in a["value"]:
            continue
        if a["manual"]:
            out.append(f"{link} was set by hand to {a['value']} and is left so; "
                       f"'update-alternatives --auto {a['name']}' undoes that")
        else:
            out.append(f"{link} is {a['value']}; install {PACKAGE}")
    return out
