"""Energies and forces of an OpenMM System, for dynamics of our own."""

import hashlib
import re
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import openmm
from openmm import unit

from fixman._common import arrays
from fixman.analysis.groups import Floats, Indices
from fixman.errors import FrameError
from fixman.io.openmm.systems import constraints, harmonic_bonds
from fixman.io.openmm.thermostats import in_units

NAME = "FixmanForce"  # name of a metric_force
KEPT = 32  # evaluations, since steppers ask for the energy where they have asked for the force
LOOSE = 0.2  # relative, how far what is held may be from what its constraint says
# Springs of chemical bonds are stiffer than this, and those of restraints and networks softer.
STIFF = 20_000.0  # kJ/mol/nm²
STRAINED = 0.5  # relative, how far the length of such a spring may be from its rest in a start,
TORN = 4.0  # and later, where Å are met nonetheless
DEFAULTS = {"CPU": {"Threads": "1"}}  # properties of platforms
MADE = "_idle", "_evaluated"  # anew in another process
Distances = tuple[Indices, Floats]  # places of particles (2, pairs), and lengths
BONDED = "in the force field: are positions set, in nm and whole, and is no residue missing?"
HELD = (
    "in a constraint of the System: the System has no energy there, so the chain must hold it (or "
    "create the System with constraints=None, rigidWater=False)"
)


class Forces:
    """The energy of an OpenMM System as a potential of `Newton`, `Langevin`, `HybridMonteCarlo`.

    The System's constraints are left out: the chain has to hold what they held, since force fields
    have no energy there.  What `chain` makes of one molecule, and `system` of several in solvent,
    has the System's particles, in order.  ValueError if the System has a thermostat or barostat, a
    Fixman force, Drude particles, or particles without mass that are no virtual sites.

    Parameters
    ----------
    system : openmm.System
        It is copied, and does not change.  A CMMotionRemover is left out.  In a periodic box
        molecules are whole, and the box is the default one of the System.
    platform : str or openmm.Platform, optional
        By default the fastest that works.
    properties : mapping, optional
        Properties of the platform, such as ``{"Precision": "mixed"}``.  On "CPU" one thread is
        the default, as replicas have a Context each.

    Notes
    -----
    nm, ps, Da, kJ/mol.  On the platform "Reference" the numbers depend on positions alone, so runs
    can be repeated and resumed bit for bit; on others the order of sums may differ.  Threads
    evaluate at the same time, each in a Context of its own.  ``particles (n,)`` are those that have
    a mass, and are moved; virtual sites follow.
    """

    __module__ = "fixman.io.openmm"  # where it is public, and stays

    def __init__(
        self, system: Any, platform: Any = None, *, properties: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(system, openmm.System):
            raise TypeError(f"expected an openmm.System, got {type(system).__name__}")
        self._system = _copied(system)
        masses = [system.getParticleMass(k)._value for k in range(system.getNumParticles())]
        self.particles = np.flatnonzero(masses)
        self._sites = self.particles.size < len(masses)
        self._held = self._placed({(i, j): length for i, j, length in constraints(system)})
        self._bonds, self._strain = self._placed(_springs(system)), STRAINED
        self._begin()
        try:
            if platform is None:
                platform = context_of(self._system).getPlatform()
            elif not isinstance(platform, openmm.Platform):
                platform = openmm.Platform.getPlatformByName(str(platform))
            self.platform: str = platform.getName()
            given = {name: str(value) for name, value in dict(properties or {}).items()}
            self._properties = DEFAULTS.get(self.platform, {}) | given
            self._idle.append(context_of(self._system, platform, self._properties))
        except (openmm.OpenMMException, TypeError) as error:
            raise ValueError(f"OpenMM makes no Context of the System: {error}") from None

    def _begin(self) -> None:
        self._idle: list[Any] = []  # Contexts that no thread uses; its methods are atomic
        self._evaluated = lru_cache(KEPT)(self._evaluate)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in MADE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._begin()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.particles.size} particles, platform {self.platform}>"

    def parameters(self) -> dict[str, Any]:
        """Return names, and a digest of the System, by which `resume` recognizes the System."""
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return {"name": name, "own": True, "system": self._digest, "platform": self.platform}

    @cached_property
    def _digest(self) -> str:
        text = re.sub(' openmmVersion="[^"]*"', "", openmm.XmlSerializer.serialize(self._system))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def energy(self, x: Any) -> Any:
        """Return the energies (...), in kJ/mol, of configurations (..., n, 3), in nm.

        ValueError if the ends of a constraint of the System are far from its length, or if a bond
        (a HarmonicBondForce's spring above 20 000 kJ/mol/nm²) is off by half in the first call, or
        the first bond is longer than five times its length later.
        FrameError where positions, or what OpenMM makes of them, are not finite.
        """
        return self._found(x)[0][()]

    def force(self, x: Any) -> Floats:
        """Return the forces (..., n, 3), in kJ/mol/nm, in configurations (..., n, 3); see `energy`.

        Energies and forces are computed together and cached, so the second of them costs nothing.
        """
        return self._found(x)[1]

    def _found(self, x: Any) -> tuple[Floats, Floats]:
        x, n = in_units(x, unit.nanometer, "x"), self.particles.size
        if np.ndim(x) > 1 and np.shape(x)[-2] != n:
            said = f"the System has {n} particles with a mass, x has {np.shape(x)[-2]}: one chain"
            raise ValueError(f"{said}, or fixman.io.openmm.system(system), chains of all of them")
        x = arrays.real(x, (n, 3), "x")
        arrays.require_finite(x, (n, 3), "x")
        energies, forces = np.empty(x.shape[:-2]), np.empty(x.shape)
        for k, place in enumerate(np.ndindex(energies.shape)):
            try:
                energies[place], forces[place] = self._evaluated(x[place].tobytes())
            except FrameError as error:
                raise error.moved(arrays.frame_index(k, energies.shape)) from None
        return energies, forces

    def _evaluate(self, data: bytes) -> tuple[float, Floats]:
        x = whole = np.frombuffer(data).reshape(-1, 3)
        self._require_near(x, self._bonds, self._strain, BONDED)
        # One of the bonds tells Å later, at no cost.
        self._bonds, self._strain = (self._bonds[0][:, :1], self._bonds[1][:1]), TORN
        if self._held[1].size:
            self._require_near(x, self._held, LOOSE, HELD)
        try:
            context = self._idle.pop()
        except IndexError:
            platform = openmm.Platform.getPlatformByName(self.platform)
            context = context_of(self._system, platform, self._properties)
        if self._sites:
            whole = np.zeros((self._system.getNumParticles(), 3))
            whole[self.particles] = x
        try:
            context.setPositions(whole)
            if self._sites:
                context.computeVirtualSites()
            state = context.getState(energy=True, forces=True)
        finally:
            self._idle.append(context)
        energy, forces = state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value
        if not (np.isfinite(energy) and np.isfinite(forces).all()):
            raise FrameError("energy or force of OpenMM is not finite", ": do particles coincide?")
        return energy, forces[self.particles] if self._sites else forces

    def _placed(self, lengths: dict[tuple[int, int], float]) -> Distances:
        pairs = np.array(list(lengths), dtype=np.intp).reshape(-1, 2)
        return np.searchsorted(self.particles, pairs.T), np.array(list(lengths.values()))

    def _require_near(self, x: Floats, distances: Distances, most: float, why: str) -> None:
        (i, j), lengths = distances
        apart = np.linalg.norm(x[i] - x[j], axis=1)
        off = np.abs(apart - lengths) - most * lengths
        if (off > 0.0).any():
            k = int(np.argmax(off))
            one, two = (self._name(int(p)) for p in self.particles[[i[k], j[k]]])
            said = f"{one} and {two} are {apart[k]:.3g} nm apart"
            raise ValueError(f"{said}, and {lengths[k]:.3g} nm {why}")

    def _name(self, particle: int) -> str:
        return f"particle {particle}"


def _copied(system: Any) -> Any:
    """Copy a System without its constraints, and refuse what the copy cannot serve."""
    copy = openmm.XmlSerializer.clone(system)
    for k in reversed(range(copy.getNumForces())):
        force = copy.getForce(k)
        kind = type(force).__name__
        if isinstance(force, openmm.CMMotionRemover):
            copy.removeForce(k)
        elif re.search("Thermostat|Barostat|Drude", kind) or force.getName() == NAME:
            said = f"the System has a {kind}, {force.getName()}, which needs an OpenMM integrator"
            raise ValueError(f"{said}: removeForce({k}), and choose a stepper and ensemble instead")
    for k in range(copy.getNumParticles()):
        if copy.getParticleMass(k)._value == 0.0 and not copy.isVirtualSite(k):
            raise ValueError(f"particle {k} has no mass and is no virtual site")
    for k in reversed(range(copy.getNumConstraints())):
        copy.removeConstraint(k)
    return copy


def _springs(system: Any) -> dict[tuple[int, int], float]:
    """Lengths of the stiff springs of a System, by their particles, if these have a mass."""
    return {
        (i, j): length
        for force, i, j, length, stiffness in harmonic_bonds(system)
        if stiffness > STIFF
        and length > 0.0
        and all(system.getParticleMass(p)._value for p in (i, j))
        and not force.usesPeriodicBoundaryConditions()
    }


def context_of(system: Any, *platform: Any) -> Any:
    """Return a Context that moves nothing, on a platform with its properties."""
    return openmm.Context(system, openmm.VerletIntegrator(0.001), *platform)
