#!/usr/bin/env python3
"""dot/* of attend_bench in ONNX Runtime: its MultiHeadAttention, and scores, softmax and product as separate operators.

    taskset -c 0 python3 bench/contest/onnxruntime_dot.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference
from double precision in the first four query rows (causal: the last) of batch entry 0. MultiHeadAttention knows no
heads that share keys; cases with those are measured by separate operators alone, where query heads are folded into
rows, and causal ones by MultiHeadAttention alone. Needs the packages numpy, onnx and onnxruntime (Debian 12 has not the
last); without them this says "skipped" and exits with 0. A form that the runtime is too old for says so in a line.
"""
import argparse
from typing import Callable

import peer

try:
    import numpy
    from onnx import helper
    from peer_onnxruntime import CONTRIB, Model
    import peer_onnxruntime
    from problem import DotProblem, aligned
except ImportError as error:
    peer.skip(__file__, error, "pip: onnxruntime, onnx, numpy")


def rows(heads: "numpy.ndarray") -> "numpy.ndarray":
    """(B, H, M, D) as (B, M, H * D), copied."""
    batch, _, length, _ = heads.shape
    return aligned(heads.transpose(0, 2, 1, 3)).reshape(batch, length, -1)


def multi_head(problem: "DotProblem", threads: int) -> "Model":
    """The runtime's operator on (B, M, H * D)."""
    case = problem.case
    q, k, v = (rows(x) for x in problem.inputs)
    feeds, names = [{"q": q, "k": k, "v": v}], ["q", "k", "v"]
    if case.lens:
        feeds[0]["lens"] = numpy.array(case.lens, dtype=numpy.int32)
        names += ["", "lens"]
    options = {"unidirectional": 1} if case.causal else {}
    node = helper.make_node("MultiHeadAttention", names, ["o"], domain=CONTRIB, num_heads=case.heads, **options)
    return Model([node], feeds, q.shape, threads)


def separate(problem: "DotProblem", threads: int) -> "Model":
    """Lengths as a mask to add."""
    _, k, v = problem.inputs
    feed = {"q": problem.folded, "kt": aligned(k.transpose(0, 1, 3, 2)), "v": v}
    nodes = [helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["s1"])]
    if problem.mask is not None:
        feed["mask"] = numpy.where(problem.mask, 0, -numpy.inf).astype(numpy.float32)
        nodes.append(helper.make_node("Add", ["s1", "mask"], ["s2"]))
    last = nodes[-1].output[0]
    nodes += [helper.make_node("Softmax", [last], ["w"], axis=-1), helper.make_node("MatMul", ["w", "v"], ["o"])]
    scale = numpy.array(problem.case.size**-0.5, dtype=numpy.float32)
    return Model(nodes, [feed], problem.folded.shape, threads, constants={"scale": scale})


def forms_of(case: peer.DotCase, args: argparse.Namespace) -> tuple["DotProblem", dict[str, Callable]]:
    """The problem, and the forms that can say it by name."""
    problem, threads = DotProblem(case), args.threads
    forms: dict[str, Callable] = {}
    if case.heads == case.kv_heads:
        forms["onnxruntime_mha"] = multi_head(problem, threads)
    if not case.causal:
        forms["onnxruntime_ops"] = separate(problem, threads)
    return problem, forms


if __name__ == "__main__":
    peer_onnxruntime.contend(__doc__, "dot", peer.DOT_CASES, forms_of)
