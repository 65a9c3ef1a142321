"""Joints, one record each, and all that depends on the kind of a joint.

S is constant in the axes of the moving body exactly where the joint's motions are a connected Lie
subgroup of SE(3); then no derivative of S is needed (Featherstone 2008, section 3.5).  These groups
differ in what they slide along and turn about; so a joint is a line of `JOINTS`, and the tables,
checks, messages and file types of the package follow from it:

    coordinates   place of the body's frame along ``slides``, in the axes of the joint's frame;
                  then the angle about z, or a quaternion (x, y, z, w)
    rates         velocity of the body's origin along ``slides``, then ω, in the body's axes
    S             unit twists in that order, [ω; v] with the angular part first; a joint with a
                  pitch has [z; pitch z]

In a group turns do not lead out of what is slid along: nothing, z, x and y, or all with turns about
z; nothing or all with turns about all axes.

``kind`` is a joint's place in `JOINTS`, ``pitch`` that of a helical one and 0 for all others; its
coordinates begin at ``q[at]``, its rates at ``v[to]``.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import back, constants, store_all, times
from fixman.kernels.algebra.vectors import cross, fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.lanes import above
from fixman.kernels.compiler.steps import step


class JointType(NamedTuple):
    """A kind of joint, by the motions of its body."""

    name: str
    slides: str = ""  # axes: some of "xyz"
    turns: str = ""  # axes: none, "z" or "xyz"
    pitch: bool = False  # whether it advances along z as it turns, by a length that a chain gives
    first: bool = False  # whether it can only be the first of a chain
    urdf: tuple[str, ...] = ()  # its types in files


Name = Literal["revolute", "prismatic", "spherical", "free", "helical", "planar"]
JOINTS = (
    JointType("revolute", turns="z", urdf=("revolute", "continuous")),
    JointType("prismatic", slides="z", urdf=("prismatic",)),
    JointType("spherical", turns="xyz", urdf=("spherical",)),
    JointType("free", slides="xyz", turns="xyz", first=True, urdf=("floating",)),
    JointType("helical", turns="z", pitch=True),
    JointType("planar", slides="xy", turns="z", urdf=("planar",)),
)

# --- tables of the kinds --------------------------------------------------------------------------

NAMES: tuple[Name, ...] = tuple(joint.name for joint in JOINTS)  # type: ignore[misc]
SLIDES = np.array([len(joint.slides) for joint in JOINTS])  # numbers of rates
TURNS = np.array([len(joint.turns) for joint in JOINTS])
RATES = SLIDES + TURNS
POSITIONS = SLIDES + np.array([0, 1, 1, 4])[TURNS]  # numbers of coordinates
PITCHED = np.array([joint.pitch for joint in JOINTS])
# Whether rates are the derivatives of coordinates.
FLAT = (TURNS == 0) | (RATES == 1)
# The direction of each rate among ωx, ωy, ωz, vx, vy, vz, and the rate of each direction or −1.
DIRECTION = np.zeros((len(JOINTS), 6), dtype=np.int64)
RATE_OF = np.full((len(JOINTS), 6), -1)
for _kind, _joint in enumerate(JOINTS):
    _axes = [3 + "xyz".index(x) for x in _joint.slides] + ["xyz".index(x) for x in _joint.turns]
    DIRECTION[_kind, : len(_axes)] = _axes
    RATE_OF[_kind, _axes] = np.arange(len(_axes))

ANGULAR, LINEAR = 0, 3  # where the halves of a twist [ω; v] begin in `RATE_OF`
ZERO = (0.0, 0.0, 0.0)
UNTURNED = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
UNIT = 2e-6  # how far the square of a quaternion's norm may be from 1


@jit
def not_a_number(a):
    """0, or NaN if an element of ``a`` of one axis is NaN or infinite."""
    check = 0.0
    for x in a:
        check += 0.0 * x
    return check


@step
def checked(x):
    """0, or NaN where one of these is no number."""
    total = x[0]
    for k in range(1, len(x)):
        total = total + x[k]
    return 0.0 * total


# --- S --------------------------------------------------------------------------------------------


@jit
def turning(kind, v, to):
    """The turning part of rates, or of what has a number for each of them."""
    x, y, z = RATE_OF[kind, 0], RATE_OF[kind, 1], RATE_OF[kind, 2]
    return v[to + x] if x >= 0 else 0.0, v[to + y] if y >= 0 else 0.0, v[to + z] if z >= 0 else 0.0


@jit
def sliding(kind, v, to):
    """The sliding part of rates, or the place of a body's frame by its coordinates."""
    x, y, z = RATE_OF[kind, 3], RATE_OF[kind, 4], RATE_OF[kind, 5]
    return v[to + x] if x >= 0 else 0.0, v[to + y] if y >= 0 else 0.0, v[to + z] if z >= 0 else 0.0


@jit
def put_rates(kind, turn, slide, out, to):
    """Write what `turning` and `sliding` read."""
    both = (*turn, *slide)
    for j in range(RATES[kind]):
        out[to + j] = both[DIRECTION[kind, j]]


@jit
def joint_twist(kind, pitch, v, to):
    """S θ̇, or S θ̈: angular and linear."""
    turn, slide = turning(kind, v, to), sliding(kind, v, to)
    return turn, (slide[0], slide[1], slide[2] + pitch * turn[2])


@jit
def axis(kind, pitch, j):
    """Column j of S: angular velocity, and velocity of the origin of the body's frame."""
    k = DIRECTION[kind, j]
    e = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
    v = (1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else pitch * e[2])
    return e, v


@jit
def component(kind, pitch, j, n, f):
    """Sᵀ [n; f] of column j: the part of a wrench that the rate feels."""
    k = DIRECTION[kind, j]
    if k == 2:
        return n[2] + pitch * f[2]
    w = n if k < 3 else f
    return w[0] if k % 3 == 0 else w[1] if k % 3 == 1 else w[2]


# --- coordinates ----------------------------------------------------------------------------------


@step
def rotation(e, w):
    """Rotation matrix of a quaternion that is nearly a unit one, and whether it is."""
    x, y, z = e
    norm = x * x + y * y + z * z + w * w
    t = 2.0 / norm  # a rotation to rounding, whatever rounding the quaternion has
    R = (
        1.0 - t * (y * y + z * z), t * (x * y - w * z), t * (x * z + w * y),
        t * (x * y + w * z), 1.0 - t * (x * x + z * z), t * (y * z - w * x),
        t * (x * z - w * y), t * (y * z + w * x), 1.0 - t * (x * x + y * y),
    )  # fmt: skip
    return R, above(norm, 1.0 - UNIT + 0.0 * norm) & above(1.0 + UNIT + 0.0 * norm, norm)


@jit
def joint_motion(kind, pitch, q, at):
    """Rotation E (body → joint frame) and origin p; and 0, or NaN where they cannot be used.

    They cannot where a quaternion is not a unit one or the place beside it is not finite.
    """
    p = sliding(kind, q, at)
    at += SLIDES[kind]
    if TURNS[kind] == 0:
        return UNTURNED, p, 0.0
    if TURNS[kind] == 1:
        c, s = math.cos(q[at]), math.sin(q[at])
        p = (p[0], p[1], p[2] + pitch * q[at])
        return (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0), p, 0.0
    E, unit = rotation(constants(q, at), q[at + 3])
    return E, p, 0.0 * p[0] + 0.0 * p[1] + 0.0 * p[2] if unit else math.nan


@step
def times_quaternion(a, b):
    """The product a b of quaternions (vector, scalar), 1 to the last bit of conjugate ones."""
    (x, s), (y, t) = a, b
    return plus(plus(scaled(s, y), scaled(t, x)), cross(x, y)), s * t - fused_dot(x, y)


@step
def along_screw(v, n, first, second):
    """v + first n × v + second n × (n × v)."""
    w = fused_cross(n, v)
    return plus(v, plus(scaled(first, w), scaled(second, fused_cross(n, w))))


@jit
def unit_vector(w):
    """Length and direction; (0, 0, 0) of no length."""
    size = math.sqrt(fused_dot(w, w))
    return size, scaled(1.0 / size, w) if size > 0.0 else (0.0, 0.0, 0.0)


@step
def quaternion(q, at):
    return constants(q, at), q[at + 3]


@jit
def advance(kind, q, at, v, to, dt, axes, straight, out):
    """Coordinates after the time dt at constant rates, into ``out``; 0, or NaN as above.

    A body that turns and slides follows the screw of its twist, or if ``straight`` a line along the
    axes that it has at the coordinates ``axes``.  For joints that are not FLAT.
    """
    E, p, check = joint_motion(kind, 0.0, q, at)
    angle, n = unit_vector(scaled(dt, turning(kind, v, to)))
    c, s = math.cos(0.5 * angle), math.sin(0.5 * angle)
    end = at + SLIDES[kind]
    if TURNS[kind] == 1:
        out[end] = q[end] + dt * v[to + SLIDES[kind]]
    else:
        e, w = times_quaternion(quaternion(q, end), (scaled(s, n), c))
        store_all(out, end, scaled(1.0 / math.sqrt(fused_dot(e, e) + w * w), (*e, w)))
    slide = sliding(kind, v, to)
    if straight:  # ``axes`` may be what has just been written
        E, _, _ = joint_motion(kind, 0.0, axes, at)
        p = plus(p, scaled(dt, times(E, slide)))
    else:
        rest = 1.0 - 2.0 * s * c / angle if angle > 0.0 else 0.0
        first = 2.0 * s * s / angle if angle > 0.0 else 0.0
        p = plus(p, times(E, along_screw(scaled(dt, slide), n, first, rest)))
    for j in range(SLIDES[kind]):
        out[at + j] = p[DIRECTION[kind, j] - 3]
    return check


@jit
def turn_between(x, y, at):
    """Half the angle from one quaternion to another, π/2 at most, the axis, and 1 − half cot half.

    The axis is that of both frames, and of no turn (0, 0, 0).
    """
    a, s = quaternion(x, at)
    e, w = times_quaternion((scaled(-1.0, a), s), quaternion(y, at))
    if w < 0.0:
        e, w = scaled(-1.0, e), -w
    sine, n = unit_vector(e)
    half = math.atan2(sine, w)
    return half, n, 1.0 - half * w / sine if sine > 0.0 else 0.0


@jit
def way(kind, x, y, at, out, to):
    """Rates that lead from coordinates x to y in unit time, into ``out``; 0, or NaN as above.

    Bodies that turn and slide, or turn about all axes, turn the shorter way.
    """
    if FLAT[kind]:
        for j in range(RATES[kind]):
            out[to + j] = y[at + j] - x[at + j]
        return 0.0
    E, p, check = joint_motion(kind, 0.0, x, at)
    _, p_other, check_other = joint_motion(kind, 0.0, y, at)
    end = at + SLIDES[kind]
    if TURNS[kind] == 3:
        half, n, rest = turn_between(x, y, end)
    else:
        angle = y[end] - x[end]
        half, n = 0.5 * (angle - 2.0 * math.pi * np.rint(angle / (2.0 * math.pi))), (0.0, 0.0, 1.0)
        sine = math.sin(half)
        rest = 1.0 - half * math.cos(half) / sine if sine != 0.0 else 0.0
    slide = along_screw(back(E, minus(p_other, p)), n, -half, rest)
    put_rates(kind, scaled(2.0 * half, n), slide, out, to)
    return check + check_other


@jit
def derivative(kind, q, at, v, to, out):
    if FLAT[kind]:
        for j in range(RATES[kind]):
            out[at + j] = v[to + j]
        return
    E, _, _ = joint_motion(kind, 0.0, q, at)
    put_rates(kind, turning(kind, v, to), times(E, sliding(kind, v, to)), out, at)
    if TURNS[kind] == 3:
        end = at + SLIDES[kind]
        e, w = times_quaternion(quaternion(q, end), (scaled(0.5, turning(kind, v, to)), 0.0))
        store_all(out, end, (*e, w))


# --- springs and dampers -------------------------------------------------------------------------


@step
def pulled(k, half, axis, second):
    """−J_r⁻ᵀ K Δ of a spherical joint, Δ = 2 half axis."""
    return along_screw(tuple(-2.0 * half * k[j] * axis[j] for j in range(3)), axis, -half, second)


@jit
def passive(kinds, damping, stiffness, rest, q, qd, out):
    """Add −damping θ̇ − ∂E/∂θ of one state to ``out (nv,)``; quaternions are not looked at.

    A spherical joint's ∂E/∂θ is J_r⁻ᵀ K Δ, since ω = J_r Δ̇ in the axes of its body.
    """
    at = to = 0
    for i in range(kinds.size):
        kind = kinds[i]
        if FLAT[kind]:
            for j in range(RATES[kind]):
                out[to + j] -= stiffness[to + j] * (q[at + j] - rest[at + j])
        elif SLIDES[kind] == 0:
            k = constants(stiffness, to)
            if k[0] + k[1] + k[2] > 0.0:
                half, axis, second = turn_between(rest, q, at)
                pull = pulled(k, half, axis, second)
                for j in range(3):
                    out[to + j] += pull[j]
        for j in range(to, to + RATES[kind]):
            out[j] -= damping[j] * qd[j]
        at += POSITIONS[kind]
        to += RATES[kind]


@jit
def passive_frames(kinds, springs, q, qd, out):
    """Add `passive` to every row of ``out (frames, nv)``; the first that is not finite, or −1."""
    damping, stiffness, rest = springs
    for frame in range(q.shape[0]):
        passive(kinds, damping, stiffness, rest, q[frame], qd[frame], out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame
    return -1
