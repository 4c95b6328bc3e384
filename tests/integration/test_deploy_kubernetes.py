"""deploy/kubernetes and deploy/helm: rendered by the real tools, valid by everybody's schemas, and the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from monitor.cli.main import app
from tests.support import kubernetes
from tests.support.kubernetes import CHART, ROOT, VERSIONS, Manifest, documents

FOLDERS = {"standalone": "base", "sidecar": "overlays/sidecar", "fleet": "overlays/fleet"}
TOOLS = ("kustomize", "helm")
SHAPES = pytest.mark.parametrize("shape", FOLDERS)
BY = pytest.mark.parametrize("tool", TOOLS)
DRAIN = 10  # seconds, as `rag-monitor run --help` promises

# What differs between the two: Helm says which release an object is of, and instead of a name with a hash of the
# content, the pods have an annotation with one. The sidecar's component finds its Deployments by a label.
OF_HELM = ("instance", "version", "managed-by")
DIFFERENT = {
    *(f"app.kubernetes.io/{one}" for one in OF_HELM),
    "helm.sh/chart",
    "checksum/config",
    "rag-monitor/sidecar",
}
HASHED = re.compile(r"(rag-monitor)-[a-z0-9]{10}")


@cache
def text(shape: str, tool: str = "helm") -> str:
    if tool == "kustomize":
        return kubernetes.kustomize(ROOT / "deploy" / "kubernetes" / FOLDERS[shape])
    return kubernetes.template(*([] if shape == "standalone" else ["-f", str(CHART / f"values-{shape}.yaml")]))


def rendered(shape: str, tool: str = "helm") -> list[Manifest]:
    return documents(text(shape, tool))


def of_kind(manifests: list[Manifest], kind: str) -> Manifest:
    (found,) = (one for one in manifests if one["kind"] == kind)
    return found


def workload(manifests: list[Manifest]) -> Manifest:
    (found,) = (one for one in manifests if one["kind"] in ("Deployment", "StatefulSet"))
    return found


def pod(manifests: list[Manifest]) -> dict[str, Any]:
    found: dict[str, Any] = workload(manifests)["spec"]["template"]["spec"]
    return found


def the_monitor(manifests: list[Manifest]) -> dict[str, Any]:
    spec = pod(manifests)
    (found,) = (one for one in spec["containers"] + spec.get("initContainers", []) if one["name"] == "rag-monitor")
    return dict(found)


def configuration(manifests: list[Manifest]) -> str:
    name = re.compile(r"rag-monitor(-[a-z0-9]{10})?")
    (found,) = (one for one in manifests if one["kind"] == "ConfigMap" and name.fullmatch(one["metadata"]["name"]))
    return str(found["data"]["config.yaml"])


@BY
@SHAPES
@pytest.mark.parametrize("version", VERSIONS)
def test_every_manifest_is_valid_in_the_oldest_and_the_newest_kubernetes(shape: str, tool: str, version: str) -> None:
    assert kubernetes.faults(text(shape, tool), version) == []


@pytest.mark.parametrize(
    ("shape", "right", "wrong"),
    [
        ("standalone", "fsGroup: ", "fsgroup: "),
        ("standalone", "maxSkew: 1", "maxSkew: some"),
        ("fleet", "minReplicaCount: ", "minReplicas: "),
        ("fleet", "podMetricsEndpoints:", "endpoints:"),
        ("fleet", "record: ", "recording: "),
    ],
)
def test_a_slip_in_a_manifest_would_be_found(shape: str, right: str, wrong: str) -> None:
    spoilt = text(shape, "kustomize").replace(right, wrong)
    assert spoilt != text(shape, "kustomize")
    assert kubernetes.faults(spoilt, VERSIONS[-1])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("template", ["argo-rollouts/analysis-template.yaml", "flagger/metric-template.yaml"])
def test_the_templates_of_the_release_gate_hold_to_their_operators_schemas(template: str, version: str) -> None:
    text = (ROOT / "deploy" / template).read_text()
    assert kubernetes.faults(text, version) == []
    assert kubernetes.faults(text.replace("  provider:", "  provided:"), version) != []


@SHAPES
def test_the_chart_renders_what_kustomize_builds(shape: str) -> None:
    def same(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: same(one) for key, one in value.items() if key not in DIFFERENT}
            return {key: one for key, one in kept.items() if (key, one) != ("annotations", {})}
        if isinstance(value, list):
            return [same(one) for one in value]
        return HASHED.sub(r"\1", value) if isinstance(value, str) and HASHED.fullmatch(value) else value

    def by_name(tool: str) -> dict[tuple[str, str], Any]:
        return {(one["kind"], one["metadata"]["name"]): one for one in map(same, rendered(shape, tool))}

    built, templated = by_name("kustomize"), by_name("helm")
    assert set(built) == set(templated)
    for which, manifest in built.items():
        assert manifest == templated[which], which


def test_the_chart_has_nothing_that_helm_lint_objects_to() -> None:
    for values in ([], ["-f", str(CHART / "values-fleet.yaml")], ["-f", str(CHART / "values-sidecar.yaml")]):
        linted = kubernetes.helm("lint", "--strict", str(CHART), *values)
        assert linted.returncode == 0, linted.stdout + linted.stderr


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ("mode=deployment", "/mode"),
        ("image.repo=mine", "/image"),
        ("image.repository=mine@sha256:00", "/image/repository"),
        ("image.digest=latest", "/image/digest"),
        ("networkpolicy.enabled=false", "networkpolicy"),
        ("networkPolicy.kafkaPorts[0]=70000", "/networkPolicy/kafkaPorts/0"),
        ("storage.size=lots", "/storage/size"),
        ("kafka.brokers=kafka", "/kafka/brokers"),
        ("scaling.maxReplicas=0", "/scaling/maxReplicas"),
        ("mode=fleet,scaling.minReplicas=7", "scaling.minReplicas"),
        ("existingSecret=My_Secret", "/existingSecret"),
        ("resources.limit.memory=1Gi", "/resources"),
        ("replicas=two", "/replicas"),
        ("files.config\\.yaml=x", "config.yaml"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(setting: str, named: str) -> None:
    refused = kubernetes.helm("template", "rag-monitor", str(CHART), "--set", setting)
    assert refused.returncode != 0
    assert named in refused.stderr


@SHAPES
def test_the_configuration_is_one_that_the_monitor_takes(
    shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in the_monitor(rendered(shape)).get("env", []):
        monkeypatch.setenv(variable["name"], variable["value"])
    (tmp_path / "config.yaml").write_text(configuration(rendered(shape)))
    checked = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "config.yaml")])
    assert checked.exit_code == 0, checked.output
    assert "Keeps its state in /var/lib/rag-monitor" in checked.stdout


@SHAPES
def test_the_judge_takes_its_key_from_the_secret(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines that the configuration has as a comment work when they are taken in."""
    before, _, judge = configuration(rendered(shape)).partition("# judge:")
    (tmp_path / "config.yaml").write_text(before + re.sub(r"(?m)^# ?", "", "# judge:" + judge))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-example")
    monkeypatch.setenv("KAFKA_BROKERS", "kafka:9092")
    checked = CliRunner().invoke(app, ["check", "-c", str(tmp_path / "config.yaml")])
    assert checked.exit_code == 0, checked.output
    assert "groundedness is off" not in checked.stdout


@BY
@SHAPES
def test_the_monitor_runs_with_no_more_rights_than_it_needs(shape: str, tool: str) -> None:
    manifests = rendered(shape, tool)
    container = the_monitor(manifests)
    context = {**pod(manifests).get("securityContext", {}), **container["securityContext"]}
    assert context["runAsNonRoot"]
    assert context["runAsUser"] == context["runAsGroup"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context["readOnlyRootFilesystem"]
    assert not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert not any("key" in str(one).lower() for one in container.get("env", []))
    if shape != "sidecar":  # else the pod is the service's
        assert pod(manifests)["automountServiceAccountToken"] is False
        assert of_kind(manifests, "ServiceAccount")["automountServiceAccountToken"] is False


@BY
@SHAPES
def test_what_the_monitor_writes_is_on_a_volume(shape: str, tool: str) -> None:
    manifests = rendered(shape, tool)
    claims = workload(manifests)["spec"].get("volumeClaimTemplates", [])
    volumes = {one["name"] for one in pod(manifests)["volumes"]} | {one["metadata"]["name"] for one in claims}
    mounts = {one["mountPath"]: one["name"] for one in the_monitor(manifests)["volumeMounts"]}
    assert set(mounts.values()) <= volumes
    assert set(mounts) == {"/etc/rag-monitor", "/var/lib/rag-monitor", "/tmp"}
    assert bool(claims) == (shape == "standalone")


@BY
@SHAPES
def test_a_pod_is_given_the_time_that_draining_takes(shape: str, tool: str) -> None:
    manifests = rendered(shape, tool)
    before = the_monitor(manifests).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    service = 30 if shape == "sidecar" else 0  # Kubernetes' default, for the service that stops first
    assert pod(manifests)["terminationGracePeriodSeconds"] > service + before + DRAIN


@BY
def test_a_sidecar_that_is_ill_never_takes_its_service_out_of_service(tool: str) -> None:
    manifests = rendered("sidecar", tool)
    container = the_monitor(manifests)
    assert container in pod(manifests)["initContainers"]
    assert container["restartPolicy"] == "Always"
    assert container["startupProbe"]["httpGet"]["path"] == "/-/ready"
    assert "readinessProbe" not in container
    assert "limits" in container["resources"]
    (volume,) = (one for one in pod(manifests)["volumes"] if one["name"] == "rag-monitor-state")
    assert volume["emptyDir"] == {}  # one with a limit would evict the service with it
    listening = yaml.safe_load(configuration(manifests))["sources"]
    assert listening == [{"type": "otlp_grpc"}, {"type": "otlp_http"}]  # on localhost, their default


def test_the_scaler_watches_what_the_monitor_reads() -> None:
    manifests = rendered("fleet")
    (trigger,) = of_kind(manifests, "ScaledObject")["spec"]["triggers"]
    (source,) = yaml.safe_load(configuration(manifests))["sources"]
    asked = trigger["metadata"]
    assert asked["consumerGroup"] == source["group"]
    assert [asked["topic"]] == list(source["topics"])
    named = [one["name"] for one in the_monitor(manifests)["env"]]
    assert asked["bootstrapServersFromEnv"] in named
    assert source["brokers"] == f"${{{asked['bootstrapServersFromEnv']}}}"
    known = kubernetes.scaler("kafka")
    for key in asked:
        parameter = known[key.removesuffix("FromEnv")]
        assert parameter["envVariableReadable" if key.endswith("FromEnv") else "metadataVariableReadable"], key


def selectors(manifest: Manifest) -> Iterator[dict[str, str]]:
    spec = manifest.get("spec", {})
    if manifest["kind"] == "Service":
        yield spec["selector"]
    for key in ("selector", "podSelector"):
        if "matchLabels" in spec.get(key, {}):
            yield spec[key]["matchLabels"]


@BY
@SHAPES
def test_every_selector_and_every_port_finds_the_pods(shape: str, tool: str) -> None:
    manifests = rendered(shape, tool) if tool == "kustomize" else other_name(shape)
    labels = workload(manifests)["spec"]["template"]["metadata"]["labels"]
    named = {one["name"] for one in the_monitor(manifests)["ports"]}
    for manifest in manifests:
        for selector in selectors(manifest):
            assert selector.items() <= labels.items(), manifest["kind"]
    for service in (one for one in manifests if one["kind"] == "Service"):
        assert {one["targetPort"] for one in service["spec"]["ports"]} <= named
    for policy in (one for one in manifests if one["kind"] == "NetworkPolicy"):
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == named


def other_name(shape: str) -> list[Manifest]:
    """The chart as a release of another name, which some cluster has three of."""
    values = [] if shape == "standalone" else ["-f", str(CHART / f"values-{shape}.yaml")]
    return documents(kubernetes.template(*values, name="shop"))


@SHAPES
def test_a_release_of_another_name_finds_what_it_names(shape: str) -> None:
    manifests = other_name(shape)
    made = {(one["kind"], one["metadata"]["name"]) for one in manifests}
    spec = pod(manifests)
    for volume in (one for one in spec["volumes"] if "configMap" in one):
        assert ("ConfigMap", volume["configMap"]["name"]) in made
    if shape != "sidecar":
        assert ("ServiceAccount", spec["serviceAccountName"]) in made
    if shape == "fleet":
        assert ("Deployment", of_kind(manifests, "ScaledObject")["spec"]["scaleTargetRef"]["name"]) in made
    if shape == "standalone":
        assert ("Service", workload(manifests)["spec"]["serviceName"]) in made
    assert all(name.startswith("shop-rag-monitor") for _, name in made - {("Deployment", "rag-service")})
