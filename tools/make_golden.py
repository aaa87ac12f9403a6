#!/usr/bin/env python3
"""Write golden files for the attention layers: small cases computed by PyTorch.

Inputs and weights are random f32 numbers. PyTorch computes each case from them
in f64, which is stored as the expected result, and once more in f32, of which
the README.md that is written says how far it lies from f64.

    python3 tools/make_golden.py [--out DIR]

Each case has `<name>.npz` (uncompressed) and, if it has weights,
`<name>.safetensors`. Needs PyTorch >= 1.13 and NumPy.
"""

import argparse
import math
import pathlib
import sys

import numpy as np
import torch
from torch import nn

sys.dont_write_bytecode = True
from train_dates import write_safetensors  # noqa: E402


# --------------------------------------------------------------------------
# Attention, written down as plainly as possible
# --------------------------------------------------------------------------

def valid(shape, valid_lens, causal=None):
    """Boolean (B,M,N): which keys a query sees. Lengths are (B,) or (B,M); causal as `torch.tril` cuts it."""
    batch, queries, keys = shape
    lens = valid_lens[:, None].expand(batch, queries) if valid_lens.dim() == 1 else valid_lens
    mask = (torch.arange(keys) < lens[:, :, None]).expand(batch, queries, keys)
    if causal is None:
        return mask
    return torch.tril(mask, diagonal={"top_left": 0, "bottom_right": keys - queries}[causal])


def masked_softmax(scores, valid_lens, causal=None):
    """Softmax over the valid keys, exactly zero elsewhere, rows without keys too. Scores are (B,M,N) or (B,H,M,N)."""
    mask = valid(scores.shape[:1] + scores.shape[-2:], valid_lens, causal)
    if scores.dim() == 4:
        mask = mask[:, None]
    return torch.softmax(scores.masked_fill(~mask, -math.inf), dim=-1).masked_fill(~mask, 0)


def pool(scores, values, valid_lens, causal=None):
    weights = masked_softmax(scores, valid_lens, causal)
    return weights @ values, weights


def additive(q, k, v, lens, w, causal=None):
    hidden = torch.tanh((q @ w["W_q.weight"].T)[:, :, None] + (k @ w["W_k.weight"].T)[:, None])
    return pool(hidden @ w["w_v.weight"][0], v, lens, causal)


def dot(q, k, v, lens, w, scale=None, causal=None):
    """Keys and values of a head serve as many heads of queries as there are for each."""
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if q.dim() == 4:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return pool(q @ k.transpose(-1, -2) * scale, v, lens, causal)


def bilinear(q, k, v, lens, w):
    return pool(q @ w["W.weight"] @ k.transpose(1, 2), v, lens)


def gaussian(q, k, v, lens, w, sigma, causal=None):
    distance = (q[:, :, None] - k[:, None]).square().sum(-1)
    return pool(-distance / (2 * sigma * sigma), v, lens, causal)


def linear(x, w, name):
    return nn.functional.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))


def split_heads(x, heads):
    """(B,N,H*D) -> (B,H,N,D)"""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def multi_head(q, k, v, lens, w, heads, names=("W_q", "W_k", "W_v", "W_o"), score="dot", kv_heads=None, causal=None):
    query, key, value, out = names
    kv_heads = kv_heads or heads
    q = split_heads(linear(q, w, query), heads)
    k, v = (split_heads(linear(x, w, name), kv_heads).repeat_interleave(heads // kv_heads, dim=1)
            for x, name in ((k, key), (v, value)))
    if score == "dot":
        scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])
    else:  # w_v[h] . tanh(q_h + k_h)
        scores = (torch.tanh(q[:, :, :, None] + k[:, :, None]) * w["w_v.weight"][:, None, None]).sum(-1)
    heads_out, weights = pool(scores, v, lens, causal)
    return linear(heads_out.transpose(1, 2).flatten(2), w, out), weights


def multi_head_torch(q, k, v, lens, w, heads, causal=None):
    """PyTorch's own module, given the weights by name."""
    layer = nn.MultiheadAttention(q.shape[-1], heads, batch_first=True, dtype=q.dtype,
                                  kdim=k.shape[-1], vdim=v.shape[-1])
    layer.load_state_dict(w)
    mask = ~valid((q.shape[0], q.shape[1], k.shape[1]), lens, causal)
    return layer(q, k, v, attn_mask=mask.repeat_interleave(heads, dim=0), average_attn_weights=False)


# --------------------------------------------------------------------------
# Cases
# --------------------------------------------------------------------------

class Writer:
    def __init__(self, out):
        self.out, self.rows = out, []

    def case(self, name, seed, lens, sizes, function, weights=None, self_attention=False, view_heads=None, **options):
        """sizes = (B, M, N, Dq, Dk, Dv). `weights` maps tensor names to shapes. view_heads = (H, Hkv): the heads that
        queries, and keys and values, are split into."""
        generator = torch.Generator().manual_seed(seed)
        batch, m, n, dq, dk, dv = sizes
        h, kv = ((heads,) for heads in view_heads) if view_heads else ((), ())
        tensors = dict(queries=torch.randn(batch, *h, m, dq, generator=generator))
        if not self_attention:
            tensors["keys"] = torch.randn(batch, *kv, n, dk, generator=generator)
            tensors["values"] = torch.randn(batch, *kv, n, dv, generator=generator)
        made = {}
        for tensor, shape in (weights or {}).items():
            spread = 0.3 if len(shape) == 1 else 1.5 / math.sqrt(shape[-1])
            made[tensor] = spread * torch.randn(*shape, generator=generator)
        lens = torch.tensor(lens)
        scalars = {key: torch.tensor([value], dtype=torch.float32) for key, value in options.items()
                   if key in ("scale", "sigma")}

        results = {}
        for dtype in (torch.float64, torch.float32):
            used = {key: tensor.to(dtype) for key, tensor in made.items()}
            q = tensors["queries"].to(dtype)
            k = tensors["keys"].to(dtype) if "keys" in tensors else q
            v = tensors["values"].to(dtype) if "values" in tensors else q
            with torch.no_grad():
                results[dtype] = function(q, k, v, lens, used, **{
                    **options, **{key: value.to(dtype) for key, value in scalars.items()}})
        output, attention_weights = results[torch.float64]
        self.write(name, dict(**tensors, valid_lens=lens, **scalars,
                              output=output, attention_weights=attention_weights),
                   error=max((a - b).abs().max().item() for a, b in zip(*results.values())))
        if made:
            write_safetensors(self.out / f"{name}.safetensors", made)

    def softmax_case(self, name, seed, lens, shape):
        """Scores of the size of a hundred among ordinary ones: must not overflow."""
        scores = 3 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        scores[0] += 100
        scores[-1, 0] *= 30
        lens = torch.tensor(lens)
        output, single = masked_softmax(scores.double(), lens), masked_softmax(scores, lens)
        self.write(name, dict(input=scores, valid_lens=lens, output=output),
                   error=(output - single).abs().max().item())

    def write(self, name, arrays, error):
        assert all(torch.isfinite(array).all() for array in arrays.values()), name
        kinds = {torch.float32: "<f4", torch.float64: "<f8", torch.int64: "<i4"}
        np.savez(self.out / f"{name}.npz", **{
            key: np.ascontiguousarray(array.numpy()).astype(kinds[array.dtype]) for key, array in arrays.items()})
        shapes = ", ".join(f"{key} {tuple(array.shape)}" for key, array in arrays.items())
        self.rows.append(f"| `{name}` | {shapes} | {error:.1e} |\n")


def textbook_weights(dq, dk, dv, hidden, bias):
    weights = {"W_q.weight": (hidden, dq), "W_k.weight": (hidden, dk), "W_v.weight": (hidden, dv),
               "W_o.weight": (hidden, hidden)}
    if bias:
        weights.update({f"{name}.bias": (hidden,) for name in ("W_q", "W_k", "W_v", "W_o")})
    return weights


BERT = "bert.encoder.layer.0.attention."


def bert_weights(size):
    """One layer among tensors of other layers, as in a checkpoint of the whole model."""
    weights = {"bert.embeddings.word_embeddings.weight": (11, size),
               "bert.embeddings.position_embeddings.weight": (8, size),
               "bert.embeddings.LayerNorm.weight": (size,),
               "bert.embeddings.LayerNorm.bias": (size,)}
    for name in ("self.query", "self.key", "self.value", "output.dense"):
        weights.update({f"{BERT}{name}.weight": (size, size), f"{BERT}{name}.bias": (size,)})
    weights.update({f"{BERT}output.LayerNorm.weight": (size,), f"{BERT}output.LayerNorm.bias": (size,),
                    "bert.encoder.layer.0.intermediate.dense.weight": (2 * size, size),
                    "bert.encoder.layer.0.intermediate.dense.bias": (2 * size,),
                    "bert.encoder.layer.0.output.dense.weight": (size, 2 * size),
                    "bert.encoder.layer.0.output.dense.bias": (size,),
                    "bert.encoder.layer.1.attention.self.query.weight": (size, size),
                    "bert.pooler.dense.weight": (size, size),
                    "cls.predictions.bias": (11,)})
    return weights


def write_all(out):
    w = Writer(out)
    w.softmax_case("masked_softmax_1d", 1, [2, 9, 1], (3, 4, 9))
    w.softmax_case("masked_softmax_2d", 2, [[1, 3, 19], [17, 2, 16]], (2, 3, 19))

    additive_sizes = (3, 5, 7, 20, 2, 9)
    additive_weights = {"W_q.weight": (13, 20), "W_k.weight": (13, 2), "w_v.weight": (1, 13)}
    w.case("additive", 3, [2, 7, 5], additive_sizes, additive, additive_weights)
    w.case("additive_lens2d", 4, [[1, 2, 3, 4, 5], [7, 6, 5, 4, 3], [7, 1, 7, 1, 7]],
           additive_sizes, additive, additive_weights)

    w.case("dot", 5, [3, 10], (2, 5, 10, 19, 19, 4), dot)
    w.case("dot_scale", 6, [6, 1, 3], (3, 4, 6, 8, 8, 11), dot, scale=0.7)
    w.case("bilinear", 7, [4, 9], (2, 3, 9, 10, 17, 5), bilinear, {"W.weight": (10, 17)})
    w.case("gaussian", 8, [5, 11], (2, 6, 11, 3, 3, 2), gaussian, sigma=0.8)

    textbook_sizes = (2, 4, 6, 20, 24, 28)
    w.case("multi_head_textbook", 9, [3, 2], textbook_sizes, multi_head,
           textbook_weights(20, 24, 28, 100, bias=False), heads=5)
    w.case("multi_head_textbook_bias", 10, [3, 6], textbook_sizes, multi_head,
           textbook_weights(20, 24, 28, 30, bias=True), heads=5)

    packed = {"in_proj_weight": (144, 48), "in_proj_bias": (144,),
              "out_proj.weight": (48, 48), "out_proj.bias": (48,)}
    w.case("multi_head_torch", 11, [7, 4], (2, 5, 7, 48, 48, 48), multi_head_torch, packed, heads=6)
    w.case("multi_head_torch_self", 12, [[1, 2, 3, 4, 5], [5, 5, 2, 1, 3]], (2, 5, 5, 48, 48, 48),
           multi_head_torch, packed, self_attention=True, heads=6)
    w.case("multi_head_torch_kdim", 13, [3, 8], (2, 3, 8, 24, 17, 10), multi_head_torch, {
        "q_proj_weight": (24, 24), "k_proj_weight": (24, 17), "v_proj_weight": (24, 10),
        "in_proj_bias": (72,), "out_proj.weight": (24, 24), "out_proj.bias": (24,)}, heads=3)
    w.case("multi_head_bert", 14, [9, 4], (2, 9, 9, 24, 24, 24), multi_head, bert_weights(24),
           self_attention=True, heads=4,
           names=[BERT + name for name in ("self.query", "self.key", "self.value", "output.dense")])
    w.case("multi_head_additive", 15, [4, 9], (2, 3, 9, 14, 15, 16), multi_head,
           {**textbook_weights(14, 15, 16, 28, bias=False), "w_v.weight": (4, 7)}, heads=4, score="additive")
    w.case("multi_head_additive_self", 16, [8, 5], (2, 8, 8, 18, 18, 18), multi_head,
           {**textbook_weights(18, 18, 18, 36, bias=True), "w_v.weight": (3, 12)},
           self_attention=True, heads=3, score="additive")

    w.case("dot_causal", 17, [9, 4], (2, 5, 9, 8, 8, 3), dot, causal="bottom_right")
    w.case("dot_causal_top_left", 18, [5, 3], (2, 7, 5, 8, 8, 3), dot, causal="top_left")
    w.case("gaussian_causal", 19, [3, 2], (2, 6, 3, 2, 2, 4), gaussian, sigma=0.9, causal="bottom_right")
    w.case("additive_causal", 20, [[1, 8, 3, 8], [8, 2, 8, 6]], (2, 4, 8, 20, 2, 9), additive, additive_weights,
           causal="bottom_right")
    w.case("multi_head_torch_causal", 21, [6, 3], (2, 6, 6, 12, 12, 12), multi_head_torch, {
        "in_proj_weight": (36, 12), "in_proj_bias": (36,), "out_proj.weight": (12, 12), "out_proj.bias": (12,)},
           self_attention=True, heads=3, causal="top_left")
    w.case("dot_grouped", 22, [7, 4], (2, 3, 7, 8, 8, 5), dot, view_heads=(6, 2))
    grouped = {"W_q.weight": (24, 10), "W_k.weight": (8, 11), "W_v.weight": (10, 12), "W_o.weight": (7, 30),
               "W_q.bias": (24,), "W_k.bias": (8,), "W_v.bias": (10,), "W_o.bias": (7,)}
    w.case("multi_head_grouped", 23, [8, 5], (2, 4, 8, 10, 11, 12), multi_head, grouped, heads=6, kv_heads=2)
    w.case("multi_head_grouped_causal", 24, [[3, 8, 1, 8], [8, 6, 8, 8]], (2, 4, 8, 10, 11, 12), multi_head, grouped,
           heads=6, kv_heads=2, causal="bottom_right")
    return w.rows


README = """\
# Golden files: small attention layers computed by PyTorch

Made by `python3 tools/make_golden.py` with PyTorch {torch} and NumPy {numpy};
all seeds are fixed in the script. Inputs and weights are random f32; `output` and
`attention_weights` are f64, computed by PyTorch in f64 from these very f32
numbers. The last column says how far PyTorch's own f32 result is from them.

`<name>.npz` holds `queries` (B,M,Dq), `keys` (B,N,Dk) and `values` (B,N,Dv) (these
two are absent from self-attention, where both are the queries), `valid_lens` as
i32, (B,) or (B,M), all at least 1, and the results `output` (B,M,Dout) and
`attention_weights`, (B,M,N) or (B,H,M,N), exactly zero beyond the valid length.
The `masked_softmax` files hold `input`, `valid_lens` and `output`.
`<name>.safetensors` holds the weights, f32.

| case | tensors | f32 error |
|---|---|---|
{rows}
* `additive`: w_v . tanh(W_q q + W_k k).
* `dot`: q . k / sqrt(D); `dot_scale`: q . k * `scale`.
* `bilinear`: q^T W k, `W.weight` is (Dq,Dk), no scale.
* `gaussian`: -|q - k|^2 / (2 `sigma`^2). `scale` and `sigma` have the shape (1,).
* `multi_head_textbook`: W_q, W_k, W_v, W_o (no biases; `_bias` has them), heads of
  equal size side by side, each scaled by 1/sqrt(its size).
* `multi_head_torch`: torch.nn.MultiheadAttention and its names; 6 heads. `_self` is
  self-attention with lengths (B,M); `_kdim` has other key and value sizes; 3 heads.
* `multi_head_bert`: BERT's names under `{bert}`, among
  tensors that a loader has to pass over (some with similar names); 4 heads.
* `multi_head_additive`: projected as in `multi_head_textbook`, then
  w_v[h] . tanh(q_h + k_h) in each head h, `w_v.weight` (H,D), no scale.
* `_causal`: query i of M sees at most keys 0 to N-M+i, `_causal_top_left` and
  `multi_head_torch_causal` 0 to i; a row that sees none is zero.
* `_grouped`: 6 heads of queries share 2 of keys and values, three each in a row.
  Of `dot_grouped` all are split already, queries (B,6,M,D), keys (B,2,N,D).

Apache-2.0, like the project.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR",
                        default=pathlib.Path(__file__).resolve().parent.parent / "tests" / "data" / "golden")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows = write_all(out)
    (out / "README.md").write_text(README.format(torch=torch.__version__, numpy=np.__version__,
                                                 rows="".join(rows), bert=BERT), encoding="utf-8")
    print(f"wrote {sum(f.stat().st_size for f in out.iterdir())} bytes to {out}")


if __name__ == "__main__":
    main()
