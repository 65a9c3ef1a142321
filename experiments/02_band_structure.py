"""Equation 24 of Lee & Chirikjian (2005) as pictures: the four blocks of H, planar and in space.

The CSV has each block's widths: how far its elements reach below and above the diagonal, in rows
of the chain (a bead's rows stay together, so in space the soft rows come two a bead).
"""

from __future__ import annotations

import numpy as np
from _output import Output, plot
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from scipy import sparse

import fixman as fx


def configuration(chain: fx.Chain, rng: np.random.Generator) -> np.ndarray:
    """Return unit bonds at random angles away from the chart's singularities."""
    q = rng.uniform(0.4, 2.7, chain.n * chain.dim)
    for i, coordinate in enumerate(chain.coordinates):
        if coordinate.kind == "length":
            q[i] = 1.0
    return chain.cartesian(q)


def reach(block: sparse.sparray, rows: np.ndarray, columns: np.ndarray) -> tuple[int, int]:
    """Return how many beads elements lie below and above the diagonal at most."""
    i, j = block.nonzero()
    offset = columns[j] - rows[i]
    return int(max(-offset.min(), 0)), int(max(offset.max(), 0))


def describe(name: str, part: fx.Partition) -> list[dict[str, object]]:
    last = np.array([max(c.beads) for c in part.chain.coordinates])
    soft, hard = last[part.chain.soft], last[part.chain.hard]
    lines = []
    for block, matrix, rows, columns in (
        ("H_aa", part.H_aa, soft, soft),
        ("H_ab", part.H_ab, soft, hard),
        ("H_ba", sparse.csr_array(part.H_ab.T), hard, soft),
        ("H_bb", part.H_bb, hard, hard),
    ):
        below, above = reach(matrix, rows, columns)
        lines.append(
            {
                "chain": name,
                "n": part.chain.n,
                "block": block,
                "rows": matrix.shape[0],
                "columns": matrix.shape[1],
                "nonzero": matrix.count_nonzero(),
                "beads_below_diagonal": below,
                "beads_above_diagonal": above,
            }
        )
        print(f"{name}, {block}: reaches {below} beads below and {above} above the diagonal")
    return lines


def draw(ax: Axes, part: fx.Partition) -> None:
    """Draw the elements of H that are not zero, soft rows above hard ones (eq. 24).

    The darker, the larger: shades follow the logarithm of |H_ij|, down to the lightest at a
    thousandth of the block's largest element and below.  White is zero.
    """
    soft, hard = part.H_ab.shape
    starts, sizes = (0, soft), (soft, hard)
    image = np.ones((soft + hard, soft + hard, 3))
    for name, i, j, block, color in (
        ("aa", 0, 0, part.H_aa, plot.PALETTE[0]),
        ("ab", 0, 1, part.H_ab, plot.PALETTE[2]),
        ("ba", 1, 0, part.H_ab.T, plot.PALETTE[2]),
        ("bb", 1, 1, part.H_bb, plot.PALETTE[1]),
    ):
        size = np.abs(block.toarray())
        shade = np.clip(1.0 + np.log10(np.maximum(size / size.max(), 1e-9)) / 4.0, 0.25, 1.0)
        shade[size == 0.0] = 0.0
        inside = np.ix_(starts[i] + np.arange(sizes[i]), starts[j] + np.arange(sizes[j]))
        image[inside] -= shade[..., None] * (1.0 - np.array(to_rgb(color)))
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


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rng = np.random.default_rng(24)
    chains = {
        "planar arm": fx.Chain.linear(16, dim=2, base="fixed"),
        "polymer in space": fx.Chain.linear(12),
    }
    parts = {name: fx.Partition(c, configuration(c, rng)) for name, c in chains.items()}
    out.write_csv([line for name, part in parts.items() for line in describe(name, part)])
    with plot.style():
        fig = plot.figure(aspect=0.58)
        for ax, (name, part) in zip(fig.subplots(1, 2), parts.items(), strict=True):
            draw(ax, part)
            ax.set_title(f"{name}, $n$ = {part.chain.n}")
        out.save(fig)


if __name__ == "__main__":
    main()
