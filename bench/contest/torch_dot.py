#!/usr/bin/env python3
"""dot/* of attend_bench in PyTorch: scaled_dot_product_attention in several forms, and the textbook's products.

    taskset -c 0 python3 bench/contest/torch_dot.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference
from double precision in the first four query rows (causal: the last) of batch entry 0. The forms:

    torch_bmm          product, mask, softmax, product; heads that share keys folded into rows
    torch_sdpa         one call; a causal mask by is_causal, heads that share keys by enable_gqa (before 2.5: repeated
                       beforehand, untimed), lengths by a mask
    torch_sdpa_folded  heads that share keys as rows of one head, where no causal mask is
    torch_sdpa_sliced  one call per batch entry, on its valid keys alone

Without PyTorch (Debian: python3-torch) this says "skipped" and exits with 0. Debian 12's torch 1.13 has no
scaled_dot_product_attention yet. Its BLAS is the system's: Debian's reference BLAS unless there is libopenblas0-openmp,
or MKL through LD_PRELOAD="libgomp.so.1 libmkl_rt.so" MKL_THREADING_LAYER=GNU.
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


def takes_groups() -> bool:
    """Whether this version knows enable_gqa; a built-in function does not tell its signature."""
    one = torch.zeros(1, 1, 1, 1)
    try:
        torch.nn.functional.scaled_dot_product_attention(one, one, one, enable_gqa=True)
    except TypeError:
        return False
    return True


def forms_of(case: peer.DotCase, _: object) -> tuple["DotProblem", dict[str, Callable]]:
    """The problem, and the forms that can say it by name."""
    problem = DotProblem(case)
    q, k, v = (torch.from_numpy(x) for x in problem.inputs)
    mask = None if problem.mask is None else torch.from_numpy(problem.mask)
    forms: dict[str, Callable] = {"torch_bmm": lambda: textbook(q, k, v, mask)}
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        return problem, forms
    sdpa = torch.nn.functional.scaled_dot_product_attention
    # is_causal has query i see keys 0 to i. Where keys are more than queries ours sees more.
    options: dict = {"is_causal": True} if case.causal and case.queries == case.keys else {"attn_mask": mask}
    operands = (q, k, v)
    if case.heads != case.kv_heads:
        folded = torch.from_numpy(problem.folded)
        if not case.causal:
            forms["torch_sdpa_folded"] = lambda: sdpa(folded, k, v, attn_mask=mask)
        if takes_groups():
            options["enable_gqa"] = True
        else:
            operands = (q, *(x.repeat_interleave(case.heads // case.kv_heads, dim=1) for x in (k, v)))
    forms["torch_sdpa"] = lambda: sdpa(*operands, **options)
    if case.lens and case.heads == case.kv_heads:
        forms["torch_sdpa_sliced"] = lambda: torch.cat(
            [sdpa(q[i:i + 1], k[i:i + 1, :, :n], v[i:i + 1, :, :n]) for i, n in enumerate(case.lens)])
    return problem, forms


if __name__ == "__main__":
    peer_torch.contend(__doc__, "dot", peer.DOT_CASES, forms_of)
