"""Rows of a problem in the form that is fastest for a peer's products."""
import os
import time

import numpy as np

import blas

DENSE_BYTES = 512e6  # in float32


def is_dense(problem):
    """Whether the rows fit as a dense matrix."""
    return 4.0 * problem.N * problem.D <= DENSE_BYTES


def faster_rows(problem, dtype, work_of):
    """(rows, words for the table): CSR or, if they fit, dense with one BLAS thread or all cores, whichever runs
    `work_of(rows)()` fastest; the trials are not timed. Leaves the threads set."""
    sparse = problem.train_x.astype(dtype)
    forms = [("sparse rows", sparse, (1,))]
    if is_dense(problem):
        forms.append(("dense rows", np.ascontiguousarray(sparse.toarray()),
                      dict.fromkeys((1, len(os.sched_getaffinity(0))))))
    best = None
    for name, x, counts in forms:
        work = work_of(x)
        for threads in counts:
            blas.use_threads(threads)
            for turn in range(2):  # the first starts threads and touches memory
                begin = time.perf_counter()
                work()
                took = time.perf_counter() - begin
            if best is None or took < best[0]:
                best = (took, threads, x, f"{name}, {threads} thread{'s' if threads > 1 else ''}")
    blas.use_threads(best[1])
    return best[2:]
