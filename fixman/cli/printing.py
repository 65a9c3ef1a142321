"""What commands print: results as text or JSON, warnings in a line."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from fixman.errors import printable


def show(text: object, error: bool = False) -> None:
    """Print what may have text of files in it."""
    print(printable(str(text)), file=sys.stderr if error else sys.stdout)


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in a line."""
    show(f"fixman: warning: {' '.join(str(message).split())}", error=True)


def say(arguments: argparse.Namespace, text: str) -> None:
    """Print before the work, which may be killed; a pipe that is closed is met at the end."""
    if not arguments.json:
        with contextlib.suppress(BrokenPipeError):
            show(text)
            sys.stdout.flush()


def result(arguments: argparse.Namespace, text: object, found: Mapping[str, Any]) -> None:
    """Print what was found, with --json as one document."""
    show(json.dumps(found, indent=2) if arguments.json else text)
