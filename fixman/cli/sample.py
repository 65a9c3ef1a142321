"""`fixman sample`: parse, call, print."""

from __future__ import annotations

import argparse
from typing import Any

from fixman.cli import arguments as cli_arguments

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

NPY, NPZ = ".npy", ".npz"


HELP = f"""
usage: fixman sample --beads N --size N --out FILE [flags]

draw independent chains of an ensemble

Independent configurations of a constrained chain, in reduced units.
A .npz file holds x (size, beads, dim), log_weights (size,), and what they are
of; a .npy file x alone, where all weights are equal.
{cli_arguments.CHAIN}

sample:
  --size N               how many; 1e6 will do (required)
  --ensemble {{rigid,stiff}}
                         of constraints, or of stiff springs (default: rigid){cli_arguments.SEED}
  --out FILE             file to write, .npz or .npy (required)
  --overwrite            replace an existing file{cli_arguments.RUNNING}

example:
  fixman sample --beads 50 --size 1e5 --ensemble rigid --seed 3 --out chains.npz
"""


def run(arguments: argparse.Namespace) -> None:
    """Draw chains that the flags describe."""
    import numpy as np

    from fixman import sample
    from fixman._common.files import new_file

    path, suffix = arguments.out, arguments.out.suffix.lower()
    if suffix not in (NPY, NPZ):
        raise ValueError(f"--out must end in .npz or .npy, got {path}")
    chain = cli_arguments.chain(arguments, arguments.size, "--size")
    seed = cli_arguments.seed(arguments)
    with (
        new_file(path, arguments.overwrite) as temporary,
        cli_arguments.client(arguments) as client,
    ):
        cli_arguments.say(f"{chain!r}, seed {seed}")
        drawn = sample(
            chain,
            arguments.size,
            **cli_arguments.hard_values(arguments, chain),
            ensemble=arguments.ensemble,
            rng=seed,
            workers=arguments.workers,
            client=client,
        )
        weighted = bool(np.ptp(drawn.log_weights))
        if weighted and suffix == NPY:
            raise ValueError(f"these chains have weights, which {path} has no place for: take .npz")
        with temporary.open("wb") as file:
            if suffix == NPY:
                np.save(file, drawn.x)
            else:
                said = {"ensemble": arguments.ensemble, "method": drawn.method, "seed": str(seed)}
                said["chain"] = chain.to_json()
                about: Any = {name: np.array(value) for name, value in said.items()}
                np.savez(file, x=drawn.x, log_weights=drawn.log_weights, **about)
    worth = f", worth {drawn.effective_size:.4g} independent ones"
    if round(drawn.effective_size) == len(drawn.x):
        worth = ""
    cli_arguments.show(f"wrote {path}: {len(drawn.x)} chains{worth}, {drawn.method}")
