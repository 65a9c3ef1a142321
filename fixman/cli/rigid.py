"""Show joints, torques and motion of the arm in a robot's URDF file.

usage: fixman rigid ROBOT [flags]

The arm is the path from the root of the file to one link. Units are those of the
file: kg, m, rad and s. The table lists for each joint the link that it moves, the
mass of this link, the coordinate q, the torque that holds the arm at rest at q, and
the acceleration of q under --torque.

  ROBOT                  URDF file
  --tip LINK             last link of the path; needed where joints branch
  --free-base            let the root float
  --lenient              take files that strict reading refuses, with a warning
  --gravity G            acceleration along −z (default: 9.81)
  --q Q1,Q2              coordinates, such as --q=-0.5,1.2; default 0
  --qd Q1,Q2             rates of the coordinates; default 0
  --torque Q1,Q2         constant torques of motors; default 0

motion from --q and --qd, by the variational midpoint rule:
  --time S               duration
  --dt DT                time step (default: 0.001)
  --out FILE             new file for the run, which fixman resume and check read
  --plot PNG             draw coordinates and the change of energy against time
  --overwrite            replace existing files
$showing

example:
  fixman rigid panda.urdf --tip panda_hand --q 0,-0.5,0,-2,0,1.5,0.8
  fixman rigid panda.urdf --tip panda_hand --time 1 --out fall --plot fall.png
"""

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fixman.cli import shared
from fixman.errors import FrameError
from fixman.rigid import articulated_body, kinematics, motion, newton_euler, urdf
from fixman.rigid.urdf import Robot

FRAMES = 1000  # of a motion, about


def run(arguments: shared.Namespace) -> int:
    if arguments.time is None and (arguments.out or arguments.plot):
        raise ValueError("--out and --plot need a motion: give its duration, --time 1")
    robot = read(arguments.robot, arguments.tip, arguments.free_base, not arguments.lenient)
    try:
        return _answered(arguments, robot)
    except FrameError as error:
        if error.body is not None:
            link, joint = robot.body_names[error.body], robot.joint_names[error.body]
            error.add_note(f"body {error.body} is {link!r}, which {joint!r} moves")
        raise


def _answered(arguments: shared.Namespace, robot: Robot) -> int:
    arm, rest, down = robot.chain, np.zeros(robot.chain.nv), (0.0, 0.0, -arguments.gravity)
    q = arm.rest if arguments.q is None else arguments.q
    qd, torque = (rest if x is None else x for x in (arguments.qd, arguments.torque))
    hold = newton_euler.inverse_dynamics(arm, q, rest, rest, gravity=down)
    qdd = articulated_body.forward_dynamics(arm, q, qd, torque, gravity=down)
    rows = joints(robot)
    for row, at, of in zip(rows, spans(arm.position_offsets), spans(arm.rate_offsets), strict=True):
        row |= {"q": list(q[at]), "hold": list(hold[of]), "qdd": list(qdd[of])}
    tip = arguments.tip or robot.body_names[-1]
    body, _, p = robot.places[tip]
    centre = kinematics.centre_of_mass(arm, q)
    found: dict[str, Any] = {"chain": repr(arm), "mass": arm.masses.sum(), "joints": rows}
    found["gravity"] = list(down)
    found["units"] = "kg; q in rad or m, qdd a second squared; hold in N m or N; energy in J"
    found["places"] = {tip: list(kinematics.position(arm, q, body, p)), "mass centre": list(centre)}
    done = True
    with shared.outputs(arguments, [arguments.plot], arguments.robot) as (picture,):
        if arguments.time is not None:
            labels = {"names": robot.joint_names, "tip": p if p.any() else None}
            start = {"q": q, "qd": qd, "tau": torque, "gravity": down, **labels}
            run = _moved(arguments, arm, start)
            done, change = run.finished, run.energy[-1] - run.energy[0]
            found["motion"] = {"time": run.time[-1], "energy change": change}
            forces = {"dampers": arm.damping, "torques": torque}
            works = [name for name, values in forces.items() if np.any(values)]
            found["motion"] |= {"energy changed by": " and ".join(works)} if works else {}
            found["motion"] |= {"q": list(run.q[-1]), "qd": list(run.qd[-1])}
            more = shared.described(run)
            found["motion"] |= {name: more[name] for name in more if more[name] is not None}
            if picture:
                _draw(picture, arguments.plot.suffix[1:], run, robot)
        found["notes"] = [*_outside(arguments.q, robot), *robot.notes]
        shared.result(arguments, shared.lines(found), found)
    return 0 if done else shared.INTERRUPTED


def read(path: Path, tip: str | None, free_base: bool = False, strict: bool = True) -> Robot:
    """Read a robot; its notes say what warnings say."""
    warnings.filterwarnings("ignore", category=UserWarning)
    return urdf.read(path, tip, free_base=free_base, strict=strict)


def _outside(q: Any, robot: Robot) -> list[str]:
    if q is None:
        return []
    at = zip(robot.joint_names, robot.limits, robot.chain.position_offsets[:-1], strict=True)
    names = [name for name, (low, high), k in at if not low <= q[k] <= high]
    text = "q is outside the limits of {}: are these degrees? It takes radians and metres"
    return [text.format(", ".join(names))] if names else []


def spans(offsets: Any) -> list[slice]:
    return [slice(*pair) for pair in pairwise(offsets)]


def joints(robot: Robot) -> list[dict[str, Any]]:
    names, masses = ("joint", "kind", "moves", "mass"), robot.chain.masses.tolist()
    columns = robot.joint_names, robot.chain.joints, robot.body_names, masses
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _moved(arguments: shared.Namespace, arm: Any, start: dict[str, Any]) -> motion.Trajectory:
    steps = round(shared.steps(arguments))
    every = max(1, steps // FRAMES)
    more = start | shared.given(arguments, "dt", "out", "overwrite")
    more |= {"steps": steps - steps % every, "every": every}
    return motion.simulate(arm, **more, progress=shared.progress(arguments))


def _draw(path: Path, kind: str, run: motion.Trajectory, robot: Robot) -> None:
    from fixman.analysis import plot

    with plot.style():
        fig = plot.figure(aspect=1.2)
        above, below = fig.subplots(2, sharex=True)
        for name, at in zip(robot.joint_names, spans(robot.chain.position_offsets), strict=True):
            above.plot(run.time, run.q[:, at], label=name)
        above.set_ylabel("q  (rad or m)")
        above.legend(fontsize="x-small", ncols=2)
        below.plot(run.time, run.energy - run.energy[0])
        below.set(xlabel="time  (s)", ylabel="change of energy  (J)")
        fig.savefig(path, format=kind)
