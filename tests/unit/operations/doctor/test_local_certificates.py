"""How long certificates are valid, and whether they can be shown at all."""

from __future__ import annotations

import base64
import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.operations.doctor.local import Validity, authorities, expiry, own_certificate
from tests.support.certificates import Authority
from tests.support.examples import examples

DAY = 86400


def test_a_certificate_is_valid_from_now_for_its_days(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server", days=30)
    for of_client in (False, True):
        found = own_certificate(certificate, key, of_client=of_client)
        assert found.begins == pytest.approx(time.time(), abs=60)
        assert found.ends - found.begins == pytest.approx(30 * DAY, abs=2)


def test_of_a_chain_the_authorities_have_dates_of_their_own(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server", days=30)
    chain = tmp_path / "chain.pem"
    chain.write_bytes(certificate.read_bytes() + authority.ca.read_bytes())
    (root,) = authorities(chain)
    assert root.ends - root.begins == pytest.approx(2 * DAY, abs=2)
    assert own_certificate(chain, key).ends - root.ends == pytest.approx(28 * DAY, abs=60)


def test_an_expired_certificate_has_dates_too(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server", days=-1)
    found = own_certificate(certificate, key)
    assert found.ends < time.time()
    finding = expiry("sources[0] tls", "cert_file: server.pem", [found], time.time(), "renew it")
    assert (finding.level, finding.message) == ("failed", "cert_file: server.pem expired 1 day ago")


def test_the_first_that_expires_and_the_last_that_begins_decide() -> None:
    found = [Validity(0, 100 * DAY), Validity(10 * DAY, 20 * DAY)]
    levels = [expiry("tls", "file", found, day * DAY, "fix").level for day in (5, 10, 15, 25)]
    assert levels == ["failed", "warning", "warning", "failed"]


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, _ = authority.issue("server")
    _, key = authority.issue("other")
    with pytest.raises(ValueError, match="mismatch"):
        own_certificate(certificate, key)


@pytest.mark.parametrize(("name", "said"), [("empty.pem", "no certificate"), ("missing.pem", "No such file")])
def test_a_file_that_is_missing_or_holds_no_certificate_says_so(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "empty.pem").write_text("nothing of the kind")
    with pytest.raises(ValueError, match=said):
        authorities(tmp_path / name)
    with pytest.raises(ValueError, match=f"{said}|PEM"):
        own_certificate(tmp_path / name, tmp_path / name)


@examples(30)
@given(st.binary(max_size=80))
def test_what_is_no_certificate_is_a_value_error_and_nothing_else(tmp_path: Path, der: bytes) -> None:
    path = tmp_path / "random.pem"
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(der) + b"\n-----END CERTIFICATE-----")
    with contextlib.suppress(ValueError):
        authorities(path)
    with contextlib.suppress(ValueError):
        own_certificate(path, path)
