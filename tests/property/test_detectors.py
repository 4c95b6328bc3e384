"""A pattern of personal data is skipped only in texts in which it finds nothing."""

from __future__ import annotations

from unittest import mock

from hypothesis import example, given
from hypothesis import strategies as st

from monitor.privacy import detectors

FINDS = [
    "ann@firm-a.de",
    "ann (at) firm-a (dot) de",
    "+49 30 123 456 78",
    "call 5551234567",
    "4111 1111 1111 1111",
    "DE89370400440532013000",
    "GB33 BUKB 2020 1555 5555 55",
    "219-09-9999",
    "8.8.8.8",
    "2001:4860:4860::8888",
    "passport no C01X00T47",
    "Pasaporte: AAA123456",
    "\u62a4\u7167 E12345678",
    "1BoatSLRHtKNngkdXEeobR76b53LETtpyT",
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "RSSMRA85T10A562S",
    "-----BEGIN RSA PRIVATE KEY-----",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-proj-abcdefghij0123456789",
    "xoxb-0123456789",
    "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM",
    "api_key = abc12345",
    "Pass word: hunter22",
    "contrase\u00f1a: hunter22",
    "https://ann:secret1@host",
    "AB 12 34 56 C",
]
TEXTS = st.lists(
    st.one_of(st.sampled_from([*FINDS, " ", "\n", ". ", "\u2019", "\u0665.8.8.8", "\u00b2", "-"]), st.text())
).map("".join)


class _Anything:
    """The shape of a text in which everything may be."""

    digit = number = True

    def __init__(self, text: str) -> None:
        """Look at nothing."""

    def word(self, _: int) -> bool:
        return True

    has = word


@given(TEXTS)
@example(" ".join(FINDS))
def test_what_is_found_does_not_depend_on_which_patterns_are_skipped(text: str) -> None:
    with (
        mock.patch.object(detectors, "_Shape", _Anything),
        mock.patch.object(detectors, "_has_password", bool),
        mock.patch.object(detectors, "_has_passport", bool),
    ):
        expected = detectors.pieces(text)
    assert detectors.pieces(text) == expected


def test_each_of_the_finds_is_found_alone() -> None:
    assert [one for one in FINDS if not detectors.pieces(one)] == []
