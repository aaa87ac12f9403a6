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
except ImportError:
    peer.skip("torch_dot.py", "PyTorch", "Debian: python3-torch")


def heads(rows: "torch.Tensor", count: int) -> "torch.Tensor":
    """(B, M, H * D) seen as (B, H, M, D), in place."""
    return rows.unflatten(2, (count, -1)).transpose(1, 2)


def mask_of(case: peer.DotCase) -> "torch.Tensor | None":
    """True where a query sees a key, (B or 1, 1, M, N)."""
    if case.causal:
        return torch.ones(case.queries, case.keys, dtype=torch.bool).tril(case.keys - case.queries)[None, None]
    if case.lens:
        return (torch.arange(case.keys) < torch.tensor(case.lens)[:, None])[:, None, None, :]
    return None


def textbook(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", mask: "torch.Tensor | None") -> "torch.Tensor":
    """Scores, mask, softmax, product; heads that share keys folded into rows."""
    batch, num_heads, queries, size = q.shape
    shared = k.shape[1]
    scores = torch.matmul(q.reshape(batch, shared, -1, size), k.transpose(-1, -2)) / size**0.5
    if mask is not None:
        scores = scores.reshape(batch, num_heads, queries, -1).masked_fill(~mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1).reshape(batch, shared, -1, k.shape[2])
    return torch.matmul(weights, v).reshape(batch, num_heads, queries, -1)


def fused(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", mask: "torch.Tensor | None") -> "torch.Tensor":
    """PyTorch's own; shared heads are repeated beforehand (measure), untimed."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def largest_error(result: "torch.Tensor", case: peer.DotCase, inputs: list) -> float:
    """Against double precision, from the inputs on."""
    q, k, v = (x[:1].double() for x in inputs)
    rows = slice(-4, None) if case.causal else slice(0, 4)
    mask = mask_of(case)
    mask = None if mask is None else mask[:1] if case.lens else mask[:, :, rows]
    truth = textbook(q[:, :, rows], k, v, mask)
    return (result[:1, :, rows].double() - truth).abs().max().item()


def measure(name: str, case: peer.DotCase, seconds: float) -> None:
    """All forms of one case."""
    torch.manual_seed(peer.SEED)
    inputs = [heads(torch.randn(case.batch, rows, count * case.size), count)
              for rows, count in ((case.queries, case.heads), (case.keys, case.kv_heads), (case.keys, case.kv_heads))]
    mask = mask_of(case)
    forms: dict[str, tuple[Callable, list]] = {"torch_bmm": (textbook, inputs)}
    if hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        repeated = [inputs[0], *(x.repeat_interleave(case.heads // case.kv_heads, dim=1) for x in inputs[1:])]
        forms["torch_sdpa"] = (fused, repeated)
    for form, (function, operands) in forms.items():
        median = peer.median_seconds(lambda: function(*operands, mask), seconds)
        peer.report(f"dot/{name}/{form}", median, largest_error(function(*operands, mask), case, inputs), case.flops)


def main() -> None:
    """Every case asked for."""
    args = peer.arguments(__doc__.split("\n", maxsplit=1)[0], list(peer.DOT_CASES))
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} thread(s), seed {peer.SEED}")
    with torch.inference_mode():
        for name in args.cases:
            measure(name, peer.DOT_CASES[name], args.seconds)


if __name__ == "__main__":
    main()
