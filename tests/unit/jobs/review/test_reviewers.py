"""Who may review: tokens in a file, compared in constant time, rotated without a restart, and not to be guessed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from pydantic import ValidationError

from monitor.clock import ManualClock
from monitor.config import Config
from monitor.errors import ConfigError, Overloaded
from monitor.jobs.review.reviewers import Reviewers, ReviewSettings
from monitor.operations.check import warnings
from monitor.operations.describe import describe
from monitor.stages import Runtime
from tests.support.runtime import runtime, total

ANA, BEN = "a-token-of-ana-1234", "a-token-of-ben-1234"


def reviewers(path: Path, text: str, lent: Runtime | None = None) -> Reviewers:
    lent = lent or runtime()
    path.write_text(text)
    path.chmod(0o600)
    return Reviewers(path, lent.clock, lent.events)


def named(given: Reviewers, token: str, peer: str = "10.0.0.1") -> str | None:
    found = given.identify(token, peer)
    return found.name if found is not None else None


def test_a_token_is_its_reviewers_plain_or_hashed_and_no_other_text_is(tmp_path: Path) -> None:
    hashed = hashlib.sha256(BEN.encode()).hexdigest()
    made = reviewers(tmp_path / "reviewers", f"# people\n\n ana :  {ANA} \nBen Ó. Nuñez: sha256:{hashed}\n")
    assert (named(made, ANA), named(made, f" {ANA}\n"), named(made, BEN)) == ("ana", "ana", "Ben Ó. Nuñez")
    for wrong in ("", "ana", ANA[:-1], f"{ANA}x", f"sha256:{hashed}", "# people", "\ud800", "x" * 100_000):
        assert named(made, wrong, peer=wrong[:20]) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no reviewer"),
        ("# only this\n", "names no reviewer"),
        (f"{ANA}\n", "line 1 is not `name: token`"),
        (f"ana: {ANA}\n: {BEN}\n", "line 2 is not"),
        (f"a\x1bna: {ANA}\n", "line 1 is not"),
        (f"{'x' * 65}: {ANA}\n", "line 1 is not"),
        ("ana: short\n", "line 1: a token needs at least 16 characters"),
        (f"ana: {ANA}\nben: {ANA}\n", "line 2 repeats a token"),
    ],
)
def test_a_wrong_line_is_named_by_its_number_and_never_repeated(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        reviewers(tmp_path / "reviewers", text)
    assert ANA not in str(refused.value)
    assert "short" not in str(refused.value)


def test_a_file_that_is_missing_or_not_text_is_an_error_with_its_name(tmp_path: Path) -> None:
    lent = runtime()
    with pytest.raises(ConfigError, match=r"token_file .*nowhere.* cannot be read"):
        Reviewers(tmp_path / "nowhere", lent.clock, lent.events)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        Reviewers(tmp_path / "binary", lent.clock, lent.events)


def test_a_reviewer_who_is_taken_out_of_the_file_is_known_no_more(tmp_path: Path) -> None:
    clock = ManualClock()
    lent = runtime(clock)
    made = reviewers(tmp_path / "reviewers", f"ana: {ANA}\nben: {BEN}\n", lent)
    ana = made.identify(ANA, "")
    assert ana is not None
    assert made.knows(ana)
    (tmp_path / "reviewers").write_text(f"ben: {BEN}\n")
    clock.advance(2)
    assert not made.knows(ana)
    assert (named(made, ANA), named(made, BEN)) == (None, "ben")
    (tmp_path / "reviewers").write_text("broken\n")
    clock.advance(2)
    assert named(made, BEN) == "ben", "a broken file changes nothing"
    assert total(lent.metrics, "ragmonitor_events_total", event="reload_failed") == 1


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    lent = runtime()
    reviewers(tmp_path / "reviewers", f"ana: {ANA}\n", lent)
    assert total(lent.metrics, "ragmonitor_events_total", event="tokens_readable") == 0
    (tmp_path / "reviewers").chmod(0o644)
    Reviewers(tmp_path / "reviewers", lent.clock, lent.events)
    assert total(lent.metrics, "ragmonitor_events_total", event="tokens_readable") == 1


def test_after_ten_wrong_tokens_in_a_minute_a_peer_has_to_wait_even_with_the_right_one(tmp_path: Path) -> None:
    clock = ManualClock()
    made = reviewers(tmp_path / "reviewers", f"ana: {ANA}\n", runtime(clock))
    for _ in range(10):
        assert named(made, "wrong") is None
        clock.advance(1)
    with pytest.raises(Overloaded) as refused:
        made.identify(ANA, "10.0.0.1")
    assert refused.value.retry_after == 50
    assert named(made, ANA, peer="10.0.0.2") == "ana"
    clock.advance(51)
    assert named(made, ANA) == "ana"


def test_many_peers_together_cannot_guess_faster(tmp_path: Path) -> None:
    made = reviewers(tmp_path / "reviewers", f"ana: {ANA}\n")
    for number in range(100):
        assert named(made, "wrong", peer=f"10.0.1.{number}") is None
    with pytest.raises(Overloaded):
        made.identify(ANA, "10.0.2.1")


def test_review_is_off_by_default_and_needs_reviewers_texts_and_the_page(tmp_path: Path) -> None:
    assert not Config().review.enabled
    with pytest.raises(ValidationError, match="needs `reviewers`"):
        ReviewSettings(enabled=True)
    review = {"enabled": True, "reviewers": {"token_file": str(tmp_path / "reviewers")}}
    with pytest.raises(ConfigError, match=r"`storage\.texts` is"):
        Config.model_validate({"review": review})
    with pytest.raises(ConfigError, match=r"ui\.enabled"):
        Config.model_validate({"review": review, "storage": {"texts": "all"}, "ui": {"enabled": False}})
    assert Config.model_validate({"review": review, "storage": {"texts": "all"}}).review.blind


def test_check_reads_the_reviewers_and_says_what_they_will_see(tmp_path: Path) -> None:
    path = tmp_path / "reviewers"
    review = {"enabled": True, "reviewers": {"token_file": str(path)}}
    config = Config.model_validate({"review": review, "storage": {"texts": "all"}})
    with pytest.raises(ConfigError, match="cannot be read"):
        list(warnings(config))
    reviewers(path, f"ana: {ANA}\n")
    assert not any("reviewers" in one for one in warnings(config))
    path.chmod(0o640)
    assert any("chmod 600" in one for one in warnings(config))
    assert any("/review; they see the judge's verdict after their own." in one for one in describe(config))
