"""Figures at journal column width: functions that take and return a matplotlib `ax`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.backend_bases import FigureCanvasBase
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('figures need matplotlib: pip install "fixman-chains[plot]"') from error

from fixman.analysis.averages import Ensemble, other_ensemble, weights_to_other

COLUMN_WIDTH = 3.4  # inches

# Okabe and Ito's colours, told apart by colour-blind readers; one marker each for grey prints.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "x")

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
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
    width = columns * COLUMN_WIDTH
    return Figure(figsize=(width, aspect * width), layout="constrained")


def require_format(path: Path) -> None:
    """Refuse a file name whose suffix names no format that matplotlib writes."""
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.removeprefix(".").lower() not in known:
        raise ValueError(f"{path.name!r} must end in a figure format, one of {', '.join(known)}")


def style() -> Any:
    """Return the context manager under which figures are drawn and saved."""
    return mpl.rc_context(STYLE)


def audit_histogram(
    ax: Axes,
    samples: Mapping[str, npt.ArrayLike],
    ensemble: Ensemble = "rigid",
    *,
    reweighted: Collection[str] | None = None,
) -> Axes:
    """Distribution of ½ ln det H^bb about its mean, in kT, one outline per labelled group.

    Solid: samples as they are. Dashed: reweighted to the other ensemble, by (det H^bb)^(∓1/2); of
    the `reweighted` labels only, where given, and the legend says what was left out.
    """
    reweightable = samples.keys() if reweighted is None else set(reweighted)
    for number, (label, values) in enumerate(samples.items()):
        half = np.ravel(np.asarray(values, dtype=np.float64))
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
    ax.set_xlabel(r"$\frac{1}{2}\ln\det H^{bb}$ − mean  (kT)")
    ax.set_ylabel("density  (1/kT)")
    _legend_above(ax)
    return ax


def angle_histogram(
    ax: Axes, edges: npt.ArrayLike, densities: Sequence[Mapping[Any, Any]], name: str
) -> Axes:
    """Distributions over an angle, one outline per group and ensemble, in degrees.

    `edges` in radians, `densities` per radian; the first of each mapping is drawn solid, the second
    dashed, and in another colour where there is only one group.
    """
    degrees = np.degrees(np.asarray(edges, dtype=np.float64))
    one = len(densities) == 1
    for number, pair in enumerate(densities):
        for k, (ensemble, density) in enumerate(pair.items()):
            color = PALETTE[(k if one else number) % len(PALETTE)]
            values = np.radians(np.asarray(density, dtype=np.float64))
            ax.stairs(
                values, degrees, baseline=None, color=color, linestyle=("-", "--")[k],
                label=ensemble if one else None,
            )  # fmt: skip
    ax.set_xlim(degrees[0], degrees[-1])
    ax.set_xticks(np.linspace(degrees[0], degrees[-1], 7))
    ax.set_xlabel(f"{name}  (degrees)")
    ax.set_ylabel("density  (1/degree)")
    ax.set_ylim(bottom=0.0)
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
    ax.set_xlabel("number of beads  $n$")
    ax.set_ylabel("time for one solve  (s)")
    ax.xaxis.set_major_locator(mpl.ticker.LogLocator(numticks=12))
    _legend_above(ax, columns=2)
    return ax


def _legend_above(ax: Axes, columns: int = 1) -> None:
    """Put the legend above the frame: inside, some distribution passes wherever it is."""
    ax.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, ncols=columns,
        columnspacing=1.0, handlelength=1.4,
    )  # fmt: skip
