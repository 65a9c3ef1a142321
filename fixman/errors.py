"""The errors that name what went wrong: coordinates, frame or step."""

from __future__ import annotations

__all__ = ["ConstraintSolveError", "SingularConstraintError", "SingularCoordinateError"]


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
