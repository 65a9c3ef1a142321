"""The Stanford arm of Saha (1999), section 6.2: forces of a prescribed motion, and free fall.

Table 3 there prints r_y of link 4 as 1 (m), ten times what the arm has; with 0.1 the torques are
those of figure 8.  Equation 39 is printed for one amplitude; here every joint goes from its first
to its last value.  Free fall by three algorithms; the boom slides out as it tips over.  References
are from a calculation apart from this library, with another program and the rows of the table.
"""

from __future__ import annotations

import numpy as np
from _arms import cycloid, energies, fall, row
from _output import Output, panels, plot

from fixman.rigid import SerialChain, articulated_body, denoc, newton_euler, partition

SECONDS, FALLING = 10.0, 2.0
GRAVITY = (0.0, 0.0, -9.81)
QUARTER = np.pi / 2
START = np.array([0, QUARTER, 0, 0, 0, 0])
END = np.array([60, 60, 0, 60, 60, 60]) * np.pi / 180 + [0, 0, 0.1, 0, 0, 0]
METHODS = {
    "articulated body": articulated_body.forward_dynamics,
    "UDUᵀ": denoc.forward_dynamics,
    "partition": partition.forward_dynamics,
}
FORCES = {  # N m, N of joint 3: at the start, largest, its instant, smallest, its instant, the end
    1: ("0.00000", "0.08818", "2.58", "-0.08553", "7.28", "0.00000"),
    2: ("11.37960", "15.05685", "8.85", "11.37302", "0.43", "15.03741"),
    3: ("0.00000", "0.00921", "0.28", "-29.92939", "9.70", "-29.92050"),
    4: ("0.00000", "0.00033", "", "-0.00022", "", "0.00000"),
    5: ("0.00000", "0.00005", "", "-0.00010", "", "0.00000"),
    6: ("0.00000", "0.00027", "", "-0.00025", "", "0.00000"),
}
FALLEN = {0.2: ("78.3", "0.0097"), 0.5: ("30.8", "0.35"), 1.0: ("4.3", "2.99")}  # degrees, m


def stanford(r_y: float = 0.1) -> SerialChain:
    """Return the arm of Table 3."""
    com = np.zeros((6, 3))  # Saha's −r
    com[0, 1], com[3, 1] = 0.1, -r_y
    return SerialChain.from_dh(
        a=np.zeros(6),
        b=[0.2, 0.1, 0, 0.6, 0, 0],
        alpha=[-QUARTER, -QUARTER, 0, QUARTER, -QUARTER, 0],
        theta=np.zeros(6),
        joints=("revolute", "revolute", "prismatic", "revolute", "revolute", "revolute"),
        masses=[9, 6, 4, 1, 0.6, 0.5],
        com=com,
        inertias=[
            [0.01, 0.02, 0.01],
            [0.05, 0.06, 0.01],
            [0.4, 0.4, 0.01],
            [0.001, 0.001, 0.0005],
            [0.0005, 0.0005, 0.0002],
            [0.003, 0.001, 0.002],
        ],
    )


ARM = stanford()


def motion(rows: list) -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0.0, SECONDS, 401)
    q, qd, qdd = cycloid(t, SECONDS, START, END)
    tau = newton_euler.inverse_dynamics(ARM, q, qd, qdd, gravity=GRAVITY)
    places = ("start", "largest", "largest at", "smallest", "smallest at", "end")
    for k, column in enumerate(tau.T):
        high, low = column.argmax(), column.argmin()
        found = column[0], column[high], t[high], column[low], t[low], column[-1]
        for place, value, reference in zip(places, found, FORCES[k + 1], strict=True):
            if reference:
                rows.append(row(f"joint {k + 1}, {place}", value, reference))
    printed = newton_euler.inverse_dynamics(
        stanford(1.0), START, 0 * START, qdd[0], gravity=GRAVITY
    )
    rows.append(row("joint 2, start, r_y of link 4 as printed", printed[1], "2.5506"))
    rows.append(row("work less gain of energy", work() - gain(q[[0, -1]])))
    return t, tau


def work() -> float:
    """∫ τ · q̇ dt by Gauss and Legendre."""
    at, weights = np.polynomial.legendre.leggauss(60)
    path = cycloid((at + 1) * SECONDS / 2, SECONDS, START, END)
    tau = newton_euler.inverse_dynamics(ARM, *path, gravity=GRAVITY)
    return float(weights @ (tau * path[1]).sum(axis=1)) * SECONDS / 2


def gain(ends) -> float:
    _, lifted = energies(ARM, ends, 0 * ends, GRAVITY)
    return float(lifted[1] - lifted[0])


def falls(rows: list) -> tuple[np.ndarray, np.ndarray]:
    ends = []
    for name, forward in METHODS.items():
        t, q, qd = fall(ARM, START, FALLING, GRAVITY, forward)
        kinetic, lifted = energies(ARM, q, qd, GRAVITY)
        energy = kinetic + lifted
        rows.append(row(f"energy drift, {name}", np.abs(energy - energy[0]).max()))
        ends.append(q)
    rows.append(row("kinetic energy at the end", kinetic[-1], "955"))
    for at, references in FALLEN.items():
        angle, out = q[np.searchsorted(t, at - 1e-9), 1:3]
        rows.append(row(f"θ₂ (degrees) after {at} s", np.degrees(angle), references[0]))
        rows.append(row(f"b₃ (m) after {at} s", out, references[1]))
    rows.append(row("coordinates at the end, algorithms apart", np.ptp(ends, axis=0)[-1].max()))
    return t, q


def draw(out: Output, forces: tuple, falling: tuple) -> None:
    with plot.style():
        finding = "The Stanford arm of Saha (1999): forces of a prescribed motion, and free fall"
        fig, grid = panels(finding, 3, 4, aspect=0.62, sharex="col")
        axes = np.concatenate([grid[:, :2], grid[:, 2:]])  # a pair for each joint
        turned = np.where(np.arange(6) == 2, falling[1], np.degrees(falling[1]))
        for k, (left, right) in enumerate(axes):
            slides = k == 2
            left.plot(*forces[:1], forces[1][:, k], color=plot.PALETTE[0])
            right.plot(falling[0], turned[:, k], color=plot.PALETTE[1])
            left.set_ylabel(f"$f_{k + 1}$  (N)" if slides else rf"$\tau_{k + 1}$  (N m)")
            right.set_ylabel(f"$b_{k + 1}$  (m)" if slides else rf"$\theta_{k + 1}$  (°)")
            for ax in (left, right):
                ax.ticklabel_format(axis="y", scilimits=(-3, 4))
                ax.yaxis.get_offset_text().set_fontsize(6)
                ax.tick_params(labelsize=6)
                ax.yaxis.label.set_fontsize(7)
        for ax, title in zip(grid[0], ("prescribed motion", "free fall") * 2, strict=True):
            ax.set_title(title)
        for ax in grid[-1]:
            ax.set_xlabel("$t$  (s)")
        fig.align_ylabels()
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows: list = []
    forces = motion(rows)
    falling = falls(rows)
    out.write_csv(rows)
    draw(out, forces, falling)


if __name__ == "__main__":
    main()
