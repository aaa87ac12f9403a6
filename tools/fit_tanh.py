#!/usr/bin/python3
"""Fits the rational function behind Tanh in engine/simd/math-inl.h and prints its coefficients.

    /usr/bin/python3 tools/fit_tanh.py             # one second; needs numpy and mpmath
    /usr/bin/python3 tools/fit_tanh.py --check     # seconds: error with FMA of the coefficients in the tree
    /usr/bin/python3 tools/fit_tanh.py --search 1  # minutes; 1 is the seed

By the half angle, with r(x) ~ tanh(x/2):

    tanh(x) = 2 r / (1 + r^2),   r(x) = x/2 P(y) / Q(y),   y = x^2,   P of degree 2, Q of degree 3,   P(0) = Q(0) = 1

P(0) = Q(0) = 1 makes tanh(x) = x exactly for tiny x. The other five coefficients minimise the largest relative error
of tanh(x) over |x| <= 9.0109, beyond which tanh rounds to 1 in f32. A relative error e of r is one of sech(x) e of
tanh(x): that weight is what makes the low degrees suffice. (Degrees 2 and 2 give 2.1e-7, 2 and 3 give 7.5e-9, 3 and 2
give 1.4e-8.)

Method: linearised least squares, f Q - P = 0 at Chebyshev points of x (f = 2 tanh(x/2) / x), each equation divided by
f times the previous iteration's Q so that the residual is a relative error, and Lawson's weights (multiplied by the
error each round) that turn the least-squares solution into the minimax one. In 60 digits, because the columns span
81^3.

The coefficients in the tree are not these, but neighbours of theirs. Rounded, these give 3.21 ULP with FMA, in the
few percent below tanh = 2^-k where n and n Q are in the next binade already, so that an error weighs most against the
spacing of results: four roundings add up to 3.4 ULP there at worst, and how close to it they come is a matter of
luck. --search draws coefficients whose fit is good enough (tolerance in units of 2^-24: 0.03 below 0.6, where
roundings need the room, and 0.5 above), rounds them, and tries all floats there. Of the order of one in 10000 stays
below 3 ULP; those in the tree were found by the same search in C++. Without FMA none of 660000 did (best: 3.04),
hence the other order of operations in math-inl.h, which needs no luck.
"""
import argparse

import mpmath
import numpy

mpmath.mp.dps = 60
mpf = mpmath.mpf


def fit(degree_p, degree_q, limit, points=100, rounds=40):
    limit = mpf(limit)
    xs = [limit * (1 - mpmath.cos((mpf(k) + mpf("0.5")) * mpmath.pi / points)) / 2 for k in range(points)]
    ys = [x * x for x in xs]
    f = [2 * mpmath.tanh(x / 2) / x for x in xs]
    sech = [mpmath.sech(x) for x in xs]
    unit = limit**2  # columns are powers of y / unit, for condition
    weights = numpy.ones(points)
    q_now = [mpf(1)] * points
    best = None
    for _ in range(rounds):
        # P - f Q = 0  <=>  sum p_i z^i - f sum q_i z^i = f - 1
        a = mpmath.matrix(points, degree_p + degree_q)
        b = mpmath.matrix(points, 1)
        for k in range(points):
            w = mpmath.sqrt(mpf(weights[k])) * sech[k] / (f[k] * q_now[k])
            for i in range(degree_p):
                a[k, i] = w * (ys[k] / unit) ** (i + 1)
            for i in range(degree_q):
                a[k, degree_p + i] = -w * f[k] * (ys[k] / unit) ** (i + 1)
            b[k] = w * (f[k] - 1)
        solution = mpmath.lu_solve(a.T * a, a.T * b)
        p = [mpf(1)] + [solution[i] / unit ** (i + 1) for i in range(degree_p)]
        q = [mpf(1)] + [solution[degree_p + i] / unit ** (i + 1) for i in range(degree_q)]
        q_now = [mpmath.polyval(q[::-1], y) for y in ys]
        error = []
        for k in range(points):
            r = xs[k] / 2 * mpmath.polyval(p[::-1], ys[k]) / q_now[k]
            error.append(abs(float(2 * r / (1 + r * r) / mpmath.tanh(xs[k]) - 1)))
        if best is None or max(error) < best[0]:
            best = (max(error), p, q)
        weights *= numpy.array(error) + 1e-3 * max(error)
        weights /= weights.sum()
    return best


IN_TREE = [
    float.fromhex(c)
    for c in ("0x1.cfa192p-4", "0x1.3e8dbap-10", "0x1.52153p-20", "0x1.e930fp-6", "0x1.e64026p-14")
]


def real_tanh(c, x):
    """The formula of math-inl.h in double; c = w's coefficients, then p's."""
    y = x * x
    w = y * (c[0] + y * (c[1] + y * c[2]))
    n = x * (1 + y * (c[3] + y * c[4]))
    return n * (1 + w) / (n * (1 + w) + (1 + w - n / 2) ** 2)


def float_tanh(c, x):
    """The same as computed with FMA, for 0 < x < 9.2."""
    f32, f64 = numpy.float32, numpy.float64

    def fma(a, b, d):  # exact product; rounding to double first changes one result of 2^28
        return (f64(a) * f64(b) + f64(d)).astype(f32)

    c = [f32(v) for v in c]
    y = x * x
    w = fma(fma(c[2], y, c[1]), y, c[0]) * y
    n = fma(x * y, fma(c[4], y, c[3]), x)
    numerator = fma(n, w, n)
    e = fma(n, f32(-0.5), w)
    return numerator / (fma(e, e + f32(2), numerator) + f32(1))


def hot_floats():
    """Every float where the error may exceed 2.9 ULP, in blocks; most likely to fail first."""
    for k, low in ((5, 0.997), (4, 0.993), (3, 0.983), (2, 0.955), (1, 0.86)):
        ends = numpy.arctanh([low * 2.0**-k, 2.0**-k]).astype(numpy.float32).view(numpy.uint32)
        bits = numpy.arange(ends[0], ends[1] + 1, dtype=numpy.uint32)
        numpy.random.default_rng(k).shuffle(bits)
        for block in numpy.array_split(bits.view(numpy.float32), max(1, len(bits) // 16384)):
            t = numpy.tanh(block.astype(numpy.float64))
            yield block, t, 2.0 ** (23 - numpy.floor(numpy.log2(t)))


def worst_ulps(c, blocks, limit):
    """The largest error, or the first one found above limit."""
    worst = 0.0
    for x, t, ulps in blocks:
        worst = max(worst, float(numpy.max(numpy.abs(float_tanh(c, x) - t) * ulps)))
        if worst > limit:
            break
    return worst


def search(seed, start, draws=200000):
    x = numpy.concatenate([numpy.linspace(0.01, 0.6, 300), numpy.linspace(0.6, 9.0, 300)])
    scale = 2.0**24 / numpy.where(x < 0.6, 0.03, 0.5) / numpy.tanh(x)  # 1 is the tolerance
    error = lambda c: (real_tanh(c, x) - numpy.tanh(x)) * scale

    def jacobian(c):
        steps = numpy.diag(numpy.abs(c) * 1e-6)
        return numpy.stack([(error(c + h) - error(c - h)) / (2 * h.sum()) for h in steps], 1)

    center = numpy.array(start)
    for _ in range(20):  # least squares with these weights
        j = jacobian(center) * numpy.abs(center)
        center = center - numpy.abs(center) * numpy.linalg.lstsq(j, error(center), rcond=None)[0]
    j = jacobian(center) * numpy.abs(center)
    directions = numpy.linalg.svd(j, full_matrices=False)[2] * numpy.abs(center)
    directions = [v / numpy.max(numpy.abs(jacobian(center) @ v)) for v in directions]  # of one tolerance each
    blocks = list(hot_floats())
    random = numpy.random.default_rng(seed)
    best = 3.3
    for draw in range(draws):
        c = (center + 0.5 * random.standard_normal(5) @ numpy.array(directions)).astype(numpy.float32)
        worst = worst_ulps(c, blocks, best)
        if worst < best:
            best = worst
            print(f"draw {draw}: {worst:.4f} ULP", *(float(v).hex() for v in c), flush=True)
        if best < 3.0:
            break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree-p", type=int, default=2, help="of P in y")
    parser.add_argument("--degree-q", type=int, default=3, help="of Q in y")
    parser.add_argument("--limit", type=float, default=9.0109)
    parser.add_argument("--check", action="store_true", help="of the coefficients in the tree")
    parser.add_argument("--search", type=int, metavar="SEED")
    args = parser.parse_args()
    if args.check:
        print(f"{worst_ulps(IN_TREE, hot_floats(), 9.0):.4f} ULP")
        return
    worst, p, q = fit(args.degree_p, args.degree_q, args.limit)
    print(f"// relative error {worst:.2e} = {worst * 2**24:.3f} * 2^-24, before rounding")
    for name, coefficients in (("p", p), ("q", q)):
        for i, c in enumerate(coefficients):
            rounded = float(numpy.float32(c))
            print(f"{name}{i} = {float(c):.10g} // f32: {rounded.hex()}")
    if args.search is not None:
        assert (args.degree_p, args.degree_q) == (2, 3)
        search(args.search, [float(v) for v in (*q[1:], *p[1:])])


if __name__ == "__main__":
    main()
