"""Chains by flags: words, JSON files, molecules of a topology, and where their beads start."""

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.cli import shared

BY_WORDS = re.compile(r"(linear|ring):([1-9]\d*)|(star|comb):([1-9]\d*)x([1-9]\d*)")
VALUES = ("length", "angle", "torsion")
UNUSED = {  # flags that say nothing of some chains
    "chains by words": ("select",),
    "chains of JSON": ("dim", "base", "hard", "straight", "select"),
    "molecules": ("dim", "base", *VALUES),
}
TETRAHEDRAL = math.acos(1.0 / 3.0)  # a bend, 70.53 degrees
BYTES = 2700  # of a bead while its chain is made


class Made(NamedTuple):
    """A chain, its hard values as walks and samples take them, and its positions in a file."""

    chain: Chain
    values: dict[str, Any]
    x: Array | None = None


def made(arguments: shared.Namespace) -> Made:
    path, shape, n, side = arguments.chain, "linear", arguments.beads, 0
    words = BY_WORDS.fullmatch(str(path))
    if words:
        row, beads, tree, arms, each = words.groups()
        shape, n, side = row or tree, int(beads or arms), int(each or 0)
    json = path and path.suffix.lower() == ".json"
    kind = "chains by words" if words or not path else "chains of JSON" if json else "molecules"
    for name in shared.given(arguments, *UNUSED[kind]):
        raise ValueError(f"--{name} is not for {kind}")
    if kind == "chains by words":
        return _with_values(arguments, _shaped(arguments, shape, n, side))
    if not path.is_file():
        known = "linear:50, ring:30, star:4x10, comb:20x5"
        raise FileNotFoundError(f"no such file: {path}; chains by words are {known}")
    return _with_values(arguments, from_json(path)) if json else _molecule(arguments, path)


def from_json(path: Path) -> Chain:
    """Read a chain from a file; errors name it."""
    try:
        return Chain.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _shaped(arguments: shared.Namespace, shape: str, n: int, side: int) -> Chain:
    beads = arrays.positive_int({"star": 1 + n * side}.get(shape, n + n * side), "--beads", BYTES)
    given: dict[str, Any] = {"dim": arguments.dim or 3, "base": arguments.base or "free"}
    given |= _hard(arguments)
    if shape in ("linear", "ring"):
        return (Chain.ring if shape == "ring" else Chain.linear)(n, **given)
    parents = np.arange(-1, beads - 1)
    if shape == "star":
        parents[1::side] = 0
    else:
        parents[n::side] = np.arange(n)
    return Chain.branched(parents, **given)


def _hard(arguments: shared.Namespace) -> dict[str, Any]:
    hard = "length" if arguments.hard is None else arguments.hard
    return {"hard": hard, "straight": arguments.straight or ()}


def _molecule(arguments: shared.Namespace, path: Path) -> Made:
    from fixman.io.mdanalysis import read_chains

    read = read_chains(path, select=arguments.select or "all", stop=1)
    if len(read.groups) > 1:
        found = ", ".join(group.label() for group in read.groups)
        raise ValueError(f"{path} has {found}: choose equal molecules with --select")
    (group,) = read.groups
    chain = group.chain(**_hard(arguments))
    x, kinds = group.x[0, 0], [row.kind for row in chain.coordinates]
    rows = np.ones(len(kinds))  # of soft ones anything
    rows[chain.hard] = chain.hard_values(x)
    values = {f"{kind}s": rows[[found == kind for found in kinds]] for kind in VALUES}
    return Made(chain, values, x)


def _with_values(arguments: shared.Namespace, chain: Chain) -> Made:
    hard = {"length", *(chain.coordinates[row].kind for row in chain.hard)}
    values = {"length": 1.0, "angle": TETRAHEDRAL, "torsion": math.pi}
    for kind, given in shared.given(arguments, *VALUES).items():
        if kind not in hard:
            raise ValueError(f"--{kind} needs hard {kind}s, and this chain has none: see --hard")
        if kind != "length" and abs(given) > 180.0:
            raise ValueError(f"--{kind} is in degrees, up to 180 either way, got {given:g}")
        values[kind] = given if kind == "length" else math.radians(given)
    return Made(chain, {f"{kind}s": value for kind, value in values.items()})


def stretched(
    chain: Chain, lengths: float, angles: float, torsions: float, bend: float = 0.0
) -> Array:
    """Stretch a chain out, or make a ring a polygon: positions (n, dim) without overlaps.

    A zigzag of soft angles ``bend`` has torsions, a straight line has none.
    """
    n, kinds = chain.n, {chain.coordinates[row].kind for row in chain.hard}
    if chain.layout.linear:
        hard = {"length": lengths, "angle": angles, "torsion": torsions}
        soft = {"length": lengths, "angle": bend, "torsion": math.pi}
        rows = zip(chain.coordinates[: n * chain.dim], chain.hard_mask, strict=False)
        return chain.cartesian([(hard if held else soft).get(row.kind, 0.0) for row, held in rows])
    ring = n > 2 and chain.extra == Chain.ring(n, dim=chain.dim, base=chain.base).extra
    if not ring or kinds != {"length"}:
        said = "--wca and --lj start from linear chains, rings of hard bonds or a topology"
        raise ValueError(f"{said}; start other chains from Python, where x0 gives positions")
    radius, turns = 0.5 * lengths / math.sin(math.pi / n), 2.0 * math.pi * np.arange(n) / n
    x = np.zeros((n, chain.dim))
    x[:, 0], x[:, 1] = radius * (1.0 - np.cos(turns)), radius * np.sin(turns)
    x[:, 0] += lengths if chain.base == "fixed" else 0.0
    return x
