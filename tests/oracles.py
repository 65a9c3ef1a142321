"""Plain dense and extended-precision answers that the library is tested against.

Nothing here imports ``fixman``, and nothing here is fast: coordinates are written row by row from
the definition, Wilson rows come from complex steps, second derivatives from truncated Taylor
series, multipliers from a dense QR factorization, mass matrices from the Jacobian of q -> x, and
the extended-precision references run in mpmath with the float64 inputs taken as exact.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property

import mpmath
import numpy as np

STEP = 1e-40
DIGITS = 40


# --- the chart -------------------------------------------------------------------------------


def chart(n: int, dim: int, base: str) -> list[tuple[str, tuple[int, ...]]]:
    """Return the rows (kind, beads) of a linear chain: positions, then length, angle, torsion."""
    kinds = ("length", "angle", "torsion")[:dim]
    # The chain with its ghosts in front: -1 is the base point, which a free chain does not have.
    line = [-3, -2, -1, *range(n)] if base == "fixed" else [-3, -2, *range(n)]
    rows: list[tuple[str, tuple[int, ...]]] = []
    if base == "free":
        rows += [(axis, (0,)) for axis in "xyz"[:dim]]
    for k in range(0 if base == "fixed" else 1, n):
        end = line.index(k) + 1
        for size, kind in enumerate(kinds, start=2):
            rows.append((kind, tuple(line[end - size : end])))
    return rows


def external(row: tuple[str, tuple[int, ...]], base: str) -> bool:
    """Tell whether a row can never be hard: a position, or a ghost on a free chain."""
    kind, beads = row
    return base == "free" and (kind in "xyz" or min(beads) < 0)


@dataclass(frozen=True)
class Spec:
    """The arguments of a linear chain, with its index sets worked out from the definition.

    `of` takes any other chain at its word about which coordinates it has.
    """

    n: int
    dim: int = 3
    base: str = "free"
    masses: object = 1.0
    hard_kinds: object = ("length",)  # tuple of kinds or a boolean mask
    rows: list = field(init=False, compare=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "rows", chart(self.n, self.dim, self.base))

    @classmethod
    def of(cls, chain) -> Spec:
        """Read trees, rings and extra rows off a chain; `cartesian` is not for these."""
        mask = np.array(chain.hard_mask)
        spec = cls(chain.n, chain.dim, chain.base, np.array(chain.masses), mask)
        object.__setattr__(spec, "rows", [(c.kind, c.beads) for c in chain.coordinates])
        return spec

    @cached_property
    def hard(self) -> np.ndarray:
        if isinstance(self.hard_kinds, np.ndarray):
            return np.flatnonzero(self.hard_kinds)
        return np.array(
            [
                i
                for i, row in enumerate(self.rows)
                if row[0] in self.hard_kinds and not external(row, self.base)
            ],
            dtype=int,
        )

    @cached_property
    def soft(self) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self.rows)), self.hard)

    @cached_property
    def m(self) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.masses, float), (self.n,)).copy()

    @cached_property
    def mm(self) -> np.ndarray:
        """Masses repeated for every component, (n·d,)."""
        return np.repeat(self.m, self.dim)

    def arguments(self) -> dict:
        """Return the keyword arguments of ``Chain.linear`` that follow n."""
        return {"dim": self.dim, "base": self.base, "masses": self.masses, "hard": self.hard_kinds}


# --- arithmetic that works for floats, complex steps and Taylor series -----------------------


class Taylor:
    """A function of time to second order: value, first and second derivative."""

    __array_ufunc__ = None

    def __init__(self, f, f1=0.0, f2=0.0):
        self.f, self.f1, self.f2 = f, f1, f2

    @staticmethod
    def of(a):
        return a if isinstance(a, Taylor) else Taylor(a)

    def __add__(self, other):
        o = Taylor.of(other)
        return Taylor(self.f + o.f, self.f1 + o.f1, self.f2 + o.f2)

    def __neg__(self):
        return Taylor(-self.f, -self.f1, -self.f2)

    def __sub__(self, other):
        return self + (-Taylor.of(other))

    def __rsub__(self, other):
        return Taylor.of(other) - self

    def __mul__(self, other):
        o = Taylor.of(other)
        return Taylor(
            self.f * o.f,
            self.f1 * o.f + self.f * o.f1,
            self.f2 * o.f + 2 * self.f1 * o.f1 + self.f * o.f2,
        )

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other):
        o = Taylor.of(other)
        f = self.f / o.f
        f1 = (self.f1 - f * o.f1) / o.f
        return Taylor(f, f1, (self.f2 - 2 * f1 * o.f1 - f * o.f2) / o.f)


def sqrt(a):
    if not isinstance(a, Taylor):
        return np.sqrt(a)
    f = np.sqrt(a.f)
    f1 = a.f1 / (2 * f)
    return Taylor(f, f1, (a.f2 / 2 - f1 * f1) / f)


def arctan2(y, x):
    if isinstance(y, Taylor):
        # θ' = (x y' − y x')/r², once more differentiated
        rate = x.f * y.f1 - y.f * x.f1
        rate1 = x.f * y.f2 - y.f * x.f2
        r2, r21 = x.f**2 + y.f**2, 2 * (x.f * x.f1 + y.f * y.f1)
        f1 = rate / r2
        return Taylor(np.arctan2(y.f, x.f), f1, (rate1 - f1 * r21) / r2)
    if np.iscomplexobj(y):
        slope = (x.real * y.imag - y.real * x.imag) / (x.real**2 + y.real**2)
        return np.arctan2(y.real, x.real) + 1j * slope
    return np.arctan2(y, x)


def dot(a, b):
    return sum((p * q for p, q in zip(a[1:], b[1:], strict=True)), a[0] * b[0])


def cross(a, b):
    if len(a) == 2:
        return a[0] * b[1] - a[1] * b[0]
    return [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]


def minus(a, b):
    return [p - q for p, q in zip(a, b, strict=True)]


# --- coordinates -----------------------------------------------------------------------------


def _point(bead, beads, dim, base):
    """Return the components of a bead or ghost."""
    if bead >= 0:
        return beads[bead]
    origin = beads[0] if base == "free" else [0.0] * dim
    shift = {-1: (0, 0, 0), -2: (-1, 0, 0), -3: (-1, -1, 0)}[bead]
    return [origin[c] + float(shift[c]) for c in range(dim)]


def _value(row, beads, dim, base):
    """Return one coordinate; ``beads[k][c]`` may be numbers, arrays, complex or Taylor."""
    kind, indices = row
    if kind in "xyz":
        return beads[indices[0]]["xyz".index(kind)]
    points = [_point(k, beads, dim, base) for k in indices]
    bonds = [minus(b, a) for a, b in itertools.pairwise(points)]
    if kind in ("length", "distance"):
        return sqrt(dot(bonds[0], bonds[0]))
    if kind == "centroid_distance":
        across = [v + 0.5 * u for u, v in zip(*bonds, strict=True)]
        return sqrt(dot(across, across))
    if kind.startswith("distance_"):
        first, second = sqrt(dot(bonds[0], bonds[0])), sqrt(dot(bonds[2], bonds[2]))
        return first + second if kind == "distance_sum" else first - second
    if kind == "angle":
        normal = cross(*bonds)
        opposite = normal if dim == 2 else sqrt(dot(normal, normal))
        return arctan2(opposite, dot(*bonds))
    first, second = cross(bonds[0], bonds[1]), cross(bonds[1], bonds[2])
    axis = sqrt(dot(bonds[1], bonds[1]))
    return arctan2(dot(bonds[0], second) * axis, dot(first, second))


def internal(spec: Spec, x: np.ndarray, rows=None) -> np.ndarray:
    """Return q (..., rows) of x (..., n, d), real or complex; all rows unless some are named."""
    beads = [[x[..., k, c] for c in range(spec.dim)] for k in range(spec.n)]
    chosen = spec.rows if rows is None else [spec.rows[i] for i in rows]
    if not chosen:
        return np.zeros((*x.shape[:-2], 0), x.dtype)
    values = [_value(row, beads, spec.dim, spec.base) for row in chosen]
    return np.stack([np.broadcast_to(v, x.shape[:-2]) for v in values], axis=-1)


def cartesian(spec: Spec, q: np.ndarray) -> np.ndarray:
    """Return x (..., n, d) of q (..., n·d), real or complex, one bead after the other."""
    dim = spec.dim
    values = iter(np.moveaxis(q, -1, 0))
    axes = [np.broadcast_to(e, (*q.shape[:-1], dim)) for e in np.eye(dim)]
    if spec.base == "free":
        last = np.stack([next(values) for _ in range(dim)], axis=-1)
        placed = [last]
    else:
        last = np.zeros((*q.shape[:-1], dim), q.dtype)
        placed = []
    # The heading u, and in space the normal n of the plane of the last two bonds: ghosts' first.
    u = axes[0]
    n = -axes[2] if dim == 3 else None
    for _ in range(spec.n - len(placed)):
        length, angle = next(values)[..., None], next(values)[..., None]
        if dim == 2:
            left = np.stack([-u[..., 1], u[..., 0]], axis=-1)
            u = np.cos(angle) * u + np.sin(angle) * left
        else:
            torsion = next(values)[..., None]
            p = np.cross(n, u)  # the direction of a cis bond
            side = np.cos(torsion) * p + np.sin(torsion) * n
            u = np.cos(angle) * u + np.sin(angle) * side
            n = np.cos(torsion) * n - np.sin(torsion) * p
            n = n - (n * u).sum(-1, keepdims=True) * u
            n = n / np.sqrt((n * n).sum(-1, keepdims=True))
        u = u / np.sqrt((u * u).sum(-1, keepdims=True))
        last = last + length * u
        placed.append(last)
    return np.stack(placed, axis=-2)


def wilson_b(spec: Spec, x: np.ndarray, rows=None) -> np.ndarray:
    """Return dense B (rows, n·d) by complex steps of the coordinates."""
    size = spec.n * spec.dim
    steps = x + 1j * STEP * np.eye(size).reshape(size, spec.n, spec.dim)
    return internal(spec, steps, rows).imag.T / STEP


def velocity_terms(spec: Spec, x: np.ndarray, v: np.ndarray, rows=None) -> np.ndarray:
    """Return kappa = d²q/dt² along the straight line x + t v."""
    still = np.zeros(x.shape[:-2])
    beads = [
        [Taylor(x[..., k, c], v[..., k, c], still) for c in range(spec.dim)] for k in range(spec.n)
    ]
    chosen = spec.rows if rows is None else [spec.rows[i] for i in rows]
    kappa = [_value(row, beads, spec.dim, spec.base).f2 for row in chosen]
    return np.stack(kappa, axis=-1) if kappa else np.zeros((*x.shape[:-2], 0))


def jacobian(spec: Spec, q: np.ndarray) -> np.ndarray:
    """Return dense J = dx/dq (n·d, n·d) by complex steps of q -> x."""
    steps = q + 1j * STEP * np.eye(q.size)
    return cartesian(spec, steps).imag.reshape(q.size, q.size).T / STEP


def velocity(spec: Spec, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
    """Return v = J q̇ by one complex step."""
    return cartesian(spec, q + 1j * STEP * qd).imag / STEP


# --- dense mechanics -------------------------------------------------------------------------


def unconstrained_inverse_mass(spec: Spec, x: np.ndarray) -> np.ndarray:
    """Return dense H = B M⁻¹ Bᵀ."""
    b = wilson_b(spec, x)
    return (b / spec.mm) @ b.T


def mass_matrix(spec: Spec, x: np.ndarray) -> np.ndarray:
    """Return dense G^aa = Jᵀ M J over the soft columns of J = dx/dq."""
    j = jacobian(spec, internal(spec, x))[:, spec.soft]
    return (j.T * spec.mm) @ j


def logdet(matrix: np.ndarray) -> float:
    sign, value = np.linalg.slogdet(matrix)
    assert sign > 0
    return float(value)


def hard_logdet(spec: Spec, x: np.ndarray) -> tuple[float, float]:
    """Return ln det H^bb and the condition number of H^bb, by QR of M^{-1/2} B_bᵀ."""
    if not len(spec.hard):
        return 0.0, 1.0
    rows = wilson_b(spec, x, spec.hard) / np.sqrt(spec.mm)
    triangle = np.linalg.qr(rows.T, mode="r")
    return 2 * float(np.log(np.abs(np.diag(triangle))).sum()), float(np.linalg.cond(triangle) ** 2)


@dataclass
class Motion:
    """Dense answer of forward dynamics, and the size that its errors are measured against."""

    acceleration: np.ndarray
    tension: np.ndarray
    qdd: np.ndarray
    acceleration_scale: float
    tension_scale: float
    qdd_scale: float


def forward_dynamics(spec: Spec, x, v, torque=None, force=None, with_soft=True) -> Motion:
    """Solve for the multipliers by QR of M^{-1/2} B_bᵀ, so that cond(H^bb) is never squared.

    ``with_soft=False`` leaves the soft rows, which may be singular, out of it.
    """
    rows = spec.soft if with_soft else spec.soft[:0]
    soft, kappa_soft = wilson_b(spec, x, rows), velocity_terms(spec, x, v, rows)
    hard, kappa = wilson_b(spec, x, spec.hard), velocity_terms(spec, x, v, spec.hard)
    total = np.zeros(x.size) if force is None else np.asarray(force, float).reshape(-1).copy()
    if torque is not None:
        total += soft.T @ torque
    root = np.sqrt(spec.mm)
    columns, triangle = np.linalg.qr((hard / root).T)
    free = total / root
    # With y = M^{1/2} a and A = B_b M^{-1/2} = Rᵀ Qᵀ: y = free + Aᵀ λ and A y = −κ.
    along = -np.linalg.solve(triangle.T, kappa)
    pull = columns.T @ free
    tension = np.linalg.solve(triangle, pull - along)
    rest = free - columns @ pull
    rest -= columns @ (columns.T @ rest)  # again: what one pass leaves is only rounding
    acceleration = (rest + columns @ along) / root
    size = np.abs(free / root).max() + np.abs(columns @ along / root).max()
    inverse = np.abs(np.linalg.pinv(triangle))
    return Motion(
        acceleration.reshape(x.shape),
        tension,
        soft @ acceleration + kappa_soft,
        size,
        (inverse @ (np.abs(along) + np.abs(pull))).max(initial=0.0),
        (np.abs(soft) @ np.full(x.size, size) + np.abs(kappa_soft)).max(initial=0.0),
    )


def error(answer, reference, scale: float | None = None) -> float:
    """Return max|Δ|/max|reference|, or over ``scale`` where that is larger."""
    answer, reference = np.asarray(answer), np.asarray(reference)
    assert answer.shape == reference.shape, (answer.shape, reference.shape)
    if not reference.size:
        return 0.0
    assert np.isfinite(answer).all()
    size = max(float(np.abs(reference).max()), scale or 0.0)
    worst = float(np.abs(answer - reference).max())
    return worst / size if size else worst


def wrapped(difference):
    """Return angle differences modulo 2π, in [−π, π]."""
    return np.angle(np.exp(1j * np.asarray(difference)))


# --- chains of very unequal masses ---------------------------------------------------------------

UNEVEN = ("light middle 6", "light middle 10", "light middle 12", "alternating", "log-uniform")
SHAPES = ("bent", "nearly straight")


def uneven_chain(masses, shape, dim, base, seed, n=None):
    """Return a freely jointed chain with such masses, positions and velocities.

    Without ``n`` it has three beads if the middle one is light, else at most ten.

    Nearly straight chains fold here and there, and bend by 1e-8.
    """
    rng = np.random.default_rng(seed)
    n = n or (3 if masses.startswith("light") else int(rng.integers(2, 11)))
    if masses.startswith("light"):
        m = np.ones(n)
        m[n // 2] = 10.0 ** -float(masses.split()[-1])
    elif masses == "alternating":
        m = np.where(np.arange(n) % 2 == seed % 2, 1.0, 10.0 ** -rng.uniform(3, 12))
    elif masses == "rising":
        m = np.logspace(-12, 0, n)
    elif masses == "blocks":
        m = np.where(np.arange(n) // 10 % 2, 1.0, 1e-12)
    else:
        m = 10.0 ** rng.uniform(-6, 6, n)
    bonds = rng.normal(size=(n, dim))
    if shape == "nearly straight":
        # Askew: along an axis rounded bonds give sines without cancellation.
        along = rng.choice([-1.0, 1.0], n)[:, None] * np.arange(1.0, dim + 1.0)
        bonds = rng.uniform(0.5, 2.0, n)[:, None] * (along + 1e-8 * bonds)
    return Spec(n, dim, base, masses=m), bonds.cumsum(axis=0), rng.normal(size=(n, dim))


# --- extended precision, freely jointed chains, O(n) -----------------------------------------


def _mp(values):
    return [mpmath.mpf(float(a)) for a in np.asarray(values, float).ravel()]


def _mp_bonds(spec: Spec, x):
    """Return lengths and unit bonds of a freely jointed chain, base bond first if fixed."""
    dim, flat = spec.dim, _mp(x)
    points = [flat[i : i + dim] for i in range(0, len(flat), dim)]
    if spec.base == "fixed":
        points.insert(0, [mpmath.mpf(0)] * dim)
    bonds = [[b - a for a, b in zip(p, q, strict=True)] for p, q in itertools.pairwise(points)]
    lengths = [mpmath.sqrt(sum(c * c for c in bond)) for bond in bonds]
    return lengths, [
        [c / length for c in bond] for bond, length in zip(bonds, lengths, strict=True)
    ]


def _mp_weights(spec: Spec):
    """Return inverse masses of the bonds' end points, one more than bonds."""
    weights = [1 / m for m in _mp(spec.m)]
    return [mpmath.mpf(0), *weights] if spec.base == "fixed" else weights


def _mp_pivots(weights, units):
    pivots, coupling = [], []
    for i, u in enumerate(units):
        d = weights[i] + weights[i + 1]
        if i:
            off = -weights[i] * sum(a * b for a, b in zip(units[i - 1], u, strict=True))
            d -= off * off / pivots[-1]
            coupling.append(off)
        pivots.append(d)
    return pivots, coupling


def mp_logdet(spec: Spec, x) -> float:
    """Return ln det H^bb of a freely jointed chain, rounded to float at the very end."""
    with mpmath.workdps(DIGITS):
        pivots, _ = _mp_pivots(_mp_weights(spec), _mp_bonds(spec, x)[1])
        return float(mpmath.log(mpmath.fprod(pivots)))


def mp_forward_dynamics(spec: Spec, x, v, torque=None, force=None):
    """Return acceleration (n, d), tension and q̈ of a freely jointed chain.

    Torques and q̈ are for planar chains (None otherwise); everything is rounded at the end.
    """
    n, dim, fixed = spec.n, spec.dim, spec.base == "fixed"
    with mpmath.workdps(DIGITS):
        zero = mpmath.mpf(0)
        lengths, units = _mp_bonds(spec, x)
        weights = _mp_weights(spec)
        ends = [*([[zero] * dim] if fixed else []), *_rows(_mp(v), dim)]
        total = _rows(_mp(np.zeros(n * dim) if force is None else force), dim)
        if fixed:
            total.insert(0, [zero] * dim)
        relative = [minus(b, a) for a, b in itertools.pairwise(ends)]
        normals = [[-u[1], u[0]] for u in units] if dim == 2 else []
        if torque is not None:
            torque = _mp(torque)
            if not fixed:
                total[0] = [f + t for f, t in zip(total[0], torque[:dim], strict=True)]
                torque = torque[dim:]
            # θ_i = α_i − α_{i−1}: the torque on bond i's direction is τ_i − τ_{i+1}
            turning = minus(torque, [*torque, zero][1:])
            for i, (t, normal, length) in enumerate(zip(turning, normals, lengths, strict=True)):
                push = [t * c / length for c in normal]
                total[i + 1] = [f + p for f, p in zip(total[i + 1], push, strict=True)]
                total[i] = [f - p for f, p in zip(total[i], push, strict=True)]
        pivots, coupling = _mp_pivots(weights, units)
        scaled = [[w * c for c in f] for w, f in zip(weights, total, strict=True)]
        right = []
        for i, (u, length, rel) in enumerate(zip(units, lengths, relative, strict=True)):
            stretch = dot(u, rel)
            kappa = (dot(rel, rel) - stretch * stretch) / length
            right.append(dot(u, minus(scaled[i + 1], scaled[i])) + kappa)
        # H t = B M⁻¹ F + κ for the tensions t = −λ, by elimination in 40 digits
        for i, off in enumerate(coupling):
            right[i + 1] -= off / pivots[i] * right[i]
        tension = right[:]
        for i in reversed(range(len(tension))):
            if i < len(coupling):
                right[i] -= coupling[i] * tension[i + 1]
            tension[i] = right[i] / pivots[i]
        acceleration = scaled
        for i, (t, u) in enumerate(zip(tension, units, strict=True)):
            for c in range(dim):
                acceleration[i][c] += weights[i] * t * u[c]
                acceleration[i + 1][c] -= weights[i + 1] * t * u[c]
        qdd = None
        if dim == 2:
            turns = []
            for i, (u, normal, length, rel) in enumerate(
                zip(units, normals, lengths, relative, strict=True)
            ):
                bend = dot(normal, minus(acceleration[i + 1], acceleration[i])) / length
                turns.append(bend - 2 * dot(u, rel) * dot(normal, rel) / length**2)
            joints = minus(turns, [zero, *turns][:-1])
            qdd = np.array([float(a) for a in (joints if fixed else acceleration[0] + joints)])
        beads = acceleration[1:] if fixed else acceleration
        return (
            np.array([[float(c) for c in a] for a in beads]),
            np.array([float(t) for t in tension]),
            qdd,
        )


def largest_pull(spec: Spec, tension) -> float:
    """Return max w|t| over beads and their bonds: the terms that cancel in an acceleration."""
    fixed = spec.base == "fixed"
    pull = np.abs(tension)
    inner = pull if fixed else np.append(0.0, pull)
    outer = np.append(pull[1:] if fixed else pull, 0.0)
    return float((np.maximum(inner, outer) / spec.m).max())


def _rows(flat, dim):
    return [flat[i : i + dim] for i in range(0, len(flat), dim)]
