from __future__ import annotations

from monitor.model.service_version import SeenVersion, ServiceVersion
from monitor.pipeline.service_versions import MOST, OVER_AFTER, ServiceVersions
from tests.support.runtime import runtime, total

OLD = ServiceVersion(evaluator="1", judge="openai/a", prompt="3", service="1.2")
NEW = ServiceVersion(evaluator="1", judge="openai/a", prompt="4", service="1.3")
PAIR = ("shop", "groundedness")


def series(lent):
    return {
        sample.labels["fingerprint"]
        for family in lent.metrics.service_version_info.collect()
        for sample in family.samples
        if sample.value == 1
    }


def begun(lent):
    return total(lent.metrics, "ragmonitor_events_total", event="service_version_changed")


def test_the_fingerprint_is_that_of_all_parts():
    assert OLD.fingerprint == ServiceVersion(evaluator="1", judge="openai/a", prompt="3", service="1.2").fingerprint
    moved = ServiceVersion(evaluator="1", judge="openai/a", prompt="", index="3", service="1.2")
    assert len({OLD.fingerprint, NEW.fingerprint, moved.fingerprint}) == 3


def test_the_first_generation_is_no_change():
    lent = runtime()
    made = ServiceVersions(lent)
    made.saw(*PAIR, OLD, 10.0)
    assert (made.latest(*PAIR), begun(lent), series(lent)) == (None, 0, {OLD.fingerprint})


def test_another_version_begins_a_generation_and_says_what_changed():
    lent = runtime()
    made = ServiceVersions(lent)
    made.saw(*PAIR, OLD, 10.0)
    made.saw(*PAIR, NEW, 20.0)
    made.saw(*PAIR, NEW, 30.0)
    change = made.latest(*PAIR)
    assert (change.at, change.text) == (20.0, "prompt 3 -> 4, service 1.2 -> 1.3")
    assert begun(lent) == 1
    assert total(lent.metrics, "ragmonitor_service_version_start_timestamp_seconds") == 20.0
    assert made.latest("shop", "relevance") is None


def test_two_versions_side_by_side_change_once_and_not_with_every_verdict():
    lent = runtime()
    made = ServiceVersions(lent)
    for second in range(200):
        made.saw(*PAIR, OLD if second % 2 else NEW, float(second))
    assert begun(lent) == 1
    assert series(lent) == {OLD.fingerprint, NEW.fingerprint}


def test_a_generation_without_verdicts_is_over_and_its_series_gone():
    lent = runtime()
    made = ServiceVersions(lent)
    made.saw(*PAIR, OLD, 0.0)
    made.saw(*PAIR, NEW, 1.0)
    made.saw(*PAIR, NEW, OVER_AFTER + 1)
    assert series(lent) == {NEW.fingerprint}


def test_going_back_is_a_change_too():
    lent = runtime()
    made = ServiceVersions(lent)
    made.saw(*PAIR, OLD, 0.0)
    made.saw(*PAIR, NEW, 1.0)
    made.saw(*PAIR, NEW, OVER_AFTER + 1)
    made.saw(*PAIR, OLD, OVER_AFTER + 2)
    assert made.latest(*PAIR).text == "prompt 4 -> 3, service 1.3 -> 1.2"
    assert begun(lent) == 2


def test_a_quiet_night_ends_no_generation():
    lent = runtime()
    made = ServiceVersions(lent)
    made.saw(*PAIR, OLD, 0.0)
    made.saw(*PAIR, OLD, 10 * OVER_AFTER)
    assert (begun(lent), series(lent)) == (0, {OLD.fingerprint})


def test_versions_that_change_with_every_request_are_capped():
    lent = runtime()
    made = ServiceVersions(lent)
    for number in range(500):
        made.saw(*PAIR, ServiceVersion(prompt=str(number)), float(number))
    assert len(series(lent)) == MOST
    assert begun(lent) == MOST - 1


def test_what_changed_while_no_process_ran_is_a_change():
    lent = runtime()
    made = ServiceVersions(lent)
    made.restore([SeenVersion(*PAIR, OLD, 0.0, 50.0)])
    assert begun(lent) == 0
    made.saw(*PAIR, OLD, 60.0)
    assert made.latest(*PAIR) is None
    made.saw(*PAIR, NEW, 70.0)
    assert made.latest(*PAIR).text == "prompt 3 -> 4, service 1.2 -> 1.3"


def test_the_last_change_is_known_after_a_restart_without_saying_it_again():
    lent = runtime()
    made = ServiceVersions(lent)
    made.restore([SeenVersion(*PAIR, NEW, 20.0, 50.0), SeenVersion(*PAIR, OLD, 0.0, 19.0)])
    assert made.latest(*PAIR).at == 20.0
    assert begun(lent) == 0


def test_versions_that_change_with_every_request_are_as_few_after_a_restart_as_before():
    lent, versions = runtime(), [ServiceVersion(service=f"build-{number}") for number in range(500)]
    made = ServiceVersions(lent)
    made.restore(SeenVersion(*PAIR, one, float(at), float(at)) for at, one in enumerate(versions))
    assert series(lent) == {one.fingerprint for one in versions[:MOST]}
    late = OVER_AFTER + 600.0
    made.restore([SeenVersion(*PAIR, OLD, late, late)])
    assert OLD.fingerprint in series(lent)
