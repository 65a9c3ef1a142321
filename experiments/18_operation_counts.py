"""Operations of the rigid recursions, counted as they run, beside the formulas of Saha (1999).

The library's own kernels run as plain Python on numbers that count what is done with them.  The
arm has revolute joints and general Denavit–Hartenberg parameters, mass centres and inertias.  As
in Tables 1 and 2 of the paper, sines and cosines do not count, nor does what a hand would leave
out: products with numbers that are 0 or 1 in every such arm, and sums with 0.  (The base is at
rest, gravity along its Z.)  The "as written" columns have those too.  What only guards against
lost pivots is apart.  Every count is an exact polynomial in the number of links.

Then the number of links from which O(n) is cheaper than the composite body's O(n³): by the
paper's formulas, by these counts, and by the clock.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import inspect
import math
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from _output import Output, panels, plot
from numba.core.dispatcher import Dispatcher

from fixman.kernels.compiler.steps import _STEPS
from fixman.kernels.rigid import articulated_states, spatial_operators
from fixman.kernels.rigid import composite_body as rigid_composite_body
from fixman.kernels.rigid import newton_euler as rigid_newton_euler
from fixman.kernels.rigid import partition as rigid_partition
from fixman.rigid import SerialChain, composite_body, partition
from fixman.rigid import articulated_body as bodies
from fixman.rigid import spatial_operators as operators

GRAVITY = (0.0, 0.0, -9.81)
INVERSE = {  # Table 1: multiplications and additions, coefficients of n and 1
    "Hollerbach 1980": ((412, -277), (320, -201)),
    "Luh et al. 1980": ((150, -48), (131, 48)),
    "Walker and Orin 1982": ((137, -22), (101, -11)),
    "Saha 1999": ((120, -44), (97, -55)),
    "Khalil et al. 1986": ((105, -92), (94, -86)),
    "Angeles et al. 1989": ((105, -109), (90, -105)),
    "Balafoutis et al. 1988": ((93, -69), (81, -65)),
}
SIXTH, THIRD, HALF = Fraction(1, 6), Fraction(1, 3), Fraction(1, 2)
FORWARD = {  # Table 2
    "Saha 1999": ((201, -335), (193, -361)),
    "Featherstone 1983": ((199, -198), (174, -173)),
    "Walker and Orin 1982": (  # with 7 n² it is 475 additions at n = 6, where 480 is printed
        (SIXTH, 11 + HALF, 38 + THIRD, -47),
        (SIXTH, 7, 38 + 5 * SIXTH, -46),
    ),
}

# --- numbers that count ---------------------------------------------------------------------------


@dataclass
class Tally:
    """What has been counted, and how deep in guards; whether 0 and 1 count too."""

    written: bool = False
    guards: int = 0
    counts: Counter = field(default_factory=Counter)

    def add(self, operation: str) -> None:
        """Count one."""
        self.counts["guards" if self.guards else operation] += 1


TALLY = Tally()


class Number:
    """A number that is not known before the arm moves; plain floats are."""

    def __init__(self, value: float) -> None:
        self.value = value

    __hash__ = None

    def __float__(self) -> float:
        return self.value

    def __neg__(self) -> Number:
        return Number(-self.value)

    def __abs__(self) -> Number:
        return Number(abs(self.value))

    def __pow__(self, power: int) -> Any:
        assert power == 2
        return self * self

    def __add__(self, other: Any) -> Any:
        return _sum(self, other, 1.0)

    def __radd__(self, other: Any) -> Any:
        return _sum(other, self, 1.0)

    def __sub__(self, other: Any) -> Any:
        return _sum(self, other, -1.0)

    def __rsub__(self, other: Any) -> Any:
        return _sum(other, self, -1.0)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented
        if not isinstance(other, Number) and not TALLY.written and other in (0.0, 1.0, -1.0):
            return 0.0 if other == 0.0 else self if other == 1.0 else -self
        TALLY.add("M")
        return Number(self.value * float(other))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        TALLY.add("M")
        return Number(self.value / float(other))

    def __rtruediv__(self, other: Any) -> Any:
        if other == 0.0 and not TALLY.written:
            return 0.0
        TALLY.add("M")
        return Number(float(other) / self.value)


def _sum(x: Any, y: Any, sign: float) -> Any:
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        return NotImplemented
    if not TALLY.written:
        if not isinstance(x, Number) and x == 0.0:
            return y if sign > 0 else -y
        if not isinstance(y, Number) and y == 0.0:
            return x
    TALLY.add("A")
    return Number(float(x) + sign * float(y))


for _name in ("lt", "gt", "le", "ge", "eq"):
    _compare = getattr(float, f"__{_name}__")
    setattr(Number, f"__{_name}__", lambda x, y, by=_compare: by(x.value, float(y)))


def counted(array: Any) -> np.ndarray:
    """Return an array of numbers that count; those that are 0, 1 or −1 are the same in all arms."""
    values = np.asarray(array, dtype=float)
    known = np.isin(values, (0.0, 1.0, -1.0))
    out = np.empty(values.shape, dtype=object)
    for at, v in np.ndenumerate(values):
        out[at] = float(v) if known[at] else Number(float(v))
    return out


# --- kernels as plain Python ----------------------------------------------------------------------


def _objects(shape: Any, *_: Any, **__: Any) -> np.ndarray:
    return np.full(shape, 0.0, dtype=object)


def _place(k: int, like: Any) -> Any:
    return slice(8 * k, 8 * k + 8) if isinstance(like, np.ndarray) else k


def _load(work: np.ndarray, k: int, like: Any) -> Any:
    return work[_place(k, like)]


def _store(work: np.ndarray, k: int, value: Any) -> None:
    work[_place(k, value)] = value


def _take(states: np.ndarray, first: int, stride: int, like: Any) -> Any:
    if isinstance(like, np.ndarray):
        return states[first : first + 8 * stride : stride]
    return states[first]


def _part(work: np.ndarray, first: int, units: int, like: Any) -> Any:
    width = 8 if isinstance(like, np.ndarray) else 1
    return work[width * first : width * (first + units)]


def _fill_sines(work: np.ndarray, m: int) -> None:
    angles = [float(x) for x in work[:m]]
    work[:m], work[m : 2 * m] = counted(np.cos(angles)), counted(np.sin(angles))


def _bits(table: np.ndarray, k: int) -> int:
    return struct.unpack("q", struct.pack("d", float(table[k])))[0]


_NUMPY = {name: getattr(np, name) for name in dir(np) if not name.startswith("_")} | {
    "empty": _objects,
    "zeros": _objects,
}
STUBS: dict[str, Any] = {
    "np": SimpleNamespace(**_NUMPY),
    "math": SimpleNamespace(
        inf=math.inf,
        log=lambda x: 0.0,
        cos=lambda x: Number(math.cos(float(x))),
        sin=lambda x: Number(math.sin(float(x))),
    ),
    "float": lambda x: x,
    "load": _load,
    "store": _store,
    "take": _take,
    "part": _part,
    "put": lambda states, first, stride, value: _store(states, first, value),
    "above": lambda x, y: x > y,
    "multiplied": lambda product, power, d: (product * d, power),  # its rest is of exponents
    "fma": lambda x, y, z: x * y + z,
    "lanes": lambda like: 1,
    "eight": lambda x: np.full(8, x, dtype=object),
    "lane": lambda x, k: x[k],
    "integer": _bits,
    "fill_sines": _fill_sines,
}
GUARDS = {"felt", "not_a_number", "checked", "freedom", "multiplied"}


def _guard(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        TALLY.guards += 1
        try:
            return function(*args)
        finally:
            TALLY.guards -= 1

    return run


class _Room:
    """A module, of plain functions."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return plain(name, getattr(self._module, name))


def _written(values: Any) -> Any:
    """Return the function that a step was made of."""
    known = inspect.getclosurevars(values).nonlocals
    return known["function"] if "function" in known else _written(known["values"])


def plain(name: str, x: Any) -> Any:
    """Return what a kernel knows by this name, for numbers that count."""
    if isinstance(x, ModuleType) and x.__name__.startswith("fixman."):
        return _Room(x)
    if name in STUBS:
        return STUBS[name]
    if id(x) in _STEPS:
        x = _written(_STEPS[id(x)])
    if isinstance(x, Dispatcher):
        x = x.py_func
    if isinstance(x, FunctionType) and x.__module__.startswith("fixman."):
        return _guard(_plain(x)) if name in GUARDS else _plain(x)
    return x


@cache
def _plain(function: FunctionType) -> FunctionType:
    known, names, codes = function.__globals__, set(), [function.__code__]
    for code in codes:  # which grows
        names |= set(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    found = {name: plain(name, known.get(name)) for name in names if name in known or name in STUBS}
    made = FunctionType(
        function.__code__, found, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def run(function: Any, *args: Any) -> Any:
    """Call a kernel on numbers that count."""
    return plain(getattr(function, "__name__", ""), function)(*args)


# --- the algorithms -------------------------------------------------------------------------------


class Case:
    """An arm in Denavit and Hartenberg's form, moving: floats, and numbers that count."""

    def __init__(self, n: int) -> None:
        self.arm = arm = dh_arm(n)
        self.floats = tuple(np.random.default_rng(n).normal(size=(3, n)))
        self.q, self.qd, self.last = (counted(x)[None] for x in self.floats)
        self.g, self.table = counted(GRAVITY), counted(arm._table)
        self.kinds, self.unloaded, self.out = arm._kinds, _objects((0, 6)), _objects((1, n))

    def inverse(self, qdd: np.ndarray) -> np.ndarray:
        """Return the torques of a motion."""
        tau, room = _objects((1, self.arm.n)), _objects((1, self.arm.n, 6))
        motion = self.q, self.qd, qdd
        kernel = rigid_newton_euler.newton_euler_frames
        run(kernel, self.kinds, self.table, motion, self.g, self.unloaded, tau, room)
        return tau

    def without_bias(self) -> np.ndarray:
        """Return the torques less the bias."""
        return self.last - self.inverse(_objects((1, self.arm.n)))


def dh_arm(n: int) -> SerialChain:
    rng = np.random.default_rng(n)
    cloud = rng.normal(size=(n, 8, 3)) * 0.3
    second = np.einsum("nki,nkj->nij", cloud, cloud) / 8
    inertias = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
    parameters = rng.uniform(0.2, 1.0, (3, n))
    return SerialChain.from_dh(
        *parameters, np.zeros(n), joints=("revolute",) * n,
        masses=rng.uniform(0.5, 2.0, n), com=-0.3 * rng.normal(size=(n, 3)), inertias=inertias,
    )  # fmt: skip


def newton_euler(c: Case) -> np.ndarray:
    return c.inverse(c.last)


def articulated(c: Case) -> np.ndarray:
    table = counted(bodies._plan(c.arm).table)
    run(articulated_states.state, table, c.q[0], c.qd[0], c.last[0], c.g, c.out[0], None)
    return c.out


def fd1(c: Case) -> np.ndarray:
    T = c.without_bias()
    run(spatial_operators.forward_frames, c.kinds, c.table, c.q, T, None, c.out)
    return c.out


def fd3(c: Case) -> np.ndarray:
    bias = c.qd, c.g, c.unloaded
    run(spatial_operators.forward_frames, c.kinds, c.table, c.q, c.last, bias, c.out)
    return c.out


def substitute(L: np.ndarray, x: np.ndarray) -> None:
    """Overwrite x with (L Lᵀ)⁻¹ x."""
    for k in range(len(x)):
        for j in range(k):
            x[k] -= L[k, j] * x[j]
        x[k] /= L[k, k]
    for k in reversed(range(len(x))):
        x[k] /= L[k, k]
        for j in range(k):
            x[j] -= L[k, j] * x[k]


def composite(c: Case) -> np.ndarray:
    n = c.arm.n
    right, matrix = c.without_bias(), _objects((1, n, n))
    run(rigid_composite_body.inertia_frames, c.kinds, c.table, c.q, matrix)
    lower = np.linalg.cholesky(matrix.astype(float))
    # LAPACK's, in which nothing is left out: n square roots besides
    TALLY.counts["M"] += n * (n * n - 1) // 6 + n * (n - 1) // 2
    TALLY.counts["A"] += n * (n * n - 1) // 6
    substitute(counted(lower)[0], right[0])
    return right


def fixman(c: Case) -> np.ndarray:
    blocks, kernel = partition._tables(c.arm).blocks, rigid_partition
    table = counted(blocks)
    table[:, kernel.KIND :] = blocks[:, kernel.KIND :]  # numbers of rows, not of an arm
    room = _objects(kernel.WORK * c.arm.n)
    run(kernel.motion_frames, table, c.q, c.qd, c.last, c.g, c.unloaded, c.out, room)
    return c.out


ALGORITHMS = {
    "Newton–Euler": newton_euler,
    "articulated body": articulated,
    "FD1": fd1,
    "FD3": fd3,
    "partition": fixman,
    "composite body": composite,
}


def count(algorithm: Callable[[Case], np.ndarray], n: int, written: bool) -> tuple[int, ...]:
    """Return multiplications and divisions, additions, and operations of guards."""
    case = Case(n)
    TALLY.counts, TALLY.written = Counter(), written
    answer = np.array([float(x) for x in np.ravel(algorithm(case))])
    arm, (q, qd, last) = case.arm, case.floats
    wanted = bodies.forward_dynamics(arm, q, qd, last, gravity=GRAVITY)
    if algorithm is newton_euler:  # undone by the others
        answer, wanted = bodies.forward_dynamics(arm, q, qd, answer, gravity=GRAVITY), last
    assert np.abs(answer - wanted).max() <= 1e-9 * np.abs(wanted).max(), algorithm.__name__
    return tuple(TALLY.counts[kind] for kind in ("M", "A", "guards"))


# --- polynomials and crossovers -------------------------------------------------------------------

Polynomial = tuple[Fraction, ...]  # coefficients, highest first


def value(polynomial: tuple, n: int) -> Fraction:
    total = Fraction(0)
    for coefficient in polynomial:
        total = total * n + coefficient
    return total


def fitted(algorithm: Callable[[Case], np.ndarray], checks: list[int]) -> tuple[Polynomial, ...]:
    """Return the polynomials that counts follow exactly, from three links on."""
    degree = 3 if algorithm is composite else 1
    sizes = list(range(3, 4 + degree))
    columns = zip(*(count(algorithm, n, False) for n in sizes), strict=True)
    found = tuple(_through(sizes, column) for column in columns)
    for n in checks:
        assert tuple(value(p, n) for p in found) == count(algorithm, n, False)
    return found


def _through(sizes: list[int], values: tuple[int, ...]) -> Polynomial:
    """Lagrange's polynomial."""
    total = [Fraction(0)] * len(sizes)
    for k, (at, y) in enumerate(zip(sizes, values, strict=True)):
        term = [Fraction(y)]
        for other in sizes[:k] + sizes[k + 1 :]:
            down = [Fraction(0), *(-other * x for x in term)]
            term = [(x + z) / (at - other) for x, z in zip([*term, Fraction(0)], down, strict=True)]
        total = [x + y for x, y in zip(total, term, strict=True)]
    return tuple(total)


def formula(polynomial: tuple) -> str:
    """Return 1/6 n³ + 23/2 n² − 47, say."""
    powers = ("", " n", " n²", " n³")
    terms = zip(polynomial, reversed(powers[: len(polynomial)]), strict=True)
    parts = [f"{'−' if c < 0 else '+'} {abs(c)}{power}" for c, power in terms if c]
    return " ".join(parts).removeprefix("+ ") or "0"


def crossover(cheap: Callable[[int], float], dear: Callable[[int], float], sizes: Any) -> str:
    """Return the first of the sizes from which on one is cheaper than the other."""
    found = (n for k, n in enumerate(sizes) if all(cheap(m) < dear(m) for m in sizes[k:]))
    return str(next(found, f"> {sizes[-1]}"))


def operations(pair: tuple) -> Callable[[int], Fraction]:
    return lambda n: value(pair[0], n) + value(pair[1], n)


# --- time -----------------------------------------------------------------------------------------

TIMED = {
    "articulated body": bodies.forward_dynamics,
    "FD1": lambda *state, **loads: operators.forward_dynamics(*state, **loads, method="fd1"),
    "FD3": operators.forward_dynamics,
    "partition": partition.forward_dynamics,
    "partition, refine=1": lambda *state, **loads: partition.forward_dynamics(
        *state, **loads, refine=1
    ),
    "composite body": composite_body.forward_dynamics,
}
BATCH = 64
# Links, at most, alone and in a batch.
LONGEST = {"composite body": (1000, 100)}


CROSSING = tuple(name for name in TIMED if name != "partition, refine=1")


def times(names: Iterable[str], sizes: list[int], budget: float) -> dict:
    """Return seconds a state, alone and in a batch: the least of many blocks, taken in turn."""
    calls = {}
    for n in sizes:
        arm, rng = dh_arm(n), np.random.default_rng(n)
        for k, frames in enumerate((1, BATCH)):
            state = rng.normal(size=(3, n) if frames == 1 else (3, frames, n))
            for name in names:
                forward = TIMED[name]
                if n <= LONGEST.get(name, (n, n))[k]:
                    calls[name, n, frames] = lambda f=forward, a=arm, s=state: f(
                        a, *s, gravity=GRAVITY
                    )
    best, blocks = dict.fromkeys(calls, math.inf), {}
    for key, call in calls.items():
        blocks[key] = max(1, int(3e-4 / min(_seconds(call, 1) for _ in range(5))))
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        for key, call in calls.items():
            best[key] = min(best[key], _seconds(call, blocks[key]) / key[2])
    return best


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """Of the processor: what else the machine does has no part in it."""
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats


# --- what is written ------------------------------------------------------------------------------


def row(task: str, algorithm: str, source: str, pair: tuple) -> dict[str, str]:
    out = {"task": task, "algorithm": algorithm, "source": source}
    out |= {kind: formula(p) for kind, p in zip("MA", pair, strict=True)}
    for n in (6, 12):
        out |= {f"{kind}, n = {n}": str(value(p, n)) for kind, p in zip("MA", pair, strict=True)}
    blank = ("guards", "M as written, n = 6", "A as written, n = 6")
    return out | dict.fromkeys((*blank, *CROSSED, *(_spent(*at) for at in SPENT)), "")


CROSSED = (
    "crossover with Walker and Orin",
    "crossover with composite body",
    "the same in time, alone",
    f"the same in time, batch of {BATCH}",
)


SPENT = [(n, frames) for n in (6, 30, 100, 1000, 10_000) for frames in (1, BATCH)]


def _spent(n: int, frames: int) -> str:
    return f"ns a link, n = {n}" + (f", {frames} states" if frames > 1 else "")


def table(counts: dict, clock: dict, sizes: list[int]) -> list[dict[str, str]]:
    rows = [row("inverse", name, "published", pair) for name, pair in INVERSE.items()]
    whole = range(2, 200)
    published = operations(FORWARD["Walker and Orin 1982"])
    for name, pair in FORWARD.items():
        rows.append(row("forward", name, "published", pair))
        if name != "Walker and Orin 1982":
            rows[-1][CROSSED[0]] = crossover(operations(pair), published, whole)
    for name, (M, A, guards) in counts.items():
        task = "inverse" if name == "Newton–Euler" else "forward"
        line = row(task, name, "counted", (M, A))
        line["guards"] = formula(guards)
        for kind, total in zip("MA", count(ALGORITHMS[name], 6, True), strict=False):
            line[f"{kind} as written, n = 6"] = str(total)
        if task == "forward" and name != "composite body":
            ours = operations(counts["composite body"])
            for column, dear in zip(CROSSED, (published, ours), strict=False):
                line[column] = crossover(operations((M, A)), dear, whole)
        fill(line, name, clock)
        if name in CROSSING[:-1]:
            for column, frames in zip(CROSSED[2:], (1, BATCH), strict=True):
                cheap, dear = (
                    lambda n, of=of, frames=frames: clock[of, n, frames]
                    for of in (name, "composite body")
                )
                line[column] = crossover(cheap, dear, sizes)
        rows.append(line)
    refined = dict.fromkeys(rows[0], "")
    refined |= {"task": "forward", "algorithm": "partition, refine=1", "source": "timed"}
    fill(refined, refined["algorithm"], clock)
    return [*rows, refined]


def fill(line: dict[str, str], name: str, clock: dict) -> None:
    """Write the times that there are."""
    for n, frames in SPENT:
        if (name, n, frames) in clock:
            line[_spent(n, frames)] = f"{1e9 * clock[name, n, frames] / n:.3g}"


def report(rows: list[dict[str, str]]) -> None:
    for task in ("inverse", "forward"):
        print(f"\n{task} dynamics{'':9}{'multiplications':36}{'additions':34}{'n = 6':14}guards")
        for line in rows:
            if line["task"] == task and line["M"]:
                six = f"{line['M, n = 6']}M {line['A, n = 6']}A"
                print(f"{line['algorithm']:25}{line['M']:36}{line['A']:34}{six:14}{line['guards']}")
    print(f"\ncheaper than O(n³) from n =   published   counted     alone     of {BATCH}")
    for line in rows:
        if line[CROSSED[0]]:
            found = (f"{line[column]:>10}" for column in CROSSED)
            print(f"{line['algorithm']:26}", *found, sep="")
    print(f"\nns a link, one state and {BATCH}", *(f"{n:>15}" for n, frames in SPENT[::2]))
    for line in rows:
        found = [line[_spent(*at)] for at in SPENT]
        if any(found):
            print(f"{line['algorithm']:26}", *(f"{x:>7}" for x in found))


LINES = {"articulated body": 0, "FD1": 1, "partition": 3, "composite body": 2}
THEIRS = {"Featherstone 1983": 0, "Saha 1999": 1, "Walker and Orin 1982": 2}


def draw(out: Output, counts: dict, clock: dict, sizes: list[int]) -> None:
    n = np.arange(sizes[0], sizes[-1] + 1)
    with plot.style():
        finding = "Operations counted in our kernels, as published, and their time"
        fig, (top, bottom) = panels(finding, 1, 2, aspect=0.48, sharex=True)
        for name, color in LINES.items():
            whole = n[1:]  # from three links on the polynomials are exact
            line = [operations(counts[name][:2])(int(k)) / k for k in whole]
            top.loglog(whole, line, color=plot.PALETTE[color], label=name)
            for frames, style in ((1, "-"), (BATCH, ":")):
                spent = [1e9 * clock[name, k, frames] / k for k in sizes]
                bottom.loglog(sizes, spent, style, color=plot.PALETTE[color])
        for name, color in THEIRS.items():
            line = [operations(FORWARD[name])(int(k)) / k for k in n]
            top.loglog(n, line, "--", color=plot.PALETTE[color], label=name)
        top.set_ylabel("operations a link")
        bottom.set_ylabel(f"ns a link; dotted: {BATCH} states at once")
        for ax in (top, bottom):
            ax.set_xlabel("number of links  $n$")
        bottom.set_xticks([k for k in (2, 6, 12, 24, 48) if k <= sizes[-1]])
        bottom.xaxis.set_major_formatter("{x:g}")
        bottom.minorticks_off()
        top.minorticks_off()
        fig.legend(loc="outside lower center", ncols=4)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    sizes = [2, 4, 6, 8, 12, 24] if out.quick else [*range(2, 31, 2), 40, 48, 64]
    checks = [8] if out.quick else [8, 13]
    counts = {name: fitted(algorithm, checks) for name, algorithm in ALGORITHMS.items()}
    lengths = sorted({n for n, _ in SPENT if n <= 30 or not out.quick})
    clock = times(TIMED, lengths, 1.0 if out.quick else 50.0)
    clock |= times(CROSSING, sizes, 1.0 if out.quick else 30.0)
    rows = table(counts, clock, sizes)
    report(rows)
    out.write_csv(rows)
    draw(out, counts, clock, sizes)


if __name__ == "__main__":
    main()
