"""Installs the dashboards in a folder of Grafana, over the HTTP API that every version from 10 on has.

These are `/api/folders`, `/api/dashboards/db` and `/api/dashboards/uid`; the newer `/apis/...` began with Grafana 12.
A dashboard keeps its uid, so a second run changes nothing. People's changes in Grafana are replaced only with `force`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from monitor import __version__
from monitor.alerts.prometheus.grafana_rules import DATASOURCE, FOLDER
from monitor.errors import ConfigError, MonitorError
from monitor.transport.http.client import FetchedResponse, HttpClient, receiver_address

FOLDER_UID: Final = "ragmonitor"
"""The uid of the default folder, as in `grafana/provisioning`."""

_TIMEOUT: Final = 30.0
_PAGE: Final = 1000  # folders in one answer
_PAGES: Final = 20
_SHOWN: Final = 300  # characters of what Grafana says
_OURS: Final = "rag-monitor "  # begins the message of each version saved from here
_REDIRECTS: Final = range(300, 400)


class BoardChange(StrEnum):
    """What happened to a dashboard."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class InstalledBoard:
    """A dashboard in Grafana, and its address."""

    title: str
    change: BoardChange
    url: str


@dataclass(frozen=True, slots=True)
class _BoardStep:
    """What to do with one dashboard. `known` is Grafana's current one, with its id and version."""

    board: dict[str, Any]
    change: BoardChange
    known: Mapping[str, Any]


def boards() -> list[dict[str, Any]]:
    """Return the dashboards of the checkout in which this runs, or those installed with the package.

    Raises `MonitorError` if there are none.
    """
    checkout = Path(__file__).parents[2] / "grafana" / "dashboards"
    files = sorted(checkout.glob("*.json"))
    if not files:
        try:
            installed = metadata.files("rag-monitor") or []
        except metadata.PackageNotFoundError:
            installed = []
        shared = [one for one in installed if one.match("share/rag-monitor/dashboards/*.json")]
        files = sorted(Path(str(one.locate())) for one in shared)
    if not files:
        raise MonitorError("the dashboards are not installed: they come with the wheel and with a checkout")
    return [json.loads(one.read_bytes()) for one in files]


class Grafana:
    """Installs dashboards in one Grafana. Follows no redirects and uses no proxy.

    `token` is that of a service account; `ca_file` as in `HttpClient`. Raises `ConfigError` if the address, the token
    or the file cannot work; its methods raise `MonitorError` that says what is wrong and how to fix it.
    """

    def __init__(self, url: str, *, token: str = "", ca_file: Path | None = None) -> None:
        try:
            self.url = receiver_address(url)
        except ValueError as error:
            raise ConfigError(f"url: {error}") from None
        self._has_token = bool(token)
        self._client = HttpClient(self.url, token=token, ca_file=ca_file, timeout=_TIMEOUT)

    def install(
        self, made: Sequence[Mapping[str, Any]], *, folder: str = FOLDER, datasource: str, force: bool = False
    ) -> Iterator[InstalledBoard]:
        """Bring dashboards up to date in the folder of that title, and yield each. Checks all before changing any.

        `datasource` is the uid of their initial data source. `force` replaces what people changed in Grafana.
        """
        place = self._folder(folder)
        steps = [self._step(_with_source(one, datasource), place, force=force) for one in made]
        if place is None and any(step.change is not BoardChange.UNCHANGED for step in steps):
            place = self._new_folder(folder)
        for step in steps:
            if step.change is not BoardChange.UNCHANGED:
                self._save(step, place or "", force=force)
            yield InstalledBoard(str(step.board["title"]), step.change, f"{self.url}/d/{step.board['uid']}")

    def check(self) -> str:
        """Return the version of Grafana; empty if it does not say."""
        reply = self._send("/api/health")
        told = _document(reply)
        if reply.status != HTTPStatus.OK or not isinstance(told, dict) or "database" not in told:
            raise MonitorError(
                f"{self.url} is not Grafana: /api/health responds with {reply.status}, not as Grafana does"
            )
        return str(told.get("version", ""))

    def data_source(self, uid: str | None) -> tuple[str, str]:
        """Return the uid of the Prometheus data source to query, and a note on how it was chosen, which may be empty.

        None: the one with the uid of `grafana/provisioning`, or the only one there is.
        """
        wanted = uid or DATASOURCE
        reply = self._send(f"/api/datasources/uid/{quote(wanted, safe='')}")
        if reply.status == HTTPStatus.OK:
            kind = _object(reply).get("type")
            if "prometheus" not in str(kind):
                raise MonitorError(f"the data source {wanted!r} is of type {kind!r}, not a Prometheus")
            return wanted, ""
        if reply.status == HTTPStatus.FORBIDDEN:
            return wanted, f"the token may not read data sources, so it is not known whether {wanted!r} exists"
        if reply.status != HTTPStatus.NOT_FOUND:
            self._refuse(reply, "the data source cannot be looked up")
        listed = _document(self._expect("/api/datasources", "data sources cannot be listed"))
        there = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        known = {str(one.get("uid")): str(one.get("name")) for one in there if "prometheus" in str(one.get("type"))}
        if uid is None and len(known) == 1:
            (only,) = known
            return only, f"queries {known[only]!r} ({only}), the only Prometheus here"
        names = ", ".join(f"{one} ({name!r})" for one, name in known.items()) or "none"
        raise MonitorError(
            f"there is no data source {wanted!r}: choose one with --datasource. Prometheus data sources: {names}"
        )

    def _folder(self, title: str) -> str | None:
        """Return the uid of the folder; None if it has to be created."""
        if title == FOLDER and self._send(f"/api/folders/{FOLDER_UID}").status == HTTPStatus.OK:
            return FOLDER_UID  # even if someone has given it another title
        for page in range(1, _PAGES + 1):
            reply = self._expect(f"/api/folders?limit={_PAGE}&page={page}", "folders cannot be listed")
            listed = _document(reply)
            there = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
            for one in there:
                if one.get("title") == title:
                    return str(one.get("uid"))
            if len(there) < _PAGE:
                break
        return None

    def _new_folder(self, title: str) -> str:
        wanted = {"title": title, **({"uid": FOLDER_UID} if title == FOLDER else {})}
        reply = self._expect("/api/folders", f"the folder {title!r} cannot be created", wanted)
        return str(_object(reply).get("uid"))

    def _step(self, board: dict[str, Any], folder: str | None, *, force: bool) -> _BoardStep:
        """Return what to do with a dashboard."""
        path = f"/api/dashboards/uid/{board['uid']}"
        reply = self._send(path)
        if reply.status == HTTPStatus.NOT_FOUND:
            return _BoardStep(board, BoardChange.CREATED, {})
        if reply.status != HTTPStatus.OK:
            self._refuse(reply, f"{board['title']} cannot be read")
        told = _object(reply)
        there, about = _part(told, "dashboard"), _part(told, "meta")
        if about.get("provisioned"):
            file = _plain(str(about.get("provisionedExternalId") or "unknown"))
            raise MonitorError(
                f"{board['title']} is provisioned from a file ({file}) and cannot be changed over the API: update that"
                " file, or remove it first"
            )
        saved = self._last_message(path)
        same = all(there.get(key) == value for key, value in board.items()) or saved == _message(board)
        if same and about.get("folderUid") == folder:
            return _BoardStep(board, BoardChange.UNCHANGED, there)
        if not (same or force or saved.startswith(_OURS)):
            raise MonitorError(
                f"{board['title']} was changed in Grafana, or comes from elsewhere: --force replaces it (Grafana keeps"
                " the version before)"
            )
        return _BoardStep(board, BoardChange.UPDATED, there)

    def _last_message(self, path: str) -> str:
        """Return the message of the newest version: Grafana may return a dashboard in a different form than it got."""
        reply = self._send(f"{path}/versions?limit=1")
        told = _document(reply) if reply.status == HTTPStatus.OK else None
        versions = told.get("versions") if isinstance(told, dict) else told  # a list before Grafana 11
        newest = versions[0] if isinstance(versions, list) and versions else None
        return str(newest.get("message", "")) if isinstance(newest, dict) else ""

    def _save(self, step: _BoardStep, folder: str, *, force: bool) -> None:
        board = {**step.board, "id": step.known.get("id")}
        if step.known:
            board["version"] = step.known.get("version")
        document = {"dashboard": board, "folderUid": folder, "message": _message(step.board), "overwrite": force}
        self._expect("/api/dashboards/db", f"{board['title']} cannot be saved", document)

    def _send(self, path: str, document: Mapping[str, Any] | None = None) -> FetchedResponse:
        """Send a request. Raises `MonitorError` for a redirect and for a token that is not accepted."""
        try:
            reply = self._client.send(path, document=document)
        except MonitorError as error:
            raise MonitorError(f"{self.url}: {error}") from None
        if reply.status in _REDIRECTS:
            to = _plain(reply.headers.get("location", "another address"))
            raise MonitorError(f"{self.url} redirects to {to}: redirects are not followed. Is that the right --url?")
        if reply.status == HTTPStatus.UNAUTHORIZED:
            problem = "does not accept the token" if self._has_token else "needs a token"
            raise MonitorError(
                f"{self.url} {problem}: create a service account with the role Editor, and put one of its tokens into"
                " the variable that --token-env names"
            )
        return reply

    def _expect(self, path: str, failure: str, document: Mapping[str, Any] | None = None) -> FetchedResponse:
        reply = self._send(path, document)
        if reply.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            self._refuse(reply, failure)
        return reply

    def _refuse(self, reply: FetchedResponse, failure: str) -> NoReturn:
        """Raise what Grafana says, and what to do about it."""
        told = _document(reply)
        said, status = (str(told.get(key, "")) for key in ("message", "status")) if isinstance(told, dict) else ("", "")
        advice = _ADVICE.get(status) or _ADVICE.get(str(reply.status), "")
        if "provisioned" in said.lower():
            advice = "it is provisioned from a file: update that file, or remove it first"
        words = _plain(said) or "nothing that could be read"
        raise MonitorError(f"{failure}: {reply.status}, Grafana says: {words}" + (f". {advice}" if advice else ""))


_ADVICE: Final = {
    "version-mismatch": "Someone has just changed it in Grafana: run the command again",
    "name-exists": "Another dashboard has this title in the folder: rename it, or choose another --folder",
    "plugin-dashboard": "It belongs to a plugin of Grafana: choose another --folder",
    "403": "The token needs the role Editor, or dashboards:create, dashboards:write, folders:create and folders:read",
    "404": "Is --url the address of Grafana, with its path?",
}
"""What to do, by Grafana's own status, otherwise by the HTTP status."""


def _with_source(board: Mapping[str, Any], datasource: str) -> dict[str, Any]:
    """Return a copy of a dashboard with this data source selected."""
    made: dict[str, Any] = json.loads(json.dumps(board))
    for one in made["templating"]["list"]:
        if one["type"] == "datasource" and datasource != DATASOURCE:
            one["current"] = {**one["current"], "text": datasource, "value": datasource}
    return made


def _message(board: Mapping[str, Any]) -> str:
    """Return the message to save a version with; it identifies the exact dashboard."""
    digest = hashlib.sha256(json.dumps(board, sort_keys=True).encode()).hexdigest()[:12]
    return f"{_OURS}{__version__} {digest}"


def _document(reply: FetchedResponse) -> Any:
    try:
        return json.loads(reply.body)
    except (ValueError, RecursionError):
        return None


def _object(reply: FetchedResponse) -> dict[str, Any]:
    told = _document(reply)
    if not isinstance(told, dict):
        raise MonitorError("Grafana responds with something that is not a JSON object: is there a proxy in between?")
    return told


def _part(told: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = told.get(key)
    return dict(found) if isinstance(found, dict) else {}


def _plain(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text[:_SHOWN]).strip()
