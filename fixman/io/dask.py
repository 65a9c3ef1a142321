"""A running Dask scheduler. The one file that imports Dask's distributed package."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

try:
    import distributed
except ImportError as error:
    raise ImportError('Dask needs distributed: pip install "fixman-chains[dask]"') from error

__all__ = ["connect"]
__dir__ = __all__.copy  # completion shows public names alone


@contextmanager
def connect(address: str, *, timeout: float = 10.0) -> Iterator[Any]:
    """Connect to a running scheduler, such as ``tcp://127.0.0.1:8786``, and leave it running.

    `timeout` in seconds, for the scheduler to answer and for a first worker to join it. Raises
    ConnectionError if either does not happen.
    """
    if not isinstance(address, str):
        raise TypeError(f"address must be a string, such as tcp://127.0.0.1:8786, got {address!r}")
    kind: Any = distributed.Client  # some versions have types, some have not
    client = kind.__new__(kind)
    try:
        client.__init__(address, timeout=timeout, set_as_default=False)
    except Exception as error:  # a dozen kinds
        # Closed here, since __del__ of a client that failed can block the start of the next one.
        client.close()
        said = f"no Dask scheduler answers at {address}: {error}"
        raise ConnectionError(f"{said}; `dask scheduler` starts one") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=timeout)
        except TimeoutError as error:
            said = f"the Dask scheduler at {address} has no workers"
            raise ConnectionError(f"{said}: `dask worker {address}` starts one") from error
        yield client
