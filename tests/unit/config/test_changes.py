"""What differs between two readings of the configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.config import Loaded
from monitor.config.changes import changes, fingerprint, needing_restart
from monitor.errors import ConfigError


def read(folder: Path, data: dict[str, Any]) -> Loaded:
    (folder / "config.yaml").write_text(yaml.safe_dump(data))
    return Loaded.read(folder / "config.yaml")


@pytest.mark.parametrize(
    ("before", "after", "places"),
    [
        ({}, {}, []),
        ({"slices": ["a"]}, {"slices": ["b"]}, ["slices[0]"]),
        ({"slices": ["a"]}, {"slices": ["a", "b"]}, ["slices"]),
        ({}, {"sampling": {"traces": 0.5}}, ["sampling"]),
        ({"sampling": {"traces": 0.5}}, {"sampling": {"traces": "50%"}}, ["sampling.traces"]),
        ({"judge": {"model": "openai/a", "api_key": "one"}}, {"judge": {"model": "openai/a", "api_key": "two"}},
         ["judge.api_key"]),
    ],
)  # fmt: skip
def test_changes_are_named_by_their_places_and_never_by_their_values(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], places: list[str]
) -> None:
    assert changes(read(tmp_path, before), read(tmp_path, after)) == places


def test_comments_and_the_order_of_keys_are_no_change(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("slices: [a]\nsampling: {traces: 50%}\n")
    before = Loaded.read(file)
    file.write_text("# new\nsampling:\n  traces: 50%\nslices:\n- a\n")
    assert changes(before, Loaded.read(file)) == []
    assert fingerprint(file, before) != before.fingerprint


def test_a_rubric_that_the_file_names_is_a_part_of_it(tmp_path: Path) -> None:
    rubric = tmp_path / "tone.md"
    shipped = Path("monitor/evaluators/rubrics/coherence.md").read_text()
    rubric.write_text(shipped.replace("name: coherence", "name: tone"))
    data = {"evaluators": [{"type": "rubric", "file": "tone.md", "optional": True}]}
    before = read(tmp_path, data)
    assert fingerprint(tmp_path / "config.yaml", before) == before.fingerprint
    rubric.write_text(rubric.read_text() + "\nBe kind.\n")
    assert changes(before, read(tmp_path, data)) == ["evaluators[0].file"]
    assert fingerprint(tmp_path / "config.yaml", before) != before.fingerprint


def test_more_than_twenty_changes_are_counted(tmp_path: Path) -> None:
    before = read(tmp_path, {})
    after = before._replace(data={f"key{number}": 1 for number in range(30)})
    assert changes(before, after)[20:] == ["10 more"]


HTTP, GRPC = {"type": "otlp_http"}, {"type": "otlp_grpc"}


@pytest.mark.parametrize(
    ("after", "places"),
    [
        ({"sources": [HTTP, GRPC], "slices": ["a"]}, []),
        ({"sources": [{**HTTP, "max_spans": 5, "auth": {"token": "t"}}, GRPC]}, []),
        ({"sources": [{**HTTP, "port": 1}, GRPC]}, ["sources[0].port"]),
        ({"sources": [HTTP, {**GRPC, "max_connections": 5, "idle_timeout": "1m"}]},
         ["sources[1].idle_timeout", "sources[1].max_connections"]),
        ({"sources": [HTTP]}, ["sources (a server was added, removed or moved)"]),
        ({"sources": [GRPC, HTTP]}, ["sources (a server was added, removed or moved)"]),
        ({"sources": [HTTP, GRPC, {"type": "kafka", "brokers": ["k:9092"]}]}, []),
        ({"sources": [HTTP, GRPC], "storage": {"path": "/x", "retention": "1d"}}, ["storage.path"]),
        ({"sources": [HTTP, GRPC], "limits": {"memory": "1GiB"}}, ["limits.memory"]),
        ({"sources": [HTTP, GRPC], "sinks": [{"type": "prometheus", "host": "::1"}]}, ["sinks[0].host"]),
        ({"sources": [HTTP, GRPC], "sinks": []}, ["sinks (a server was added, removed or moved)"]),
    ],
)  # fmt: skip
def test_what_needs_a_restart_is_named(tmp_path: Path, after: dict[str, Any], places: list[str]) -> None:
    before = read(tmp_path, {"sources": [HTTP, GRPC]})
    assert needing_restart(before.config, read(tmp_path, after).config) == places


def test_a_file_that_cannot_be_read_is_an_error_and_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    before = read(tmp_path, {})
    (tmp_path / "config.yaml").unlink()
    assert fingerprint(tmp_path / "config.yaml", before) != before.fingerprint
    with pytest.raises(ConfigError, match="cannot be read"):
        Loaded.read(tmp_path / "config.yaml")
