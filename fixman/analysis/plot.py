"""Pictures of chains, arms, runs and distributions: functions that draw into a matplotlib `ax`.

Each function takes and returns the ax.  `figure` makes a figure of a journal's column width; the
context `style` gives the fonts and colours of this library's own figures:

    with fx.plot.style():
        fig = fx.plot.figure()
        fx.plot.chain(fig.subplots(), chain, x, values=motion.tension, label="tension")
        fig.savefig("chain.png")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Line3DCollection
except ImportError as error:
    raise ImportError('figures need matplotlib: pip install "fixman-chains[plot]"') from error

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.analysis.averages import Ensemble, other_ensemble, weights_to_other
from fixman.chains.chain import Chain, require_chain

if TYPE_CHECKING:
    from fixman.mechanics.partition import Partition
    from fixman.rigid.closed import Linkage
    from fixman.rigid.model import SerialChain
    from fixman.rigid.motion import Trajectory
    from fixman.simulation.trajectory import Run

__all__ = [
    "MARKERS", "PALETTE",
    "angle_histogram", "arm", "audit_histogram", "chain", "distribution", "figure", "ramachandran",
    "spy", "style", "timing", "trajectory",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone

COLUMN_WIDTH = 3.4  # inches

# Okabe and Ito's colours, told apart by colour-blind readers; one marker each for grey prints.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "axes.prop_cycle": "cycler(color=[" + ", ".join(map(repr, PALETTE)) + "])",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "savefig.dpi": 300,
}


def figure(columns: float = 1.0, aspect: float = 0.72) -> Figure:
    """Return an empty figure, `columns` column widths wide, height over width `aspect`.

    It belongs to no window system and needs no closing; `figure().subplots()` gives the ax.
    """
    width = arrays.positive(columns, "columns") * COLUMN_WIDTH
    height = arrays.positive(aspect, "aspect") * width
    return Figure(figsize=(width, height), layout="constrained")


def require_format(path: Path) -> None:
    """Refuse a file name whose suffix names no format that matplotlib writes."""
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.removeprefix(".").lower() not in known:
        raise ValueError(f"{path.name!r} must end in a figure format, one of {', '.join(known)}")


def style() -> Any:
    """Return the context manager under which figures are drawn and saved."""
    return mpl.rc_context(STYLE)


def chain(
    ax: Axes,
    chain: Chain,
    x: npt.ArrayLike,
    values: npt.ArrayLike | None = None,
    *,
    label: str = "",
) -> Axes:
    """Beads and bonds of one configuration (n, d), with a colour bar of `values` and its `label`.

    Axes made with ``projection="3d"`` show space; flat ones show the plane that the chain fills
    most, with z upwards, or y where it lies flat.  `values` are one number per bond, in the order
    of ``chain.coordinates``; or one per hard coordinate, as in `Motion.tension`; only those of
    bonds are shown.
    """
    require_chain(chain)
    beads = arrays.series(x, (chain.n, chain.dim), "x")
    if beads.ndim != 2:
        raise ValueError(f"x must be one configuration (n, d), got {beads.shape}: take a frame")
    rows = [row for row, each in enumerate(chain.coordinates) if each.kind == "length"]
    points = np.vstack([beads, np.zeros(chain.dim)])  # bead −1 is the base
    pairs = [chain.coordinates[row].beads for row in rows]
    ends = points[np.array(pairs, dtype=np.intp).reshape(-1, 2)]
    ends, beads = _seen(ax, ends, points[: chain.n])
    color = None if values is None else _of_bonds(chain, rows, values)
    _lines(ax, ends, beads, color, label)
    return ax


def _of_bonds(chain: Chain, rows: list[int], values: npt.ArrayLike) -> Array:
    array = arrays.series(values, (), "values")
    if array.shape == (len(rows),):
        return array
    if array.shape != (len(chain.hard),):
        said = f"one per bond, ({len(rows)},), or one per hard coordinate, ({len(chain.hard)},)"
        raise ValueError(f"values must be {said}, got {array.shape}")
    found = np.full(len(chain.coordinates), np.nan)
    found[chain.hard] = array
    return np.asarray(found[rows])  # soft bonds stay without a colour


def _seen(ax: Axes, *points: Array) -> list[Array]:
    """Coordinates in space, or in the plane that the last points fill most, z up, if lying y."""
    dim, shown = points[-1].shape[-1], 3 if ax.name == "3d" else 2
    if dim <= shown:
        return [np.pad(p, [(0, 0)] * (p.ndim - 1) + [(0, shown - dim)]) for p in points]
    away = points[-1] - points[-1].mean(axis=0)
    normal = np.linalg.eigh(away.T @ away)[1][:, 0]
    up = np.eye(3)[2 if abs(normal[2]) < 0.9 else 1]
    up -= up @ normal * normal
    right = np.cross(up, normal)
    right *= np.sign(right[np.abs(right).argmax()])
    return [p @ np.stack([right, up], axis=1) / np.linalg.norm(up) for p in points]


def _sticks(ax: Any, ends: Array, **options: Any) -> Any:
    if ends.shape[-1] == 2:
        return ax.add_collection(LineCollection(list(ends), **options))
    sticks = Line3DCollection(ends, clip_on=False, in_layout=False, **options)
    if len(ends):
        ax.add_collection3d(sticks)
    return sticks


def _lines(
    ax: Any, ends: Array, points: Array, color: Array | None = None, label: str = ""
) -> None:
    paint = {"color": PALETTE[0]} if color is None else {"array": color, "cmap": "viridis_r"}
    before = ax.has_data()
    sticks = _sticks(ax, ends, linewidth=2.0, capstyle="round", **paint)
    ax.plot(*points.T, "o", color="0.2", markersize=2.0, clip_on=False, in_layout=False)
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale()
    ax.axis("off")
    if ax.name == "3d":
        ax.auto_scale_xyz(*np.vstack([ends.reshape(-1, 3), points]).T, had_data=before)
        ax.set_box_aspect(None, zoom=1.3)  # there are no labels to leave room for
    if color is not None:
        bar = ax.figure.colorbar(sticks, ax=ax, shrink=0.8, aspect=20, label=label)
        bar.outline.set_visible(False)


def arm(
    ax: Axes, arm: SerialChain | Linkage, q: npt.ArrayLike, *, tip: npt.ArrayLike | None = None
) -> Axes:
    """Rigid bodies at one posture q (nq,): sticks from joint to joint, and strokes along the axes.

    The last stick leads to ``tip (3,)``, a point of the last body, by default its mass centre; in
    a linkage sticks lead from bodies to their closures.  Axes are those of `chain`; several
    postures share them.
    """
    from fixman.rigid import closed, kinematics, model

    q = arrays.series(q, (), "q")
    if isinstance(arm, closed.Linkage):
        arms = arm.chains
        ends: list[Any] = [end for each in arm.closures for end in (each.a, each.b)]
    else:
        model.require_arm(arm)
        arms, ends = (arm,), []
    if q.shape != (arm.nq,):
        raise ValueError(f"q must be one posture ({arm.nq},), got {q.shape}: take a frame")
    points: list[Any] = [e.point for e in ends if e.body is None]
    sticks: list[Any] = []
    turns: list[Any] = []
    for k, each in enumerate(arms):
        part, q = np.split(q, [each.nq])
        R, x = kinematics.frames(each, part)
        places = [(e.body, e.point) for e in ends if e.chain == k and e.body is not None]
        if not any(body == each.n - 1 for body, _ in places):
            places.append((each.n - 1, each.centres[-1] if tip is None else tip))
        far = [kinematics.position(each, part, *place) for place in places]
        joints = x if each.joints[0] == "free" else np.vstack([np.zeros(3), x])
        sticks += [*np.stack([joints[:-1], joints[1:]], axis=1)]
        sticks += [np.stack([x[body], end]) for (body, _), end in zip(places, far, strict=True)]
        points += [*joints, *far]
        turns.append(np.stack([x - R[..., 2], x + R[..., 2]], axis=1))
    seen, strokes = np.stack(points), np.concatenate(turns)
    middle = strokes.mean(axis=1, keepdims=True)
    strokes = middle + 0.04 * np.ptp(seen, axis=0).max() * (strokes - middle)
    lines, strokes, seen = _seen(ax, np.stack(sticks), strokes, seen)
    _lines(ax, lines, seen)
    _sticks(ax, strokes, color=PALETTE[1], linewidth=3.0)
    return ax


def trajectory(
    ax: Axes,
    run: Run | Trajectory,
    values: npt.ArrayLike | None = None,
    *,
    names: Sequence[str] = (),
) -> Axes:
    """Numbers (frames, ...) against time, by default the change of energy of rigid bodies.

    A `Run` needs `values`, such as ``observables.radius_of_gyration(run.chain, run.x)``: each
    replica is a thin line, their mean a thick one.  Each component of a rigid-body array such as
    ``run.q`` is one line; ``names`` of the components make a legend, by default those of the joints
    that the run knows, if each joint has one coordinate.
    """
    time = np.asarray(run.time if hasattr(run, "time") else run.times)
    if values is None:
        if not hasattr(run, "energy"):
            raise ValueError("values must be given: a run of chains has no energy of its own")
        values = run.energy - run.energy[0]
        ax.set_ylabel("change of energy")
    each = arrays.series(values, (), "values")
    if each.shape[:1] != time.shape:
        raise ValueError(f"values must have shape {(len(time), '...')}, got {each.shape}")
    known = getattr(run, "names", ())
    if known and not names and each.shape == run.q.shape == (len(time), len(known)):  # type: ignore[union-attr]
        names = known
    each = each.reshape(len(time), -1)
    if hasattr(run, "times"):
        ax.plot(time, each, color="0.7", linewidth=0.5)
        each = each.mean(axis=1, keepdims=True)
    lines = ax.plot(time, each)
    if names:
        ax.legend(lines, names)
    ax.set_xlabel("time")
    return ax


def distribution(
    ax: Axes, rigid: npt.ArrayLike, stiff: npt.ArrayLike, bins: Any = 40, *, label: str = ""
) -> Axes:
    """Densities of one quantity in the rigid and in the stiff ensemble, from samples of any shape.

    ``bins`` as `numpy.histogram` takes them; the edges are common to both.
    """
    given = {"rigid": rigid, "stiff": stiff}
    samples = {name: np.ravel(arrays.series(x, (), name)) for name, x in given.items()}
    edges = np.histogram_bin_edges(np.concatenate(list(samples.values())), bins)
    for color, (ensemble, values) in zip(PALETTE, samples.items(), strict=False):
        density, _ = np.histogram(values, edges, density=True)
        ax.stairs(density, edges, color=color, label=ensemble)
    ax.set(xlabel=label, ylabel="density")
    _legend_above(ax, columns=2)
    return ax


def ramachandran(ax: Axes, phi: npt.ArrayLike, psi: npt.ArrayLike, bins: int = 60) -> Axes:
    """Free energy −ln p in kT over two torsions in radians, from samples of any shape.

    The lowest bin is 0; bins that were never visited are white.
    """
    edges = np.linspace(-180.0, 180.0, arrays.positive_int(bins, "bins") + 1)
    pair = []
    for x, name in ((phi, "phi"), (psi, "psi")):
        degrees = np.degrees(arrays.series(x, (), name)).ravel()
        if np.abs(degrees).max() > 181.0:
            raise ValueError(f"{name} has values beyond ±π: give radians from −π to π")
        pair.append(np.clip(degrees, -180.0, 180.0))  # π of single precision is larger
    count, _, _ = np.histogram2d(pair[0], pair[1], edges)
    with np.errstate(divide="ignore"):
        energy = np.log(count.max()) - np.log(count)
    energy[count == 0] = np.nan
    mesh = ax.pcolormesh(edges, edges, energy.T, cmap="viridis", rasterized=True)
    ax.set_aspect("equal")
    ax.set(xlabel="φ  (degrees)", ylabel="ψ  (degrees)")
    ax.set(xticks=range(-180, 181, 90), yticks=range(-180, 181, 90))
    ax.figure.colorbar(mesh, ax=ax, shrink=0.8, aspect=20, label="free energy  (kT)")
    return ax


def audit_histogram(
    ax: Axes,
    samples: Mapping[str, npt.ArrayLike],
    ensemble: Ensemble = "rigid",
    *,
    reweighted: Collection[str] | None = None,
) -> Axes:
    """Distribution of ½ ln det H^bb about its mean, in kT, one outline per labelled group.

    Solid: samples as they are. Dashed: reweighted to the other ensemble, by (det H^bb)^(∓1/2); only
    for the `reweighted` labels if given; the legend says which labels were left out.
    """
    reweightable = samples.keys() if reweighted is None else set(reweighted)
    for number, (label, values) in enumerate(samples.items()):
        half = arrays.series(values, (), "samples").ravel()
        deviation = half - np.mean(half)
        edges = np.histogram_bin_edges(deviation, bins=min(50, max(5, int(np.sqrt(half.size)))))
        color = PALETTE[number % len(PALETTE)]
        plain, _ = np.histogram(deviation, edges, density=True)
        more = "" if label in reweightable else ", too few to reweight"
        ax.stairs(plain, edges, color=color, label=f"{label}{more}")
        if label in reweightable:
            weights = weights_to_other(deviation, ensemble)
            weighted, _ = np.histogram(deviation, edges, density=True, weights=weights)
            ax.stairs(weighted, edges, color=color, linestyle="--")
    key = PALETTE[0] if len(samples) == 1 else "0.4"  # grey stands for every colour
    if reweightable:
        label = f"reweighted to {other_ensemble(ensemble)}"
        ax.plot([], [], color=key, linestyle="--", label=label)
    ax.set(xlabel=r"$\frac{1}{2}\ln\det H^{bb}$ − mean  (kT)", ylabel="density  (1/kT)")
    _legend_above(ax)
    return ax


def angle_histogram(
    ax: Axes, edges: npt.ArrayLike, densities: Sequence[Mapping[Any, Any]], name: str
) -> Axes:
    """Distributions over an angle, one outline per group and ensemble, in degrees.

    `edges` in radians, `densities` per radian; the first of each mapping is drawn solid, the second
    dashed, and in another colour where there is only one group.
    """
    degrees = np.degrees(arrays.series(edges, (), "edges", 1))
    one = len(densities) == 1
    for number, pair in enumerate(densities):
        for k, (ensemble, density) in enumerate(pair.items()):
            color = PALETTE[(k if one else number) % len(PALETTE)]
            values = np.radians(np.asarray(density, dtype=np.float64))
            ax.stairs(
                values, degrees, baseline=None, color=color, linestyle=("-", "--")[k],
                label=ensemble if one else None,
            )  # fmt: skip
    ax.set(xlim=(degrees[0], degrees[-1]), xticks=np.linspace(degrees[0], degrees[-1], 7))
    ax.set(xlabel=f"{name}  (degrees)", ylabel="density  (1/degree)", ylim=(0.0, None))
    if one:
        _legend_above(ax, columns=2)
    return ax


def timing(
    ax: Axes,
    series: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    exponents: Mapping[str, float],
) -> Axes:
    """Seconds against the number of beads, log–log; the legend has the exponents."""
    for color, marker, (name, (n, seconds)) in zip(PALETTE, MARKERS, series.items(), strict=False):
        label = f"{name}, $n^{{{exponents[name]:.2f}}}$" if name in exponents else name
        ax.loglog(n, seconds, marker=marker, color=color, label=label)
    ax.set(xlabel="number of beads  $n$", ylabel="time for one solve  (s)")
    ax.xaxis.set_major_locator(mpl.ticker.LogLocator(numticks=12))
    _legend_above(ax, columns=2)
    return ax


def spy(ax: Axes, part: Partition) -> Axes:
    """Elements of H that are not zero, soft rows above hard ones (Lee & Chirikjian 2005, eq. 24).

    Shades follow the logarithm of |H_ij|: darkest at the block's largest element, lightest at a
    thousandth of this element and below.  White is zero.
    """
    soft, hard = part.H_ab.shape
    image = np.ones((soft + hard, soft + hard, 3))
    a, b = slice(0, soft), slice(soft, soft + hard)
    for name, rows, columns, block, color in (
        ("aa", a, a, part.H_aa, PALETTE[0]),
        ("ab", a, b, part.H_ab, PALETTE[2]),
        ("ba", b, a, part.H_ab.T, PALETTE[2]),
        ("bb", b, b, part.H_bb, PALETTE[1]),
    ):
        size = np.abs(block.toarray())
        shade = np.clip(1.0 + np.log10(np.maximum(size / size.max(), 1e-9)) / 4.0, 0.25, 1.0)
        shade[size == 0.0] = 0.0
        image[rows, columns] -= shade[..., None] * (1.0 - np.array(mpl.colors.to_rgb(color)))
        corner = (columns.stop - 1.0, rows.start)
        ax.annotate(f"$H^{{{name}}}$", corner, color=color, ha="right", va="top")
    ax.imshow(image, interpolation="nearest")
    ax.axhline(soft - 0.5, color="0.6", linewidth=0.5)
    ax.axvline(soft - 0.5, color="0.6", linewidth=0.5)
    ticks = [(soft - 1) / 2, soft + (hard - 1) / 2], [f"{soft} soft", f"{hard} hard"]
    ax.set_xticks(*ticks)
    ax.set_yticks(*ticks, rotation=90, va="center")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_linewidth(0.5)
    return ax


def _legend_above(ax: Axes, columns: int = 1) -> None:
    """Put the legend above the frame: inside, some distribution passes wherever it is."""
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, ncols=columns,
        columnspacing=1.0, handlelength=1.4,
    )  # fmt: skip
