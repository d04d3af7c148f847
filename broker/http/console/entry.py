"""The ways in and out: the login page, the page of a queue manager without users, the logout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

import htpy as h

from broker.http.console.answers import html, see_other
from broker.http.console.elements import shown
from broker.http.console.forms import hidden, read_form, text_input
from broker.http.console.layout import bare_document
from broker.http.entrance import NotAdmittedError
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from broker.http.console.site import Site

FIRST_USER: Final = "evermq user add NAME --groups mqm"
UNAUTHORIZED: Final = 401
UNAVAILABLE: Final = 503
_WRONG: Final = "The queue manager does not let you in with this user and password."


async def login_page(site: Site, request: Request) -> Response:
    """GET /login: the form, or who has to be defined first."""
    if not await site.admission.has_users():
        return first_run(site)
    return _form(site, _next(site, request.query_params.get("next", "")))


async def log_in(site: Site, request: Request) -> Response:
    """POST /login: begin a session, and go on to the page that was asked for."""
    form = await read_form(request)
    user, password = str(form.get("user", "")), str(form.get("password", ""))
    then = _next(site, str(form.get("next", "")))
    try:
        _, cookie = await site.admission.log_in(request, user, password)
    except NotAdmittedError:
        return _form(site, then, user, _WRONG, UNAUTHORIZED)
    except MQError as error:
        if error.reason == MQRC.NOT_AUTHORIZED:
            return _form(site, then, user, _WRONG, UNAUTHORIZED)
        return _form(site, then, user, str(error), UNAVAILABLE)
    return see_other(then, cookie)


def log_out(site: Site, request: Request) -> Response:
    """End the session of somebody who has come in."""
    return see_other(f"{site.base}/login", site.admission.log_out(request))


def to_login(site: Site, request: Request) -> Response:
    """Send somebody who has not come in to the login page, which leads back."""
    query = f"?{request.url.query}" if request.url.query else ""
    then = f"{site.base}{request.scope['path']}{query}"
    login = f"{site.base}/login"
    back = "" if then == f"{site.base}/" else f"?{urlencode({'next': then})}"
    return see_other(f"{login}{back}")


def first_run(site: Site) -> Response:
    """The page of a queue manager that has no user yet: nobody can be let in."""
    body = (
        h.p["Nobody can come in yet: this queue manager has no users. Define the first one, an administrator:"],
        h.pre[h.code[FIRST_USER]],
        h.p[
            "Run it on the machine of the queue manager; it asks for a password. With ",
            h.code["mqm"], " the user may do everything. Then ", h.a(href=f"{site.base}/login")["come in"], ".",
        ],
    )  # fmt: skip
    return html(bare_document(site.base, "Welcome to EverMQ", body), UNAUTHORIZED)


def _form(site: Site, then: str, user: str = "", problem: str = "", status: int = 200) -> Response:
    body = (
        h.p(".notice.bad", role="alert")[shown(problem, 500)] if problem else None,
        h.form(".login", method="post", action=f"{site.base}/login")[
            hidden("next", then),
            text_input("user", "User", value=user, required=True),
            h.label[
                h.span["Password"], h.input(type="password", name="password", autocomplete="current-password"),
            ],
            h.button(".act", type="submit")["Log in"],
        ],
    )  # fmt: skip
    return html(bare_document(site.base, f"Log in to {site.q_mgr_name or 'EverMQ'}", body), status)


def _next(site: Site, path: str) -> str:
    """Return where to go on to: a page of the console, whoever names another."""
    plain = path.startswith(f"{site.base}/") and "\\" not in path and "//" not in path and path.isprintable()
    return path if plain else f"{site.base}/"
