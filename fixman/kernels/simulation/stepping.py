"""Constrained dynamics in time: moves of chains, one chain or eight at a time.

A step is a schedule of moves of positions x on the manifold and velocities v along it, under
forces f.  A stepper says which, and for how long a time h:

    KICK   B   v ← v + h f / m
    DRIFT  A   x ← x + h v + M⁻¹ B(x)ᵀ λ with the λ that keeps the hard values, v ← Δx / h
    NOISE  O   v ← c v + √(kT (1 − c²) / m) ξ                                       c = exp(−γ h)
    ECHO       the same with the ξ of before
    MARK       x₀ ← x
    LEAP       x ← x₀ + h v + M⁻¹ B(x)ᵀ λ, v ← Δx / h, as a drift but from the mark
    FORCE      f ← forces(x), with those of a flow and of the metric where they are asked for
    PROJECT    v along the manifold
    REMEMBER   x, v and the energy Σ ½ m v² + U, with ½ kT ln det H^bb if that is in the forces
    RETURN     whether the step with −v, which a KICK begins and a DRIFT of h, leads back
    DECIDE     accept x and v by min(1, exp(−ΔE / kT)), or go back to what is remembered

RATTLE (Andersen 1983) is KICK/2, DRIFT, FORCE, KICK/2, PROJECT.  g-BAOAB (Leimkuhler & Matthews
2016) is KICK/2 (B), DRIFT/2 (A), NOISE, PROJECT (O), DRIFT/2 (A), FORCE, KICK/2, PROJECT (B).  The
first B and each A lack the projection of the paper, and need none: the λ of the A that follows
takes up what a B leaves across the manifold, and the PROJECT of the next O or B what an A leaves.
In overdamped motion friction coefficients ζ stand in the place of masses, and h² / 2 is the time.

A drift or a leap may be too long to have a λ.  `advance` then returns, and its caller redoes it for
the chains concerned, in pieces, by a schedule of projections and shorter drifts.  Where moves are
tried (see `trials`), such a chain stays where it is, to be refused.

Joints are the beads, behind the points that do not move; arrays are flat and of units, joint k from
unit k·dim (see `lanes`).
"""

from collections import namedtuple

from fixman.kernels import njit
from fixman.kernels.algebra.random import WORDS, fill_normals
from fixman.kernels.algebra.vectors import along, minus, put_vector, scaled, vector
from fixman.kernels.compiler import addresses
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import exact, exact_kernel, fma, lanes, load, part, store, zeros
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.simulation import constraints, trials
from fixman.kernels.simulation.constraints import OFTEN, OPTIONS

# In an order that `moves` asks for; the last two and RETURN are for trials only.
KICK, NOISE, ECHO, MARK, DRIFT, LEAP, RETURN, FORCE, PROJECT, REMEMBER, DECIDE = range(11)
RESCUES = 10  # halvings of a drift


class Flow(namedtuple("Flow", "gradients drags shares")):
    """A homogeneous flow, or arrays of no size.

    gradients (d · d,) or (steps · d · d,) : κ, the same always or one for each step of a call
    drags, shares (joints,) : ζ_k, and ζ_k / Σ ζ; the latter 0 on a fixed base
    """


class Motion(
    namedtuple(
        "Motion", "n order letters factors kept numbers weights kT tolerance rival flow given"
    )
):
    """The moves of a step.

    ``order`` says which move is made when.  Each has a letter, a number (h of a drift, c of a
    noise, kT of what is remembered or decided), a weight of every joint (h / m of a kick,
    √(kT (1 − c²) / m) of a noise, ½ m of what is remembered or decided, ½ h² / m of a return), and
    whether it needs H^bb at x; ``kept`` whether a search for λ leaves the factor of that as it was.
    ``kT`` is that of the Fixman force: 0 for none.  That of a ``rival``, the hard rows under other
    masses, is subtracted.  ``given`` are forces that were found outside, laid out as positions are,
    or an array of no size.
    """


class Replicas(namedtuple("Replicas", "x v random targets held kept")):
    """States as flat arrays; ``held`` is the number of the ``targets`` of each.

    ``kept`` (3, positions) is for steps that are made in several calls, and empty for others: where
    the last drift began, the noise, and the mark.  Moves are then decided outside.
    """


class Work(namedtuple("Work", "states X V X1 V1 F noise mark trial")):
    """A group under way, `ONE` or `EIGHTS`: units of all joints, aligned, for one thread."""


@exact_step
def kick(V, F, k, weight, axes, like):
    v = along(weight + 0.0 * like, vector(F, k, axes, like), vector(V, k, axes, like))
    put_vector(V, k, axes, v)


@exact_step
def depart(X, V, X1, V1, k, h, like):
    v = load(V, k, like)
    store(V1, k, v)
    store(X1, k, fma(h, v, load(X, k, like)))


@exact_step
def collide(V, noise, k, ghosts, c, weight, axes, like):
    xi = scaled(weight + 0.0 * like, vector(noise, k - ghosts, axes, like))
    put_vector(V, k, axes, along(c + 0.0 * like, vector(V, k, axes, like), xi))


@exact_step
def centred(X, k, share, centre, axes, like):
    return along(share + 0.0 * like, vector(X, k, axes, like), centre)


@exact_step
def drag(X, F, k, centre, flow, axes, like):
    """Add ζ κ (x − x_c) of joint k to F; ``flow`` are the gradients, their place and ζ."""
    gradients, at, zeta = flow
    dim = len(axes)
    x = minus(vector(X, k, axes, like), centre)
    for a in range(dim):
        v = 0.0 * like
        for b in range(dim):
            v = v + gradients[at + a * dim + b] * x[b]
        store(F, k * dim + a, load(F, k * dim + a, like) + zeta * v)


@exact
def carry(flow, X, F, step, axes, like):
    """F += the drag ζ_k κ (x_k − x_c) of a flow, as it is in a step of this call.

    x_c is the centre of friction.
    """
    gradients, drags, shares = flow
    square = len(axes) * len(axes)
    at = min(step * square, gradients.size - square)
    centre = 0.0 * like, 0.0 * like, 0.0 * like
    for k in range(drags.size):
        centre = centred(X, k, shares[k], centre, axes, like)
    for k in range(drags.size):
        drag(X, F, k, centre, (gradients, at, drags[k]), axes, like)


@exact_step
def fetch(x, at, size, X, k, like):
    store(X, k, lane.take(x, at + k, size, like))


@exact
def enter(replicas, work, at, size, like):
    kept = replicas.kept
    for k in range(size):
        fetch(replicas.x, at, size, work.X, k, like)
        fetch(replicas.v, at, size, work.V, k, like)
    for k in range(size if kept.size > 0 else 0):
        fetch(kept, at, size, work.X1, k, like)
        fetch(kept, at + kept.size // 3, size, work.noise, k, like)
        fetch(kept, at + 2 * (kept.size // 3), size, work.mark, k, like)


@exact_step
def leave(x, at, size, X, X1, k, lost, like):
    """Unit k of X, or of X1 where it was lost, into states that lie ``size`` apart."""
    lane.put(x, at + k, size, lane.choose(lost, load(X1, k, like), load(X, k, like)))


@exact
def pause(kept, trial, vectors, broken, group, size, like):
    """Keep what the next call of a step needs, and count in the tally what is broken."""
    X1, noise, mark = vectors
    at = group * size
    for k in range(size if kept.size > 0 else 0):
        leave(kept, at, size, X1, X1, k, 0, like)
        leave(kept, at + kept.size // 3, size, noise, noise, k, 0, like)
        leave(kept, at + 2 * (kept.size // 3), size, mark, mark, k, 0, like)
    if trial is not None:
        for which in range(lanes(like) if kept.size > 0 else 0):
            trial.tally[3 * (group + which) + 1] += broken >> which & 1


@exact
def search(trial, letter, system, space, vectors, shares, limits, like):
    """Where a drift or leap of h leads, or the way back of a drift from X; the lanes it lost.

    Into X1 and V1, or of a way back into the noise: behind a drift this is free, and so is V1,
    while X1 is where the drift began.  ``shares`` are the weights of the joints of a way back, ½ h²
    over their masses.
    """
    X, V, X1, V1, F, noise, mark = vectors
    h, tolerance = limits
    back = letter == RETURN
    Y = noise if back else X1
    if trial is not None:
        weights, first, joints = shares
        for k in range(joints if back else 0):
            trials.turn_back(X, V, F, Y, k, h, weights[first + k], system.axes, like)
    for k in range(0 if back else X.size // lanes(like)):
        depart(X if letter == DRIFT else mark, V, Y, V1, k, h, like)
    # The way back has the limits of the drift: others would let some go one way only.
    rate = 0.0 if back else 1.0 / h
    lost = constraints.shake(system, space, X, Y, V1, rate, (tolerance, OFTEN), like)
    if trial is not None and back:
        lost |= trials.elsewhere(Y, X1, X, like)
    return lost


@njit(**OPTIONS)
def moves(replicas, system, spaces, motion, potential, work, trial, where):
    """Make the moves of one group; its place where a drift lost some, and their lanes as bits."""
    like = zeros(work.states)
    (space, other), (begin, end, group) = spaces, where
    axes, count = system.axes, motion.order.size
    joints = motion.weights.size // motion.letters.size
    size, ghosts = joints * len(axes), joints - motion.n
    X, V, X1, V1, F, noise, mark = work.X, work.V, work.X1, work.V1, work.F, work.noise, work.mark
    to_forces, to_energy, words, frame = potential
    enter(replicas, work, group * size, size, like)
    lost, broken, factored, place = 0, 0, False, end
    for place in range(begin, end):
        at = motion.order[place % count]
        number, shares = motion.numbers[at], (motion.weights, at * joints, joints)
        letter = motion.letters[at] if place >= 0 else FORCE  # forces are lost between two calls
        if not factored and (place < 0 or motion.factors[at]):
            constraints.factor(system, space, X, like)
            factored = True
        if letter == KICK:  # B
            for k in range(joints):
                kick(V, F, k, motion.weights[at * joints + k], axes, like)
        elif letter <= ECHO:  # O
            for which in range(lanes(like) if letter == NOISE else 0):
                stream, own = WORDS * (group + which), motion.n * len(axes)
                fill_normals(replicas.random, stream, own, noise, which, lanes(like))
            for k in range(ghosts, joints):
                weight = motion.weights[at * joints + k]
                collide(V, noise, k, ghosts, number, weight, axes, like)
        elif letter == MARK:
            trials.copy(X, mark, like)
        elif letter <= RETURN:  # A
            vectors = X, V, X1, V1, F, noise, mark
            limits = number, motion.tolerance
            found = search(trial, letter, system, space, vectors, shares, limits, like)
            factored = factored and letter == RETURN and motion.kept
            lost = 0 if trial is not None else found
            broken |= found
            if letter < RETURN:
                if lost and letter == LEAP:
                    trials.copy(mark, X, like)
                X, X1, V, V1 = X1, X, V1, V
                if trial is not None:
                    trials.take_back(X, X1, found, like)
                    trials.take_back(V, V1, found, like)
            if lost:
                break
        elif letter == FORCE:
            for k in range(size):
                store(F, k, 0.0 * like)
            for k in range(size if motion.given.size > 0 else 0):
                fetch(motion.given, group * size, size, F, k, like)
            if to_forces != 0:
                addresses.call(to_forces, words, frame, X, F, ghosts, like)
            carry(motion.flow, X, F, place // count, axes, like)
            if motion.kT > 0.0:
                constraints.add_metric_force(system, space, F, X, motion.kT, like)
                constraints.factor(motion.rival, other, X, like)
                constraints.add_metric_force(motion.rival, other, F, X, -motion.kT, like)
        elif letter == PROJECT:
            constraints.project(system, space, V, X, like)
        elif trial is not None:
            energy = trials.kinetic(V, shares, axes, like)
            if to_energy != 0:
                energy = energy + addresses.call(to_energy, words, frame, X, F, ghosts, like)
            if motion.kT > 0.0:
                energy = fma(0.5 * motion.kT, constraints.logdet(system, space, like), energy)
            if letter == REMEMBER:
                trials.remember(trial, replicas.kept, group, X, V, energy, like)
                broken = 0
            else:
                trials.decide(trial, replicas, group, X, V, broken, energy, number, like)
                factored = False
    for k in range(size):
        # Behind a drift, X1 and V1 are what was before it.
        leave(replicas.x, group * size, size, X, X1, k, lost, like)
        leave(replicas.v, group * size, size, V, V1, k, lost, like)
    pause(replicas.kept, trial, (X1, noise, mark), broken, group, size, like)
    return place, lost


@exact_kernel
def advance(replicas, system, motion, potential, work, places, groups):
    """Make moves on groups of replicas, from ``groups[0]`` to ``groups[1]``.

    Places count moves over all steps; from −1 on, the forces are found first.  Returns where a
    drift lost replicas: its place, the first of the group and its lanes as bits, which stay where
    the drift began, while the others have done it.  No bits mean that all is done.
    """
    like = zeros(work.states)
    held = replicas.held
    width = lanes(like)
    begin, end = places
    for group in range(groups[0], groups[1], width):
        targets = part(replicas.targets, group * held, width * held, 0.0)
        space = constraints.room(system, targets, like)
        spaces = space, constraints.room(motion.rival, targets, like)
        where = begin, end, group
        place, lost = moves(replicas, system, spaces, motion, potential, work, work.trial, where)
        addresses.release(potential.frame)
        if lost:
            return place, group, lost
    return end, groups[1], 0
