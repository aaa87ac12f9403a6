#!/usr/bin/env python3
"""masked_softmax/* of attend_bench in ONNX Runtime: Softmax, and with lengths Less, Where and Softmax.

    taskset -c 0 python3 bench/contest/onnxruntime_softmax.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case: median milliseconds, nanoseconds per valid score, and the largest difference from double
precision in the first four rows. Needs the packages numpy, onnx and onnxruntime (Debian 12 has not the last); without
them this says "skipped" and exits with 0.
"""
import argparse
from typing import Callable

import peer

try:
    import numpy
    from onnx import helper
    import peer_onnxruntime
    from problem import SoftmaxProblem
except ImportError as error:
    peer.skip(__file__, error, "pip: onnxruntime, onnx, numpy")


def forms_of(case: peer.SoftmaxCase, args: argparse.Namespace) -> tuple["SoftmaxProblem", dict[str, Callable]]:
    """The problem, and its one form by name."""
    problem = SoftmaxProblem(case)
    feed, nodes, scores, constants = {"x": problem.scores}, [], "x", {}
    if problem.lens is not None:
        feed["lens"] = problem.lens[..., None]
        constants = {"column": numpy.arange(case.columns, dtype=numpy.int32),
                     "hidden": numpy.array(-1e6, dtype=numpy.float32)}
        nodes = [helper.make_node("Less", ["column", "lens"], ["valid"]),
                 helper.make_node("Where", ["valid", "x", "hidden"], ["seen"])]
        scores = "seen"
    nodes.append(helper.make_node("Softmax", [scores], ["o"], axis=-1))
    model = peer_onnxruntime.Model(nodes, [feed], problem.scores.shape, args.threads, constants=constants)
    return problem, {"onnxruntime_softmax": model}


if __name__ == "__main__":
    peer_onnxruntime.contend(__doc__, "masked_softmax", peer.SOFTMAX_CASES, forms_of)
