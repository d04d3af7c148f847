"""The query parameters of the messaging resources: what each resource takes, and their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qsl

from broker.http.rest.messaging.identifiers import NO_CORRELATION, CorrelationId, correlation_in, id_in, selected
from broker.http.rest.messaging.versions import InvalidValueError, RestVersion, shown, twice
from broker.mqi import MQMI_NONE, MQMO

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WAIT_MS_MAX: Final = 2_147_483_647
LIST_DEFAULT: Final = 10
LIST_MAX: Final = 1000
LEASE_MS_DEFAULT: Final = 30_000
LEASE_MS_MAX: Final = 3_600_000
"""An hour: so long a message may be in the hands of a client that says nothing."""

SELECTORS: Final = ("correlationId", "messageId")


class AskedMessages(NamedTuple):
    """The parameters of a request: which messages, and how long to wait for one, in milliseconds; None: not at all."""

    msg_id: bytes | None = None
    correlation: CorrelationId = NO_CORRELATION
    wait_ms: int | None = None
    limit: int = LIST_DEFAULT
    lease_ms: int = LEASE_MS_DEFAULT

    @property
    def selection(self) -> str:
        """A selection string beside the identifiers, where these do not tell everything; else empty."""
        return "jms.Cid = '{}'".format(self.correlation.string.replace("'", "''")) if self.correlation.cut else ""

    @property
    def match_options(self) -> int:
        """The MQMO of a get of one of them."""
        by_msg_id = MQMO.MATCH_MSG_ID.value if self.msg_id is not None else 0
        by_correl_id = MQMO.MATCH_CORREL_ID.value if selected(self.correlation.id) is not None else 0
        return by_msg_id | by_correl_id

    @property
    def identifiers(self) -> tuple[bytes, bytes]:
        """The MsgId and CorrelId of a descriptor for a get of one of them."""
        return self.msg_id or MQMI_NONE, self.correlation.id


def asked(version: RestVersion, query: bytes, names: Sequence[str]) -> AskedMessages:
    """Return what the parameters in the query of a URL say; the resource takes those of these names. Raises
    InvalidValueError.
    """
    if not query:
        return NOTHING_ASKED
    given: dict[str, object] = {}
    for name, text in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in names:
            there = f"there are {', '.join(names)}" if names else "this resource takes none with this method"
            raise InvalidValueError(shown(name), f"it is no parameter; {there}")
        field, reader = _READERS[name]
        if field in given:
            raise twice(name)
        given[field] = reader(version, name, text)
    return AskedMessages(**given)  # type: ignore[arg-type]  # each by its reader


def _msg_id(version: RestVersion, name: str, text: str) -> bytes | None:
    return selected(id_in(version, name, text))


def _milliseconds(most: int) -> Callable[[RestVersion, str, str], int]:
    def read(version: RestVersion, name: str, text: str) -> int:
        return _whole(name, text, 0, most, "milliseconds, ")

    return read


def _limit(version: RestVersion, name: str, text: str) -> int:
    return _whole(name, text, 1, LIST_MAX, "")


def _whole(name: str, text: str, least: int, most: int, unit: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= most):
        raise InvalidValueError(name, f"{shown(text)} is not {unit}{least} to {most}")
    return int(text)


_READERS: Final[dict[str, tuple[str, Callable[[RestVersion, str, str], object]]]] = {
    "messageId": ("msg_id", _msg_id),
    "correlationId": ("correlation", correlation_in),
    "wait": ("wait_ms", _milliseconds(WAIT_MS_MAX)),
    "limit": ("limit", _limit),
    "lease": ("lease_ms", _milliseconds(LEASE_MS_MAX)),
}
NOTHING_ASKED: Final = AskedMessages()
