#!/usr/bin/env python3
"""additive/* of attend_bench in PyTorch, as the textbooks write it: eager, one thread.

    taskset -c 0 python3 bench/contest/torch_additive.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case: median milliseconds, and the largest difference from double precision. PyTorch is Debian's
python3-torch or any other; without it, this says so and exits with 77. (Debian 12's torch runs on the reference BLAS
unless libopenblas0-openmp is installed, which also sets the time of the projections.)
"""
import argparse
import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("torch_additive.py: no PyTorch here (Debian: python3-torch), nothing measured", file=sys.stderr)
    sys.exit(77)

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


def measure(run, seconds):
    run()
    times = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0, help="per case")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: " + " ".join(CASES))
    args = parser.parse_args()
    unknown = [name for name in args.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]}, expected some of: {' '.join(CASES)}")
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {args.threads} thread(s)")
    with torch.inference_mode():
        for name in args.cases or CASES:
            batch, num_queries, num_keys, num_hiddens = CASES[name]
            layer = AdditiveAttention(192, 256, num_hiddens).eval()
            shapes = [(num_queries, 192), (num_keys, 256), (num_keys, 256)]
            inputs = [torch.randn(batch, *shape) for shape in shapes]
            median = measure(lambda: layer(*inputs), args.seconds)
            result = layer(*inputs)[:1]
            truth = layer.double()(*[x[:1].double() for x in inputs])
            error = (result.double() - truth).abs().max().item()
            print(f"additive/{name}/torch_eager  {median * 1e3:9.3f} ms  max_error {error:.1e}", flush=True)


if __name__ == "__main__":
    main()
