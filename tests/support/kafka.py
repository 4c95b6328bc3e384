"""A real Apache Kafka: one process as broker and controller, on loopback, with its own data folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support import cache
from tests.support.certificates import Authority
from tests.support.tools import PATIENCE, free_port, require, wait_until

_POM = Path(__file__).parents[1] / "kafka" / "pom.xml"
_ARCHIVE = "kafka.jsa"
_CLUSTER = "cmFnLW1vbml0b3ItdGVzdA"
USER, PASSWORD = "monitor", "monitor-secret"
"""The user of the second listener, with PLAIN and with SCRAM."""

SETTINGS: dict[str, Any] = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
    "auto.create.topics.enable": "false",
    # A group forms at once, a lost member is noticed soon, and a killed broker is readmitted soon.
    "group.initial.rebalance.delay.ms": 100,
    "group.min.session.timeout.ms": 1000,
    "broker.heartbeat.interval.ms": 200,
    "broker.session.timeout.ms": 3000,
    # One process, a few topics: no replication and few threads.
    "offsets.topic.replication.factor": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "num.network.threads": 2,
    "num.io.threads": 2,
    "num.replica.alter.log.dirs.threads": 1,
    "num.recovery.threads.per.data.dir": 1,
    "background.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "log.index.size.max.bytes": 1_048_576,
}


class Broker:
    """Apache Kafka in `folder`.

    `address` is its plain listener, `secure` the one with SASL and TLS, which needs an authority. Ports and data stay
    the same over a restart. `settings` override `SETTINGS`.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any] | None = None,
        *,
        authority: Authority | None = None,
        port: int | None = None,
        heap_mb: int = 384,
    ) -> None:
        self.folder = folder = folder.resolve()
        self.data, self.log = folder / "data", folder / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._settings, self._heap_mb, self._authority = dict(settings or {}), heap_mb, authority
        plain, controller, secure = free_port(), free_port(), free_port()
        self._controller = f"127.0.0.1:{controller}"
        self.address = f"127.0.0.1:{port or plain}"
        self.secure = f"127.0.0.1:{secure}" if authority is not None else None

    def start(self) -> Self:
        """Start it, and return when it answers. In a new folder it formats the storage first."""
        return self._start(_jars(), f"-XX:SharedArchiveFile={_ARCHIVE}")

    def _start(self, jars: Path, archive: str) -> Self:
        # Names relative to the jars' folder, where it starts: the archive of classes is valid for such names only.
        java = [require("java", "default-jre-headless"), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        properties = self.folder / "server.properties"
        if not self.data.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            lines = [f"{name}={value}" for name, value in self._properties().items()]
            properties.write_text("\n".join(lines) + "\n")
            users = [f"{kind}=[name={USER},password={PASSWORD}]" for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512")]
            scram = [word for user in users for word in ("--add-scram", user) if self._authority]
            tool = [f"-XX:SharedArchiveFile={_ARCHIVE}", "-cp", "*", "kafka.tools.StorageTool", "format"]
            self._run([*java, *tool, "-t", _CLUSTER, "-c", str(properties), *scram], jars)
        options = [archive, f"-Xmx{self._heap_mb}m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command = [*java, *options, "-cp", "*", "kafka.Kafka", str(properties)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=jars, stdout=log, stderr=log)
        try:
            wait_until(self._answers, 90, "Kafka's answer")
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, seconds: float = 20.0) -> None:
        """Stop it in order (SIGTERM), or by force after `seconds` times `PATIENCE`."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds * PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """Send SIGKILL. Acknowledged data is on disk or in the page cache."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)

    def suspend(self) -> None:
        """Send SIGSTOP: connections stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def restart(self) -> Self:
        self.stop()
        return self.start()

    @contextlib.contextmanager
    def admin(self) -> Iterator[Any]:
        """Yield kafka-python's admin client."""
        from kafka import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=self.address, client_id="tests")
        try:
            yield client
        finally:
            client.close()

    def create_topics(self, *names: str, partitions: int = 3, **configs: str) -> None:
        """Create topics; return when every partition has a leader. `configs` are the topics' own, with `_` for `.`."""
        options = {"num_partitions": partitions, "replication_factor": 1}
        if configs:
            options["configs"] = {name.replace("_", "."): value for name, value in configs.items()}
        with self.admin() as admin:
            admin.create_topics(dict.fromkeys(names, options), wait_for_metadata=True)
        for name in names:  # the metadata arrive a moment before the partitions accept anything
            wait_until(lambda name=name: len(self.end_offsets(name)) == partitions, 20, f"the partitions of {name}")

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the offset that the next message of each partition will get."""
        from kafka import TopicPartition
        from kafka.admin import OffsetSpec

        with self.admin() as admin:
            (described,) = admin.describe_topics([topic])
            wanted = {
                TopicPartition(topic, one["partition_index"]): OffsetSpec.LATEST for one in described["partitions"]
            }
            return {at.partition: found.offset for at, found in admin.list_partition_offsets(wanted).items()}

    def group_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Return the offsets that `group` has committed, by topic and partition."""
        with self.admin() as admin:
            found = admin.list_group_offsets(group)[group]
        return {(at.topic, at.partition): one.offset for at, one in found.items() if one.offset >= 0}

    def segment(self, topic: str, partition: int = 0) -> Path:
        """Return the file with the messages of a partition, while there is only one."""
        (found,) = (self.data / f"{topic}-{partition}").glob("*.log")
        return found

    def _properties(self) -> dict[str, Any]:
        listeners = [f"PLAINTEXT://{self.address}", f"CONTROLLER://{self._controller}"]
        secure: dict[str, Any] = {}
        if self._authority is not None:
            listeners.append(f"SECURE://{self.secure}")
            certificate, key = self._authority.issue("kafka")
            (self.folder / "kafka.keystore.pem").write_text(key.read_text() + certificate.read_text())
            module = "org.apache.kafka.common.security"
            plain = f'{module}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            secure = {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": self.folder / "kafka.keystore.pem",
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": self._authority.ca,
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "listener.name.secure.ssl.client.auth": "requested",
                "listener.name.secure.plain.sasl.jaas.config": plain,
                "listener.name.secure.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
                "listener.name.secure.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            }
        return {
            **SETTINGS,
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(one for one in listeners if not one.startswith("CONTROLLER")),
            "log.dirs": self.data,
            **secure,
            **self._settings,
        }

    def _run(self, command: list[str], jars: Path) -> None:
        done = subprocess.run(command, cwd=jars, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.fail(f"Kafka's storage could not be formatted:\n{(done.stdout + done.stderr)[-2000:]}")

    def _answers(self) -> bool:
        from kafka.errors import KafkaError

        assert self.process is not None
        if self.process.poll() is not None:
            pytest.fail(f"Kafka ended with {self.process.returncode}:\n{self.log.read_text()[-3000:]}")
        host, _, port = self.address.partition(":")
        try:
            # Checked by hand first: the client waits for its whole timeout if nobody listens yet.
            socket.create_connection((host, int(port)), timeout=1).close()
            with self.admin() as admin:
                admin.list_group_offsets("nobody")  # it coordinates groups too, once it has created the topic for that
        except (OSError, KafkaError):
            return False
        return True

    def _signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()


def _jars() -> Path:
    def make(folder: Path) -> None:
        maven = require("mvn", "maven")
        shutil.copy(_POM, folder)
        command = [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        cache.run("Apache Kafka", command, cwd=folder)
        # The first start writes the archive of the loaded classes; every later one takes half the time.
        first = Broker(folder / "first")
        first._start(folder, f"-XX:ArchiveClassesAtExit={_ARCHIVE}")
        first.stop(60)
        shutil.rmtree(first.folder)

    return cache.made_once("kafka", _POM, make)
