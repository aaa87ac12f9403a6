#!/usr/bin/python3
"""Fits the rational function behind Tanh in engine/simd/math-inl.h and prints its coefficients.

    /usr/bin/python3 tools/fit_tanh.py            # one second; needs numpy and mpmath

By the half angle, with r(x) ~ tanh(x/2):

    tanh(x) = 2 r / (1 + r^2),   r(x) = x/2 P(y) / Q(y),   y = x^2,   P of degree 2, Q of degree 3,   P(0) = Q(0) = 1

P(0) = Q(0) = 1 makes tanh(x) = x exactly for tiny x. The other five coefficients minimise the largest relative error of
tanh(x) over |x| <= 9.0109, beyond which tanh rounds to 1 in f32. A relative error e of r is one of sech(x) e of tanh(x): that
weight is what makes the low degrees suffice. (Degrees 2 and 2 give 2.1e-7, 2 and 3 give 7.5e-9, 3 and 2 give 1.4e-8.)

Method: linearised least squares, f Q - P = 0 at Chebyshev points of x (f = 2 tanh(x/2) / x), each equation divided by f times
the previous iteration's Q so that the residual is a relative error, and Lawson's weights (multiplied by the error each round)
that turn the least-squares solution into the minimax one. In 60 digits, because the columns span 81^3.
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree-p", type=int, default=2, help="of P in y")
    parser.add_argument("--degree-q", type=int, default=3, help="of Q in y")
    parser.add_argument("--limit", type=float, default=9.0109)
    args = parser.parse_args()
    worst, p, q = fit(args.degree_p, args.degree_q, args.limit)
    print(f"// relative error {worst:.2e} = {worst * 2**24:.3f} * 2^-24, before rounding")
    for name, coefficients in (("p", p), ("q", q)):
        for i, c in enumerate(coefficients):
            rounded = float(numpy.float32(c))
            print(f"{name}{i} = {float(c):.10g} // f32: {rounded.hex()}")


if __name__ == "__main__":
    main()
