"""The record of what has become of a message under a handler, as it stands on the history of its queue.

It is JSON in UTF-8; its CorrelId is the MsgId of the message (transactions rule 6.2).
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple, NoReturn

from broker.mqi.delivery_fields import failure_text

HISTORY: Final = ".HISTORY"
"""Behind the name of a queue: the queue for its history."""

OUTCOMES: Final = ("succeeded", "rejected", "unreadable", "dead_lettered", "expired")

_NAME_CHARACTERS: Final = 48


class HistoryRecord(NamedTuple):
    """What has become of a message.

    `outcome` is one of `OUTCOMES`, `attempts` how many there were. `put`, `began` (the last attempt) and `ended` are in
    seconds since 1970, `waited` and `ran` in seconds: from the put to the last attempt, and for how long that ran. What
    is not known is None: `began` where no attempt began.

    Of what has failed `why` says how the last attempt did, `reason` is that of the dead letter or the Feedback, and
    `exception` and `error` are what the handler raised. `key` is the value by which the handler orders the messages,
    or the group; bytes are in hexadecimal digits. `value` is the JSON of what the handler has returned; None: nothing,
    or no JSON, whose type and length are `value_type` and `value_length` then. `steps` are the names of those that were
    finished.
    """

    queue: str
    handler: str
    worker: str
    outcome: str
    attempts: int
    put: float | None = None
    began: float | None = None
    ended: float = 0.0
    waited: float | None = None
    ran: float | None = None
    why: str = ""
    reason: int = 0
    exception: str = ""
    error: str = ""
    key: str | int | float | bool | None = None
    value: Any = None
    value_type: str = ""
    value_length: int = 0
    steps: tuple[str, ...] = ()

    @property
    def failure(self) -> str:
        """The error of the handler, in words; "" for what has succeeded."""
        return failure_text(self.exception, self.error, self.why)


def history_q_name(q_name: str) -> str:
    """The queue for the history of a queue; its name is cut to what a name may have."""
    return q_name[: _NAME_CHARACTERS - len(HISTORY)] + HISTORY


def read_record(data: bytes) -> HistoryRecord:
    """Return the record that is in the data of a message. What a later version has added is left out. Raises
    ValueError.
    """
    fields = decode_json(data)
    if not isinstance(fields, dict):
        raise ValueError("a record of a history is a JSON object")
    known = {name: fields[name] for name in HistoryRecord._fields if name in fields}
    missing = [name for name in _REQUIRED if name not in known]
    if missing:
        raise ValueError(f"a record of a history has {', '.join(missing)}")
    if "steps" in known:
        known["steps"] = tuple(map(str, known["steps"]))
    return HistoryRecord(**known)


def decode_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; raises ValueError for what is none, NaN and infinity included."""
    try:
        return _DECODER.decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def is_json(text: str) -> bool:
    """True if this is one JSON value, with nothing round it."""
    try:
        _, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return False
    return bool(end == len(text))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_REQUIRED: Final = ("queue", "handler", "outcome", "attempts", "ended")
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
_scan: Final[Any] = _DECODER.scan_once  # type: ignore[attr-defined]  # `raw_decode` without the text of its error
