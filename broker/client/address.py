"""The addresses of queue managers: the URLs that `connect` takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote, urlsplit

if TYPE_CHECKING:
    from urllib.parse import SplitResult

DEFAULT_PORT: Final = 1414

_FORM: Final = "mq://host[:port][,host[:port]...][/QM]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A TCP address, or the path of a Unix socket; `q_mgr_name` is "" where any queue manager there will do. `others`
    do as well as this one.
    """

    host: str = ""
    port: int = DEFAULT_PORT
    path: str = ""
    q_mgr_name: str = ""
    others: tuple[Address, ...] = ()

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
    """The address in `mq://host[:port][,host[:port]...][/QM]` or `mq+unix:///path/to.sock[?name=QM]`. Raises
    ValueError.
    """
    scheme, _, rest = url.partition("://")
    places = rest.partition("/")[0]
    if scheme == "mq" and "," in places:
        first, *others = (parse(f"mq://{place}{rest[len(places) :]}") for place in places.split(","))
        return replace(first, others=tuple(others))
    parts = urlsplit(url)
    if parts.fragment or parts.username is not None or parts.password is not None:
        raise ValueError(f"{url}: a user, a password or a #fragment has no place in the URL of a queue manager")
    match parts.scheme:
        case "mq":
            return _tcp(url, parts)
        case "mq+unix":
            return _unix(url, parts)
        case "mqs":
            raise ValueError(f"{url}: TLS is not available yet; use mq:// on this machine")
        case _:
            raise ValueError(f"{url}: not {_FORM} or mq+unix:///path/to.sock[?name=QM]")


def _tcp(url: str, parts: SplitResult) -> Address:
    name = parts.path.removeprefix("/")
    if not parts.hostname or "/" in name or parts.query:
        raise ValueError(f"{url}: not {_FORM}")
    try:
        port = DEFAULT_PORT if parts.port is None else parts.port
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    return Address(host=parts.hostname, port=port, q_mgr_name=unquote(name))


def _unix(url: str, parts: SplitResult) -> Address:
    try:
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ValueError(f"{url}: {error}") from error
    names = options.pop("name", [""])
    if parts.netloc or not parts.path.strip("/") or options or len(names) > 1:
        raise ValueError(f"{url}: not mq+unix:///path/to.sock[?name=QM]")
    return Address(path=unquote(parts.path), q_mgr_name=names[0])
