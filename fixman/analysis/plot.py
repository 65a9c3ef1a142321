"""Figures at journal column width: functions that take and return a matplotlib `ax`."""

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
    from matplotlib.figure import Figure
except ImportError as error:
    raise ImportError('figures need matplotlib: pip install "fixman-chains[plot]"') from error

if TYPE_CHECKING:
    from fixman.mechanics.partition import Partition

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
    ensemble: str = "rigid",
    *,
    reweighted: Collection[str] | None = None,
) -> Axes:
    """Distribution of ½ ln det H^bb about its mean, in kT, one outline per labelled group.

    Solid: samples as they are. Dashed: reweighted to the other ensemble, by (det H^bb)^(∓1/2); of
    the `reweighted` labels only, where given, and the legend says what was left out.
    """
    reweightable = samples.keys() if reweighted is None else set(reweighted)
    sign = -1.0 if ensemble == "rigid" else 1.0
    other = "stiff" if ensemble == "rigid" else "rigid"
    for number, (label, values) in enumerate(samples.items()):
        half = np.ravel(np.asarray(values, dtype=np.float64))
        deviation = half - np.mean(half)
        weights = np.exp(sign * deviation - np.max(sign * deviation))
        edges = np.histogram_bin_edges(deviation, bins=min(50, max(5, int(np.sqrt(half.size)))))
        color = PALETTE[number % len(PALETTE)]
        plain, _ = np.histogram(deviation, edges, density=True)
        weighted, _ = np.histogram(deviation, edges, density=True, weights=weights)
        more = "" if label in reweightable else ", too few to reweight"
        ax.stairs(plain, edges, color=color, label=f"{label}{more}")
        if label in reweightable:
            ax.stairs(weighted, edges, color=color, linestyle="--")
    key = PALETTE[0] if len(samples) == 1 else "0.4"  # grey stands for every colour
    if reweightable:
        ax.plot([], [], color=key, linestyle="--", label=f"reweighted to {other}")
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


def blocks(ax: Axes, part: Partition) -> Axes:
    """Elements of H that are not zero, soft rows above hard ones (Lee & Chirikjian 2005, eq. 24).

    The darker, the larger: shades follow the logarithm of |H_ij|, down to the lightest at a
    thousandth of the block's largest element and below.  White is zero.
    """
    soft, hard = part.H_ab.shape
    starts, sizes = (0, soft), (soft, hard)
    image = np.ones((soft + hard, soft + hard, 3))
    for name, i, j, block, color in (
        ("aa", 0, 0, part.H_aa, PALETTE[0]),
        ("ab", 0, 1, part.H_ab, PALETTE[2]),
        ("ba", 1, 0, part.H_ab.T, PALETTE[2]),
        ("bb", 1, 1, part.H_bb, PALETTE[1]),
    ):
        size = np.abs(block.toarray())
        shade = np.clip(1.0 + np.log10(np.maximum(size / size.max(), 1e-9)) / 4.0, 0.25, 1.0)
        shade[size == 0.0] = 0.0
        inside = np.ix_(starts[i] + np.arange(sizes[i]), starts[j] + np.arange(sizes[j]))
        image[inside] -= shade[..., None] * (1.0 - np.array(mpl.colors.to_rgb(color)))
        corner = (starts[j] + sizes[j] - 1.0, starts[i])
        ax.annotate(f"$H^{{{name}}}$", corner, color=color, ha="right", va="top")
    ax.imshow(image, interpolation="nearest")
    ax.axhline(soft - 0.5, color="0.6", linewidth=0.5)
    ax.axvline(soft - 0.5, color="0.6", linewidth=0.5)
    centres = [(soft - 1) / 2, soft + (hard - 1) / 2]
    ax.set_xticks(centres, [f"{soft} soft", f"{hard} hard"])
    ax.set_yticks(centres, [f"{soft} soft", f"{hard} hard"], rotation=90, va="center")
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
