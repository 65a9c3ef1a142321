"""Drivers of the articulated body: one state, many of them, and pivots alone.

``table`` as in `articulated_body`.
"""

from functools import cache
from typing import Any

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.compiler.internals import types
from fixman.kernels.compiler.lanes import LANES, eight
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid.articulated_body import DONE, NOT_USABLE, PIVOT, RATE, WRONG_SIZE, sizes
from fixman.kernels.rigid.joints import DIRECTION, RATES


@jit
def state(table, q, qd, tau, loads, qdd, room):
    """q̈ of one state; DONE, or why not, or the body whose pivot is lost.

    ``room``: memory for a row of units, or None.
    """
    _, nq, nv, units = sizes(table, table.size)
    if q.size != nq or qd.size != nv or tau.size != nv:
        return WRONG_SIZE
    work = np.empty(units) if room is None else room
    return bodies.forward(table, q, qd, tau, loads, 0, work, qdd, 0.0)


@jit
def filled(given, frames, width):
    """``given``, ending with ``width`` numbers a state, and the last state again up to eight."""
    out = np.empty(given.size + (LANES - frames) * width)
    for k in range(given.size):
        out[k] = given[k]
    for k in range(given.size, out.size):
        out[k] = out[k - width]
    return out


@jit
def states(table, q, qd, tau, loads, first, last, qdd, room):
    """q̈ of the states from ``first`` to ``last``; ``room`` is memory for eight rows of units.

    Returns the first of eight states one of which has no answer, or DONE, and why.
    """
    n, nq, nv, _ = sizes(table, table.size)
    frames = qdd.size // nv
    few = frames < LANES
    answers = qdd
    if few:
        q, qd, tau = filled(q, frames, nq), filled(qd, frames, nv), filled(tau, frames, nv)
        if loads.size > 3:
            loads = filled(loads, frames, 6 * n)
        qdd = np.empty(qd.size)
        last = LANES
    zero = eight(0.0)
    skip = (-room.ctypes.data // 8) % LANES  # registers of 64 bytes are aligned
    work = room[skip:]
    for begin in range(first, last, LANES):
        frame = min(begin, last - LANES)
        code = bodies.forward(table, q, qd, tau, loads, frame, work, qdd, zero)
        if code != DONE:
            return frame, code
    if few:
        for k in range(answers.size):
            answers[k] = qdd[k]
    return DONE, DONE


@jit
def pivots(table, q, starts, out):
    """Blocks Sᵀ I^A S + J of every state and joint, one after the other; as `states`.

    The block of joint i begins at ``starts[i]`` of a state's ``starts[n]`` numbers.
    """
    n, nq, nv, units = sizes(table, table.size)
    count = q.size // nq
    still = np.zeros(nv * count)
    none = np.zeros(3)
    work = np.empty(units)
    for frame in range(count):
        if not bodies.outwards(table, q, still, none, frame, work, 0.0):
            return frame, NOT_USABLE
        body = bodies.inwards(table, still, frame, work, 0.0)
        if body != DONE:
            return frame, body
        for i in range(n):
            kind, _, _, row = bodies.record(table, n, i)
            to = starts[n] * frame + starts[i]
            put_block(kind, bodies.first_units(kind, row), work, out, to)
    return DONE, DONE


@plain
def factor_entry(kind, j, k, units, work):
    """L_jk of D_i = L D Lᵀ: component of U_k/D_k along the axis of rate j > k; 1 for j = k.

    It is found by the names x, y, z that the axes had when rate k was freed, about z.
    """
    if j == k:
        return 1.0
    at, axis, other = units + RATE * k, DIRECTION[kind, k], DIRECTION[kind, j]
    name = (other - axis - 1) % 3  # 0 and 1 are the x and y of then, 2 is its z
    return work[at + (name if other // 3 == axis // 3 else 2 + name)]


@plain
def put_block(kind, units, work, out, to):
    """D_i = Sᵀ I^A S + J = L D Lᵀ, from the scalar pivots D of the joint's rates."""
    f = RATES[kind]
    for r in range(f):
        for c in range(f):
            total = 0.0
            for k in range(min(r, c) + 1):
                x, y = factor_entry(kind, r, k, units, work), factor_entry(kind, c, k, units, work)
                total += x * y * work[units + RATE * k + PIVOT]
            out[to + f * r + c] = total


FLOATS = types.Array(types.float64, 1, "C")


@cache
def only_state(roomy: bool) -> Any:
    """Return `state`, ``roomy`` or not, for its arrays alone: others are refused by a TypeError."""
    return _only(state, *(FLOATS,) * 6, FLOATS if roomy else types.none)


@cache
def only_states() -> Any:
    return _only(states, *(FLOATS,) * 5, types.int64, types.int64, FLOATS, FLOATS)


def _only(kernel: Any, *signature: Any) -> Any:
    only = jit(kernel.py_func)
    only.compile(signature)
    only.disable_compile()
    return only
