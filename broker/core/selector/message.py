"""A message as selectors see it: its properties by name, its descriptor as `Root.MQMD.Field`.

Identifiers and the accounting token are byte strings, to be compared with `0x...`. Of Expiry only -1 (unlimited) is to
be seen, otherwise it is NULL: it runs down while the message waits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgpack

from broker.core.message.headers.properties import decoded
from broker.mqi.errors import MQError
from broker.mqi.layouts.packing import PACKED_FIELDS
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.message.entry import Entry
    from broker.mqi.layouts.folders import Value

_PREFIX: Final = "Root.MQMD."
_FIELDS: Final = {
    f"{_PREFIX}{name}": field
    for name, field in {
        "Report": "report",
        "MsgType": "msg_type",
        "Expiry": "expiry",
        "Feedback": "feedback",
        "Encoding": "encoding",
        "CodedCharSetId": "coded_char_set_id",
        "Format": "format",
        "Priority": "priority",
        "Persistence": "persistence",
        "MsgId": "msg_id",
        "CorrelId": "correl_id",
        "BackoutCount": "backout_count",
        "ReplyToQ": "reply_to_q",
        "ReplyToQMgr": "reply_to_q_mgr",
        "UserIdentifier": "user_identifier",
        "AccountingToken": "accounting_token",
        "ApplIdentityData": "appl_identity_data",
        "PutApplType": "put_appl_type",
        "PutApplName": "put_appl_name",
        "PutDate": "put_date",
        "PutTime": "put_time",
        "ApplOriginData": "appl_origin_data",
        "GroupId": "group_id",
        "MsgSeqNumber": "msg_seq_number",
        "Offset": "offset",
        "MsgFlags": "msg_flags",
        "OriginalLength": "original_length",
    }.items()
}


class Selector:
    """A selector compiled. The same text is the same object while many do not come between. `conjuncts` are comparisons
    of fields of the descriptor, by the names of an `Entry`, without which it is not true.
    """

    __slots__ = ("_evaluate", "conjuncts", "text")

    def __init__(self, text: str) -> None:
        from broker.core.selector.compiling import compile_text  # with the first selector: its parser is large

        node = compile_text(text)
        for name in node.names:
            if name.startswith(_PREFIX) and name not in _FIELDS:
                raise MQError(MQRC.SELECTOR_SYNTAX_ERROR, f"{name}: MQMD has no such field")
        self.text = text
        self._evaluate = node.evaluate
        self.conjuncts = tuple(
            each._replace(name=_FIELDS[each.name]) for each in node.conjuncts if each.name in _FIELDS
        )

    def matches(self, entry: Entry) -> bool:
        """True if the condition is true of the message; neither false nor unknown will do."""
        return self._evaluate(_MessageLookup(entry)) is True

    def __repr__(self) -> str:
        return f"<Selector {self.text}>"


@lru_cache(maxsize=256)
def selector(text: str) -> Selector:
    """The selector with this text. Raises SELECTOR_SYNTAX_ERROR (2459), SELECTION_STRING_ERROR (2519)."""
    return Selector(text)


class _MessageLookup:
    """The lookup for one message; what is packed is unpacked when it is first asked for."""

    __slots__ = ("_entry", "_packed_md")

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._packed_md: list[Any] | None = None

    def __call__(self, name: str) -> Value:
        field = _FIELDS.get(name)
        return self._property(name) if field is None else self._field(field)

    def _property(self, name: str) -> Value:
        packed = self._entry.properties
        return decoded(packed).get(name.removeprefix("usr.")) if packed else None

    def _field(self, field: str) -> Value:
        if field == "expiry":
            return -1 if self._entry.deadline is None else None
        if field in PACKED_FIELDS:
            if self._packed_md is None:
                self._packed_md = msgpack.unpackb(self._entry.packed_md)
            value: Value = self._packed_md[PACKED_FIELDS.index(field)]
            return value
        own: Value = getattr(self._entry, field)
        return own
