"""Certificates of the extender and of those who ask it, as objects: made here, or by cert-manager.

Both sides trust one authority, which signs for nobody else; its key is not kept.  New certificates are made
by doing it again, and the stamp in the pods' templates starts the pods with them.
"""

import base64
import hashlib

from numawise.apps.scheduler.manifest import (
    AUTHORITY,
    CERTIFICATE,
    CLIENT_SECRET,
    KEY,
    NAME,
    SERVER_SECRET,
    server_names,
)
from numawise.host.certificates import CertifiedPair, MadeCertificates
from numawise.service.manifest import Json, ProgramObjects

MANAGER = "cert-manager.io/v1"
CLIENT = "kube-scheduler"
AUTHORITY_NAME = "numawise-authority"
LONG, LONGER = "8760h", "87600h"
"""A year, and ten: kube-scheduler reads its files when it starts, and not again."""


def secret_objects(certificates: MadeCertificates, namespace: str) -> tuple[Json, ...]:
    """The Secrets of both sides."""
    own = ProgramObjects(NAME, namespace)

    def secret(name: str, pair: CertifiedPair) -> Json:
        parts = {AUTHORITY: certificates.authority, CERTIFICATE: pair.certificate, KEY: pair.key}
        data = {key: base64.b64encode(text.encode()).decode() for key, text in parts.items()}
        return own.inside("v1", "Secret", name, type="kubernetes.io/tls", data=data)

    return secret(SERVER_SECRET, certificates.server), secret(CLIENT_SECRET, certificates.client)


def stamp_of(certificates: MadeCertificates) -> str:
    """Changes when they do; nothing can be learned from it."""
    parts = (certificates.authority, certificates.server.certificate, certificates.client.certificate)
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def manager_objects(namespace: str) -> tuple[Json, ...]:
    """What cert-manager makes the same Secrets of."""
    own = ProgramObjects(NAME, namespace)
    self_signed = f"{AUTHORITY_NAME}-self-signed"

    def certificate(name: str, issuer: str, duration: str, **fields: object) -> Json:
        spec = {
            "secretName": name,
            "duration": duration,
            "privateKey": {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"},
            "issuerRef": {"kind": "Issuer", "name": issuer},
            **fields,
        }
        return own.inside(MANAGER, "Certificate", name, spec=spec)

    names = server_names(namespace)
    return (
        own.inside(MANAGER, "Issuer", self_signed, spec={"selfSigned": {}}),
        certificate(AUTHORITY_NAME, self_signed, LONGER, isCA=True, commonName="numawise"),
        own.inside(MANAGER, "Issuer", AUTHORITY_NAME, spec={"ca": {"secretName": AUTHORITY_NAME}}),
        certificate(SERVER_SECRET, AUTHORITY_NAME, LONG, dnsNames=list(names), usages=["server auth"]),
        certificate(CLIENT_SECRET, AUTHORITY_NAME, LONG, commonName=CLIENT, usages=["client auth"]),
    )
