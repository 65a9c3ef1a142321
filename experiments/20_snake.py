"""A snake on springs and dampers: time and memory of a step against the number of links.

The snake hangs, of links of 10 cm hinged across in turn, and every library makes steps of 1 ms:
this one, MuJoCo, Pinocchio and Drake, each as far as it goes within 16 GB and a minute to its
second step.  They run in processes of their own, several times in turn; the least counts.
Without a library its lines are left out.  One long run of a thousand links follows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
from _output import HERE, Output, panels, plot
from _snake_peers import GRAVITY, STEP, snake

from fixman.rigid.motion import simulate

LIBRARIES = {
    "fixman": "fixman", "MuJoCo": "mujoco", "Pinocchio": "pinocchio", "Drake": "pydrake",
}  # fmt: skip
SIZES = (10, 20, 40, 100, 300, 1000, 3000, 10_000)
MEMORY, PATIENCE = 16.0, 60.0  # GB, s


def run(name: str, n: int, seconds: float) -> dict | str:
    """Return what a library found, or how it ended."""
    script = HERE / "_snake_peers.py"
    command = [sys.executable, script, name.lower(), n, seconds, MEMORY]
    try:
        done = subprocess.run(
            list(map(str, command)), capture_output=True, text=True, timeout=PATIENCE + seconds
        )
    except subprocess.TimeoutExpired:
        return f"not two steps in {PATIENCE:g} s"
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"signal {-done.returncode}"]
        return lines[-1][:80]
    return json.loads(done.stdout.splitlines()[-1])


def measure(sizes, seconds: float, passes: int) -> dict:
    """Return {name: {links: best of what was found, or how it ended}}."""
    there = [name for name, module in LIBRARIES.items() if find_spec(module)]
    found: dict = {name: {} for name in there}
    ended: set = set()
    for n in sizes:
        for _ in range(passes if n <= 1000 else 1):
            for name in there:
                if name in ended:
                    continue
                new = run(name, n, seconds)
                old = found[name].get(n)
                if isinstance(new, str):
                    ended.add(name)
                if isinstance(new, str) or not old or new["seconds"] < old["seconds"]:
                    found[name][n] = new
        print(n, {name: _said(found[name].get(n)) for name in there}, flush=True)
    return found


def _said(result) -> str:
    return f"{1e6 * result['seconds']:.1f} µs" if isinstance(result, dict) else str(result)


def rows(found: dict) -> list[dict[str, str]]:
    wanted = np.array(found["fixman"][10]["accelerations"])
    out = []
    for name, sizes in found.items():
        for n, result in sizes.items():
            line = dict.fromkeys(("library", "links", "microseconds", "megabytes", "remark"), "")
            line |= {"library": name, "links": str(n)}
            if isinstance(result, str):
                line["remark"] = result
            else:
                line["microseconds"] = f"{1e6 * result['seconds']:.3g}"
                line["megabytes"] = f"{result['megabytes']:.0f}"
                if n == 10 and name != "fixman":
                    off = np.abs(result["accelerations"] - wanted).max() / np.abs(wanted).max()
                    line["remark"] = f"accelerations off by {off:.0e}"
            out.append(line)
    return out


def long_run(n: int, seconds: float) -> dict[str, str]:
    """Follow the snake, and return a row of the table."""
    arm, q = snake(n)
    steps = round(seconds / STEP)
    simulate(arm, q, STEP, 1, gravity=GRAVITY, scheme="euler")  # compiles
    begun = time.perf_counter()
    found = simulate(arm, q, STEP, steps, gravity=GRAVITY, scheme="euler", every=steps // 10)
    spent = time.perf_counter() - begun
    text = (
        f"{seconds:g} s of motion in {spent:.2g} s; energy {found.energy[0]:.6g} to "
        f"{found.energy[-1]:.6g} J"
    )
    print(text)
    each = f"{1e6 * spent / steps:.3g}"
    return {
        "library": "fixman", "links": str(n), "microseconds": each, "megabytes": "", "remark": text,
    }  # fmt: skip


def draw(out: Output, found: dict) -> None:
    with plot.style():
        finding = (
            "A snake of n links: time and memory in proportion to n, as far as each library goes"
        )
        fig, (upper, lower) = panels(finding, 1, 2, sharex=True)
        for (name, sizes), color in zip(found.items(), plot.PALETTE, strict=False):
            good = {n: result for n, result in sizes.items() if isinstance(result, dict)}
            for axes, key in ((upper, "seconds"), (lower, "megabytes")):
                values = [result[key] for result in good.values()]
                axes.loglog(list(good), values, "o-", color=color, markersize=2.5, label=name)
                if len(good) < len(sizes):
                    last = list(good)[-1]
                    axes.plot(last, values[-1], "x", color=color, markersize=8)
        upper.set_ylabel("time of a step  (s)")
        lower.set_ylabel("memory  (MB)")
        fig.supxlabel("links; × where a library ends", fontsize=8)
        upper.legend(loc="upper left")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    sizes = SIZES[:3] if out.quick else SIZES
    found = measure(sizes, 0.1 if out.quick else 0.5, 1 if out.quick else 3)
    table = [*rows(found), long_run(100 if out.quick else 1000, 0.5 if out.quick else 5.0)]
    out.write_csv(table)
    draw(out, found)


if __name__ == "__main__":
    main()
