"""Words for hard sets: how they may be spelled, and which stand alone."""

import pytest

from fixman.chains.hard_sets import named


@pytest.mark.parametrize("word", ["all-angles", "all_angles", "AllAngles", "ALL-ANGLES"])
def test_hyphens_underscores_and_case_do_not_matter(word):
    assert named(word) == ("length", "angle")


@pytest.mark.parametrize("words", ["h-bonds, angle", ("length", "HAngles"), ["torsional", "angle"]])
def test_words_for_molecules_stand_alone(words):
    with pytest.raises(ValueError, match="stands alone"):
        named(words)
