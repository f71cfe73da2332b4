"""An authority and the certificates of two sides, made by the system's ``openssl``.

Rules kept here:

1. Keys are made in a folder of their own that only this user can enter, and that is gone in the end.
2. The authority signs these two and no other: its key is not given out.
3. openssl reads what we give it, and no configuration of the system or the user.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from numawise.errors import HostError, quoted
from numawise.values import dataclass

DAYS = 3650
PATIENCE = 60.0
PROGRAM = "openssl"
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
CONFIG = """\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = {names}
[client]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
"""


@dataclass(frozen=True, slots=True)
class CertifiedPair:
    """A certificate and its key, as PEM text."""

    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class MadeCertificates:
    """What two sides need to know each other."""

    authority: str
    server: CertifiedPair
    client: CertifiedPair


def make_certificates(names: Sequence[str], client: str, days: int = DAYS) -> MadeCertificates:
    """New ones, for a server with these names and a client; ``HostError``: openssl is missing, or fails."""
    if shutil.which(PROGRAM) is None:
        raise HostError(
            f"{PROGRAM} is not installed, so no certificates can be made",
            "install it, or let cert-manager make them (--tls cert-manager)",
        )
    with tempfile.TemporaryDirectory(prefix="numawise-") as place:
        folder = Path(place)
        config = folder / "config"
        config.write_text(CONFIG.format(names=",".join(f"DNS:{name}" for name in names)))
        for words in _steps(names[0], client, days):
            _run(words, folder)

        def pair(name: str) -> CertifiedPair:
            return CertifiedPair((folder / f"{name}.crt").read_text(), (folder / f"{name}.key").read_text())

        return MadeCertificates((folder / "ca.crt").read_text(), pair("server"), pair("client"))


def _steps(server: str, client: str, days: int) -> list[list[str]]:
    asked = ["req", "-config", "config", "-new", *CURVE]
    signed = ["x509", "-req", "-CA", "ca.crt", "-CAkey", "ca.key", "-days", str(days), "-sha256"]
    authority = ["-x509", "-extensions", "authority", "-days", str(days), "-sha256"]
    steps = [[*asked, *authority, "-subj", "/CN=numawise", "-keyout", "ca.key", "-out", "ca.crt"]]
    for name, subject, serial in (("server", server[:64], "1"), ("client", client, "2")):
        steps.append([*asked, "-subj", f"/CN={subject}", "-keyout", f"{name}.key", "-out", f"{name}.csr"])
        kind = ["-set_serial", serial, "-extfile", "config", "-extensions", name]
        steps.append([*signed, *kind, "-in", f"{name}.csr", "-out", f"{name}.crt"])
    return steps


def _run(words: Sequence[str], folder: Path) -> None:
    environment = {"PATH": os.environ.get("PATH", os.defpath), "OPENSSL_CONF": str(folder / "config")}
    try:
        ran = subprocess.run(  # noqa: S603 - words of our own
            [PROGRAM, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise HostError(f"{PROGRAM} {words[0]} could not be run: {problem}", "") from None
    if ran.returncode:
        last = ran.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise HostError(f"{PROGRAM} {words[0]} failed: {quoted(last)}", "openssl 1.1.1 or newer is needed")
