"""Redaction: what is found is gone everywhere, the same value has one name, and places stay right."""

from __future__ import annotations

import random
import time

import anyio
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.redaction import FRAMES, MADE, bare_value, survivors
from monitor.config import parse_text
from monitor.errors import ConfigError
from monitor.evaluators.document_recall import DocumentRecall
from monitor.evaluators.f1_score import F1Score
from monitor.evaluators.injection_pattern import InjectionPattern
from monitor.evaluators.overlap_groundedness import OverlapGroundedness
from monitor.evaluators.pii_leak import PiiLeak
from monitor.evaluators.retrieval_overlap import RetrievalOverlap
from monitor.extraction.settings import ExtractionSettings
from monitor.model.case import Case, Document, Joined, Message, Reading, ReadingStatus, Request, TraceReading
from monitor.model.external import ScoreSource
from monitor.model.outcome import EvaluationResult, Evidence, Outcome, Score
from monitor.pipeline.local_evaluation import LocalReader, run_local
from monitor.pipeline.scoring import with_facts
from monitor.privacy.pseudonyms import UserKey
from monitor.privacy.redaction import Redacted, RedactionSettings, Redactor
from monitor.privacy.redaction.masking import DataType
from monitor.storage.history.rows import as_json
from monitor.telemetry.metrics import Metrics
from tests.support.examples import examples
from tests.support.runtime import total

LOCAL = (
    PiiLeak(),
    OverlapGroundedness(),
    RetrievalOverlap(),
    F1Score(),
    DocumentRecall(),
    InjectionPattern(),
)
USERS = UserKey(b"k" * 32)


def redact(case: Case, **options: object) -> Redacted:
    return Redactor(RedactionSettings(enabled=True, **options), USERS, Metrics()).redact(case)


def judged(case: Case, name: str, outcome: Outcome, **more: object) -> EvaluationResult:
    return EvaluationResult(case=case, evaluator=name, version="1", outcome=outcome, weight=1.0, **more)


def results(found: Redacted) -> list[EvaluationResult]:
    async def score(case: Case) -> list[EvaluationResult]:
        return [judged(case, one.name, run_local(one, case)) for one in LOCAL]

    return anyio.run(found.score, score)


@pytest.fixture(scope="module")
def left() -> dict[DataType, list[str]]:
    return survivors(80, seed=11)


@pytest.mark.parametrize("kind", list(DataType))
def test_of_each_declared_type_at_least_95_in_100_seeded_values_are_masked(kind, left):
    assert len(left[kind]) <= 4, left[kind]


def test_the_same_value_has_the_same_placeholder_in_question_context_and_answer():
    case = redact(
        Case(
            request_id="t",
            request=Request("I am Ada.Lovelace@mail.org.uk, my IBAN is DE89 3704 0044 0532 0130 00"),
            retrieved_context=(Document("ada.lovelace@mail.org.uk wrote; ole@web.de answered"),),
            response="We wrote to ole@web.de about DE89370400440532013000.",
        )
    ).case
    assert case.request.query == "I am <EMAIL_1>, my IBAN is <IBAN_1>"
    assert case.retrieved_context[0].content == "<EMAIL_1> wrote; <EMAIL_2> answered"
    assert case.response == "We wrote to <EMAIL_2> about <IBAN_1>."


def test_a_value_that_only_its_context_gives_away_is_masked_where_it_has_none():
    case = redact(Case(request_id="t", request=Request("phone: 7700900123"), response="It is 7700900123!")).case
    assert case.response == "It is <PHONE_1>!"


def test_numbers_of_placeholders_that_came_with_the_text_are_not_given_again():
    case = redact(Case(request_id="t", request=Request("<EMAIL_1> asked"), response="ole@web.de answered")).case
    assert case.response == "<EMAIL_2> answered"


def test_a_private_key_is_masked_to_its_end():
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----"
    assert redact(Case(request_id="t", response=f"Use {key} now")).case.response == "Use <REDACTED_SECRET_1> now"


def test_types_that_are_not_configured_stay():
    case = redact(Case(request_id="t", response="ole@web.de, 8.8.4.4"), types=["ip_address"]).case
    assert case.response == "ole@web.de, <IP_ADDRESS_1>"


def test_local_evaluators_see_the_texts_as_they_came_and_their_evidence_points_into_the_masked_answer():
    found = redact(Case(request_id="t", request=Request("Who?"), response="Ask ole@web.de or ada@web.de today."))
    (leak,) = [one for one in results(found) if one.evaluator == "pii_leak"]
    assert isinstance(leak.outcome, Score)
    assert leak.outcome.value == 1.0
    assert leak.case.response == "Ask <EMAIL_1> or <EMAIL_2> today."
    assert [one.claim for one in leak.outcome.evidence] == ["<EMAIL_1>", "<EMAIL_2>"]
    assert all(leak.case.response[one.start : one.end] == one.claim for one in leak.outcome.evidence)


def test_a_user_has_a_pseudonym_which_is_its_own():
    case = redact(Case(request_id="t", user_id="ole@web.de", session_id="ole@web.de/7")).case
    assert case.user_id == USERS.of("ole@web.de") == USERS.of(case.user_id)
    assert case.session_id == "<EMAIL_1>/7"


def test_attributes_are_masked_before_any_series_can_be_sliced_by_them():
    found = redact(Case(request_id="t", attributes={"tenant": "ole@web.de"}))
    assert found.seen.attributes == {"tenant": "<EMAIL_1>"}


def test_names_of_spans_are_masked_for_what_keeps_them():
    class Read:
        def read(self, *_):
            case = Case(request_id="t")
            joined = (Joined("GET /users/ole@web.de", "01"), Joined("chat gpt-4o-2024-08-06", "02"))
            return TraceReading((Reading(ReadingStatus.CONTENT_MISSING, case, joined=joined),))

    redactor = Redactor(RedactionSettings(enabled=True), USERS, None)
    found = LocalReader((), ExtractionSettings(), redactor=redactor).read(Read()).found
    assert [one.name for one in found.last.joined] == ["GET /users/<EMAIL_1>", "chat gpt-4o-2024-08-06"]


def test_verdicts_of_others_are_masked_with_their_reasons():
    said = Score(1.0, "ole@web.de is wrong", "bad", (Evidence("ole@web.de", "found", note="of ole@web.de"),))
    case = Case(request_id="t", user_id="ole@web.de")
    redactor = Redactor(RedactionSettings(enabled=True), USERS, Metrics())
    told = as_json(redactor.of_others(judged(case, "user_feedback", said, score_source=ScoreSource.FEEDBACK)))
    assert "ole@web.de" not in str(told)
    assert told["explanation"] == "<EMAIL_1> is wrong"


def test_switched_off_nothing_is_changed():
    case = Case(request_id="t", response="ole@web.de", user_id="ole")
    found = Redactor(RedactionSettings(), USERS, Metrics()).redact(case)
    assert found.case is found.seen is case


def test_what_was_masked_is_counted_by_type():
    metrics = Metrics()
    Redactor(RedactionSettings(enabled=True), USERS, metrics).redact(Case(request_id="t", response="a@b.de, a@b.de"))
    assert total(metrics, "ragmonitor_redacted_total", type="email") == 1
    assert total(metrics, "ragmonitor_redacted_total", type="iban") == 0


@pytest.mark.parametrize("types", ["[]", "[email, email]", "[name]"])
def test_a_wrong_list_of_types_is_refused(types):
    with pytest.raises(ConfigError, match=r"redaction\.types"):
        parse_text(f"redaction: {{enabled: true, types: {types}}}")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, list[str]]:
    """A case with values in any of its texts, and the values."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    values = [(kind, make(rng)) for kind, make in MADE.items() if draw(st.booleans())]
    words = st.text(st.characters(codec="utf-8", exclude_characters="<>"), max_size=30)

    def text() -> str:
        said = [draw(words)]
        for _, value in values:
            if draw(st.booleans()):
                said += [draw(st.sampled_from(FRAMES)).format(value), draw(words)]
        return "\n".join(said)

    case = Case(
        request_id="t",
        request=Request(text(), (Message("user", text()),)),
        retrieved_context=(Document(text(), doc_uri="kb/1"), Document(text())),
        prompt=(Message("system", text()),),
        response=text(),
        expected_response=text(),
        expected_retrieved_context=(Document(text()),),
        attributes={"tenant": text()},
        session_id=text(),
        user_id=values[0][1] if values else "u",
    )
    there = repr(case)
    return case, [bare for kind, value in values if (bare := bare_value(kind, value)) and repr(bare)[1:-1] in there]


@examples(40)
@given(cases())
def test_nothing_of_a_found_value_is_left_in_a_row_or_in_what_a_judge_is_given(made):
    """Only values that are found count: one whose frame hides it, or that is cut by its neighbour, is none."""
    case, values = made
    redactor = Redactor(RedactionSettings(enabled=True), USERS, Metrics())
    found = redactor.redact(case)
    if found.masking is None:
        return
    known = [value for value in values if value in found.masking._values]
    rows = [as_json(one) for one in results(found)]
    written = orjson.dumps(rows).decode() + repr(with_facts(found.case, {})) + repr(found.seen.attributes)
    for value in known:
        assert value not in written
        assert orjson.dumps(value).decode()[1:-1] not in written


@examples(40)
@given(cases(), st.integers(0, 200), st.integers(0, 200))
def test_a_stretch_of_the_answer_is_found_again_where_it_now_stands(made, start, length):
    """What was not masked is the same there as before; what was is a whole placeholder."""
    case, _ = made
    found = redact(case)
    end = min(start + length, len(case.response))
    start = min(start, end)
    assert found.masking is not None
    masked = found.masking.mask(case.response)
    first, last, changed = masked.stretch(start, end)
    assert 0 <= first <= last <= len(masked.text)
    if not changed:
        assert masked.text[first:last] == case.response[start:end]


@pytest.mark.parametrize(
    "text",
    [
        " ".join(f"a{n}@web{n}.de" for n in range(500)),
        "-----BEGIN PRIVATE KEY-----" * 400,
        "<EMAIL_1>" * 1000,
        "password: a@web.de1 " * 500,
        "1 " * 5000,
    ],
    ids=["mails", "keys", "placeholders", "overlapping", "digits"],
)
def test_the_time_for_what_somebody_has_made_to_be_slow_grows_with_its_length(text):
    """A case that is ten times as long takes not much more than ten times as long: here at most thirty."""

    def seconds(content: str) -> float:
        began = time.process_time()
        redact(Case(request_id="t", response=content))
        return time.process_time() - began

    small = max(min(seconds(text[: len(text) // 10]) for _ in range(3)), 1e-3)
    assert min(seconds(text) for _ in range(3)) < 30 * small


def test_a_very_long_private_key_is_masked():
    assert redact(Case(request_id="t", response="-----BEGIN PRIVATE KEY-----" + "x" * 20_000)).case.response == (
        "<REDACTED_SECRET_1>"
    )
