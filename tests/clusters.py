"""A Dask scheduler and its workers on this machine, by the commands of docs/audit_examples.md."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start ``dask scheduler`` and several times ``dask worker``; the address of the scheduler.

    The workers have joined: those of a busy machine take longer than a client waits for them.
    """
    about = folder / "scheduler.json"
    local = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    with ExitStack() as stack, (folder / "log").open("w") as log:
        _start(stack, log, "scheduler", *local, "--scheduler-file", about)
        _wait(lambda: about.exists() and about.read_text(), folder / "log")
        address = json.loads(about.read_text())["address"]
        quiet = ["--dashboard-address", "127.0.0.1:0", "--local-directory", folder]
        for _ in range(workers):
            _start(stack, log, "worker", address, "--nthreads", "1", *quiet)
        _wait(
            lambda: (folder / "log").read_text().count("Registered to:") == workers, folder / "log"
        )
        yield address


def _wait(done: Callable[[], Any], log: Path) -> None:
    end = time.monotonic() + 300.0
    while not done():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.05)


def _start(stack: ExitStack, log, *command) -> None:
    run = [sys.executable, "-m", "dask", *map(str, command)]
    process = subprocess.Popen(run, stdout=log, stderr=log)
    stack.callback(process.wait, 300)
    stack.callback(process.terminate)
