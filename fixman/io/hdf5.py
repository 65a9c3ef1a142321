"""Runs to HDF5 and back without losing a bit, in the layout of H5MD (https://nongnu.org/h5md).

The one file that imports h5py.

    particles/chains/position    step, time, value (frames, replicas · n, 3), float64; planar: z = 0
    particles/chains/velocity    the same
    particles/chains/mass        (replicas · n,)
    connectivity/bonds           (bonds, 2), bead k of replica r is particle r·n + k
    observables/NAME             step, time, value (frames, replicas, ...)
    fixman                       what the run says of itself, and which of its frames these are
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman import __version__
from fixman._common import arrays
from fixman._common.files import new_file
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.runs.about import require_sound
from fixman.runs.series import OBSERVABLE, Part
from fixman.simulation.trajectory import Run, model_of, require_run

try:
    import h5py
except ImportError as error:
    raise ImportError('HDF5 files need h5py: pip install "fixman-chains[store]"') from error

__all__ = ["read_hdf5", "write_hdf5"]
__dir__ = __all__.copy  # completion shows public names alone

SPACE = 3  # dimension of every file
CHAINS = "particles/chains"
PLACES = {"x": f"{CHAINS}/position", "v": f"{CHAINS}/velocity"}


def write_hdf5(run: Run, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the frames of a run in float64, with all that the run says of itself.

    ``run[::10]`` has fewer frames.  FileExistsError if the file exists, unless ``overwrite``.
    """
    require_run(run)
    with new_file(path, overwrite) as temporary, h5py.File(temporary, "w") as file:
        _write_constants(file, run)
        names = ["x", "v", *(OBSERVABLE + name for name in run.about["observables"])]
        for name in names:
            group = file.create_group(_place(name))
            group["step"] = run.steps if name == "x" else file[f"{PLACES['x']}/step"]
            group["time"] = run.times if name == "x" else file[f"{PLACES['x']}/time"]
        first = 0
        for part in run.blocks():
            for name in names:
                rows = part.array(name)
                if name in PLACES:  # z = 0 in the plane: MDAnalysis reads three components only
                    rows = rows.reshape(len(part), -1, run.model.dim)
                    rows = np.pad(rows, ((0, 0), (0, 0), (0, SPACE - run.model.dim)))
                group = file[_place(name)]
                if "value" not in group:
                    group.create_dataset("value", (len(run), *rows.shape[1:]), rows.dtype)
                group["value"][first : first + len(part)] = rows
            first += len(part)


def read_hdf5(path: str | os.PathLike[str]) -> Run:
    """Read what `write_hdf5` wrote; frames only when they are asked for.

    ValueError if the file is something else, or its arrays are not those of the run that it names.
    """
    path = arrays.path(path, "path").absolute()
    try:
        with h5py.File(path, "r") as file:
            about = json.loads(_shaped(file["fixman/run"], ()).asstr()[()])
            numbers = range(*_shaped(file["fixman/frames"], (3,))[()].tolist())
            steps_done = int(_shaped(file["fixman/steps_done"], ())[()])
            require_sound(about)
            model = model_of(about)
            _require_frames(file, about, model, numbers)
        size, replicas = int(about["block"]["frames"]), int(about["replicas"])
        cuts = [range(a, min(a + size, len(numbers))) for a in range(0, len(numbers), size)]
    except FileNotFoundError:
        raise FileNotFoundError(f"no such file: {path}") from None
    except Exception as error:  # whatever another file makes of its reader
        raise ValueError(f"{path} was not written by write_hdf5: {error}") from None
    shape = (replicas, model.n, model.dim)
    parts = [Part(len(cut), partial(_load, path, cut.start, cut.stop, shape)) for cut in cuts]
    return Run(model, about, steps_done, parts, numbers=numbers)


def _shaped(found: h5py.Dataset, shape: tuple[int, ...]) -> h5py.Dataset:
    """Require a shape before anything is read: a file may claim terabytes."""
    if found.shape != shape:
        raise ValueError(f"{found.name} has shape {found.shape}, expected {shape}")
    return found


def _require_frames(
    file: h5py.File, about: dict[str, Any], model: Chain | System, numbers: range
) -> None:
    rows, replicas = len(numbers), about["replicas"]
    for place in PLACES.values():
        found = _shaped(file[f"{place}/value"], (rows, replicas * model.n, SPACE))
        if found.dtype != np.float64:
            raise ValueError(f"{found.name} has {found.dtype} numbers, expected float64")
    for name in about["observables"]:
        found = file[f"{_place(OBSERVABLE + name)}/value"]
        _shaped(found, (rows, replicas, *found.shape[2:]))
    steps = _shaped(file[f"{PLACES['x']}/step"], (rows,))
    if not np.array_equal(steps[()], np.array(numbers, dtype=np.int64) * about["every"]):
        raise ValueError(f"{steps.name} are not the steps of its frames")


def _place(name: str) -> str:
    return PLACES.get(name) or f"observables/{name.removeprefix(OBSERVABLE)}"


def _load(path: Path, start: int, stop: int, shape: tuple[int, ...], name: str) -> NDArray[Any]:
    with h5py.File(path, "r") as file:
        rows: NDArray[Any] = file[f"{_place(name)}/value"][start:stop]
    if name not in PLACES:
        return rows
    return np.ascontiguousarray(rows[..., : shape[-1]]).reshape(len(rows), *shape)


def _write_constants(file: h5py.File, run: Run) -> None:
    system = run.system
    meta = file.create_group("h5md")
    meta.attrs["version"] = np.array([1, 1])
    meta.create_group("author").attrs["name"] = "unknown"
    meta.create_group("creator").attrs.update({"name": "fixman", "version": __version__})
    box = file.create_group(f"{CHAINS}/box")
    box.attrs.update({"dimension": SPACE, "boundary": ["none"] * SPACE})
    file[f"{CHAINS}/mass"] = np.tile(system.masses, run.replicas)
    shifts = system.n * np.arange(run.replicas)[:, None, None]
    file["connectivity/bonds"] = (system.bonds() + shifts).reshape(-1, 2)
    numbers = run.numbers
    file["fixman/run"] = json.dumps(run.about)  # an attribute could not hold a long chain
    file["fixman/frames"] = np.array([numbers.start, numbers.stop, numbers.step])
    file["fixman/steps_done"] = run.steps_done
