"""Messages of common mistakes, word for word; other tests look at types and data."""

import numpy as np
import pytest

import fixman as fx
from fixman import analytic, observables, potentials, rigid
from fixman.rigid import articulated_body, closed, kinematics

CHAIN = fx.Chain.linear(5)
BENT = fx.Chain.linear(5, hard=("length", "angle"))
X = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0], [2, 1, 1]])
V = np.zeros((5, 3))
STRAIGHT = np.arange(5.0)[:, None] * [1.0, 0.0, 0.0]
MET = X[[0, 1, 2, 2, 4]]  # bead 3 where bead 2 is
ARM = rigid.SerialChain.planar(np.ones(3), np.ones(3), np.ones(3))
END = closed.End(2, (1.0, 0.0, 0.0))
FOUR_BAR = closed.Linkage(ARM, closed.Closure(closed.End(None, (2.0, 0.0, 0.0)), END, ("x", "y")))

MESSAGES = [
    (lambda: fx.Chain.linear(0), ValueError,
     "n must be at least 1, got 0"),
    (lambda: fx.Chain.linear(3, dim=4), ValueError,
     "dim must be 2 or 3, got 4"),
    (lambda: fx.Chain.linear(3, base="loose"), ValueError,
     "base must be 'free' or 'fixed', got 'loose'"),
    (lambda: fx.Chain.linear(3, masses=[1.0, -1.0, 1.0]), ValueError,
     "the mass of bead 1 is -1.0: masses must be positive and finite, in a unit that keeps "
     "them within 1e±100 (a point that cannot move is base='fixed', not a mass)"),
    (lambda: fx.Chain.linear(3, masses=[1.0, 2.0]), ValueError,
     "masses must be one number or have shape (3,), got (2,)"),
    (lambda: fx.Chain.linear(3, hard="everything"), ValueError,
     "unknown hard coordinates 'everything': choose one or more of length, angle, torsion (as "
     "in bonds, all-bonds, all-angles, dihedrals); or one of torsional, h-bonds, h-angles, "
     "alone"),
    (lambda: fx.Chain.ring(2), ValueError,
     "a ring has at least 3 beads, got 2"),
    (lambda: fx.Chain.branched([-1, 2, 0]), ValueError,
     "parents[1] is 2: a parent comes before its children, 0 to 0; Chain.from_bonds takes "
     "any order"),
    (lambda: fx.Chain.from_bonds(3, [(0, 1)]), ValueError,
     "the bonds leave 2 components of 2, 1 beads (bead 2 is not connected to bead 0): make one"
     " chain of each"),
    (lambda: fx.Chain.from_bonds(3, [(0, 1), (1, 3)]), ValueError,
     "bond (1, 3) names a bead that is not among 0 to 2"),
    (lambda: fx.Chain.from_json("{}"), ValueError,
     "text is not a chain written by Chain.to_json: KeyError('fixman_chain')"),
    (lambda: CHAIN.internal(X[:3]), ValueError,
     "x must have shape (..., 5, 3), got (3, 3)"),
    (lambda: CHAIN.internal(np.full((5, 3), np.nan)), fx.FrameError,
     "x is nan at bead 0: every value must be finite"),
    (lambda: CHAIN.cartesian(np.ones(3)), ValueError,
     "q must have shape (..., 15), got (3,)"),
    (lambda: fx.logdet(CHAIN, X, inverse_masses=-1.0), ValueError,
     "the inverse mass of bead 0 is -1.0: it must be within 1e±100"),
    (lambda: fx.logdet(CHAIN, "x"), TypeError,
     "x must be real numbers, got dtype <U1"),
    (lambda: fx.logdet(CHAIN, MET), fx.SingularConstraintError,
     "bead 2 and bead 3 coincide: their bond has no direction"),
    (lambda: fx.logdet(BENT, STRAIGHT), fx.SingularConstraintError,
     "angle(0, 1, 2), angle(1, 2, 3), angle(2, 3, 4) are singular: three successive beads are "
     "in line; a straight angle cannot be hard in 3-D: hold such bends in line, straight=[(0, "
     "1, 2), (1, 2, 3), (2, 3, 4)]"),
    (lambda: fx.Partition(CHAIN, X[None]), ValueError,
     "x must be one configuration (5, 3), got (1, 5, 3)"),
    (lambda: fx.Partition(CHAIN, X).solve(np.ones(3)), ValueError,
     "b must have shape (11,) or (11, k), got (3,)"),
    (lambda: fx.Partition(CHAIN, X).solve(np.ones(CHAIN.soft.size), method="qr"), ValueError,
     "method must be 'fused' or 'lu', got 'qr'"),
    (lambda: fx.forward_dynamics(CHAIN, X, V[:4]), ValueError,
     "v must have shape (..., 5, 3), got (4, 3)"),
    (lambda: fx.forward_dynamics(CHAIN, X, V, torque=np.ones(2)), ValueError,
     "torque must have shape (..., 11), got (2,)"),
    (lambda: fx.project(CHAIN, X, [1.0, 1.0, -1.0, 1.0]), fx.FrameError,
     "the target of length(2, 3) is -1.0: lengths must be positive"),
    (lambda: fx.project(CHAIN, X, np.ones(3)), ValueError,
     "targets must have shape (..., 4), got (3,)"),
    (lambda: fx.fixman_force(CHAIN, X, kT=0.0), ValueError,
     "kT must be positive, in a unit that keeps it within 1e±100, got 0.0"),
    (lambda: fx.reweight(CHAIN, X), ValueError,
     "x must have time as its first axis, got one configuration"),
    (lambda: fx.random_walks(CHAIN, -1), ValueError,
     "size must be at least 1, got -1"),
    (lambda: fx.random_walks(CHAIN, rng="seed"), TypeError,
     "rng must be an integer or a numpy.random.Generator, got 'seed'"),
    (lambda: fx.sample(CHAIN, 3, ensemble="soft"), ValueError,
     "ensemble must be 'rigid' or 'stiff', got 'soft'"),
    (lambda: fx.Langevin(0.0), ValueError,
     "dt must be positive, in a unit that keeps it within 1e±100, got 0.0"),
    (lambda: fx.Langevin(0.01, ensemble="hard"), ValueError,
     "ensemble must be 'rigid' or 'stiff', got 'hard'"),
    (lambda: fx.Langevin(0.01, friction=[1.0, 2.0]), TypeError,
     "friction must be one number, got [1.0, 2.0]"),
    (lambda: fx.Langevin(0.01, potential=potentials.WCA), TypeError,
     "potential must be one of fixman.potentials, or an object with energy(x) and force(x), "
     "got the class WCA: make one, WCA(…)"),
    (lambda: fx.Brownian(0.01, scheme="euler"), ValueError,
     "scheme must be 'geodesic', 'midpoint' or 'liu', got 'euler'"),
    (lambda: fx.HybridMonteCarlo(0.1, leaps=0), ValueError,
     "leaps must be at least 1, got 0"),
    (lambda: fx.simulate(CHAIN, X, 0.02, 100), TypeError,
     "stepper must be fixman.Langevin(dt), fixman.Newton(dt) or another stepper, got 0.02"),
    (lambda: fx.simulate(CHAIN, X, fx.Langevin, 100), TypeError,
     "stepper must be fixman.Langevin(dt), fixman.Newton(dt) or another stepper, got <class"
     " 'fixman.simulation.steppers.scheduled.Langevin'>"),
    (lambda: fx.simulate(CHAIN, X, fx.Langevin(0.02), 2.5), TypeError,
     "steps must be an integer, got 2.5"),
    (lambda: fx.simulate(CHAIN, X, fx.Langevin(0.02), 10, every=3), ValueError,
     "steps must be a multiple of every, so that a run can be extended: got 10 and 3"),
    (lambda: fx.simulate(CHAIN, X, fx.Langevin(0.02), 10, out=""), ValueError,
     "out must be the name of a file or folder, got ''"),
    (lambda: fx.simulate(CHAIN, X, fx.Newton(0.02), 10), ValueError,
     "Newton needs velocities to start with: give v0, or kT to draw them"),
    (lambda: fx.load_run("nowhere"), FileNotFoundError,
     "no such file: nowhere"),
    (lambda: potentials.Bending(1.0, kind="cubic"), ValueError,
     "kind must be 'cosine', 'harmonic' or 'squared cosine', got 'cubic'"),
    (lambda: potentials.bind(CHAIN, potentials.Tension((1.0, 0.0))), ValueError,
     "force must have 3 components, got 2"),
    (lambda: potentials.bind(CHAIN, potentials.Torsion(1.0, beads=[(0, 1, 2)])), ValueError,
     "beads: a torsion is 4 different bead numbers, got (0, 1, 2)"),
    (lambda: observables.mean_with_error([1.0]), ValueError,
     "the error of a mean needs at least two values, got one"),
    (lambda: fx.flows.shear(1.0, dim=4), ValueError,
     "dim must be 2 or 3, got 4"),
    (lambda: rigid.SerialChain.random(0), ValueError,
     "n must be at least 1, got 0"),
    (lambda: rigid.SerialChain.planar([1.0], [-1.0], [1.0]), ValueError,
     "the mass of body 0: it must not be negative; got -1.0"),
    (lambda: rigid.SerialChain.random(3, 1, joints=("screw",)), ValueError,
     "joint 0 is 'screw': expected one of ('revolute', 'prismatic', 'spherical', 'free', "
     "'helical', 'planar')"),
    (lambda: articulated_body.forward_dynamics(ARM, np.ones(2), np.ones(3), np.ones(3)), ValueError,
     "q must have shape (..., 3), got (2,)"),
    (lambda: articulated_body.forward_dynamics(None, np.ones(3), np.ones(3), np.ones(3)), TypeError,
     "arm must be a fixman.rigid.SerialChain, got NoneType"),
    (lambda: kinematics.jacobian(ARM, np.ones(3), 7), ValueError,
     "body must be from 0, next to the base, to 2; got 7"),
    (lambda: closed.Closure(closed.End(None), closed.End(None)), ValueError,
     "both ends of the closure are the base: one must be a body"),
    (lambda: closed.gap(ARM, np.ones(3)), TypeError,
     "linkage must be a Linkage, got SerialChain"),
    (lambda: closed.forward_dynamics(FOUR_BAR, np.zeros(3), np.zeros(3), np.zeros(3)),
     fx.FrameError,
     "the positions do not close: x of closure 0 is off by 1: `project` gives positions and "
     "rates that close"),
    (lambda: rigid.SerialChain.from_urdf("nowhere.urdf"), FileNotFoundError,
     "[Errno 2] No such file or directory: 'nowhere.urdf'"),
    (lambda: analytic.trimer_density(-1.0), ValueError,
     "theta must lie between 0 and 3.14159, got -1.0"),
    (lambda: analytic.mean_square_cosines(0), ValueError,
     "bonds must be at least 1, got 0"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), MESSAGES)
def test_the_message(call, kind, message):
    with pytest.raises(kind) as raised:
        call()
    assert raised.type is kind
    assert str(raised.value) == message
