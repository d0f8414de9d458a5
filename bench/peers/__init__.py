"""Other programs that train the same models, one file each. A peer is a module with

    WHAT              what it is, for the table
    needs()           the Debian package that is missing, or ""
    MATRICES          where it multiplies matrices in its own process: "numpy" or "torch"
    runs(set)         its grid: the settings of each of its runs on a data set, in order; none: it has no form for it
    quick(settings, seconds)
                      optional: the same settings for a run of about this many seconds
    blas_files()      optional: the BLAS files of a program that it starts
    fit(problem, settings, marks)
                      trains, inside marks.begin() ... marks.point(scores, memory); see worker.py
"""
