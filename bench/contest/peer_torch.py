"""What PyTorch's contenders share."""
import argparse
import functools
from typing import Any, Callable, Mapping

import torch

import peer


def contend(doc: str, family: str, cases: Mapping[str, Any], forms_of: Callable, compiles: bool = False) -> None:
    """Every case that the command line asks for; forms_of as of peer.contend."""
    args = peer.arguments(doc, cases, compiles)
    torch.set_num_threads(args.threads)
    # Layers are built as models are, outside: with weights made inside, torch_mha took 177 ms instead of 60 for
    # b8_s128_e768_h12.
    build = torch.inference_mode(False)(forms_of)
    with torch.inference_mode():
        peer.contend(f"torch {torch.__version__}", family, args, build)


def compiled(args: argparse.Namespace, function: Callable, *operands: object) -> dict[str, Callable]:
    """The form torch_compile where --compile asks for it: for these shapes, parameters of `function` as constants."""
    @functools.lru_cache(maxsize=None)
    def built() -> Callable:
        import torch._inductor.config as inductor  # pylint: disable=import-outside-toplevel  # 1.13 has none
        inductor.freezing = True  # for the whole process: as an option of torch.compile it comes too late for weights
        return torch.compile(function, dynamic=False)
    return {"torch_compile": lambda: built()(*operands)} if args.compile else {}


def linear(weights: torch.Tensor) -> torch.nn.Linear:
    """The map of these weights, (outputs, inputs), without bias."""
    layer = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    layer.load_state_dict({"weight": weights})
    return layer
