"""The kinds of internal coordinate: one record each, from which all else is derived.

A row depends on up to four points through the bonds between successive ones, u, v and t (each is
the d of Lee & Chirikjian 2005, eq. 17); û = u/L_u.
∂q/∂x of a point is the gradient with respect to the bond that ends there minus that with respect to
the bond that begins there.  A rate is (∂²q/∂u∂u) u̇, row by row.  Formulas are those of theory.md
section 2, for floats and `eight` states in lanes alike, to the last digit.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra import field
from fixman.kernels.algebra.vectors import cross, dot, minus, plus, put_vector, scaled, vector
from fixman.kernels.compiler.lanes import above, beyond, choose, entry, fma, larger, root, smaller
from fixman.kernels.compiler.steps import chosen, exact_step, moving, rates, still

SMALLEST_SINE = 4.0 * 2.0**-52  # a smaller divisor leaves no digit of a gradient
# Squares of bond lengths in between leave room for the eighth powers in the four-point forms.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-70, 1e70
NONE = (0.0, 0.0, 0.0)  # the gradient with respect to a bond that does not matter
Step = Callable[..., Any]
Steps = tuple[Step, Step, Step, Step]


class Kind(NamedTuple):
    """A kind of coordinate.

    Steps get the bonds u, v and t; where a kind has fewer beads, the others repeat the last bond,
    and of one bead all three are its position.

    measure : (u, v, t) → value, scale, divisor
        The scale is the length that errors are compared with.  An ``angle`` has cosine and sine
        first, up to a factor.  The gradient is divided by the divisor, such as the sine of an
        angle, which is 0 where there is none, and 1 where there always is one.
    gradient : (u, v, t) → ∂q/∂u, ∂q/∂v, ∂q/∂t
        Made of sums, products, divisions and roots, so that its own derivatives follow.
    polynomial : (u, v, t) → three vectors
        A multiple of the gradient that is a polynomial, for elimination in a finite field.
    rest : (value, scale, u, v, g, goal, size) → rest, whole, noise
        Goal less value, its unit, and rounding where positions are of a size; g is the last of the
        row's vectors where a drift began (see `general_steps`).
    """

    name: str
    meaning: str  # the value for beads i, j, k, l
    beads: int
    measure: Step
    gradient: Step
    polynomial: Step
    rest: Step
    bonds: tuple[int, ...] = ()  # which of u, v, t must have a direction
    angle: bool = False  # whether the value is the angle of measure's cosine and sine
    periodic: bool = False  # whether 2π is nothing
    radians: bool = False  # or in the unit of x
    positive: bool = False  # wherever there is a gradient
    everywhere: bool = False  # whether there is a value where there is no gradient
    swaps: tuple[tuple[int, ...], ...] = ()  # orders of beads that name it too; others follow
    extra: bool = True  # whether users may name it, as in ``extra=``
    straight: bool = False  # one of the two rows of a bend that is held straight
    same_as: str = ""  # the kind whose formulas it has
    plane: str | None = ""  # and that in the plane; None where there is none
    label: str | None = None  # in the text of a chain; empty where another row is counted for it
    singular: str = ""  # why there is no gradient where the divisor is 0


@exact_step
def measurable(square):
    zero = 0.0 * square
    return above(square, zero + SMALLEST_SQUARE) & above(zero + LARGEST_SQUARE, square)


@exact_step
def unit(u):
    return scaled(1.0 / root(dot(u, u)), u)


# --- distances from goals ------------------------------------------------------------------------


@exact_step
def value_rest(value, scale, u, v, g, goal, size):
    return goal[0] - value, scale, size + size


@exact_step
def square_rest(value, scale, u, v, g, goal, size):
    """The goal is ½ d² and d."""
    return fma(-0.5, dot(u, u), goal[0]), goal[0] + goal[0], size * goal[1]


@exact_step
def noise_of_bends(u, v, size):
    return size * (1.0 / root(dot(u, u)) + 1.0 / root(dot(v, v)))


@exact_step
def angle_rest(c, s, u, v, g, goal, size):
    """The sine of the difference, and from there on to 2 where that is beyond π/2.

    The goal is cosine and sine.
    """
    a, b = goal
    zero = 0.0 * size
    inverse = 1.0 / root(fma(s, s, c * c))
    sine = (b * c - a * s) * inverse
    rest = 2.0 - larger(sine, -sine)
    rest = choose(beyond(zero, sine), -rest, rest)
    rest = choose(beyond(zero, a * c + b * s), rest, sine)
    return rest, zero + 1.0, noise_of_bends(u, v, size)


@exact_step
def straight_rest(value, scale, u, v, g, goal, size):
    """Zero is the goal, of the component across the line along the gradient g that the row had."""
    return -dot(unit(g), minus(unit(v), unit(u))), 0.0 * size + 1.0, noise_of_bends(u, v, size)


# --- positions and lengths -----------------------------------------------------------------------


def position(axis: int) -> Steps:
    def measure(u, v, t):
        return u[axis], 1.0, 1.0

    def gradient(u, v, t):
        return tuple(float(a == axis) for a in range(3)), NONE, NONE

    def polynomial(u, v, t):
        return tuple(int(a == axis) for a in range(3)), field.NOTHING, field.NOTHING

    return exact_step(measure), exact_step(gradient), exact_step(polynomial), value_rest


@exact_step
def length_measure(u, v, t):
    length = root(dot(u, u))
    return length, length, 1.0


@exact_step
def length_gradient(u, v, t):
    return unit(u), NONE, NONE


@exact_step
def bond_polynomial(u, v, t):
    return u, field.NOTHING, field.NOTHING


@exact_step
def square_measure(u, v, t):
    half = 0.5 * dot(u, u)
    return half, half, 1.0


@exact_step
def square_gradient(u, v, t):
    return u, NONE, NONE


@exact_step
def sixth(u):
    square = field.dot(u, u)
    return field.scaled(field.times(square, square), u)


def pair(sign: float) -> Steps:
    """Steps of |u| + |t| or |u| − |t|."""

    def measure(u, v, t):
        one, two = root(dot(u, u)), root(dot(t, t))
        return one + sign * two, one + two, 1.0

    def gradient(u, v, t):
        return unit(u), NONE, scaled(sign, unit(t))

    def polynomial(u, v, t):
        # L⁶ stands in the place of L, which takes no root: these depend on each other where the
        # lengths do, but for accidents.
        gt = sixth(t) if sign > 0 else field.minus(field.NOTHING, sixth(t))
        return sixth(u), field.NOTHING, gt

    return exact_step(measure), exact_step(gradient), exact_step(polynomial), value_rest


@exact_step
def from_centroid(u, v):
    """Way from the centroid of beads i and j to bead k."""
    return plus(scaled(0.5, u), v)


@exact_step
def centroid_measure(u, v, t):
    w = from_centroid(u, v)
    length = root(dot(w, w))
    return length, length, length / (root(dot(u, u)) + root(dot(v, v)))


@exact_step
def centroid_gradient(u, v, t):
    e = unit(from_centroid(u, v))
    return scaled(0.5, e), e, NONE


@exact_step
def centroid_polynomial(u, v, t):
    """Half the gradient of 4 L², a multiple of that of L."""
    w = field.plus(u, field.plus(v, v))
    return w, field.plus(w, w), field.NOTHING


# --- angles --------------------------------------------------------------------------------------


@exact_step
def turn_measure(u, v, t):
    return dot(u, v), cross(u, v)[2], 1.0


@exact_step
def direction_row(u):
    """∂α/∂u of the direction α of a bond in the plane."""
    s = 1.0 / dot(u, u)
    return -s * u[1], s * u[0], 0.0 * s


@exact_step
def turn_gradient(u, v, t):
    """θ = α_v − α_u: ∂θ/∂u = −n⊥_u/L_u, ∂θ/∂v = n⊥_v/L_v, where (21) has 1/sin θ."""
    return scaled(-1.0, direction_row(u)), direction_row(v), NONE


@exact_step
def angle_measure(u, v, t):
    w = cross(u, v)
    ww = dot(w, w)
    return dot(u, v), root(ww), root(ww / (dot(u, u) * dot(v, v)))


@exact_step
def angle_gradient(u, v, t):
    """∂θ/∂u = (c û − v̂)/(s L_u), ∂θ/∂v = (c v̂ − û)/(s L_v), by axis = û × v̂ / s."""
    lu, lv = 1.0 / root(dot(u, u)), 1.0 / root(dot(v, v))
    eu, ev = scaled(lu, u), scaled(lv, v)
    axis = unit(cross(eu, ev))
    return scaled(lu, cross(eu, axis)), scaled(lv, cross(axis, ev)), NONE


@exact_step
def angle_polynomial(u, v, t):
    """L_u³ L_v³ ∂ cos θ."""
    c, uu, vv = field.dot(u, v), field.dot(u, u), field.dot(v, v)
    gu = field.scaled(vv, field.minus(field.scaled(uu, v), field.scaled(c, u)))
    gv = field.scaled(uu, field.minus(field.scaled(vv, u), field.scaled(c, v)))
    return gu, gv, field.NOTHING


@exact_step
def torsion_measure(u, v, t):
    m, n = cross(u, v), cross(v, t)
    vv = dot(v, v)
    first = dot(m, m) / (dot(u, u) * vv)
    second = dot(n, n) / (vv * dot(t, t))
    return dot(m, n), root(vv) * dot(u, n), root(smaller(first, second))


@exact_step
def torsion_gradient(u, v, t):
    """With m = u × v, n = v × t: ∂φ/∂u = |v| m/m², ∂φ/∂t = |v| n/n².

    ∂φ/∂v = −(u·v/v²) ∂φ/∂u − (t·v/v²) ∂φ/∂t.
    """
    m, n = cross(u, v), cross(v, t)
    vv = dot(v, v)
    gu = scaled(root(vv) / dot(m, m), m)
    gt = scaled(root(vv) / dot(n, n), n)
    p, q = dot(u, v) / vv, dot(t, v) / vv
    return gu, minus(scaled(-p, gu), scaled(q, gt)), gt


@exact_step
def torsion_polynomial(u, v, t):
    """m² n² L_v ∂φ, m = u × v and n = v × t (Blondel & Karplus 1996)."""
    m, n = field.cross(u, v), field.cross(v, t)
    mm, nn = field.dot(m, m), field.dot(n, n)
    gv = field.plus(
        field.scaled(field.times(field.dot(u, v), nn), m),
        field.scaled(field.times(field.dot(t, v), mm), n),
    )
    vv = field.dot(v, v)
    gu, gt = field.scaled(field.times(vv, nn), m), field.scaled(field.times(vv, mm), n)
    return gu, field.minus(field.NOTHING, gv), gt


# --- straight bends ------------------------------------------------------------------------------
#
# The gradient of an angle has no limit where it is straight.  Three beads that are held in line
# have two rows instead, the components of v̂ − û across û + v̂, in any two directions: H^bb changes
# by a rotation, and its determinant not at all.


@exact_step
def beside(line):
    """Two unit vectors at right angles to a line and to each other (Duff et al. 2017)."""
    x, y, z = unit(line)
    one = 1.0 + 0.0 * z
    sign = choose(beyond(0.0 * z, z), -one, one)
    a = -1.0 / (sign + z)
    b = x * y * a
    return (1.0 + sign * x * x * a, sign * b, -sign * x), (b, sign + y * y * a, -y)


@exact_step
def flattened(u, e):
    """∂(e·û)/∂u."""
    s = 1.0 / root(dot(u, u))
    eu = scaled(s, u)
    return scaled(s, minus(e, scaled(dot(e, eu), eu)))


def straight(second: int) -> Steps:
    """Steps of one component of v̂ − û across û + v̂, which is taken to stay."""

    def measure(u, v, t):
        axis = plus(unit(u), unit(v))
        e = beside(axis)[second]
        # The divisor is 1 where straight, and 0 where folded back.
        return dot(e, minus(unit(v), unit(u))), 1.0, 0.5 * root(dot(axis, axis))

    def gradient(u, v, t):
        e = beside(plus(unit(still(u)), unit(still(v))))[second]
        return scaled(-1.0, flattened(u, e)), flattened(v, e), NONE

    def polynomial(u, v, t):
        """L_u (u·v) ∂(e·(v̂ − û)) for e = (u_y, −u_x, 0) or (u_z, 0, −u_x), which span the rows."""
        e = (u[1], field.less(0, u[0]), 0)
        if second:
            e = (u[2], 0, field.less(0, u[0]))
        gu = field.minus(field.NOTHING, field.scaled(field.dot(u, v), e))
        return gu, field.scaled(field.dot(u, u), e), field.NOTHING

    return exact_step(measure), exact_step(gradient), exact_step(polynomial), straight_rest


# --- the records ---------------------------------------------------------------------------------

IN_LINE = "three successive beads are in line"
FOLDED = "its beads are folded back, where it should be straight"


def _exchanges(*orders: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple("ijkl".index(bead) for bead in order) for order in orders)


_LENGTH = Kind(
    "length", "|x_j − x_i| of two bonded beads", 2,
    length_measure, length_gradient, bond_polynomial, value_rest,
    bonds=(0,), positive=True, swaps=_exchanges("ji"),
)  # fmt: skip

KINDS = (
    *(
        Kind(name, "position of the first bead of a free chain", 1, *position(axis), extra=False)
        for axis, name in enumerate("xyz")
    ),
    _LENGTH,
    Kind(
        "angle", "bending angle, 0 where straight", 3,
        angle_measure, angle_gradient, angle_polynomial, angle_rest,
        bonds=(0, 1), angle=True, radians=True, everywhere=True, swaps=_exchanges("kji"),
        plane="turn", singular=IN_LINE,
    ),
    Kind(
        "torsion", "torsion angle, ±π where trans (IUPAC)", 4,
        torsion_measure, torsion_gradient, torsion_polynomial,
        angle_rest, bonds=(0, 1, 2), angle=True, periodic=True, radians=True,
        swaps=_exchanges("lkji"), plane=None, singular=IN_LINE,
    ),
    _LENGTH._replace(name="distance", meaning="|x_j − x_i| of any two beads", same_as="length"),
    Kind(
        "distance_difference", "|x_j − x_i| − |x_l − x_k|", 4, *pair(-1.0),
        bonds=(0, 2), swaps=_exchanges("jikl", "ijlk"),
    ),
    Kind(
        "distance_sum", "|x_j − x_i| + |x_l − x_k|", 4, *pair(1.0),
        bonds=(0, 2), positive=True, swaps=_exchanges("jikl", "ijlk", "klij"),
    ),
    Kind(
        "centroid_distance", "|x_k − (x_i + x_j)/2|", 3,
        centroid_measure, centroid_gradient, centroid_polynomial, value_rest,
        positive=True, swaps=_exchanges("jik"),
        singular="its last bead lies on the centroid of the other two",
    ),
    *(
        Kind(
            name, "component of v̂ − û across the bonds u and v of a straight bend", 3,
            *straight(second), bonds=(0, 1), radians=True, extra=False, straight=True, plane=None,
            label="" if second else "straight bend", singular=FOLDED,
        )
        for second, name in enumerate(("straight_y", "straight_z"))
    ),
    # Kinds of the library's own: an angle in the plane, and half the square of a length.
    Kind(
        "turn", "bending angle in the plane, counter-clockwise positive", 3,
        turn_measure, turn_gradient, angle_polynomial, angle_rest,
        bonds=(0, 1), angle=True, periodic=True, radians=True, everywhere=True, extra=False,
    ),
    _LENGTH._replace(
        name="square", meaning="½ |x_j − x_i|²", measure=square_measure, gradient=square_gradient,
        rest=square_rest, extra=False,
    ),
)  # fmt: skip
NUMBERS = {kind.name: number for number, kind in enumerate(KINDS)}
LENGTH, ANGLE, TORSION, SQUARE = (NUMBERS[n] for n in ("length", "angle", "torsion", "square"))
BEADS, TURNS, EVERYWHERE = np.array([(k.beads, k.angle, k.everywhere) for k in KINDS]).T.copy()


# --- steps of any kind: the number of the kind comes first ---------------------------------------


@chosen(KINDS)
def bonds(kind, X, points, r, axes, like):
    """Bonds u, v, t of row r in units X; the last that there is is repeated."""
    x = [vector(X, entry(points, 4 * r + k), axes, like) for k in range(kind.beads)]
    found = [minus(after, before) for before, after in pairwise(x)] or x
    return tuple(found[min(k, len(found) - 1)] for k in range(3))


@chosen(KINDS)
def measured(kind, u, v, t):
    """Whether no bond of a row is zero or lost to over- or underflow."""
    good = True
    for bond in kind.bonds:
        w = (u, v, t)[bond]
        good = measurable(dot(w, w)) & good
    return good


@chosen(KINDS)
def measure(kind, u, v, t):
    """Value, scale and divisor; of an angle cosine, sine and divisor: see `Kind`."""
    return kind.measure(u, v, t)


@chosen(KINDS)
def put_gradient(kind, B, at, u, v, t, axes):
    """Write ∂q/∂x of each point from vector ``at`` on, or of one bond ∂q/∂u; return the divisor."""
    gu, gv, gt = kind.gradient(u, v, t)
    found = [gu]
    if kind.beads > 2:
        found = [scaled(-1.0, gu), minus(gu, gv), minus(gv, gt) if kind.beads == 4 else gv, gt]
    for k in range(1 if kind.beads <= 2 else kind.beads):
        put_vector(B, at + k, axes, found[k])
    return kind.measure(u, v, t)[2]


@chosen(KINDS)
def rate(kind, u, v, t, du, dv, dt):
    return rates(kind.gradient(*moving((u, v, t), (du, dv, dt))))


@chosen(KINDS)
def curvature(kind, u, v, t, du, dv, dt):
    """κ = ẋᵀ (∂²q/∂x²) ẋ, the second derivative of q(x + ẋ s) by s."""
    gu, gv, gt = rates(kind.gradient(*moving((u, v, t), (du, dv, dt))))
    return dot(du, gu) + dot(dv, gv) + dot(dt, gt)


@chosen(KINDS)
def rest(kind, value, scale, u, v, g, goal, size):
    """Goal less value, the unit of that, and rounding: see `Kind`."""
    return kind.rest(value, scale, u, v, g, goal, size)


@chosen(KINDS)
def put_polynomial_row(kind, B, r, points, X):
    """Write a multiple of ∂q/∂x of each point at ``B[r]``, given positions in the finite field."""
    x = [tuple(X[points[r, k], a] for a in range(3)) for k in range(kind.beads)]
    found = [field.minus(after, before) for before, after in pairwise(x)] or x
    gu, gv, gt = kind.polynomial(*(found[min(k, len(found) - 1)] for k in range(3)))
    for a in range(3):
        B[r, 0, a] = field.less(0, gu[a])
        B[r, 1, a] = field.less(gu[a], gv[a])
        B[r, 2, a] = field.less(gv[a], gt[a])
        B[r, 3, a] = gt[a]
