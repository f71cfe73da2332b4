"""Names that say nothing: a name always becomes the same word, and only the key maps it back.

Rules kept here:

1. A word is an HMAC-SHA256 under the key, with the kind of name in it: ``pod-3f9a02c41b``.
2. What has a form keeps it: a UUID becomes a UUID, 32 hexadecimal digits stay as many.
3. UUIDs of devices keep their order, because it decides which device is taken: the first group counts them.
4. The key comes from the machine's id, as the node object shows it to those who may see it.  So two bundles
   of one node speak of the same pods by the same words, and who can read the node can map them back.
5. Without a key names stay what they are.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping

from numawise.values import dataclass, field

PURPOSE = b"numawise bundle names, first kind"
COMMON = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every cluster has."""
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
DIGITS = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?", re.ASCII)
SHORT = 10
ONCE = "once:"
"""Begins the fingerprint of a key that was made up for one bundle alone."""
TELLING, SHORTEST = ("pod", "node", "owner"), 5
"""Kinds of names that may turn up in sentences; shorter ones are words of the language, too."""


def key_of(machine_id: str) -> bytes:
    """The key of a machine, or one for this time alone where a machine has no id."""
    text = machine_id.strip().lower().replace("-", "")
    if not text:
        return ONCE.encode() + secrets.token_bytes(32)
    return hmac.digest(text.encode(), PURPOSE, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class Names:
    """Replaces names; remembers what it replaced, so that texts can be cleaned as well."""

    key: bytes | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    """UUID of a device, in lower case → its stand-in."""
    replaced: dict[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Distinguishes one key from another, and nothing else."""
        if self.key is None:
            return ""
        mark = ONCE if self.key.startswith(ONCE.encode()) else ""
        return f"{mark}{self._digest('fingerprint', '')[:16]}"

    def with_devices(self, texts: Iterable[str]) -> "Names":
        """Likewise, for the devices whose UUIDs stand in these texts (rule 3)."""
        found = sorted({one.lower() for text in texts for one in UUID.findall(text)})
        if self.key is None:
            return self
        stand_ins = {}
        for rank, uuid in enumerate(found):
            digest = self._digest("device", uuid)
            stand_ins[uuid] = f"{rank:08x}-{digest[:4]}-{digest[4:8]}-{digest[8:12]}-{digest[12:24]}"
        return Names(self.key, stand_ins, self.replaced)

    def name(self, kind: str, name: str) -> str:
        """The word for a name of a kind."""
        if self.key is None or not name or (kind == "namespace" and name in COMMON):
            return name
        word = f"{kind}-{self._digest(kind, name)[:SHORT]}"
        return self._remember(name, word) if kind in TELLING and len(name) >= SHORTEST else word

    def uid(self, uid: str) -> str:
        """The stand-in for the uid of a pod, in the same form (rule 2)."""
        if self.key is None or not uid:
            return uid
        digest = self._digest("uid", uid)
        if UUID.fullmatch(uid):
            return self._remember(
                uid, f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"
            )
        return self._remember(uid, digest[: len(uid)] if DIGITS.fullmatch(uid) else f"uid-{digest[:SHORT]}")

    def device(self, text: str) -> str:
        """The id of a device, with every UUID in it replaced."""
        if self.key is None:
            return text
        return UUID.sub(lambda found: self.devices.get(found[0].lower()) or self._stray(found[0]), text)

    def cleaned(self, text: str) -> str:
        """A sentence without the names that were replaced so far, nor any UUID."""
        if self.key is None:
            return text
        text = WORD.sub(lambda found: self.replaced.get(found[0], found[0]), text)
        words = set(self.replaced.values()) | set(self.devices.values())
        return UUID.sub(lambda found: found[0] if found[0] in words else self.device(found[0]), text)

    def _stray(self, uuid: str) -> str:
        digest = self._digest("device", uuid.lower())
        return f"ffffffff-{digest[:4]}-{digest[4:8]}-{digest[8:12]}-{digest[12:24]}"

    def _remember(self, name: str, word: str) -> str:
        self.replaced[name] = word
        return word

    def _digest(self, kind: str, name: str) -> str:
        assert self.key is not None
        return hmac.digest(self.key, f"{kind}\0{name}".encode(errors="replace"), hashlib.sha256).hex()
