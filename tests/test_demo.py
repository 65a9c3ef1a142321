"""`fixman demo`, at a tenth of its size."""

import csv
import sys

import pytest

from fixman.cli import command, demo


def run(folder):
    return command.main(["demo", "--quick", "--out", str(folder)])


@pytest.mark.thorough
def test_it_agrees_and_writes_what_it_says(tmp_path, capsys, peer):
    peer("matplotlib")
    folder = tmp_path / "new" / "folder"
    assert run(folder) == 0
    text = capsys.readouterr().out
    assert text.count("agree to") == 12
    assert "DISAGREE" not in text
    assert "\n12 checks passed.\n" in text
    assert str(folder) in text
    written = {path.name for path in folder.iterdir()}
    assert written == {"timing.csv", "timing.png"}
    assert all(name in text for name in written)
    with (folder / "timing.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == set(demo.METHODS)
    assert all(float(row["seconds"]) > 0 for row in rows)


@pytest.mark.thorough
def test_without_matplotlib_it_says_how_to_get_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "fixman.analysis.plot", raising=False)
    monkeypatch.delattr("fixman.analysis.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(demo, "_seconds", lambda method: 1.0)
    assert run(tmp_path) == 0
    assert 'pip install "fixman-chains[plot]"' in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["timing.csv"]


@pytest.mark.parametrize("below", ["", "folder"])
def test_a_file_in_place_of_the_folder(tmp_path, capsys, below):
    (tmp_path / "taken").write_text("")
    assert run(tmp_path / "taken" / below) == 1
    said = capsys.readouterr().err
    assert str(tmp_path / "taken") in said
    assert said.count("\n") == 1


def test_a_disagreement_is_an_error(tmp_path, capsys, monkeypatch):
    root = demo._root
    monkeypatch.setattr(demo, "_root", lambda chain, x: 2.0 * root(chain, x))
    monkeypatch.setattr(demo, "_seconds", lambda method: 1.0)
    assert run(tmp_path) == 1
    out, err = capsys.readouterr()
    assert out.count("DISAGREE by 3e+00") == 6
    assert "8 checks failed: please report this output" in err
