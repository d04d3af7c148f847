"""The probes: alive, ready, started (operations 2). They look at what is in memory, and ask nobody who they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, PlainTextResponse

from broker.http.exposition import accepts

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from broker.http.served_manager import ServedManager

FAILING: Final = 503
_HEADERS: Final = {"Cache-Control": "no-store"}


class Probes:
    """The probes of a queue manager."""

    def __init__(self, served: ServedManager) -> None:
        self._served = served
        self._was_ready = False

    async def live(self, request: Request) -> Response:
        """/livez: 503 where nothing but a restart would help."""
        return _answer(request, self._served.failing_checks(ready=False))

    async def ready(self, request: Request) -> Response:
        """/readyz: 200 while all is well."""
        return _answer(request, self._checked())

    async def startup(self, request: Request) -> Response:
        """/startupz: as /readyz, and 200 from then on."""
        failing = self._checked()
        return _answer(request, {} if self._was_ready else failing)

    def started(self) -> None:
        """The start is over: it may have been ready now, though nobody asks."""
        self._checked()

    def _checked(self) -> dict[str, str]:
        failing = self._served.failing_checks(ready=True)
        self._was_ready = self._was_ready or not failing
        return failing


def _answer(request: Request, failing: dict[str, str]) -> Response:
    status = FAILING if failing else 200
    if accepts(request.headers.get("accept", ""), "application/json"):
        word = "failing" if failing else "ok"
        return JSONResponse({"status": word, "checks": failing}, status, headers=_HEADERS)
    text = "".join(f"{name}: {why}\n" for name, why in failing.items()) or "ok\n"
    return PlainTextResponse(text, status, headers=_HEADERS)
