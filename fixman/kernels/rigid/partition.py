"""The Fixman partition of a serial chain of rigid bodies, any joints (docs/theory.md, section 8).

The relative twist of joint i, (ω, v), is taken at the origin of body i's frame and in its axes, so
that soft rates are some of its components: the basis is six unit vectors, but for a pitch.  With I
about the mass centre, c that centre, r from there to the origin of the next joint's frame and R its
rotation, a body at rest answers wrenches by three constant blocks:

    A = [[I⁻¹, −I⁻¹[c]], [[c]I⁻¹, 1/m − [c]I⁻¹[c]]]                    origin ← origin
    K = [[I⁻¹, I⁻¹[r]], [[c]I⁻¹, 1/m + [c]I⁻¹[r]]] diag(R, R)          origin ← next joint
    C = diag(R, R)ᵀ [[I⁻¹, I⁻¹[r]], [−[r]I⁻¹, 1/m − [r]I⁻¹[r]]] diag(R, R)       next ← next

𝒥_i carries a twist from the joint frame to the body's, v_O = Eᵀ (v + ω × p), ω_O = Eᵀ ω.  From the
base on, with Ĉ of the body before, y the relative acceleration that torques, loads and velocities
cause, and v̇ that of the next joint's frame; then from the tip on, with wrenches u
(docs/theory.md, section 8):

    S = A + 𝒥 Ĉ 𝒥ᵀ                              (P1)
    S_bb = L D Lᵀ,  ln det H^bb = Σ ln D        (P2)
    Ĉ = C − K_bᵀ S_bb⁻¹ K_b                     (P3)
    v̇ += K_aᵀ τ − K_bᵀ S_bb⁻¹ y_b               (P4)
    λ = S_bb⁻¹ (K_b u − y_b)                    (P5)
    θ̈ = y_a + S_ab λ − K_a u                    (P6)
    u = 𝒥ᵀ [λ; τ]                               (P7)

a and b are the soft and the hard rows.  With U = D Lᵀ and W = D⁻¹ L⁻¹ K_b, K_bᵀ S_bb⁻¹ K_b of (P3)
is Wᵀ D W.

A rotor is one more body, of mobility 1/J.  Its angle becomes the soft coordinate k, and that it is
the joint's a further hard row: S_kk += 1/J, y_k −= τ_k/J, θ̈_k = (τ_k − λ_k)/J.

``table (n, TABLE)`` has a row a body, ``work (n, WORK)`` one a joint; columns are named below.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.vectors import fused_cross, minus, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, lane, load, store, take
from fixman.kernels.compiler.steps import step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.rigid import joints as joint

# Columns of a body's row: the three blocks, counted in rows of one register of eight, see `at`;
# then constants for velocities and loads: I⁻¹, I, R, c, r, 1/m, the rotation of the body's own
# joint frame, of which only the first is used, and the kind and pitch of the joint.
AT_A, AT_K, AT_C, INVERSE, INERTIA, ROTATION = 0, 6, 12, 144, 153, 162
CENTRE, LEVER, LIGHT = 171, 174, 177
BASE, KIND, PITCH = 178, 187, 188
# The joint's six rows: hard ones, those with a rotor, soft ones; how many are not soft; their 1/J.
ROWS, NOT_SOFT, GEAR = 189, 195, 196
TABLE = 202
# Columns of a joint, blocks as above: S before elimination, U of its hard rows, W; E, p and pitch
# of 𝒥; L⁻¹y over the pivots and the soft part of y; y of rows with a rotor.
AT_S, AT_U, AT_W, TURN, WAY, SCREW, Y, Y_ROTOR = 0, 6, 12, 144, 153, 156, 157, 163
WORK = 169

# Rows are ωx, ωy, ωz, vx, vy and vz − pitch ωz, which is 0 where p_i θ̇ is all of the twist: hard
# rows are the complement of p_i.  They come first, those across z before those along it, and then
# the soft ones in the order of the joint's rates.
HARD = 6 - joint.RATES
ORDER = np.array(
    [
        [*(k for k in (0, 1, 3, 4, 2, 5) if where[k] < 0), *axes[:rates]]
        for where, axes, rates in zip(joint.RATE_OF, joint.DIRECTION, joint.RATES, strict=True)
    ]
)
# Share of the mobility that a joint's neighbours must leave in a pivot, for about eight digits.
LEAST = 1e-7


class Room(NamedTuple):
    """Memory for the joint that a sweep is at."""

    mobility: Any  # Ĉ
    half: Any  # 𝒥 Ĉ
    ahead: Any  # v̇ of (P4), before the λ beyond
    y: Any
    u: Any
    pushes: Any  # [λ; τ]
    order: Any  # of its rows, see ROWS


@jit
def room_for():
    return Room(
        np.empty(48), np.empty(64), np.empty(6), np.empty(6), np.empty(6), np.empty(6),
        np.empty(6, np.int64),
    )  # fmt: skip


@step
def at(block, i, j):
    """Where element (i, j) of a block is."""
    return 8 * (block + i) + j


@step
def row_of(x, k):
    return tuple(x[at(k, 0, j)] for j in range(6))


@plain
def ordered(row, order):
    """Write the six rows of a joint in their order; how many of them are not soft."""
    for k in range(6):
        order[k] = int(row[ROWS + k])
    return int(row[NOT_SOFT])


@step
def carried(own, twist):
    """𝒥 of a twist in the joint frame: Eᵀ ω and Eᵀ (v + ω × p), in rows of the joint."""
    E, w = mat.matrix(own, TURN), twist[:3]
    v = mat.back(E, plus(twist[3:], fused_cross(w, mat.constants(own, WAY))))
    w = mat.back(E, w)
    return (*w, v[0], v[1], v[2] - own[SCREW] * w[2])


@step
def wrench_of(own, x):
    """Moment and force in the body's axes, of what works with the rows of its joint."""
    return (x[0], x[1], x[2] - own[SCREW] * x[5]), mat.constants(x, 3)


@step
def carry_wrench(own, x, u):
    """u = 𝒥ᵀ x: moment and force in the joint frame."""
    E, (moment, force) = mat.matrix(own, TURN), wrench_of(own, x)
    force = mat.times(E, force)
    moment = plus(mat.times(E, moment), fused_cross(mat.constants(own, WAY), force))
    mat.store_all(u, 0, (*moment, *force))


@step
def take_off(x, share, row):
    for k in range(6):
        x[k] = x[k] - share * row[k]


@step
def take_row(own, to, share, row):
    store(own, to, load(own, to, row) - share * row)


# --- the factor: (P1), (P2), (P3) -----------------------------------------------------------------


@step
def begin(own, row, mobility, half, zero):
    """S (P1), and what U, W and Ĉ begin as: S, K and C."""
    # 𝒥 Ĉ 𝒥ᵀ (P1): 𝒥 on the columns of Ĉ, then on those of the transposed
    mat.store_all(half, 0, carried(own, tuple(load(mobility, k, zero) for k in range(6))))
    both = carried(own, tuple(take(half, k, LANES, zero) for k in range(6)))
    for k in range(6):
        total = load(row, AT_A + k, both[k]) + both[k]
        store(own, AT_S + k, total)
        store(own, AT_U + k, total)
        store(own, AT_W + k, load(row, AT_K + k, zero))
        store(mobility, k, load(row, AT_C + k, zero))


@step
def traces(row, block):
    """Traces of the angular and of the linear part of a block."""
    x = [row[at(block, k, k)] for k in range(6)]
    return x[0] + x[1] + x[2], x[3] + x[4] + x[5]


@step
def carried_trace(row, p):
    """Trace of the linear part of C about the point p, less that about the joint's own."""
    x, y, z = p
    xx, yy, zz = (row[at(AT_C, k, k)] for k in range(3))
    cross = x * (row[at(AT_C, 4, 2)] - row[at(AT_C, 5, 1)])
    cross += y * (row[at(AT_C, 5, 0)] - row[at(AT_C, 3, 2)])
    cross += z * (row[at(AT_C, 3, 1)] - row[at(AT_C, 4, 0)])
    mixed = x * y * row[at(AT_C, 0, 1)] + x * z * row[at(AT_C, 0, 2)] + y * z * row[at(AT_C, 1, 2)]
    square = (y * y + z * z) * xx + (z * z + x * x) * yy + (x * x + y * y) * zz
    return 2.0 * cross + square - 2.0 * mixed


@plain
def factor_frame(table, q, work, room):
    """Factor H^bb of one configuration; ln det H^bb and the first body whose pivot is lost, or -1.

    A pivot is lost where less than `LEAST` of the blocks it came from is left in it.
    """
    mobility, half, order = room.mobility, room.half, room.order
    zero = eight(0.0)
    for k in range(6):
        store(mobility, k, zero)
    product, power, first = 1.0, 0.0, 0
    for i in range(table.shape[0]):
        row, own = table[i], work[i]
        kind, hard = int(row[KIND]), ordered(row, order)
        E, p, check = joint.joint_motion(kind, row[PITCH], q, first)
        if check != 0.0:
            return 0.0, i
        mat.store_all(own, TURN, (*E, *p, row[PITCH]))
        size_ω, size_v = traces(row, AT_A)
        if i > 0:
            ω, v = traces(table[i - 1], AT_C)
            size_ω, size_v = size_ω + ω, size_v + v + carried_trace(table[i - 1], p)
        begin(own, row, mobility, half, zero)
        # Hard rows one by one.  U and W begin as S_b and K_b.  A pivot D is left on the diagonal of
        # U; its row, over D, is taken off the hard rows below, which makes U and D W of (P2), and
        # off Ĉ (P3).  Soft rows are not touched: S_ab is needed as it stands.
        for k in range(hard):
            r = order[k]
            d = own[at(AT_U, r, r)] + row[GEAR + k]  # D
            if not d > LEAST * (size_ω if r < 3 else size_v) or d == math.inf:
                return 0.0, i
            product, power = multiplied(product, power, d)
            inverse, pivot, felt = 1.0 / d, load(own, AT_U + r, zero), load(own, AT_W + r, zero)
            for below in range(k + 1, hard):  # from one triangle alone: the other rounds otherwise
                share = own[at(AT_U, r, order[below])] * inverse
                take_row(own, AT_U + order[below], share, pivot)
                take_row(own, AT_W + order[below], share, felt)
            for j in range(6):
                take_row(mobility, j, lane(felt, j) * inverse, felt)
            own[at(AT_U, r, r)] = d
            store(own, AT_W + r, felt * inverse)
        first += joint.POSITIONS[kind]
    return LN2 * power + math.log(product), -1


# --- outwards: (P4) -------------------------------------------------------------------------------


@step
def pushed(c, light, wrenches, i):
    """Moment about the mass centre and acceleration that a wrench on a body causes."""
    f = mat.entries(wrenches, i, 0)
    return plus(mat.entries(wrenches, i, 3), fused_cross(f, c)), scaled(light, f)


@step
def alone(row, w, push):
    """The body cut loose: ω̇, accelerations of its origin and of the next joint, and ω there.

    Results for the next joint are in its axes.
    """
    R, c, r = mat.matrix(row, ROTATION), mat.constants(row, CENTRE), mat.constants(row, LEVER)
    inverse, inertia = mat.upper(mat.matrix(row, INVERSE)), mat.upper(mat.matrix(row, INERTIA))
    m, f = push
    e = mat.times_symmetric(inverse, plus(fused_cross(mat.times_symmetric(inertia, w), w), m))
    # Σ = ω ωᵀ − ω², so that ω × (ω × a) = Σ a
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    sigma = (-yy - zz, w[0] * w[1], w[0] * w[2], -xx - zz, w[1] * w[2], -xx - yy)
    a = minus(plus(f, fused_cross(c, e)), mat.times_symmetric(sigma, c))
    p = plus(plus(f, fused_cross(e, r)), mat.times_symmetric(sigma, r))
    return e, a, mat.back(R, e), mat.back(R, p), mat.back(R, w)


@step
def right_side(row, own, ahead, y, before, twist, push):
    """Write y, less torques, and the acceleration of the next joint frame; ω there.

    ``y``: acceleration of the body cut loose in its joint's rows, less that of the joint's frame
    and what velocities add.
    """
    turn, slide = twist
    centripetal = fused_cross(before, fused_cross(before, mat.constants(own, WAY)))
    mat.store_all(ahead, 3, plus(mat.constants(ahead, 3), centripetal))
    mat.store_all(y, 0, carried(own, mat.constants6(ahead, 0)))
    omega = mat.back(mat.matrix(own, TURN), before)
    h, both, omega = fused_cross(omega, turn), plus(omega, plus(omega, turn)), plus(omega, turn)
    e, a, turning, moving, last = alone(row, omega, push)
    mat.store_all(y, 0, minus(e, plus(mat.constants(y, 0), h)))  # −(𝒥 v̇ + c)
    mat.store_all(y, 3, minus(a, plus(mat.constants(y, 3), fused_cross(both, slide))))
    y[5] = y[5] - own[SCREW] * (e[2] - h[2])
    mat.store_all(ahead, 0, (*turning, *moving))
    return last


@plain
def eliminate(table, qd, tau, gravity, wrenches, work, room):
    """L⁻¹ y of one factored configuration, from the base on, which accelerates by minus gravity.

    ``wrenches (n, 6)`` may be empty.
    """
    ahead, y, order = room.ahead, room.y, room.order
    before = joint.ZERO  # ω of the body before, in the joint frame's axes
    mat.store_all(ahead, 0, before)
    mat.store_all(ahead, 3, scaled(-1.0, mat.back(mat.matrix(table[0], BASE), gravity)))
    first = 0
    for i in range(table.shape[0]):
        row, own = table[i], work[i]
        kind, hard = int(row[KIND]), ordered(row, order)
        twist = joint.joint_twist(kind, row[PITCH], qd, first)
        push = joint.ZERO, joint.ZERO
        if wrenches.size:
            push = pushed(mat.constants(row, CENTRE), row[LIGHT], wrenches, i)
        before = right_side(row, own, ahead, y, before, twist, push)
        for s in range(hard, 6):  # y += S_a τ, and v̇ += K_aᵀ τ (P4); S is symmetric
            torque = tau[first + joint.RATE_OF[kind, order[s]]]
            take_off(y, -torque, row_of(own, AT_S + order[s]))
            take_off(ahead, -torque, row_of(row, AT_K + order[s]))
        for s in range(hard, 6):
            own[Y + s] = y[order[s]]
        for k in range(HARD[kind], hard):
            own[Y_ROTOR + k] = y[order[k]]
            y[order[k]] -= row[GEAR + k] * tau[first + joint.RATE_OF[kind, order[k]]]
        for k in range(hard):  # (P4): y_b, by L⁻¹
            d = y[order[k]]
            for above in range(k):
                d -= own[at(AT_U, order[above], order[k])] * own[Y + above]
            take_off(ahead, d, row_of(own, AT_W + order[k]))
            own[Y + k] = d / own[at(AT_U, order[k], order[k])]
        first += 6 - HARD[kind]


# --- inwards: (P5), (P6), (P7) --------------------------------------------------------------------


@step
def along(x, y):
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2] + x[3] * y[3] + x[4] * y[4] + x[5] * y[5]


@plain
def substitute(table, tau, work, room, out):
    """Accelerations and wrenches of the joints from tip to base; whether those are finite."""
    u, pushes, order = room.u, room.pushes, room.order
    for k in range(6):
        u[k] = 0.0
    check = 0.0
    first = tau.size
    for i in range(table.shape[0] - 1, -1, -1):
        row, own = table[i], work[i]
        kind, hard = int(row[KIND]), ordered(row, order)
        first -= 6 - HARD[kind]
        for k in range(hard - 1, -1, -1):  # λ (P5), by L⁻ᵀ
            r, d = order[k], 0.0
            for below in range(k + 1, hard):
                d += own[at(AT_U, r, order[below])] * pushes[order[below]]
            pushes[r] = along(row_of(own, AT_W + r), u) - own[Y + k] - d / own[at(AT_U, r, r)]
        for s in range(HARD[kind], 6):  # θ̈ (P6)
            r = order[s]
            torque = tau[first + joint.RATE_OF[kind, r]]
            d = own[Y_ROTOR + s] if s < hard else own[Y + s]
            for k in range(hard):
                d += own[at(AT_S, r, order[k])] * pushes[order[k]]
            d -= along(row_of(row, AT_K + r), u)
            # The rotor's motion and the body's are the same: the one with less rounding.
            if s < hard and row[GEAR + s] < own[at(AT_S, r, r)]:
                d = row[GEAR + s] * (torque - pushes[r])
            out[first + joint.RATE_OF[kind, r]] = d
            check += 0.0 * d
        for s in range(hard, 6):
            pushes[order[s]] = tau[first + joint.RATE_OF[kind, order[s]]]
        if out.size > tau.size:
            moment, force = wrench_of(own, pushes)
            mat.store_all(out, tau.size + 6 * i, (*force, *moment))
        carry_wrench(own, pushes, u)  # u (P7)
    return check == 0.0


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, memory):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    ``wrenches (frames n, 6)`` may be empty.  A row of ``out``: the accelerations, and where there
    is room the 6 n numbers of joint wrenches, force before moment.  Body n: a result is not finite.
    ``memory``: `WORK` numbers for each body.
    """
    n = table.shape[0]
    work, room = memory[: n * WORK].reshape((n, WORK)), room_for()
    for frame in range(q.shape[0]):
        _, body = factor_frame(table, q[frame], work, room)
        if body >= 0:
            return frame * (n + 1) + body
        loads = wrenches[frame * n : (frame + 1) * n]
        eliminate(table, qd[frame], tau[frame], gravity, loads, work, room)
        if not substitute(table, tau[frame], work, room, out[frame]):
            return frame * (n + 1) + n
    return -1


@jit
def logdet_frames(table, q, out):
    """ln det H^bb of every frame; failures as in `motion_frames`."""
    n = table.shape[0]
    work, room = np.empty((n, WORK)), room_for()
    for frame in range(out.size):
        out[frame], body = factor_frame(table, q[frame], work, room)
        if body >= 0:
            return frame * (n + 1) + body
        if not abs(out[frame]) < math.inf:
            return frame * (n + 1) + n
    return -1
