"""Solve, check and time long chains; write a figure.

usage: fixman demo [flags]

  --out DIR              folder for figure and CSV (default: fixman-demo)
  --quick                use a tenth of the beads

example:
  fixman demo --out fixman-demo
"""

from __future__ import annotations

import os
import timeit
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fixman as fx
from fixman.cli import shared

if TYPE_CHECKING:
    from numpy.random import Generator

    from fixman._common.arrays import Array

Timings = dict[str, tuple[list[int], list[float]]]


def run(arguments: shared.Namespace) -> None:
    # The dense baseline gets one core like everything else, if NumPy is not loaded yet.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import numpy as np

    n, rng = 100 if arguments.quick else 1000, np.random.default_rng(5)
    folder: Path = arguments.out
    folder.mkdir(parents=True, exist_ok=True)
    print("Most of a first run is compilation; later runs do not compile again.\n", flush=True)
    passed = [*_beads(n, 2, rng), *_beads(n, 3, rng), *_rigid_links(n, rng)]
    timings = _timings(n, rng)
    rows = [(name, n, t) for name, series in timings.items() for n, t in zip(*series, strict=True)]
    table = "".join(f"{name},{n},{t:.4g}\n" for name, n, t in rows)
    (folder / "timing.csv").write_text(f"method,links,seconds\n{table}", encoding="utf-8")
    print(f"Wrote timing.csv and {_draw(folder, timings)} into the folder {folder.resolve()}")
    print(f"{sum(passed)} checks passed.")
    if not all(passed):
        raise RuntimeError(f"{passed.count(False)} checks failed: please report this output")


def _agree(what: str, found: Any, expected: Any, tolerance: float) -> bool:
    """Print how well two answers agree, relative to the largest; return whether it is enough."""
    error = float(abs(found - expected).max() / abs(expected).max())
    verdict = "agree to" if error <= tolerance else "DISAGREE by"
    print(f"  {what:<66} {verdict} {error:.0e}", flush=True)
    return error <= tolerance


def _chain(n: int, dim: int, rng: Generator) -> tuple[fx.Chain, Array, Array]:
    chain = fx.Chain.linear(n)
    if dim == 2:
        chain = fx.Chain.linear(n, dim=2, base="fixed", masses=10.0 ** rng.uniform(-1, 1, n))
    q = chain.internal(fx.random_walks(chain, rng=rng)[0])
    rates = 0.0 * q
    rates[chain.soft] = rng.normal(size=chain.soft.size) / n**0.5
    return (chain, *chain.cartesian(q, rates))


def _root(chain: fx.Chain, x: Array) -> Array:
    """R of the mass matrix G^aa = JᵀMJ = RᵀR, by QR of √M J, J = ∂x/∂q of the soft coordinates.

    G^aa itself would cost half the digits: its condition number grows as n⁴.
    """
    import numpy as np

    q, rates = chain.internal(x), np.eye(chain.n * chain.dim)[chain.soft]  # one unit rate each
    J = chain.cartesian(np.tile(q, (len(rates), 1)), rates)[1]
    root = (J * np.sqrt(chain.masses)[:, None]).reshape(len(J), -1)
    return np.asarray(np.linalg.qr(root.T, mode="r"))


def _dense(chain: fx.Chain, x: Array, torque: Array) -> Array:
    from scipy.linalg import cho_solve

    return cho_solve((_root(chain, x), False), torque)


METHODS: dict[str, Callable[[fx.Chain, Array, Array], Array]] = {
    "published LU": lambda chain, x, b: fx.Partition(chain, x).solve(b, method="lu"),
    "fused partition": lambda chain, x, b: fx.Partition(chain, x).solve(b),
    "forward dynamics": lambda chain, x, b: fx.forward_dynamics(chain, x, 0 * x, torque=b).qdd,
    "dense QR": _dense,
}


def _beads(n: int, dim: int, rng: Generator) -> list[bool]:
    import numpy as np

    print(f"{n:,} links: {'a planar arm' if dim == 2 else 'a polymer in space'}, bonds rigid")
    chain, x, v = _chain(n, dim, rng)
    b, part = rng.normal(size=chain.soft.size), fx.Partition(chain, x)
    qdd = {name: method(chain, x, b) for name, method in METHODS.items()}
    dense = qdd.pop("dense QR")
    passed = [_agree(f"q̈ from rest: {name}, dense QR", qdd[name], dense, 1e-9) for name in qdd]
    moving = fx.forward_dynamics(chain, x, v, torque=b).qdd
    C = fx.inverse_dynamics(chain, x, v, 0 * b)  # what is left of it for q̈ = 0
    lu = part.solve(b - C, method="lu")
    passed.append(_agree("q̈ in motion: published LU, forward dynamics", lu, moving, 1e-8))
    free, hard = part.logdet_free, part.logdet_hard
    whole = 2.0 * np.log(np.abs(np.diag(_root(chain, x)))).sum()
    passed.append(_agree("ln(det G · det H^bb), ln det G^aa", free + hard, whole, 1e-10))
    print(f"    {free:.10f} + {hard:.10f} = {whole:.10f}\n")
    return passed


def _rigid_links(n: int, rng: Generator) -> list[bool]:
    import numpy as np

    print(f"{n:,} rigid links in space with motors in revolute and prismatic joints")
    rigid = fx.rigid
    arm = rigid.SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    state = rng.normal(size=(3, n))
    ways = (rigid.partition.forward_dynamics, rigid.articulated_body.forward_dynamics)
    found, expected = (way(arm, *state, gravity=(0.0, 0.0, -9.81)) for way in ways)
    passed = [_agree("q̈ in motion: partition, articulated body", found, expected, 1e-9)]
    hard = rigid.partition.logdet_hard(arm, state[0])
    whole = rigid.partition.logdet_mass(arm, state[0])
    pivots = sum(np.linalg.slogdet(D)[1] for D in rigid.articulated_body.pivots(arm, state[0]))
    passed.append(_agree("ln(Π det M_i · det H^bb), ln Π D_i", whole, pivots, 1e-10))
    print(f"    {whole - hard:.10f} + {hard:.10f} = {pivots:.10f}\n")
    return passed


def _timings(n: int, rng: Generator) -> Timings:
    """Time one q̈ of the arm, all set-up included, up to 100 times the long arm's size."""
    timings: Timings = {name: ([], []) for name in METHODS}
    print("Milliseconds for one q̈ of the arm")
    print(f"  {'links':>8}" + "".join(f"{name:>20}" for name in METHODS))
    for size in (n // 100, n // 30, n // 10, n // 3, n, 3 * n, 10 * n, 30 * n, 100 * n):
        chain, x, _ = _chain(size, 2, rng)
        b = rng.normal(size=size)
        for name, method in METHODS.items():
            if method is not _dense or size <= n:
                timings[name][0].append(size)
                timings[name][1].append(_seconds(partial(method, chain, x, b)))
        found = (f"{1e3 * t[-1]:>20.3g}" if n[-1] == size else "" for n, t in timings.values())
        print(f"  {size:>8,}{''.join(found)}", flush=True)
    exponents = "".join(f"{f'~ n^{_exponent(*series):.2f}':>20}" for series in timings.values())
    print(f"  {'':>8}{exponents}, of the three longest chains\n")
    return timings


def _seconds(function: Callable[[], object]) -> float:
    return min(timeit.repeat(function, number=1, repeat=7))  # noise only ever adds


def _exponent(n: list[int], t: list[float]) -> float:
    import numpy as np

    return float(np.polyfit(np.log(n[-3:]), np.log(t[-3:]), 1)[0])


def _draw(folder: Path, timings: Timings) -> str:
    try:
        from fixman.analysis import plot
    except ImportError as error:
        return f"no figure: {error}"
    with plot.style():
        fig = plot.figure()
        plot.timing(fig.subplots(), timings, {name: _exponent(*timings[name]) for name in timings})
        fig.savefig(folder / "timing.png")
    return "timing.png"
