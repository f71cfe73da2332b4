"""Who is listened to where everybody on this machine is answered, without certificates.

Pages of a browser are not (``service/own_address.py``).
"""

from numawise.apps.scheduler.web import Receive, Scope, Send, WebQuestions
from numawise.service.own_address import is_own_caller

REFUSED = b'{"Error": "only programs of this machine are answered here"}'


class OwnCallers:
    """Questions in the clear, of this machine's programs alone."""

    def __init__(self, web: WebQuestions) -> None:
        self.web = web

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and not is_own_caller(scope["headers"]):
            headers = [
                (b"content-type", b"application/json"),
                (b"content-length", str(len(REFUSED)).encode()),
                (b"connection", b"close"),
            ]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})
            return
        await self.web(scope, receive, send)
