r"""Run torsional dynamics of a PDB file in an OpenMM force field.

usage: fixman torsional PDB --forcefield XML… --temperature K (--steps N | --time PS) --out FILE

Bonds and angles of molecules are hard, their torsions soft, and waters rigid. Units are nm, ps,
dalton, kJ/mol and kelvin. Frames hold energies, φ and ψ.

molecules:
  PDB                    file with all hydrogens: PDB, mmCIF; with a topology also GRO, inpcrd, crd
  --forcefield XML…      names or paths of force field files for OpenMM, or a topology: a prmtop, a
                         TOP of GROMACS, or a PSF and its files of parameters
  --cutoff L             cutoff in a box of several molecules, with PME (default: 0.9)
  --chain ID             chain to take from a file of several chains
  --add-hydrogens, --drop-solvent  add missing hydrogens, at pH 7; leave out water and ions
  --minimize             minimize the energy first, which sets bonds and angles
  --hold WORD…           further hard torsions: methyl, hydroxyl, ammonium, peptide
dynamics:
  --method {langevin,newton,hmc}  hmc is hybrid Monte Carlo (default: langevin)
  --ensemble {rigid,stiff}  rigid: constraints; stiff: springs, the default
  --temperature K        temperature in kelvin
  --dt PS                time step in ps (default: 0.008); take 0.004 in water
  --friction F, --leaps N  langevin: rate in 1/ps, default 5; hmc: steps in a move, default 10
  --platform NAME        platform of OpenMM; default the fastest
run; Ctrl-C ends the run after the current block, and `fixman resume` resumes it:
  --steps N | --time PS  number of steps, a multiple of --every, such as 1e6; length in ps
  --out FILE, --overwrite  new file for the run; replace an existing run
$run
$showing

example:
  fixman torsional villin.pdb --forcefield amber14-all.xml implicit/obc2.xml \
      --temperature 300 --dt 0.008 --time 100 --minimize --seed 3 --out run
"""

import re
import warnings

from fixman._common import arrays
from fixman.chains.system import System
from fixman.cli import shared
from fixman.runs import runfile

FLAGS = ("friction", "ensemble", "leaps")
USUAL = {"friction": 5.0, "ensemble": "stiff"}  # 1/ps
FEMTO = 0.1  # ps, from which a time step must have been meant in fs


def run(arguments: shared.Namespace) -> int:
    from fixman.io.openmm import kT
    from fixman.io.openmm.torsional import Molecule, naming

    runfile.free(arguments.out, arguments.overwrite)
    if arguments.dt >= FEMTO:
        fs = f"{arguments.dt:g} fs is {arguments.dt / 1000:g}"
        raise ValueError(f"--dt is in ps, got {arguments.dt:g}: {fs}")
    temperature = arrays.positive(arguments.temperature, "--temperature")
    kind, given = shared.chosen(arguments, FLAGS, USUAL)
    seed, steps = shared.seed(arguments), _steps(arguments)
    kept = shared.given(arguments, "cutoff", "chain", "add_hydrogens", "drop_solvent")
    read = arguments.pdb, arguments.forcefield, arguments.platform
    molecule = Molecule.prepare(*read, **kept)
    chain = molecule.chain(re.findall(r"[^\s,]+", " ".join(arguments.hold)))
    kinds = (chain if isinstance(chain, System) else System(chain)).kinds
    stepper = kind(dt=arguments.dt, kT=kT(temperature), potential=molecule, **given)
    x0 = molecule.minimized(molecule.x0) if arguments.minimize else molecule.x0
    # A straight molecule has five coordinates of its own.
    turning = sum(many * max(0, 3 * one.n - 6 - one.hard.size) for one, many in kinds)
    where = "in a vacuum, " * molecule.in_vacuum
    shared.say(arguments, f"{chain!r}, {turning} turn, {where}on {molecule.platform}, seed {seed}")
    small, large = molecule.ring_bonds
    if small or large:
        text = f"{small} bonds in rings of up to 8 atoms do not turn; {large} in larger rings turn"
        shared.say(arguments, text)
    if arguments.method == "newton" and arguments.minimize:
        half = f"the mean will be near {0.5 * temperature:g} K"
        shared.say(arguments, f"a minimum takes half of the energy of the first rates: {half}")
    x0 = molecule.straightened(chain, x0)
    with naming(molecule.names):
        warnings.filterwarnings("ignore", "dt=.* is long")  # said with the flag's name here
        long, why = molecule.long_step
        if arguments.method != "hmc" and arguments.dt > long:
            text = f"--dt {arguments.dt:g} is long: above {long:g} ps {why}"
            warnings.warn(text, RuntimeWarning, stacklevel=1)
        of = chain, x0, stepper, steps
        return shared.simulated(arguments, *of, seed=seed, observables=molecule.observables())


def _steps(arguments: shared.Namespace) -> int:
    """Return --steps, or how many a --time takes: a multiple of --every, or of a round number."""
    if arguments.steps is not None:
        return int(arguments.steps)
    steps = shared.steps(arguments)
    unit = arguments.every or 10 ** max(0, len(str(int(steps))) - 3)
    return int(max(1, round(steps / unit)) * unit)
