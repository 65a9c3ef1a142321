"""`fixman check`: whether the file of a run is whole."""

from __future__ import annotations

import argparse

from fixman.cli.printing import result

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
    from fixman.runs.runfile import check_run

    found = check_run(arguments.run)
    document = {
        "file": str(found.path),
        "whole": found.whole,
        "frames": found.frames,
        "readable": [[piece.start, piece.stop] for piece in found.readable],
        "problems": found.problems,
        "resumable": found.resumable,
    }
    result(arguments, found, document)
    return 0 if found.whole else 1
