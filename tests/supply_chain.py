"""What this project brings to a machine: `python -m tests.supply_chain audit` and `... sbom FILE`.

Both need the tools of tests/audit.txt; `make audit` and `make sbom` install them into an environment of their own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

LOCK = ROOT / "requirements.lock"
DATABASES = ("pypi", "osv")
"""Databases of known vulnerabilities, as `pip-audit` names them. Each is asked if the one before knows no package."""
AT_START = {
    "distutils-precedence.pth": "setuptools",  # comes with a new environment
    "_editable_impl_rag_monitor.pth": "rag-monitor",  # the checkout, as `make` installs it
    "_virtualenv.pth": "",  # written by virtualenv and by uv, of no distribution
}
"""What may run code when Python starts, each with the distribution that brings it."""


def pth_files(folder: Path) -> dict[str, str]:
    """Return the `.pth` files of an environment's `site-packages`, each with the distribution that brought it or ""."""
    owners = {
        file.name: one.metadata["Name"]
        for one in metadata.distributions(path=[str(folder)])
        for file in one.files or ()
        if file.suffix == ".pth"
    }
    found = {path.name for path in folder.glob("*.pth")} | set(owners)
    return {name: owners.get(name, "") for name in found}


def unexpected(folder: Path) -> dict[str, str]:
    """Return the `.pth` files that are not allowed, and any `sitecustomize`, which Python runs at its start too."""
    found = {name: owner for name, owner in pth_files(folder).items() if AT_START.get(name) != owner}
    customized = [path.name for pattern in ("sitecustomize*", "usercustomize*") for path in folder.glob(pattern)]
    return found | dict.fromkeys(customized, "")


def audit(tool: Path) -> int:
    """Print the known vulnerabilities of what is locked, by the first database that knows a package.

    1 if there are any, 0 also where no database can be reached.
    """
    for database in DATABASES:
        command = [str(tool / "pip-audit"), "-r", str(LOCK), "--disable-pip", "--require-hashes", "-f", "json"]
        command += ["--vulnerability-service", database, "--timeout", "15", "--progress-spinner", "off"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout:
            print(f"audit: {database} cannot be asked: {''.join(done.stderr.strip().splitlines()[-1:])}")
        elif (status := report(database, json.loads(done.stdout))) is not None:
            return status
    print("audit: NOTHING WAS LOOKED UP. Run `make audit` where PyPI or api.osv.dev can be reached.")
    return 0


def report(database: str, found: dict[str, Any]) -> int | None:
    """Print what `pip-audit -f json` has found. 1 if that is a vulnerability, None if it could look up no package."""
    packages = found["dependencies"]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if len(skipped) == len(packages):
        print(f"audit: {database} answers for none of {len(packages)} locked packages")
        return None
    faults = [(one["name"], one["version"], fault) for one in packages for fault in one.get("vulns", ())]
    looked_up = len(packages) - len(skipped)
    print(f"audit: {looked_up} of {len(packages)} locked packages looked up in {database}, {len(faults)} faults")
    if skipped:
        print(f"audit: it does not answer for {len(skipped)}, {skipped[0]} for one")
    for name, version, fault in faults:
        print(f"audit: {name} {version}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}")
    return int(bool(faults))


def sbom(tool: Path, to: Path) -> int:
    """Write the bill of materials of what is locked: CycloneDX, JSON. The same lock gives the same bytes."""
    to.parent.mkdir(parents=True, exist_ok=True)
    command = [tool / "cyclonedx-py", "requirements", LOCK, "--pyproject", ROOT / "pyproject.toml"]
    subprocess.run([*command, "--output-reproducible", "--of", "JSON", "-o", to], check=True)
    print(f"sbom: {len(json.loads(to.read_text())['components'])} components in {to}")
    return 0


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    tool = Path(sys.executable).parent
    match arguments:
        case ["audit"]:
            return audit(tool)
        case ["sbom", to]:
            return sbom(tool, Path(to))
        case _:
            print(__doc__, file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
