"""Equation 24 of Lee & Chirikjian (2005) as pictures: the four blocks of H, planar and in space.

The CSV has each block's widths: how far its elements reach below and above the diagonal, in rows
of the chain (a bead's rows stay together, so in space the soft rows come two a bead).
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot
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
        fig, axes = panels("Every block of H is banded", 1, 2, aspect=0.5)
        for ax, (name, part) in zip(axes, parts.items(), strict=True):
            plot.spy(ax, part).set_title(f"{name}, $n$ = {part.chain.n}")
        out.save(fig)


if __name__ == "__main__":
    main()
