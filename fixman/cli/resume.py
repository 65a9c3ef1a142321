"""Resume an interrupted run, or extend a run.

usage: fixman resume RUN [flags]

  RUN                    file of the run
  --steps N              new total number of steps
$scheduler
$showing

example:
  fixman resume run --steps 2e6
"""

import contextlib
from typing import Any

from fixman.cli import shared


def run(arguments: shared.Namespace) -> int:
    import fixman
    from fixman.runs import runfile
    from fixman.simulation import steppers
    from fixman.simulation.trajectory import pdb_potential

    about = runfile.contents(arguments.run).about
    given: dict[str, Any] = {}
    naming: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    if pdb_potential(about) is not None:
        from fixman.io.openmm import torsional

        molecule = torsional.Molecule.of_run(about)
        given["stepper"] = steppers.from_parameters(about["stepper"], molecule)
        given["observables"] = molecule.observables()
        naming = torsional.naming(molecule.names)
    given |= {"workers": arguments.workers, "progress": shared.progress(arguments)}
    with naming, shared.client(arguments) as client:
        run = fixman.resume(arguments.run, arguments.steps, **given, client=client)
    return shared.report(arguments, run)
