#!/usr/bin/env python3
"""Runs a compiler and records what it cost: a compiler launcher for CMake, used by tools/build-cost.sh.

    cmake -D "CMAKE_CXX_COMPILER_LAUNCHER=tools/compile_cost.py;costs.tsv" ...

appends to costs.tsv, per compilation: peak memory of the largest process (KiB), processor time (s), source file.
"""

import argparse
import resource
import subprocess
import sys


def main() -> int:
    """Returns the compiler's exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("costs", help="file to append a line to")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the compiler and its arguments")
    arguments = parser.parse_args()
    command: list[str] = arguments.command
    if not command:
        parser.error("no compiler was given after the file")
    status = subprocess.run(command).returncode
    if "-c" in command[:-1]:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        source = command[command.index("-c") + 1]
        with open(arguments.costs, "a", encoding="utf-8") as costs:
            costs.write(f"{used.ru_maxrss}\t{used.ru_utime + used.ru_stime:.2f}\t{source}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
