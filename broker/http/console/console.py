"""The console: an ASGI application that lets callers in and shows them pages."""

from __future__ import annotations

import hmac
import logging
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

import htpy as h
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from broker.http.console import entry
from broker.http.console.answers import HEADERS, html, see_other
from broker.http.console.assets import SCRIPT, asset_response
from broker.http.console.elements import shown
from broker.http.console.forms import read_form
from broker.http.console.layout import bare_document, document
from broker.http.console.page import Content, Notice
from broker.http.console.pages import PAGES
from broker.http.console.site import Site
from broker.http.console.stream import MEDIA_TYPE, SharedParts, events
from broker.http.console.troubles import troubles
from broker.http.console.visit import Visit
from broker.http.entrance import NotAdmittedError
from broker.http.refusals import AWAY, STATUSES
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from broker import Clock
    from broker.http.console.admission import ConsoleAdmission, ConsoleCaller
    from broker.http.console.page import ConsolePage, Keyed, Parts
    from broker.http.served_manager import ServedManager

logger = logging.getLogger(__name__)

STREAMS_MAX: Final = 128
"""So many pages are kept up at once; others are read as they are."""

FORBIDDEN: Final = 403
BAD_REQUEST: Final = 400
UNAVAILABLE: Final = 503
NOT_FOUND: Final = 404
_ABSENT: Final = frozenset({MQRC.UNKNOWN_OBJECT_NAME, MQRC.NO_MSG_AVAILABLE})
_REFRESH_SECONDS: Final = 2


class SegmentConvertor(Convertor[str]):
    """A part of a path that may be any text: `%2F` in it is a character, not a border."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Return the text that a part of the path stands for."""
        return unquote(value)

    def to_string(self, value: str) -> str:
        """Return the part of a path that stands for a text."""
        return quote(value, safe="")


register_url_convertor("segment", SegmentConvertor())


class Console:
    """The application. `end` ends the streams of its pages, so that nothing holds the end of the server."""

    def __init__(
        self,
        served: ServedManager,
        admission: ConsoleAdmission,
        clock: Clock,
        start_soon: Callable[..., object],
        pages: Sequence[ConsolePage] = PAGES,
    ) -> None:
        self.site = Site(served, admission, clock, start_soon)
        self._pages = pages
        self.streams = 0
        self._app = Starlette(
            routes=[
                Route("/assets/{name}", self._asset),
                Route("/login", partial(entry.login_page, self.site), methods=["GET"]),
                Route("/login", partial(entry.log_in, self.site), methods=["POST"]),
                Route("/logout", self._log_out, methods=["POST"]),
                *(
                    Route(each.path, self._endpoint(each), methods=["GET", "POST"] if each.actions else ["GET"])
                    for each in pages
                ),
            ],
            exception_handlers={404: self._not_found},
        )
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by its path as it was sent: what is decoded before it is taken apart loses its borders."""
        path = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
        below = path.removeprefix(self.site.base) or "/"
        await self._app({**scope, "path": below, "root_path": ""}, receive, send)

    def end(self) -> None:
        """End the streams of all pages."""
        self.site.end()

    def _endpoint(self, page: ConsolePage) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            return await self._admitted(request, partial(self._answer, page))

        return answer

    async def _admitted(self, request: Request, answer: Callable[[Visit], Awaitable[Response]]) -> Response:
        site = self.site
        try:
            caller: ConsoleCaller = await site.admission.admit(request)
            return await answer(Visit(request, caller, site))
        except NotAdmittedError:
            if not await site.admission.has_users():
                return entry.first_run(site)
            if request.method == "GET" and "live" not in request.query_params:
                return entry.to_login(site, request)
            return PlainTextResponse("your session has ended: log in again\n", entry.UNAUTHORIZED, headers=HEADERS)
        except MQError as error:
            return self._refused(error)

    async def _answer(self, page: ConsolePage, visit: Visit) -> Response:
        if visit.request.method == "POST":
            return await self._act(page, visit)
        if page.parts is not None and "live" in visit.request.query_params:
            return self._stream(page, visit)
        content = await self._content(page, visit)
        if isinstance(content, Response):
            return content
        notice = self.site.notice(visit.caller.user, visit.query("said"))
        return html(document(visit, page, content, self._pages, notice, self._troubles()), content.status)

    async def _content(self, page: ConsolePage, visit: Visit) -> Content | Response:
        await self._learn_name(visit)
        try:
            return await page.content(visit)
        except MQError as error:
            if error.reason in AWAY:
                raise
            status = NOT_FOUND if error.reason in _ABSENT else STATUSES.get(error.reason, BAD_REQUEST)
            return Content("Not to be shown", h.p(".notice.bad", role="alert")[shown(str(error), 1000)], (), status)

    async def _learn_name(self, visit: Visit) -> None:
        if not self.site.q_mgr_name:
            async with visit.connection() as connection:
                self.site.q_mgr_name = connection.q_mgr_name

    async def _act(self, page: ConsolePage, visit: Visit) -> Response:
        form = await read_form(visit.request)
        if not hmac.compare_digest(str(form.get("form_token", "")).encode(), visit.form_token.encode()):
            return self._told(FORBIDDEN, "This form is not of your session: nothing was done. Load the page again.")
        act = page.actions.get(str(form.get("action", "")))
        if act is None:
            return self._told(BAD_REQUEST, "This page has no such action: nothing was done.")
        if not visit.acts:
            return self._told(FORBIDDEN, "You may look and change nothing: role MQWebAdmin or MQWebUser is missing.")
        try:
            notice = await act(visit, form)
        except MQError as error:
            notice = Notice(str(error), good=False)
        outcome = "done" if notice.good else "refused"
        logger.info(
            "console used user=%s page=%s action=%s outcome=%s: %s", visit.caller.user, visit.request.scope["path"],
            form["action"], outcome, notice.text,
        )  # fmt: skip
        said = self.site.leave_notice(visit.caller.user, notice)
        back = f"{self.site.base}{notice.back}" if notice.back else visit.here
        return see_other(f"{back}{'&' if '?' in back else '?'}said={said}")

    def _stream(self, page: ConsolePage, visit: Visit) -> Response:
        assert page.parts is not None
        if self.streams >= STREAMS_MAX or self.site.observatory.ended:
            return PlainTextResponse("no more pages are kept up now\n", UNAVAILABLE, headers=HEADERS)
        return StreamingResponse(
            self._counted(partial(self.shared, page, visit), visit), media_type=MEDIA_TYPE,
            headers={**HEADERS, "X-Accel-Buffering": "no"},
        )  # fmt: skip

    async def shared(self, page: ConsolePage, visit: Visit) -> SharedParts:
        """The parts of a page, made once for all who may see the same and have it open."""
        look = await visit.look()
        shared: SharedParts = look.made.setdefault(f"parts of {visit.here}", SharedParts())
        await shared.make(partial(self._parts, page, visit))
        return shared

    async def _parts(self, page: ConsolePage, visit: Visit) -> Parts:
        assert page.parts is not None
        return {**await page.parts(visit), "troubles": self._troubles()}

    def _troubles(self) -> list[Keyed]:
        return troubles(self.site.observatory.failing())

    async def _counted(self, shared: Callable[[], Awaitable[SharedParts]], visit: Visit) -> AsyncIterator[str]:
        self.streams += 1
        try:
            async for event in events(self.site.observatory, shared, visit.caller, SCRIPT.name):
                yield event
        finally:
            self.streams -= 1

    async def _asset(self, request: Request) -> Response:
        return asset_response(request.path_params["name"])

    async def _log_out(self, request: Request) -> Response:
        async def leave(visit: Visit) -> Response:
            form = await read_form(request)
            if not hmac.compare_digest(str(form.get("form_token", "")).encode(), visit.form_token.encode()):
                return self._told(FORBIDDEN, "This form is not of your session: nothing was done.")
            return entry.log_out(self.site, request)

        return await self._admitted(request, leave)

    def _told(self, status: int, text: str) -> Response:
        body = h.p(".notice.bad", role="alert")[text], h.p[h.a(href=f"{self.site.base}/")["To the first page"]]
        return html(bare_document(self.site.base, "Nothing was done", body), status)

    def _refused(self, error: MQError) -> Response:
        """The answer where the queue manager is away: the page asks again, and goes on when it is back."""
        status = STATUSES.get(error.reason, BAD_REQUEST)
        away = error.reason in AWAY
        body = (
            h.p(".notice.bad", role="alert")[shown(str(error), 1000)],
            h.p["This page tries again in a moment."] if away else None,
        )
        title = "The queue manager is not available" if away else "Not to be shown"
        return html(bare_document(self.site.base, title, body, refresh=_REFRESH_SECONDS if away else 0), status)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        body = h.p["There is no such page. ", h.a(href=f"{self.site.base}/")["To the first page"]]
        return html(bare_document(self.site.base, "No such page", body), 404)
