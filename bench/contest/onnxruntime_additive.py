#!/usr/bin/env python3
"""additive/* of attend_bench in ONNX Runtime: operator after operator, as it has no fused one.

    taskset -c 0 python3 bench/contest/onnxruntime_additive.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, nanoseconds per query, key and hidden unit, and the largest
difference from double precision in the first four queries of batch entry 0. Forms: onnxruntime_ops, the whole batch in
one call, and onnxruntime_ops_sliced, one call per batch entry. Needs the packages numpy, onnx and onnxruntime (Debian
12 has not the last); without them this says "skipped" and exits with 0.
"""
import argparse
from typing import Callable

import peer

try:
    import numpy
    from onnx import helper
    import peer_onnxruntime
    from problem import AdditiveProblem
except ImportError as error:
    peer.skip(__file__, error, "pip: onnxruntime, onnx, numpy")


def nodes() -> list:
    """Projections, features (B, M, N, U), scores, softmax, product."""
    return [helper.make_node(operator, inputs.split(), [output], **options) for operator, inputs, output, options in (
        ("MatMul", "q w_q", "pq", {}), ("MatMul", "k w_k", "pk", {}),
        ("Unsqueeze", "pq two", "pq4", {}), ("Unsqueeze", "pk one", "pk4", {}),
        ("Add", "pq4 pk4", "sum", {}), ("Tanh", "sum", "features", {}),
        ("MatMul", "features w_v", "s4", {}), ("Squeeze", "s4 three", "s", {}),
        ("Softmax", "s", "w", {"axis": -1}), ("MatMul", "w v", "o", {}))]


def forms_of(case: peer.AdditiveCase, args: argparse.Namespace) -> tuple["AdditiveProblem", dict[str, Callable]]:
    """The problem, and its forms by name."""
    problem = AdditiveProblem(case)
    constants = dict(zip(("w_q", "w_k", "w_v"), (x.T.copy() for x in problem.weights)))
    constants |= {name: numpy.array([axis]) for axis, name in ((1, "one"), (2, "two"), (3, "three"))}
    shape = (case.batch, case.queries, 256)
    whole = dict(zip("qkv", problem.inputs))
    feeds = {"onnxruntime_ops": [whole]}
    if case.batch > 1:
        feeds["onnxruntime_ops_sliced"] = [{name: x[i:i + 1] for name, x in whole.items()} for i in range(case.batch)]
    return problem, {form: peer_onnxruntime.Model(nodes(), feed, shape, args.threads, constants=constants)
                     for form, feed in feeds.items()}


if __name__ == "__main__":
    peer_onnxruntime.contend(__doc__, "additive", peer.ADDITIVE_CASES, forms_of)
