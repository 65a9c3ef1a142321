"""Archives that hold something else than they say."""

import io
import warnings
import zipfile

import numpy as np
import pytest

from fixman.simulation.archives import ArchiveError, pack, read

FORMS = {"x": (("float64",), (2, 3))}
X = np.arange(6.0).reshape(2, 3)


def member(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


def archive(*members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two members of one name
        for content in members:
            file.writestr("x.npy", content)
    buffer.seek(0)
    return buffer


def test_what_is_packed_is_read():
    np.testing.assert_array_equal(read(io.BytesIO(pack({"x": X})), FORMS)["x"], X)


def test_columns_first():
    found = read(archive(member(np.asfortranarray(X))), FORMS)["x"]
    np.testing.assert_array_equal(found, X)
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([member(X) + b"more"], "longer than it announces"),
        ([member(X)[:-8]], "announces 48 bytes in a member|ends early"),
        ([member(X), member(X)], "two of its arrays have one name"),
    ],
)
def test_members_that_are_not_what_they_announce(members, message):
    with pytest.raises(ArchiveError, match=message):
        read(archive(*members), FORMS)


def test_an_announced_size_is_compared_before_it_is_believed():
    forms = {"x": (("float64",), (None, 3))}
    huge = member(X).replace(b"(2, 3)", b"(9, 3)")
    with pytest.raises(ArchiveError, match="announces 216 bytes in a member of"):
        read(archive(huge[:-8]), forms)
