#!/usr/bin/python3
"""Three minutes of ./dev torture: kills, faults, damaged files and random configurations. A failure prints how to replay it."""
import sys

import torture

if __name__ == "__main__":
    sys.exit(torture.main(["--seconds", "180"]))
