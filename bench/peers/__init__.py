"""Other programs that train the same models, one file each. A peer is a module with

    WHAT              what it is, for the table
    needs()           the Debian package that is missing, or ""
    runs(set)         its grid: the settings of each of its runs on a data set, in order
    fit(problem, settings, marks)
                      trains, inside marks.begin() ... marks.point(scores, memory); see worker.py
"""
