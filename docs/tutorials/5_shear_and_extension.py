"""
A bead-rod chain in shear and in extension
==========================================

After this page you can put a chain into a flow, say how far the flow stretches it, and measure its
viscosity with an error, in shear and in extension.

A flow stretches a polymer in a dilute solution, and the polymer resists the flow. The bead-rod
chain is the usual model: beads that the solvent drags, on rods that do not stretch.
`fixman.Brownian` moves this chain, and `fixman.rheology` computes stresses from its configurations.
"""

# %%
# Units
# -----
# The friction ζ of a bead, the length a of a rod, and kT are 1.  Rates of flow are then in units of
# kT/ζa². Viscosities are those of one chain, in units of ζa².  The viscosity at rest, η(0), is
# known: it is (n² − 1)/36 for n beads.  The Weissenberg number Wi compares the flow with the
# thermal motion of the chain.  On this page it is Wi = γ̇ η(0)/kT, where γ̇ is the rate of shear. A
# flow with Wi far below 1 hardly changes the chain.

import numpy as np

import fixman as fx
from fixman import analytic, observables, rheology


def steady(chain, flow, dt, replicas, steps):
    """Return steady positions (frames, replicas, n, 3), and the stepper."""
    stepper = fx.Brownian(dt, scheme="midpoint", flow=flow)
    x0 = fx.random_walks(chain, replicas, rng=1)
    run = fx.simulate(chain, x0, stepper, steps, every=40, rng=2)
    return run.x[len(run) // 5 :], stepper


# %%
# The scheme "midpoint" follows flows best.  A chain needs some time to reach the steady state, so
# the first fifth of the frames is left out.
#
# Shear
# -----
# Two beads on a rod (a dumbbell) are a test, because `analytic.dumbbell_viscosity` solves their
# diffusion equation. For ten beads there is a closed form at rest only. At rest the mean square of
# the end-to-end distance, ⟨R²⟩, is 9, one for each rod.

Wis, found = np.array([0.1, 0.3, 1.0, 3.0, 10.0]), {2: [], 10: []}
for n, replicas, steps in ((2, 256, 8_000), (10, 64, 20_000)):
    chain, at_rest = fx.Chain.linear(n), analytic.zero_shear_viscosity(n)
    for Wi in Wis:
        rate = Wi / at_rest
        x, stepper = steady(chain, fx.flows.shear(rate), min(0.004, 0.02 / rate), replicas, steps)
        stress = rheology.giesekus_stress(chain, x, stepper)
        eta, error = np.array(rheology.shear_functions(stress, rate).viscosity) / at_rest
        found[n].append((eta, error))
        R2, sigma = observables.mean_with_error((observables.end_to_end(chain, x) ** 2).sum(-1))
        print(f"{n} beads, Wi {Wi}: η/η(0) {eta:.4f} ± {error:.4f}, ⟨R²⟩ {R2:.2f} ± {sigma:.2f}")
print("2 beads, exact:", analytic.dumbbell_viscosity(Wis).round(4))

# %%
# The viscosity of the dumbbell falls, because the dumbbell turns into the direction of the flow,
# and resists less there.  The flow also stretches the chain.

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.55)
    ax = fig.subplots()
    line = np.geomspace(0.08, 13.0, 60)
    ax.plot(line, analytic.dumbbell_viscosity(line), color="0.4", label="2 beads, exact")
    for color, n in zip(fx.plot.PALETTE, found, strict=False):
        ax.errorbar(Wis, *np.transpose(found[n]), fmt="o", color=color, label=f"{n} beads")
    ax.set(xscale="log", xlabel="Wi", ylabel="η/η(0)", title="Chains thin later than dumbbells")
    ax.legend()

# %%
# Extension
# ---------
# Uniaxial extension pulls along x.  At a low rate the chain stays coiled, and at a high rate it
# unrolls.  In this run 64 coils start in a flow of rate 1:


def stretching(x):
    """Return the end-to-end distance over the contour."""
    return np.linalg.norm(observables.end_to_end(chain, x), axis=-1) / 9


stepper = fx.Brownian(0.004, scheme="midpoint", flow=fx.flows.uniaxial_extension(1.0))
run = fx.simulate(chain, fx.random_walks(chain, 64, rng=1), stepper, 2_000, every=10, rng=3)

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    ax = fx.plot.trajectory(fig.subplots(), run, stretching(run.x))
    ax.set(xlabel="time  (ζa²/kT)", ylabel="end-to-end distance\nover the contour", ylim=(0, 1))
    ax.set_title("64 coils (grey) unroll, each in its own time")

# %%
# The extensional viscosity
# -------------------------
# The extensional viscosity is (σ_xx − σ_yy)/ε̇. Two limits are known: 3 η(0) at rest (Trouton), and
# ζa² n (n² − 1)/12 for a straight chain. For a dumbbell with the direction u the viscosity is
# ζa² (1 + 3⟨u_x²⟩)/8, and u has a density proportional to exp(3 ε̇ζa² u_x²/8kT).

two = fx.Chain.linear(2)
node, weight = np.polynomial.legendre.leggauss(40)
for rate in (1.0, 8.0):
    x, stepper = steady(two, fx.flows.uniaxial_extension(rate), 0.002, 256, 16_000)
    stress = rheology.giesekus_stress(two, x, stepper)
    eta, error = rheology.extensional_viscosity(stress, rate)
    density = weight * np.exp(0.375 * rate * node**2)
    exact = (1 + 3 * (density @ node**2) / density.sum()) / 8
    print(f"dumbbell, rate {rate:g}: {eta:.4f} ± {error:.4f}, exact {exact:.4f}")

rates, pulled, tension = (0.05, 0.2, 0.3, 0.4, 0.6, 1.0, 4.0), [], {}
for rate in rates:
    flow = fx.flows.uniaxial_extension(rate)
    x, stepper = steady(chain, flow, 0.004 / max(rate, 1), 64, 16_000)
    eta, error = rheology.extensional_viscosity(rheology.giesekus_stress(chain, x, stepper), rate)
    pulled.append((eta, error))
    tension[rate] = rheology.tensions(chain, x, stepper).mean(axis=(0, 1))
    mean, sigma = observables.mean_with_error(stretching(x))
    print(f"rate {rate:4}: {eta:5.2f} ± {error:.2f}, stretching {mean:.4f} ± {sigma:.4f}")

# %%
# As the rate grows, the chain unrolls, and the viscosity rises ninefold. `rheology.tensions` gives
# the tension of each rod, averaged over the noise. The dashed lines are the tensions
# ε̇ζa k (n − k)/2 of rod k in a straight chain without thermal motion. In weak flows the tension is
# 2 kT/a in each rod, because thermal motion would drive free beads apart.

limits = ((3 * at_rest, "coil, 3 η(0)"), (10 * (10**2 - 1) / 12, "straight chain"))
with fx.plot.style():
    fig = fx.plot.figure(2.0, aspect=0.4)
    left, right = fig.subplots(1, 2)
    left.errorbar(rates, *np.transpose(pulled), color=fx.plot.PALETTE[0], marker="o")
    for height, label in limits:
        left.axhline(height, color="0.5", linestyle="--")
        left.annotate(label, (4.0, 1.04 * height), color="0.4", ha="right")
    left.set(xscale="log", yscale="log", ylim=(6, 120), title="Coils unroll at rates around 0.4")
    left.set(xlabel="rate  (kT/ζa²)", ylabel="extensional viscosity  (ζa²)")
    k = np.arange(1, 10)
    for color, rate in zip(fx.plot.PALETTE, (0.05, 1.0, 4.0), strict=False):
        right.plot(k, tension[rate], marker="o", color=color, label=f"rate {rate:g}")
        right.plot(k, 0.5 * rate * k * (10 - k), color=color, linestyle="--")
    right.set(xlabel="rod", ylabel="tension  (kT/a)", xticks=k, title="The middle is pulled most")
    right.legend()

# %%
# Is the time step short enough?
# ------------------------------
# Kramers' stress is computed from the forces in the rods, and Giesekus' stress from the drag on the
# beads.  In a steady flow their means are the same if the time step is short enough:

for dt in (0.004, 0.001):
    x, stepper = steady(chain, flow, dt, 64, round(16 / dt))
    for stress in (rheology.giesekus_stress, rheology.kramers_stress):
        eta, error = rheology.extensional_viscosity(stress(chain, x, stepper), 4.0)
        print(f"rate 4, dt {dt}, {stress.__name__}: {eta:.2f} ± {error:.2f}")

# %%
# A long time step changes Giesekus' stress less than Kramers'.  The printed errors are those of
# sampling.  The bias from the time step is of first order in dt.  To publish a number, run with dt
# and dt/2, and take twice the value at dt/2 minus the value at dt.
#
# Where next
# ----------
# :doc:`/brownian` has the schemes, the ensembles, and flows that change in time.  :doc:`/rheology`
# has Kramers' stress, normal stresses, and the viscosity from runs without a flow.
# :doc:`/analytic` has the exact numbers of this page, to test your own code against.
