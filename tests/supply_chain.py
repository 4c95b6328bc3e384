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
    """Print the known vulnerabilities of what is locked. 1 if there are any, 0 also where the database is away."""
    command = [tool / "pip-audit", "-r", LOCK, "--disable-pip", "--require-hashes", "--progress-spinner", "off"]
    done = subprocess.run([*command, "--timeout", "15", "-f", "json"], capture_output=True, text=True, check=False)
    if not done.stdout:
        print(f"audit: nothing was looked up: {done.stderr.strip().splitlines()[-1:]}")
        return 0
    return report(json.loads(done.stdout))


def report(found: dict[str, Any]) -> int:
    """Print what `pip-audit -f json` has found. 1 if that is a vulnerability."""
    packages = found["dependencies"]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    faults = [(one["name"], one["version"], fault) for one in packages for fault in one.get("vulns", ())]
    print(f"audit: {len(packages) - len(skipped)} of {len(packages)} locked packages looked up, {len(faults)} faults")
    if skipped:
        print(f"audit: the database does not answer for {len(skipped)}, {skipped[0]} for one")
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
