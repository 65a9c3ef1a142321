"""``fixman`` and ``python -m fixman``: Ctrl-C ends it quietly from the first import on."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run `fixman.cli.main`; 130 if Ctrl-C came before it or where it does not look."""
    try:
        from fixman.cli import command

        return command.main(argv)
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
