"""Tables of the articulated body, and of its work memory.

``table`` holds a row of LINK constants for every body; after those a row of FRAME more, that only
wrenches and joints of several rates need; and after those the bits of ``places`` (n + 1, 4),
integers: the joint's kind, its first coordinate and rate, and the start of its row of units in
``work``; at the end the numbers of all.  It is one array because each costs 40 ns.
"""

from __future__ import annotations

from typing import Any

from fixman.kernels import jit
from fixman.kernels.compiler.lanes import LANES, integer
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES

# columns of the first rows: cos θ, sin θ, d, cos β, sin β, a, b at q = 0; m, h = m c, and I_O as
# xx, xy, xz, yy, yz, zz; armature, the largest of a joint of several rates, and pitch.  Not θ
# itself: the sines of right angles would not be exact, and a straight arm of n links multiplies
# that error by n².
COS_Z, SIN_Z, SLIDE, COS_X, SIN_X, ALONG_X, ALONG_Y, MASS, MOMENT, INERTIA, ARMATURE, PITCH = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 17, 18,
)  # fmt: skip
LINK = 19
# columns of the second rows: rotation from the user's body frame and its origin in ours; axes and
# place of the joint in our frame of the body before; armature of each rate
TURN, SHIFT, JOINT, PLACE, ROTORS = 0, 9, 12, 21, 24
FRAME = 30

# Rows of `work`, in units.  A joint of one rate: c (2 and 3), the body's wrench (6) → a rate's
# units, and d.  Others: E (9), r (3), c (6), wrench (6), and then the units of each rate: of U/D
# all but what lies along the axis (5), u/D, D, J/D, (D − J)/D.
DRIVE, PIVOT, HELD, SHARE, RATE = 5, 6, 7, 8, 9
BIAS, WRENCH, SHIFTED, ROW = 0, 5, 14, 15
ORIGIN, CARRIED, PUSHED, SEVERAL = 9, 12, 18, 24
DONE, NOT_USABLE, WRONG_SIZE = -1, -2, -3


def padded(n: Any) -> Any:
    """Angles come in full registers: a loop's remainder would cost as much as four of them."""
    return (n + LANES - 1) & -LANES


angles = step(padded)


@step
def sizes(table, size):
    """Numbers of bodies, coordinates, rates and units of work, from the end of a table."""
    return tuple(integer(table, size - 4 + k) for k in range(4))


@step
def place_of(table, n, i):
    """Kind of joint, first coordinate, first rate and row of body i."""
    at = n * (LINK + FRAME) + 4 * i
    return tuple(integer(table, at + k) for k in range(4))


@jit
def seated(table, n, i):
    """Whether joint i is on a body in the user's frame: one with several rates, or the base."""
    if i == 0:
        return True
    kind, _, _, _ = place_of(table, n, i - 1)
    return RATES[kind] > 1


@jit
def first_units(kind, row):
    """Where the units of a joint's rates begin."""
    return row + WRENCH if RATES[kind] == 1 else row + SEVERAL
