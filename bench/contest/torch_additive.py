#!/usr/bin/env python3
"""additive/* of attend_bench in PyTorch, as the textbooks write it: eager, one thread.

    taskset -c 0 python3 bench/contest/torch_additive.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case: median milliseconds, and the largest difference from double precision. PyTorch is Debian's
python3-torch or any other; without it, this says "skipped" and exits with 0. (Debian 12's torch runs on the
reference BLAS unless libopenblas0-openmp is installed, which also sets the time of the projections.)
"""
import peer

try:
    import torch
except ImportError:
    peer.skip("torch_additive.py", "PyTorch", "Debian: python3-torch")

# batch, queries, keys, hidden units; query size 192, key and value size 256: bench/additive.h.
CASES = {
    "b8_m64_n512_u256": (8, 64, 512, 256),
    "b64_m1_n100_u256": (64, 1, 100, 256),
    "b1_m128_n512_u256": (1, 128, 512, 256),
    "b2_m256_n1024_u128": (2, 256, 1024, 128),
}


class AdditiveAttention(torch.nn.Module):
    """Dive into Deep Learning, 11.3.3, without dropout."""

    def __init__(self, query_size, key_size, num_hiddens):
        super().__init__()
        self.W_q = torch.nn.Linear(query_size, num_hiddens, bias=False)
        self.W_k = torch.nn.Linear(key_size, num_hiddens, bias=False)
        self.w_v = torch.nn.Linear(num_hiddens, 1, bias=False)

    def forward(self, queries, keys, values):
        features = torch.tanh(self.W_q(queries).unsqueeze(2) + self.W_k(keys).unsqueeze(1))
        return torch.bmm(torch.softmax(self.w_v(features).squeeze(-1), dim=-1), values)


def main() -> None:
    """Every case asked for."""
    args = peer.arguments(__doc__.split("\n", maxsplit=1)[0], list(CASES))
    torch.set_num_threads(args.threads)
    torch.manual_seed(peer.SEED)
    print(f"torch {torch.__version__}, {args.threads} thread(s), seed {peer.SEED}")
    with torch.inference_mode():
        for name in args.cases:
            batch, num_queries, num_keys, num_hiddens = CASES[name]
            layer = AdditiveAttention(192, 256, num_hiddens).eval()
            shapes = [(num_queries, 192), (num_keys, 256), (num_keys, 256)]
            inputs = [torch.randn(batch, *shape) for shape in shapes]
            median = peer.median_seconds(lambda: layer(*inputs), args.seconds)
            result = layer(*inputs)[:1]
            truth = layer.double()(*[x[:1].double() for x in inputs])
            error = (result.double() - truth).abs().max().item()
            peer.report(f"additive/{name}/torch_eager", median, error)


if __name__ == "__main__":
    main()
