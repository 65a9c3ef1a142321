"""Reading run folders: whole ones, ones that are being written, and damaged ones.

A folder is read from its newest checkpoint that is whole, together with the last block that it
counts; otherwise from the one before; and if both are damaged, the frames are read from the blocks
themselves, but the run cannot go on.  `writer` writes, `runfiles` says what.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fixman._common import arrays as _arrays
from fixman.chains.chain import Chain
from fixman.errors import (
    Advice,
    RunDamageWarning,
    RunFolderError,
    RunStorageError,
    RunVersionWarning,
)
from fixman.simulation.groups import group_folder, require_group
from fixman.simulation.places import TEMPORARY, Place
from fixman.simulation.runfiles import (
    BLOCK,
    CHECKPOINT,
    PREVIOUS,
    Checkpoint,
    Span,
    block_name,
    read_about,
    read_block,
    read_checkpoint,
    read_steps,
)
from fixman.simulation.trajectory import Part, Run, joined

__all__ = [
    "RunCheck",
    "RunDamageWarning",
    "RunFolderError",
    "RunStorageError",
    "RunVersionWarning",
    "check_run",
    "load_run",
]

READS = 3  # of a folder that another process changes in the meantime


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read a run folder, finished or not; one that is being written to as well.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    RunFolderError
        If it is not a run, or nothing of it can be read.  Frames that are asked for later raise
        it as well if their block is damaged; the others can be read.

    Warns
    -----
    RunDamageWarning
        If the checkpoint or the last block is damaged, and what was whole before is read.

    Notes
    -----
    Reads run.json, the checkpoint and the last block; frames are read when they are asked for.
    """
    path = _arrays.path(path, "path")
    about = read_about(Place(path), path)[0]
    groups = range(len(about.get("groups", ())))
    folders = [_open_group(path, about, k) for k in groups] or [Folder.open(path)]
    for folder in folders:
        if folder.damage:
            warnings.warn(folder.damage, RunDamageWarning, stacklevel=2)
    runs = [folder.run() for folder in folders]
    return joined(about, runs, path) if groups else runs[0]


def _open_group(path: Path, about: dict[str, Any], number: int) -> Folder:
    """Open the folder of a group, which has to belong to the run."""
    folder = Folder.open(group_folder(path, about, number))
    require_group(folder.about, about, folder.path)
    return folder


@dataclass(frozen=True)
class RunCheck:
    """What `check_run` found.

    Attributes
    ----------
    folder : Path
    frames : int
        Frames that the run has, or had.
    readable : tuple of range
        Numbers of the frames that can be read, in pieces.
    problems : tuple of str
        What is wrong, a line for every file.
    resumable : bool
        Whether `fixman.resume` can go on with it.
    """

    folder: Path
    frames: int
    readable: tuple[range, ...]
    problems: tuple[str, ...]
    resumable: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.whole:
            return f"{self.folder} is whole: {self.frames} frame{'s' * (self.frames != 1)}"
        pieces = ", ".join(f"{piece.start} to {piece.stop - 1}" for piece in self.readable)
        goes = "can be resumed" if self.resumable else "cannot be resumed"
        return "\n".join(
            [*self.problems, f"frames that can be read: {pieces or 'none'}; it {goes}"]
        )


def check_run(path: str | os.PathLike[str]) -> RunCheck:
    """Read every file of a run folder, and say what is damaged.

    Nothing is changed.  Costs one reading of the folder.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    """
    path = _arrays.path(path, "path")
    try:
        about = read_about(Place(path), path)[0]
        if "groups" not in about:
            return _check(path, Folder.open(path))
    except RunFolderError as error:
        return RunCheck(path, 0, (), (str(error),), False)
    checks = []
    for number in range(len(about["groups"])):
        try:
            checks.append(_check(path, _open_group(path, about, number)))
        except RunFolderError as error:
            checks.append(RunCheck(path, 0, (), (str(error),), False))
    return RunCheck(
        path,
        min(check.frames for check in checks),
        reduce(_in_both, (check.readable for check in checks)),
        tuple(problem for check in checks for problem in check.problems),
        all(check.resumable for check in checks),
    )


def _in_both(one: tuple[range, ...], two: tuple[range, ...]) -> tuple[range, ...]:
    common = (range(max(a.start, b.start), min(a.stop, b.stop)) for a in one for b in two)
    return tuple(piece for piece in common if piece)


def _check(path: Path, folder: Folder) -> RunCheck:
    problems = list(folder.problems)
    if folder.chosen == CHECKPOINT and PREVIOUS in folder.place.names() and not folder.lost:
        try:
            read_checkpoint(folder.place, PREVIOUS, folder.about, folder.chain)
        except RunFolderError as error:
            problems.append(str(error))
    readable: list[range] = []
    for span in folder.spans:
        try:
            folder.read(span)
        except RunFolderError as error:
            problems += [str(error)] if str(error) not in problems else []
            continue
        ahead = range(span.first, span.first + span.count)
        if readable and readable[-1].stop == ahead.start:
            readable[-1] = range(readable[-1].start, ahead.stop)
        else:
            readable.append(ahead)
    end = folder.spans[-1].first + folder.spans[-1].count if folder.spans else folder.first
    kept = sum(map(len, readable)) == sum(span.count for span in folder.spans)
    return RunCheck(path, end, tuple(readable), tuple(problems), kept and not folder.lost)


class Folder:
    """A run folder as it was when it was opened.

    Attributes: path, about (run.json), chain, place; point, the checkpoint that was chosen,
    without a state if all are damaged; spans, the frames of every block; problems, what is damaged
    of checkpoints and the last block, one text each, and damage, the warning that is due.
    """

    def __init__(
        self, path: Path, place: Place, about: dict[str, Any], chain: Chain, point: Checkpoint
    ) -> None:
        self.path, self.place, self.about, self.chain = path, place, about, chain
        self.point = point
        self.first = point.first
        self.spans = _spans(point)
        self.problems: list[str] = []
        self.damage = ""
        self.lost = False  # whether no checkpoint is left to go on from
        self.chosen = CHECKPOINT

    @classmethod
    def open(cls, path: str | os.PathLike[str], place: Place | None = None) -> Folder:
        """Read run.json, and choose the newest checkpoint that is whole with its last block."""
        path = Path(path)
        place = place or Place(path)
        for left in reversed(range(READS)):
            about, chain = read_about(place, path)
            try:
                folder = cls._choose(path, place, about, chain)
            except RunFolderError:
                if left and read_about(place, path)[0] != about:
                    continue
                raise
            if not folder.problems or not left:
                break
        return folder

    @classmethod
    def _choose(cls, path: Path, place: Place, about: dict[str, Any], chain: Chain) -> Folder:
        problems: list[str] = []
        found: list[Folder] = []
        for name in (CHECKPOINT, PREVIOUS):
            try:
                point = read_checkpoint(place, name, about, chain)
            except RunFolderError as error:
                problems += [str(error)] if name == CHECKPOINT or name in place.names() else []
                continue
            folder = cls(path, place, about, chain, point)
            folder.chosen = name
            found.append(folder)
            try:
                folder._see_end()
            except RunFolderError as error:
                problems += [str(error)] if str(error) not in problems else []
                continue
            if name == PREVIOUS and _between(place):
                problems = []  # another process, or one that was killed, was about to rename
            return folder._note(problems)
        if found:  # the blocks that end both are damaged: their frames alone are lost
            folder = found[0]
            folder.lost = True
            return folder._note(problems)
        return cls._from_blocks(path, place, about, chain, problems)

    @classmethod
    def _from_blocks(
        cls, path: Path, place: Place, about: dict[str, Any], chain: Chain, problems: list[str]
    ) -> Folder:
        """Without a checkpoint: blocks say themselves which frames they hold."""
        spans: list[Span] = []
        for name in place.names():
            match = BLOCK.fullmatch(name)
            if not match:
                continue
            try:
                span = read_steps(place, int(match[1]), about, chain)
            except RunFolderError as error:
                problems.append(str(error))
                continue
            end = spans[-1].first + spans[-1].count if spans else span.first
            if span.first > end:  # a damaged block in between: its frames keep their numbers
                spans.append(Span(spans[-1].number + 1, end, span.first - end))
            if span.first >= end:
                spans.append(span)
        if not spans:
            raise RunFolderError(problems[0])
        done = (spans[-1].first + spans[-1].count - 1) * about["every"]
        folder = cls(path, place, about, chain, Checkpoint(done, [], spans[0].first, {}))
        folder.spans, folder.lost = spans, True
        return folder._note(problems)

    def _note(self, problems: list[str]) -> Folder:
        self.problems = problems
        if problems:
            on = "it cannot be resumed" if self.lost else "fixman.resume computes the rest again"
            self.damage = (
                f"{'; '.join(problems)}. {self.path} is read up to step {self.point.step}; {on}"
            )
        return self

    def _see_end(self) -> None:
        """See that the last block is whole, and ends with the state if the state is a frame."""
        if not self.spans:
            return
        arrays = self.read(self.spans[-1])
        if self.point.step % self.about["every"]:
            return
        for name in ("x", "v"):
            if arrays[name][-1].tobytes() != self.point.state[name].tobytes():
                raise RunFolderError(
                    f"{self.place.path / block_name(self.spans[-1].number)} is damaged, or "
                    f"{self.chosen} is: {name} of the last frame is not that of the state"
                )

    def verify(self) -> None:
        """Read every block in whole; RunFolderError names the first that is damaged."""
        if self.lost:
            raise RunFolderError(f"{self.damage}: the frames are what fixman.load_run can read")
        for span in self.spans[:-1]:
            self.read(span)

    def read(self, span: Span, *wanted: str) -> dict[str, NDArray[Any]]:
        """Read a block; the error says which frames do not need it."""
        try:
            return read_block(self.place, span, self.about, self.chain, *wanted)
        except RunFolderError as error:
            end, total = span.first + span.count, self.spans[-1].first + self.spans[-1].count
            base = self.spans[0].first
            rest: list[Any] = []
            for a, b in ((base, span.first), (end, total)):
                if a < b:
                    start, stop = a - base, b - base
                    rest += [" and ", (f"run[{start}:{stop}]", "run", slice(start, stop))]
            if not rest:
                raise
            raise RunFolderError(
                Advice(f"{error}; the frames of ", *rest[1:], " can be read without it")
            ) from None

    def run(self) -> Run:
        """Return what the blocks hold; nothing is read yet."""
        parts = [Part(span.count, partial(self._load, span)) for span in self.spans]
        total = sum(span.count for span in self.spans)
        numbers = range(self.first, self.first + total)
        return Run(self.about, self.chain, self.point.step, parts, self.path, numbers=numbers)

    def _load(self, span: Span, name: str) -> NDArray[Any]:
        return self.read(span, name)[name]


def _between(place: Place) -> bool:
    """Whether a checkpoint has just become the previous one, and its successor waits."""
    names = place.names()
    return CHECKPOINT not in names and CHECKPOINT + TEMPORARY in names


def _spans(point: Checkpoint) -> list[Span]:
    spans, first = [], point.first
    for number, count in enumerate(point.counts):
        spans.append(Span(number, first, count))
        first += count
    return spans
