"""A put that is like the one before it through its handle, or like the MQPUT1 before it by the same name: what was
found out about that one holds for this one too.

Programs put many messages with the same descriptor and the same options. Of the plainest kind of put the handle keeps a
template, of MQPUT1 the connection. The next is completed with it, without being checked and worked out again: one
message for a queue here, outside of groups and without expiry time, reports, properties or context of its own, whose
MsgId the queue manager makes. A template holds as long as no definition changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.message import context
from broker.core.message.entry import Entry, rank_of
from broker.core.message.headers.mqmde import FORMAT as EXTENSION_FORMAT
from broker.core.message.headers.properties import FORMAT as PROPERTIES_FORMAT
from broker.mqi.constants.options import MQPMO

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.calls.puts.put import PreparedPut, Put
    from broker.core.identifiers import Identifiers
    from broker.core.queues.handles import LastCalls

_PLAIN = (
    MQPMO.SYNCPOINT | MQPMO.NO_SYNCPOINT | MQPMO.FAIL_IF_QUIESCING | MQPMO.NEW_MSG_ID | MQPMO.DEFAULT_CONTEXT
    | MQPMO.SYNC_RESPONSE | MQPMO.ASYNC_RESPONSE
).value  # fmt: skip


class PutTemplate:
    """The outcome of a put, to be used again. The descriptor given is the caller's, who may change it between two puts;
    `md` is what counts of it (`PreparedPut`).
    """

    __slots__ = (
        "_changes",
        "_correl_id",
        "_fields",
        "_given",
        "_hconn",
        "_options",
        "_packed_md",
        "_persistence",
        "_priority",
        "_rank",
        "_stamp",
        "_version",
        "length_max",
        "md",
        "queue",
    )  # fmt: skip

    def __init__(
        self,
        put: Put,
        prepared: PreparedPut,
        length_max: int,
        changes: int,
    ) -> None:
        entry = prepared.shown
        self._hconn = put.hconn
        self._given = put.md
        self._fields = put.md and put.md.to_tuple()
        self.md = prepared.md
        self._options = int(put.pmo.options)
        self._version = put.pmo.version
        self.queue = entry.queue
        self._rank = rank_of(entry.key)
        self._priority = entry.priority
        self._persistence = entry.persistence
        self._correl_id = entry.correl_id
        self.length_max = length_max
        self._changes = changes
        self._stamp = ("", "")
        self._packed_md = b""

    def fits(self, put: Put, length: int, changes: int) -> bool:
        """True if this put, of so many bytes, differs from the last in nothing but its data. `changes` counts those of
        definitions.
        """
        md, pmo = put.md, put.pmo
        return (
            md is self._given
            and pmo.options == self._options
            and pmo.version == self._version
            and not pmo.records
            and changes == self._changes
            and length <= self.length_max
            and self.queue.depth < self.queue.max_depth
            and (md is None or md.to_tuple() == self._fields)
        )

    def entries(self, bodies: Sequence[bytes], ids: Identifiers, now: float) -> list[Entry]:
        """The messages of more such puts, with this data, completed. Each leaves its handle outside of groups."""
        stamp = ids.stamp(now)
        if stamp != self._stamp:
            self._stamp = stamp
            self._packed_md = context.pack(self.md, context.DEFAULT, stamp, self._hconn, ids)
        entries = []
        for data in bodies:
            entry = Entry(self.queue, ids.next(), self._rank, data, len(data))
            entry.priority = self._priority
            entry.persistence = self._persistence
            entry.correl_id = self._correl_id
            entry.packed_md = self._packed_md
            entries.append(entry)
        return entries


def leaves_template(last: LastCalls, put: Put, prepared: PreparedPut) -> bool:
    """True if a put with this outcome, without a warning, is of the plainest kind. The first put with a descriptor of
    the caller's leaves none, since most descriptors are used once.
    """
    given = put.md
    seen, last.put_md = last.put_md is given, given
    if not seen:
        return False
    route, shown = put.route, prepared.shown
    return (
        type(shown) is Entry
        and shown.given_msg_id is None
        and not prepared.md.report
        and (given is None or type(given.msg_id) is type(given.correl_id) is bytes)  # a bytearray may change by itself
        and not int(put.pmo.options) & ~_PLAIN
        and not (route.remote or route.queue.transmits)
        and prepared.md.format not in (EXTENSION_FORMAT, PROPERTIES_FORMAT)
    )
