"""The mass-metric determinant over many configurations: potential, force and weights.

    U = ½ kT ln det H^bb ,   H^bb = B_b M⁻¹ B_bᵀ ,   det G^aa = det G · det H^bb   (Fixman 1974)

By the last equation the rigid density √det G^aa is √det H^bb times the stiff density √det G.  A
rigid simulation with U added to the energy samples the stiff ensemble: the limit of springs whose
constants do not depend on x.  Weights exp(−U/kT) correct rigid frames (theory.md section 4).

Brownian dynamics with projected constraints samples the mobility metric √det(B_b K B_bᵀ);
``inverse_masses`` K = diag 1/ζ give this metric, and correct such a simulation.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain
from fixman.errors import FrameError
from fixman.kernels.chain import freely_jointed, hard
from fixman.kernels.compiler.lanes import EIGHTS, LANES, ONE
from fixman.mechanics.refusals import raise_failure

__all__ = ["Reweighting", "fixman_force", "fixman_potential", "logdet", "reweight"]

# Eight frames at once take eight times the memory: where a thread would need more bytes than this
# they are computed one by one.
LARGEST_WORKSPACE = 2**28


def logdet(
    chain: Chain, x: ArrayLike, *, inverse_masses: ArrayLike | None = None, workers: int = 1
) -> Array:
    """ln det H^bb of each configuration (Fixman 1974).

    Parameters
    ----------
    chain : Chain
    x : (..., n, dim)
        A Dask array, chunked over frames, stays lazy.
    inverse_masses : float or (n,), optional
        The chain's own by default.  Inverse frictions give the mobility metric.
    workers : int
        Threads over a batch of frames; they change no bit.

    Returns
    -------
    ndarray (...)
        Depends on units of mass and length by a constant only.  Zero without hard coordinates.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held in some frame, which is named.  Bonds alone never
        fail unless beads coincide or a ring folds flat, straight chains included.

    Notes
    -----
    O(n) a frame for chains and trees of bounded degree and for each ring; linear chains of bonds
    alone are factored without subtraction.  Batches are computed eight frames at a time, in up to
    256 MB a thread; a frame's answer is the same to the last bit alone and in any batch.
    """
    return _each(chain, x, inverse_masses, workers, 1.0)


def fixman_potential(
    chain: Chain,
    x: ArrayLike,
    kT: float = 1.0,
    *,
    inverse_masses: ArrayLike | None = None,
    workers: int = 1,
) -> Array:
    """U = ½ kT ln det H^bb, which makes a rigid simulation sample the stiff ensemble (Fixman 1974).

    Parameters, cost and errors are those of `logdet`; kT is the unit of the answer (...).
    """
    half = 0.5 * arrays.positive(kT, "kT")
    return _each(chain, x, inverse_masses, workers, half)


def fixman_force(
    chain: Chain,
    x: ArrayLike,
    kT: float = 1.0,
    *,
    inverse_masses: ArrayLike | None = None,
    workers: int = 1,
) -> Array:
    """−∂U/∂x = −kT Σ_i (∂²q_i/∂x∂x) W_i, W = (H^bb)⁻¹ B_b M⁻¹, of the Fixman potential, exactly.

    Parameters and errors are those of `logdet`; the cost is two to three times as much, since
    (H^bb)⁻¹ is needed on the pattern of the factor only (theory.md section 4).

    Returns
    -------
    ndarray (..., n, dim)
        In units of kT over length.  Constraints cancel the components along hard coordinates.  Net
        force and torque on a free chain vanish.  If a bend held straight is off by δ, the force is
        accurate to O(δ).
    """
    kT = arrays.positive(kT, "kT")
    return _each(chain, x, inverse_masses, workers, kT, forces=True)


class Reweighting(NamedTuple):
    """Weights that turn the rigid ensemble into the stiff one.

    The exponentials of ``log_weights (...)`` sum to 1.  ``effective_size`` is the number of
    independent samples that the weighted ones are worth, for the observable given.
    """

    log_weights: Array
    effective_size: float

    def __repr__(self) -> str:
        return f"<Reweighting: {self.log_weights.size} samples worth {self.effective_size:.4g}>"


def reweight(
    chain: Chain,
    x: ArrayLike,
    *,
    observable: ArrayLike | None = None,
    inverse_masses: ArrayLike | None = None,
    workers: int = 1,
) -> Reweighting:
    """Weights (det H^bb)^{−½} that turn samples of the rigid ensemble into stiff ones.

    The chain has the masses of the atoms, and x its order of beads.  For files of trajectories
    ``fixman audit --out weights.csv`` and `AuditReport.log_weights` find both.

    An average of the stiff ensemble is ``(np.exp(log_weights) * values).sum()``.

    Parameters
    ----------
    chain : Chain
    x : (frames, ..., n, dim)
        Axis 0 is time; further leading axes are independent chains.
    observable : (frames, ...), optional
        Values to be averaged, for ``effective_size``.  Some observables, above all the end-to-end
        vector of a long chain, are correlated much longer than the weights.
    inverse_masses, workers
        As `logdet`; ``inverse_masses`` mean that the samples are of the rigid mobility metric.

    Returns
    -------
    Reweighting
        ``effective_size`` is Kish's (Σw)²/Σw² over the statistical inefficiency along time of
        w (A − ⟨A⟩) for the observable A.  Without A, the size is that for ½ ln det H^bb.  Kish's
        share falls as e^{−N/340} for N freely jointed bonds of equal masses, and faster if more is
        hard: use weights for short chains, and `fixman_force` for long ones.

    Notes
    -----
    Errors are those of `logdet`.  The cost is that of `logdet` plus O(frames ln frames).  Weights
    of Dask arrays are computed.
    """
    half = 0.5 * np.asarray(logdet(chain, x, inverse_masses=inverse_masses, workers=workers))
    if half.ndim == 0:
        raise ValueError("x must have time as its first axis, got one configuration")
    if not half.size:
        raise ValueError(f"x has no frames: its leading axes are {half.shape}")
    log_weights = half.min() - half
    log_weights -= np.log(np.exp(log_weights).sum())
    series = half
    if observable is not None:
        values = arrays.real(observable, (), "observable")
        if values.shape != half.shape:
            raise ValueError(f"observable must have shape {half.shape}, got {values.shape}")
        arrays.require_finite(values, half.shape, "observable", "frame")
        weights = np.exp(log_weights)
        series = weights * (values - (weights * values).sum())
    kish = statistics.effective_size(log_weights)
    return Reweighting(log_weights, max(1.0, kish / statistics.statistical_inefficiency(series)))


def _each(
    chain: Chain,
    x: ArrayLike,
    inverse_masses: ArrayLike | None,
    workers: int,
    factor: float,
    forces: bool = False,
) -> Array:
    """Compute frames now, or those of a Dask array when it is."""
    require_chain(chain)
    w = None
    if inverse_masses is not None:
        w = arrays.one_or_each(inverse_masses, chain.n, "inverse_masses")
        for k in np.flatnonzero(~((w >= 1e-100) & (w <= 1e100)))[:1]:
            raise ValueError(f"the inverse mass of bead {k} is {w[k]}: it must be within 1e±100")
    workers = arrays.positive_int(workers, "workers")
    compute = partial(_computed, chain, w, workers, factor, forces)
    lazy = hasattr(x, "map_blocks") and hasattr(x, "rechunk")
    return _lazily(compute, x, chain, forces) if lazy else compute(x)


def _computed(
    chain: Chain, w: Array | None, workers: int, factor: float, forces: bool, x: ArrayLike
) -> Array:
    """``factor`` ln det H^bb of frames, or forces at kT = ``factor``."""
    layout, n, dim = chain.layout, chain.n, chain.dim
    x = arrays.real(x, (n, dim), "x")
    kernel: Any = hard.metric_frames
    tables: Any
    if layout.links.size:
        joints = layout.links[0] if w is None else np.append(np.zeros(int(layout.fixed)), w)
        tables, units = (joints, (0,) * dim, layout.fixed), freely_jointed.UNITS * n
        kernel = freely_jointed.metric_frames
    else:
        tables = layout.system if w is None else layout.pattern.system(w)
        units = layout.units[forces]
    given = x.reshape(-1), tables, factor if forces else None
    out = np.empty(x.shape if forces else x.shape[:-2])
    bad = run_frames(kernel, given, x.size // (n * dim), out.reshape(-1), units, workers)
    if not forces:
        out *= factor
    if bad >= 0:
        raise_failure(chain if w is None else replace(chain, masses=1.0 / w), x, bad)
    answer: Array = out[()]  # one configuration: a number
    return answer


def run_frames(
    kernel: Callable[..., int],
    given: tuple[Any, ...],
    frames: int,
    out: Array,
    units: int,
    workers: int = 1,
) -> int:
    """Run a kernel over all frames, one by one or in lanes; the first bad frame, or −1.

    ``units`` are what it needs of memory.
    """
    if not frames:
        return -1
    in_lanes = frames >= LANES and units * LANES * 8 <= LARGEST_WORKSPACE
    states = EIGHTS if in_lanes else ONE
    size = units * len(states) + LANES

    def run(first: int, last: int) -> int:
        # From NumPy, which asks for large pages: touching new ones can cost more than the frame.
        return kernel(*given, first, last, out, np.empty(size), states)

    registers = -(-frames // LANES)
    pieces = min(workers, registers)
    if pieces == 1:
        bad = run(0, frames)
    else:
        # Whole registers; the last one of all reaches back over frames done already.
        edges = [min(frames, LANES * (registers * k // pieces)) for k in range(pieces + 1)]
        with ThreadPoolExecutor(pieces - 1) as pool:
            others = pool.map(run, edges[1:-1], edges[2:])
            results = [run(0, edges[1]), *others]
        bad = next((bad for bad in results if bad >= 0), -1)
    if bad >= 0 and in_lanes:  # one of eight
        bad = kernel(*given, bad, frames, out, np.empty(size), ONE)
    return bad


def _lazily(compute: Callable[[ArrayLike], Array], x: Any, chain: Chain, forces: bool) -> Array:
    # A wrong shape or type is told now, though the number of frames may not be known yet.
    tail = chain.n, chain.dim
    shape = tuple(size if size == size else 0 for size in x.shape)
    if shape[-2:] == tail:
        shape = (0,) * (x.ndim - 2) + tail
    arrays.real(np.broadcast_to(np.zeros((), x.dtype), shape), tail, "x")
    last = [x.ndim - 2, x.ndim - 1]
    lost = [] if forces else last
    answer: Array = x.rechunk(dict.fromkeys(last, -1)).map_blocks(
        partial(_block, compute),
        drop_axis=lost,
        dtype=np.float64,
        meta=np.empty((0,) * (x.ndim - len(lost))),
    )
    return answer


def _block(compute: Callable[[ArrayLike], Array], x: ArrayLike, block_info: Any = None) -> Array:
    try:
        return compute(x)
    except FrameError as error:  # counted from the beginning of all blocks
        if error.frame is None:
            raise
        starts = [first for first, _ in block_info[0]["array-location"][:-2]]
        index = tuple(int(k) for k in np.ravel(error.frame) + starts)
        raise error.moved(index[0] if len(index) == 1 else index) from None
