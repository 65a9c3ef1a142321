"""Check a whole run for damage, and list the frames that can be read.

usage: fixman check RUN [flags]

  RUN                    file of the run
$json

example:
  fixman check run
"""

from dataclasses import asdict

from fixman import check_run
from fixman.cli import shared


def run(arguments: shared.Namespace) -> int:
    found = check_run(arguments.run)
    readable = [[piece.start, piece.stop] for piece in found.readable]
    own = {"path": str(found.path), "readable": readable, "whole": found.whole}
    shared.result(arguments, found, asdict(found) | own)
    return 0 if found.whole else 1
