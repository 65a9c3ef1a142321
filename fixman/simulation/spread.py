"""A run that is spread over many machines: groups of replicas, block by block.

A client of Dask, or any object with its `submit` and `nthreads`, takes the state of a group to a
worker.  The worker computes the frames up to the end of the next block and returns them; the frames
of all groups are joined and stored here.  A worker keeps nothing: a lost worker costs one block.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from functools import lru_cache
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from fixman.chains.chain import Chain
from fixman.kernels.compiler.lanes import LANES
from fixman.runs import about as provenance
from fixman.runs import loop
from fixman.runs.loop import Recorder
from fixman.runs.series import Arrays
from fixman.simulation.recording import Observable, Replicas
from fixman.simulation.steppers import State, Stepper

Model = tuple[Chain, Stepper, Mapping[str, Observable], int]

AHEAD = 2  # groups for each thread of the workers: one is computed while another one is stored
MOST_GROUPS = 256  # each holds a block in memory here


def require_client(client: Any) -> None:
    """Refuse what cannot take work to workers."""
    able = all(callable(getattr(client, name, None)) for name in ("submit", "nthreads"))
    if not able or getattr(client, "asynchronous", False):
        said = "client must be a distributed.Client, and not asynchronous"
        raise TypeError(f"{said}, got {client!r:.80}")
    if not client.nthreads():
        raise ValueError("the client's scheduler has no workers: start some with `dask worker`")


def edges(replicas: int, workers: int, client: Any) -> list[int]:
    """Divide replicas into groups of whole lanes; the last one may have fewer."""
    places = sum(max(1, threads // workers) for threads in client.nthreads().values())
    eights = -(-replicas // LANES)
    groups = min(eights, AHEAD * places, MOST_GROUPS)
    return [min(replicas, LANES * (eights * k // groups)) for k in range(groups + 1)]


def run(model: Model, target: Recorder, client: Any, watch: loop.Watch) -> None:
    """Advance all groups, each of which may be a block ahead, to the end or until Ctrl-C."""
    (interrupted, bar), steps = watch, target.about["steps"]
    about = {key: target.about[key] for key in ("steps", "every", "block")}
    about |= {"versions": provenance.versions()}
    starts = edges(target.about["replicas"], model[-1], client)
    at = [(target.frames, _part(target.state, a, b)) for a, b in pairwise(starts)]
    done: list[deque[Block]] = [deque() for _ in at]  # blocks that others have yet to come to
    futures: dict[int, Any] = {}
    ready: SimpleQueue[int] = SimpleQueue()

    def send(number: int) -> None:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a state is what it is
            futures[number] = client.submit(_block, model, about, *at[number], pure=False)
        futures[number].add_done_callback(lambda _: ready.put(number))

    try:
        for number in range(len(at)):
            send(number)
        while futures:
            number = ready.get()
            with _renumbered(starts[number]):
                block = futures.pop(number).result()
            done[number].append(block)
            at[number] = at[number][0] + block.frames, block.state
            complete = all(done)
            if complete:
                rows, states = zip(*(blocks.popleft()[:2] for blocks in done), strict=True)
                if rows[0]:
                    target.record({k: np.concatenate([r[k] for r in rows], 1) for k in rows[0]})
                state = _joined(states)
                bar(int(state["step"]) - target.step)
                target.commit(int(state["step"]), state)
            for k in range(len(at)) if complete else (number,):
                waits = k in futures or len(done[k]) > 1 or interrupted()
                if not waits and at[k][1]["step"] < steps:
                    send(k)
    finally:
        for future in futures.values():
            future.cancel()


def _part(state: Arrays, start: int, stop: int) -> Arrays:
    return {name: array[start:stop] if array.ndim else array for name, array in state.items()}


def _joined(states: Sequence[Arrays]) -> Arrays:
    return {
        name: np.concatenate([state[name] for state in states]) if array.ndim else array
        for name, array in states[0].items()
    }


@contextlib.contextmanager
def _renumbered(first: int) -> Iterator[None]:
    """Have an error of a group name its replica by the number that it has in the whole run."""
    try:
        yield
    except CancelledError as error:
        text = f"the scheduler or its client has dropped the run ({error})"
        raise ConnectionError(text) from error
    except Exception as error:
        if error.args and isinstance(error.args[0], str):
            text = re.sub(
                r"\breplica (\d+)", lambda m: f"replica {first + int(m[1])}", error.args[0]
            )
            error.args = (text, *error.args[1:])
        if isinstance(getattr(error, "replica", None), int):
            error.replica += first  # type: ignore[attr-defined]
        raise


_first = lru_cache(maxsize=8)(lambda chain: chain)  # of equal chains, which has its layout already


class Block(NamedTuple):
    """Frames of a block of a group, the state behind it, and how many frames it has."""

    rows: Arrays
    state: Arrays
    frames: int


def _block(model: Model, about: dict[str, Any], frames: int, state: Arrays) -> Block:
    other = provenance.differing(provenance.versions(), about["versions"])
    if other:
        raise RuntimeError(f"a worker has other versions, {', '.join(other)}, so other bits")
    target = Recorder(about, state, Block, frames, about["block"]["frames"])
    mover, start = Replicas(*model, State.from_arrays(state)), target.step

    def committed() -> bool:
        return target.step > start or (target.frames > frames and not target.pending)

    loop.run(mover._replace(chain=_first(model[0])), target, (committed, lambda ahead: None))
    return Block(target.rows, target.state, target.frames - frames)
