"""The labels' sums in the running monitor: read when they change, kept when they break, of the versions that judge."""

from __future__ import annotations

import json
import os
import string
from contextlib import asynccontextmanager
from functools import partial

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import InvalidData
from monitor.jobs.calibration import (
    FILE,
    AuditedResults,
    Calibration,
    CalibrationGauges,
    JudgeCalibration,
    LabelCell,
    export,
    load,
    save,
    watch,
)
from tests.support.examples import examples
from tests.support.runtime import runtime, total

pytestmark = pytest.mark.anyio

EVERY = 0.01
VERSIONS = {"groundedness": "2+ab", "relevance": "1"}


def judge(evaluator="groundedness", version="2+ab", labels=3, audited=()):
    cells = [
        LabelCell(verdict=verdict, truth=truth, labels=labels, weight=10.0 * labels, weight_squares=100.0 * labels)
        for verdict in (True, False)
        for truth in (True, False)
    ]
    return JudgeCalibration(evaluator=evaluator, version=version, cells=cells, audited=list(audited))


def kept(*judges):
    return Calibration(judges=list(judges))


@asynccontextmanager
async def watching(folder):
    """A monitor that looks at the file a hundred times a second; yields it."""
    lent = runtime()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(watch, folder, VERSIONS, lent, CalibrationGauges(lent.metrics), every=EVERY))
        yield lent
        tasks.cancel_scope.cancel()


async def shows(lent, labels, **which):
    with anyio.fail_after(120):
        while total(lent.metrics, "ragmonitor_calibration_labels", **which) != labels:  # noqa: ASYNC110 - by file
            await anyio.sleep(EVERY)


async def events(lent, name, number):
    with anyio.fail_after(120):
        while total(lent.metrics, "ragmonitor_events_total", event=name) != number:  # noqa: ASYNC110 - by file
            await anyio.sleep(EVERY)


async def test_what_was_saved_is_exported_and_what_is_saved_next_in_its_place(tmp_path):
    save(kept(judge(labels=3)), tmp_path)
    async with watching(tmp_path) as lent:
        await shows(lent, 12)
        assert total(lent.metrics, "ragmonitor_calibration_label_weight", verdict="defect", truth="good") == 30
        assert total(lent.metrics, "ragmonitor_calibration_label_weight_squares", verdict="good", truth="good") == 300
        save(kept(judge("relevance", "1", labels=5)), tmp_path)
        await shows(lent, 20, evaluator="relevance")
        assert total(lent.metrics, "ragmonitor_calibration_labels", evaluator="groundedness") == 0


async def test_labels_of_a_version_that_does_not_judge_now_are_not_exported(tmp_path):
    save(kept(judge(version="1+old"), judge("tone", "1"), judge("relevance", "1")), tmp_path)
    async with watching(tmp_path) as lent:
        await shows(lent, 12)
        samples = [one for family in lent.metrics.calibration_labels.collect() for one in family.samples]
        assert {one.labels["evaluator"] for one in samples} == {"relevance"}


@pytest.mark.parametrize("broken", ["", "{", '{"format": 2, "judges": []}', "x" * 2_000_000, "[1]", "\udcff"])
async def test_a_broken_file_is_told_once_and_leaves_what_was_read_before(tmp_path, broken):
    save(kept(judge(labels=3)), tmp_path)
    async with watching(tmp_path) as lent:
        await shows(lent, 12)
        whole = tmp_path / "written apart, so that it is read whole"
        whole.write_bytes(broken.encode("utf-8", "surrogateescape"))
        whole.replace(tmp_path / FILE)
        await events(lent, "calibration_failed", 1)
        await anyio.sleep(10 * EVERY)
        assert total(lent.metrics, "ragmonitor_events_total", event="calibration_failed") == 1
        assert total(lent.metrics, "ragmonitor_calibration_labels") == 12
        save(kept(judge(labels=4)), tmp_path)
        await shows(lent, 16)


async def test_what_is_no_file_is_told_and_harms_nothing(tmp_path):
    (tmp_path / FILE).mkdir()
    async with watching(tmp_path) as lent:
        await events(lent, "calibration_failed", 1)
        (tmp_path / FILE).rmdir()
        os.mkfifo(tmp_path / FILE)
        await anyio.sleep(10 * EVERY)
        (tmp_path / FILE).unlink()
        save(kept(judge()), tmp_path)
        await shows(lent, 12)


async def test_a_file_that_is_gone_leaves_nothing(tmp_path):
    save(kept(judge()), tmp_path)
    async with watching(tmp_path) as lent:
        await shows(lent, 12)
        (tmp_path / FILE).unlink()
        await shows(lent, 0)
        assert not [one for family in lent.metrics.calibration_labels.collect() for one in family.samples]


async def test_without_a_file_nothing_is_exported_and_nothing_said(tmp_path):
    async with watching(tmp_path / "nowhere") as lent:
        await anyio.sleep(5 * EVERY)
        assert total(lent.metrics, "ragmonitor_events_total") == 0


def test_audits_are_exported_with_the_results_they_were_drawn_from():
    metrics = runtime().metrics
    drawn = [
        AuditedResults(verdict=True, results=90, weight=900.0, weight_squares=9000.0),
        AuditedResults(verdict=False, results=910, weight=9100.0, weight_squares=91000.0),
    ]
    export([judge(audited=drawn)], metrics)
    assert total(metrics, "ragmonitor_calibration_results", version="2+ab", verdict="defect") == 90
    assert total(metrics, "ragmonitor_calibration_result_weight") == 10_000
    assert total(metrics, "ragmonitor_calibration_result_weight_squares", verdict="good") == 91_000
    export([judge()], metrics)
    assert total(metrics, "ragmonitor_calibration_results") == 0


names = st.text(string.printable, min_size=1, max_size=20)
sums = st.floats(0, 1e12)
cells = st.builds(
    LabelCell,
    verdict=st.booleans(),
    truth=st.booleans(),
    labels=st.integers(0, 10**6),
    weight=sums,
    weight_squares=sums,
)
judges = st.builds(JudgeCalibration, evaluator=names, version=names, cells=st.lists(cells, max_size=4))


@examples(30)
@given(st.lists(judges, max_size=4))
def test_what_is_saved_is_what_is_read(tmp_path_factory, given_judges):
    folder = tmp_path_factory.mktemp("state")
    saved = Calibration(judges=given_judges)
    assert load(save(saved, folder)) == saved


keys = st.sampled_from(["format", "judges", "cells", "audited", "evaluator", "version", "verdict"])
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one, max_size=3),
)


@examples(60)
@given(documents)
def test_whatever_json_it_is_reading_reads_it_or_says_what_is_wrong(tmp_path_factory, document):
    path = tmp_path_factory.mktemp("state") / FILE
    path.write_text(json.dumps(document))
    try:
        read = load(path)
    except InvalidData as wrong:
        said = str(wrong)
    else:
        said = f"{len(read.judges)} judges"
    assert said


def test_of_file_and_review_the_one_with_more_labels_shows():
    lent = runtime()
    gauges = CalibrationGauges(lent.metrics)
    gauges.show_file([judge(labels=3), judge("relevance", "1", labels=5)])
    gauges.show_reviewed([judge(labels=2)])
    assert total(lent.metrics, "ragmonitor_calibration_labels", evaluator="groundedness") == 12
    gauges.show_reviewed([judge(labels=4)])
    assert total(lent.metrics, "ragmonitor_calibration_labels", evaluator="groundedness") == 16
    assert total(lent.metrics, "ragmonitor_calibration_labels", evaluator="relevance") == 20
    gauges.show_file([])
    assert total(lent.metrics, "ragmonitor_calibration_labels") == 16
