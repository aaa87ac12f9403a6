"""What PyTorch's contenders share."""
from typing import Any, Callable, Mapping

import torch

import peer


def contend(doc: str, family: str, cases: Mapping[str, Any], forms_of: Callable) -> None:
    """Every case that the command line asks for; forms_of as of peer.contend."""
    args = peer.arguments(doc, cases)
    torch.set_num_threads(args.threads)
    # Layers are built as models are, outside: with weights made inside, torch_mha took 177 ms instead of 60 for
    # b8_s128_e768_h12.
    build = torch.inference_mode(False)(forms_of)
    with torch.inference_mode():
        peer.contend(f"torch {torch.__version__}", family, cases, args, build)


def linear(weights: torch.Tensor) -> torch.nn.Linear:
    """The map of these weights, (outputs, inputs), without bias."""
    layer = torch.nn.Linear(weights.shape[1], weights.shape[0], bias=False)
    layer.load_state_dict({"weight": weights})
    return layer
