#!/usr/bin/python3
"""Fits the polynomials behind Exp and Exp2 in engine/simd/math-inl.h and prints them.

    /usr/bin/python3 tools/fit_exp.py                       # Exp: degree 6, a few seconds; needs numpy and mpmath
    /usr/bin/python3 tools/fit_exp.py --base 2              # Exp2: degree 5, |r| <= 1/2
    /usr/bin/python3 tools/fit_exp.py --base 2 --roots 32   # with AVX-512: degree 2, |r| <= 1/64, and the roots of 2
    /usr/bin/python3 tools/fit_exp.py --base 2 --roots 8 --degree 3   # with AVX2: |r| <= 1/16

    exp(r) ~ 1 + r + c2 r^2 + ... + c6 r^6   for |r| <= ln(2) / 2
    2^r ~ 1 + c1 r + ... + c5 r^5            for |r| <= 1/2, or half a root's step: each coefficient is rounded to f32
                                             and the rest fitted again
    2^(j/roots), j < roots, as f32, less j 2^23 / roots in its bits

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


def fit_exp2(degree, length, points=120, rounds=80):
    rs = [mpf(length) / 2 * mpmath.cos((mpf(k) + mpf("0.5")) * mpmath.pi / points) for k in range(points)]
    fixed = [mpf(1)]
    while len(fixed) <= degree:
        n = len(fixed)
        weights = numpy.ones(points)
        best = None
        for _ in range(rounds):
            a = mpmath.matrix(points, degree + 1 - n)
            b = mpmath.matrix(points, 1)
            for k, r in enumerate(rs):
                w = mpmath.sqrt(mpf(weights[k])) / mpf(2) ** r
                for i in range(n, degree + 1):
                    a[k, i - n] = w * r**i
                b[k] = w * (mpf(2) ** r - sum(c * r**i for i, c in enumerate(fixed)))
            c = fixed + list(mpmath.lu_solve(a.T * a, a.T * b))
            error = [abs(float(mpmath.polyval(c[::-1], r) / mpf(2) ** r - 1)) for r in rs]
            if best is None or max(error) < best[0]:
                best = (max(error), c)
            weights *= numpy.array(error) + 1e-3 * max(error)
            weights /= weights.sum()
        fixed.append(mpf(float(numpy.float32(float(best[1][n])))))
    return max(abs(float(mpmath.polyval(fixed[::-1], r) / mpf(2) ** r - 1)) for r in rs), fixed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", choices=["e", "2"], default="e")
    parser.add_argument("--degree", type=int, help="default: 6 for e, 5 for 2, 2 with roots")
    parser.add_argument("--roots", type=int, default=1, help="2^(j/ROOTS) looked up (base 2); a power of two")
    args = parser.parse_args()
    if args.base == "2":
        worst, coefficients = fit_exp2(args.degree or (5 if args.roots == 1 else 2), mpf(1) / args.roots)
    else:
        worst, coefficients = fit(args.degree or 6)
    print(f"// relative error {worst:.2e} = {worst * 2**24:.3f} * 2^-24, before rounding" + (" of results" if args.base == "2" else ""))
    for i, c in enumerate(coefficients):
        print(f"c{i} = {float(c):.10g} // f32: {float(numpy.float32(c)).hex()}, doubled {float(2 * numpy.float32(c)).hex()}")
    for j in range(args.roots if args.roots > 1 else 0):
        bits = numpy.float32(float(mpf(2) ** (mpf(j) / args.roots))).view(numpy.uint32) - numpy.uint32(j * (2**23 // args.roots))
        print(f"root {j} = {float(bits.view(numpy.float32)).hex()}")


if __name__ == "__main__":
    main()
