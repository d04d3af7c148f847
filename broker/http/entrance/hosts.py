"""The Host, the origin and the proxies that a request may come by.

1. A page of elsewhere whose name is made to lead to this machine (DNS rebinding) asks with its own name: a Host that is
   neither loopback nor the address listened on nor in `[http] hosts` is answered with 421. No browser sends none.
2. A form or script of a page of elsewhere says so in Origin: nothing that changes anything is taken from there.
3. What a proxy says of its callers is believed of those in `[http] forwarded_from` alone; the address of any other is
   that of the caller.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import PlainTextResponse

from broker.http.entrance.headers import header_values

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Scope

    from broker.http.entrance.cross_origin import AskingPage

MISDIRECTED: Final = 421
BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403

READING: Final = ("GET", "HEAD", "OPTIONS", "TRACE")
"""The methods that change nothing."""

SHOWN_CHARACTERS: Final = 100


class RequestOrigins(NamedTuple):
    """The names by which the server is known beside its addresses, in small letters, and its proxies' addresses.
    `pages` are the origins whose pages may ask beside its own.
    """

    hosts: frozenset[str] = frozenset()
    proxies: frozenset[str] = frozenset()
    pages: frozenset[str] = frozenset()

    def refusal(self, scope: Scope, page: AskingPage | None = None) -> Response | None:
        """Return the answer to a request that comes by a way that it may not; None for any other. The `address` in the
        state of the scope, and its scheme, are then those of the caller. A `page` of another origin may ask.
        """
        proxied = scope["state"]["address"] in self.proxies
        if proxied and not self._follow_proxy(scope):
            return _said(BAD_REQUEST, "X-Forwarded-For has what is no address")
        host = origin = None
        for name, value in scope["headers"]:
            if name == b"host":
                if host is not None:
                    return _said(BAD_REQUEST, "a request has one Host")
                host = value.decode("latin-1")
            elif name == b"origin" and origin is None:
                origin = value.decode("latin-1")
        if host and not self._is_ours(_host_name(host), scope):
            shown = ascii(host[:SHOWN_CHARACTERS])
            return _said(MISDIRECTED, f"Host {shown} is not known here: [http] hosts has the names that are")
        if origin is not None and page is None and scope["method"] not in READING:
            own = f"{scope['scheme']}://{host or ''}".lower()
            if origin.lower() != own and not (proxied and self._is_named(origin, scope)):
                shown = ascii(origin[:SHOWN_CHARACTERS])
                return _said(FORBIDDEN, f"nothing is taken from pages of elsewhere: Origin {shown} is not {own}")
        return None

    def _is_ours(self, name: str, scope: Scope) -> bool:
        if name in self.hosts or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            address = ip_address(name)
            return address.is_loopback or address == ip_address(scope["server"][0])
        except (ValueError, TypeError):
            return False

    def _is_named(self, origin: str, scope: Scope) -> bool:
        """True if an origin has one of the names: a proxy may have put another Host in the place of its own."""
        scheme, _, host = origin.lower().partition("://")
        return scheme == scope["scheme"] and _host_name(host) in self.hosts

    def _follow_proxy(self, scope: Scope) -> bool:
        """Take the caller's address and the scheme from what a proxy says. False for what is no address."""
        told = [each.strip() for each in _joined(scope, b"x-forwarded-for").split(",") if each.strip()]
        for each in reversed(told):
            try:
                address = str(ip_address(_host_name(each)))
            except ValueError:
                return False
            scope["state"]["address"] = address
            scope["state"]["certificate"] = None  # it is the proxy's
            if address not in self.proxies:
                break
        scheme = _joined(scope, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
        if scheme in ("http", "https"):
            scope["scheme"] = scheme
        return True


def _joined(scope: Scope, name: bytes) -> str:
    """Return a header of a request, all of it where it is there more than once."""
    return ",".join(value.decode("latin-1") for value in header_values(scope, name))


@lru_cache(256)
def _host_name(host: str) -> str:
    """Return a host without its port, an address of IPv6 without brackets, in small letters."""
    host = host.strip().lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name = host.partition(":")[0] if host.count(":") == 1 else host
    return name.removesuffix(".")


def _said(status: int, text: str) -> Response:
    return PlainTextResponse(f"{text}\n", status, headers={"X-Content-Type-Options": "nosniff"})
