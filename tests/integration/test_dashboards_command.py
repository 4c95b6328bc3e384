"""`rag-monitor dashboards install`: the dashboards arrive in Grafana once, and what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from monitor.operations import dashboards as operation
from monitor.operations.dashboards import FOLDER_UID, boards
from tests.support.command import command
from tests.support.grafana import PROMETHEUS, Grafana
from tests.support.http_api import HttpApi, Says
from tests.support.paths import ROOT

BOARDS = {one.stem: json.loads(one.read_text()) for one in (ROOT / "grafana" / "dashboards").glob("*.json")}
UIDS = {one["uid"] for one in BOARDS.values()}
TOKEN = "glsa_secret"


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRAFANA_TOKEN", raising=False)


def install(grafana: Grafana | HttpApi | str, *arguments: object) -> Result:
    url = grafana if isinstance(grafana, str) else grafana.url
    return command("dashboards", "install", "--url", url, *arguments)


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    return result.stderr


def test_all_dashboards_arrive_in_their_folder_as_they_are_in_the_files() -> None:
    with Grafana() as grafana:
        result = install(grafana)
        assert result.exit_code == 0, result.output
        assert result.stdout.count("created ") == len(BOARDS) == 6
        assert f"created    RAG quality / Overview  {grafana.url}/d/ragmonitor-overview" in result.stdout
        assert grafana.folders == {FOLDER_UID: "RAG quality"}
        assert {one["folder"] for one in grafana.boards.values()} == {FOLDER_UID}
        assert grafana.boards.keys() == UIDS
        for board in BOARDS.values():
            saved = grafana.boards[board["uid"]]["dashboard"]
            assert {key: saved[key] for key in board} == board


@pytest.mark.parametrize("options", [{}, {"old": True}, {"migrates": True}, {"old": True, "migrates": True}])
def test_a_second_run_changes_nothing_and_says_so(options: dict[str, Any]) -> None:
    with Grafana(**options) as grafana:
        install(grafana)
        before = list(grafana.writes)
        again = install(grafana)
        assert again.exit_code == 0, again.output
        assert again.stdout.count("unchanged ") == 6
        assert again.stdout.splitlines()[-1] == "nothing to change"
        assert grafana.writes == before


def test_a_new_version_of_a_dashboard_replaces_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with Grafana() as grafana:
        install(grafana)
        newer = [{**one, "description": "newer"} if one["uid"] == "ragmonitor-judge" else one for one in boards()]
        monkeypatch.setattr("monitor.cli.dashboards.boards", lambda: newer)
        result = install(grafana)
        assert result.stdout.count("unchanged ") == 5
        assert "updated    RAG quality / Judge" in result.stdout
        saved = grafana.boards["ragmonitor-judge"]["dashboard"]
        assert (saved["description"], saved["version"]) == ("newer", 2)


def test_what_people_changed_is_replaced_only_by_force_and_nothing_else_is_changed_before() -> None:
    with Grafana() as grafana:
        install(grafana)
        grafana.edit("ragmonitor-quality", "Mine")
        grafana.boards.pop("ragmonitor-judge")
        before = list(grafana.writes)
        assert "was changed in Grafana, or comes from elsewhere: --force replaces it" in refused(install(grafana))
        assert grafana.writes == before, "also the missing one is not created yet"
        forced = install(grafana, "--force")
        assert forced.exit_code == 0, forced.output
        assert grafana.boards["ragmonitor-quality"]["dashboard"]["title"] == "RAG quality / Quality"


def test_another_folder_is_found_by_its_title_or_created() -> None:
    with Grafana(folders={"abc": "Platform", "def": "Other"}) as grafana:
        assert install(grafana, "--folder", "Platform").exit_code == 0
        assert {one["folder"] for one in grafana.boards.values()} == {"abc"}
        assert "nothing to change" in install(grafana, "--folder", "Platform").stdout
        assert install(grafana, "--folder", "New").exit_code == 0
        assert {grafana.folders[one["folder"]] for one in grafana.boards.values()} == {"New"}
        assert len(grafana.boards) == 6


def test_a_folder_that_was_renamed_is_kept() -> None:
    with Grafana() as grafana:
        install(grafana)
        grafana.folders[FOLDER_UID] = "Answers"
        assert "nothing to change" in install(grafana).stdout
        assert grafana.folders == {FOLDER_UID: "Answers"}


def _sources(grafana: Grafana) -> set[str]:
    found = set()
    for one in grafana.boards.values():
        (source,) = (v for v in one["dashboard"]["templating"]["list"] if v["type"] == "datasource")
        found.add(source["current"]["value"])
    return found


def test_the_only_prometheus_is_taken_and_said() -> None:
    sources = [{"uid": "p1", "name": "Metrics", "type": "prometheus"}, {"uid": "l1", "name": "Logs", "type": "loki"}]
    with Grafana(sources=sources) as grafana:
        result = install(grafana)
        assert "queries 'Metrics' (p1), the only Prometheus here" in result.stderr
        assert _sources(grafana) == {"p1"}


def test_of_several_one_must_be_chosen() -> None:
    sources = [{"uid": uid, "name": uid.upper(), "type": "prometheus"} for uid in ("p1", "p2")]
    with Grafana(sources=sources) as grafana:
        said = refused(install(grafana))
        assert "choose one with --datasource. Prometheus data sources: p1 ('P1'), p2 ('P2')" in said
        assert not grafana.writes
        assert install(grafana, "--datasource", "p2").exit_code == 0
        assert _sources(grafana) == {"p2"}


@pytest.mark.parametrize("uid", ["missing", "../admin", "a/b?c"])
def test_a_data_source_that_is_not_there_is_an_error(uid: str) -> None:
    with Grafana() as grafana:
        said = refused(install(grafana, "--datasource", uid))
        assert f"there is no data source {uid!r}" in said
        assert "ragmonitor-prometheus ('rag-monitor')" in said


def test_a_data_source_of_another_kind_is_an_error() -> None:
    with Grafana(sources=[PROMETHEUS, {"uid": "logs", "name": "Logs", "type": "loki"}]) as grafana:
        assert "is of type 'loki', not a Prometheus" in refused(install(grafana, "--datasource", "logs"))


def test_a_token_that_may_not_see_data_sources_installs_all_the_same() -> None:
    with Grafana(says={"GET /api/datasources.*": Says(403, {"message": "denied"})}) as grafana:
        result = install(grafana, "--datasource", "p9")
        assert result.exit_code == 0, result.output
        assert "may not read data sources" in result.stderr
        assert _sources(grafana) == {"p9"}


def test_the_token_comes_from_the_variable_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with Grafana(token=TOKEN) as grafana:
        assert "needs a token: create a service account with the role Editor" in refused(install(grafana))
        monkeypatch.setenv("GRAFANA_TOKEN", "wrong")
        said = refused(install(grafana))
        assert "does not accept the token" in said
        assert "wrong" not in said
        monkeypatch.setenv("OURS", TOKEN)
        result = install(grafana, "--token-env", "OURS")
        assert result.exit_code == 0, result.output
        assert TOKEN not in result.output


FAULTS = {
    "no permission": (
        {"POST /api/dashboards/db": Says(403, {"message": "You'll need additional permissions"})},
        "cannot be saved: 403, Grafana says: You'll need additional permissions. The token needs the role Editor",
    ),
    "no permission for folders": (
        {"POST /api/folders": Says(403, {"message": "Permission denied"})},
        "the folder 'RAG quality' cannot be created: 403",
    ),
    "changed meanwhile": (
        {"POST /api/dashboards/db": Says(412, {"message": "changed by someone else", "status": "version-mismatch"})},
        "Someone has just changed it in Grafana: run the command again",
    ),
    "a title twice": (
        {"POST /api/dashboards/db": Says(412, {"message": "same name exists", "status": "name-exists"})},
        "Another dashboard has this title in the folder",
    ),
    "provisioned": (
        {"POST /api/dashboards/db": Says(400, {"message": "Cannot save provisioned dashboard"})},
        "it is provisioned from a file: update that file",
    ),
    "broken": (
        {"POST /api/dashboards/db": Says(500, content=b"<html>\x1b[2J")},
        "cannot be saved: 500, Grafana says: nothing that could be read",
    ),
    "a folder that is no JSON": ({"POST /api/folders": Says(content=b"hello")}, "not a JSON object"),
    "a dashboard that is a list": ({"GET /api/dashboards/uid/[^/]+": Says(data=[])}, "not a JSON object"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_refusal_says_what_grafana_says_and_what_to_do(fault: str) -> None:
    says, expected = FAULTS[fault]
    with Grafana(says=says) as grafana:
        said = refused(install(grafana))
        assert expected in said
        assert "\x1b" not in said


def test_a_provisioned_dashboard_is_told_before_anything_is_changed() -> None:
    with Grafana() as grafana:
        install(grafana)
        grafana.boards["ragmonitor-safety"] |= {"provisioned": True}
        before = list(grafana.writes)
        assert "is provisioned from a file (overview.json)" in refused(install(grafana, "--force"))
        assert grafana.writes == before


def test_what_is_no_grafana_is_told_so() -> None:
    for other in (Says(data={"status": "ok"}), Says(content=b"hello"), Says(404), Says(data=[1])):
        with HttpApi(other) as api:
            assert "is not Grafana: /api/health responds with" in refused(install(api))
            assert [one.path for one in api.asked] == ["/api/health"]


def test_a_redirect_is_not_followed_and_takes_no_token_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAFANA_TOKEN", TOKEN)
    with Grafana() as other, HttpApi(Says(301, headers={"location": f"{other.url}/api/health"})) as api:
        assert f"redirects to {other.url}/api/health: redirects are not followed" in refused(install(api))
        assert other.api.asked == []


def test_where_nothing_listens_the_reason_is_said() -> None:
    with HttpApi() as api:
        pass
    assert "Connection refused" in refused(install(api))


@pytest.mark.parametrize(
    "url", ["ftp://grafana", "http://admin:secret@grafana", "http://169.254.169.254", "http://grafana?x=1", "grafana"]
)
def test_an_address_that_cannot_be_meant_is_refused_without_a_call(url: str) -> None:
    result = install(url)
    assert result.exit_code == 2
    assert result.stderr.startswith("url: ")
    assert "secret" not in result.stderr


def test_an_installed_package_has_them_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a wheel is recorded: `test_package.py` shows that it holds them there."""
    folder = tmp_path / "share" / "rag-monitor" / "dashboards"
    folder.mkdir(parents=True)
    (folder / "judge.json").write_text(json.dumps(BOARDS["judge"]))
    (folder / "kustomization.yaml").write_text("x")
    site = tmp_path / "lib" / "python3.12" / "site-packages"
    info = site / "rag_monitor-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rag-monitor\nVersion: 0.1.0\n")
    names = ("judge.json", "kustomization.yaml")
    (info / "RECORD").write_text("".join(f"../../../share/rag-monitor/dashboards/{name},,\n" for name in names))
    distribution = operation.metadata.PathDistribution(info)
    monkeypatch.setattr(operation.metadata, "files", lambda _name: distribution.files)
    monkeypatch.setattr(operation, "__file__", str(site / "monitor" / "operations" / "dashboards.py"))
    assert boards() == [BOARDS["judge"]]
    (info / "RECORD").write_text("")
    with pytest.raises(operation.MonitorError, match="they come with the wheel and with a checkout"):
        boards()
