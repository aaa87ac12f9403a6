"""What the Python contenders share and needs no package: cases, command line, timing and one line per result."""
import argparse
import dataclasses
import os
import re
import statistics
import sys
import textwrap
import time
from typing import Any, Callable, Mapping, NoReturn

SEED = 0


@dataclasses.dataclass(frozen=True)
class DotCase:
    """One problem of bench/layers/layers_bench.cc: `heads` of queries, `kv_heads` of keys and values, all of `size`."""
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    size: int
    causal: bool = False
    lens: tuple[int, ...] = ()

    @staticmethod
    def named(name: str) -> "DotCase | None":
        """The case that attend_bench --dot=NAME adds, if the name is one."""
        sizes = re.fullmatch(r"b(\d+)_h(\d+)(?:_kv(\d+))?_m(\d+)_n(\d+)_d(\d+)(_causal)?", name)
        if sizes is None:
            return None
        batch, heads, kv_heads, queries, keys, size = (int(n or sizes[2]) for n in sizes.groups()[:6])
        if min(batch, heads, kv_heads, queries, keys, size) == 0 or heads % kv_heads != 0:
            return None
        return DotCase(batch, heads, kv_heads, queries, keys, size, causal=sizes[7] is not None)

    @property
    def pairs(self) -> int:
        """Query and valid key of one head, half of them where the mask is causal: what GFLOPS count."""
        every = self.queries * (sum(self.lens) if self.lens else self.batch * self.keys)
        return every // 2 if self.causal else every

    def rate(self, seconds: float) -> str:
        """Two products; softmax is not counted."""
        return gflops(4.0 * self.heads * self.size * self.pairs, seconds)


@dataclasses.dataclass(frozen=True)
class MultiHeadCase:
    """Self-attention of `length` rows of `size`."""
    batch: int
    length: int
    size: int
    heads: int
    lens: tuple[int, ...] = ()

    def rate(self, seconds: float) -> str:
        """Queries and output of all rows, keys and values of valid ones, two products per head."""
        rows = self.batch * self.length
        valid = sum(self.lens) if self.lens else rows
        return gflops(4.0 * self.size**2 * (rows + valid) + 4.0 * self.size * self.length * valid, seconds)


@dataclasses.dataclass(frozen=True)
class AdditiveCase:
    """One problem of bench/additive.h: query size 192, key and value size 256."""
    batch: int
    queries: int
    keys: int
    hiddens: int

    def rate(self, seconds: float) -> str:
        """An element is a hidden unit of a query and a key."""
        return per_element(self.batch * self.queries * self.keys * self.hiddens, seconds)


@dataclasses.dataclass(frozen=True)
class SoftmaxCase:
    """`rows` of scores in 32 batch entries, with valid lengths per row where padded."""
    rows: int
    columns: int
    padded: bool = False
    batch: int = 32

    @property
    def lens(self) -> tuple[int, ...]:
        """spread_lens of bench/layers/layer_cases.cc."""
        return tuple(1 + (i * 7919 + 6131) % self.columns for i in range(self.rows)) if self.padded else ()

    def rate(self, seconds: float) -> str:
        """An element is a valid score."""
        return per_element(sum(self.lens) if self.padded else self.rows * self.columns, seconds)


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

_LENS_B32_S32 = (32, 7, 19, 25, 3, 30, 14, 22, 9, 28, 17, 11, 31, 5, 24, 13,
                 20, 27, 2, 16, 29, 8, 23, 12, 18, 26, 6, 21, 10, 15, 4, 1)
MULTI_HEAD_CASES = {
    "b8_s128_e768_h12": MultiHeadCase(8, 128, 768, 12),
    "b8_s128_e768_h12_lens": MultiHeadCase(8, 128, 768, 12, lens=(128, 90, 17, 64, 121, 33, 105, 71)),
    "b1_s512_e768_h12": MultiHeadCase(1, 512, 768, 12),
    "b1_s512_e768_h12_lens": MultiHeadCase(1, 512, 768, 12, lens=(387,)),
    "b32_s32_e512_h8": MultiHeadCase(32, 32, 512, 8),
    "b32_s32_e512_h8_lens": MultiHeadCase(32, 32, 512, 8, lens=_LENS_B32_S32),
}

ADDITIVE_CASES = {
    "b8_m64_n512_u256": AdditiveCase(8, 64, 512, 256),
    "b64_m1_n100_u256": AdditiveCase(64, 1, 100, 256),
    "b1_m128_n512_u256": AdditiveCase(1, 128, 512, 256),
    "b2_m256_n1024_u128": AdditiveCase(2, 256, 1024, 128),
}

SOFTMAX_CASES = {
    "r4096_n1024": SoftmaxCase(4096, 1024),
    "r4096_n1024_lens": SoftmaxCase(4096, 1024, padded=True),
    "r4096_n128": SoftmaxCase(4096, 128),
    "r4096_n128_lens": SoftmaxCase(4096, 128, padded=True),
}


def gflops(flops: float, seconds: float) -> str:
    """The counter of attend_bench."""
    return f"{flops / seconds * 1e-9:8.1f} GFLOPS"


def per_element(elements: float, seconds: float) -> str:
    """The counter of attend_bench, in nanoseconds."""
    return f"{seconds / elements * 1e9:8.3f} ns per_element"


def skip(script: str, missing: ImportError, source: str) -> NoReturn:
    """Says that nothing was measured, and ends well: a missing contender is no error."""
    name = os.path.basename(script)
    package = missing.name or missing
    print(f"skipped: {name}: no {package} in {sys.executable} ({source}), nothing measured", file=sys.stderr)
    sys.exit(0)


def arguments(doc: str, cases: Mapping[str, Any], compiles: bool = False) -> argparse.Namespace:
    """threads, seconds, cases by name, and compile where the contender has that; wrong ones end with status 2."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=2.0, metavar="S",
                        help="per case and form; default: %(default)s")
    if compiles:
        parser.add_argument("--compile", action="store_true", help="torch.compile too, which needs a C++ compiler")
    takes_others = cases is DOT_CASES
    others = ", or others named like them" if takes_others else ""
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: " + " ".join(cases) + others)
    parsed = parser.parse_args()
    if parsed.threads < 1:
        parser.error(f"--threads is {parsed.threads}, expected at least 1")
    asked = {name: cases.get(name) or (DotCase.named(name) if takes_others else None) for name in parsed.cases}
    for name, case in asked.items():
        if case is None:
            parser.error(f"no case {name}, expected some of: {' '.join(cases)}{others}")
    parsed.cases = asked or cases
    return parsed


def contend(library: str, family: str, args: argparse.Namespace,
            forms_of: Callable[[Any, argparse.Namespace], tuple[Any, Mapping[str, Callable[[], object]]]]) -> None:
    """Runs every case asked for in all of its forms; forms_of gives a case's problem and the forms by name.

    A form that the library in this version cannot run says so in a line, and the others go on.
    """
    print(f"{library}, {args.threads} thread(s), seed {SEED}", flush=True)
    for case_name, case in args.cases.items():
        problem, forms = forms_of(case, args)
        for form, run in forms.items():
            name = f"{family}/{case_name}/{form}"
            try:
                median = median_seconds(run, args.seconds)
                error = problem.max_error(run())
            except Exception as refusal:  # pylint: disable=broad-except  # the libraries' have no common base
                reason = textwrap.shorten(f"{type(refusal).__name__}: {refusal}", 400)
                print(f"{name}: {library} refuses: {reason}", flush=True)
                continue
            print(f"{name:64s} {median * 1e3:10.3f} ms  {case.rate(median)}  max_error {error:.1e}", flush=True)


def median_seconds(run: Callable[[], object], seconds: float) -> float:
    """Of at least three runs, after one to warm up."""
    run()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 3:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
