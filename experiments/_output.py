"""Arguments and files that every experiment shares."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.ticker import LogLocator
from PIL import Image

from fixman.analysis import plot

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Output:
    """Where one experiment writes, and whether it is to take seconds."""

    quick: bool
    csv: Path
    figure: Path

    @classmethod
    def from_arguments(cls, script: str, description: str | None) -> Output:
        """Read ``--quick`` and ``--out``; files are named after the script.

        What quick runs write is for nobody to publish, and git does not see it.
        """
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--quick", action="store_true", help="small sizes, seconds in all")
        parser.add_argument(
            "--out", type=Path, metavar="DIR", help="folder for the CSV and the PNG"
        )
        arguments = parser.parse_args()
        name = Path(script).stem
        results, figures = HERE / "results", HERE.parent / "figures"
        if arguments.quick:
            results = figures = results / "quick"
        if arguments.out:
            results = figures = arguments.out
        for folder in (results, figures):
            folder.mkdir(parents=True, exist_ok=True)
        return cls(arguments.quick, results / f"{name}.csv", figures / f"{name}.png")

    def write_csv(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write one line a row, columns from the first one's keys."""
        rows = list(rows)
        with self.csv.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {self.csv}")

    def save(self, fig: Any) -> None:
        """Write the figure; call it inside `plot.style`, which sets the resolution."""
        fig.savefig(self.figure)
        with Image.open(self.figure) as image:
            resolution, colours = image.info["dpi"], image.convert("RGB").quantize(256)
        colours.save(self.figure, optimize=True, dpi=resolution)  # a third of the size
        print(f"wrote {self.figure}")


def panels(finding: str, *shape: int, aspect: float = 0.4, **options: Any) -> tuple[Any, Any]:
    """Return a figure of the one width that all share, its title, and axes as `subplots` does."""
    fig = plot.figure(columns=2, aspect=aspect)
    fig.suptitle(finding, fontsize=8, fontweight="bold")
    return fig, fig.subplots(*shape, **options)


def accuracy(ax: Any, series: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]]) -> None:
    """Relative errors against the number of beads, log–log, with a line at the promised 1e-12.

    No error at all is drawn at 1e-17.
    """
    ax.axhline(1e-12, color="0.6", linewidth=0.6, linestyle="--")
    for color, marker, (name, (n, error)) in zip(
        plot.PALETTE, plot.MARKERS, series.items(), strict=False
    ):
        shown = np.maximum(error, 1e-17)
        ax.loglog(n, shown, marker=marker, markersize=2.5, linewidth=0.8, color=color, label=name)
    ax.yaxis.set_major_locator(LogLocator(10.0, numticks=7))
    ax.minorticks_off()


__all__ = ["Output", "accuracy", "panels", "plot"]
