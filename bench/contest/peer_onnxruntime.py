"""What ONNX Runtime's contenders share."""
import functools
from typing import Any, Callable, Mapping, Sequence

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import peer
from problem import empty

IR_VERSION, CONTRIB = 7, "com.microsoft"  # a model that old runtimes load too
KINDS = {"float32": onnx.TensorProto.FLOAT, "int32": onnx.TensorProto.INT32, "bool": onnx.TensorProto.BOOL}


def contend(doc: str, family: str, cases: Mapping[str, Any], forms_of: Callable) -> None:
    """Every case that the command line asks for; forms_of as of peer.contend."""
    args = peer.arguments(doc, cases)
    peer.contend(f"onnxruntime {onnxruntime.__version__}", family, args, forms_of)


class Model:
    """A graph whose result is o, and the inputs of one call or of several; calling this runs them all.

    Each call writes its part of one result, which is there before: nothing is to be put together.
    """

    def __init__(self, nodes: Sequence[onnx.NodeProto], feeds: Sequence[Mapping[str, numpy.ndarray]],
                 shape: tuple[int, ...], threads: int, opset: int = 13,
                 constants: "Mapping[str, numpy.ndarray] | None" = None) -> None:
        inputs = [helper.make_tensor_value_info(name, KINDS[x.dtype.name], [None] * x.ndim)
                  for name, x in feeds[0].items()]
        output = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [None] * len(shape))
        initial = [numpy_helper.from_array(x, name) for name, x in (constants or {}).items()]
        self.graph = helper.make_graph(nodes, "attention", inputs, [output], initial)
        self.opset, self.threads, self.feeds = opset, threads, feeds
        self.output = empty(shape)

    @functools.cached_property
    def calls(self) -> "list[Callable[[], None]]":
        """Made by the first run, which is not timed."""
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid(CONTRIB, 1)]
        model = helper.make_model(self.graph, opset_imports=opsets, ir_version=IR_VERSION)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        calls = []
        for feed, part in zip(self.feeds, numpy.split(self.output, len(self.feeds))):
            binding = session.io_binding()
            for name, x in feed.items():
                binding.bind_cpu_input(name, x)
            binding.bind_output("o", "cpu", 0, numpy.float32, part.shape, part.ctypes.data)
            calls.append(functools.partial(session.run_with_iobinding, binding))
        return calls

    def __call__(self) -> numpy.ndarray:
        for call in self.calls:
            call()
        return self.output
