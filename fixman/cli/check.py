"""`fixman check`: whether the file of a run is whole."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from fixman.cli.shared import result

HELP = """
usage: fixman check RUN [flags]

read a run in whole, and say what is damaged and which frames can be read

  RUN                    file of the run
  --json                 print one JSON document instead of text

example:
  fixman check run
"""


def run(arguments: argparse.Namespace) -> int:
    """Say whether a run is whole; 1 if it is not."""
    from fixman import check_run

    found = check_run(arguments.run)
    readable = [[piece.start, piece.stop] for piece in found.readable]
    own = {"path": str(found.path), "readable": readable, "whole": found.whole}
    result(arguments, found, asdict(found) | own)
    return 0 if found.whole else 1
