"""bench/problem.h for the Python contenders: inputs, and the truth for a few rows in double precision."""
import math

import numpy

import peer


class Problem:
    """Inputs of one case and the truth for some query rows of batch entry 0; every contender is held against it."""
    rows = slice(0, 4)
    truth: numpy.ndarray  # (..., rows, size)

    def max_error(self, output: object) -> float:
        """The largest distance of `output`, (B, ..., M, size) of any library that numpy can read."""
        return float(numpy.abs(numpy.asarray(output)[0][..., self.rows, :] - self.truth).max())


class DotProblem(Problem):
    """Queries, keys and values with heads split, (B, H, M, D) and (B, kv_heads, N, D), as most libraries want them."""

    def __init__(self, case: peer.DotCase) -> None:
        self.case = case
        self.rows = slice(-4, None) if case.causal else slice(0, 4)
        shapes = ((case.heads, case.queries), (case.kv_heads, case.keys), (case.kv_heads, case.keys))
        self.inputs = random_tensors(*((case.batch, *shape, case.size) for shape in shapes))
        queries, keys, values = (x[0].astype(numpy.float64) for x in self.inputs)
        keys, values = (x.repeat(case.heads // case.kv_heads, axis=0) for x in (keys, values))
        if case.causal:
            lens = numpy.arange(case.queries)[self.rows] + 1 + case.keys - case.queries
        else:
            lens = numpy.array(case.lens[0] if case.lens else case.keys)
        self.truth = softmax(queries[:, self.rows] @ keys.transpose(0, 2, 1) / math.sqrt(case.size), lens) @ values

    @property
    def folded(self) -> numpy.ndarray:
        """The queries of heads that share keys, row after row of one head: (B, kv_heads, H / kv_heads M, D)."""
        return self.inputs[0].reshape(self.case.batch, self.case.kv_heads, -1, self.case.size)

    @property
    def mask(self) -> "numpy.ndarray | None":
        """True where a query sees a key, (B or 1, 1, M or 1, N); None where all see all."""
        if self.case.causal:
            shape = (self.case.queries, self.case.keys)
            return numpy.tri(*shape, self.case.keys - self.case.queries, dtype=bool)[None, None]
        return valid_keys(self.case.lens, self.case.keys)[:, None, None, :] if self.case.lens else None

    def max_error(self, output: object) -> float:
        """Of (B, H, M, D), heads folded or not, or of (B, M, H * D)."""
        case, result = self.case, numpy.asarray(output)
        if result.ndim == 3:
            result = result.reshape(case.batch, case.queries, case.heads, case.size).transpose(0, 2, 1, 3)
        return super().max_error(result.reshape(case.batch, case.heads, case.queries, case.size))


class MultiHeadProblem(Problem):
    """Rows (B, S, E); weights of queries, keys and values, (3 E, E), and of the output, (E, E), outputs first."""

    def __init__(self, case: peer.MultiHeadCase) -> None:
        self.case = case
        size = case.size
        self.queries, self.w_in, self.w_out = random_tensors((case.batch, case.length, size), (3 * size, size),
                                                             (size, size), scales=(1, size**-0.5, size**-0.5))
        # One batch entry: (H, S, E / H).
        q, k, v = (self.queries[0].astype(numpy.float64) @ self.w_in.T).reshape(
            case.length, 3, case.heads, -1).transpose(1, 2, 0, 3)
        lens = numpy.array(case.lens[0] if case.lens else case.length)
        heads = softmax(q[:, self.rows] @ k.transpose(0, 2, 1) / math.sqrt(size // case.heads), lens) @ v
        self.truth = heads.transpose(1, 0, 2).reshape(-1, size) @ self.w_out.T
        self.valid = valid_keys(case.lens, case.length) if case.lens else None  # (B, S)


class AdditiveProblem(Problem):
    """Queries (B, M, 192), keys and values (B, N, 256); W_q, W_k and w_v, outputs first."""

    def __init__(self, case: peer.AdditiveCase) -> None:
        self.inputs = random_tensors((case.batch, case.queries, 192), *2 * [(case.batch, case.keys, 256)])
        self.weights = random_tensors((case.hiddens, 192), (case.hiddens, 256), (1, case.hiddens),
                                      scales=(0.07, 0.06, 0.3))
        queries, keys, values = (x[0].astype(numpy.float64) for x in self.inputs)
        w_q, w_k, w_v = (x.astype(numpy.float64) for x in self.weights)
        features = numpy.tanh((queries[self.rows] @ w_q.T)[:, None] + keys @ w_k.T)
        self.truth = softmax(features @ w_v[0], numpy.array(case.keys)) @ values


class SoftmaxProblem(Problem):
    """Scores (B, M, N), and valid lengths (B, M) or None."""

    def __init__(self, case: peer.SoftmaxCase) -> None:
        shape = (case.batch, case.rows // case.batch)
        self.scores, = random_tensors((*shape, case.columns), scales=(3,))
        self.lens = numpy.array(case.lens, dtype=numpy.int32).reshape(shape) if case.padded else None
        lens = numpy.array(case.columns) if self.lens is None else self.lens[0, self.rows]
        self.truth = softmax(self.scores[0, self.rows].astype(numpy.float64), lens)


def softmax(scores: numpy.ndarray, lens: numpy.ndarray) -> numpy.ndarray:
    """Of each row (..., M, N); lens, () or (M), says how many of its scores are valid. The others weigh nothing."""
    valid = numpy.arange(scores.shape[-1]) < lens[..., None]
    weights = numpy.where(valid, numpy.exp(scores - scores.max(axis=-1, keepdims=True)), 0)
    return weights / weights.sum(axis=-1, keepdims=True)


def valid_keys(lens: tuple[int, ...], keys: int) -> numpy.ndarray:
    """(B, N), True for the first lens[b] keys."""
    return numpy.arange(keys) < numpy.array(lens)[:, None]


def random_tensors(*shapes: tuple[int, ...], scales: tuple[float, ...] = ()) -> list[numpy.ndarray]:
    """Normally distributed, of deviation 1 or scales[i]."""
    generator = numpy.random.default_rng(peer.SEED)
    tensors = [empty(shape) for shape in shapes]
    for i, tensor in enumerate(tensors):
        generator.standard_normal(dtype=numpy.float32, out=tensor)
        if scales:
            tensor *= scales[i]
    return tensors


def empty(shape: tuple[int, ...]) -> numpy.ndarray:
    """Begins with a cache line, as attend_bench's tensors do and the libraries' own; numpy's begin 16 bytes later."""
    size = math.prod(shape)
    buffer = numpy.empty(size + 16, dtype=numpy.float32)
    begin = -buffer.ctypes.data % 64 // buffer.itemsize
    return buffer[begin:begin + size].reshape(shape)


def aligned(tensor: numpy.ndarray) -> numpy.ndarray:
    """A dense copy that begins with a cache line."""
    copy = empty(tensor.shape)
    copy[...] = tensor
    return copy
