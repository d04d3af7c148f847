"""The options and the tag with which a program connects (MQCONNX), as it gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.interface.options import flags
from broker.interface.port import answer, drop

if TYPE_CHECKING:
    from broker.interface.port import Port

_FORMS = "MQCNO flags, such as MQCNO.SERIALIZE_CONN_TAG_QSG"


class Tagging(NamedTuple):
    """The connection tag of a program, and its options."""

    options: int
    tag: bytes

    async def take(self, port: Port) -> None:
        """Take the tag for a connection that begins; one that does not get it ends. Raises MQError."""
        try:
            await answer(port.serialize(*self))
        except BaseException:
            drop(port)
            raise


def tagging_of(options: int, conn_tag: bytes) -> Tagging | None:
    """Return the tag and its options; None if there is nothing to tell the queue manager. Raises TypeError."""
    if not isinstance(conn_tag, bytes | bytearray | memoryview):
        raise TypeError(f"conn_tag is bytes, not {type(conn_tag).__name__}")
    chosen = flags(options, _FORMS)
    return Tagging(chosen, bytes(conn_tag)) if chosen else None
