#!/usr/bin/env python3
"""dot/* of attend_bench in PyTorch: scaled_dot_product_attention where there is one, and the textbook's bmm form.

    taskset -c 0 python3 bench/contest/torch_dot.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference
from double precision in the first four query rows (causal: the last) of batch entry 0. Without PyTorch (Debian:
python3-torch) this says "skipped" and exits with 0. Debian 12's torch 1.13 has no scaled_dot_product_attention yet and
runs on the reference BLAS unless libopenblas0-openmp is installed.
"""
from typing import Callable

import peer

try:
    import torch
    import peer_torch
    from problem import DotProblem
except ImportError as error:
    peer.skip(__file__, error, "Debian: python3-torch")


def textbook(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", mask: "torch.Tensor | None") -> "torch.Tensor":
    """Scores, mask, softmax, product; heads that share keys folded into rows."""
    batch, num_heads, queries, size = q.shape
    shared = k.shape[1]
    scores = torch.matmul(q.reshape(batch, shared, -1, size), k.transpose(-1, -2)) / size**0.5
    if mask is not None:
        scores = scores.reshape(batch, num_heads, queries, -1).masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1).reshape(batch, shared, -1, k.shape[2])
    return torch.matmul(weights, v).reshape(batch, num_heads, queries, -1)


def forms_of(case: peer.DotCase, _: object) -> tuple["DotProblem", dict[str, Callable]]:
    """The problem, and the forms that can say it by name."""
    problem = DotProblem(case)
    q, k, v = (torch.from_numpy(x) for x in problem.inputs)
    mask = None if problem.mask is None else torch.from_numpy(problem.mask)
    forms: dict[str, Callable] = {"torch_bmm": lambda: textbook(q, k, v, mask)}
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        repeated = [x.repeat_interleave(case.heads // case.kv_heads, dim=1) for x in (k, v)]
        forms["torch_sdpa"] = lambda: torch.nn.functional.scaled_dot_product_attention(q, *repeated, attn_mask=mask)
    return problem, forms


if __name__ == "__main__":
    peer_torch.contend(__doc__, "dot", peer.DOT_CASES, forms_of)
