"""Molecules with straight groups, and dense rows of theirs.

Lengths in Å and angles of the gases from G. Herzberg, Electronic Spectra of Polyatomic Molecules
(1966), tables of molecular constants; benzonitrile as benzene, with the nitrile of acetonitrile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import oracles

C, H, N, OXYGEN, F, S = 12.011, 1.008, 14.007, 15.999, 18.998, 32.06


class Molecule(NamedTuple):
    x: np.ndarray
    bonds: list[tuple[int, int]]
    masses: np.ndarray
    straight: int  # bends
    freedom: int  # of motion with "torsional": 5 or 6, and torsions that turn

    def renumbered(self, rng):
        """Return the same molecule with its atoms in another order, turned in space."""
        order = rng.permutation(len(self.x))
        place = np.argsort(order)
        bonds = [(int(place[i]), int(place[j])) for i, j in self.bonds]
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        return self._replace(x=self.x[order] @ turn, bonds=bonds, masses=self.masses[order])


def line(*lengths):
    return np.append(0.0, np.cumsum(lengths))[:, None] * [1.0, 0.0, 0.0]


def methyl(at, sign, phase=0.0):
    """Three hydrogens, bonds of 1.10 at 109.5° to an axis along x."""
    turns = phase + 2.0 * np.pi * np.arange(3) / 3.0
    bend = np.radians(70.5)
    across = [np.sin(bend) * np.cos(turns), np.sin(bend) * np.sin(turns)]
    return at + 1.10 * np.stack([np.full(3, sign * np.cos(bend)), *across], axis=1)


def chain_of(*beads):
    return [(k, k + 1) for k in range(len(beads) - 1)]


def _linear(lengths, masses):
    return Molecule(line(*lengths), chain_of(*masses), np.array(masses), len(masses) - 2, 5)


def _capped(lengths, masses, both=False):
    """Close a straight group by a methyl group at one end or at both."""
    x, bonds, end = line(*lengths), chain_of(*masses), len(masses)
    parts = [x, methyl(x[0], -1.0)]
    bonds += [(0, end + k) for k in range(3)]
    if both:
        parts.append(methyl(x[-1], 1.0, 0.4))
        bonds += [(end - 1, end + 3 + k) for k in range(3)]
    hydrogens = [H] * (6 if both else 3)
    weights = np.array([*masses, *hydrogens])
    return Molecule(np.concatenate(parts), bonds, weights, end - 2, 7 if both else 6)


def _allene():
    x, s, c = line(1.308, 1.308), 1.087 * np.sin(np.radians(59.1)), 1.087 * np.cos(np.radians(59.1))
    ends = [x[0] + [-c, s, 0], x[0] + [-c, -s, 0], x[2] + [c, 0, s], x[2] + [c, 0, -s]]
    bonds = [(0, 1), (1, 2), (0, 3), (0, 4), (2, 5), (2, 6)]
    return Molecule(np.array([*x, *ends]), bonds, np.array([C] * 3 + [H] * 4), 1, 7)


def _benzonitrile():
    turns = np.pi * np.arange(6) / 3.0
    ring = np.stack([np.cos(turns), np.sin(turns), 0.0 * turns], axis=1)
    x = np.concatenate([1.397 * ring, [2.855 * ring[0], 4.012 * ring[0]], 2.481 * ring[1:]])
    bonds = [(k, (k + 1) % 6) for k in range(6)] + [(0, 6), (6, 7)]
    bonds += [(k, 7 + k) for k in range(1, 6)]
    return Molecule(x, bonds, np.array([C] * 7 + [N] + [H] * 5), 1, 6)


def _octahedron():
    x = np.concatenate([np.zeros((1, 3)), 1.56 * np.eye(3), -1.56 * np.eye(3)])
    return Molecule(x, [(0, k) for k in range(1, 7)], np.array([S] + [F] * 6), 1, 6)


MOLECULES = {
    "carbon dioxide": _linear([1.162, 1.162], [OXYGEN, C, OXYGEN]),
    "hydrogen cyanide": _linear([1.064, 1.156], [H, C, N]),
    "nitrous oxide": _linear([1.126, 1.186], [N, N, OXYGEN]),
    "acetylene": _linear([1.058, 1.208, 1.058], [H, C, C, H]),
    "diacetylene": _linear([1.046, 1.205, 1.376, 1.205, 1.046], [H, C, C, C, C, H]),
    "acetonitrile": _capped([1.458, 1.157], [C, C, N]),
    "propyne": _capped([1.459, 1.207, 1.056], [C, C, C, H]),
    "2-butyne": _capped([1.467, 1.213, 1.467], [C] * 4, both=True),
    "allene": _allene(),
    "benzonitrile": _benzonitrile(),
    "sulfur hexafluoride": _octahedron(),
}


def ring(n, straight):
    """Return a puckered ring of n unit bonds, of which so many beads are in line: x and bonds."""
    side, corners = straight - 1, n - straight + 1

    def missing(radius):  # to a full turn
        return np.arcsin(0.5 * side / radius) + corners * np.arcsin(0.5 / radius) - np.pi

    low, high = 0.5 * side * (1.0 + 1e-12), float(n)
    for _ in range(100):
        radius = 0.5 * (low + high)
        low, high = (radius, high) if missing(radius) > 0.0 else (low, radius)
    first, step = 2.0 * np.arcsin(0.5 * side / radius), 2.0 * np.arcsin(0.5 / radius)
    turns = np.append(0.0, first + step * np.arange(corners))
    corner = radius * np.stack([np.cos(turns), np.sin(turns), 0.0 * turns], axis=1)
    share = np.arange(side)[:, None] / side
    x = np.concatenate([corner[0] + share * (corner[1] - corner[0]), corner[1:]])
    x[straight + 1 :: 2, 2] += 0.35
    return x, [(k, (k + 1) % n) for k in range(n)]


def dense_rows(chain, x):
    """Wilson rows of the hard coordinates by complex steps, straight bends across a fixed line."""
    step = 1e-30
    points = x + 1j * step * np.eye(x.size).reshape(x.size, *x.shape)
    beads = [[points[:, k, c] for c in range(3)] for k in range(chain.n)]
    rows = []
    for row in (chain.coordinates[k] for k in chain.hard):
        if row.kind in ("length", "angle", "torsion"):
            value = oracles._value(row, beads, 3, "free")
        else:
            across = np.linalg.svd(x[row.beads[2]] - x[row.beads[0]][None])[2][1:]
            e = across[0 if row.kind == "straight_y" else 1]
            i, j, k = (beads[bead] for bead in row.beads)
            u, v = oracles.minus(j, i), oracles.minus(k, j)
            value = oracles.dot(e, v) / oracles.sqrt(oracles.dot(v, v))
            value = value - oracles.dot(e, u) / oracles.sqrt(oracles.dot(u, u))
        rows.append(value.imag / step)
    return np.array(rows)


def dense_logdet(chain, x):
    """ln det H^bb by QR."""
    weighed = dense_rows(chain, x) / np.sqrt(np.repeat(chain.masses, 3))
    return 2.0 * np.log(np.abs(np.diagonal(np.linalg.qr(weighed.T, mode="r")))).sum()
