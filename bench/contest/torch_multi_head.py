#!/usr/bin/env python3
"""multi_head/* of attend_bench in PyTorch: torch.nn.MultiheadAttention, and the same spelled out with fewer calls.

    taskset -c 0 python3 bench/contest/torch_multi_head.py [--threads N] [--seconds S] [--compile] [CASE ...]

Self-attention without biases; lengths are a mask, so that padded rows cost as much as others. Prints one line per case
and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference from double precision in
the first four rows of batch entry 0. The forms:

    torch_mha          torch.nn.MultiheadAttention, need_weights=False
    torch_linear_sdpa  one projection to queries, keys and values, scaled_dot_product_attention, one for the output
    torch_compile      that by torch.compile, weights frozen; where --compile asks for it

Without PyTorch (Debian: python3-torch) this says "skipped" and exits with 0. Debian 12's torch 1.13 has torch_mha
alone.
"""
import argparse
from typing import Callable

import peer

try:
    import torch
    import peer_torch
    from problem import MultiHeadProblem
except ImportError as error:
    peer.skip(__file__, error, "Debian: python3-torch")


class LinearSdpa(torch.nn.Module):
    """Three operators, heads split and merged as views."""

    def __init__(self, num_heads: int, w_in: "torch.Tensor", w_out: "torch.Tensor") -> None:
        super().__init__()
        self.num_heads = num_heads
        self.w_in, self.w_out = peer_torch.linear(w_in), peer_torch.linear(w_out)

    def forward(self, rows: "torch.Tensor", mask: "torch.Tensor | None") -> "torch.Tensor":
        """Rows (B, S, E); mask (B, 1, 1, S), True for valid keys."""
        batch, length, size = rows.shape
        q, k, v = self.w_in(rows).reshape(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        heads = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.w_out(heads.transpose(1, 2).reshape(batch, length, size))


def forms_of(case: peer.MultiHeadCase, args: argparse.Namespace) -> tuple["MultiHeadProblem", dict[str, Callable]]:
    """The problem, and its forms by name."""
    problem = MultiHeadProblem(case)
    rows, w_in, w_out = (torch.from_numpy(x) for x in (problem.queries, problem.w_in, problem.w_out))
    valid = None if problem.valid is None else torch.from_numpy(problem.valid)
    mask, padding = (None, None) if valid is None else (valid[:, None, None, :], ~valid)
    # Without eval(), which has torch 1.13 take a path that wants biases and changes nothing in later ones.
    layer = torch.nn.MultiheadAttention(case.size, case.heads, dropout=0, bias=False, batch_first=True)
    layer.load_state_dict({"in_proj_weight": w_in, "out_proj.weight": w_out})
    forms: dict[str, Callable] = {
        "torch_mha": lambda: layer(rows, rows, rows, key_padding_mask=padding, need_weights=False)[0]}
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        spelled = LinearSdpa(case.heads, w_in, w_out).eval()
        forms["torch_linear_sdpa"] = lambda: spelled(rows, mask)
        forms |= peer_torch.compiled(args, spelled, rows, mask)
    return problem, forms


if __name__ == "__main__":
    peer_torch.contend(__doc__, "multi_head", peer.MULTI_HEAD_CASES, forms_of, compiles=True)
