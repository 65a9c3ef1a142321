"""Moves that are tried: remembered, looked at on the way, and accepted or taken back.

The chain, or eight, of a group go their way in `stepping`; ``broken`` are the lanes, as bits, that
have met what makes an answer wrong: a drift without a solution, or a way that does not lead back.
"""

from collections import namedtuple

from fixman.kernels.algebra.random import WORDS, accepts
from fixman.kernels.algebra.vectors import along, fused_dot, put_vector, vector
from fixman.kernels.compiler.lanes import beyond, choose, exact, fma, lane, lanes, load, store
from fixman.kernels.compiler.steps import exact_step

# How close to the beginning the way back must end, in units of the way.  Where solutions meet, as
# at the corners of a ring, another one is near: not much coarser than the solution is.
CLOSE = 1e-5


class Trial(namedtuple("Trial", "X V energy tally")):
    """Memory of a group, units as in `stepping.Work`, and the tally of all replicas.

    X, V : positions and velocities
    energy : one unit
    tally (replicas · 3,) : tried, accepted, width
    """


@exact
def copy(X, Y, like):
    for k in range(X.size // lanes(like)):
        store(Y, k, load(X, k, like))


@exact
def kinetic(V, shares, axes, like):
    """Σ weight v², with weights, the first of them and how many there are."""
    weights, first, joints = shares
    total = 0.0 * like
    for k in range(joints):
        v = vector(V, k, axes, like)
        total = fma(weights[first + k] + 0.0 * like, fused_dot(v, v), total)
    return total


@exact_step
def turn_back(X, V, F, Y, k, h, weight, axes, like):
    """Put x − h v + ½ h² f / m of joint k into Y: where the leap with −v is before λ."""
    y = along(-h + 0.0 * like, vector(V, k, axes, like), vector(X, k, axes, like))
    put_vector(Y, k, axes, along(weight + 0.0 * like, vector(F, k, axes, like), y))


@exact
def elsewhere(Y, X0, X, like):
    """The lanes in which Y is not X0, where the leap to X began."""
    away = 0.0 * like
    way = 0.0 * like
    for k in range(X.size // lanes(like)):
        x0 = load(X0, k, like)
        y = load(Y, k, like) - x0
        x = load(X, k, like) - x0
        away = fma(y, y, away)
        way = fma(x, x, way)
    return beyond(away, (CLOSE * CLOSE) * way)


@exact
def take_back(X, X0, which, like):
    for k in range(X.size // lanes(like)):
        store(X, k, choose(which, load(X0, k, like), load(X, k, like)))


@exact
def remember(trial, kept, group, X, V, energy, like):
    """Keep positions, velocities and energy; where this is not finite, the tally becomes NaN.

    Where moves are decided outside, ``kept`` has a size, and the tally gets the energy alone.
    """
    copy(X, trial.X, like)
    copy(V, trial.V, like)
    store(trial.energy, 0, energy)
    for which in range(lanes(like)):
        if kept.size == 0:
            trial.tally[3 * (group + which)] += 0.0 * lane(energy, which)
        else:
            trial.tally[3 * (group + which)] = lane(energy, which)


@exact
def decide(trial, replicas, group, X, V, broken, energy, kT, like):
    """Accept, or go back to what is remembered.  Every lane draws a number, a broken one too."""
    if replicas.kept.size > 0:
        for which in range(lanes(like)):
            trial.tally[3 * (group + which)] = lane(energy, which)
    else:
        change = (energy - load(trial.energy, 0, like)) / kT
        for which in range(lanes(like)):
            replica = group + which
            trial.tally[3 * replica] += 1.0
            if not accepts(replicas.random, WORDS * replica, lane(change, which)):
                broken |= 1 << which
            if broken >> which & 1 == 0:
                trial.tally[3 * replica + 1] += 1.0
        take_back(X, trial.X, broken, like)
        take_back(V, trial.V, broken, like)
