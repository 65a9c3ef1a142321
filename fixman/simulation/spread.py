"""A run that is spread over many machines: groups of replicas, block by block.

A client of Dask, or whatever has its `submit` and `nthreads`, takes the state of a group to a
worker, which computes the frames up to the end of the next block and hands them back; here they
are stored.  A worker keeps nothing, so that one that is lost costs the block that it was at.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import lru_cache
from itertools import pairwise
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from fixman.chains.chain import Chain
from fixman.kernels.compiler.lanes import LANES
from fixman.runs import about as provenance
from fixman.runs import loop
from fixman.runs.loop import Sink
from fixman.runs.series import Arrays
from fixman.simulation.recording import Observable, Replicas

if TYPE_CHECKING:
    from fixman.simulation.steppers import Stepper

Model = tuple[Chain, "Stepper", Mapping[str, Observable], int]

AHEAD = 2  # groups for each thread of the workers: one is computed while another one is stored
MOST_GROUPS = 256  # each holds a block in memory here
PATIENCE = 1.0  # seconds until it is asked whether there are workers to wait for


def require_client(client: Any) -> None:
    """Refuse what cannot take work to workers."""
    able = all(callable(getattr(client, name, None)) for name in ("submit", "nthreads"))
    if not able or getattr(client, "asynchronous", False):
        raise TypeError(
            "client must be a distributed.Client, such as Client('tcp://127.0.0.1:8786'), and not "
            f"asynchronous, got {client!r:.80}"
        )
    if not client.nthreads():
        raise ValueError("the client's scheduler has no workers: start some with `dask worker`")


def sizes(replicas: int, workers: int, client: Any) -> list[int]:
    """Divide replicas into groups of whole lanes; the last one may have fewer."""
    places = sum(max(1, threads // workers) for threads in client.nthreads().values())
    eights = -(-replicas // LANES)
    groups = min(eights, AHEAD * places, MOST_GROUPS)
    edges = [min(replicas, LANES * (eights * k // groups)) for k in range(groups + 1)]
    return [stop - start for start, stop in pairwise(edges)]


def run(model: Model, sinks: Sequence[Sink], client: Any, watch: loop.Watch) -> None:
    """Advance all groups to the end, or each to the end of its block after Ctrl-C."""
    (interrupted, bar), steps = watch, sinks[0].about["steps"]
    about = {key: sinks[0].about[key] for key in ("steps", "every", "block")}
    about |= {"versions": provenance.versions()}
    futures: dict[int, Any] = {}
    ready: SimpleQueue[int] = SimpleQueue()

    def send(number: int) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a state is what it is
            task = model, about, sinks[number].state, sinks[number].frames
            futures[number] = client.submit(_block, *task, pure=False)
        futures[number].add_done_callback(lambda _: ready.put(number))

    try:
        for number, sink in enumerate(sinks):
            if sink.step < steps or sink.frames * about["every"] <= steps:
                send(number)
        while futures:
            try:
                number = ready.get(timeout=PATIENCE)
            except Empty:
                if interrupted() and not client.nthreads():
                    return  # Ctrl-C has reached workers of this terminal as well
                continue
            sink = sinks[number]
            with renumbered(sink, number):
                rows, step, state = futures.pop(number).result()
            ahead = step - sink.step
            if rows:
                sink.record(rows)
            sink.commit(step, state)
            if step < steps and not interrupted():
                send(number)
            bar(ahead, interrupted())
    finally:
        for future in futures.values():
            future.cancel()


@contextlib.contextmanager
def renumbered(sink: Sink, group: int) -> Iterator[None]:
    """Have an error of a group name its replica by the number that it has in the whole run."""
    try:
        yield
    except CancelledError as error:
        raise ConnectionError(
            f"the scheduler or its client has given the run up ({error})"
        ) from error
    except Exception as error:
        first = sum(sink.about["groups"][:group])
        text = error.args[0] if error.args else ""
        if first and isinstance(text, str):
            named = re.sub(r"\breplica (\d+)", lambda m: f"replica {first + int(m[1])}", text)
            error.args = (named, *error.args[1:])
        if isinstance(getattr(error, "replica", None), int):
            error.replica += first  # type: ignore[attr-defined]
        raise


# --- on the workers -----------------------------------------------------------------------------


def _block(
    model: Model, about: dict[str, Any], state: Arrays, frames: int
) -> tuple[Arrays, int, Arrays]:
    """Go on to the end of the block; its frames, and the state behind it."""
    from fixman.simulation.steppers import State

    other = provenance.differing(provenance.versions(), about["versions"])
    if other:
        raise RuntimeError(f"a worker has other versions, {', '.join(other)}: so bits would differ")
    blocks: list[tuple[int, Arrays, int, Arrays]] = []
    sink = Sink(about, state, frames, lambda *block: blocks.append(block))
    mover = Replicas(*model, State.from_arrays(state))._replace(chain=_kept(model[0]))
    loop.run(mover, sink, (lambda: bool(blocks), lambda ahead, stopping: None))
    return blocks[0][1:]


@lru_cache(maxsize=8)
def _kept(chain: Chain) -> Chain:
    """Return the first of equal chains, which has its layout already."""
    return chain
