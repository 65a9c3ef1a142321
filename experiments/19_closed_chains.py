"""Closed chains: a four-bar in motion, and what closures cost.

Numbers of a parallelogram of rods of 1 m and 1 kg are compared with its Lagrange function's, worked
out by hand.  An unequal four-bar turns under gravity, by the variational midpoint rule.  Times are
for chains of hinges whose last body, and others evenly before it, are pinned to the base by balls,
and in units of the open chain's for one closure of each kind, of the last body to the base or to
the middle one.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

import numpy as np
from _arms import row
from _output import Output, panels, plot

from fixman.rigid import SerialChain, articulated_body, closed, kinematics
from fixman.rigid.closed import Closure, End, Linkage
from fixman.rigid.motion import simulate

GRAVITY = (0.0, -9.81, 0.0)
PIN = ("x", "y")
STEP = 1e-3  # s
EVERY = 10
REST = np.zeros(3)


def rods(lengths, at: float = 0.0) -> SerialChain:
    """Return rods of 1 kg/m in a row, hinged to the base at x = at."""
    lengths = np.asarray(lengths, dtype=float)
    arm = SerialChain.planar(lengths, lengths, lengths**3 / 12)
    return replace(arm, translations=arm.translations + np.eye(arm.n, 1) * [at, 0, 0])


def four_bar(crank: float, coupler: float, other: float, base: float) -> Linkage:
    pin = Closure(End(1, (coupler, 0, 0)), End(0, (other, 0, 0), chain=1), PIN)
    return Linkage((rods([crank, coupler]), rods([other], base)), pin)


def parallelogram(rows: list) -> None:
    for angle, rate, reference in ((30, 0, "-5.886000000"), (60, -3, "-10.194851053")):
        crank = np.radians(angle - 90)
        q, qd = np.array([crank, -crank, crank]), rate * np.array([1.0, -1.0, 1.0])
        found = closed.forward_dynamics(four_bar(1, 1, 1, 1), q, qd, REST, gravity=GRAVITY)
        rows.append(row(f"parallelogram at {angle}°, {rate}/s: rad/s²", found.qdd[0], reference))
    at_base = Closure(End(None, (1, 0, 0)), End(2, (1, 0, 0)), PIN)
    crank = np.radians(-60)
    q = [crank, -crank, crank - np.pi]
    linkage = Linkage(rods([1, 1, 1]), at_base)
    force = closed.forward_dynamics(linkage, q, REST, REST, gravity=GRAVITY).wrenches[0]
    for name, value, reference in zip("xy", force, ("-5.097426", "11.772000"), strict=False):
        rows.append(row(f"force on its crank at the base, {name}: N", value, reference))


def motion(rows: list, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return time, energy error and gap of every tenth step, and postures."""
    linkage = four_bar(0.5, 1.3, 0.9, 1.2)
    q, qd = closed.project(linkage, [0.6, -0.3, 1.5], [3.0, 0.0, 0.0])
    run = simulate(linkage, q, STEP, steps, qd=qd, gravity=GRAVITY, every=EVERY)
    off, gap = run.energy - run.energy[0], np.abs(run.gap).max(-1)
    name = f"four-bar, {steps * STEP:g} s"
    rows.append(row(f"{name}: energy, J", run.energy[0]))
    rows.append(row(f"{name}: largest error of energy, J", np.abs(off).max()))
    tenth = steps // EVERY // 10
    rows.append(row(f"{name}: mean error, first tenth", off[1 : 1 + tenth].mean()))
    rows.append(row(f"{name}: mean error, last tenth", off[-tenth:].mean()))
    rows.append(row("four-bar: largest gap, m", gap.max()))
    return np.column_stack([run.time, np.abs(off), gap]), run.q


def best(calls: dict, budget: float) -> dict:
    """Shortest time of each call, taken in turn so that all see the same machine."""
    found = dict.fromkeys(calls, np.inf)
    for call in calls.values():
        call()
    end = time.perf_counter() + budget * len(calls)
    while not np.isfinite(found[next(iter(calls))]) or time.perf_counter() < end:
        for name, call in calls.items():
            for _ in range(10):
                start = time.perf_counter()
                call()
                found[name] = min(found[name], time.perf_counter() - start)
                if found[name] > 1e-3:
                    break
    return found


def open_chain(n: int):
    """Return a chain, its state at rest, where its bodies are, and the call without closures."""
    rng = np.random.default_rng(n)
    arm = SerialChain.random(n, rng, joints=("revolute",))
    state = rng.normal(size=n), np.zeros(n), rng.normal(size=n)
    return (
        arm,
        state,
        kinematics.frames(arm, state[0]),
        partial(articulated_body.forward_dynamics, arm, *state),
    )


def costs(rows: list, sizes, loops, budget: float) -> dict:
    times: dict = {}
    for n in sizes:
        arm, state, (_, at), call = open_chain(n)
        calls = {0: call}
        for m in loops:
            if 3 * m >= n:
                continue  # which could not move
            bodies = np.linspace(0, n - 1, m + 1).astype(int)[1:]
            balls = tuple(Closure(int(k), End(None, at[k]), "ball") for k in bodies)
            calls[m] = partial(closed.forward_dynamics, Linkage(arm, balls), *state)
        for m, seconds in best(calls, budget).items():
            times.setdefault(m, []).append(seconds)
            rows.append(row(f"seconds, {n} links, {m} closures", seconds))
    return times


def kinds(rows: list, n: int, budget: float) -> None:
    arm, state, (R, at), call = open_chain(n)
    calls, last, half = {"open": call}, n - 1, n // 2
    ends = {
        "base": End(None, at[last], R[last]),
        "the middle": End(half, R[half].T @ (at[last] - at[half]), R[half].T @ R[last]),
    }
    for kind in ("ball", "hinge", "weld"):
        for name, end in ends.items():
            linkage = Linkage(arm, Closure(last, end, kind))
            calls[f"{kind} to {name}"] = partial(closed.forward_dynamics, linkage, *state)
    found = best(calls, budget)
    for name, seconds in found.items():
        rows.append(row(f"open chains' times, {n} links, {name}", seconds / found["open"]))


def draw(out: Output, series, postures, sizes, times: dict) -> None:
    with plot.style():
        finding = "Closed chains keep their energy and stay closed, at a cost proportional to n"
        fig, (top, middle, bottom) = panels(finding, 1, 3, aspect=0.36)
        for (a, b, _), shade in zip(postures[:48:4], np.linspace(0.8, 0.0, 12), strict=True):
            crank, coupler = 0.5 * np.exp(1j * a), 1.3 * np.exp(1j * (a + b))
            at = np.array([0, crank, crank + coupler, 1.2])
            top.plot(at.real, at.imag, "o-", color=str(shade), markersize=2.5, linewidth=1.2)
        top.set_aspect("equal")
        top.set_title("four-bar, every 40 ms", fontsize=8)
        top.set_xlabel("$x$  (m)")
        top.set_ylabel("$y$  (m)")
        for column, name in ((1, "energy error  (J)"), (2, "gap  (m)")):
            middle.semilogy(
                series[1:, 0], series[1:, column], ".", color=plot.PALETTE[column - 1],
                markersize=0.4, label=name,
            )  # fmt: skip
        middle.set_ylim(1e-17, 1e3)
        middle.set_xlabel("$t$  (s)")
        middle.legend(loc="upper left", ncols=2, markerscale=20)
        for (m, seconds), color in zip(times.items(), plot.PALETTE, strict=False):
            name = "open chain" if m == 0 else f"{m} closure" + "s" * (m > 1)
            bottom.loglog(
                sizes[-len(seconds) :], seconds, "o-", color=color, markersize=2.5, label=name
            )
        bottom.set_xlabel("links")
        bottom.set_ylabel("time  (s)")
        bottom.legend(loc="best")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows: list = []
    parallelogram(rows)
    series, postures = motion(rows, 500 if out.quick else 100_000)
    sizes = (10, 100) if out.quick else (10, 100, 1000, 10_000, 100_000)
    times = costs(rows, sizes, (1, 3, 10), 0.05 if out.quick else 1.0)
    kinds(rows, 100, 0.05 if out.quick else 2.0)
    out.write_csv(rows)
    draw(out, series, postures, sizes, times)


if __name__ == "__main__":
    main()
