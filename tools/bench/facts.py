"""What the context of a result says of the machine and the build (bench/facts.cc writes it)."""
import dataclasses
from typing import Iterable

# Highway's names, best first within each architecture: the order of every table and figure.
TARGETS = ("AVX3_SPR", "AVX3_ZEN4", "AVX3_DL", "AVX3", "AVX2", "SSE4", "SSSE3", "SSE2",
           "SVE2", "SVE2_128", "SVE_256", "SVE", "NEON", "NEON_WITHOUT_AES", "EMU128", "SCALAR")

# What must agree before two results stand on one axis, with the words of the report.
MACHINE = {"cpu": "CPU", "cores": "cores", "cpu_quota": "CPU quota of the container", "cache_sizes": "caches of a core",
           "governor": "frequency governor", "targets": "targets this CPU runs"}
BUILD = {"targets_compiled": "targets compiled", "target_best": "target taken by default", "compiler": "compiler",
         "build_type": "build type", "flags": "compiler flags", "commit": "commit", "highway": "Highway",
         "onednn": "oneDNN"}
# What may differ from process to process.
RUN = {"date": "date of the first run", "fma_peak": "FMA peak of a core, best target",
       "read_bandwidth": "one core reads 32 MiB at"}


@dataclasses.dataclass(frozen=True)
class Difference:
    """The first fact in which two contexts differ."""
    key: str
    first: str
    second: str


def difference(first: dict[str, str], second: dict[str, str]) -> Difference | None:
    """None where both are of one machine and build. A fact that one lacks differs from one that the other has."""
    for key in (*MACHINE, *BUILD):
        if first.get(key) != second.get(key):
            return Difference(key, first.get(key, "not stated"), second.get(key, "not stated"))
    return None


def in_order(targets: Iterable[str]) -> list[str]:
    """Each once, best first; who is no target (a compiler) comes last."""
    return sorted(set(targets), key=lambda name: (TARGETS.index(name) if name in TARGETS else len(TARGETS), name))


def table(context: dict[str, str]) -> list[tuple[str, str]]:
    """Words and values, in the report's order."""
    return [(words, context.get(key, "not stated")) for key, words in {**MACHINE, **BUILD, **RUN}.items()]
