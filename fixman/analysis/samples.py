"""From positions to what an audit collects: hard values, their means, determinants, sizes.

Everything takes x (frames, chains, n, 3) and keeps the first axis, so that the numbers of a frame
are the same, to the last bit, wherever and together with which others it is evaluated.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fixman.analysis.groups import Floats, Indices, Molecules, counted
from fixman.analysis.hard_values import HardValues
from fixman.chains import hard_sets, straight_bends, topology
from fixman.chains.chain import Chain
from fixman.chains.coordinates import Coordinate
from fixman.errors import ConstraintSolveError, FrameError
from fixman.kernels.chain.rows import ANGLE, TORSION
from fixman.mechanics.metric import logdet

Numbers = npt.NDArray[Any]

SCATTERED = np.sqrt(2.0 * np.log(2.0))  # rad: a resultant of ½, beyond it no circular mean

# Springs of force fields let bonds vary by 1.4 % and angles by 0.03 rad or more at room
# temperature; positions rounded to 0.01 Å, as in XTC files, give 0.4 % and 0.01 rad.
HELD_LENGTH = 0.01  # relative to the mean
HELD_ANGLE = 0.02  # rad, torsions too
FINEST = 1e-6  # nearer to constant than this is the rounding of single precision
LOOKS, SEEN = 25, 1 << 20  # frames and beads by which it is told which bends are straight
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0  # its multiples are spread evenly over fractions
ANGLE_EDGES = np.linspace(0.0, np.pi, 61)
TORSION_EDGES = np.linspace(-np.pi, np.pi, 61)


class Scatter(NamedTuple):
    """How much the hard coordinates vary over all samples, before anything is set."""

    rows: int = 0
    held: int = 0  # vary no more than rounding makes them
    turning: int = 0  # torsions that are scattered over the circle
    loosest: str = ""  # which varies most, and by how much


class Meter:
    """Measures molecules of one kind: their ``chain``, and what is soft in it."""

    def __init__(
        self, molecules: Molecules, hard: str | Sequence[str], straight: npt.ArrayLike = ()
    ) -> None:
        self.molecules = molecules
        self.chain = chain = molecules.chain(hard, straight)
        rows, table = chain.layout.hard_rows, chain.layout.rows
        self._turns, self._straight = rows.trait("periodic"), rows.trait("straight")
        self.hard = HardValues(molecules, chain)
        soft = soft_rows(chain)
        soft = soft[soft < 3 * chain.n]
        self.soft_angles = table.take(soft[table.kinds[soft] == ANGLE])
        torsions = table.take(soft[table.kinds[soft] == TORSION])
        # The torsions of siblings place branches instead of following bonds.
        follow = topology.along(torsions.columns.astype(np.int64), molecules.pairs)
        self.soft_torsions = torsions.take(np.flatnonzero(follow))

    def sums(self, x: Floats) -> dict[str, Numbers]:
        """Sum hard values, their squares, and e^{iφ} of torsions over the chains of a frame."""
        q = self.chain.hard_values(x)
        turning = np.sum(np.exp(1j * q[..., self._turns]), axis=1)
        return {"plain": np.sum(q, axis=1), "squares": np.sum(q**2, axis=1), "turning": turning}

    def means(self, sums: Mapping[str, Numbers], samples: int) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every hard coordinate, from the sums of all frames.

        Lengths and angles: arithmetic means. Torsions: circular means arg ⟨e^{iφ}⟩, and
        √(−2 ln |⟨e^{iφ}⟩|). Straight bends: 0.
        """
        values: Floats = np.sum(sums["plain"], axis=0) / samples
        values[self._straight] = 0.0
        variances = np.sum(sums["squares"], axis=0) / samples - values**2
        turning = np.sum(sums["turning"], axis=0) / samples
        values[self._turns] = np.angle(turning)
        variances[self._turns] = -2.0 * np.log(np.maximum(np.abs(turning), 1e-300))
        return values, np.sqrt(np.maximum(variances, 0.0))

    def scatter(
        self, values: Floats, deviations: Floats, name: Callable[[int], str] = str
    ) -> Scatter:
        """Judge the deviations of the hard coordinates from their means."""
        rows = [self.chain.coordinates[row] for row in self.chain.hard]
        lengths = np.array([row.kind == "length" for row in rows], dtype=bool)
        varies = np.where(lengths, deviations / np.where(lengths, values, 1.0), deviations)
        share = varies / np.where(lengths, HELD_LENGTH, HELD_ANGLE)
        worst = int(np.argmax(share))
        size = max(float(varies[worst]), FINEST)
        amount = f"{100.0 * size:.2g} %" if lengths[worst] else f"{size:.2g} rad"
        return Scatter(
            len(rows),
            held=int(np.sum(share <= 1.0)),
            turning=int(np.sum(deviations[self._turns] > SCATTERED)),
            loosest=f"{row_name(rows[worst], self.molecules, name)} varies by {amount}",
        )

    def measure(
        self, x: Floats, values: Floats | None = None, *, histograms: bool = False
    ) -> dict[str, Numbers]:
        """Return what frames x (frames, chains, n, 3) contribute to an audit.

        ½ ln det H^bb is evaluated with the hard `values`, and all else as it is: setting angles
        along a chain moves its far end by much more than they fluctuate.
        """
        masses = self.chain.masses / np.sum(self.chain.masses)
        about = x - np.einsum("...nd,n->...d", x, masses)[..., None, :]
        answer: dict[str, Numbers] = {
            "square_gyration": np.einsum("...nd,...nd,n->...", about, about, masses),
            "fingerprint": _fingerprint(about),
        }
        if self.molecules.bonds is None:
            answer["square_end_to_end"] = np.sum((x[..., -1, :] - x[..., 0, :]) ** 2, axis=-1)
        if histograms:
            for name, rows, edges in (
                ("angles", self.soft_angles, ANGLE_EDGES),
                ("torsions", self.soft_torsions, TORSION_EDGES),
            ):
                answer[name] = _counts(rows.values(x)[0].reshape(*x.shape[:2], -1), edges)
        there = x if values is None else self.hard.set(x, values)
        answer["half_logdet"] = 0.5 * logdet(self.chain, there)
        return answer


def meters(
    molecules: Sequence[Molecules],
    hard: str | Sequence[str],
    name: Callable[[int], str] = str,
    looks: Sequence[Floats] = (),
) -> tuple[list[Meter], list[str]]:
    """One meter for each kind of molecule that has a hard coordinate, and notes on the others.

    ``name`` names atoms; bends that are straight in ``looks`` (..., n, 3) are held as such.
    """
    kinds = hard_names(hard)
    found, notes = [], []
    for number, one in enumerate(molecules):
        meter = Meter(one, kinds, looks[number] if looks else ())
        if not len(meter.chain.hard):
            lack = "no hydrogen" if kinds == ("h-bonds",) else f"too short for {', '.join(kinds)}"
            notes.append(f"skipped {one.label()}: {lack}")
            continue
        found.append(meter)
        bends, dropped = meter.chain.straight, meter.chain.redundant
        if bends:
            first = row_name(Coordinate("angle", bends[0]), one, name)
            held = counted(len(bends), "straight bend")
            notes.append(f"{one.label()}: held {held} in line: {first}")
        if dropped:
            first = row_name(dropped[0], one, name)
            rows = f"{counted(len(dropped), 'hard row')} that follow{'s' * (len(dropped) == 1)}"
            notes.append(f"{one.label()}: left out {rows} from the others, the first is {first}")
    if not found:
        raise ValueError(f"no chain has a hard coordinate among {', '.join(kinds)}")
    return found, notes


def evenly(frames: int) -> Indices:
    """Numbers of up to `LOOKS` frames out of so many."""
    return np.unique(np.linspace(0, frames - 1, LOOKS).astype(np.intp))


def thinned(x: Floats) -> Floats:
    """Return some molecules of x (..., molecules, n, 3), in `LOOKS` frames `SEEN` beads or so."""
    return x[..., :: 1 + LOOKS * x.shape[-3] * x.shape[-2] // SEEN, :, :]


def hard_names(hard: str | Sequence[str]) -> tuple[str, ...]:
    """Check a hard set by name: kinds, or one of the words for molecules."""
    found = hard_sets.named(hard)
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, tuple) or not found or not all(isinstance(k, str) for k in found):
        raise ValueError(f"hard must be words, got {hard!r:.80}: {hard_sets.CHOICES}")
    return found


def row_name(row: Coordinate, molecules: Molecules, name: Callable[[int], str] = str) -> str:
    """Name a coordinate by the atoms of the first molecule, such as ``length(CA 5, C 6)``."""
    return f"{row.kind}({', '.join(name(int(molecules.atoms[0, bead])) for bead in row.beads)})"


def soft_rows(chain: Chain) -> Indices:
    """Places of the soft coordinates of the shape that straight bends do not leave undefined."""
    rows = chain.layout.rows
    soft = ~(chain.hard_mask | rows.external)
    lines = straight_bends.Lines(chain.straight)
    soft[straight_bends.over(lines, rows, chain.n * chain.dim)] = False
    redundant = set(chain.redundant)  # they follow from hard ones
    places = [row for row in np.flatnonzero(soft).tolist() if rows[row] not in redundant]
    return np.array(places, dtype=np.intp)


def _fingerprint(about: Floats) -> Floats:
    """|Σ_k w_k (x_k − x̄)|² with weights that are all different, by which copies are known.

    A methyl that turns changes it, but neither ln det H^bb nor a size.
    """
    weights = np.arange(1, about.shape[-2] + 1) * GOLDEN % 1.0 - 0.5
    away = np.einsum("...nd,n->...d", about, weights)
    return np.asarray(np.sum(away**2, axis=-1))


def _counts(values: Floats, edges: Floats) -> Numbers:
    """Histogram the last axis: (..., m) to (..., bins)."""
    bins = len(edges) - 1
    width = (edges[-1] - edges[0]) / bins
    place = np.clip(((values - edges[0]) / width).astype(np.intp), 0, bins - 1)
    first = bins * np.arange(int(np.prod(values.shape[:-1])))
    flat = (place.reshape(len(first), -1) + first[:, None]).ravel()
    counts = np.bincount(flat, minlength=bins * len(first)).astype(np.int32)
    return counts.reshape(*values.shape[:-1], bins)


@contextmanager
def numbered(frames: Sequence[int] | Indices) -> Iterator[None]:
    """Give the frames of a block x (frames, chains, ...) their own numbers in errors."""
    try:
        yield
    except (FrameError, ConstraintSolveError) as error:
        if not isinstance(error.frame, tuple):
            raise
        number, chain = int(frames[error.frame[0]]), error.frame[1]
        raise error.moved((number, chain), f" in frame {number}, chain {chain}") from error
