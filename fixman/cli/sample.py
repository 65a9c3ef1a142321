"""`fixman sample`: parse, call, print."""

from __future__ import annotations

import argparse
from typing import Any

from fixman.cli import arguments as cli_arguments

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

NPY, NPZ = ".npy", ".npz"


def add_command(commands: Any) -> None:
    """Add the subcommand to the parser of `fixman`."""
    sample = commands.add_parser(
        "sample",
        help="draw independent chains of an ensemble",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        description="Draw independent configurations of a constrained chain, in reduced units.\n"
        "A .npz file holds x (size, beads, dim), log_weights (size,), and what they are of;\n"
        "a .npy file x alone, where all weights are equal.",
        epilog="example:\n  fixman sample --beads 50 --size 1e5 --ensemble rigid --seed 3 "
        "--out chains.npz",
    )
    cli_arguments.add_chain(sample, rings=False)
    add = sample.add_argument_group("sample").add_argument
    add(
        "--size", type=cli_arguments.whole, required=True, metavar="N", help="how many; 1e6 will do"
    )
    limits = "of the constraints, or of equally stiff springs in their place (default: rigid)"
    add("--ensemble", choices=("rigid", "stiff"), default="rigid", help=limits)
    cli_arguments.add_seed(add)
    add(
        "--out",
        type=cli_arguments.named_path,
        required=True,
        metavar="FILE",
        help="file to write, .npz or .npy",
    )
    add("--overwrite", action="store_true", help="replace an existing file")
    cli_arguments.add_running(add)
    sample.set_defaults(run=_sample)


def _sample(arguments: argparse.Namespace) -> None:
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
