"""A Grafana for tests: the part of its HTTP API that installs dashboards, with the answers from its documentation.

Folder, Dashboard, Dashboard versions, Data source and Other HTTP API, of https://grafana.com/docs/grafana/latest/
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote, urlsplit

from tests.support.http_api import Asked, HttpApi, Says

PROMETHEUS = {"uid": "ragmonitor-prometheus", "name": "rag-monitor", "type": "prometheus"}


@dataclass
class Grafana:
    """Listens while the block lasts. `old`: like versions before 11, in which versions are a list.

    `migrates`: it returns dashboards in a newer schema than it got, as Grafana 12 may. `says` replaces the answer to a
    path (as a regular expression of `METHOD PATH`).
    """

    token: str = ""
    sources: list[dict[str, Any]] = field(default_factory=lambda: [PROMETHEUS])
    old: bool = False
    migrates: bool = False
    version: str = "12.1.0"
    folders: dict[str, str] = field(default_factory=dict)
    boards: dict[str, dict[str, Any]] = field(default_factory=dict)
    says: dict[str, Says] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self.api = HttpApi(self._answer).__enter__()
        self.url = self.api.url
        return self

    def __exit__(self, *details: object) -> None:
        self.api.__exit__(*details)

    @property
    def writes(self) -> list[str]:
        """Return the paths of the modifying requests so far."""
        return [one.path for one in self.api.asked if one.method != "GET"]

    def edit(self, uid: str, title: str) -> None:
        """Save another version of a dashboard, as a person would."""
        board = self.boards[uid]
        board["dashboard"] = {**board["dashboard"], "title": title, "version": board["dashboard"]["version"] + 1}
        board["messages"].append("mine")

    def _answer(self, asked: Asked) -> Says:  # noqa: C901, PLR0911 - a table of routes
        for pattern, said in self.says.items():
            if re.fullmatch(pattern, f"{asked.method} {asked.path}"):
                return said
        parts = urlsplit(asked.path)
        path = [unquote(one) for one in parts.path.split("/")[2:]]  # without "" and "api"
        if path == ["health"]:
            return Says(data={"commit": "abc", "database": "ok", "version": self.version})
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return Says(401, {"message": "Invalid API key"})
        match asked.method, path:
            case "GET", ["datasources"]:
                return Says(data=self.sources)
            case "GET", ["datasources", "uid", uid]:
                found = [one for one in self.sources if one["uid"] == uid]
                return Says(data=found[0]) if found else Says(404, {"message": "Data source not found"})
            case "GET", ["folders"]:
                return Says(data=[{"id": 1, "uid": uid, "title": title} for uid, title in self.folders.items()])
            case "GET", ["folders", uid]:
                known = uid in self.folders
                return (
                    Says(data={"uid": uid, "title": self.folders[uid]})
                    if known
                    else Says(404, {"message": "not found"})
                )
            case "POST", ["folders"]:
                return self._make_folder(asked.json)
            case "GET", ["dashboards", "uid", uid, *versions]:
                if uid not in self.boards:
                    return Says(404, {"message": "Dashboard not found"})
                return self._versions(uid) if versions else self._board(uid)
            case "POST", ["dashboards", "db"]:
                return self._save(asked.json)
        return Says(404, {"message": "Not found"})

    def _make_folder(self, wanted: dict[str, Any]) -> Says:
        uid = wanted.get("uid") or f"made-{len(self.folders)}"
        if uid in self.folders:
            return Says(409, {"message": "a folder with the same name already exists", "status": "name-exists"})
        self.folders[uid] = wanted["title"]
        return Says(data={"id": 1, "uid": uid, "title": wanted["title"], "version": 1})

    def _board(self, uid: str) -> Says:
        board = self.boards[uid]
        shown = dict(board["dashboard"])
        if self.migrates:
            shown |= {"schemaVersion": 999, "panels": [{**one, "pluginVersion": "x"} for one in shown["panels"]]}
        meta = {"folderUid": board["folder"], "provisioned": board.get("provisioned", False), "slug": "x"}
        return Says(data={"dashboard": shown, "meta": {**meta, "provisionedExternalId": "overview.json"}})

    def _versions(self, uid: str) -> Says:
        messages = self.boards[uid]["messages"]
        found = [{"version": at, "message": text} for at, text in enumerate(messages, 1)][::-1][:1]
        return Says(data=found if self.old else {"continueToken": "", "versions": found})

    def _save(self, wanted: dict[str, Any]) -> Says:
        given, uid = wanted["dashboard"], wanted["dashboard"]["uid"]
        known = self.boards.get(uid)
        if wanted["folderUid"] not in self.folders:
            return Says(400, {"message": "folder not found"})
        if known is not None and known.get("provisioned"):
            return Says(400, {"message": "Cannot save provisioned dashboard"})
        version = known["dashboard"]["version"] if known is not None else 0
        if known is not None and not wanted["overwrite"] and given.get("version") != version:
            text = "The dashboard has been changed by someone else"
            return Says(412, {"message": text, "status": "version-mismatch"})
        saved = {**json.loads(json.dumps(given)), "id": len(self.boards) + 1, "version": version + 1}
        messages = [*(known["messages"] if known is not None else []), wanted.get("message", "")]
        self.boards[uid] = {"dashboard": saved, "folder": wanted["folderUid"], "messages": messages}
        return Says(data={"id": saved["id"], "uid": uid, "status": "success", "version": saved["version"], "slug": "x"})
