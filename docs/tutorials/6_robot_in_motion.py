"""
A robot, from its file to a controlled motion
=============================================

After this page you can read a robot from a URDF file, check that it is the robot that you mean,
compute the torques that hold it, and follow it in time under a controller of your own.

The robot has a column that turns, an upper arm and a forearm.  It carries an object along a path
in one second.  Its controller knows the arm but not the object.  How far is the hand from its path?
"""

# %%
# The file
# --------
# URDF is XML: links with masses, and joints with axes.  Units are metres, kilograms and radians.

import tempfile
from functools import partial
from pathlib import Path

import numpy as np

import fixman as fx
from fixman import rigid

text = """<robot name="carrier"> <link name="table"/>
<joint name="turn" type="continuous"> <axis xyz="0 0 1"/>
  <parent link="table"/> <child link="column"/> </joint>
<link name="column"> <inertial> <origin xyz="0 0 0.2"/> <mass value="4"/>
  <inertia ixx="0.06" iyy="0.06" izz="0.02" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
<joint name="shoulder" type="continuous"> <origin xyz="0 0 0.4"/> <axis xyz="0 1 0"/>
  <parent link="column"/> <child link="upper"/> </joint>
<link name="upper"> <inertial> <origin xyz="0.25 0 0"/> <mass value="3"/>
  <inertia ixx="0.004" iyy="0.0645" izz="0.0645" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
<joint name="elbow" type="continuous"> <origin xyz="0.5 0 0"/> <axis xyz="0 1 0"/>
  <parent link="upper"/> <child link="fore"/> </joint>
<link name="fore"> <inertial> <origin xyz="0.2 0 0"/> <mass value="2"/>
  <inertia ixx="0.002" iyy="0.0277" izz="0.0277" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
<joint name="wrist" type="fixed"> <origin xyz="0.4 0 0"/>
  <parent link="fore"/> <child link="hand"/> </joint>
<link name="hand"> <inertial> <mass value="0.5"/>
  <inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""

# %%
# Which joint is which
# --------------------
# `urdf.read` returns the chain with the names of its joints and links.  The hand is fixed to the
# forearm, so both are one body.  The printed table has the axes of the joints in the frame of
# the base, with all coordinates at zero.

file = Path(tempfile.mkdtemp()) / "carrier.urdf"
file.write_text(text)
robot = rigid.urdf.read(file)
arm = robot.chain
axes = rigid.kinematics.frames(arm, np.zeros(3))[0][:, :, 2]
print("joint     kind         axis       moves  kg")
for i, name in enumerate(robot.joint_names):
    print(f"{name:9} {arm.joints[i]:9} {axes[i].round()} {robot.body_names[i]:>7} {arm.masses[i]}")

# %%
# Torques that hold it
# --------------------
# Inverse dynamics at rest gives the torques that hold the arm.  A file has no gravity, so `gravity`
# is an argument.  The check by hand multiplies weights by levers.  A positive angle turns the arm
# down, because the axes of shoulder and elbow are along +y.

start, goal = np.radians([-60.0, 20.0, 100.0]), np.radians([60.0, -60.0, 45.0])
down, still = (0, 0, -9.81), np.zeros(3)
hold = rigid.newton_euler.inverse_dynamics(arm, goal, still, still, gravity=down)
elbow = 9.81 * (2.0 * 0.2 + 0.5 * 0.4) * np.cos(goal[1] + goal[2])
shoulder = 9.81 * (3.0 * 0.25 + 2.5 * 0.5) * np.cos(goal[1]) + elbow
print("hold   ", hold.round(6) + 0.0, "N m")
print("by hand", np.array([0, -shoulder, -elbow]).round(6), "N m")

# %%
# A path
# ------
# A panel with ``projection="3d"`` shows the arm in space.  A flat panel shows the plane in which
# the arm extends most.  Short orange strokes are the axes of joints.  An axis that points at you is
# not seen.  The last link is drawn as far as its mass centre, and a thin line leads from there to
# the hand.


def path(t):
    """From start to goal in a second, without a jump of velocity or acceleration."""
    s, way = np.clip(t, 0.0, 1.0), goal - start
    place, rate = s**3 * (10 - 15 * s + 6 * s**2), 30 * s**2 * (1 - s) ** 2
    return start + place * way, rate * way, 60 * s * (1 - s) * (1 - 2 * s) * way


body, _, point = robot.places["hand"]
hand = partial(rigid.kinematics.position, arm, body=body, point=point)

with fx.plot.style():
    fig = fx.plot.figure(1.6, aspect=0.45)
    space = fig.add_subplot(1, 2, 1, projection="3d", title="start, goal and path of the hand")
    space.plot(*hand([path(t)[0] for t in np.linspace(0, 1)]).T, color=fx.plot.PALETTE[2])
    for posture in (start, goal):
        fx.plot.arm(space, arm, posture)
        ends = rigid.kinematics.position(arm, posture, body), hand(posture)
        space.plot(*np.transpose(ends), color=fx.plot.PALETTE[0])
    space.view_init(elev=25, azim=-20)
    space.set_box_aspect(None, zoom=1.5)
    fx.plot.arm(fig.add_subplot(1, 2, 2, title="goal, in the plane of the links"), arm, goal)

# %%
# Controllers, and the motion
# ---------------------------
# A PD controller pulls towards the path.  A computed-torque controller chooses an acceleration, and
# computes the torque for it by inverse dynamics.  `simulate` calls the controller in the middle of
# each step.  There are four runs: PD, computed torque, computed torque with half the step,
# and computed torque with a load of 1 kg in the hand, which the model of the controller does not
# have.
#
# With the right model only the error of the time step is left.  This error falls to a quarter when
# the step is halved.  Under the PD controller the arm hangs below its goal, by the torque of the
# weight divided by the gain.


def computed_torque(t, q, qd):
    """Return torques for the wanted acceleration, by gains in 1/s² and 1/s."""
    place, rate, acceleration = path(t)
    wanted = acceleration + 400 * (place - q) + 40 * (rate - qd)
    return rigid.newton_euler.inverse_dynamics(arm, q, qd, wanted, gravity=down)


file.write_text(text.replace('<mass value="0.5"/>', '<mass value="1.5"/>'))
loaded, runs = rigid.SerialChain.from_urdf(file), {}
for name, system, tau, dt in (
    ("PD", arm, lambda t, q, qd: 600 * (path(t)[0] - q) + 60 * (path(t)[1] - qd), 2e-3),
    ("computed torque", arm, computed_torque, 2e-3),
    ("computed torque, half the step", arm, computed_torque, 1e-3),
    ("computed torque, 1 kg unknown", loaded, computed_torque, 2e-3),
):
    run = rigid.motion.simulate(system, start, dt, round(1.5 / dt), tau=tau, gravity=down)
    error = 1e3 * np.linalg.norm(hand(run.q) - hand([path(t)[0] for t in run.time]), axis=-1)
    print(f"{name:30}  off by {error.max():7.4f} mm at most, {error[-1]:7.4f} mm at the end")
    runs[name] = run, error

end = runs["PD"][0].q[-1]
weight = rigid.newton_euler.inverse_dynamics(arm, end, still, still, gravity=down)
print("sag of PD      ", np.degrees(goal - end).round(3), "degrees")
print("weight over 600", np.degrees(weight / 600).round(3) + 0.0, "degrees")

# %%
# Error and energy in time
# ------------------------
# The work of the motors is the sum of τ · Δq over the steps, with τ in the middle of each step.  It
# must equal the energy that the robot gains.

middles, turned = (run.q[1:] + run.q[:-1]) / 2, np.diff(run.q, axis=0)  # of the last run
steps = zip(run.time[:-1] + run.dt / 2, middles, turned / run.dt, strict=True)
work = np.cumsum([computed_torque(*step) @ turn for step, turn in zip(steps, turned, strict=True)])
gain = run.energy[1:] - run.energy[0]
print(f"work {work[-1]:.3f} J, energy gained {gain[-1]:.3f} J")
print(f"apart by {np.abs(work - gain).max():.0e} J at most on the way")

with fx.plot.style():
    fig = fx.plot.figure(1.8, aspect=0.4)
    left, right = fig.subplots(1, 2)
    for color, name in zip(fx.plot.PALETTE, runs, strict=False):
        left.semilogy(runs[name][0].time[1:], runs[name][1][1:], color=color, label=name)
    left.set(xlabel="time  (s)", ylabel="hand off its path  (mm)", ylim=(1e-5, 1e5))
    left.set_title(f"1 kg costs {runs[name][1][-1]:.0f} mm")
    left.legend(loc="upper left")
    fx.plot.trajectory(right, run)
    right.plot(run.time[1:], work, "k:", label="work of the motors")
    right.set(xlabel="time  (s)", ylabel="energy gained  (J)", title="with the unknown 1 kg")
    right.legend()

# %%
# Where next
# ----------
# :doc:`/robots` says which parts of a file are read and which are refused.  :doc:`/rigid_motion`
# shows controllers that are springs and dampers of the chain, which need no short steps, and how to
# keep runs on disk.
# :doc:`/rigid_kinematics` has Jacobians, for a controller that works at the hand.
