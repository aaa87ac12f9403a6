"""What the Python contenders share: the cases of dot/*, their inputs, timing and one line per result."""
import argparse
import dataclasses
import statistics
import sys
import time
from typing import Callable, Sequence

SEED = 0


@dataclasses.dataclass(frozen=True)
class DotCase:
    """One problem of bench/layers/layers_bench.cc: inputs (B, M or N, heads * D), as a service holds them."""
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False
    lens: tuple[int, ...] = ()

    @property
    def pairs(self) -> int:
        """Query and valid key of one head, half of them where the mask is causal: what GFLOPS count."""
        every = self.queries * (sum(self.lens) if self.lens else self.batch * self.keys)
        return every // 2 if self.causal else every

    @property
    def flops(self) -> float:
        """Two products; softmax is not counted."""
        return 4.0 * self.heads * self.size * self.pairs


DOT_CASES = {
    "b1_h12_m512_n512_d64": DotCase(1, 12, 12, 512, 512, 64),
    "b1_h32_kv8_m2048_n2048_d128_causal": DotCase(1, 32, 8, 2048, 2048, 128, causal=True),
    "b1_h32_kv8_m2048_n2048_d128": DotCase(1, 32, 8, 2048, 2048, 128),
    "b8_h12_m512_n512_d64_lens": DotCase(8, 12, 12, 512, 512, 64, lens=(383, 148, 511, 77, 290, 26, 441, 212)),
    "b64_h8_m32_n32_d64": DotCase(64, 8, 8, 32, 32, 64),
    "b4_h8_m16_n1024_d64": DotCase(4, 8, 8, 16, 1024, 64),
    "b1_h32_kv8_m1_n4096_d128": DotCase(1, 32, 8, 1, 4096, 128),
    "b8_h32_kv8_m1_n1024_d128": DotCase(8, 32, 8, 1, 1024, 128),
}


def skip(script: str, package: str, debian: str) -> None:
    """Says that nothing was measured, and ends well: a missing contender is no error."""
    print(f"skipped: {script}: no {package} in {sys.executable} ({debian}), nothing measured", file=sys.stderr)
    sys.exit(0)


def arguments(description: str, cases: Sequence[str]) -> argparse.Namespace:
    """threads, seconds and cases, the latter checked; wrong ones end with status 2."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S", help="per case; default: %(default)s")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: " + " ".join(cases))
    parsed = parser.parse_args()
    if parsed.threads < 1:
        parser.error(f"--threads is {parsed.threads}, expected at least 1")
    for name in parsed.cases:
        if name not in cases:
            parser.error(f"no case {name}, expected some of: {' '.join(cases)}")
    parsed.cases = parsed.cases or list(cases)
    return parsed


def median_seconds(run: Callable[[], object], seconds: float) -> float:
    """Of at least three runs, after one to warm up."""
    run()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def report(name: str, seconds: float, error: float, flops: float | None = None) -> None:
    """One line; name is family/case/contender, as attend_bench names its cases."""
    rate = "" if flops is None else f"  {flops / seconds * 1e-9:8.1f} GFLOPS"
    print(f"{name:60s} {seconds * 1e3:10.3f} ms{rate}  max_error {error:.1e}", flush=True)
