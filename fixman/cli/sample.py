"""Draw independent chains of an ensemble.

usage: fixman sample (--beads N | --chain CHAIN) --size N --out FILE [flags]

The chains are independent configurations of one constrained chain, in reduced units.
The .npz file holds x (size, beads, dim), log_weights (size,), chain, ensemble, method, seed.

$chain
sample:
  --size COUNT           number of chains, such as 1e6
  --ensemble {rigid,stiff}  rigid: constraints; stiff: springs (default: rigid)
$seed
  --out FILE, --overwrite  new .npz file; replace an existing file
$scheduler
$json

example:
  fixman sample --beads 50 --size 1e5 --ensemble rigid --seed 3 --out chains.npz
"""

from typing import Any

import numpy as np

import fixman
from fixman._common.files import new_file
from fixman.cli import chains, shared


def run(arguments: shared.Namespace) -> None:
    path = arguments.out
    if path.suffix.lower() != ".npz":
        raise ValueError(f"--out must end in .npz, got {path}")
    chain, values, _ = chains.made(arguments)
    seed = shared.seed(arguments)
    values |= shared.given(arguments, "ensemble", "workers")
    with new_file(path, arguments.overwrite) as temporary, shared.client(arguments) as client:
        shared.say(arguments, f"{chain!r}, seed {seed}")
        drawn = fixman.sample(chain, arguments.size, **values, rng=seed, client=client)
        about: dict[str, Any] = {"ensemble": arguments.ensemble, "method": drawn.method}
        about |= {"seed": str(seed), "chain": chain.to_json()}
        with temporary.open("wb") as file:
            np.savez(file, x=drawn.x, log_weights=drawn.log_weights, **about)
    size, worth = len(drawn.x), drawn.effective_size
    independent = "" if round(worth) == size else f", worth {worth:.4g} independent ones"
    about |= {"chain": repr(chain), "size": size, "effective_size": worth, "written": str(path)}
    shared.result(arguments, f"wrote {path}: {size} chains{independent}, {drawn.method}", about)
