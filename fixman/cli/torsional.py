"""`fixman torsional`: parse, call, print."""

from __future__ import annotations

import argparse
import re
import warnings
from typing import TYPE_CHECKING, Any

from fixman.cli import arguments as cli_arguments
from fixman.cli import simulate as cli_simulate

if TYPE_CHECKING:
    from fixman.io.openmm.torsional import Molecule

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

# By method: its stepper, and the flags that it takes besides --dt and --temperature.
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "langevin": ("Langevin", ("friction", "ensemble")),
    "newton": ("Newton", ()),
    "hmc": ("HybridMonteCarlo", ("ensemble", "leaps")),
}
FRICTION = 5.0  # 1/ps
FEMTO = 0.1  # ps, from which a time step must have been meant in fs
LONG = 0.01  # ps, above which energies drift: docs/torsional.md has the table


def add_command(commands: Any) -> None:
    """Add the subcommand to the parser of `fixman`."""
    torsional = commands.add_parser(
        "torsional",
        help="torsional dynamics of a PDB file in an OpenMM force field; restartable",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        description="Dynamics of a molecule whose bonds and angles are hard and whose torsions are "
        "soft.\nUnits are nm, ps, dalton, kJ/mol and kelvin. Frames hold energies, φ and ψ.\n"
        "Ctrl-C ends a run after the block that it is at; `fixman resume` goes on.",
        epilog="example:\n  fixman torsional villin.pdb --forcefield amber14-all.xml "
        "implicit/obc2.xml --temperature 300 --dt 0.008 --time 100 --minimize --seed 3 --out run",
    )
    add = torsional.add_argument_group("molecule").add_argument
    a_path = cli_arguments.named_path
    add("pdb", type=a_path, metavar="PDB", help="file with one molecule and all its hydrogens")
    add("--forcefield", nargs="+", required=True, metavar="XML", help="files that OpenMM knows")
    add("--chain", metavar="ID", help="the one to take of a file of several chains")
    add("--add-hydrogens", action="store_true", help="add those that the file has not, at pH 7")
    add("--drop-solvent", action="store_true", help="leave water and ions out")
    minimum = "go to a minimum of the energy first, which sets bonds and angles"
    add("--minimize", action="store_true", help=minimum)
    held = "torsions that are hard too: one or more of methyl, hydroxyl, ammonium, peptide"
    add("--hold", nargs="+", default=(), metavar="WORD", help=f"{held} (default: none)")
    _add_dynamics(torsional)
    _add_run(torsional)
    torsional.set_defaults(run=_torsional)


def _add_dynamics(torsional: argparse.ArgumentParser) -> None:
    add = torsional.add_argument_group("dynamics").add_argument
    methods = "Langevin's or Newton's equations, or hybrid Monte Carlo (default: langevin)"
    add("--method", choices=tuple(METHODS), default="langevin", help=methods)
    limits = "of the constraints, or of equally stiff springs in their place (default: stiff)"
    add("--ensemble", choices=("rigid", "stiff"), help=limits)
    add("--temperature", type=float, required=True, metavar="K", help="in kelvin")
    add("--dt", type=float, default=0.008, help="time step in ps (default: 0.008)")
    add("--friction", type=float, help=f"langevin: rate in 1/ps (default: {FRICTION:g})")
    add("--leaps", type=int, metavar="N", help="hmc: steps of dt to a trial move (default: 10)")
    add("--platform", metavar="NAME", help="of OpenMM (default: the fastest)")


def _add_run(torsional: argparse.ArgumentParser) -> None:
    run = torsional.add_argument_group("run")
    add, whole = run.add_argument, cli_arguments.whole
    length = run.add_mutually_exclusive_group(required=True).add_argument
    length("--steps", type=whole, metavar="N", help="a multiple of --every; 1e6 will do")
    length("--time", type=float, metavar="PS", help="in their place: dt times steps, in ps")
    add("--every", type=whole, metavar="N", help="steps per frame (default: about 1000 frames)")
    copies = "independent copies (default: 1)"
    add("--replicas", type=whole, default=1, metavar="N", help=copies)
    cli_arguments.add_seed(add)
    folder = "folder to be made for the run"
    add("--out", type=cli_arguments.named_path, required=True, metavar="DIR", help=folder)
    add("--overwrite", action="store_true", help="replace a run of that name")
    threads = "threads for replicas (default: 1)"
    add("--workers", type=cli_arguments.workers, default=1, metavar="N", help=threads)
    add("--quiet", action="store_true", help="no progress bar")


def _torsional(arguments: argparse.Namespace) -> None:
    from fixman.io.openmm.torsional import Molecule, naming
    from fixman.mechanics import dynamics
    from fixman.simulation import simulate as simulation
    from fixman.simulation import writer

    writer.require_free(arguments.out, arguments.overwrite)
    if arguments.dt >= FEMTO:
        fs = f"{arguments.dt:g} fs is {arguments.dt / 1000:g}"
        raise ValueError(f"--dt is in ps, got {arguments.dt:g}: {fs}")
    given = _given(arguments)
    seed, steps = cli_arguments.seed(arguments), _steps(arguments)
    with cli_simulate.warnings_in_a_line():
        molecule = Molecule.prepare(
            arguments.pdb,
            arguments.forcefield,
            arguments.platform,
            chain=arguments.chain,
            add_hydrogens=arguments.add_hydrogens,
            drop_solvent=arguments.drop_solvent,
        )
    chain = molecule.chain(re.findall(r"[^\s,]+", " ".join(arguments.hold)))
    stepper = _stepper(arguments, molecule, given)
    x0 = molecule.minimized(molecule.x0) if arguments.minimize else molecule.x0
    turning = max(0, 3 * chain.n - 6 - chain.hard.size)  # a straight molecule has five of its own
    where = "in a vacuum, " * molecule.in_vacuum
    cli_arguments.say(f"{chain!r}, {turning} turn, {where}on {molecule.platform}, seed {seed}")
    small, large = molecule.ring_bonds
    if small or large:
        text = f"{small} bonds of rings of up to 8 atoms do not turn, {large} of larger ones do"
        cli_arguments.say(text)
    if arguments.method == "newton" and arguments.minimize:
        cli_arguments.say(
            f"rates are drawn at {arguments.temperature:g} K, and the minimum that they leave "
            f"takes half: the mean will be near {0.5 * arguments.temperature:g} K"
        )
    with cli_simulate.warnings_in_a_line(), naming(molecule.names):
        if chain.straight:
            x0 = dynamics.project(chain, x0, chain.hard_values(x0))
        warnings.filterwarnings("ignore", "dt=.* is long")  # of free beads; ours is below
        if arguments.method != "hmc" and arguments.dt > LONG:
            warnings.warn(
                f"--dt {arguments.dt:g} is long: above {LONG:g} ps energies drift",
                RuntimeWarning,
                stacklevel=1,
            )
        run = simulation.simulate(
            chain,
            x0,
            stepper,
            steps,
            every=arguments.every,
            replicas=arguments.replicas,
            workers=arguments.workers,
            rng=seed,
            out=arguments.out,
            observables=molecule.observables(),
            progress=cli_simulate.progress(arguments),
            overwrite=arguments.overwrite,
        )
    cli_simulate.report(run)


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what the flags of one method alone say."""
    known = METHODS[arguments.method][1]
    for name in ("friction", "ensemble", "leaps"):
        if getattr(arguments, name) is not None and name not in known:
            able = [method for method, (_, flags) in METHODS.items() if name in flags]
            raise ValueError(f"--{name} is for --method {' or '.join(able)}")
    usual = {"friction": FRICTION, "ensemble": "stiff"}
    given = {name: getattr(arguments, name) for name in known}
    found = {name: usual.get(name) if one is None else one for name, one in given.items()}
    return {name: value for name, value in found.items() if value is not None}


def _steps(arguments: argparse.Namespace) -> int:
    """Return --steps, or how many a --time takes: a multiple of --every, or of a round number."""
    if arguments.steps is not None:
        return int(arguments.steps)
    if not (arguments.time > 0.0 and arguments.dt > 0.0):
        raise ValueError(f"--time and --dt must be positive, got {arguments.time}, {arguments.dt}")
    if arguments.time < arguments.dt:
        given = f"got {arguments.time:g} and {arguments.dt:g} ps"
        raise ValueError(f"--time must be at least a step of --dt, {given}")
    steps = arguments.time / arguments.dt
    unit = arguments.every or 10 ** max(0, len(str(int(steps))) - 3)
    return int(max(1, round(steps / unit)) * unit)


def _stepper(arguments: argparse.Namespace, molecule: Molecule, given: dict[str, Any]) -> Any:
    import fixman
    from fixman.io.openmm import kT

    if not arguments.temperature > 0.0:
        raise ValueError(f"--temperature must be positive, got {arguments.temperature}")
    kind = getattr(fixman, METHODS[arguments.method][0])
    return kind(dt=arguments.dt, kT=kT(arguments.temperature), potential=molecule, **given)
