"""One document over plain HTTP, as a kubelet's read-only port or ``kubectl proxy`` gives it."""

import http.client
import urllib.error
import urllib.request
from urllib.parse import urlsplit

from numawise.errors import ClusterError, InputError, quoted

LARGEST = 64 << 20
PATIENCE = 10
LOOPBACK = ("127.", "localhost", "::1")
SCHEMES = ("http", "https")


def is_url(text: str) -> bool:
    """Whether it is an address and no file."""
    return text.partition("://")[0].lower() in SCHEMES and "://" in text


def fetch(url: str) -> bytes:
    """What the address answers; ``ClusterError`` when it does not, in one sentence."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise InputError(f"{quoted(url)} is not an address", advice="write it like http://127.0.0.1:8001/…")
    near = parts.hostname.startswith(LOOPBACK)
    opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if near else []))
    wish = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - of two schemes
    try:
        with opener.open(wish, timeout=PATIENCE) as answer:
            found: bytes = answer.read(LARGEST + 1)
    except urllib.error.HTTPError as problem:
        advice = (
            "ask through the API server: --kubeconfig FILE --node NAME" if problem.code in (401, 403) else ""
        )
        raise ClusterError(f"{url} answers {problem.code} {problem.reason}", advice) from None
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise ClusterError(f"{url} cannot be reached: {why}") from None
    if len(found) > LARGEST:
        raise ClusterError(f"{url} answers with more than {LARGEST >> 20} MiB")
    return found
