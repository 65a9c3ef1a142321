"""Error of q̈ and of ln det H^bb against 40 digits, for six shapes of planar arm (bends in rad).

Three kinds of arithmetic: rows of Wilson's B and plain pivots,
d_k = w_{k-1} + w_k − (w_{k-1} c)²/d_{k-1}; the same rows and pivots without a subtraction;
and `fixman.forward_dynamics`, whose planar kernel has these pivots and writes everything else in
the angles between bonds too.  The arms move, masses lie between 0.1 and 10, and positions and
velocities in double precision are taken as exact.  Errors are the largest of q̈ over the largest
|q̈|, and that of ln det H^bb over n.
"""

from __future__ import annotations

from collections.abc import Sequence

import mpmath
import numpy as np
from _output import Output, accuracy, panels, plot

import fixman as fx

mpmath.mp.dps = 40

SHAPES = {
    "random": None,
    "bends 1e-3": 1e-3,
    "bends 1e-6": 1e-6,
    "bends 1e-8": 1e-8,
    "straight": 0.0,
    "zigzag": 1.2,
}


def state(shape: str, n: int, rng: np.random.Generator) -> tuple[fx.Chain, np.ndarray, ...]:
    """Return an arm, positions, velocities and torques."""
    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=10.0 ** rng.uniform(-1, 1, n))
    q, qd = np.empty(2 * n), np.zeros(2 * n)
    q[chain.hard] = rng.uniform(0.5, 2.0, n)
    if shape == "random":
        q[chain.soft] = rng.uniform(-np.pi, np.pi, n)
    elif shape == "zigzag":
        q[chain.soft] = SHAPES[shape] * (-1.0) ** np.arange(n)
    else:
        q[chain.soft] = SHAPES[shape] * rng.uniform(0.5, 1.0, n) * rng.choice([-1, 1], n)
        q[chain.soft[0]] = rng.uniform(-np.pi, np.pi)  # straight, but not along an axis
    qd[chain.soft] = rng.normal(size=n)
    return (chain, *chain.cartesian(q, qd), rng.normal(size=n))


def extended(chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray):
    """Return q̈ and ln det H^bb by theory.md section 3 in complex numbers, O(n)."""
    zero = mpmath.mpc(0)
    joints = [zero, *(mpmath.mpc(*map(float, row)) for row in x)]
    speeds = [zero, *(mpmath.mpc(*map(float, row)) for row in v)]
    w = [mpmath.mpf(0), *(1 / mpmath.mpf(float(m)) for m in chain.masses)]
    tau = [*(mpmath.mpf(float(t)) for t in torque), mpmath.mpf(0)]
    bonds = range(1, chain.n + 1)
    length = [abs(joints[k] - joints[k - 1]) if k else zero for k in range(chain.n + 1)]
    u = [(joints[k] - joints[k - 1]) / length[k] if k else zero for k in range(chain.n + 1)]
    # Along and across its bond: how fast the far end moves past the near one.
    e = [mpmath.conj(u[k]) * (speeds[k] - speeds[k - 1]) if k else zero for k in range(chain.n + 1)]
    force = [zero] * (chain.n + 1)
    for k in bonds:
        push = 1j * u[k] * (tau[k - 1] - tau[k]) / length[k]
        force[k] += push
        force[k - 1] -= push
    pivots, right = [mpmath.mpf(1)] * (chain.n + 1), [mpmath.mpf(0)] * (chain.n + 1)
    off = [mpmath.mpf(0)] * (chain.n + 2)
    for k in bonds:
        off[k] = -w[k - 1] * (mpmath.conj(u[k - 1]) * u[k]).real
        pivots[k] = w[k - 1] + w[k] - off[k] ** 2 / pivots[k - 1]
        right[k] = (mpmath.conj(u[k]) * (w[k] * force[k] - w[k - 1] * force[k - 1])).real
        right[k] += e[k].imag ** 2 / length[k] - off[k] / pivots[k - 1] * right[k - 1]
    tension = [mpmath.mpf(0)] * (chain.n + 2)
    for k in reversed(bonds):
        tension[k] = (right[k] - off[k + 1] * tension[k + 1]) / pivots[k]
    u.append(zero)
    a = [w[k] * (force[k] - tension[k] * u[k] + tension[k + 1] * u[k + 1]) for k in (0, *bonds)]
    turn = [
        ((mpmath.conj(u[k]) * (a[k] - a[k - 1])).imag - 2 * e[k].real * e[k].imag / length[k])
        / length[k]
        for k in bonds
    ]
    qdd = [turn[0], *(turn[k] - turn[k - 1] for k in range(1, chain.n))]
    return np.array([float(value) for value in qdd]), mpmath.log(mpmath.fprod(pivots))


def wilson_route(
    factor: fx.structured.Factor, chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray
) -> tuple[np.ndarray, float]:
    """Return q̈ through Cartesian accelerations, and ln det H^bb."""
    B, kappa = fx.wilson_b(chain, x), fx.velocity_terms(chain, x, v)
    B_a, B_b = B[chain.soft], B[chain.hard]
    w = np.repeat(1.0 / chain.masses, 2)
    F = B_a.T @ torque
    push = factor.solve(-(B_b @ (w * F) + kappa[chain.hard]))
    return B_a @ (w * (F + B_b.T @ push)) + kappa[chain.soft], factor.logdet


def plain(
    chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray
) -> tuple[np.ndarray, float]:
    H = fx.Partition(chain, x).H_bb
    return wilson_route(fx.structured.Sparse(H).factor(), chain, x, v, torque)


def subtraction_free(
    chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray
) -> tuple[np.ndarray, float]:
    d = np.diff(x, axis=0, prepend=0.0)
    u = d / np.hypot(d[:, :1], d[:, 1:])
    cosines = (u[:-1] * u[1:]).sum(axis=1)
    sines = u[:-1, 0] * u[1:, 1] - u[:-1, 1] * u[1:, 0]
    matrix = fx.structured.Tridiagonal(np.append(0.0, 1.0 / chain.masses), cosines, sines)
    return wilson_route(matrix.factor(), chain, x, v, torque)


def fused(
    chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray
) -> tuple[np.ndarray, float]:
    return fx.forward_dynamics(chain, x, v, torque=torque).qdd, float(fx.logdet(chain, x))


ARITHMETIC = {
    "rows of B, plain pivots": plain,
    "rows of B, no subtraction": subtraction_free,
    "forward_dynamics, no subtraction": fused,
}


def errors(shape: str, n: int, seeds: Sequence[int]) -> dict[str, tuple[float, float]]:
    """Return the worst errors of q̈ and of ln det / n over some arms, by kind of arithmetic."""
    worst = dict.fromkeys(ARITHMETIC, (0.0, 0.0))
    for seed in seeds:
        system = state(shape, n, np.random.default_rng([n, seed]))
        qdd, logdet = extended(*system)
        for name, method in ARITHMETIC.items():
            found, determinant = method(*system)
            worst[name] = (
                max(worst[name][0], float(np.abs(found - qdd).max() / np.abs(qdd).max())),
                max(worst[name][1], float(abs(determinant - logdet)) / n),
            )
    return worst


def draw(out: Output, table: dict[tuple[str, str, int], tuple[float, float]], sizes: list[int]):
    with plot.style():
        finding = (
            "Pivots without a subtraction keep ln det, and forward_dynamics keeps accelerations"
        )
        fig, axes = panels(finding, 2, 3, aspect=0.62, sharex=True, sharey="row")
        for column, kind in zip(axes.T, ARITHMETIC, strict=True):
            for quantity, ax in enumerate(column):
                lines = {
                    shape: (sizes, [table[shape, kind, n][quantity] for n in sizes])
                    for shape in SHAPES
                }
                accuracy(ax, lines)
            column[0].set_title(kind.replace(", ", ",\n"), fontsize=7)
        axes[0, 0].set_ylabel("relative error of $\\ddot q$")
        axes[1, 0].set_ylabel("error of $\\ln\\det H^{bb}$, per link")
        axes[1, 1].set_xlabel("number of links  $n$")
        fig.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    sizes = [10, 30, 100] if out.quick else [10, 30, 100, 300, 1000, 3000, 10_000]
    table, rows = {}, []
    for shape in SHAPES:
        for n in sizes:
            for kind, (qdd, logdet) in errors(shape, n, range(max(1, 300 // n))).items():
                table[shape, kind, n] = qdd, logdet
                rows.append(
                    {
                        "shape": shape,
                        "arithmetic": kind,
                        "n": n,
                        "qdd_error": f"{qdd:.2e}",
                        "logdet_error_per_link": f"{logdet:.2e}",
                    }
                )
        worst = {kind: max(table[shape, kind, n][0] for n in sizes) for kind in ARITHMETIC}
        print(f"{shape:<11} q̈:", "; ".join(f"{kind} {e:.0e}" for kind, e in worst.items()))
    out.write_csv(rows)
    draw(out, table, sizes)


if __name__ == "__main__":
    main()
