r"""Run a constrained chain; a resumed run has the same bits.

usage: fixman simulate (--beads N | --chain CHAIN) --steps N --out FILE [flags]

$chain
  --chains COUNT, --density RHO | --box L  many chains in a periodic box, by its density or its edge
dynamics, in reduced units:
  --method {langevin,newton,brownian,mc,hmc}  mc is Monte Carlo (default: langevin)
  --ensemble {rigid,stiff,mobility}  constraints (default); springs; friction (brownian's default)
  --dt DT, --kT E, --friction F  time step, default 0.02 (0.005 with --wca or --lj), brownian
                         0.002, hmc 0.1; temperature and friction (a rate, or of a bead), default 1
  --scheme {geodesic,midpoint,liu}  brownian: default geodesic, in a flow midpoint
  --leaps N              hmc: steps of dt in a trial move, default 10
  --shear RATE | --extension RATE  brownian: v_x = RATE y; extension along x, uniaxial in 3-D
  --bending K, --torsion-potential K1,K2  K (1 − cos θ) of angles; Σ K_m (1 + cos m φ) of torsions
  --gravity G, --tension F  acceleration along −z (−y in 2-D); pull along x on the two ends
  --wca [EPSILON=1] | --lj [EPSILON=1], --sigma SIGMA  repulsion; Lennard-Jones; size of beads,
                         default 1. Pairs without a bond interact; one chain starts stretched
run; Ctrl-C ends the run after the current block, and `fixman resume` resumes it:
  --steps N, --out FILE  number of steps, such as 1e6; new file for the run
$run
  --scheduler ADDRESS, --overwrite, --json, --quiet  Dask; replace a run; print JSON; no bar

example:
  fixman simulate --beads 50 --dt 0.02 --steps 1e6 --replicas 64 --seed 3 --out run
  fixman simulate --chain star:4x10 --method brownian --shear 1 --dt 1e-3 --steps 1e5 --out sheared
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.cli import chains, shared
from fixman.potentials import energies, flows
from fixman.runs import runfile
from fixman.sampling.random_walks import random_walks
from fixman.simulation.push_off import push_off
from fixman.simulation.steppers import Stepper

STEEP = 0.005  # time step with pair forces
DT = {"langevin": 0.02, "newton": 0.02, "brownian": 0.002, "hmc": 0.1}  # by default
FLAGS = ("dt", "kT", "friction", "ensemble", "scheme", "leaps", "shear", "extension")
WALKS = (2**32 - 1,)  # a stream that no replica has


def run(arguments: shared.Namespace) -> int:
    runfile.free(arguments.out, arguments.overwrite)
    chain, values, x0 = chains.made(arguments)
    stepper, model = _stepper(arguments, chain), _model(arguments, chain)
    seed = shared.seed(arguments)
    shared.say(arguments, f"{model!r}, seed {seed}")
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=WALKS))
    many, excludes = model is not chain, _excludes(arguments)
    if x0 is None and excludes and not many:
        turning = arguments.torsion_potential is not None and chain.dim == 3
        x0 = chains.stretched(chain, **values, bend=chains.TETRAHEDRAL if turning else 0.0)
    elif x0 is None or many:
        x0 = random_walks(model, arguments.replicas, **values, rng=rng)
    if many and excludes:
        shared.say(arguments, "beads that overlap are pushed off")
        options = {"kT": getattr(stepper, "kT", None) or 1.0, "workers": arguments.workers}
        x0 = push_off(model, x0, _potential(arguments, chain), rng=rng, **options)
    of = model, x0, stepper, arguments.steps
    with shared.client(arguments) as client:
        return shared.simulated(arguments, *of, seed=seed, client=client)


def _model(arguments: shared.Namespace, chain: Chain) -> Chain | System:
    """Return the chain, or the system of so many in a box."""
    many, density, box = arguments.chains, arguments.density, arguments.box
    if density is None and box is None:
        if many is None:
            return chain
        raise ValueError("--chains needs a box: --density or --box")
    if box is None:
        density = arrays.positive(density, "--density")
        if many is None:
            raise ValueError("--density needs --chains, how many there are")
        box = (many * chain.n / density) ** (1.0 / chain.dim)
    return System(chain, many, box=box)


def _stepper(arguments: shared.Namespace, chain: Chain) -> Stepper:
    dt = DT.get(arguments.method)
    if _excludes(arguments) and arguments.method in ("langevin", "newton"):
        dt = STEEP
    kind, given = shared.chosen(arguments, FLAGS, {"dt": dt, "kT": 1.0})
    shear, extension = given.pop("shear", None), given.pop("extension", None)
    if shear is not None:
        given["flow"] = flows.shear(shear, chain.dim)
    elif extension is not None:
        planar, uniaxial = flows.planar_extension, flows.uniaxial_extension
        given["flow"] = planar(extension, 2) if chain.dim == 2 else uniaxial(extension)
    if "flow" in given:
        given.setdefault("scheme", "midpoint")
    made: Stepper = kind(potential=_potential(arguments, chain), **given)
    return made


def _potential(arguments: shared.Namespace, chain: Chain) -> Any:
    zeros = (0.0,) * (chain.dim - 1)
    if arguments.sigma is not None and not _excludes(arguments):
        raise ValueError("--sigma is for --wca or --lj")
    sigma = 1.0 if arguments.sigma is None else arguments.sigma
    made: dict[str, Callable[[Any], Any]] = {
        "bending": energies.Bending,
        "torsion_potential": energies.Torsion,
        "gravity": lambda g: energies.Gravity((*zeros, -g)),
        "tension": lambda f: energies.Tension((f, *zeros)),
        "wca": lambda epsilon: energies.WCA(epsilon, sigma),
        "lj": lambda epsilon: energies.LennardJones(epsilon, sigma),
    }
    total = None
    for name, value in shared.given(arguments, *made).items():
        try:
            term = made[name](value)
        except ValueError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {error}") from None
        total = term if total is None else total + term
    return total


def _excludes(arguments: shared.Namespace) -> bool:
    return arguments.wca is not None or arguments.lj is not None
