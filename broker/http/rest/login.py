"""/login: a session by a cookie, for clients that send no password with each request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import JSONResponse, Response

from broker.http.rest.calls import not_here, require_csrf_header, wrong_method
from broker.http.rest.errors import MEDIA_TYPE, NOT_VALID, refused

if TYPE_CHECKING:
    from broker.http.entrance import Entrance
    from broker.http.rest.calls import RestCall

NO_CONTENT: Final = 204


class LoginResource:
    """The resource /login of all versions."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance

    async def answer(self, call: RestCall) -> Response:
        """POST begins a session, GET tells whose it is, DELETE ends it."""
        if call.path:
            raise not_here(call)
        match call.method:
            case "POST":
                return await self._log_in(call)
            case "GET":
                return await self._tell(call)
            case "DELETE":
                return await self._log_out(call)
        raise wrong_method(call, ("GET", "POST", "DELETE"))

    async def _log_in(self, call: RestCall) -> Response:
        """Needs no CSRF header: no form of a page can send JSON."""
        given = await call.json()
        user, password = given.get("username"), given.get("password")
        if not (isinstance(user, str) and isinstance(password, str)) or given.keys() - {"username", "password"}:
            raise refused(400, NOT_VALID, "The body has 'username' and 'password', each a text, and nothing else.")
        _, cookie = await self._entrance.log_in(call.scope, user, password)
        return Response(status_code=NO_CONTENT, headers={"Set-Cookie": cookie})

    async def _tell(self, call: RestCall) -> Response:
        caller = await self._entrance.admit(call.scope)
        user = {"name": caller.user, "role": sorted(caller.roles)}
        return JSONResponse({"user": [user]}, media_type=MEDIA_TYPE)

    async def _log_out(self, call: RestCall) -> Response:
        await self._entrance.admit(call.scope)
        require_csrf_header(call)
        cookie = self._entrance.log_out(call.scope)
        return Response(status_code=NO_CONTENT, headers={"Set-Cookie": cookie})
