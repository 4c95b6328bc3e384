"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.tools import require


class Authority:
    """A certificate authority in `folder`; its own certificate is `ca`."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self.ca, self._key = folder / f"{name}.pem", folder / f"{name}.key"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign"),
            *("-keyout", self._key, "-out", self.ca),
        )

    def issue(self, name: str, *, days: int = 2) -> tuple[Path, Path]:
        """Make a certificate for 127.0.0.1, and its key."""
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        self._openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", key, "-out", request),
        )
        self._openssl(
            *("x509", "-req", "-in", request, "-CA", self.ca, "-CAkey", self._key, "-CAcreateserial"),
            *("-days", days, "-extfile", extensions, "-out", certificate),
        )
        return certificate, key

    @staticmethod
    def _openssl(*arguments: object) -> None:
        command = [require("openssl", "openssl"), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
