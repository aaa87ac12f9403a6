#!/usr/bin/env python3
"""dot/* of attend_bench in ONNX Runtime: its two attention operators, and scores, softmax and product as separate ones.

    taskset -c 0 python3 bench/contest/onnxruntime_dot.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference
from double precision in the first four query rows (causal: the last) of batch entry 0. The forms, each with its inputs
laid out beforehand as its operator wants them:

    onnxruntime_attention  Attention of ONNX's operator set 23; heads may share keys, a causal mask is an attribute,
                           lengths are a mask
    onnxruntime_mha        MultiHeadAttention of ONNX Runtime's own set; takes lengths, but no heads that share keys
    onnxruntime_ops        MatMul, Softmax, MatMul; query heads that share keys folded into rows; not causal
    ..._folded             query heads that share keys folded into rows; not causal
    ..._sliced             one call per batch entry, on its valid keys alone

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
    from problem import DotProblem, aligned
except ImportError as error:
    peer.skip(__file__, error, "pip: onnxruntime, onnx, numpy")

ATTENTION_OPSET = 23


def attention(problem: "DotProblem", threads: int, queries: "numpy.ndarray") -> "Model":
    """The standard's operator on (B, heads, rows, D), all of the batch in one call."""
    case, (_, k, v) = problem.case, problem.inputs
    names, feed, options = ["q", "k", "v"], {"q": queries, "k": k, "v": v}, {}
    if case.causal and case.queries == case.keys:  # query i sees keys 0 to i: where keys are more, ours sees more
        options["is_causal"] = 1
    elif problem.mask is not None:
        names.append("mask")
        feed["mask"] = numpy.broadcast_to(problem.mask, (case.batch, 1, queries.shape[2], case.keys)).copy()
    return Model([helper.make_node("Attention", names, ["o"], **options)], [feed], queries.shape, threads,
                 ATTENTION_OPSET)


def attention_sliced(problem: "DotProblem", threads: int, queries: "numpy.ndarray") -> "Model":
    """The same, entry after entry."""
    _, k, v = problem.inputs
    feeds = [{"q": queries[i:i + 1], "k": aligned(k[i:i + 1, :, :n]), "v": aligned(v[i:i + 1, :, :n])}
             for i, n in enumerate(problem.case.lens)]
    return Model([helper.make_node("Attention", ["q", "k", "v"], ["o"])], feeds, queries.shape, threads,
                 ATTENTION_OPSET)


def rows(heads: "numpy.ndarray") -> "numpy.ndarray":
    """(B, H, M, D) as (B, M, H * D), copied."""
    batch, _, length, _ = heads.shape
    return aligned(heads.transpose(0, 2, 1, 3)).reshape(batch, length, -1)


def multi_head(problem: "DotProblem", threads: int, sliced: bool) -> "Model":
    """The runtime's operator on (B, M, H * D)."""
    case = problem.case
    q, k, v = (rows(x) for x in problem.inputs)
    feeds, names = [{"q": q, "k": k, "v": v}], ["q", "k", "v"]
    if sliced:
        feeds = [{"q": q[i:i + 1], "k": k[i:i + 1, :n], "v": v[i:i + 1, :n]} for i, n in enumerate(case.lens)]
    elif case.lens:
        feeds[0]["lens"] = numpy.array(case.lens, dtype=numpy.int32)
        names += ["", "lens"]
    node = helper.make_node("MultiHeadAttention", names, ["o"], domain=CONTRIB, num_heads=case.heads)
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
    forms = {"onnxruntime_attention": attention(problem, threads, problem.inputs[0])}
    if not case.causal:
        forms["onnxruntime_ops"] = separate(problem, threads)
        if case.heads == case.kv_heads:
            forms["onnxruntime_mha"] = multi_head(problem, threads, sliced=False)
        else:
            forms["onnxruntime_attention_folded"] = attention(problem, threads, problem.folded)
        if case.lens:
            forms["onnxruntime_attention_sliced"] = attention_sliced(problem, threads, problem.folded)
            if case.heads == case.kv_heads:
                forms["onnxruntime_mha_sliced"] = multi_head(problem, threads, sliced=True)
    return problem, forms


if __name__ == "__main__":
    peer_onnxruntime.contend(__doc__, "dot", peer.DOT_CASES, forms_of)
