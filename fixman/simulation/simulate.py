"""`simulate`, `resume` and `load_run`: runs of chains, and those of rigid bodies that go on."""

import contextlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays as _arrays
from fixman.chains.chain import Chain
from fixman.chains.system import System, require_model
from fixman.errors import RunFolderError
from fixman.kernels.algebra.random import WORDS
from fixman.potentials.binding import warn_of_temperature
from fixman.runs import about as provenance
from fixman.runs import loop, runfile
from fixman.runs.loop import Recorder
from fixman.runs.series import Make
from fixman.simulation import recording, spread, steppers
from fixman.simulation.recording import Observables
from fixman.simulation.steppers import State, Stepper
from fixman.simulation.steppers.stepper import SHORT
from fixman.simulation.trajectory import REFUSING, TALLY, Run, model_of, pdb_potential

# A block ends at the first of these: memory, and work that takes a few seconds.
BLOCK_BYTES = 1 << 23
BLOCK_WORK = 50_000_000  # beads times steps
SLOW = 1000  # how much more a potential of the user's own may cost, in Python
JOINT_WORK = 3000  # of a step that stops for forces between chains, besides
CALL_WORK = 300  # cost of one call of a stepper besides
FRAMES = 1000  # about as many by default
MOST_FRAMES = 10_000
FEW = 0.05  # accepted moves, below which there is a warning


def simulate(
    chain: Chain | System,
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
    chain : Chain or System
        In a system, n counts the beads of all chains, and beads of different chains interact.
    x0, v0 : (n, d), or (replicas, n, d)
        Hard coordinates keep the values that they have here.  By default the stepper draws v0.
    stepper : fixman.Newton, fixman.Langevin or another
    steps, every : int
        ``steps`` is a multiple of ``every``, which by default gives about 1000 frames.
    replicas, workers : int
        By default as many replicas as x0 has; threads, on which no result depends.
    out : str or os.PathLike, optional
        New file for the run; ``overwrite`` replaces an existing run.
    observables : functions, or mapping of names to functions, optional
        Evaluated at every frame: f(chain, x) or f(chain, v), as its second parameter is named,
        takes a read-only array (replicas, n, d) and returns (replicas, ...).
    progress : bool, optional
        Whether to show a bar; by default if stderr is a terminal that tqdm can use.
    client : distributed.Client, optional
        Workers on other machines compute groups of replicas, with the same bits.

    Returns
    -------
    Run
        Ctrl-C ends the run early, at the end of a block (seconds); ``finished`` is then False.

    Raises
    ------
    FileExistsError, RunStorageError, MemoryError, ConnectionError
        If ``out`` exists, the disk or memory is full, or the scheduler is lost.
    ConstraintSolveError, SingularConstraintError
        If a step has no solution.  ``out`` has the earlier frames, or the ``run`` of the error.
    """
    require_model(chain)
    require_stepper(stepper)
    steps = _arrays.positive_int(steps, "steps")
    every = _every(steps) if every is None else _arrays.positive_int(every, "every")
    provenance.require_whole(steps, every)
    workers = _workers(workers, progress, client)
    replicas = _replicas(replicas, x0=x0, v0=v0)
    held = 16 * replicas * chain.n * chain.dim * (1 if out is not None else steps // every + 1)
    _arrays.require_memory(held, f"the frames of {replicas} replicas of {chain.n} beads")
    recorded, out = recording.named(observables), runfile.free(out, overwrite)
    generator, seed = _generator(rng)
    warn_of_temperature(getattr(stepper, "potential", None), getattr(stepper, "kT", None))
    state = stepper.start(cast(Chain, chain), x0, v0, replicas, generator)
    about = provenance.begun(
        "chain",
        **{"system" if isinstance(chain, System) else "chain": json.loads(chain.to_json())},
        stepper=stepper.parameters(),
        replicas=replicas,
        arrays=recording.names(state, recorded),
        observables={name: recording.home(f) for name, f in recorded.items()},
    )
    about |= {"steps": steps, "every": every, "rng": seed}
    groups = 1 if client is None else len(spread.edges(replicas, workers, client)) - 1
    about["block"] = _block(chain, replicas, every, stepper, groups)
    target = runfile.begin(out, overwrite, about, state.arrays(), partial(Run, chain))
    with contextlib.closing(target), loop.keeping(target, new=True):
        _go_on(target, (cast(Chain, chain), stepper, recorded, workers), progress, client, state)
    return _looked_at(target.run())


def resume(
    path: str | os.PathLike[str],
    steps: int | None = None,
    *,
    stepper: Stepper | None = None,
    observables: Observables = (),
    tau: Any = None,
    workers: int = 1,
    progress: bool | None = None,
    client: Any = None,
) -> Run:
    """Resume a run from its last block, with the same bits as an uninterrupted run.

    Parameters
    ----------
    steps : int, optional
        New total number of steps, to extend or to shorten the run; a multiple of ``every``.
    stepper, observables, tau : optional
        Needed if they hold functions or objects of your own, and then the same as before; ``tau``
        are the forces of a run of rigid bodies.  A `Molecule` of OpenMM is made again.

    Returns
    -------
    Run, or fixman.rigid.motion.Trajectory
        All frames; other arguments are as for `simulate`, and may differ from before.

    Raises
    ------
    RunFolderError
        If the file is no run, is damaged (all of it is read to check), or another process writes to
        it.  Other errors are those of `simulate`.

    Warns
    -----
    RunDamageWarning
        If the checkpoint or the last block is damaged, and what it held is computed again.
    RunVersionWarning
        If fixman, NumPy, SciPy or numba are not those of before: the last bits may differ.
    """
    workers = _workers(workers, progress, client)
    path = _arrays.path(path, "path")
    if stepper is not None:
        require_stepper(stepper)
    steps = None if steps is None else _arrays.positive_int(steps, "steps")
    recording.named(observables)
    naming: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    with contextlib.closing(runfile.reopen(path, _maker)) as target:
        about, every = target.about, target.about["every"]
        total = about["steps"] if steps is None else steps
        provenance.require_whole(total, every)
        if total < target.step:
            raise ValueError(f"{path} is at step {target.step} already, beyond {total}")
        if total == about["steps"] and target.frames * every > total:
            return target.run()  # type: ignore[no-any-return]
        if (stepper if about["kind"] == "rigid" else tau) is not None:
            raise TypeError("stepper is for runs of chains, and tau for those of rigid bodies")
        if about["kind"] == "rigid":
            from fixman.rigid import motion

            go_on = partial(motion.go_on, target, tau, progress, motion.again(target, tau))
        else:
            chain = target.run().model
            if stepper is None and pdb_potential(about) is not None:
                stepper, observables, naming = _of_molecule(about, observables)
            stepper = _same_stepper(path, about["stepper"], stepper)
            _require_state(target, chain)
            recorded = recording.found_again(about["observables"], observables)
            go_on = partial(_go_on, target, (chain, stepper, recorded, workers), progress, client)
        changed = provenance.changes(about, total, target.step, path)
        if changed:
            target.change(**changed)
        with naming, loop.keeping(target, new=False):
            go_on()
        run = target.run()
        return _looked_at(run) if isinstance(run, Run) else run


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read the file of a run: finished, interrupted, or still being written.

    Returns
    -------
    Run, or fixman.rigid.motion.Trajectory
        Frames are read when they are asked for.

    Raises
    ------
    RunFolderError
        If the file is no run, or is damaged.  A damaged frame raises it when it is read; the other
        frames can be read.
    """
    return runfile.load(_arrays.path(path, "path"), _maker)  # type: ignore[no-any-return]


def _maker(about: Mapping[str, Any]) -> Make:
    if about["kind"] == "rigid":
        from fixman.rigid import motion

        return motion.maker(about)
    return partial(Run, model_of(about))


def _workers(workers: Any, progress: Any, client: Any) -> int:
    """Check how a run is computed, on which its results do not depend."""
    if progress is not None:
        _arrays.flag(progress, "progress")
    if client is not None:
        spread.require_client(client)
    return _arrays.positive_int(workers, "workers")


def _go_on(
    target: Recorder, model: spread.Model, progress: Any, client: Any, state: State | None = None
) -> None:
    with loop.watched(progress, target) as watch:
        if client is not None:
            spread.run(model, target, client, watch)
        else:
            state = state or State.from_arrays(target.state)
            loop.run(recording.Replicas(*model, state), target, watch)


def _looked_at(run: Run) -> Run:
    share = float(run.acceptance.mean())
    if share < FEW and run.steps_done:
        dt = run.about["stepper"].get("dt")
        advice = "these moves are too wide for this start" if dt is None else f"dt={dt:g} is long"
        text = f"only {share:.2%} of the moves were accepted, so frames repeat: {advice}"
        warnings.warn(text, RuntimeWarning, stacklevel=3)  # who called simulate
    return run


def require_stepper(stepper: Any) -> None:
    """Refuse what is no stepper, and the class of a stepper."""
    methods = (getattr(stepper, name, None) for name in ("parameters", "start", "advance"))
    if not all(map(callable, methods)) or isinstance(stepper, type):
        text = "stepper must be fixman.Langevin(dt), fixman.Newton(dt) or another stepper"
        raise TypeError(f"{text}, got {stepper!r:.80}")


def _every(steps: int) -> int:
    divisors = {d for k in range(1, MOST_FRAMES + 1) if steps % k == 0 for d in (k, steps // k)}
    every = max(d for d in divisors if d <= max(1, steps // FRAMES))
    if steps // every > MOST_FRAMES:
        raise ValueError(f"steps={steps} has no suitable divisor: give every, the steps per frame")
    return every


def _replicas(replicas: int | None, **given: ArrayLike | None) -> int:
    if replicas is not None:
        return _arrays.positive_int(replicas, "replicas")
    shapes = [_arrays.taken(value, name).shape for name, value in given.items()]
    return max((int(shape[0]) for shape in shapes if len(shape) == 3), default=1)


def _block(
    chain: Chain | System, replicas: int, every: int, stepper: Stepper, groups: int = 1
) -> dict[str, int]:
    """Frames of a block, and the most steps between two checkpoints."""
    beads = -(-replicas // groups) * (chain.n + JOINT_WORK * isinstance(chain, System))
    own = _holds_own(stepper.parameters().get("potential"))
    work = BLOCK_WORK // SLOW if own else BLOCK_WORK
    if hasattr(stepper, "passes"):
        work //= stepper.passes(chain)
    by_bytes = BLOCK_BYTES // (16 * replicas * chain.n * chain.dim)
    by_work = work // (every * beads + CALL_WORK)
    stride = min(every, max(1, work // beads))
    return {"frames": max(1, min(by_bytes, by_work)), "steps": stride}


def _holds_own(described: Any) -> bool:
    """Whether parameters describe something that is the user's own, and may be slow."""
    if isinstance(described, dict):
        return bool(described.get("own")) or any(map(_holds_own, described.values()))
    return isinstance(described, list) and any(map(_holds_own, described))


def _generator(rng: Any) -> tuple[np.random.Generator, dict[str, Any]]:
    generator = _arrays.generator(rng)
    bits: Any = generator.bit_generator
    if generator is not rng:
        return generator, {"seed": bits.seed_seq.entropy}
    words = "entropy", "spawn_key", "n_children_spawned"  # of which replicas have their streams
    return rng, {word: getattr(bits.seed_seq, word) for word in words}


def _same_stepper(path: Path, parameters: dict[str, Any], stepper: Stepper | None) -> Stepper:
    if stepper is None:
        try:
            return steppers.from_parameters(parameters)
        except runfile.UNREADABLE as error:
            if parameters["name"] in steppers.KINDS and not _holds_own(parameters):
                raise RunFolderError(f"{path} is damaged: stepper: {error!r}") from None
            rest = "resume from Python, fixman.resume(…, stepper=…), with the same stepper"
            raise ValueError(f"{error}; a file cannot hold it: {rest}") from None
    given = provenance.plain(stepper.parameters())
    if given != parameters:
        changed = [
            f"{key}={SHORT.repr(one)} instead of {SHORT.repr(other)}"
            for key, one, other in _different(given, parameters)
        ]
        raise ValueError(f"the stepper is not that of the run: {', '.join(changed)}")
    return stepper


def _different(given: Any, wanted: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield names and values in which two descriptions differ; of tables what differs in them."""
    for key in sorted(set(given) | set(wanted)):
        one, other = given.get(key), wanted.get(key)
        if one != other and isinstance(one, dict) and isinstance(other, dict):
            inner = list(_different(one, other))
            one, other = ({name: pair[side] for name, *pair in inner} for side in (0, 1))
        if one != other:
            yield key, one, other


def _of_molecule(
    about: dict[str, Any], given: Observables
) -> tuple[Stepper, Observables, contextlib.AbstractContextManager[None]]:
    """Return the stepper, the observables and the names of atoms of a run of a `Molecule`."""
    io = import_module("fixman.io.openmm.torsional")  # by its name: a room above this
    molecule = io.Molecule.of_run(about)
    found = molecule.observables()
    if found.keys() <= about["observables"].keys():  # others of such a name are the user's
        given = found | recording.named(given)
    return steppers.from_parameters(about["stepper"], molecule), given, io.naming(molecule.names)


def _require_state(target: Recorder, chain: Chain | System) -> None:
    """Refuse a checkpoint that is not of this chain: kernels trust their callers."""
    name, replicas = target.about["stepper"]["name"], target.about["replicas"]
    tails: dict[str, tuple[int, ...]] = dict.fromkeys("xv", (chain.n, chain.dim))
    if name in steppers.KINDS:
        kinds = chain.kinds if isinstance(chain, System) else ((chain, 1),)
        held = sum(one.hard.size * many for one, many in kinds)
        streams = (chain.chains, WORDS) if isinstance(chain, System) else (WORDS,)
        tails |= {"random": streams, "targets": (held,)}
        tails |= {TALLY: (3,)} if name in REFUSING else {}
    for key, tail in tails.items():
        found = target.state.get(key, np.empty(0)).shape
        if found != (replicas, *tail):
            said = f"{key} of step {target.step} has shape {found}, expected {(replicas, *tail)}"
            raise RunFolderError(f"{target.path} is damaged: {said}")
