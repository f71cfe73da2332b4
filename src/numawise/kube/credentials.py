"""Who we are to an API server: what a kubeconfig says about a user, programs that issue tokens included.

Rules kept here:

1. A program (``exec``) is run as kubectl runs it: given what is wanted in ``KUBERNETES_EXEC_INFO``, free to
   talk to the user, its answer read from standard output.
2. Root runs no program that another user's kubeconfig names, nor one that others may change; that of the user
   who called sudo is their own.
3. Without a kubeconfig, inside a pod, the pod's service account is who we are.
"""

import base64
import json
import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numawise.codec.kubeconfig import ClusterAccess
from numawise.errors import ClusterError, quoted

GROUP = "client.authentication.k8s.io/"
KNOWN = frozenset({f"{GROUP}v1", f"{GROUP}v1beta1", f"{GROUP}v1alpha1"})
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PATIENCE = 120
"""Seconds; a person may have to log in."""


def issued(user: Mapping[str, Any], file: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """The user of a kubeconfig with what its program issued in place of the program (rule 1)."""
    wanted = user.get("exec")
    if not isinstance(wanted, Mapping):
        return dict(user)
    _check_owner(file, environment)
    folder = file.parent if file.is_file() else file
    version, command = str(wanted.get("apiVersion") or ""), str(wanted.get("command") or "")
    if version not in KNOWN:
        raise ClusterError(f"the kubeconfig's exec has apiVersion {quoted(version)}, which is not known")
    if not command:
        raise ClusterError("the kubeconfig's exec names no command")
    program = str(folder / command) if "/" in command and not command.startswith("/") else command
    words = [program, *(str(one) for one in wanted.get("args") or ())]
    status = _answer(words, _environment(wanted, version, environment), str(wanted.get("installHint") or ""))
    found = {name: value for name, value in user.items() if name != "exec"}
    if status.get("token"):
        found["token"] = str(status["token"])
    if status.get("clientCertificateData") and status.get("clientKeyData"):
        for name, part in (
            ("client-certificate-data", "clientCertificateData"),
            ("client-key-data", "clientKeyData"),
        ):
            found[name] = base64.b64encode(str(status[part]).encode()).decode()
    return found


def _check_owner(file: Path, environment: Mapping[str, str]) -> None:
    """Refuse what others may make root run (rule 2)."""
    if os.geteuid() != 0:
        return
    try:
        about = file.stat()
    except OSError:
        return
    own_group = str(about.st_gid) in ("0", environment.get("SUDO_GID", "0"))
    others = stat.S_IWOTH if own_group else stat.S_IWOTH | stat.S_IWGRP
    if str(about.st_uid) not in ("0", environment.get("SUDO_UID", "0")) or about.st_mode & others:
        raise ClusterError(
            f"{file} names a program that logs in, and others may change that file",
            "do this as its owner, or give root a copy of its own",
        )


def _environment(wanted: Mapping[str, Any], version: str, environment: Mapping[str, str]) -> dict[str, str]:
    own = {
        str(one.get("name")): str(one.get("value", ""))
        for one in wanted.get("env") or ()
        if isinstance(one, Mapping)
    }
    info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
    return {**environment, **own, "KUBERNETES_EXEC_INFO": json.dumps(info)}


def _answer(words: list[str], environment: Mapping[str, str], hint: str) -> Mapping[str, Any]:
    program = words[0]
    try:
        done = subprocess.run(  # noqa: S603 - what the user's own kubeconfig names
            words, env=dict(environment), stdout=subprocess.PIPE, timeout=PATIENCE, check=False
        )
    except FileNotFoundError:
        advice = " ".join(hint.split()) or "install it, or log in another way"
        raise ClusterError(
            f"the kubeconfig logs in with {quoted(program)}, which is not installed", advice
        ) from None
    except (OSError, subprocess.SubprocessError) as problem:
        raise ClusterError(
            f"{quoted(program)}, with which the kubeconfig logs in, cannot be run: {problem}"
        ) from None
    if done.returncode:
        raise ClusterError(
            f"{quoted(program)}, with which the kubeconfig logs in, ends with status {done.returncode}"
        )
    try:
        status = json.loads(done.stdout)["status"]
    except (ValueError, KeyError, TypeError, RecursionError):
        status = None
    if not isinstance(status, Mapping):
        raise ClusterError(
            f"{quoted(program)}, with which the kubeconfig logs in, answers with no credentials"
        )
    return status


def in_cluster(environment: Mapping[str, str], account: str = ACCOUNT) -> ClusterAccess | None:
    """The access that a pod has (rule 3); None when we are in none."""
    host, port = (
        environment.get("KUBERNETES_SERVICE_HOST", ""),
        environment.get("KUBERNETES_SERVICE_PORT", ""),
    )
    folder = Path(account)
    if not host or not port or not (folder / "token").is_file():
        return None
    try:
        namespace = (folder / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        namespace = ""
    return ClusterAccess(
        context="in-cluster",
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        namespace=namespace or "default",
        cluster={"certificate-authority": str(folder / "ca.crt")},
        user={"tokenFile": str(folder / "token")},
        file=os.fspath(folder),
    )
