"""Trigger messages as they come from an initiation queue, where anybody may put."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.mqi import MQENC, MQFB, MQFMT, MQTM

if TYPE_CHECKING:
    from broker import Message

_INTEGERS: Final = 0xF
"""The digit of Encoding that is about integers."""


class UnservedMessage(Exception):
    """A trigger message that goes to the dead-letter queue. `feedback` is the reason in its header."""

    def __init__(self, feedback: MQFB, text: str) -> None:
        super().__init__(text)
        self.feedback = feedback


def trigger_of(message: Message) -> MQTM:
    """The trigger message in a message. Raises UnservedMessage for what is none."""
    md = message.md
    integers = md.encoding & _INTEGERS
    try:
        if md.format != MQFMT.TRIGGER:
            raise ValueError(f"the format is {md.format!r}, not {MQFMT.TRIGGER.value!r}")
        return MQTM.from_bytes(message.data, "big" if integers == MQENC.INTEGER_NORMAL else "little")
    except ValueError as error:
        raise UnservedMessage(MQFB.TM_ERROR, f"no trigger message: {error}") from error
