"""The errors that name what went wrong: coordinates, frame or step."""

from __future__ import annotations

__all__ = [
    "ConstraintSolveError",
    "RunDamageWarning",
    "RunFolderError",
    "RunStorageError",
    "RunVersionWarning",
    "SingularConstraintError",
    "SingularCoordinateError",
]


class SingularConstraintError(ValueError):
    """Hard coordinates that cannot be held independently in this configuration.

    Raised where H^bb has no inverse: bonded beads coincide, a hard angle is straight, or hard
    coordinates depend on each other.
    """


class SingularCoordinateError(ValueError):
    """An answer in soft coordinates was asked where those coordinates are singular.

    A 3-D angle has no gradient where it is 0 or π, and a torsion has none where one of its two
    angles is.  Answers in Cartesian coordinates, tensions and ln det H^bb are not affected.
    """


class ConstraintSolveError(RuntimeError):
    """An iterative projection onto the constraints did not converge."""


class RunFolderError(ValueError):
    """A folder that is not a run, is damaged, is of another run, or is in use."""


class RunStorageError(OSError):
    """A run could not be written on: the disk is full, or its folder was moved or removed."""


class RunVersionWarning(UserWarning):
    """A run goes on with other versions than it began with, so perhaps not bit for bit."""


class RunDamageWarning(UserWarning):
    """A run is damaged, and is read from what is whole; the text says what is lost."""
