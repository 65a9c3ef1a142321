"""The loop around whatever moves: frames, checkpoints, Ctrl-C, progress.

It stops at steps that follow from what a run says of itself, never from a clock: at every frame,
or where a block ends, and in between where a frame takes long.  So a run is the same bit for bit,
however often it is interrupted and wherever it is stored.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fixman._common.arrays import flag
from fixman.runs.series import OBSERVABLE, Arrays, Make, Part

Interrupted = Callable[[], bool]
Watch = tuple[Interrupted, Callable[[int], Any]]  # and what takes the steps since its last call


class Mover(Protocol):
    """A state and how it moves; an error of these methods leaves the state as it was."""

    @property
    def step(self) -> int:
        """Steps done."""

    def advance(self, steps: int) -> Arrays:
        """Go on by so many steps, or some of them; return the frames on the way, but the last."""

    def frame(self) -> Arrays:
        """Return arrays (1, ...) of a frame, by the names that blocks have for them."""

    def arrays(self) -> Arrays:
        """Return what a checkpoint holds."""


class Recorder:
    """A run in memory: frames as they come.

    ``frames`` counts them, ``pending`` those since the last commit, which was at ``step`` with
    ``state``; ``rows`` holds the last ones, ``most`` at a time, or all.
    """

    path: Path | None = None

    def __init__(
        self, about: dict[str, Any], state: Arrays, make: Make, frames: int = 0, most: int = 0
    ) -> None:
        self.about, self.state, self.step, self.make = about, state, int(state["step"]), make
        self.frames = self._first = frames
        self.pending, self._most = 0, most
        self._rows: Arrays = {}
        self._like: Arrays = {}  # no frame, of the shape and type that all have

    def record(self, values: Arrays) -> None:
        """Keep some frames."""
        for name, value in values.items():
            like = self._like.setdefault(name, value[:0].copy())
            if like.shape[1:] != value.shape[1:]:
                said = f"{name.removeprefix(OBSERVABLE)} changes its shape in the course of the run"
                raise ValueError(f"{said}, from {like.shape[1:]} to {value.shape[1:]}")
        if not self._rows:
            left = self.about["steps"] // self.about["every"] + 1 - self.frames
            size = min(left, self._most or left)
            self._rows = {n: np.empty((size, *a.shape[1:]), a.dtype) for n, a in self._like.items()}
        at, count = self.frames - self._first, max(map(len, values.values()), default=0)
        for name, value in values.items():
            self._rows[name][at : at + count] = value
        self.frames += count
        self.pending += count

    def commit(self, step: int, state: Arrays) -> None:
        """Note how far the run is, and hand the frames on."""
        kept = {name: np.array(array) for name, array in state.items()}  # steppers may reuse theirs
        self._hand_over(step, kept)
        self.step, self.state, self.pending = step, kept, 0

    def _hand_over(self, step: int, state: Arrays) -> None:
        """Keep the rows."""

    @property
    def rows(self) -> Arrays:
        """Arrays of the frames that are held."""
        return {name: array[: self.frames - self._first] for name, array in self._rows.items()}

    def run(self) -> Any:
        """Return what was recorded until now."""
        parts = [Part(self.frames, self.rows.__getitem__)] if self.frames else []
        return self.make(self.about, self.step, parts)

    def finish(self) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """Nothing is held open."""


def run(mover: Mover, target: Recorder, watch: Watch) -> None:
    """Advance to the end, or to the end of a block if it is interrupted."""
    interrupted, bar = watch
    steps, every = target.about["steps"], target.about["every"]
    capacity, stride = target.about["block"]["frames"], target.about["block"]["steps"]
    saved = mover.step if target.frames * every > mover.step else -1
    while True:
        before = mover.step
        if before == target.frames * every:
            with _kept(target, mover):
                target.record(mover.frame())
        ends = before == steps or target.pending >= capacity or stride < every
        if ends and saved < before:
            target.commit(before, mover.arrays())
            saved = before
        if before == steps or (interrupted() and saved == before):
            return
        ahead = every - before % every
        if stride > ahead:  # frames on the way
            ahead += every * min((stride - ahead) // every, capacity - target.pending - 1)
        with _kept(target, mover):
            passed = mover.advance(min(stride, ahead, steps - before))
        if passed:
            target.record(passed)
        bar(mover.step - before)


@contextlib.contextmanager
def _kept(target: Recorder, mover: Mover) -> Iterator[None]:
    """Keep the frames before an error; it leaves the state as it was."""
    try:
        yield
    except Exception:
        if mover.step and (target.pending or target.step < mover.step):
            target.commit(mover.step, mover.arrays())
        raise


@contextlib.contextmanager
def keeping(target: Recorder, new: bool) -> Iterator[None]:
    """Have an error say where the frames before it are; a new file without any is removed."""
    try:
        yield
        target.finish()
    except Exception as error:
        with contextlib.suppress(OSError):
            target.finish()
        if target.path is None:
            error.run = target.run()  # type: ignore[attr-defined]
        elif new and not target.step and not isinstance(error, OSError):
            target.close()
            target.path.resolve().unlink(missing_ok=True)
        if target.step:
            where = "its attribute run" if target.path is None else target.path
            error.add_note(f"{where} holds the run up to step {target.run().steps_done}")
        raise


@contextlib.contextmanager
def watched(progress: bool | None, target: Recorder) -> Iterator[Watch]:
    """Count Ctrl-C instead of raising at once, and show a progress bar."""
    progress = None if progress is None else flag(progress, "progress")
    with _interrupts() as interrupted, _bar(progress, target) as bar:
        yield interrupted, bar


@contextlib.contextmanager
def _interrupts() -> Iterator[Interrupted]:
    """Count Ctrl-C; the second raises as ever."""
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
def _bar(progress: bool | None, target: Recorder) -> Iterator[Callable[[int], Any]]:
    tqdm: Any = None
    if sys.stderr.isatty() if progress is None else progress:
        try:
            tqdm = import_module("tqdm").tqdm
        except ImportError:
            if progress:
                raise ImportError("a progress bar needs tqdm: pip install tqdm") from None
    if tqdm is None:
        yield lambda ahead: None
        return
    options = {"unit": "step", "unit_scale": True, "smoothing": 0.1, "file": sys.stderr}
    with tqdm(total=target.about["steps"], initial=target.step, **options) as bar:
        yield bar.update
