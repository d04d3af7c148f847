"""The search for messages of a queue: all, or those with an identifier, or those of which a selector is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from broker.mqi import MQGMO, MQMO, MQRC, GetMessageOptions, MessageDescriptor, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from broker.http.console.visit import Visit

ID_BYTES: Final = 24
FIELDS: Final = {"msg_id": "MsgId", "correl_id": "CorrelId", "group_id": "GroupId"}
_MATCH: Final = {
    "msg_id": MQMO.MATCH_MSG_ID,
    "correl_id": MQMO.MATCH_CORREL_ID,
    "group_id": MQMO.MATCH_GROUP_ID,
}


class MessageSearch(NamedTuple):
    """The messages that a visitor looks for. An identifier that is None is not looked at; the selector is as that of
    MQOPEN.
    """

    msg_id: bytes | None = None
    correl_id: bytes | None = None
    group_id: bytes | None = None
    selector: str = ""

    @property
    def descriptor(self) -> MessageDescriptor:
        """The descriptor whose identifiers a browse compares."""
        given = {name: getattr(self, name) for name in FIELDS if getattr(self, name) is not None}
        return MessageDescriptor(**given)

    def options(self, step: int) -> GetMessageOptions:
        """The options of a browse."""
        match = sum(each for name, each in _MATCH.items() if getattr(self, name) is not None)
        options = step | MQGMO.ACCEPT_TRUNCATED_MSG | MQGMO.PROPERTIES_IN_HANDLE | MQGMO.FAIL_IF_QUIESCING
        return GetMessageOptions(options=int(options), match_options=int(match))

    def object(self, q_name: str) -> ObjectDescriptor:
        """The descriptor by which the queue is opened."""
        return ObjectDescriptor(object_name=q_name, selection_string=self.selector)


def asked(visit: Visit) -> MessageSearch:
    """Return what the query of a visit looks for. Raises OPTIONS_ERROR (2046) for what is no identifier."""
    ids = {name: read_id(visit.query(name), word) for name, word in FIELDS.items() if visit.query(name).strip()}
    return MessageSearch(**ids, selector=visit.query("selector").strip())


def read_id(text: str, name: str) -> bytes:
    """Return an identifier from its hexadecimal digits; a shorter one is filled up with zeros. Raises OPTIONS_ERROR
    (2046).
    """
    try:
        given = bytes.fromhex(text)
    except ValueError:
        raise MQError(MQRC.OPTIONS_ERROR, f"{name} {text[:100]!r} is not hexadecimal digits, two a byte") from None
    if len(given) > ID_BYTES:
        raise MQError(MQRC.OPTIONS_ERROR, f"{name} has {ID_BYTES} bytes, {2 * ID_BYTES} digits; {2 * len(given)} given")
    return given.ljust(ID_BYTES, b"\0")
