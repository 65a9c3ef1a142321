"""
An elastic rod that sags
========================

After this page you can make an elastic rod of rigid bodies, let it come to rest under its weight,
choose the number of bodies, and say where beam theory fails.

The rod is a steel wire, 2 mm thick, clamped at one end and horizontal there.  If 10 cm of it stick
out, you will not see that it sags.  If 2 m stick out, it hangs down like a rope.  One model
describes both.
"""

# %%
# The rod
# -------
# `SerialChain.rod` cuts the rod into n equal pieces.  Each piece has a spherical joint in its
# middle.  Springs of the joint resist two bends and the twist.  The rod does not stretch or shear.

from dataclasses import replace

import numpy as np
from scipy.integrate import solve_bvp
from scipy.linalg import eigh

import fixman as fx
from fixman import rigid

E, G, radius, density, g = 2e11, 8e10, 1e-3, 7850.0, 9.81  # steel, in Pa, m, kg/m³ and m/s²
area, bend = np.pi * radius**2, E * np.pi * radius**4 / 4  # m², and E I in N m²
weight = density * area * g  # N/m


def wire(n, length):
    """Return a clamped wire along x, of n bodies."""
    return rigid.SerialChain.rod(n, E, G, radius, length=length, density=density)


rod = wire(20, length=2.0)
print(rod)
print(f"{rod.masses.sum():.6f} kg move, of {2.0 * density * area:.6f} kg of wire")

# %%
# The base holds the first half piece.  The mass of this half piece is missing from the sum.
#
# The shape at rest
# -----------------
# Let the rod go, with dampers, until nothing moves.  Dampers in proportion to the springs bring all
# modes to rest in about the time of the slowest one, √(ρ A L⁴ / E I).  The scheme ``"euler"`` is
# implicit in springs and dampers, so a few hundred long steps are enough.  The shape at rest does
# not depend on the step or on the dampers.  Inverse dynamics gives the torque that is left over.


def settle(n, length, steps=400):
    """Return (n + 2, 3) places of the clamp, the joints and the tip, and the torque left over."""
    rod, slow = wire(n, length), np.sqrt(density * area * length**4 / bend)
    damped, down = replace(rod, damping=0.5 * slow * rod.stiffness), (0, 0, -g)
    run = rigid.motion.simulate(
        damped, rod.rest, slow / 20, steps, gravity=down, scheme="euler", every=steps
    )
    q, still = run.q[-1], np.zeros(rod.nv)
    left = rigid.newton_euler.inverse_dynamics(rod, q, still, still, gravity=down)
    joints = rigid.kinematics.frames(rod, q)[1]
    tip = rigid.kinematics.position(rod, q, n - 1, (length / n / 2, 0, 0))
    return np.vstack([np.zeros(3), joints, tip]), np.abs(left).max()


# %%
# Small deflection: the number of bodies
# --------------------------------------
# In beam theory the tip has the deflection w L⁴ / (8 E I), for a weight w per length.  This formula
# is an integral along the rod.  The springs replace the integral by a sum, which is 1 − 1/(2 n²)
# times as large.

counts, length = (2, 4, 8, 16, 32, 64), 0.1
exact = weight * length**4 / (8 * bend)
print(f"beam theory: {1e6 * exact:.4f} µm")
small = []
for n in counts:
    points, left = settle(n, length)
    small.append(1 + points[-1, 2] / exact)
    lacks = f"1 − ratio {small[-1]:.8f}, 1/(2n²) {1 / (2 * n**2):.8f}"
    print(f"{n:3d} bodies: {-1e6 * points[-1, 2]:.4f} µm, {lacks}, left over {left:.0e} N m")

# %%
# Compare two numbers of each line, 1 − ratio and 1/(2n²).  The ratio is the sag of the rod over
# that of beam theory.  The two numbers differ by 3e-8.  Beam theory neglects terms of the size of
# (deflection / length)².  This square is (1.9e-4)², which is as small as the difference.
#
# Large deflection: the shape
# ---------------------------
# Rods of twenty bodies with lengths up to 2 m are compared with the elastica, which is the exact
# shape: E I θ'' = w (L − s) cos θ for the slope θ at the arc length s.  SciPy solves this equation
# as a boundary-value problem.


def elastica(length):
    """Return places (m, 2) along a rod that bends by any angle, its tip last."""

    def along(s, y):
        load = weight / bend * (length - s)
        return [y[1], load * np.cos(y[0]), np.cos(y[0]), np.sin(y[0])]

    s, ends = np.linspace(0, length, 401), lambda a, b: [a[0], b[1], a[2], a[3]]
    found = solve_bvp(along, ends, s, np.zeros((4, s.size)), tol=1e-8, max_nodes=10_000)
    return found.sol(s)[2:].T


with fx.plot.style():
    fig = fx.plot.figure(1.2, aspect=0.85)
    ax = fig.subplots()
    for color, length in zip(fx.plot.PALETTE, (0.5, 1.0, 1.5, 2.0), strict=False):
        points, _ = settle(20, length)
        curve, small_angle = elastica(length), weight * length**4 / (8 * bend)
        ax.plot(*curve.T, color=color, label=f"elastica, L = {length} m")
        ax.plot(points[:, 0], points[:, 2], "o", color=color, markersize=3)
        x = np.linspace(0, length)
        quartic = small_angle / 3 * (x / length) ** 2 * (6 - 4 * x / length + (x / length) ** 2)
        ax.plot(x, -quartic, ":", color=color)
        sags = f"{-points[-1, 2]:.4f} m, elastica {-curve[-1, 1]:.4f} m"
        print(f"L = {length} m: 20 bodies sag {sags}, beam theory {small_angle:.4f} m")
    ax.plot([], [], "o", color="0.4", markersize=3, label="20 bodies")
    ax.plot([], [], ":", color="0.4", label="beam theory")
    ax.set(xlabel="x  (m)", ylabel="z  (m)", aspect="equal", xlim=(-0.05, 1.85), ylim=(-1.6, 0.1))
    ax.set_title("20 bodies lie on the elastica")
    ax.legend()

# %%
# Beam theory is off by 3 % at one metre.  At two metres it gives a sag that is longer than the
# wire.  The errors of the chain fall as 1/n² for small and for large deflections:

end = elastica(2.0)[-1]
large = [np.linalg.norm(settle(n, 2.0)[0][-1, ::2] - end) / 2.0 for n in counts]

with fx.plot.style():
    fig = fx.plot.figure(1.2, aspect=0.7)
    ax = fig.subplots()
    ax.loglog(counts, small, "o", color=fx.plot.PALETTE[0], label="sag, at L = 0.1 m")
    ax.loglog(counts, large, "s", color=fx.plot.PALETTE[1], label="place over L, at L = 2 m")
    ax.loglog(counts, 0.5 / np.square(counts), color="0.6", label="1 / (2 n²)")
    ax.set(xlabel="number of bodies  n", ylabel="relative error of the tip")
    ax.set_title("second order, of small deflection and of large")
    ax.set_xticks(counts, counts, minor=False)
    ax.minorticks_off()
    ax.legend()

# %%
# Modes
# -----
# The springs and the inertia matrix give the frequencies of the straight rod without weight.  The
# frequencies of a clamped beam are β² √(E I / (ρ A L⁴)) / 2π with cos β cosh β = −1.  Each
# frequency occurs twice, because the rod can bend in two planes.

beta = np.array([1.87510407, 4.69409113, 7.85475744])
beam = beta**2 * np.sqrt(bend / (density * area * 2.0**4)) / (2 * np.pi)
print("beam     ", beam.round(4), "Hz")
for n in (8, 32, 128):
    rod = wire(n, 2.0)
    inertia = rigid.composite_body.inertia_matrix(rod, rod.rest)
    squares = eigh(np.diag(rod.stiffness), inertia, eigvals_only=True)
    print(f"{n:3d} bodies", (np.sqrt(squares[:6:2]) / (2 * np.pi)).round(4), "Hz")

# %%
# Where next
# ----------
# :doc:`/rods` bends a rod into a ring by a moment, lets rods swing, and clamps rods at both ends.
# :doc:`/rigid_motion` says which time steps each scheme can take.
