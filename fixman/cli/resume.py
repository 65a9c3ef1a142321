"""Resume an interrupted run, or extend a run.

usage: fixman resume RUN [flags]

  RUN                    file of the run
  --steps N              new total number of steps
$scheduler
$showing

example:
  fixman resume run --steps 2e6
"""

import fixman
from fixman.cli import shared


def run(arguments: shared.Namespace) -> int:
    given = {"workers": arguments.workers, "progress": shared.progress(arguments)}
    with shared.client(arguments) as client:
        run = fixman.resume(arguments.run, arguments.steps, **given, client=client)
    return shared.report(arguments, run)
