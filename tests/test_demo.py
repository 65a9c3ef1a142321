"""`fixman demo`, at a tenth of its size."""

import csv
import sys

import pytest

from fixman.cli import demo


@pytest.mark.thorough
def test_it_agrees_and_writes_what_it_says(tmp_path, capsys, peer):
    peer("matplotlib")
    demo.main(tmp_path / "new" / "folder", quick=True)
    text = capsys.readouterr().out
    assert text.count("agree to") >= 14
    assert "DISAGREE" not in text
    assert "one q̈: articulated body" in text
    assert str(tmp_path / "new" / "folder") in text
    written = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert written == {"timing.csv", "timing.png", "blocks.png"}
    assert all(name in text for name in written)
    with (tmp_path / "new" / "folder" / "timing.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == set(demo.METHODS)
    assert all(float(row["seconds"]) > 0 for row in rows)


@pytest.mark.thorough
def test_without_matplotlib_it_says_how_to_get_figures(tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "fixman.analysis.plot", raising=False)
    monkeypatch.delattr("fixman.analysis.plot", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(demo, "_seconds", lambda method: 1.0)
    demo.main(tmp_path, quick=True)
    assert 'pip install "fixman-chains[plot]"' in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["timing.csv"]


@pytest.mark.parametrize("below", ["", "folder"])
def test_a_file_in_place_of_the_folder(tmp_path, below):
    (tmp_path / "taken").write_text("")
    with pytest.raises(NotADirectoryError, match="a file is there"):
        demo.main(tmp_path / "taken" / below, quick=True)


def test_a_disagreement_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo, "_error", lambda a, b: 1e-3)
    monkeypatch.setattr(demo, "_seconds", lambda method: 1.0)
    with pytest.raises(RuntimeError, match="checks failed"):
        demo.main(tmp_path, quick=True)
    assert "DISAGREE by 1e-03" in capsys.readouterr().out


@pytest.mark.thorough
def test_the_default_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_seconds", lambda method: 1.0)
    demo.main(quick=True)
    assert (tmp_path / "fixman-demo" / "timing.csv").exists()
