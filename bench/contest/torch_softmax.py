#!/usr/bin/env python3
"""masked_softmax/* of attend_bench in PyTorch: a mask filled in and softmax, eager and by torch.compile.

    taskset -c 0 python3 bench/contest/torch_softmax.py [--threads N] [--seconds S] [--compile] [CASE ...]

Prints one line per case and form: median milliseconds, nanoseconds per valid score, and the largest difference from
double precision in the first four rows. Forms: torch_eager, and torch_compile where --compile asks for it. What that
generates calls SLEEF's exponential, where it finds that; with Debian's package it does by LD_PRELOAD=libsleef.so.3.
Without PyTorch (Debian: python3-torch) this says "skipped" and exits with 0.
"""
import argparse
from typing import Callable

import peer

try:
    import torch
    import peer_torch
    from problem import SoftmaxProblem
except ImportError as error:
    peer.skip(__file__, error, "Debian: python3-torch")


def masked_softmax(scores: "torch.Tensor", lens: "torch.Tensor | None") -> "torch.Tensor":
    """As Dive into Deep Learning, 11.3.2, but what is masked out is filled in without a copy beforehand."""
    if lens is not None:
        scores = scores.masked_fill(torch.arange(scores.shape[-1]) >= lens[..., None], -1e6)
    return torch.softmax(scores, dim=-1)


def forms_of(case: peer.SoftmaxCase, args: argparse.Namespace) -> tuple["SoftmaxProblem", dict[str, Callable]]:
    """The problem, and its forms by name."""
    problem = SoftmaxProblem(case)
    scores = torch.from_numpy(problem.scores)
    lens = None if problem.lens is None else torch.from_numpy(problem.lens)
    return problem, {"torch_eager": lambda: masked_softmax(scores, lens),
                     **peer_torch.compiled(args, masked_softmax, scores, lens)}


if __name__ == "__main__":
    peer_torch.contend(__doc__, "masked_softmax", peer.SOFTMAX_CASES, forms_of, compiles=True)
