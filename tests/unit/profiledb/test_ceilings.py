"""Ceilings survive the database, and the one to trust is found."""

from __future__ import annotations

from dataclasses import replace

from taupy.model.machine import Ceiling
from taupy.profiledb.ceilings import add_ceilings, best_of, ceilings

MEASURED = Ceiling(
    characterization="c1",
    machine="node1",
    processor="AMD EPYC",
    device_uuid="",
    kind="compute",
    name="fp64",
    pattern="fma avx512",
    threads=2,
    value=270e9,
    unit="flop/s",
    source="measured",
    median=268e9,
    spread=0.01,
    samples=120,
    clock_hz=4.4e9,
    bytes=None,
    reference="taupy ceilings",
    measured_at="2026-01-01T00:00:00Z",
)


def test_a_ceiling_survives_the_database_unchanged(db):
    bare = replace(
        MEASURED, characterization="c2", median=None, spread=None, samples=None, clock_hz=None
    )
    assert add_ceilings(db, [MEASURED, bare]) == 2
    assert ceilings(db) == [MEASURED, bare]
    assert ceilings(db, processor="other") == []
    assert ceilings(db, source="datasheet") == []


def test_the_same_ceiling_again_replaces_the_first(db):
    add_ceilings(db, [MEASURED])
    better = replace(MEASURED, value=271e9)
    add_ceilings(db, [better])
    assert ceilings(db) == [better]


def test_what_was_measured_counts_before_a_larger_datasheet(db):
    paper = replace(MEASURED, characterization="d", source="datasheet", value=1e15)
    again = replace(MEASURED, characterization="c3", value=275e9)
    add_ceilings(db, [paper, MEASURED, again])
    known = ceilings(db, processor="AMD EPYC")
    assert best_of(known, "compute", "FP64") == again
    assert best_of(known, "compute", "fp32") is None
    assert ceilings(db, processor="Other") == []


def test_threads_choose_among_ceilings(db):
    one = replace(MEASURED, threads=1, value=141e9)
    add_ceilings(db, [MEASURED, one])
    assert best_of(ceilings(db), "compute", "fp64", threads=1) == one
    assert best_of(ceilings(db), "compute", "fp64", threads=4) is None


def test_of_latencies_that_of_launches_in_a_row_counts(db):
    pair = replace(
        MEASURED, kind="latency", name="launch", unit="s", value=4.2e-6, pattern="event pair"
    )
    row = replace(pair, pattern="back-to-back", value=2.5e-6)
    graph = replace(pair, pattern="graph", value=1.3e-6)
    waited = replace(pair, pattern="launch+sync", value=9e-6)
    add_ceilings(db, [graph, waited])
    assert best_of(ceilings(db, processor="AMD EPYC"), "latency", "launch") == graph
    add_ceilings(db, [pair])
    assert best_of(ceilings(db, processor="AMD EPYC"), "latency", "launch") == pair
    add_ceilings(db, [row, replace(row, characterization="c4", value=3e-6)])
    assert best_of(ceilings(db, processor="AMD EPYC"), "latency", "launch") == row
