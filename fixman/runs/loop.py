"""The loop around whatever moves: frames, checkpoints, Ctrl-C, progress.

It stops at steps that follow from what a run says of itself, never from a clock: at every frame,
or where a block ends, and in between where a frame takes long.  So a run is the same bit for bit,
however often it is interrupted and wherever it is stored.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fixman.runs.series import OBSERVABLE, Arrays, Part, Series, divided, side_by_side

if TYPE_CHECKING:
    from fixman.runs.runfile import Writer

Interrupted = Callable[[], bool]
Bar = Callable[[int, bool], None]  # takes the steps since the last call, and 'stopping'
Watch = tuple[Interrupted, Bar]
Flush = Callable[[int, Arrays, int, Arrays], None]


class Mover(Protocol):
    """A state and how it moves; an error of these methods leaves the state as it was."""

    @property
    def step(self) -> int:
        """Steps done."""

    def advance(self, steps: int) -> Arrays:
        """Go on by so many steps, or some of them; the frames on the way, without the last."""

    def frame(self) -> Arrays:
        """Return arrays (1, ...) of a frame, by the names that blocks have for them."""

    def arrays(self) -> Arrays:
        """Return what a checkpoint holds."""


# --- where frames come in -----------------------------------------------------------------------


class Sink:
    """Frames of a group of replicas as they come, until ``flush`` takes those of a block.

    Attributes: frames, recorded until now, ``pending`` of them since the last commit; step and
    state of that; rows, the arrays of the frames that are held.
    """

    def __init__(
        self, about: dict[str, Any], state: Arrays, frames: int = 0, flush: Flush | None = None
    ) -> None:
        self.about, self.state, self.step = about, state, int(state["step"])
        self.frames = self._first = frames
        self.pending, self._flush = 0, flush
        self._rows: Arrays = {}

    def record(self, values: Arrays) -> None:
        """Keep some frames."""
        if not self._rows:
            left = self.about["steps"] // self.about["every"] + 1 - self.frames
            size = left if self._flush is None else min(left, self.about["block"]["frames"])
            self._rows = {
                name: np.empty((size, *value.shape[1:]), value.dtype)
                for name, value in values.items()
            }
        at = self.frames - self._first
        count = 0
        for name, value in values.items():
            rows, count = self._rows[name], len(value)
            if value.shape[1:] != rows.shape[1:]:
                raise ValueError(
                    f"{name.removeprefix(OBSERVABLE)} changes its shape from {rows.shape[1:]} to "
                    f"{value.shape[1:]} in the course of the run"
                )
            rows[at : at + count] = value
        self.frames += count
        self.pending += count

    def commit(self, step: int, state: Arrays) -> None:
        """Note how far the run is, and hand the frames on."""
        kept = {name: np.array(array) for name, array in state.items()}  # steppers may reuse theirs
        if self._flush is not None:
            self._flush(self._first, self.rows, step, kept)
            self._rows, self._first = {}, self.frames
        self.step, self.state, self.pending = step, kept, 0

    @property
    def rows(self) -> Arrays:
        """Arrays of the frames that are held."""
        return {name: array[: self.frames - self._first] for name, array in self._rows.items()}


def _of_sinks(sinks: Sequence[Sink], frames: int, name: str) -> NDArray[Any]:
    return side_by_side([sink.rows[name][:frames] for sink in sinks])


class Memory:
    """A run that no file was given for; ``make`` makes a `Series` of what it has."""

    path = None

    def __init__(self, about: dict[str, Any], state: Arrays, make: Callable[..., Any]) -> None:
        self.about, self._make = about, make
        self.sinks = [Sink(about, one) for one in divided(state, about["groups"])]

    def run(self) -> Any:
        """Return what was recorded until now."""
        frames = min(sink.frames for sink in self.sinks)
        parts = [Part(frames, partial(_of_sinks, self.sinks, frames))] if frames else []
        done = min(sink.step for sink in self.sinks)
        return self._make(self.about, done, parts, stored=False)

    def finish(self) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """Nothing is held open."""


# --- the loop -----------------------------------------------------------------------------------


def run(mover: Mover, sink: Sink, watch: Watch) -> None:
    """Advance to the end, or to the end of a block if it is interrupted."""
    interrupted, bar = watch
    steps, every = sink.about["steps"], sink.about["every"]
    capacity, stride = sink.about["block"]["frames"], sink.about["block"]["steps"]
    saved = mover.step if sink.frames * every > mover.step else -1
    while True:
        before = mover.step
        if before == sink.frames * every:
            with _kept(sink, mover):
                sink.record(mover.frame())
        ends = before == steps or sink.pending >= capacity or stride < every
        if ends and saved < before:
            sink.commit(before, mover.arrays())
            saved = before
        if before == steps or (interrupted() and saved == before):
            return
        ahead = every - before % every
        if stride > ahead:  # frames on the way
            ahead += every * min((stride - ahead) // every, capacity - sink.pending - 1)
        with _kept(sink, mover):
            passed = mover.advance(min(stride, ahead))
        if passed:
            sink.record(passed)
        bar(mover.step - before, interrupted())


@contextlib.contextmanager
def _kept(sink: Sink, mover: Mover) -> Iterator[None]:
    """Keep the frames before an error; it leaves the state as it was."""
    try:
        yield
    except Exception:
        if mover.step and (sink.pending or sink.step < mover.step):
            sink.commit(mover.step, mover.arrays())
        raise


@contextlib.contextmanager
def keeping(target: Memory | Writer, new: bool) -> Iterator[None]:
    """Have an error say where the frames before it are; a new file without any is removed."""
    try:
        yield
        target.finish()
    except Exception as error:
        with contextlib.suppress(OSError):
            target.finish()
        begun = any(sink.step for sink in target.sinks)
        run: Series = target.run()
        if target.path is None:
            error.run = run  # type: ignore[attr-defined]
        elif new and not begun and not isinstance(error, OSError):
            target.discard()
        if begun:
            where = "its attribute run" if target.path is None else target.path
            error.add_note(f"{where} holds the run up to step {run.steps_done}")
        raise


@contextlib.contextmanager
def watched(progress: bool | None, target: Memory | Writer) -> Iterator[Watch]:
    """Count Ctrl-C instead of raising at once, and show a progress bar."""
    steps, done = target.about["steps"] * len(target.sinks), sum(s.step for s in target.sinks)
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
