"""Parts that commands share: flags of chains and workers, and printing."""

from __future__ import annotations

import argparse
import contextlib
import math
import secrets
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fixman.errors import printable

if TYPE_CHECKING:
    from fixman.chains.chain import Chain

BEAD_BYTES, REPLICA_BYTES = 2700, 350  # for a chain while it is made; for each replica

CHAIN = """
chain:
  --beads N              beads of the chain
  --dim {2,3}            dimension of space (default: 3)
  --base {free,fixed}    whether the chain is held (default: free)
  --hard WORDS           one or more of length,angle,torsion, or torsional
  --straight BENDS       bends held straight, by beads counted from 0: 0:1:2,1:2:3
  --chain JSON           in place of these, what Chain.to_json wrote
  --length L             of the bonds (default: 1)
  --angle DEGREES        hard bending angles, 0 is straight; otherwise 70.53
  --torsion DEGREES      hard torsions, 180 is trans; otherwise this"""
SEED = """
  --seed N               of all random numbers; otherwise a new one, which is said"""
RUN = f"""
  --every N              steps per frame; otherwise for about 1000 frames
  --replicas N           independent copies (default: 1){SEED}
  --out FILE             file to be made for the run (required)
  --overwrite            replace a run of that name"""
WORKERS = """
  --workers COUNT        threads; the results do not depend on it (default: 1)"""
RUNNING = f"""{WORKERS}
  --scheduler ADDRESS    a running Dask scheduler, whose workers do it"""


@contextlib.contextmanager
def client(arguments: argparse.Namespace) -> Iterator[Any]:
    """Connect to the scheduler, if there is one."""
    if arguments.scheduler is None:
        yield None
        return
    from fixman.io.dask import connect

    with connect(arguments.scheduler) as connected:
        yield connected


def seed(arguments: argparse.Namespace) -> int:
    """Return --seed, or a new one."""
    given: int | None = arguments.seed
    if given is not None and given < 0:
        raise ValueError(f"--seed must not be negative, got {given}")
    return secrets.randbits(64) if given is None else given


def show(text: object, error: bool = False) -> None:
    """Print what may have text of files in it."""
    print(printable(str(text)), file=sys.stderr if error else sys.stdout)


def say(text: str) -> None:
    """Print before the work, which may be killed; a pipe that is closed is met at the end."""
    with contextlib.suppress(BrokenPipeError):
        show(text)
        sys.stdout.flush()


def chain(arguments: argparse.Namespace, copies: int, flag: str) -> Chain:
    """Make the chain, of which this machine has to hold so many ``copies``, told by a ``flag``."""
    if arguments.beads is not None:
        _require_memory(arguments.beads, copies, flag)
    made = _chain(arguments)
    _require_memory(made.n, copies, flag)
    return made


def _chain(arguments: argparse.Namespace) -> Chain:
    from fixman.chains.chain import Chain

    if arguments.chain is None:
        if arguments.beads is None:
            raise ValueError("say which chain: --beads N, or --chain FILE")
        make = Chain.ring if getattr(arguments, "ring", False) else Chain.linear
        hard = "length" if arguments.hard is None else arguments.hard
        space = {"dim": arguments.dim, "base": arguments.base}
        return make(arguments.beads, **space, hard=hard, straight=arguments.straight or ())
    for name in ("beads", "ring", "hard", "straight"):
        if getattr(arguments, name, None) not in (None, False):
            raise ValueError(f"--{name} is for chains without a file: leave it out with --chain")
    if not arguments.chain.is_file():
        raise FileNotFoundError(f"no such file: {arguments.chain}")
    try:
        return Chain.from_json(arguments.chain.read_text(encoding="utf-8"))
    except ValueError as error:
        what = "it is no text" if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(f"{arguments.chain}: {what}") from None


def hard_values(arguments: argparse.Namespace, chain: Chain) -> dict[str, float]:
    """Return lengths, angles and torsions as walks and samples take them."""
    from fixman.sampling.random_walks import TETRAHEDRAL

    return {
        "lengths": arguments.length,
        "angles": _radians(arguments, chain, "angle", TETRAHEDRAL),
        "torsions": _radians(arguments, chain, "torsion", math.pi),
    }


def _radians(arguments: argparse.Namespace, chain: Chain, kind: str, otherwise: float) -> float:
    degrees = getattr(arguments, kind)
    if degrees is None:
        return otherwise
    if not any(chain.coordinates[row].kind == kind for row in chain.hard):
        raise ValueError(f"--{kind} is for hard {kind}s, and this chain has none: see --hard")
    most = 180.0 if kind == "angle" else 360.0
    if not abs(degrees) <= most:
        raise ValueError(f"--{kind} must be up to {most:g} degrees either way, got {degrees:g}")
    return math.radians(degrees)


def _require_memory(beads: int, copies: int, flag: str) -> None:
    from fixman._common import arrays

    beads = arrays.positive_int(beads, "--beads")
    copies = arrays.positive_int(copies, flag)
    arrays.require_memory(
        beads * (BEAD_BYTES + REPLICA_BYTES * copies),
        f"{beads} beads in {copies} {'replica' if flag == '--replicas' else 'chain'}"
        f"{'s' * (copies != 1)}",
    )
