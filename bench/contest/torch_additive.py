#!/usr/bin/env python3
"""additive/* of attend_bench in PyTorch: as the textbooks write it, eager, and in a form that torch.compile can fuse.

    taskset -c 0 python3 bench/contest/torch_additive.py [--threads N] [--seconds S] [--compile] [CASE ...]

Prints one line per case and form: median milliseconds, nanoseconds per query, key and hidden unit, and the largest
difference from double precision in the first four queries of batch entry 0. PyTorch is Debian's python3-torch or any
other; without it, this says "skipped" and exits with 0. (Debian 12's torch runs on the reference BLAS unless
libopenblas0-openmp is installed, which also sets the time of the projections.)
"""
import argparse
from typing import Callable

import peer

try:
    import torch
    import peer_torch
    from problem import AdditiveProblem
except ImportError as error:
    peer.skip(__file__, error, "Debian: python3-torch")


class AdditiveAttention(torch.nn.Module):
    """Dive into Deep Learning, 11.3.3, without dropout."""

    def __init__(self, w_q: "torch.Tensor", w_k: "torch.Tensor", w_v: "torch.Tensor") -> None:
        super().__init__()
        self.W_q, self.W_k, self.w_v = peer_torch.linear(w_q), peer_torch.linear(w_k), peer_torch.linear(w_v)

    def forward(self, queries: "torch.Tensor", keys: "torch.Tensor", values: "torch.Tensor") -> "torch.Tensor":
        """The features, (B, M, N, U), stand in memory."""
        features = torch.tanh(self.W_q(queries).unsqueeze(2) + self.W_k(keys).unsqueeze(1))
        return torch.bmm(torch.softmax(self.scores(features), dim=-1), values)

    def scores(self, features: "torch.Tensor") -> "torch.Tensor":
        """As the textbook has it."""
        return self.w_v(features).squeeze(-1)


class FusableAttention(AdditiveAttention):
    """The same with a sum in place of the last product: a compiler can fuse that with the features."""

    def scores(self, features: "torch.Tensor") -> "torch.Tensor":
        return (features * self.w_v.weight[0]).sum(dim=-1)


def forms_of(case: peer.AdditiveCase, args: argparse.Namespace) -> tuple["AdditiveProblem", dict[str, Callable]]:
    """The problem, and its forms by name."""
    problem = AdditiveProblem(case)
    inputs, weights = ([torch.from_numpy(x) for x in tensors] for tensors in (problem.inputs, problem.weights))
    eager, fusable = (kind(*weights).eval() for kind in (AdditiveAttention, FusableAttention))
    return problem, {"torch_eager": lambda: eager(*inputs), **peer_torch.compiled(args, fusable, *inputs)}


if __name__ == "__main__":
    peer_torch.contend(__doc__, "additive", peer.ADDITIVE_CASES, forms_of, compiles=True)
