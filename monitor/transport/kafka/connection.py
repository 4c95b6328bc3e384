"""Configure the connection to Kafka: brokers, encryption and authentication, shared by the source and the sink."""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from monitor.errors import ConfigError
from monitor.stages import Component
from monitor.transport.http.listener import is_loopback
from monitor.transport.http.tls import load_authorities, load_chain

_BROKER: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[\w](?:[\w.-]*[\w])?):(\d{1,5})")
_LAST_PORT: Final = 65535


class KafkaTls(Component):
    """Encrypt connections, verify the brokers, and optionally authenticate by certificate. TLS 1.2 or newer."""

    ca_file: Path | None = None
    """CA certificates (PEM) to verify the brokers. Default: the system's."""

    cert_file: Path | None = None
    """Client certificate (PEM) for mTLS, with `key_file`. All files are read for each connection, so they can be
    rotated without a restart."""

    key_file: Path | None = None
    """Private key of the client certificate (PEM)."""

    key_password: SecretStr | None = None
    """Passphrase of the private key, if it has one."""

    verify_hostname: bool = True
    """Whether a broker's certificate must contain its host name. The chain is always verified."""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("set both `cert_file` and `key_file`, or neither")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca_file is not None:
                load_authorities(context, self.ca_file)
            if self.cert_file is not None and self.key_file is not None:
                load_chain(context, self.cert_file, self.key_file, self._password())
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return self

    def client_options(self) -> dict[str, Any]:
        """Return the TLS arguments for a client of kafka-python, which reads the files at each connection."""
        return {
            "ssl_check_hostname": self.verify_hostname,
            "ssl_cafile": _path(self.ca_file),
            "ssl_certfile": _path(self.cert_file),
            "ssl_keyfile": _path(self.key_file),
            "ssl_password": self._password(),
        }

    def _password(self) -> str:
        # Never None: OpenSSL would prompt for the passphrase on the terminal.
        return self.key_password.get_secret_value() if self.key_password is not None else ""


class KafkaSasl(Component):
    """Authenticate with user name and password."""

    mechanism: Literal["plain", "scram-sha-256", "scram-sha-512"] = "scram-sha-512"
    """SASL mechanism. `plain` sends the password unencrypted, so it requires `tls` or brokers on this machine."""

    username: str = Field(min_length=1)
    """The user name."""

    password: SecretStr
    """The password. Use an environment variable: `${NAME_OF_THE_VARIABLE}`."""

    @field_validator("password")
    @classmethod
    def _given(cls, password: SecretStr) -> SecretStr:
        if not password.get_secret_value():
            raise ValueError("must not be empty")
        return password


class KafkaConnection(Component):
    """The options of every component that connects to Kafka."""

    brokers: tuple[str, ...] = Field(min_length=1, examples=["127.0.0.1:9092"])
    """Bootstrap brokers, as `host:port`: a list, or a comma-separated text. Other brokers are discovered."""

    client_id: str = Field(default="rag-monitor", min_length=1, pattern=r"^[A-Za-z0-9._-]+$")
    """Client id, for the brokers' logs and quotas."""

    tls: KafkaTls | None = None
    """TLS options; `tls: {}` uses the system's CAs. Default: unencrypted."""

    sasl: KafkaSasl | None = None
    """User name and password. Default: none."""

    @field_validator("brokers", mode="before")
    @classmethod
    def _of_text(cls, value: object) -> object:
        return tuple(one.strip() for one in value.split(",") if one.strip()) if isinstance(value, str) else value

    @field_validator("brokers")
    @classmethod
    def _addresses(cls, brokers: tuple[str, ...]) -> tuple[str, ...]:
        for broker in brokers:
            found = _BROKER.fullmatch(broker)
            if found is None or not 0 < int(found[1]) <= _LAST_PORT:
                raise ValueError(f"{broker!r} is not a broker's address; expected `host:port`, such as `kafka:9092`")
        return brokers

    @model_validator(mode="after")
    def _password_is_safe(self) -> Self:
        if self.sasl is not None and self.sasl.mechanism == "plain" and self.tls is None:
            beyond = [one for one in self.brokers if not is_loopback(one.rpartition(":")[0].strip("[]"))]
            if beyond:
                raise ValueError(
                    f"the password would be sent to {beyond[0]!r} as plain text: set `tls` (`tls: {{}}` uses the "
                    "system's CAs), or a `scram` mechanism"
                )
        return self

    @property
    def address(self) -> str:
        """The brokers, for messages."""
        return ",".join(self.brokers)

    def client_options(self) -> dict[str, Any]:
        """Return the arguments of every client of kafka-python: brokers, client id, TLS, SASL."""
        protocol = ("SASL_" if self.sasl is not None else "") + ("SSL" if self.tls is not None else "PLAINTEXT")
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.brokers),
            "client_id": self.client_id,
            "security_protocol": protocol,
            "metrics_enabled": False,  # the client's own metrics cost processor time, and nothing reads them
        }
        if self.tls is not None:
            options |= self.tls.client_options()
        if self.sasl is not None:
            options |= {
                "sasl_mechanism": self.sasl.mechanism.upper(),
                "sasl_plain_username": self.sasl.username,
                "sasl_plain_password": self.sasl.password.get_secret_value(),
            }
        return options


def quiet_client() -> None:
    """Keep kafka-python from logging each attempt during an outage: an event reports the outage once.

    A level already set for the logger `kafka` is kept.
    """
    logger = logging.getLogger("kafka")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.CRITICAL)


def open_client(kind: Callable[..., Any], **options: Any) -> Any:
    """Create a kafka-python client. If that fails, close its sockets and threads, which it would leave open."""
    made: list[Any] = []

    def network(**given: Any) -> Any:
        made.append(kind.DEFAULT_CONFIG["kafka_client"](**given))  # type: ignore[attr-defined]
        return made[-1]

    try:
        return kind(**options, kafka_client=network)
    except BaseException:
        for one in made:
            with contextlib.suppress(Exception):
                one.close()
        raise


def describe(error: BaseException) -> str:
    """Return the message of an exception, with its type."""
    text = str(error)
    name = type(error).__name__
    return text if text.startswith(name) else f"{name}: {text}" if text else name


def _path(path: Path | None) -> str | None:
    return str(path) if path is not None else None
