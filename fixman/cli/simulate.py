"""`fixman simulate`: a chain that flags describe, in motion."""

from __future__ import annotations

import argparse

from fixman.cli import chains, dynamics, shared

# Heavy imports live inside the commands: `fixman --help` answers at once.

WALKS = (2**32 - 1,)  # a stream that no replica has

HELP = f"""
usage: fixman simulate (--beads N | --chain WORDS) --steps N --out FILE [flags]

run a constrained chain; restartable bit for bit

Replicas of a constrained chain, from random walks, in reduced units.
Ctrl-C ends a run after the block that it is at; `fixman resume` goes on.
{chains.CHAIN}
{dynamics.DYNAMICS}
run:
  --steps N              such as 1e6 (required){shared.RUN}{shared.SCHEDULER}{shared.SHOWING}

example:
  fixman simulate --beads 50 --ensemble stiff --dt 0.02 --steps 1e6 \\
      --replicas 64 --seed 3 --out run
  fixman simulate --chain star:4x10 --method brownian --shear 1 --bending 5 \\
      --dt 1e-3 --steps 1e5 --seed 3 --out sheared
"""


def run(arguments: argparse.Namespace) -> int:
    """Run a chain that the flags describe."""
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
