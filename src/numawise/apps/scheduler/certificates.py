"""The certificate of the extender, and whose clients it answers; new files take effect without a restart.

Rules kept here:

1. A certificate, its key and the authority of clients are read together.  New ones that do not fit each other
   are said once, and the old ones stay.
2. Every connection is made with the newest.  Nothing of an old session is taken up again, so that a client
   whose authority has gone is asked for its certificate anew.
3. With an authority of clients, whoever has no certificate of it is not answered.
4. TLS 1.2 or newer.
"""

import ssl
from pathlib import Path

from numawise.errors import HostError
from numawise.host.files import Stamp, stamp_there
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where certificates lie."""

    certificate: Path
    key: Path
    client_authority: Path | None = None
    """None: everybody is answered."""

    @property
    def every(self) -> tuple[Path, ...]:
        """All files."""
        own = (self.certificate, self.key)
        return own if self.client_authority is None else (*own, self.client_authority)


class Certificates:
    """What connections are made with; ``context`` is for listening, and stays the same."""

    def __init__(self, files: CertificateFiles) -> None:
        self.files = files
        self._stamp = self._stamped()
        self._newest = self._read()
        self.context = self._read()
        self.context.sni_callback = self._choose  # asked at every connection, with a name or without

    def refresh(self) -> bool:
        """Take new files up; whether there were some.  ``HostError``: they cannot be used (rule 1)."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return False
        self._newest = self._read()
        self._stamp = stamp
        return True

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._newest

    def _stamped(self) -> tuple[Stamp, ...]:
        stamps: list[Stamp] = []
        for path in self.files.every:
            try:
                stamps.append(stamp_there(path))
            except OSError as problem:
                raise HostError(f"{path} cannot be read: {problem.strerror or problem}") from None
        return tuple(stamps)

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        files = self.files
        try:
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
        except (OSError, ValueError) as problem:
            raise _unusable(f"{files.certificate} with {files.key}", problem) from None
        if files.client_authority is not None:
            try:
                context.load_verify_locations(files.client_authority)
            except (OSError, ValueError) as problem:
                raise _unusable(str(files.client_authority), problem) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _unusable(what: str, problem: Exception) -> HostError:
    words = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    if isinstance(problem, ssl.SSLError):
        words = problem.reason or words
    return HostError(f"{what} cannot be used: {words}", "give a certificate and its key, both as PEM")
