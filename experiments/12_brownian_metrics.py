"""Which ensemble overdamped dynamics samples at unequal frictions, extrapolated in the time step.

A trimer in space whose middle bead has a fifth of the friction of the others, K = (1, 5, 1), with
equal masses.  Every scheme is to sample <c^2> = 0.28990 of the mobility ensemble by itself, 1/3
and 0.321021 with the metric forces of the stiff and of the rigid ensemble.  Parabolas in dt are
fitted and read off at 0; of Liu's scheme from shorter steps, since at 0.004 some have no solution
already, and are redone.  For the order in dt, the bias of three equal beads, whose <c^2> is
0.321021.  Errors are from independent replicas.
"""

from __future__ import annotations

import warnings

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman.sampling.analytic import mean_square_cosines
from fixman.simulation.observables import angles

FRICTION = (1.0, 0.2, 1.0)
EQUAL = (1.0, 1.0, 1.0)
RIGID = float(mean_square_cosines(2)[0])
EXACT = {
    "stiff": 1 / 3,
    "rigid": RIGID,
    "mobility": float(mean_square_cosines(2, masses=FRICTION)[0]),
}
SCHEMES = ("geodesic", "midpoint", "liu")
DTS = {
    "geodesic": (0.0005, 0.001, 0.002, 0.004, 0.008),
    "midpoint": (0.0005, 0.001, 0.002, 0.004, 0.008),
    "liu": (0.00025, 0.0005, 0.001, 0.002),
}
TIMES = {"geodesic": 30_000.0, "midpoint": 30_000.0, "liu": 40_000.0}  # of all replicas together
EQUAL_DTS = {
    "geodesic": (0.01, 0.02, 0.04),
    "midpoint": (0.01, 0.02, 0.04),
    "liu": (0.005, 0.01, 0.02),
}
EQUAL_TIMES = {"geodesic": 500_000.0, "midpoint": 250_000.0, "liu": 100_000.0}
REPLICAS = 512
BETWEEN = 0.04  # time from frame to frame
SETTLE = 1.0

Line = tuple[np.ndarray, np.ndarray, np.ndarray]


def sample(stepper: fx.Brownian, time: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return <c^2> and its standard error."""
    chain = fx.Chain.linear(3)
    state = stepper.start(chain, fx.random_walks(chain, REPLICAS, rng=rng), None, REPLICAS, rng)
    stepper.advance(chain, state, round(SETTLE / stepper.dt), workers=2)
    frames, total = round(time / (REPLICAS * BETWEEN)), np.zeros(REPLICAS)
    for _ in range(frames):
        stepper.advance(chain, state, round(BETWEEN / stepper.dt), workers=2)
        total += np.cos(angles(chain, state.x)[:, 0]) ** 2
    means = total / frames
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(REPLICAS))


def line(dts: tuple[float, ...], time: float, rng: np.random.Generator, **options: object) -> Line:
    """Return time steps, means and errors."""
    found = [sample(fx.Brownian(dt, **options), time, rng) for dt in dts]
    return np.array(dts), *np.array(found).T


def at_zero(points: Line) -> tuple[np.ndarray, float]:
    """Return the parabola of the means, and the error of its value at 0."""
    dt, mean, error = points
    fit, covariance = np.polyfit(dt, mean, 2, w=1.0 / error, cov="unscaled")
    return fit, float(np.sqrt(covariance[2, 2]))


def order(points: Line) -> tuple[float, float]:
    """Return p of |bias| = a dt^p, and its standard error."""
    dt, mean, error = points
    bias = np.abs(mean - RIGID)
    (p, _), covariance = np.polyfit(np.log(dt), np.log(bias), 1, w=bias / error, cov="unscaled")
    return float(p), float(np.sqrt(covariance[0, 0]))


def draw(
    out: Output,
    lines: dict[tuple[str, str], Line],
    fits: dict,
    equal: dict[str, Line],
    orders: dict,
) -> None:
    with plot.style():
        finding = "Each scheme samples its ensemble as the time step goes to zero"
        fig, (above, below) = panels(finding, 1, 2, aspect=0.45)
        for (ensemble, scheme), (dt, mean, error) in lines.items():
            number = SCHEMES.index(scheme)
            color, marker = plot.PALETTE[number], plot.MARKERS[number]
            above.errorbar(dt, mean, error, fmt=marker, color=color, markersize=3)
            smooth = np.linspace(0.0, dt.max(), 50)
            fit = fits[ensemble, scheme][0]
            above.plot(smooth, np.polyval(fit, smooth), color=color, linewidth=0.8)
        for ensemble, exact in EXACT.items():
            above.axhline(exact, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
            above.annotate(
                ensemble, (1.02, exact), xycoords=("axes fraction", "data"), va="center",
                fontsize="small", color="0.35",
            )  # fmt: skip
        above.set_title("K = (1, 5, 1)", loc="left")
        above.set_xlim(left=-0.0002)
        above.set_xlabel(r"time step  $\Delta t$  in $\zeta a^2/kT$")
        above.set_ylabel(r"$\langle\cos^2\theta\rangle$")
        for number, (scheme, (dt, mean, error)) in enumerate(equal.items()):
            p, sigma = orders[scheme]
            color = plot.PALETTE[number]
            bias = np.abs(mean - RIGID)
            below.errorbar(
                dt, bias, error, fmt=plot.MARKERS[number], color=color, markersize=3,
                label=f"{scheme}, order {p:.2f} ± {sigma:.2f}",
            )  # fmt: skip
            middle = np.average(np.log(bias) - p * np.log(dt), weights=(bias / error) ** 2)
            ends = np.array([dt.min(), dt.max()])
            below.plot(ends, np.exp(middle) * ends**p, color=color, linewidth=0.8)
        below.set_title("equal beads", loc="left")
        below.set_ylim(2e-4, 1.2e-2)
        below.set_xscale("log")
        below.set_yscale("log")
        below.set_xticks((0.005, 0.01, 0.02, 0.04), ("0.005", "0.01", "0.02", "0.04"))
        below.xaxis.minorticks_off()
        ticks = 0.0005, 0.001, 0.002, 0.005, 0.01
        below.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        below.yaxis.minorticks_off()
        below.set_ylabel(r"bias of $\langle\cos^2\theta\rangle$")
        below.set_xlabel(r"time step  $\Delta t$  in $\zeta a^2/kT$")
        below.legend(loc="lower right")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    warnings.filterwarnings("ignore", "dt=.* is long", RuntimeWarning)  # on purpose
    share, rng = 0.01 if out.quick else 1.0, np.random.default_rng(12)
    lines, fits, rows = {}, {}, []
    for ensemble, exact in EXACT.items():
        for scheme in SCHEMES:
            options = {"friction": FRICTION, "ensemble": ensemble, "scheme": scheme}
            points = line(DTS[scheme], share * TIMES[scheme], rng, **options)
            fit, error = at_zero(points)
            lines[ensemble, scheme], fits[ensemble, scheme] = points, (fit, error)
            print(
                f"{ensemble}, {scheme}: <c^2> at dt = 0 {fit[2]:.5f} ± {error:.5f}, exact "
                f"{exact:.5f}, {(fit[2] - exact) / error:+.1f} σ"
            )
            rows += table("1, 5, 1", ensemble, scheme, points, exact)
            rows += table("1, 5, 1", ensemble, scheme, ([0.0], [fit[2]], [error]), exact)
    equal, orders = {}, {}
    for scheme in SCHEMES:
        equal[scheme] = line(EQUAL_DTS[scheme], share * EQUAL_TIMES[scheme], rng, scheme=scheme)
        orders[scheme] = order(equal[scheme])
        print("equal beads, {}: order {:.3f} ± {:.3f}".format(scheme, *orders[scheme]))
        rows += table("1, 1, 1", "mobility", scheme, equal[scheme], RIGID, orders[scheme])
    out.write_csv(rows)
    draw(out, lines, fits, equal, orders)


def table(
    mobilities: str, ensemble: str, scheme: str, points: tuple, exact: float,
    order: tuple[float, float] | None = None,
) -> list[dict[str, str]]:  # fmt: skip
    """Return lines of the CSV; that of dt = 0 is what was read off the parabola."""
    return [
        {
            "mobilities": mobilities,
            "ensemble": ensemble,
            "scheme": scheme,
            "dt": f"{dt:g}",
            "mean_square": f"{mean:.5f}",
            "error": f"{error:.5f}",
            "exact": f"{exact:.5f}",
            "fitted_order": "" if order is None else f"{order[0]:.3f}",
            "order_error": "" if order is None else f"{order[1]:.3f}",
        }
        for dt, mean, error in zip(*points, strict=True)
    ]


if __name__ == "__main__":
    main()
