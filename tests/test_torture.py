#!/usr/bin/python3
"""Three minutes of ./dev torture: kills, faults, damaged files, random configurations. A failure says how to replay."""
import sys

import torture

if __name__ == "__main__":
    sys.exit(torture.main(["--seconds", "180"]))
