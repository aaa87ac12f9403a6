#!/usr/bin/env python3
"""multi_head/* of attend_bench in ONNX Runtime: its two attention operators between matrix products.

    taskset -c 0 python3 bench/contest/onnxruntime_multi_head.py [--threads N] [--seconds S] [CASE ...]

Self-attention without biases; lengths say which keys are valid, and projections of padded rows are computed all the
same. Weights are constants of the graph, which the runtime packs when it loads it. Prints one line per case and form:
median milliseconds, GFLOPS counted as attend_bench does, and the largest difference from double precision in the first
four rows of batch entry 0. The forms:

    onnxruntime_attention  Attention of ONNX Runtime's own set, which projects and splits heads itself, and MatMul
    onnxruntime_mha        three MatMul, MultiHeadAttention of that set, and a MatMul

Needs the packages numpy, onnx and onnxruntime (Debian 12 has not the last); without them this says "skipped" and exits
with 0. A form that the runtime is too old for says so in a line.
"""
import argparse
from typing import Callable

import peer

try:
    import numpy
    from onnx import helper
    from peer_onnxruntime import CONTRIB, Model
    import peer_onnxruntime
    from problem import MultiHeadProblem, aligned
except ImportError as error:
    peer.skip(__file__, error, "pip: onnxruntime, onnx, numpy")


def inputs(problem: "MultiHeadProblem") -> "dict[str, numpy.ndarray]":
    """Rows, and valid lengths where there are some."""
    lens = problem.case.lens
    return {"x": problem.queries} | ({"lens": numpy.array(lens, dtype=numpy.int32)} if lens else {})


def attention(problem: "MultiHeadProblem", threads: int) -> "Model":
    """One projection to queries, keys and values; the operator wants a bias, of zeros here."""
    feed, heads = inputs(problem), problem.case.heads
    constants = {"w_in": aligned(problem.w_in.T), "w_out": aligned(problem.w_out.T),
                 "b_in": numpy.zeros(len(problem.w_in), dtype=numpy.float32)}
    names = ["x", "w_in", "b_in"] + [name for name in feed if name == "lens"]
    nodes = [helper.make_node("Attention", names, ["a"], domain=CONTRIB, num_heads=heads),
             helper.make_node("MatMul", ["a", "w_out"], ["o"])]
    return Model(nodes, [feed], problem.queries.shape, threads, constants=constants)


def multi_head(problem: "MultiHeadProblem", threads: int) -> "Model":
    """A projection each of queries, keys and values."""
    feed, heads = inputs(problem), problem.case.heads
    weights = numpy.split(problem.w_in, 3) + [problem.w_out]
    constants = {name: aligned(w.T) for name, w in zip(("w_q", "w_k", "w_v", "w_o"), weights)}
    names = ["q", "k", "v"] + (["", "lens"] if "lens" in feed else [])
    nodes = [helper.make_node("MatMul", ["x", f"w_{name}"], [name]) for name in "qkv"]
    nodes += [helper.make_node("MultiHeadAttention", names, ["a"], domain=CONTRIB, num_heads=heads),
              helper.make_node("MatMul", ["a", "w_o"], ["o"])]
    return Model(nodes, [feed], problem.queries.shape, threads, constants=constants)


def forms_of(case: peer.MultiHeadCase, args: argparse.Namespace) -> tuple["MultiHeadProblem", dict[str, Callable]]:
    """The problem, and its forms by name."""
    problem = MultiHeadProblem(case)
    return problem, {"onnxruntime_attention": attention(problem, args.threads),
                     "onnxruntime_mha": multi_head(problem, args.threads)}


if __name__ == "__main__":
    peer_onnxruntime.contend(__doc__, "multi_head", peer.MULTI_HEAD_CASES, forms_of)
