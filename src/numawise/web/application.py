"""The application: routes made of operations, and how a call is read, answered and kept.

Rules kept here:

1. A body is JSON; ``web.bodies`` bounds it.
2. Handlers run in ``WORKERS`` threads, those that only read what is served in as many of their own; beyond
   ``MOST_WAITING`` calls that wait for one, a call is told to come again.  A call ends after
   ``LONGEST_CALL`` seconds.
3. An answer has an entity tag; whoever has it already gets no body.  Answers that depend only on what the
   news tell of are worked out once, however many ask, and kept until that changes.
4. Whatever goes wrong is a problem with a status; a mistake of ours is logged once.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from numawise.codec.web.body import read_body, to_bytes
from numawise.errors import InputError, NumawiseError
from numawise.patience import at_most, within
from numawise.results.plain import plain
from numawise.service.log import ServiceLog
from numawise.web.bodies import Body, BodyRoom
from numawise.web.desk import Desk
from numawise.web.guards import DOCUMENT, ROOT, SESSION, Guards, secured
from numawise.web.news import MOST_LISTENERS
from numawise.web.openapi import openapi
from numawise.web.operations import GET, JSON, POST, Asked, Operation, Reply
from numawise.web.page_files import FIRST, PageFile, page_file, page_files, tag_of
from numawise.web.page_words import in_body
from numawise.web.problems import MEDIA as PROBLEM
from numawise.web.problems import WebProblem, problem_of

MOST_VALUES = 1_000_000
"""Values of all YAML and JSON that one call may have read."""
WORKERS, MOST_WAITING, MOST_KEPT = 4, 64, 256
LONGEST_CALL = 30.0
EVENTS = "text/event-stream"
LARGEST_KEPT = 32 << 20
"""Bytes of answers that are kept together."""
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class PageApplication:
    """Guards in front of the routes."""

    def __init__(self, desk: Desk, guards: Guards, operations: Sequence[Operation], log: ServiceLog) -> None:
        self.desk, self.guards, self.log = desk, guards, log
        self.operations = tuple(operations)
        self._files = page_files()
        self._pools = {name: ThreadPoolExecutor(WORKERS, thread_name_prefix=name) for name in (GET, POST)}
        self._waiting = dict.fromkeys(self._pools, 0)
        self._bodies = BodyRoom(guards.who)
        self._ended = False
        self._kept: OrderedDict[tuple[str, str], tuple[tuple[int, ...], Response]] = OrderedDict()
        self._kept_bytes = 0
        self._under_way: dict[tuple[tuple[str, str], tuple[int, ...]], asyncio.Future[Response]] = {}
        by_path: dict[str, dict[str, Operation]] = {}
        for operation in self.operations:
            by_path.setdefault(operation.path, {})[operation.method] = operation
        routes = [
            Route(ROOT + path, self._route(methods), methods=METHODS) for path, methods in by_path.items()
        ]
        routes += [
            Route(DOCUMENT, lambda request: _sent(request, self._document)),
            Route(f"{ROOT}/events", self._events),
            Route(SESSION, self._session, methods=[POST]),
            Route("/{path:path}", self._file),
        ]
        self._routes = Starlette(
            routes=routes, exception_handlers={HTTPException: self._http_problem, Exception: self._mistake}
        )

    @cached_property
    def _document(self) -> PageFile:
        """What the calls are; few ask, and making it takes longer than anything else at the start."""
        return page_file("openapi.json", to_bytes(openapi(self.operations)))

    def hurry(self) -> None:
        """Nobody waits for long answers any more: handlers end at their next look."""
        self._ended = True

    def close(self) -> None:
        """End the threads of handlers."""
        self.hurry()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return

        async def send_secured(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = secured(message.get("headers", ()))
            await send(message)

        try:
            self.guards.check(scope["path"], Request(scope).headers, (scope.get("server") or ("",))[0])
        except WebProblem as problem:
            await self._problem(problem)(scope, receive, send_secured)
            return
        await self._routes(scope, receive, send_secured)

    def _route(self, methods: Mapping[str, Operation]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            operation = methods.get(GET if request.method == "HEAD" else request.method)
            if operation is None:
                allowed = ", ".join(sorted(methods))
                response = self._problem(WebProblem(405, f"ask with {allowed}"))
                response.headers["allow"] = allowed
                return response
            try:
                return await self._called(operation, request)
            except (WebProblem, NumawiseError) as problem:
                return self._problem(problem)
            except ClientDisconnect:
                return self._problem(WebProblem(400, "the question was cut short"))

        return answer

    async def _called(self, operation: Operation, request: Request) -> Response:
        if operation.changes and not self.desk.allow_changes:
            raise WebProblem(403, "this server changes nothing", "start it with --allow-changes")
        if operation.changes:
            ends = (request.scope.get("client"), request.scope.get("server"))
            await asyncio.to_thread(self.guards.check_change, *ends)
        if operation.method != GET:
            return await self._answered(operation, request)
        return _if_new(request, await self._current(operation, request))

    async def _current(self, operation: Operation, request: Request) -> Response:
        """The answer as it is now (rule 3); whoever asks the same meanwhile gets the same."""
        if operation.depends is None:
            return await self._answered(operation, request)
        versions = tuple(self.desk.news.versions.get(name, 0) for name in operation.depends)
        if operation.fresh:
            versions = (*versions, int(time.monotonic() // operation.fresh))
        key = (operation.name, f"{request.url.path}?{request.url.query}")
        kept = self._kept.get(key)
        if kept is not None and kept[0] == versions:
            return kept[1]
        under_way = self._under_way.get((key, versions))
        if under_way is None:
            under_way = asyncio.ensure_future(self._answered(operation, request))
            self._under_way[key, versions] = under_way
            under_way.add_done_callback(lambda done: self._finished(key, versions, done))
        return await asyncio.shield(under_way)

    async def _answered(self, operation: Operation, request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if operation.method == POST and kind != JSON:  # a form of another page cannot send this type
            raise WebProblem(415, "the body must be JSON", f"send Content-Type: {JSON}")
        async with self._bodies.of(request, whose=operation.keeps) as body:
            asked = self._read(operation, request, body)
            reply = await self._handled(operation, asked)
        headers = {"etag": tag_of(reply.content), "cache-control": "no-cache"}
        if reply.name:
            headers["content-disposition"] = f'attachment; filename="{reply.name}"'
        return Response(reply.content, media_type=reply.media, headers=headers)

    def _finished(
        self, key: tuple[str, str], versions: tuple[int, ...], done: "asyncio.Future[Response]"
    ) -> None:
        self._under_way.pop((key, versions), None)
        if not done.cancelled() and done.exception() is None:
            self._keep(key, versions, done.result())

    def _keep(self, key: tuple[str, str], versions: tuple[int, ...], response: Response) -> None:
        """Rule 3; only the loop's own thread comes here."""
        before = self._kept.pop(key, None)
        self._kept_bytes -= len(before[1].body) if before else 0
        self._kept[key] = (versions, response)
        self._kept_bytes += len(response.body)
        while len(self._kept) > MOST_KEPT or self._kept_bytes > LARGEST_KEPT:
            _, (_, oldest) = self._kept.popitem(last=False)
            self._kept_bytes -= len(oldest.body)

    def _read(self, operation: Operation, request: Request, given: Body) -> Asked:
        known = {field.name: field for field in operation.query}
        unknown = next((name for name in request.query_params if name not in known), None)
        if unknown is not None:
            advice = f"it takes {', '.join(known)}" if known else "it takes none"
            raise InputError("is not a parameter of this call", field=unknown, advice=advice)
        query = {name: field.read(request.query_params.getlist(name)) for name, field in known.items()}
        body: object = None
        if operation.method == POST and operation.body is not None:
            body = read_body(given.content, operation.body)
        return Asked(dict(request.path_params), query, body, given.who)

    async def _handled(self, operation: Operation, asked: Asked) -> Reply:
        """Rule 2."""
        kind = operation.method
        if self._waiting[kind] >= MOST_WAITING:
            raise WebProblem(429, "too many calls wait already", "come again in a second")
        self._waiting[kind] += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pools[kind], self._work, operation, asked)
        finally:
            self._waiting[kind] -= 1

    def _work(self, operation: Operation, asked: Asked) -> Reply:
        try:
            with in_body(operation.body), at_most(MOST_VALUES), within(LONGEST_CALL, lambda: self._ended):
                answer = operation.handler(self.desk, asked)
            if isinstance(answer, Reply):
                return answer
            return Reply(self.desk.dropped.without_folder(to_bytes(plain(answer))), operation.media)
        except (NumawiseError, WebProblem):
            raise
        except Exception as problem:
            self.log.mistake(operation.name, problem)
            raise WebProblem(500, problem_of(problem)["detail"]) from problem

    def _problem(self, problem: Exception) -> Response:
        """Rule 4."""
        data = problem_of(problem)
        headers = {"cache-control": "no-store"}
        if data["status"] == 429:
            headers["retry-after"] = "1"
        if data["status"] == 401:
            headers["www-authenticate"] = "Bearer"
        content = self.desk.dropped.without_folder(to_bytes(data))
        return Response(content, data["status"], media_type=PROBLEM, headers=headers)

    async def _http_problem(self, _: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        advice = f"the calls are listed in {ROOT}/openapi.json"
        response = self._problem(WebProblem(problem.status_code, str(problem.detail).lower(), advice))
        for name, value in (problem.headers or {}).items():
            response.headers[name] = value
        return response

    async def _mistake(self, _: Request, problem: Exception) -> Response:
        self.log.mistake("a call", problem)
        return self._problem(problem)

    async def _events(self, request: Request) -> Response:
        headers = {"cache-control": "no-store"}
        if request.method == "HEAD":
            return Response(media_type=EVENTS, headers=headers)
        if len(self.desk.news) >= MOST_LISTENERS:
            return self._problem(WebProblem(429, "too many pages listen already", "come again later"))

        async def stream() -> AsyncIterator[bytes]:
            async for event in self.desk.news.follow():
                yield event

        return StreamingResponse(stream(), media_type=EVENTS, headers=headers)

    async def _session(self, request: Request) -> Response:
        """Give whoever has the token a session for it."""
        if self.guards.token and not self.guards.has_token(request.headers):
            return self._problem(WebProblem(401, "that is not the token", "see the file of --token-file"))
        session = self.guards.session() if self.guards.token else ""
        headers = {"cache-control": "no-store"}
        return Response(to_bytes({"session": session}), media_type=JSON, headers=headers)

    async def _file(self, request: Request) -> Response:
        file = self._files.get(request.path_params["path"] or FIRST)
        if file is None:
            return self._problem(WebProblem(404, "there is nothing here"))
        return _sent(request, file)


def _sent(request: Request, file: PageFile) -> Response:
    headers = {"etag": file.tag, "cache-control": "no-cache"}
    return _if_new(request, Response(file.content, media_type=file.media, headers=headers))


def _if_new(request: Request, response: Response) -> Response:
    """Rule 3."""
    tag = response.headers["etag"]
    given = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
    if tag in given or "*" in given:
        return Response(status_code=304, headers={"etag": tag, "cache-control": "no-cache"})
    return response
