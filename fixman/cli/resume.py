"""`fixman resume`: go on with a run."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any

from fixman.cli import shared

HELP = f"""
usage: fixman resume RUN [flags]

go on with a run that was interrupted, or extend one

  RUN                    file of the run
  --steps N              new total number of steps{shared.SCHEDULER}{shared.SHOWING}

example:
  fixman resume run --steps 2e6
"""


def run(arguments: argparse.Namespace) -> int:
    """Go on with a run."""
    from fixman.simulation import simulate as simulation

    given, naming = _going_on(arguments.run)
    with naming, shared.client(arguments) as client:
        run = simulation.resume(
            arguments.run,
            arguments.steps,
            **given,
            workers=arguments.workers,
            progress=shared.progress(arguments),
            client=client,
        )
    return shared.report(arguments, run)


def _going_on(path: Path) -> tuple[dict[str, Any], contextlib.AbstractContextManager[None]]:
    """Return stepper and observables of a run of a PDB file, and what names its atoms in errors.

    Other runs need neither.
    """
    from fixman.simulation import steppers
    from fixman.simulation.runfile import read_about
    from fixman.simulation.trajectory import pdb_potential

    about = read_about(path)
    if pdb_potential(about) is None:
        return {}, contextlib.nullcontext()
    from fixman.io.openmm.torsional import Molecule, naming

    molecule = Molecule.of_run(about)
    stepper = steppers.from_parameters(about["stepper"], molecule)
    given = {"stepper": stepper, "observables": molecule.observables()}
    return given, naming(molecule.names)
