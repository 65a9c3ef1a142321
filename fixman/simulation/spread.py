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
from fixman.simulation import loop, provenance
from fixman.simulation.loop import Running
from fixman.simulation.provenance import DECISIVE
from fixman.simulation.recording import Observable
from fixman.simulation.trajectory import Arrays, Sink

if TYPE_CHECKING:
    from fixman.simulation.steppers import Stepper

AHEAD = 2  # groups for each thread of the workers: one is computed while another one is stored
MOST_GROUPS = 256  # each holds a block in memory here
PATIENCE = 1.0  # seconds until it is asked whether there are workers to wait for


def require_client(client: Any) -> None:
    """Refuse what cannot take work to workers."""
    if not all(callable(getattr(client, name, None)) for name in ("submit", "nthreads")):
        raise TypeError(
            "client must be a distributed.Client, such as Client('tcp://127.0.0.1:8786'), got "
            f"{client!r:.80}"
        )
    if getattr(client, "asynchronous", False):
        raise TypeError("client must not be asynchronous: make one outside of an event loop")
    if getattr(client, "status", "running") != "running":
        raise ValueError(f"the client is {client.status}: connect again")
    if not client.nthreads():
        raise ValueError("the client's scheduler has no workers: start some with `dask worker`")


def sizes(replicas: int, running: Running) -> list[int]:
    """Divide replicas into groups of whole lanes; the last one may have fewer."""
    places = sum(max(1, k // running.workers) for k in running.client.nthreads().values())
    eights = -(-replicas // LANES)
    groups = min(eights, AHEAD * places, MOST_GROUPS)
    edges = [min(replicas, LANES * (eights * k // groups)) for k in range(groups + 1)]
    return [stop - start for start, stop in pairwise(edges)]


def run(
    stepper: Stepper,
    sinks: Sequence[Sink],
    observables: Mapping[str, Observable],
    running: Running,
) -> None:
    """Advance all groups to the end, or each to the end of its block after Ctrl-C."""
    steps, done = sinks[0].about["steps"], sum(sink.step for sink in sinks)
    model = sinks[0].chain, stepper, observables
    about = {key: sinks[0].about[key] for key in ("steps", "every", "block")}
    about |= {"versions": provenance.versions()}
    futures: dict[int, Any] = {}
    ready: SimpleQueue[int] = SimpleQueue()

    def send(number: int) -> None:
        task = model, about, sinks[number].state, sinks[number].frames, running.workers
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a state is what it is
            future = running.client.submit(_block, *task, pure=False)
        futures[number] = future
        future.add_done_callback(lambda _: ready.put(number))

    with loop.watched(running.progress, steps * len(sinks), done) as (interrupted, bar):
        try:
            for number, sink in enumerate(sinks):
                if sink.step < steps or sink.frames * about["every"] <= steps:
                    send(number)
            while futures:
                try:
                    number = ready.get(timeout=PATIENCE)
                except Empty:
                    if interrupted() and not running.client.nthreads():
                        return  # Ctrl-C has reached workers of this terminal as well
                    continue
                sink = sinks[number]
                with renumbered(sinks, number):
                    rows, step, state = futures.pop(number).result()
                ahead = step - sink.step
                for k in range(len(rows.get("x", ()))):
                    sink.record({name: values[k] for name, values in rows.items()})
                sink.commit(step, state)
                if step < steps and not interrupted():
                    send(number)
                bar(ahead, interrupted())
        finally:
            for future in futures.values():
                future.cancel()


@contextlib.contextmanager
def renumbered(sinks: Sequence[Sink], group: int) -> Iterator[None]:
    """Have an error of a group name its replica by the number that it has in the whole run."""
    try:
        yield
    except CancelledError as error:
        raise ConnectionError(
            f"the scheduler or its client has given the run up ({error})"
        ) from error
    except Exception as error:
        first = sum(sink.replicas for sink in sinks[:group])
        text = error.args[0] if error.args else ""
        if first and isinstance(text, str):
            named = re.sub(r"\breplica (\d+)", lambda m: f"replica {first + int(m[1])}", text)
            error.args = (named, *error.args[1:])
        if isinstance(getattr(error, "replica", None), int):
            error.replica += first  # type: ignore[attr-defined]
        raise


# --- on the workers -----------------------------------------------------------------------------


def _block(
    model: tuple[Chain, Stepper, Mapping[str, Observable]],
    about: dict[str, Any],
    state: Arrays,
    frames: int,
    workers: int,
) -> tuple[Arrays, int, Arrays]:
    """Go on to the end of the block; its frames, and the state behind it."""
    from fixman.simulation.steppers import State

    here, there = provenance.versions(), about["versions"]
    other = [
        f"{name} {here[name]}, not {there[name]}" for name in DECISIVE if here[name] != there[name]
    ]
    if other:
        raise RuntimeError(f"a worker has {', '.join(other)}: bits would depend on it")
    chain, stepper, observables = model
    sink = Sink(about, _kept(chain), state, frames, about["block"]["frames"])
    start = sink.step
    watch = (lambda: sink.frames > frames or sink.step > start), (lambda ahead, stopping: None)
    loop.run(stepper, State.from_arrays(state), sink, observables, workers, watch)
    return sink.rows, sink.step, sink.state


@lru_cache(maxsize=8)
def _kept(chain: Chain) -> Chain:
    """Return the first of equal chains, which has its layout already."""
    return chain
