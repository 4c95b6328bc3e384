"""What stands beside a rate: the same by slice, and without the judge's errors."""

from __future__ import annotations

import pytest

from monitor.jobs import calibration
from monitor.jobs.calibration import JudgeCalibration, LabelCell
from monitor.model.service_version import ServiceVersion
from monitor.statistics.correction import LabelledResult, by_quality, quality
from monitor.statistics.rates import Sums
from monitor.web import cases, overview
from tests.support.page import NOW, Site, answer

pytestmark = pytest.mark.anyio
PAIR = ("shop", "overlap_groundedness")
HOSTILE = "<script>document.body.id='run'</script>\u202e{{7*7}}"


async def rate(site):
    found = await overview.overview(site.context, window="24h", app="", started_at=NOW - 100)
    return next(one for app in found.apps for one in app.rates if one.evaluator == PAIR[1])


def judge(site, value, good, bad, name="tenant"):
    for defect, number in ((False, good), (True, bad)):
        for _ in range(number):
            site.sliced.add(PAIR, name, value, NOW - 60, Sums.of(1.0, defect=defect))


async def test_slices_have_rates_with_intervals_and_too_few_is_said(tmp_path):
    site = Site(tmp_path)
    site.judge(*PAIR, good=100, bad=12)
    judge(site, "acme", 90, 10)
    judge(site, "globex", 28, 12)
    judge(site, "tiny", 0, 2)
    judge(site, "", 10, 0)
    judge(site, "__other__", 50, 50)
    (found,) = (await rate(site)).slices
    assert [(one.value, one.enough) for one in found.values] == [
        ("globex", True), ("acme", True), ("tiny", False), ("", False), ("__other__", True),
    ]  # fmt: skip
    assert [one.others for one in found.values] == [False] * 4 + [True]
    acme = found.values[1]
    assert acme.lower < acme.rate == 0.1 < acme.upper
    text = (await site.get("/")).body.decode()
    assert "too few" in text
    assert "all others" in text


async def test_a_fact_that_no_answer_states_is_no_slice(tmp_path):
    site = Site(tmp_path)
    site.judge(*PAIR, good=10, bad=1)
    judge(site, "", 10, 1)
    assert (await rate(site)).slices == []


async def test_values_of_slices_are_text(tmp_path):
    site = Site(tmp_path)
    site.judge(*PAIR, good=10, bad=1)
    judge(site, HOSTILE, 10, 1)
    text = (await site.get("/?app=shop")).body.decode()
    assert "<script" not in text
    assert "U+202E" in text


def labels(found, missed, alarmed, passed):
    counted = {(True, True): found, (False, True): missed, (True, False): alarmed, (False, False): passed}
    return [LabelledResult(1.0, *both) for both, number in counted.items() for _ in range(number)]


def exported(site, given, version="1"):
    kinds = [(verdict, truth) for verdict in (True, False) for truth in (True, False)]
    numbers = {kind: sum((one.verdict, one.truth) == kind for one in given) for kind in kinds}
    cells = [
        LabelCell(verdict=verdict, truth=truth, labels=number, weight=float(number), weight_squares=float(number))
        for (verdict, truth), number in numbers.items()
    ]
    calibration.export([JudgeCalibration(evaluator=PAIR[1], version=version, cells=cells)], site.runtime.metrics)


async def test_where_people_have_labelled_enough_the_corrected_rate_stands_beside_the_raw_one(tmp_path):
    site = Site(tmp_path)
    site.judge(*PAIR, good=450, bad=50)
    given = labels(90, 20, 5, 195)
    exported(site, given)
    found, raw = await rate(site), Sums(500, 50, 500.0, 50.0, 50.0, 450.0)
    expected = by_quality(raw, quality(given))
    assert found.corrected is not None
    assert (found.corrected.rate, found.corrected.lower, found.corrected.upper) == pytest.approx(
        (expected.rate, expected.lower, expected.upper)
    )
    assert (found.corrected.labelled_defects, found.corrected.labelled_good) == (110, 200)
    assert found.rate == 0.1
    assert "from human labels" in (await site.get("/")).body.decode()


@pytest.mark.parametrize(("given", "version"), [(labels(9, 2, 5, 195), "1"), (labels(90, 20, 5, 195), "2")])
async def test_too_few_labels_or_those_of_another_version_correct_nothing(tmp_path, given, version):
    site = Site(tmp_path)
    site.judge(*PAIR, good=450, bad=50)
    exported(site, given, version)
    assert (await rate(site)).corrected is None


async def test_a_case_says_the_versions_behind_its_verdicts_and_its_slices(tmp_path):
    site = Site(tmp_path, slices=("tenant", "prompt.version"))
    behind = ServiceVersion(evaluator="1", judge="gpt", prompt=HOSTILE, index="idx-9", service="2.3.0")
    one = answer(1, service_version=behind, attributes={"tenant": HOSTILE, "service.version": "2.3.0"})
    await site.store([one])
    case = await cases.case(site.context, site.settings, one.case.request_id)
    assert case.results[0].versions == {"judge": "gpt", "prompt": HOSTILE, "index": "idx-9", "service": "2.3.0"}
    assert case.slices == {"tenant": HOSTILE, "prompt.version": ""}
    assert case.attributes == {"service.version": "2.3.0"}
    text = (await site.get(f"/case/{one.case.request_id}")).body.decode()
    assert "idx-9" in text
    assert "not stated" in text
    assert "<script" not in text
