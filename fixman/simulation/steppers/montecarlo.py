"""Monte Carlo by turning parts of a chain."""

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.kernels.chain.rows import ANGLE, LENGTH
from fixman.kernels.compiler.lanes import ONE
from fixman.kernels.potentials import box, forces
from fixman.kernels.sampling import crankshafts, many_chains, pivots, torsions
from fixman.mechanics import metric
from fixman.mechanics.dynamics import project
from fixman.potentials.energies import bind, invariant
from fixman.potentials.systems import BoundSystem
from fixman.simulation.steppers import together
from fixman.simulation.steppers.moves import moves
from fixman.simulation.steppers.moving import pool_of
from fixman.simulation.steppers.stepper import Described, Prepared, State, require_near

WIDEST = math.pi
NARROWEST = 1e-3
ACCEPTED = 0.5  # share at which burn-in aims
EAGER = 2.0  # how much one sweep of burn-in changes the logarithm of the width, at first
# Sweeps between two corrections of what rounding does to hard coordinates, some 1e-13 in these; the
# projection is compiled then, and not before the first answer.
HELD = 1000


@dataclass(frozen=True, repr=False)
class MonteCarlo(Described):
    """Metropolis Monte Carlo of pivots and crankshafts, in either ensemble, with any potential.

    A step is a sweep: as many moves as there are parts that can turn.  A move turns one side of a
    bead about the bead, or about the bond before it if its angle is hard; in a ring, the part
    between two beads turns about the line through them.  A move is accepted with probability
    min(1, W′/W); W is the density with respect to δ(q_b) dx: √det H^bb e^(−U/kT) in the rigid
    ensemble, e^(−U/kT) in the stiff one.  Both are sampled exactly.

    Without a potential, linear chains of hard bonds take O(1) a move, 55 ns, whatever their length,
    and free ones of hard bonds and angles 320 ns: sweeps go from end to end and back, with the
    terms of the determinant known from both ends.  Otherwise (potentials, trees, rings) parts are
    chosen at random, and a move takes O(n), some 80 ns a bead.  In a system a move turns a part of
    one chain or shifts the chain, and takes O(n) of this chain and the neighbours of its beads.
    Chains of one bead are shifted.

    Parameters
    ----------
    kT : float
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`; one of your own needs ``energy(x)`` only.  An energy of infinity is a wall.
        A system of several chains takes none of your own.
    burn_in : int
        Sweeps before step 0, in which every replica adapts the width of its turns, at first π,
        until half of the moves are accepted.

    Notes
    -----
    ``State.tally`` counts moves from step 0 on.  Frames have velocities of zero.  A free chain
    keeps its place, unless its potential may depend on the place (`Tether`, `Gravity`, `Compiled`,
    your own): then moves also shift all beads.
    """

    NAME = "montecarlo"
    FORCES = False
    NO_VELOCITIES = "Monte Carlo has no velocities"

    _: KW_ONLY
    kT: float = 1.0
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    burn_in: int = 100

    def _start(self, chain: Any, state: State, v0: ArrayLike | None) -> None:
        state.tally = np.zeros((len(state.x), 3))
        state.tally[:, 2] = WIDEST
        if isinstance(chain, Chain):
            require_near(chain, state)
        prepared = self._prepared(chain, state)
        if not self.burn_in or prepared.route != "crankshafts":  # which find weights themselves
            prepared.require_weights(state.x)
        for k in range(self.burn_in):
            state.tally[:, :2] = 0.0
            self.advance(chain, state, 1)
            tried, accepted, width = state.tally.T
            change = EAGER / math.sqrt(k + 1) * (accepted / np.maximum(tried, 1.0) - ACCEPTED)
            width[:] = np.clip(width * np.exp(change), NARROWEST, WIDEST)
        state.tally[:, :2] = 0.0
        state.step = 0

    def _prepared(self, chain: Any, state: State) -> Any:
        return (ManyChains if isinstance(chain, System) else Sweeping).of(chain, state, self)

    def passes(self, chain: Chain | System) -> int:
        """Return how often a step goes over all beads."""
        if isinstance(chain, System):
            return max(one.n for one, _ in chain.kinds)
        return chain.n if _route(chain, self) == "crankshafts" else 1

    def _advance(self, chain: Any, state: State, steps: int, workers: int) -> None:
        prepared = self._prepared(chain, state)
        copies = {name: getattr(state, name).copy() for name in ("x", "random", "tally")}
        moved = replace(state, **copies)
        if not prepared.run(moved, steps, workers):
            prepared.require_weights(state.x)
        for bound in prepared.bounds:
            bound.check()
        state.x, state.random, state.tally = moved.x, moved.random, moved.tally
        state.step += steps


class Sweeping(Prepared):
    """Monte Carlo on the chain of a state."""

    def __init__(
        self, chain: Chain, state: State, stepper: MonteCarlo, among: float | None = None
    ) -> None:
        """Begin; ``among`` is σ of beads among others, as which beads without a bond move."""
        self.key = (chain, stepper)
        self.targets = state.targets
        self.bound = bind(chain, stepper.potential, energies=True, forces=False)
        self.bounds = [self.bound]
        self.route = "crankshafts" if among is not None else _route(chain, stepper)
        rows = chain.layout.hard_rows
        self.lengths = np.ascontiguousarray(state.targets[:, rows.kinds == LENGTH])
        if self.route != "crankshafts":
            return
        self.system = chain.layout.system if stepper.ensemble == "rigid" else None
        self.tables = None
        if stepper.potential is not None:
            self.tables = self.bound.tables._replace(external=None)
        placed = chain.base == "free" and (among or not invariant(stepper.potential))
        # Made of what a replica keeps: bits must not depend on where it is when one goes on.
        shifts = self.lengths.mean(axis=1) if placed and self.lengths.size else None
        if among is not None and chain.n == 1:
            shifts = np.full(len(state.x), among)
        self.moves = moves(chain, shifts)

    def require_weights(self, x: Array) -> None:
        """Refuse configurations without an energy or a determinant."""
        chain, stepper = self.key
        # One by one, as the kernels do; without a potential there is nothing to compile.
        for replica, one in enumerate(x if stepper.potential is not None else ()):
            try:
                self.bound.energy(one)
            except ValueError as error:
                error.add_note(f"in replica {replica}")
                raise
        if stepper.ensemble == "rigid":
            metric.logdet(chain, x)

    def run(self, state: State, steps: int, workers: int) -> bool:
        """Do sweeps on all replicas, over threads; false if one has no weight to begin with."""
        x, random, tally = state.x, state.random.reshape(-1), state.tally
        pieces = min(workers, len(x))
        edges = [len(x) * k // pieces for k in range(pieces + 1)]

        def task(first: int, last: int) -> bool:
            at, end = state.step, state.step + steps
            while at < end:
                until = end if self.route == "pivots" else min(end, at - at % HELD + HELD)
                if self._sweep((x, random, tally), (at, until), (first, last)) >= 0:
                    return False
                if until % HELD == 0 and self.route != "pivots":
                    x[first:last] = project(self.key[0], x[first:last], self.targets[first:last])
                at = until
            return True

        with pool_of(pieces) as pool:
            return all(list((pool.map if pool else map)(task, edges[:-1], edges[1:])))

    def _sweep(self, moved: Any, sweeps: tuple[int, int], replicas: tuple[int, int]) -> int:
        """Sweep over some replicas; return the first without a weight, or −1."""
        chain, stepper = self.key
        rigid = stepper.ensemble == "rigid"
        if self.route == "pivots":
            options = chain.dim, int(chain.layout.fixed), rigid
            pivots.advance(*moved, self.lengths, chain.layout.links, options, sweeps, replicas)
        elif self.route == "torsions":
            masses = chain.masses / chain.masses.mean()  # which a determinant is far from losing
            space = (np.empty((chain.n - 1, 6, 6)), np.empty(chain.n - 1)) if rigid else None
            torsions.advance(*moved, self.lengths, masses, space, sweeps, replicas)
        else:
            given = self.system, forces.potential(self.tables, ONE), self.moves, stepper.kT
            return int(crankshafts.advance(*moved, *given, sweeps[1] - sweeps[0], replicas))
        return -1


class ManyChains(Prepared):
    """Monte Carlo on the system of a state.

    Chains that do not interact are replicas of one chain, each with a stream of its own.
    Otherwise all moves draw from the stream of the first chain, kind after kind.
    """

    route = "many chains"

    def __init__(self, system: System, state: State, stepper: MonteCarlo) -> None:
        self.key = (system, stepper)
        self.bound = BoundSystem(system, stepper.potential)
        if self.bound.own:
            raise ValueError("in a system HybridMonteCarlo and Langevin take your own potential")
        single, pair = replace(stepper, potential=self.bound.inside), self.bound.pair
        among = None if pair is None else float(np.mean(pair.sigma))
        parts = zip(system.kinds, together.parts_of(system, state), strict=True)
        self.parts = [Sweeping(chain, part, single, among) for (chain, _), part in parts]
        self.bounds = [part.bound for part in self.parts]

    def require_weights(self, x: Array) -> None:
        """Refuse configurations without an energy or a determinant."""
        for part, y in zip(self.parts, self.key[0].split(x), strict=True):
            part.require_weights(y.reshape(-1, *y.shape[2:]))
        self.bound.energy(x)

    def run(self, state: State, steps: int, workers: int) -> bool:
        """Do sweeps on all replicas, over threads; false if one has no weight to begin with."""
        if self.bound.pair is None:
            return self._run_apart(state, steps, workers)

        def task(replica: int) -> bool:
            cells, sweeps = self._cells(), range(state.step, state.step + steps)
            return all(self._sweep(state, step, replica, cells) for step in sweeps)

        with pool_of(workers) as pool:
            return all(list((pool.map if pool else map)(task, range(len(state.x)))))

    def _run_apart(self, state: State, steps: int, workers: int) -> bool:
        """Do sweeps of chains that do not interact."""
        parts, done = together.parts_of(self.key[0], state), True
        for sweeping, part in zip(self.parts, parts, strict=True):
            part.tally[:, 2] = np.repeat(state.tally[:, 2], len(part.x) // len(state.x))
            done &= sweeping.run(part, steps, workers)
            counts = part.tally[:, :2].reshape(len(state.x), -1, 2)
            state.tally[:, :2] += counts.sum(axis=1)
        together.put_together(self.key[0], state, parts)
        return done

    def _sweep(self, state: State, step: int, replica: int, cells: many_chains.Cells) -> bool:
        """Do a sweep of one replica; false if a chain has no weight to begin with."""
        system, stepper = self.key
        x, random, tally = state.x[replica], state.random[replica, 0], state.tally[replica]
        bead, beads = 0, self.bound.pairs().beads
        for part, (chain, many) in zip(self.parts, system.kinds, strict=True):
            potential = forces.potential(part.tables, ONE)
            given = part.system, potential, part.moves, stepper.kT, cells, beads
            chains = bead, many, replica * many
            if many_chains.advance(x, random, tally, *given, chains) >= 0:
                return False
            end = bead + many * chain.n
            if (step + 1) % HELD == 0:
                y = x[bead:end].reshape(many, chain.n, -1)
                held = part.targets[replica * many : (replica + 1) * many]
                x[bead:end] = project(chain, y, held).reshape(-1, x.shape[1])
            bead = end
        return True

    def _cells(self) -> many_chains.Cells:
        """Return cells without beads, at least as wide as the cutoff."""
        system = self.key[0]
        pairs, dim = self.bound.pairs(), system.dim
        reach = pairs.reach  # not that of the table, whose skin depends on what was before
        edges, inverse, scale = np.zeros((3, 3))
        counts = np.ones(3, np.int64)
        most = max(3, round((4.0 * system.n) ** (1.0 / dim)))
        counts[:dim], scale[:dim] = most, 1.0 / reach
        if system.box is not None:
            edges[:dim], inverse[:dim] = system.box, 1.0 / system.box
            counts[:dim] = np.clip(np.floor(system.box / reach), 1, most)
            scale[:dim] = counts[:dim] / system.box
        heads, lists = np.empty(int(np.prod(counts)), np.int64), np.empty((3, system.n), np.int64)
        return many_chains.Cells(box.Grid(edges, inverse, scale, counts), heads, *lists)


def _route(chain: Chain, stepper: MonteCarlo) -> str:
    layout = chain.layout
    if stepper.potential is not None:
        return "crankshafts"
    if layout.links.size:
        return "pivots"
    kinds = layout.rows.kinds
    inner = ((kinds == LENGTH) | (kinds == ANGLE)) & ~layout.rows.external
    free = layout.linear and not layout.fixed and chain.dim == 3 and chain.n > 3
    return "torsions" if free and np.array_equal(layout.hard_mask, inner) else "crankshafts"
