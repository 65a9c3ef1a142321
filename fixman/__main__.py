"""``fixman`` and ``python -m fixman``: Ctrl-C ends it quietly from the first import on."""

import signal
import sys


def main() -> int:
    """Run `fixman.cli.command.main`.

    Ctrl-C ends the process at once, as it does other programs: Python's exception would be lost in
    imports and callbacks.  Commands that have something to finish turn it on again.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from fixman.cli import command

    return command.main()


if __name__ == "__main__":
    sys.exit(main())
