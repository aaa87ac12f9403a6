#!/usr/bin/env python3
"""dot/* of attend_bench in ONNX Runtime: its MultiHeadAttention, and scores, softmax and product as separate operators.

    taskset -c 0 python3 bench/contest/onnxruntime_dot.py [--threads N] [--seconds S] [CASE ...]

Prints one line per case and form: median milliseconds, GFLOPS counted as attend_bench does, and the largest difference
from double precision in the first four query rows (causal: the last) of batch entry 0. MultiHeadAttention knows no
heads that share keys; cases with those are measured by separate operators alone, where query heads are folded into
rows, and causal ones by MultiHeadAttention alone. Needs the packages numpy, onnx and onnxruntime (Debian 12 has not the
last); without them this says "skipped" and exits with 0.
"""
import peer

try:
    import numpy
    import onnx
    import onnxruntime
    from onnx import helper
except ImportError as error:
    peer.skip("onnxruntime_dot.py", error.name or "onnxruntime", "pip: onnxruntime, onnx, numpy")

# A model that old runtimes load too.
OPSET, IR_VERSION, CONTRIB = 13, 7, "com.microsoft"


def model(nodes: list, inputs: dict[str, tuple], output_rank: int, constants: list) -> bytes:
    """Inputs by name with element type and rank; the output is o."""
    values = [helper.make_tensor_value_info(name, kind, [None] * rank) for name, (kind, rank) in inputs.items()]
    output = helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, [None] * output_rank)
    graph = helper.make_graph(nodes, "attention", values, [output], constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()


def multi_head(case: peer.DotCase) -> bytes:
    """The fused contrib operator on (B, M, H * D), with lengths per batch entry where the case has them."""
    inputs = {name: (onnx.TensorProto.FLOAT, 3) for name in "qkv"}
    names = ["q", "k", "v"]
    if case.lens:
        inputs["lens"] = (onnx.TensorProto.INT32, 1)
        names += ["", "lens"]
    options = {"unidirectional": 1} if case.causal else {}
    node = helper.make_node("MultiHeadAttention", names, ["o"], domain=CONTRIB, num_heads=case.heads, **options)
    return model([node], inputs, 3, [])


def separate(case: peer.DotCase) -> bytes:
    """MatMul, Softmax, MatMul on (B, heads of keys, rows, D); lengths as a mask to add."""
    inputs = {name: (onnx.TensorProto.FLOAT, 4) for name in ("q", "kt", "v")}
    scale = helper.make_tensor("scale", onnx.TensorProto.FLOAT, [], [case.size**-0.5])
    nodes = [helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["s1"])]
    if case.lens:
        inputs["mask"] = (onnx.TensorProto.FLOAT, 4)
        nodes.append(helper.make_node("Add", ["s1", "mask"], ["s2"]))
    last = "s2" if case.lens else "s1"
    nodes += [helper.make_node("Softmax", [last], ["w"], axis=-1), helper.make_node("MatMul", ["w", "v"], ["o"])]
    return model(nodes, inputs, 4, [scale])


def heads(rows: "numpy.ndarray", count: int) -> "numpy.ndarray":
    """(B, M, H * D) as (B, H, M, D), copied."""
    batch, length, width = rows.shape
    return numpy.ascontiguousarray(rows.reshape(batch, length, count, width // count).transpose(0, 2, 1, 3))


def truth(case: peer.DotCase, q: "numpy.ndarray", k: "numpy.ndarray", v: "numpy.ndarray") -> "numpy.ndarray":
    """Batch entry 0, the checked rows, in double precision: (H, rows, D)."""
    group = case.heads // case.kv_heads
    queries = heads(q[:1], case.heads)[0].astype(numpy.float64)
    keys, values = (heads(x[:1], case.kv_heads)[0].astype(numpy.float64).repeat(group, axis=0) for x in (k, v))
    rows = checked(case)
    scores = queries[:, rows] @ keys.transpose(0, 2, 1) / case.size**0.5
    first = numpy.arange(case.queries)[rows][:, None] + case.keys - case.queries
    last = first if case.causal else (case.lens[0] if case.lens else case.keys) - 1
    scores = numpy.where(numpy.arange(case.keys) <= last, scores, -numpy.inf)
    weights = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ values


def checked(case: peer.DotCase) -> slice:
    """The rows that are compared."""
    return slice(-4, None) if case.causal else slice(0, 4)


def forms_of(case: peer.DotCase, q: "numpy.ndarray", k: "numpy.ndarray", v: "numpy.ndarray") -> dict:
    """Model and inputs of each form that can say the case."""
    forms = {}
    if case.heads == case.kv_heads:
        feed = {"q": q, "k": k, "v": v}
        if case.lens:
            feed["lens"] = numpy.array(case.lens, dtype=numpy.int32)
        forms["onnxruntime_mha"] = (multi_head(case), feed)
    if not case.causal:
        folded = heads(q, case.heads).reshape(case.batch, case.kv_heads, -1, case.size)
        feed = {"q": folded, "kt": numpy.ascontiguousarray(heads(k, case.kv_heads).transpose(0, 1, 3, 2)),
                "v": heads(v, case.kv_heads)}
        if case.lens:
            seen = numpy.arange(case.keys)[None] < numpy.array(case.lens)[:, None]
            feed["mask"] = numpy.where(seen, 0, -numpy.inf).astype(numpy.float32)[:, None, None, :]
        forms["onnxruntime_ops"] = (separate(case), feed)
    return forms


def measure(name: str, case: peer.DotCase, options: "onnxruntime.SessionOptions", seconds: float) -> None:
    """All forms of one case."""
    generator = numpy.random.default_rng(peer.SEED)
    q, k, v = (generator.standard_normal((case.batch, rows, count * case.size), dtype=numpy.float32)
               for rows, count in ((case.queries, case.heads), (case.keys, case.kv_heads), (case.keys, case.kv_heads)))
    expected = truth(case, q, k, v)
    forms = forms_of(case, q, k, v)
    if not forms:
        print(f"dot/{name}: causal with heads that share keys, no form here")
    for form, (serialised, feed) in forms.items():
        try:
            session = onnxruntime.InferenceSession(serialised, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # pylint: disable=broad-except  # its exceptions have no common base
            print(f"dot/{name}/{form}: onnxruntime {onnxruntime.__version__} refuses: {str(error).splitlines()[0]}")
            continue
        median = peer.median_seconds(lambda: session.run(None, feed), seconds)
        output = session.run(None, feed)[0]
        if output.ndim == 3:
            output = heads(output, case.heads)
        actual = output.reshape(case.batch, case.heads, case.queries, case.size)[0][:, checked(case)]
        peer.report(f"dot/{name}/{form}", median, float(numpy.abs(actual - expected).max()), case.flops)


def main() -> None:
    """Every case asked for."""
    args = peer.arguments(__doc__.split("\n", maxsplit=1)[0], list(peer.DOT_CASES))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    print(f"onnxruntime {onnxruntime.__version__}, {args.threads} thread(s), seed {peer.SEED}")
    for name in args.cases:
        measure(name, peer.DOT_CASES[name], options, args.seconds)


if __name__ == "__main__":
    main()
