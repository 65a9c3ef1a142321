r"""Run a constrained chain; restartable bit for bit.

usage: fixman simulate (--beads N | --chain CHAIN) --steps N --out FILE [flags]

In reduced units; replicas start from random walks.
Ctrl-C ends a run after the block that it is at; `fixman resume` goes on.

$chain

dynamics:
  --method {langevin,newton,brownian,mc,hmc}  mc is Monte Carlo (default: langevin)
  --ensemble {rigid,stiff,mobility}  of the constraints; of stiff springs in their place;
                         brownian, its default: of the mobility
  --dt DT                time step; otherwise 0.02, brownian 0.002, hmc 0.1
  --kT E                 temperature (default: 1)
  --friction F           langevin: rate; brownian: of a bead; otherwise 1
  --scheme {geodesic,midpoint,liu}  of brownian; otherwise geodesic, in a flow midpoint
  --leaps N              hmc: steps of dt to a trial move; otherwise 10
  --shear RATE           brownian: velocity along x grows at this rate with y
  or --extension RATE    brownian: extension along x at this rate, uniaxial in space

potentials, which add up:
  --bending K            K (1 − cos θ) of all angles
  --torsion-potential K1,K2  Σ K_m (1 + cos m φ) of all torsions
  --gravity G            acceleration downwards, along −z (−y in 2-D)
  --tension F            force along x that pulls the two ends apart
  --wca [EPSILON=1]      repulsion between beads without a bond; starts stretched
  or --lj [EPSILON=1]    Lennard-Jones between them; starts stretched too
  --sigma SIGMA          size of beads for these; otherwise 1

run:
  --steps N              such as 1e6 (required)
$run
$scheduler
$showing

example:
  fixman simulate --beads 50 --dt 0.02 --steps 1e6 --replicas 64 --seed 3 --out run
  fixman simulate --chain star:4x10 --method brownian --shear 1 --bending 5 \
      --dt 1e-3 --steps 1e5 --seed 3 --out sheared
"""

from __future__ import annotations

import argparse

from fixman.cli import chains, dynamics, shared

# Heavy imports live inside the commands: `fixman --help` answers at once.

WALKS = (2**32 - 1,)  # a stream that no replica has


def run(arguments: argparse.Namespace) -> int:
    import numpy as np

    from fixman.runs import runfile
    from fixman.sampling.random_walks import random_walks

    runfile.free(arguments.out, arguments.overwrite)
    chain, values, x0 = chains.made(arguments)
    stepper = dynamics.stepper(arguments, chain)
    seed = shared.seed(arguments)
    if x0 is None and dynamics.excludes(arguments):
        x0 = chains.stretched(chain, **values)
    elif x0 is None:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=WALKS))
        x0 = random_walks(chain, arguments.replicas, **values, rng=rng)
    shared.say(arguments, f"{chain!r}, seed {seed}")
    of = chain, x0, stepper, arguments.steps
    with shared.client(arguments) as client:
        return shared.simulated(arguments, *of, seed=seed, client=client)
