"""Strategies draw without compiling, so that a cold cache does not make them too slow."""

from __future__ import annotations

from hypothesis import given

import fixman as fx
from strategies import Drawn, System, graphs, systems


def test_nothing_is_made_while_it_is_drawn(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("made while it was drawn")

    for name in ("linear", "branched", "ring", "from_bonds"):
        monkeypatch.setattr(fx.Chain, name, refuse)

    @given(graphs(), systems())
    def drawn(graph, system):
        assert isinstance(graph, Drawn)
        assert isinstance(system, System)

    drawn()


@given(graphs(max_n=5))
def test_what_is_drawn_is_made_when_a_test_looks(graph):
    assert graph.x.shape == (graph.chain.n, graph.chain.dim)
