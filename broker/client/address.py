"""The addresses of queue managers: the URLs that `connect` takes.

A URL may name a user, a channel and files, never a secret. An error repeats nothing of a URL that may hold one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NoReturn
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection

DEFAULT_PORT: Final = 1414
DEFAULT_TLS_PORT: Final = 1415

_FORMS: Final = {
    "mq": "mq://[user@]host[:port][,host[:port]...][/QM][?channel=]",
    "mqs": "mqs://[user@]host[:port][,host[:port]...][/QM][?channel=&ca=&cert=&key=]",
    "mq+unix": "mq+unix:///path/to.sock[?name=QM]",
}
_OPTIONS: Final = {"mq": {"channel"}, "mqs": {"channel", "ca", "cert", "key"}, "mq+unix": {"name"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A TCP address, or the path of a Unix socket; `q_mgr_name` is "" where any queue manager there will do. `others`
    do as well as this one. `user`, `channel` and the files `ca`, `cert` and `key` are those of the URL, "" without.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    q_mgr_name: str = ""
    others: tuple[Address, ...] = ()
    tls: bool = False
    user: str = ""
    channel: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def all(self) -> tuple[Address, ...]:
        """Each by itself, in the order given."""
        return replace(self, others=()), *self.others

    def __str__(self) -> str:
        if self.others:
            return ", ".join(map(str, self.all))
        if self.path:
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(url: str) -> Address:
    """The address in `mq://[user@]host[:port][,host[:port]...][/QM][?channel=]`, in `mqs://` with the same and
    `ca=&cert=&key=`, or in `mq+unix:///path/to.sock[?name=QM]`. Raises ValueError, which repeats nothing of a URL with
    a user or options.
    """
    scheme, _, rest = url.partition("://")
    before, at, _ = rest.rpartition("@")
    if at and ":" in before and not rest.startswith("/") and "?" not in before:
        raise ValueError(
            f"the URL {shown(url)} has a password: say password= or EVERMQ_PASSWORD_FILE, and in the URL the user alone"
        )
    form = _FORMS.get(scheme)
    if form is None:
        raise ValueError(f"{shown(url)}: not {_FORMS['mq']}, {_FORMS['mqs']} or {_FORMS['mq+unix']}")
    if "#" in rest:
        raise ValueError(f"{shown(url)}: a #fragment has no place in the URL of a queue manager")
    head, _, query = rest.partition("?")
    options = _options(url, query, _OPTIONS[scheme])
    places, slash, name = head.partition("/")
    if scheme == "mq+unix":
        if places or not name.strip("/"):
            _refuse(url, form)
        return Address(path=unquote(slash + name), q_mgr_name=options.get("name", ""))
    user, at, hosts = places.rpartition("@")
    if "/" in name or {"@", ","} & {*user} or (at and not user):
        _refuse(url, form)
    tls = scheme == "mqs"
    common = Address(
        q_mgr_name=unquote(name), tls=tls, user=unquote(user), channel=options.get("channel", ""),
        ca=options.get("ca", ""), cert=options.get("cert", ""), key=options.get("key", ""),
    )  # fmt: skip
    found = [_place(url, each, DEFAULT_TLS_PORT if tls else DEFAULT_PORT) for each in hosts.split(",")]
    first, *others = [replace(common, host=host, port=port) for host, port in found]
    return replace(first, others=tuple(others))


def completed(url: str, *, user: str = "", **options: str) -> str:
    """Return a URL with this user and these options, `channel`, `ca`, `cert` and `key`, in place of its own where they
    are not "". Raises ValueError, also for an option that is not for its scheme.
    """
    given = {name: value for name, value in options.items() if value}
    if not user and not given:
        return url
    parse(url)
    scheme, _, rest = url.partition("://")
    head, _, query = rest.partition("?")
    if astray := given.keys() - _OPTIONS[scheme] | ({"user"} if user and scheme == "mq+unix" else set()):
        raise ValueError(f"{', '.join(sorted(astray))} is not for {scheme}:// ({shown(url)})")
    if user:
        places, slash, name = head.partition("/")
        head = f"{quote(user, safe='')}@{places.rpartition('@')[2]}{slash}{name}"
    own = dict(parse_qsl(query))
    if "cert" in given:
        own.pop("key", None)  # which is that of another certificate
    both = urlencode({**own, **given}, quote_via=quote, safe="/")
    return f"{scheme}://{head}{'?' if both else ''}{both}"


def shown(url: str) -> str:
    """Return a URL as an error or a log may have it: what may hold a secret is left out."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://..." if separator and ("@" in url or "?" in url) else url


def _refuse(url: str, form: str) -> NoReturn:
    raise ValueError(f"{shown(url)}: not {form}")


def _options(url: str, query: str, known: Collection[str]) -> dict[str, str]:
    """The options of a URL. An error repeats nothing of them."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ValueError(f"{shown(url)}: its options are not name=value, joined with &") from None
    options = dict(pairs)
    if options.keys() - known or len(options) < len(pairs):
        raise ValueError(f"{shown(url)}: it may have {', '.join(sorted(known))}, each once, and no other option")
    return options


def _place(url: str, place: str, default_port: int) -> tuple[str, int]:
    """The host and the port of one place."""
    try:
        parts = urlsplit(f"mq://{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"{shown(url)}: a port is a number of 0 to 65535, an IPv6 address is in brackets") from None
    if not host:
        _refuse(url, _FORMS[url.partition("://")[0]])
    return host, default_port if port is None else port
