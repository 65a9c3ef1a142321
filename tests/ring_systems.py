"""Random molecules with rings, and by dense algebra what "torsional" has to hold of them.

At every atom its bonds are a rigid body, and so are those of both ends of a bond that does not
turn.  The oracle holds the distances of all pairs in such a body, which shares no code with the
library's rows; beads in line are held so by their components across the line.
"""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

GHOSTS = np.array([[-1.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # −3, −2, −1


class Molecule(NamedTuple):
    """``straight`` are bends (i, j, k) in line; about ``turning`` bonds torsions are soft."""

    n: int
    bonds: list[tuple[int, int]]
    straight: list[tuple[int, int, int]]
    turning: list[tuple[int, int]]

    def renumbered(self, order):
        """Bead k becomes ``order[k]``."""
        return Molecule(self.n, *([tuple(int(order[k]) for k in row) for row in rows]
                                  for rows in self[1:]))  # fmt: skip


class Graph:
    """Bonds in the making."""

    def __init__(self, rng):
        self.rng, self.bonds, self.degree, self.straight = rng, [], [], []

    def atom(self):
        self.degree.append(0)
        return len(self.degree) - 1

    def bond(self, i, j):
        self.bonds.append((i, j))
        self.degree[i] += 1
        self.degree[j] += 1

    def path(self, i, j, size):
        """Join two atoms by so many new ones."""
        beads = [i, *(self.atom() for _ in range(size)), j]
        for pair in pairwise(beads):
            self.bond(*pair)
        return beads

    def ring(self, size):
        first = self.atom()
        return self.path(first, first, size - 1)[:-1]

    def free(self, among):
        """One of some atoms that can take a further bond."""
        able = [k for k in among if self.degree[k] < 4]
        return int(self.rng.choice(able)) if able else None


def system(rng, kind, straight=False):
    """One ring, fused, bridged, spiro, a macrocycle, or several on a chain, with substituents."""
    graph = Graph(rng)
    size = int(rng.integers(9, 41)) if kind == "macrocycle" else int(rng.integers(3, 13))
    rings = [graph.ring(size)]
    for _ in range(int(rng.integers(1, 4)) * (kind not in ("single", "macrocycle"))):
        old = rings[int(rng.integers(len(rings)))]
        first = graph.free(old)
        if first is None:
            continue
        place, length = old.index(first), int(rng.integers(2, 9))
        if kind == "fused":
            other = old[place - 1]
        elif kind == "bridged":
            other = graph.free([k for k in old if k != first])
        elif kind == "spiro":
            other, length = first, length + 1
        else:  # several, on a chain
            new = graph.ring(int(rng.integers(3, 13)))
            graph.path(first, graph.free(new), int(rng.integers(0, 4)))
            rings.append(new)
            continue
        if other is not None and graph.degree[other] < 4 + (other != first):
            rings.append(graph.path(first, other, length)[: length + (other != first)])
    for atom in range(len(graph.degree)):  # substituents
        while graph.degree[atom] < 4 and rng.random() < 0.45:
            graph.path(atom, graph.atom(), int(rng.random() < 0.3))
    if straight:
        _straighten(graph)
    share = rng.choice([0.0, 0.8, 0.95, 1.0], p=[0.1, 0.3, 0.1, 0.5])
    turning = [bond for bond in graph.bonds if rng.random() < share]
    return Molecule(len(graph.degree), graph.bonds, graph.straight, turning)


def _straighten(graph):
    """Put some atoms in line with two neighbours: allenes, and with a further atom alkynes."""
    near = neighbours(len(graph.degree), graph.bonds)
    used = set()
    for atom in graph.rng.permutation(len(near)).tolist():
        if len(near[atom]) not in (2, 3) or graph.rng.random() < 0.3:
            continue
        i, k = graph.rng.permutation(near[atom])[:2].tolist()
        line = [i, atom, k]
        if len(near[k]) == 2 and graph.rng.random() < 0.6:  # an alkyne
            line.append(next(b for b in near[k] if b != atom))
        ringed = [b for b in line if b in near[line[0]]]
        if len(set(line)) < len(line) or used & set(line) or len(ringed) > 1:
            continue
        used |= set(line) | {b for a in line for b in near[a]}
        graph.straight += [tuple(line[m : m + 3]) for m in range(len(line) - 2)]


def neighbours(n, bonds):
    near = [[] for _ in range(n)]
    for i, j in bonds:
        near[i].append(j)
        near[j].append(i)
    return near


def lines_of(straight):
    """Beads in line, from end to end."""
    lines = []
    for bend in straight:
        for line in lines:
            if line[-2:] == list(bend[:2]):
                line.append(bend[2])
                break
        else:
            lines.append(list(bend))
    return lines


def placed(molecule, rng, dim=3):
    """Positions with unit bonds, about, and all else where it has room."""
    n = molecule.n
    x = rng.normal(size=(n, dim)) * n ** (1 / dim)
    i, j = np.array(molecule.bonds).T
    near = neighbours(n, molecule.bonds)
    a, b = np.array([pair for ends in near for pair in combinations(ends, 2)]).T
    for step in range(200):
        force = np.zeros_like(x)
        for one, two, goal, k in ((i, j, 1.0, 0.3), (a, b, 1.6, 0.1)):
            apart = x[two] - x[one]
            far = np.linalg.norm(apart, axis=1)[:, None] + 1e-9
            pull = k * (far - goal) * apart / far
            np.add.at(force, one, pull)
            np.add.at(force, two, -pull)
        apart = x[:, None] - x
        far = np.linalg.norm(apart, axis=-1) + np.eye(n)
        force += 0.1 * (apart * (np.maximum(0.0, 1.5 - far) / far)[..., None]).sum(axis=1)
        x += np.clip(0.5 * force, -0.3, 0.3) + rng.normal(size=x.shape) * 0.1 * (step < 100)
    for line in lines_of(molecule.straight):
        along = np.arange(len(line))[:, None]
        x[line] = x[line[0]] + along * (x[line[-1]] - x[line[0]]) / along[-1]
    return x


# --- what is to be held -------------------------------------------------------------------------


def turns(molecule, fixed=False):
    """Bonds that turn: those named, and whatever they join already."""
    group = {k: k for k in range(-1, molecule.n)}

    def top(k):
        while group[k] != k:
            k = group[k]
        return k

    for i, j in molecule.turning:
        group[top(i)] = top(j)
    bonds = [*molecule.bonds, *[(-1, 0)] * fixed]
    return {frozenset(bond) for bond in bonds if top(bond[0]) == top(bond[1])}


def bodies(molecule, fixed=False):
    """List sets of beads that are rigid: bonds of an atom, of both ends of a bond, or of a line."""
    near = {k: set(ends) for k, ends in enumerate(neighbours(molecule.n, molecule.bonds))}
    if fixed:
        near |= {-3: {-2}, -2: {-3, -1}, -1: {-2, 0}}
        near[0].add(-1)
    lines, soft = lines_of(molecule.straight), turns(molecule, fixed)
    found = [{k, *ends} for k, ends in near.items()]
    bonds = [*molecule.bonds, *[(-3, -2), (-2, -1), (-1, 0)] * fixed]
    for i, j in bonds:
        if frozenset((i, j)) not in soft and not any(i in line and j in line for line in lines):
            found.append({i, j} | near[i] | near[j])
    for line in lines:  # whatever hangs on a piece of it that does not turn
        piece = set()
        for before, bead in zip([None, *line], line, strict=False):
            if before is not None and frozenset((before, bead)) in soft:
                found.append(piece)
                piece = set()
            piece |= {bead} | near[bead]
        found.append(piece)
    return found


def rows_of(molecule, x, fixed=False):
    """Gradients of all that is held, (rows, n·dim)."""
    n, dim = x.shape
    points = np.concatenate([GHOSTS[:, :dim], x])
    lines = lines_of(molecule.straight)
    rigid = [combinations(sorted(body), 2) for body in bodies(molecule, fixed)]
    rows = []
    for i, j in sorted(set().union(*rigid)):
        row = np.zeros((n + 3, dim))
        row[i + 3] = (points[i + 3] - points[j + 3]) / np.linalg.norm(points[i + 3] - points[j + 3])
        row[j + 3] = -row[i + 3]
        rows.append(row)
    for line in lines:
        first, last = line[0] + 3, line[-1] + 3
        for k, bead in enumerate(line[1:-1], 1):
            share = k / (len(line) - 1)
            for way in np.linalg.svd((points[last] - points[first])[None])[2][1:]:
                row = np.zeros((n + 3, dim))
                row[bead + 3], row[first], row[last] = way, (share - 1) * way, -share * way
                rows.append(row)
    return np.array(rows)[:, 3:].reshape(len(rows), n * dim)


def motions(rows):
    """Orthonormal motions (n·dim, freedom) that change none of them, and the gap that tells so."""
    sizes, ways = np.linalg.svd(np.linalg.qr(rows, mode="r"), full_matrices=True)[1:]
    rank = int((sizes > 1e-9 * sizes[0]).sum())
    gap = sizes[rank - 1] / sizes[0]
    return ways[rank:].T, gap
