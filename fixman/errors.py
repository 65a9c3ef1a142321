"""The errors that name what went wrong: coordinates, frame or step."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from fixman.chains.coordinates import Coordinate

Frame = int | tuple[int, ...] | None


def printable(text: str) -> str:
    """Spell out characters by which text of a stranger's file would steer a terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def meant(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean length?)``, the nearest of the known words, or nothing."""
    spelled = {each.lower(): each for each in known}
    near = difflib.get_close_matches(word.lower(), spelled, 1)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""


class _LocatedError(Exception):
    """An error that holds as data what its text says; ``in frame 3`` stands behind ``text``."""

    def __init__(
        self,
        text: str = "",
        rest: str = "",
        *,
        frame: Frame = None,
        coordinates: Iterable[Coordinate] = (),
        beads: Iterable[int] = (),
        body: int | None = None,
        step: int | None = None,
        replica: int | None = None,
    ) -> None:
        super().__init__(text + _where(frame) + rest)
        self._text, self._rest = text, rest
        self.frame = frame
        self.coordinates = tuple(coordinates)
        named = tuple(beads) or tuple(bead for row in self.coordinates for bead in row.beads)
        self.beads = tuple(dict.fromkeys(int(bead) for bead in named if bead >= 0))
        self.body, self.step, self.replica = body, step, replica

    def moved(self, frame: Frame, where: str | None = None) -> Self:
        """Return the same error in another frame, in words ``where`` if `` in frame 3`` is not."""
        other = type(self).__new__(type(self))  # copy(self) is tblib's where Dask is in use
        vars(other).update(vars(self) | {"frame": frame})
        other.args = (self._text + (where or _where(frame)) + self._rest,)
        return other


def _where(frame: Frame) -> str:
    return "" if frame is None else f" in frame {frame}"


class FrameError(_LocatedError, ValueError):
    """A configuration or another numerical argument for which there is no answer.

    Attributes
    ----------
    frame : int, tuple of int or None
        Index of the configuration, one number for each leading axis; None if there is no such axis.
    coordinates : tuple of Coordinate
        Coordinates that are singular or depend on each other.
    beads : tuple of int
        Beads at fault, without the base point; by default all beads of ``coordinates``.
    body : int or None
        Number of a body of a `fixman.rigid.SerialChain`.
    step, replica : int or None
        Where a stepper failed, see `ConstraintSolveError`.
    """


class SingularConstraintError(FrameError):
    """Hard coordinates that cannot be held independently in this configuration.

    H^bb has no inverse: bonded beads coincide, a hard angle is straight, or hard coordinates depend
    on each other.
    """


class SingularCoordinateError(FrameError):
    """An answer in soft coordinates needs a coordinate that is singular there.

    A 3-D angle has no gradient where it is 0 or π, and a torsion has none where one of its two
    angles is 0 or π.  Cartesian coordinates, tensions and ln det H^bb are not affected.
    """


class ConstraintSolveError(_LocatedError, RuntimeError):
    """An iterative projection onto the constraints did not converge.

    The attributes are those of `FrameError`.  If a stepper failed, ``step`` counts from the start
    of the state, and ``frame`` is None.
    """


class RunFolderError(ValueError):
    """A file that is not a run, is damaged, or is in use."""


class RunStorageError(OSError):
    """A run could not be written: the disk is full, or the file of the run was moved or removed."""


class RunVersionWarning(UserWarning):
    """A run is resumed with other versions than before, so the last bits may differ."""


class RunDamageWarning(UserWarning):
    """A run is damaged; its undamaged part is read, and the text says what is lost."""


class ShortSeriesWarning(UserWarning):
    """A series is shorter than 50 of its correlation times, so errors are too small."""
