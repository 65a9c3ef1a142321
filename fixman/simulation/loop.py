"""The loop around a stepper: frames, checkpoints, Ctrl-C, progress.

It stops the stepper at steps that follow from what a run says of itself, never from a clock.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from fixman.simulation import recording
from fixman.simulation.recording import Observable

if TYPE_CHECKING:
    from fixman.simulation.steppers import State, Stepper
    from fixman.simulation.trajectory import Sink


class Running(NamedTuple):
    """How a run is computed, of which its results do not depend."""

    workers: int
    progress: bool | None
    client: Any


Interrupted = Callable[[], bool]
Bar = Callable[[int, bool], None]  # takes the steps since the last call, and 'stopping'
Watch = tuple[Interrupted, Bar]


def run(
    stepper: Stepper,
    state: State,
    sink: Sink,
    observables: Mapping[str, Observable],
    workers: int,
    watch: Watch,
) -> None:
    """Advance to the end, or to the end of a block if it is interrupted."""
    interrupted, bar = watch
    chain, steps, every = sink.chain, sink.about["steps"], sink.about["every"]
    capacity, stride = sink.about["block"]["frames"], sink.about["block"]["steps"]
    saved = state.step if sink.frames * every > state.step else -1
    while True:
        if state.step == sink.frames * every:
            with _kept(sink, state):
                sink.record(recording.frame(chain, state, observables))
        ends = state.step == steps or sink.pending >= capacity or stride < every
        if ends and saved < state.step:
            sink.commit(state.step, state.arrays())
            saved = state.step
        if state.step == steps or (interrupted() and saved == state.step):
            return
        ahead = min(stride, every - state.step % every)
        with _kept(sink, state):
            stepper.advance(chain, state, ahead, workers)
        bar(ahead, interrupted())


@contextlib.contextmanager
def _kept(sink: Sink, state: State) -> Iterator[None]:
    """Keep the frames before an error; it leaves the state as it was."""
    try:
        yield
    except Exception:
        if state.step and (sink.pending or sink.step < state.step):
            sink.commit(state.step, state.arrays())
        raise


@contextlib.contextmanager
def watched(progress: bool | None, steps: int, done: int) -> Iterator[Watch]:
    """Count Ctrl-C instead of raising at once, and show a progress bar."""
    with _interrupts() as interrupted, _bar(progress, steps, done) as bar:
        yield interrupted, bar


@contextlib.contextmanager
def _interrupts() -> Iterator[Interrupted]:
    """Count Ctrl-C instead of raising at once; the second raises as ever."""
    asked = threading.Event()
    before = signal.getsignal(signal.SIGINT)
    ours = threading.current_thread() is threading.main_thread()
    if not ours or before in (None, signal.SIG_IGN, signal.SIG_DFL):
        yield asked.is_set
        return

    def handle(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _bar(progress: bool | None, steps: int, done: int) -> Iterator[Bar]:
    """Progress in steps with their rate and the time left: a function of steps and 'stopping'."""
    wanted = sys.stderr.isatty() if progress is None else progress
    if wanted:
        try:
            from tqdm import tqdm
        except ImportError:
            if progress:
                raise ImportError("a progress bar needs tqdm: pip install tqdm") from None
            wanted = False
    if not wanted:
        yield lambda ahead, stopping: None
        return
    with tqdm(
        total=steps, initial=done, unit="step", unit_scale=True, smoothing=0.1, file=sys.stderr
    ) as bar:

        def update(ahead: int, stopping: bool) -> None:
            bar.update(ahead)
            if stopping:
                bar.set_description_str("finishing the block")

        yield update
