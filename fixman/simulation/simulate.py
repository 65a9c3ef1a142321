"""`simulate` and `resume`: one loop around a stepper, which records frames and can be continued.

The loop stops the stepper at steps that follow from the arguments alone, never from a clock: at
every frame, and in between where a frame takes long.  So a run is the same bit for bit, however
often it is interrupted, wherever it is stored, and by however many workers it is computed.
"""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays as _arrays
from fixman.chains.chain import Chain, require_chain
from fixman.errors import RunFolderError, RunVersionWarning
from fixman.potentials.binding import warn_of_temperature
from fixman.simulation import loop, provenance, recording, spread, writer
from fixman.simulation.recording import Observable, Observables
from fixman.simulation.trajectory import Memory, Run
from fixman.simulation.writer import Writer

if TYPE_CHECKING:
    from fixman.simulation.steppers import State, Stepper

__all__ = ["resume", "simulate"]

# A block ends at the first of these: memory, and work that takes a few seconds.
BLOCK_BYTES = 1 << 23
BLOCK_WORK = 50_000_000  # beads times steps
SLOW = 1000  # how much more a potential of the user's own may cost, in Python
CALL_WORK = 300  # cost of one call of a stepper besides
FRAMES = 1000  # about as many by default
MOST_FRAMES = 10_000
FEW = 0.05  # accepted moves, below which there is a warning
_STEPPER = ("parameters", "start", "advance")  # methods that a stepper has


def simulate(
    chain: Chain,
    x0: ArrayLike,
    stepper: Stepper,
    steps: int,
    *,
    every: int | None = None,
    v0: ArrayLike | None = None,
    replicas: int | None = None,
    workers: int = 1,
    rng: int | np.random.Generator | None = None,
    out: str | os.PathLike[str] | None = None,
    observables: Observables = (),
    progress: bool | None = None,
    overwrite: bool = False,
    client: Any = None,
) -> Run:
    """Run independent replicas of a chain, and record frames at step 0 and every ``every`` steps.

    Parameters
    ----------
    chain : Chain
    x0 : (n, d), or (replicas, n, d)
        Hard coordinates keep the values that they have here.
    stepper : fixman.Newton, fixman.Langevin or another
    steps : int
        A multiple of ``every``.
    every : int, optional
        Steps from frame to frame; by default a divisor of ``steps`` for about 1000 frames.
    v0 : as x0, optional
        Velocities; by default the stepper's choice, drawn for its temperature.
    replicas : int, optional
        By default as many as x0 has.
    workers : int
        Threads.  The results do not depend on it.
    rng : int or numpy.random.Generator, optional
        Every replica has a stream of its own.
    out : str or os.PathLike, optional
        File to be made for the run; without one it stays in memory.
    observables : functions, or mapping of names to functions, optional
        Evaluated at every frame: f(chain, x) or f(chain, v), by the name of its second parameter,
        of read-only (replicas, n, d), gives (replicas, ...).  `fixman.observables` has many.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal that tqdm can use.
    overwrite : bool
        Whether a run that is at ``out`` gives way.
    client : distributed.Client, optional
        Has workers on other machines compute the run, in groups of replicas; ``workers`` are
        threads for each of these then.  The file and its bits are the same.

    Returns
    -------
    Run
        Ctrl-C ends it early, at the end of a block (seconds): then ``finished`` is False.  A
        second Ctrl-C is a KeyboardInterrupt.

    Raises
    ------
    FileExistsError
        If there is something at ``out``.
    MemoryError
        If this machine cannot hold the replicas.
    RunStorageError
        If the disk is full, or the file was moved or removed while the run was going on.  The
        frames until then stay, to be resumed.
    ConstraintSolveError
        If a step has no solution, naming replica and step: beads overlap, or ``dt`` is too large.
        After this and any other error of a step, a potential or an observable, the frames before
        it are at ``out``, to be resumed, or in the ``run`` of the error without ``out``.  If it
        is the first step, there is no file.
    SingularConstraintError
        If the hard coordinates cannot be held in x0: a straight hard angle in space.
    ConnectionError
        If the scheduler of the client is lost.  The file keeps its frames, to be resumed.

    Warns
    -----
    RuntimeWarning
        If ``dt`` is so long that averages suffer: dt √(kT/m) above 0.15 of the shortest bond, or,
        of steppers that refuse moves, that hardly any was accepted.  With forces of OpenMM, if kT
        is 1 kJ/mol, the default, or above 50, as temperatures in kelvin are.
    """
    require_chain(chain)
    if x0 is None:
        raise TypeError(
            "x0 must be positions (n, d) or (replicas, n, d), got None: fixman.random_walks(chain) "
            "draws some"
        )
    require_stepper(stepper)
    overwrite = _arrays.flag(overwrite, "overwrite")
    steps = _arrays.positive_int(steps, "steps")
    every = _every(steps) if every is None else _arrays.positive_int(every, "every")
    _require_whole(steps, every)
    running = _running(workers, progress, client)
    replicas = _replicas(replicas, x0=x0, v0=v0)
    frames = 1 if out is not None else steps // every + 1  # that memory holds
    held = f"{frames} frame{'s' * (frames > 1)} of {replicas} replica{'s' * (replicas > 1)}"
    needed = 16 * frames * replicas * chain.n * chain.dim
    _arrays.require_memory(needed, f"{held} of {chain.n} beads")
    recorded = recording.named(observables)
    if out is not None:
        out = _arrays.path(out, "out")
        writer.require_free(out, overwrite)
    groups = [replicas] if client is None else spread.sizes(replicas, running)
    generator, seed = _generator(rng)
    warn_of_temperature(getattr(stepper, "potential", None), getattr(stepper, "kT", None))
    state = stepper.start(chain, x0, v0, replicas, generator)
    about = provenance.plain(
        {
            "fixman_run": provenance.FORMAT,
            "stepper": stepper.parameters(),
            "steps": steps,
            "every": every,
            "replicas": len(state.x),
            "groups": groups,
            "rng": seed,
            "observables": {name: recording.home(f) for name, f in recorded.items()},
            "block": _block(chain, max(groups), every, stepper),
            "versions": provenance.versions(),
            "history": [],
            "chain": json.loads(chain.to_json()),
        }
    )
    start = about, chain, state.arrays()
    with contextlib.closing(
        Memory(*start) if out is None else writer.create(out, *start, overwrite=overwrite)
    ) as target:
        try:
            _go_on(stepper, state, target, recorded, running)
        except Exception as error:
            begun = any(sink.step for sink in target.sinks) or isinstance(error, OSError)
            if isinstance(target, Writer) and not begun:  # no step of it has a solution
                target.discard()
            raise
        return _looked_at(target.run())


def resume(
    path: str | os.PathLike[str],
    steps: int | None = None,
    *,
    stepper: Stepper | None = None,
    observables: Observables = (),
    workers: int = 1,
    progress: bool | None = None,
    client: Any = None,
) -> Run:
    """Go on with a run from its last block, bit for bit as if nothing had happened.

    Parameters
    ----------
    path : str or os.PathLike
        File of a run that was interrupted, killed, or finished.
    steps : int, optional
        New total number of steps, to extend or to shorten the run; a multiple of ``every``.
    stepper : optional
        Needed, the same as before, if it holds functions or objects of your own.
    observables : functions, or mapping of names to functions, optional
        Needed, the same as before, if some are not from `fixman.observables`.
    workers, progress, client
        As for `simulate`; they may differ from before.  A run that was begun without a client is
        one group, which workers compute in one place.

    Returns
    -------
    Run
        All frames, those from before included.

    Raises
    ------
    RunFolderError
        If the file is no run, or another process is writing to it, or it is damaged: all of it
        is read, to see.  If only the checkpoint or the last block is damaged, the run goes on
        from the checkpoint before, with the same bits.
    RunStorageError, ConstraintSolveError
        As `simulate`.

    Warns
    -----
    RunDamageWarning
        If the checkpoint or the last block is damaged, and what it held is computed again.
    RunVersionWarning
        If fixman, NumPy, SciPy or numba are not those of before: the last bits may differ.
    """
    running = _running(workers, progress, client)
    path = _arrays.path(path, "path")
    if stepper is not None:
        require_stepper(stepper)
    steps = None if steps is None else _arrays.positive_int(steps, "steps")
    recording.named(observables)
    with contextlib.closing(writer.reopen(path)) as target:
        about, every = target.about, target.about["every"]
        total = about["steps"] if steps is None else steps
        _require_whole(total, every)
        done = max(sink.step for sink in target.sinks)
        if total < done:
            raise ValueError(f"{path} is at step {done} already, beyond {total}")
        if total == about["steps"] and all(s.frames * every > total for s in target.sinks):
            return target.run()
        stepper = _same_stepper(path, about["stepper"], stepper)
        recorded = recording.found_again(about["observables"], observables)
        _note_changes(target, total)
        _go_on(stepper, None, target, recorded, running)
        return _looked_at(target.run())


def _looked_at(run: Run) -> Run:
    """Warn of a run whose frames repeat, since its moves were refused."""
    share = float(run.acceptance.mean())
    if share < FEW and run.steps_done:
        dt = run.about["stepper"].get("dt")
        advice = "these moves are too wide for this start" if dt is None else f"dt={dt:g} is long"
        warnings.warn(
            f"only {share:.2%} of the moves were accepted, so that frames repeat: {advice}",
            RuntimeWarning,
            stacklevel=3,  # who called simulate
        )
    return run


def _go_on(
    stepper: Stepper,
    state: State | None,
    target: Memory | Writer,
    observables: Mapping[str, Observable],
    running: loop.Running,
) -> None:
    """Advance the groups of a run to the end or until Ctrl-C; errors say what is kept."""
    from fixman.simulation.steppers import State

    sinks, steps = target.sinks, target.about["steps"]
    try:
        if running.client is not None:
            spread.run(stepper, sinks, observables, running)
        else:
            done = sum(sink.step for sink in sinks)
            with loop.watched(running.progress, steps * len(sinks), done) as watch:
                for number, sink in enumerate(sinks):
                    with spread.renumbered(sinks, number):
                        if not watch[0]():
                            one = state or State.from_arrays(sink.state)
                            loop.run(stepper, one, sink, observables, running.workers, watch)
        target.finish()
    except Exception as error:
        with contextlib.suppress(OSError):
            target.finish()
        run = target.run()
        if target.path is None:
            error.run = run  # type: ignore[attr-defined]
        if any(sink.step for sink in sinks):
            where = "its attribute run" if target.path is None else target.path
            error.add_note(f"{where} holds the run up to step {run.steps_done}")
        raise


# --- arguments ----------------------------------------------------------------------------------


def require_stepper(stepper: Any) -> None:
    """Refuse what cannot be run, a class that wants its arguments first of all."""
    text = "stepper must be fixman.Langevin(dt), fixman.Newton(dt) or another stepper"
    if isinstance(stepper, type):
        name = stepper.__name__
        raise TypeError(f"{text}, got the class {name}: make one, {name}(dt)")
    if not all(callable(getattr(stepper, name, None)) for name in _STEPPER):
        raise TypeError(f"{text}, got {stepper!r:.80}")


def _running(workers: Any, progress: Any, client: Any) -> loop.Running:
    workers = _arrays.positive_int(workers, "workers")
    if progress is not None:
        progress = _arrays.flag(progress, "progress")
    if client is not None:
        spread.require_client(client)
    return loop.Running(workers, progress, client)


def _every(steps: int) -> int:
    """Divide ``steps`` into about `FRAMES`."""
    divisors = {d for k in range(1, MOST_FRAMES + 1) if steps % k == 0 for d in (k, steps // k)}
    every = max(d for d in divisors if d <= max(1, steps // FRAMES))
    if steps // every > MOST_FRAMES:
        raise ValueError(f"steps={steps} has no suitable divisor: say every how many to record")
    return every


def _require_whole(steps: int, every: int) -> None:
    if steps % every:
        near = max(every, round(steps / every) * every)
        raise ValueError(
            f"steps must be a multiple of every, so that a run can be extended: got {steps} and "
            f"{every}; {near} is one"
        )


def _replicas(replicas: int | None, **given: ArrayLike | None) -> int:
    """Return what was asked for, or the leading axis of x0 or v0."""
    if replicas is not None:
        return _arrays.positive_int(replicas, "replicas")
    shapes = [_arrays.taken(value, name).shape for name, value in given.items()]
    return max((int(shape[0]) for shape in shapes if len(shape) == 3), default=1)


def _block(chain: Chain, replicas: int, every: int, stepper: Stepper) -> dict[str, int]:
    """Frames of a block, and the most steps between two checkpoints."""
    beads = replicas * chain.n
    own = _holds_own(stepper.parameters().get("potential"))
    work = BLOCK_WORK // SLOW if own else BLOCK_WORK
    if hasattr(stepper, "passes"):
        work //= stepper.passes(chain)
    by_bytes = BLOCK_BYTES // (16 * beads * chain.dim)
    by_work = work // (every * beads + CALL_WORK)
    stride = min(every, max(1, work // beads))
    return {"frames": max(1, min(by_bytes, by_work)), "steps": stride}


def _holds_own(described: Any) -> bool:
    """Whether parameters describe something that is the user's own, and may be slow."""
    if isinstance(described, dict):
        return bool(described.get("own")) or any(map(_holds_own, described.values()))
    return isinstance(described, list) and any(map(_holds_own, described))


def _generator(rng: Any) -> tuple[np.random.Generator, dict[str, Any]]:
    """Return a generator, and what the run says of it."""
    if isinstance(rng, np.random.Generator):
        bits = rng.bit_generator
        seeds = getattr(bits, "seed_seq", None)
        spawned = {
            key: getattr(seeds, key, None) for key in ("entropy", "spawn_key", "n_children_spawned")
        }
        return rng, {"state": bits.state, **spawned}
    generator = _arrays.generator(rng)
    made: Any = generator.bit_generator.seed_seq
    return generator, {"seed": made.entropy}


# --- what must be as before ---------------------------------------------------------------------


def _same_stepper(
    path: str | os.PathLike[str], parameters: dict[str, Any], stepper: Stepper | None
) -> Stepper:
    from fixman.simulation import steppers

    if stepper is None:
        try:
            return steppers.from_parameters(parameters)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            if parameters["name"] in steppers.KINDS and not _holds_own(parameters):
                raise RunFolderError(f"{os.fspath(path)} is damaged: stepper: {error!r}") from None
            raise ValueError(
                f"{error}; a file cannot hold it: resume from Python, fixman.resume(…, "
                "stepper=…), with the stepper of before"
            ) from None
    given = provenance.plain(stepper.parameters())
    if given != parameters:
        keys = sorted(set(given) | set(parameters))
        changed = [
            f"{key}={given.get(key)!r} instead of {parameters.get(key)!r}"
            for key in keys
            if given.get(key) != parameters.get(key)
        ]
        raise ValueError(f"the stepper is not that of the run: {', '.join(changed)}")
    return stepper


def _note_changes(target: Writer, steps: int) -> None:
    """Write into the file what differs from now on; warn of other versions."""
    history = target.about["history"]
    before = (history[-1] if history else target.about)["versions"]
    now = provenance.versions()
    changed = [
        f"{name} {before.get(name)} → {now[name]}"
        for name in provenance.DECISIVE
        if before.get(name) != now[name]
    ]
    if changed:
        warnings.warn(
            f"{target.path} goes on with other versions, {', '.join(changed)}: not necessarily "
            "the same bits as without the interruption",
            RunVersionWarning,
            stacklevel=3,
        )
    if changed or steps != target.about["steps"]:
        step = min(sink.step for sink in target.sinks)
        entry = {"step": step, "steps": steps, "versions": now}
        target.change(steps=steps, history=[*history, entry])
