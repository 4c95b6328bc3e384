"""The options that everything which speaks to Kafka shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from monitor.transport.kafka.connection import KafkaConnection
from tests.support.certificates import Authority

SASL = {"username": "monitor", "password": "secret"}


def made(**options: Any) -> KafkaConnection:
    return KafkaConnection.model_validate({"brokers": ["kafka:9092"], **options})


def test_brokers_are_a_list_or_a_text_with_commas() -> None:
    assert made(brokers="one:9092, two.example:9093,").brokers == ("one:9092", "two.example:9093")
    assert made(brokers=["[::1]:9092"]).client_options()["bootstrap_servers"] == ["[::1]:9092"]


@pytest.mark.parametrize("broker", ["kafka", "kafka:0", "kafka:70000", ":9092", "http://kafka:9092", "a b:9092", ""])
def test_what_is_no_broker_is_refused_by_name(broker: str) -> None:
    with pytest.raises(ValidationError, match="is not a broker's address"):
        made(brokers=[broker])


def test_without_brokers_nothing_is_valid() -> None:
    for brokers in ([], ""):
        with pytest.raises(ValidationError, match="brokers"):
            made(brokers=brokers)


def test_encryption_and_authentication_follow_from_their_sections() -> None:
    assert made().client_options()["security_protocol"] == "PLAINTEXT"
    assert made(tls={}).client_options()["security_protocol"] == "SSL"
    assert made(sasl=SASL).client_options()["security_protocol"] == "SASL_PLAINTEXT"
    options = made(tls={}, sasl={**SASL, "mechanism": "plain"}).client_options()
    assert options["security_protocol"] == "SASL_SSL"
    assert options["sasl_mechanism"] == "PLAIN"
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("monitor", "secret")
    assert options["ssl_check_hostname"] is True
    assert options["ssl_password"] == ""  # None would make OpenSSL ask at the terminal


def test_a_password_is_never_shown() -> None:
    assert "secret" not in repr(made(sasl=SASL))


def test_a_plain_password_leaves_this_machine_encrypted_only() -> None:
    with pytest.raises(ValidationError, match="plain text"):
        made(sasl={**SASL, "mechanism": "plain"})
    assert made(brokers="127.0.0.1:9092", sasl={**SASL, "mechanism": "plain"})


def test_certificates_are_read_when_the_configuration_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    options = made(
        tls={"ca_file": authority.ca, "cert_file": certificate, "key_file": key, "verify_hostname": False}
    ).client_options()
    assert options["ssl_cafile"] == str(authority.ca)
    assert (options["ssl_certfile"], options["ssl_keyfile"]) == (str(certificate), str(key))
    assert options["ssl_check_hostname"] is False
    for wrong, message in (
        ({"ca_file": tmp_path / "none.pem"}, "cannot be read"),
        ({"ca_file": key}, "contains no certificate"),
        ({"cert_file": certificate}, "set both `cert_file` and `key_file`"),
        ({"cert_file": certificate, "key_file": authority.ca}, "are not a certificate and its key"),
    ):
        with pytest.raises(ValidationError, match=message):
            made(tls=wrong)
