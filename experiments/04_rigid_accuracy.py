"""Error of the rigid forward dynamics against the number of links, for four kinds of serial arm.

The measure is the scaled residual, max |I⁻¹ (inverse(θ̈) − τ)| / max |θ̈|: what is missing in the
torques, as an error of θ̈.  Up to 50 links there is also max |θ̈ − θ̈*| / max |θ̈*| against 40
digits (crosses in the figure): the two agree, but for the refined partition, which makes the
residual smaller than the rounding of the inverse dynamics it is computed with.
The arms move and feel gravity.  FD1 of Rodriguez and Kreutz and the UDUᵀ of Saha subtract the bias
torques first, as published: these grow with the length of the arm, and digits go.
"""

from __future__ import annotations

import mpmath
import numpy as np
from _output import Output, accuracy, panels, plot

from fixman.rigid import (
    SerialChain,
    articulated_body,
    denoc,
    newton_euler,
    partition,
    spatial_operators,
)

mpmath.mp.dps = 40

GRAVITY = (0.0, -9.81, 0.0)
EXTENDED = 50  # links, at most, for the comparison with 40 digits
SHAPES = ("random", "masses over $10^6$", "parallel axes", "straight")
METHODS = {
    "articulated body": (articulated_body, {}),
    "FD3": (spatial_operators, {"method": "fd3"}),
    "FD1": (spatial_operators, {"method": "fd1"}),
    "Saha": (denoc, {}),
    "partition": (partition, {"refine": 0}),
    "partition, refine=1": (partition, {"refine": 1}),
}


def system(shape: str, n: int, rng: np.random.Generator) -> tuple[SerialChain, np.ndarray]:
    """Return an arm and the rows q, q̇, τ."""
    state = rng.normal(size=(3, n))
    if shape in ("parallel axes", "straight"):
        lengths, masses = rng.uniform(0.5, 2.0, (2, n))
        arm = SerialChain.planar(lengths, masses, masses * lengths**2 / 12)
        if shape == "straight":
            state[0, 1:] = 0.0
        return arm, state
    arm = SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    if shape != "random":
        ratio = 10 ** rng.uniform(-3, 3, n)
        arm = SerialChain(
            arm.joints,
            arm.rotations,
            arm.translations,
            arm.masses * ratio,
            arm.centres,
            arm.inertias * ratio[:, None, None],
        )
    return arm, state


def exact(values) -> np.ndarray:
    return np.vectorize(mpmath.mpf, otypes=[object])(np.asarray(values, dtype=float))


def tilde(v: np.ndarray) -> np.ndarray:
    zero = mpmath.mpf(0)
    return np.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]])


def spatial(A, B, C, D) -> np.ndarray:
    return np.concatenate([np.concatenate([A, B], axis=1), np.concatenate([C, D], axis=1)])


def extended(arm: SerialChain, q: np.ndarray, qd: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """Return θ̈ in 40 digits: articulated bodies about the joints, all in the axes of the base."""
    one, zero = exact(np.eye(3)), exact(np.zeros((3, 3)))
    R, w = one, zero[0]
    q, qd, tau = exact(q), exact(qd), exact(tau)
    S, shift, a, M, b = [], [], [], [], []  # axis, φᵀ, bias acceleration, inertia, bias force
    for i, joint in enumerate(arm.joints):
        out, c, s = exact(arm.translations[i]), mpmath.mpf(1), mpmath.mpf(0)
        turning = joint == "revolute"
        if turning:
            c, s = mpmath.cos(q[i]), mpmath.sin(q[i])
        else:
            out = out + exact(arm.rotations[i]) @ (one[2] * q[i])
        out = R @ out
        R = R @ exact(arm.rotations[i]) @ np.array([[c, -s, 0 * s], [s, c, 0 * s], one[2]])
        z = R[:, 2]
        across = np.cross(w, z) * qd[i]
        bias = np.cross(w, np.cross(w, out)) + (0 if turning else 2) * across
        S.append(np.concatenate([z, zero[0]] if turning else [zero[0], z]))
        shift.append(spatial(one, zero, -tilde(out), one))
        a.append(np.concatenate([(1 if turning else 0) * across, bias]))
        w = w + z * qd[i] if turning else w
        m, p = mpmath.mpf(float(arm.masses[i])), tilde(R @ exact(arm.centres[i]))
        inertia = R @ exact(arm.inertias[i]) @ R.T - m * (p @ p)
        M.append(spatial(inertia, m * p, -m * p, m * one))
        b.append(np.concatenate([np.cross(w, inertia @ w), m * np.cross(w, -(p @ w))]))
    a[0] = a[0] - np.concatenate([zero[0], exact(GRAVITY)])
    P, z = exact(np.zeros((6, 6))), exact(np.zeros(6))
    kept = []
    for i in reversed(range(arm.n)):
        P, z = P + M[i], z + b[i]
        u = P @ S[i]
        d, e = S[i] @ u, tau[i] - S[i] @ z
        kept.insert(0, (u, d, e))
        P, z = P - np.outer(u, u) / d, z + u * (e / d)
        z = z + P @ a[i]
        P, z = shift[i].T @ P @ shift[i], shift[i].T @ z
    moved, answer = exact(np.zeros(6)), []
    for i, (u, d, e) in enumerate(kept):
        moved = shift[i] @ moved + a[i]
        answer.append((e - u @ moved) / d)
        moved = moved + S[i] * answer[-1]
    return np.array([float(x) for x in answer])


def errors(shape: str, n: int, arms: int) -> dict[str, list[float]]:
    """Return the worst residual and, where there is one, error against 40 digits, by method."""
    worst = {name: [0.0, 0.0] for name in METHODS}
    for seed in range(arms):
        arm, (q, qd, tau) = system(shape, n, np.random.default_rng([n, seed]))
        wanted = extended(arm, q, qd, tau) if n <= EXTENDED else None
        for name, (algorithm, options) in METHODS.items():
            found = algorithm.forward_dynamics(arm, q, qd, tau, gravity=GRAVITY, **options)
            missing = newton_euler.inverse_dynamics(arm, q, qd, found, gravity=GRAVITY) - tau
            step = articulated_body.forward_dynamics(arm, q, np.zeros(n), missing)
            pair = [np.abs(step).max() / np.abs(found).max(), 0.0]
            if wanted is not None:
                pair[1] = np.abs(found - wanted).max() / np.abs(wanted).max()
            worst[name] = [max(old, float(new)) for old, new in zip(worst[name], pair, strict=True)]
    return worst


def draw(out: Output, table: dict[tuple[str, str, int], list[float]], sizes: list[int]) -> None:
    short = [n for n in sizes if n <= EXTENDED]
    with plot.style():
        finding = "Algorithms that subtract bias torques first lose digits with n"
        fig, axes = panels(finding, 1, 4, sharex=True, sharey=True)
        for shape, ax in zip(SHAPES, axes.flat, strict=True):
            lines = {name: (sizes, [table[shape, name, n][0] for n in sizes]) for name in METHODS}
            accuracy(ax, lines)
            for color, name in zip(plot.PALETTE, METHODS, strict=False):
                exact_errors = [max(table[shape, name, n][1], 1e-17) for n in short]
                ax.loglog(short, exact_errors, "x", markersize=3, color=color, markeredgewidth=0.6)
            ax.set_title(shape, fontsize=7)
            ax.set_xlabel("number of links  $n$")
            ax.set_xticks([10**k for k in range(1, 5) if 10**k <= sizes[-1]])
            ax.minorticks_off()
        fig.supylabel("scaled residual; crosses: error of $\\ddot\\theta$", fontsize=8)
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    sizes = [6, 20, 50, 200] if out.quick else [6, 20, 50, 100, 300, 1000, 3000, 10_000]
    table, rows = {}, []
    for shape in SHAPES:
        for n in sizes:
            arms = 2 if out.quick else max(1, 300 // n)
            for name, (residual, error) in errors(shape, n, arms).items():
                table[shape, name, n] = [residual, error]
                rows.append(
                    {
                        "shape": shape.replace("$10^6$", "1e6"),
                        "method": name,
                        "n": n,
                        "scaled_residual": f"{residual:.2e}",
                        "error": f"{error:.2e}" if n <= EXTENDED else "",
                    }
                )
        worst = {name: max(table[shape, name, n][0] for n in sizes) for name in METHODS}
        print(f"{shape}:", "; ".join(f"{name} {r:.0e}" for name, r in worst.items()))
    out.write_csv(rows)
    draw(out, table, sizes)


if __name__ == "__main__":
    main()
