"""The dead-letter header: why a message is on the dead-letter queue, and where it should have gone (semantics 12.4).

Only what the queue manager itself puts comes to the dead-letter queue by itself; a program's put that fails is
answered with its reason.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.core.message.generated.generated import GeneratedMessage
from broker.core.message.headers.properties import folders_of
from broker.mqi.constants.descriptor import MQAT, MQENC, MQFMT
from broker.mqi.layouts.layouts import MQDLH

if TYPE_CHECKING:
    from broker.core.identifiers import Identifiers

_QUEUE_MANAGER = MQAT.QMGR.value


def dead_letter(
    message: GeneratedMessage, dead_q_name: str, reason: int, ids: Identifiers, now: float
) -> GeneratedMessage:
    """The message to the dead-letter queue that is made of one that could not be put, for this MQRC.

    The descriptor stays what it was, but for the fields that describe the data, which now begins with the header.
    """
    md = message.md
    put_date, put_time = ids.stamp(now)
    header = MQDLH(
        reason,
        message.q_name,
        message.q_mgr_name or ids.q_mgr_name,
        md.encoding,
        md.coded_char_set_id,
        md.format,
        _QUEUE_MANAGER,
        ids.q_mgr_name,
        put_date,
        put_time,
    )
    described = replace(
        md,
        format=MQFMT.DEAD_LETTER_HEADER.value,
        encoding=MQENC.NATIVE.value,
        coded_char_set_id=ids.coded_char_set_id,
    )
    return GeneratedMessage(
        dead_q_name, "", described, header.to_bytes() + message.data, folders_of(message.properties)
    )
