#!/usr/bin/python3
"""Fits the polynomial behind Exp in engine/simd/math-inl.h and prints it.

    /usr/bin/python3 tools/fit_exp.py             # degree 6, a few seconds; needs numpy and mpmath

    exp(r) ~ 1 + r + c2 r^2 + ... + c6 r^6   for |r| <= ln(2) / 2

The first two coefficients are exact in f32 and kept at 1, so that exp(0) = 1. The others minimise the largest relative error:
least squares at Chebyshev points, divided by exp(r), with Lawson's weights.
"""
import argparse

import mpmath
import numpy

mpmath.mp.dps = 50
mpf = mpmath.mpf


def fit(degree, points=200, rounds=60):
    # 0.05 % beyond ln(2)/2, because rounding x log2(e) may pick the neighbouring n.
    half = mpmath.log(2) / 2 * mpf("1.0005")
    rs = [half * mpmath.cos((mpf(k) + mpf("0.5")) * mpmath.pi / points) for k in range(points)]
    weights = numpy.ones(points)
    best = None
    for _ in range(rounds):
        a = mpmath.matrix(points, degree - 1)
        b = mpmath.matrix(points, 1)
        for k, r in enumerate(rs):
            w = mpmath.sqrt(mpf(weights[k])) / mpmath.exp(r)
            for i in range(2, degree + 1):
                a[k, i - 2] = w * r**i
            b[k] = w * (mpmath.exp(r) - 1 - r)
        c = [mpf(1), mpf(1)] + list(mpmath.lu_solve(a.T * a, a.T * b))
        error = [float(mpmath.polyval(c[::-1], r) / mpmath.exp(r) - 1) for r in rs]
        worst = max(abs(e) for e in error)
        if best is None or worst < best[0]:
            best = (worst, c)
        weights *= numpy.abs(error) + 1e-3 * worst
        weights /= weights.sum()
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--degree", type=int, default=6)
    args = parser.parse_args()
    worst, coefficients = fit(args.degree)
    print(f"// relative error {worst:.2e} = {worst * 2**24:.3f} * 2^-24, before rounding")
    for i, c in enumerate(coefficients):
        print(f"c{i} = {float(c):.10g} // f32: {float(numpy.float32(c)).hex()}, doubled {float(2 * numpy.float32(c)).hex()}")


if __name__ == "__main__":
    main()
