"""The planar arm of Saha (1999), section 6.1: torques of a prescribed motion, and free fall.

Three rods of 1 m and 1 kg, gravity along −Y.  The torques of equation 38 are compared with Newton's
and Euler's laws written out for the plane, in complex numbers; free fall by four algorithms, and by
one with a smaller tolerance of the integrator.  It is chaotic, and small errors grow.  References
are from a calculation apart from this library.
"""

from __future__ import annotations

import numpy as np
from _arms import cycloid, energies, fall, row
from _output import Output, panels, plot

from fixman.rigid import (
    SerialChain,
    articulated_body,
    composite_body,
    denoc,
    newton_euler,
    partition,
)

SECONDS = 10.0
G = 9.81
GRAVITY = (0.0, -G, 0.0)
ARM = SerialChain.planar([1.0] * 3, [1.0] * 3, [1 / 12] * 3)
REST = np.zeros(3)
METHODS = {
    "articulated body": articulated_body.forward_dynamics,
    "UDUᵀ": denoc.forward_dynamics,
    "partition": partition.forward_dynamics,
    "composite body": composite_body.forward_dynamics,
}
TORQUES = {  # N m: at the start, at the end, largest, smallest
    1: ("44.145", "-14.715", "46.236", "-17.930"),
    2: ("19.620", "9.810", "20.708", "-16.473"),
    3: ("4.905", "-4.905", "5.331", "-4.954"),
}
FALL = ("-12.451154", "15.846923", "-4.527692")  # rad/s²


def by_hand(q, qd, qdd) -> np.ndarray:
    """Torques (times, 3): forces m (a − g) on the rods' centres about the joints before them."""
    angle, rate, change = (np.cumsum(a, axis=1) for a in (q, qd, qdd))
    rod = np.exp(1j * angle)
    bent = (1j * change - rate**2) * rod  # acceleration of a rod's end from its start
    tau = np.zeros_like(q)
    for i in range(3):
        for k in range(i, 3):
            arm = rod[:, i:k].sum(axis=1) + rod[:, k] / 2
            force = bent[:, :k].sum(axis=1) + bent[:, k] / 2 + 1j * G
            tau[:, i] += (arm.conj() * force).imag + change[:, k] / 12
    return tau


def motion(rows: list) -> tuple[np.ndarray, np.ndarray]:
    t = np.linspace(0.0, SECONDS, 401)
    path = cycloid(t, SECONDS, REST, np.pi)
    tau = newton_euler.inverse_dynamics(ARM, *path, gravity=GRAVITY)
    for k, column in enumerate(tau.T):
        found = column[0], column[-1], column.max(), column.min()
        places = ("start", "end", "largest", "smallest")
        for place, value, reference in zip(places, found, TORQUES[k + 1], strict=True):
            rows.append(row(f"torque {k + 1}, {place}", value, reference))
    apart = np.abs(tau - by_hand(*path)).max() / np.abs(tau).max()
    rows.append(row("torques, relative error by hand", apart))
    return t, tau


def falls(rows: list, seconds: float) -> tuple[np.ndarray, np.ndarray]:
    ends = []
    for name, forward in METHODS.items():
        t, q, qd = fall(ARM, REST, seconds, GRAVITY, forward)
        energy = sum(energies(ARM, q, qd, GRAVITY))
        rows.append(row(f"energy drift, {name}", np.abs(energy - energy[0]).max()))
        ends.append(q)
        if name == "articulated body":
            first, angles = forward(ARM, REST, REST, REST, gravity=GRAVITY), q
    for k, (value, reference) in enumerate(zip(first, FALL, strict=True)):
        rows.append(row(f"acceleration {k + 1} when let go", value, reference))
    spread = np.ptp(ends, axis=0).max(axis=1)
    rows.append(row("angles at the end, algorithms apart", spread[-1]))
    finer = fall(ARM, REST, seconds, GRAVITY, articulated_body.forward_dynamics, 1e-13)[1]
    rows.append(row("angles at the end, tolerances apart", np.abs(finer - angles)[-1].max()))
    return t, angles


def draw(out: Output, torques: tuple, falling: tuple) -> None:
    with plot.style():
        finding = "The planar arm of Saha (1999): free fall, and the torques of his motion"
        fig, (top, middle, bottom) = panels(finding, 1, 3, aspect=0.36)
        t, angles = falling
        absolute = np.cumsum(angles, axis=1)
        snapshots = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
        for k in np.searchsorted(t, snapshots):
            at = np.append(0, np.cumsum(np.exp(1j * absolute[k])))
            shade = str(0.8 * (1 - min(1.0, t[k] / snapshots[-1])))
            top.plot(at.real, at.imag, "o-", color=shade, markersize=2.5, linewidth=1.2)
        top.set_title(f"let go, in the first {snapshots[-1]} s", fontsize=8)
        top.set_aspect("equal")
        top.set_xlabel("$X$  (m)")
        top.set_ylabel("$Y$  (m)")
        for ax, (instants, values), name, corner in (
            (middle, torques, r"\tau", "upper right"),
            (bottom, (t, np.degrees(angles)), r"\theta", "lower left"),
        ):
            for k, color in zip(range(3), plot.PALETTE, strict=False):
                ax.plot(instants, values[:, k], color=color, label=f"${name}_{k + 1}$")
            ax.legend(loc=corner)
            ax.set_xlabel("$t$  (s)")
        middle.set_ylabel("torque  (N m)")
        bottom.set_ylabel("angle  (degrees)")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows: list = []
    torques = motion(rows)
    falling = falls(rows, 2.0 if out.quick else SECONDS)
    out.write_csv(rows)
    draw(out, torques, falling)


if __name__ == "__main__":
    main()
