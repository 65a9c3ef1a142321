"""What is renamed into a run folder was on the disk before, and its folder is after."""

from __future__ import annotations

import os
import stat
from itertools import pairwise

import pytest

import fixman as fx
from fixman.simulation import simulate as simulation

CHAIN = fx.Chain.linear(3)
X0 = fx.random_walks(CHAIN, 2, rng=1)


def inode(path, folder=None):
    held = os.stat(path, dir_fd=folder, follow_symlinks=False)
    return held.st_dev, held.st_ino


def parent(path, folder=None):
    """Inode of the folder that a name is in."""
    if folder is not None and not os.path.isabs(path):
        return inode(os.path.dirname(path) or ".", folder)
    return inode(os.path.dirname(os.path.abspath(path)))


@pytest.fixture
def calls(monkeypatch):
    """Record in order what is synced and what is renamed, by inode: names do not matter."""
    seen = []

    def synced(fd):
        held = os.fstat(fd)
        kind = "folder" if stat.S_ISDIR(held.st_mode) else "file"
        seen.append(("sync", kind, (held.st_dev, held.st_ino)))
        return fsync(fd)

    def recording(rename):
        def renamed(old, new, *, src_dir_fd=None, dst_dir_fd=None):
            what, where = inode(old, src_dir_fd), parent(new, dst_dir_fd)
            folders = {"src_dir_fd": src_dir_fd, "dst_dir_fd": dst_dir_fd}
            rename(old, new, **{key: fd for key, fd in folders.items() if fd is not None})
            seen.append(("rename", os.path.basename(os.fspath(new)), what, where))

        return renamed

    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", synced)
    if hasattr(os, "fdatasync"):
        monkeypatch.setattr(os, "fdatasync", synced)
    monkeypatch.setattr(os, "rename", recording(os.rename))
    monkeypatch.setattr(os, "replace", recording(os.replace))
    monkeypatch.setattr(simulation, "BLOCK_WORK", 1000)  # some blocks
    return seen


def files(calls):
    """Places in the record, names, inodes and folders of the files that were renamed."""
    found = [(k, *call[1:]) for k, call in enumerate(calls) if call[0] == "rename"]
    return [one for one in found if one[1].endswith((".npz", ".json"))]


def run(tmp_path):
    return fx.simulate(CHAIN, X0, fx.Langevin(0.02), 60, every=2, rng=1, out=tmp_path / "run")


def test_a_file_is_synced_before_it_gets_its_name(calls, tmp_path):
    run(tmp_path)
    renamed = files(calls)
    names = {name for _, name, _, _ in renamed}
    assert {"run.json", "checkpoint.npz", "block_000000.npz", "block_000001.npz"} <= names
    for place, name, file, _ in renamed:
        assert ("sync", "file", file) in calls[:place], f"{name} was renamed before it was synced"


def test_the_folder_is_synced_after_a_name_changes(calls, tmp_path):
    run(tmp_path)
    renamed = files(calls)
    appears = next(k for k, call in enumerate(calls) if call[:2] == ("rename", "run"))
    for number, (place, name, _, folder) in enumerate(renamed):
        if place < appears:  # all that is made under another name appears at once
            until = appears
        else:
            # The next file may count on this one.  A checkpoint makes room for its successor in
            # two renames, whichever of them a power cut leaves is read: they are synced together.
            following = number + 1 + (name == "checkpoint_previous.npz")
            until = renamed[following][0] if following < len(renamed) else len(calls)
        assert ("sync", "folder", folder) in calls[place:until], f"{name} was not made durable"


def test_the_new_folder_is_synced_into_its_parent(calls, tmp_path):
    run(tmp_path)
    above = inode(tmp_path)
    place = next(k for k, call in enumerate(calls) if call[0] == "rename" and call[1] == "run")
    assert calls[place][2] == inode(tmp_path / "run")
    assert ("sync", "folder", above) in calls[place:]


def test_a_block_is_there_before_the_checkpoint_that_counts_it(calls, tmp_path):
    run(tmp_path)
    names = [name for _, name, _, _ in files(calls)]
    blocks = [k for k, name in enumerate(names) if name.startswith("block_")]
    assert len(blocks) >= 2
    assert [names[k] for k in blocks] == sorted(names[k] for k in blocks)
    for first, last in pairwise([*blocks, len(names)]):
        assert "checkpoint.npz" in names[first:last]
