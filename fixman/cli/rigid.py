"""`fixman rigid`: the arm of a robot's file, what holds it, and how it moves."""

from __future__ import annotations

import argparse
import warnings
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixman.cli import running
from fixman.cli.printing import result, say

if TYPE_CHECKING:
    from fixman.rigid.urdf import Robot

HELP = """
usage: fixman rigid ROBOT [flags]

joints, torques and motion of the arm in a robot's URDF file

The path from the root of the file to one link, in the units of the file: kg, m,
rad and s. The table has, of each joint, the link that it moves and its mass, the
coordinate q, the torque that holds the arm there at rest, and the acceleration
of q where --torque acts.

  ROBOT                  URDF file
  --tip LINK             last link of the path; needed where joints branch
  --free-base            the root floats
  --lenient              take files that are refused otherwise, with a warning
  --gravity G            downwards, along −z (default: 9.81)
  --q Q1,Q2              coordinates, as --q=-0.5,1.2; otherwise 0
  --qd Q1,Q2             rates; otherwise at rest
  --torque Q1,Q2         of motors, constant; otherwise none

motion from there, by the variational midpoint rule:
  --time S               how long
  --dt DT                time step (default: 0.001)
  --out FILE             write time, q, qd, energy and names of joints, .npz
  --plot PNG             draw coordinates and the change of energy against time
  --overwrite            replace files of these names
  --json                 print one JSON document instead of text

example:
  fixman rigid panda.urdf --tip panda_hand --q 0,-0.5,0,-2,0,1.5,0.8
  fixman rigid panda.urdf --tip panda_hand --time 1 --out fall.npz --plot fall.png
"""
FRAMES = 1000  # of a motion, about
NOISE = 1e-12  # of torques that are zero


def run(arguments: argparse.Namespace) -> None:
    """Print the table, and follow the motion if there is a time."""
    import numpy as np

    from fixman.rigid import articulated_body, kinematics, newton_euler

    outputs = arguments.out, arguments.plot
    if arguments.time is None and any(outputs):
        raise ValueError("--out and --plot are of a motion: say how long, --time 1")
    if arguments.out is not None and arguments.out.suffix.lower() != ".npz":
        raise ValueError(f"--out must end in .npz, got {arguments.out}")
    running.require_free(arguments, arguments.robot)
    robot = read(arguments.robot, arguments.tip, arguments.free_base, not arguments.lenient)
    arm, rest, down = robot.chain, np.zeros(robot.chain.nv), (0.0, 0.0, -arguments.gravity)
    q = arm.rest if arguments.q is None else arguments.q
    qd, torque = (rest if x is None else x for x in (arguments.qd, arguments.torque))
    hold = newton_euler.inverse_dynamics(arm, q, rest, rest, gravity=down)
    qdd = articulated_body.forward_dynamics(arm, q, qd, torque, gravity=down)
    rows = joints(robot)
    for row, at, of in zip(rows, spans(arm.position_offsets), spans(arm.rate_offsets), strict=True):
        row |= {"q": list(q[at]), "hold": list(hold[of]), "qdd": list(qdd[of])}
    found: dict[str, Any] = {"chain": repr(arm), "joints": rows, "notes": robot.notes}
    text = [f"{arm!r}, {arm.masses.sum():.4g} kg", *table(rows)]
    tip = arguments.tip or robot.body_names[-1]
    body, _, p = robot.places[tip]
    places = {tip: kinematics.position(arm, q, body, p)}
    places["mass centre"] = kinematics.centre_of_mass(arm, q)
    for name, place in places.items():
        found[name] = place.tolist()
        text.append(f"{name} at {', '.join(f'{x:.4f}' for x in place)}")
    if arguments.time is not None:
        moved = _moved(arguments, robot, {"q": q, "qd": qd, "tau": torque}, down)
        found["motion"] = moved
        text.append(f"after {moved['time']:g} s energy has changed by {moved['energy']:.2g}")
    result(arguments, "\n".join([*text, *(f"note: {note}" for note in robot.notes)]), found)
    for path in filter(None, outputs):
        say(arguments, f"wrote {path}")


def read(path: Path, tip: str | None, free_base: bool = False, strict: bool = True) -> Robot:
    """Read a robot; its notes say what warnings say."""
    from fixman.rigid import urdf

    warnings.filterwarnings("ignore", category=UserWarning)
    return urdf.read(path, tip, free_base=free_base, strict=strict)


def spans(offsets: Any) -> list[slice]:
    """Return where each joint has its numbers."""
    return [slice(*pair) for pair in pairwise(offsets)]


def joints(robot: Robot) -> list[dict[str, Any]]:
    """Return the joints as rows of a table, base first."""
    arm = robot.chain
    columns = robot.joint_names, arm.joints, robot.body_names, arm.masses.tolist()
    names = "joint", "kind", "moves", "mass"
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a table, numbers to the right."""
    cells = [list(rows[0]), *([_cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    ends = ["<" if isinstance(value, str) else ">" for value in rows[0].values()]
    line = "  ".join(f"{{:{end}{width}}}" for end, width in zip(ends, widths, strict=True))
    return [line.format(*row).rstrip() for row in cells]


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return value if isinstance(value, str) else f"{value if abs(value) > NOISE else 0:.4g}"


def _moved(
    arguments: argparse.Namespace, robot: Robot, start: dict[str, Any], down: tuple[float, ...]
) -> dict[str, Any]:
    """Follow the motion, and write what was asked for."""
    import numpy as np

    from fixman._common import arrays
    from fixman._common.files import new_file
    from fixman.rigid import motion

    time, dt = arrays.positive(arguments.time, "--time"), arrays.positive(arguments.dt, "--dt")
    steps = max(1, round(time / dt))
    every = max(1, steps // FRAMES)
    steps -= steps % every
    run = motion.simulate(robot.chain, **start, dt=dt, steps=steps, every=every, gravity=down)
    columns: dict[str, Any] = {"time": run.time, "q": run.q, "qd": run.qd, "energy": run.energy}
    if arguments.out is not None:
        with new_file(arguments.out, arguments.overwrite) as path, path.open("wb") as file:
            np.savez(file, joints=np.array(robot.joint_names), **columns)
    if arguments.plot is not None:
        from fixman.analysis import plot

        with plot.style(), new_file(arguments.plot, arguments.overwrite) as path:
            fig = plot.figure(aspect=1.2)
            above, below = fig.subplots(2, sharex=True)
            for name, span in zip(
                robot.joint_names, spans(robot.chain.position_offsets), strict=True
            ):
                above.plot(run.time, run.q[:, span], label=name)
            above.set_ylabel("q  (rad or m)")
            above.legend(fontsize="x-small", ncols=2)
            below.plot(run.time, run.energy - run.energy[0])
            below.set(xlabel="time  (s)", ylabel="change of energy  (J)")
            fig.savefig(path, format=arguments.plot.suffix[1:])
    last = {name: array[-1].tolist() for name, array in columns.items()}
    return last | {"steps": steps, "energy": float(run.energy[-1] - run.energy[0])}
