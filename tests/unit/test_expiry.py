"""Until when a certificate is valid, read out of its DER."""

from __future__ import annotations

import base64
import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.cli.expiry import validity
from tests.support.certificates import Authority


def test_a_certificate_is_valid_from_now_for_its_days_and_a_chain_has_one_each(tmp_path):
    authority = Authority(tmp_path)
    certificate, _ = authority.issue("server", days=30)
    chain = certificate.read_bytes() + authority.ca.read_bytes()
    leaf, root = validity(chain)
    assert leaf[0] == pytest.approx(time.time(), abs=60)
    assert leaf[1] - leaf[0] == pytest.approx(30 * 86400, abs=2)
    assert root[1] - root[0] == pytest.approx(2 * 86400, abs=2)
    assert validity(b"no certificate") == []


@given(st.binary(max_size=80))
def test_what_is_no_certificate_is_a_value_error_and_nothing_else(der):
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(der) + b"\n-----END CERTIFICATE-----"
    with contextlib.suppress(ValueError):
        validity(pem)
