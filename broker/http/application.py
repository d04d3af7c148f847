"""The application: the routes of the HTTP server, and the parts that are mounted beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

from broker.http.entrance.cross_origin import asking_page

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from broker.http.entrance.hosts import RequestOrigins
    from broker.http.metrics import Metrics
    from broker.http.probes import Probes
    from broker.http.served_manager import ServedManager

BODY_BYTES: Final = 64 * 1024
"""The longest body of a request, where a mounted part does not say otherwise."""

STARTING: Final = "starting"

CONSOLE: Final = "/console"
"""The path to which `/` leads, where it is mounted."""


class Mounted(NamedTuple):
    """A part of the server with routes of its own below a path, and a longest body."""

    path: str
    app: ASGIApp
    body_bytes: int | Callable[[str], int] = BODY_BYTES
    """The longest body, or what tells it by the whole path."""

    for_pages: bool = False
    """Pages of other origins may ask it, where the settings name them."""


class Application:
    """The ASGI application of one address. Until the start is over it answers probes alone. `origins` says by which
    ways a request may come; without them by any.
    """

    def __init__(
        self,
        served: ServedManager,
        probes: Probes,
        metrics: Metrics | None,
        mounted: Sequence[Mounted] = (),
        origins: RequestOrigins | None = None,
    ) -> None:
        self._served = served
        self._origins = origins
        self._mounted = mounted
        routes = [
            Route("/livez", probes.live),
            Route("/readyz", probes.ready),
            Route("/startupz", probes.startup),
        ]
        late = [] if metrics is None else [Route("/metrics", metrics.get)]
        if mounted:
            from broker.http.openapi.document import openapi  # it is long, and probes alone need it not

            late.append(Route("/openapi.json", openapi))
        leading = [Route(path, _to_console) for path in ("/", CONSOLE) if any(each.path == CONSOLE for each in mounted)]
        paths = ", ".join([*(each.path for each in (*routes, *late)), *(f"{each.path}/..." for each in mounted)])
        self._probes = {each.path for each in routes}
        self._absent = f"there is nothing at this path; there are {paths}\n"
        self._app = Starlette(
            routes=[*routes, *late, *leading],
            exception_handlers={404: self._not_found},
        )
        self._app.router.redirect_slashes = False
        self._started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        part, origins, page = self._part(scope["path"]), self._origins, None
        if origins is not None and origins.pages and part is not None and part.for_pages:
            page = asking_page(scope, origins.pages)
        refusal = None if origins is None else origins.refusal(scope, page)
        if page is not None:
            send = page.told(send)
            refusal = refusal or page.leave(scope)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        why = "" if self._started or scope["path"] in self._probes else self._starting()
        if why:
            await PlainTextResponse(f"{STARTING}: {why}\n", 503, headers={"Retry-After": "1"})(scope, receive, send)
            return
        if part is None:
            await self._app(scope, receive, send)
        else:
            await part.app({**scope, "root_path": part.path}, receive, send)

    def _starting(self) -> str:
        """Return why the start is not over; empty from when it is."""
        why = self._served.failing_checks(ready=True).get(STARTING, "")
        self._started = not why
        return why

    def body_bytes(self, path: str) -> int:
        """Return how long the body of a request for this path may be."""
        part = self._part(path)
        if part is None:
            return BODY_BYTES
        return part.body_bytes if isinstance(part.body_bytes, int) else part.body_bytes(path)

    def _part(self, path: str) -> Mounted | None:
        """The part below whose path this one is."""
        for each in self._mounted:
            if path.startswith(each.path) and path[len(each.path) :][:1] == "/":
                return each
        return None

    async def _not_found(self, request: Request, error: Exception) -> Response:
        return PlainTextResponse(self._absent, 404)


async def _to_console(request: Request) -> Response:
    return RedirectResponse(f"{CONSOLE}/")
