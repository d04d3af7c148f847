"""The port: the calls behind a connection, as plain methods that start a call and return its answer to come.

A call takes effect when it is made, in the order in which calls are made on one port; awaiting it only waits. So an
awaiting task may be cancelled at any moment without deciding anything (journal rule 12): it *abandons* the answer.
For most calls that is all. A get that nobody takes must put its message back, an open its handle: that is what
`Call.abandon` and `Call.take` are for. Exactly one of the two is called for each call that `receives` something.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from broker.interface.claims.claim_port import ClaimPort
from broker.interface.external.external_port import ExternalPort
from broker.interface.handlers.delivery_port import DeliveryPort
from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from broker.interface.answers import GetAnswer, LogPiece, Opened, PendingStarts, Placed, PlacedMany, StartLease
    from broker.mqi.access import Access, OwnUser
    from broker.mqi.explanations import Explanation
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

T = TypeVar("T")


class Receipt(Protocol):
    """The receipt of an answer: its receiver calls exactly one of these two."""

    def take(self) -> None: ...
    def abandon(self) -> None: ...


class Call(asyncio.Future[T]):
    """The answer to a call, to come."""

    __slots__ = ()

    held = 0
    """The bytes of messages that the call has got on the way to its answer."""

    receives = False
    """True if the answer brings something to be taken: `take` does something."""

    notify: Callable[[], None] | None = None
    """Called once when the call is answered or cancelled: in that step, which it must not lead away from, where the
    callbacks of a future wait for the next turn of the event loop.
    """

    def set_result(self, result: T) -> None:
        super().set_result(result)
        if (notify := self.notify) is not None:
            self.notify = None  # so that it and the call do not keep each other
            notify()

    def set_exception(self, exception: type | BaseException) -> None:
        super().set_exception(exception)
        if (notify := self.notify) is not None:
            self.notify = None
            notify()

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled and (notify := self.notify) is not None:
            self.notify = None
            notify()
        return cancelled

    def take(self) -> None:
        """The answer has reached the program."""

    def abandon(self) -> None:
        """The program went away without the answer, which may be there already, come later, or never."""
        if self.done() and not self.cancelled() and self.exception() is None:
            self.unclaimed(self.result())

    def withdraw(self) -> None:
        """Nobody waits for the answer any more, which may be there already, come later, or never."""
        if not self.cancel() and not self.cancelled():
            self.exception()  # so that asyncio does not report it as never retrieved
        self.abandon()

    def unclaimed(self, result: T) -> None:
        """The answer is there, and nobody takes it: undo what only makes sense with it."""

    @property
    def receipt(self) -> Receipt:
        """In place of a call that is answered, whose answer is on its way: what remains to be said of it."""
        return self


async def answer(call: Call[T]) -> T:
    """Wait for a call and take its answer, or abandon it when the waiting task is cancelled."""
    try:
        result = await call
    except asyncio.CancelledError:
        call.abandon()
        raise
    if call.receives:
        call.take()
    return result


ENDED: Final = "the connection has ended"
"""Why a call is refused with HCONN_ERROR (2018)."""


def dropped() -> MQError:
    """CONNECTION_BROKEN (2009) for a call that the queue manager will not answer."""
    return MQError(MQRC.CONNECTION_BROKEN, "the queue manager has dropped the call")


def unit_gone() -> MQError:
    """CONNECTION_BROKEN (2009) for a unit of work that has not come to its end."""
    return MQError(MQRC.CONNECTION_BROKEN, "the unit of work was backed out when the connection broke")


def behind_stopped() -> MQError:
    """OPERATION_NOT_ALLOWED (2534) for a batch of puts that comes after one that has stopped at a message."""
    return MQError(MQRC.OPERATION_NOT_ALLOWED, "a message before these was not put")


PUT_MANY_MAX: Final = 128
GET_MANY_MAX: Final = 256
"""The most messages of one `Port.put_many`, and of one answer to `Port.get_many`."""


class Port(ClaimPort, DeliveryPort, ExternalPort):
    """The calls of one connection (Hconn). Each method makes its call at once; errors arrive in the answer, as
    MQError: those that its docstring names, and besides OPTIONS_ERROR (2046), the error of a structure that is given
    (MD_ERROR 2026, OD_ERROR 2044, PMO_ERROR 2173, GMO_ERROR 2186), HOBJ_ERROR (2019), HCONN_ERROR (2018) after the
    disconnect, CONNECTION_BROKEN (2009) and RESOURCE_PROBLEM (2102). An answer that is an `int` is a reason: NONE (0)
    or that of a warning.

    Where `abandon` is not spoken of, it undoes nothing: the call has its effect, only that nobody hears of it.
    """

    @property
    def q_mgr_name(self) -> str:
        """The name of the queue manager."""
        raise NotImplementedError

    @property
    def q_mgr_instance(self) -> str:
        """The UUID of the queue manager's data; "" where it is too old to tell."""
        raise NotImplementedError

    @property
    def frame_bytes(self) -> int:
        """The longest frame of columns with more than one message that `stage` takes."""
        raise NotImplementedError

    @property
    def broken(self) -> bool:
        """True if the connection has ended, by disconnecting or otherwise."""
        raise NotImplementedError

    def break_(self) -> None:
        """End the connection as if this program had crashed: what it holds goes back, and counts as such."""
        raise NotImplementedError

    @property
    def end_reported(self) -> bool:
        """True if a call has failed because the connection ended: the program has heard of it."""
        raise NotImplementedError

    def open(self, descriptor: ObjectDescriptor, options: int) -> Call[Opened]:
        """MQOPEN with options of MQOO. UNKNOWN_OBJECT_NAME (2085), OBJECT_IN_USE (2042) and others. `abandon` closes
        the handle again.
        """
        return self.forward("open", descriptor, options)

    def close(self, hobj: int, options: int) -> Call[int]:
        """MQCLOSE with options of MQCO. Warns of INCOMPLETE_GROUP (2241), INCOMPLETE_MSG (2242). Raises Q_NOT_EMPTY
        (2055), and the handle is still open.
        """
        return self.forward("close", hobj, options)

    def put(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        """MQPUT of `data`, for whose descriptor None stands for the defaults. Outside syncpoint it is answered when the
        message is durable, if it is persistent. Q_FULL (2053), PUT_INHIBITED (2051), STORAGE_MEDIUM_FULL (2192) and
        others.
        """
        return self.forward("put", hobj, md, options, data, extras)

    def put1(
        self,
        descriptor: ObjectDescriptor,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        """MQPUT1: as `put`, to the queue that `descriptor` names; besides, what `open` raises."""
        return self.forward("put1", descriptor, md, options, extras, data)

    def get(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        delayed: bool = False,
    ) -> Call[GetAnswer]:
        """MQGET into a buffer of `max_length` bytes, None for one that is long enough. With WAIT it is answered after
        WaitInterval milliseconds at the latest. NO_MSG_AVAILABLE (2033), TRUNCATED_MSG_FAILED (2080), GET_INHIBITED
        (2016) and others. `delayed`: delayed messages are seen as if their instant had come. `abandon`
        ends the wait, or puts the message back at its place; it does not undo a browse.
        """
        return self.forward("get", hobj, md, options, max_length, delayed)

    def put_many(
        self,
        hobj: int,
        messages: Iterable[tuple[MessageDescriptor | None, bytes]],
        options: PutMessageOptions,
        after: Call[PlacedMany] | None,
    ) -> Call[PlacedMany]:
        """Put up to PUT_MANY_MAX messages one after the other, outside syncpoint as one implicit unit of work.

        The first that fails ends the batch: those before it stay put. `after` is the call for the messages that come
        before these in a longer batch, which may be under way still: when that one fails, this one puts nothing
        (OPERATION_NOT_ALLOWED, 2534).
        """
        return self.forward("put_many", hobj, messages, options, after)

    def get_many(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, count: int
    ) -> Call[list[GetAnswer]]:
        """Get up to `count` messages, of those there now and at most GET_MANY_MAX; wait, if `options` say so, for the
        first only. Outside syncpoint they are removed by one implicit unit of work. `abandon` puts all of them back.
        """
        return self.forward("get_many", hobj, md, options, count)

    def give_back(self, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
        """These messages, which the handle has got under syncpoint since it got the one with the token `last`, go back
        to their places as if they had not been got: now, before any later call.
        """
        raise NotImplementedError

    def serialize(self, options: int, tag: bytes) -> Call[int]:
        """Take a connection tag, as these MQCNO options say, for as long as the connection and its unit of work last.
        OPTIONS_ERROR (2046), CNO_ERROR (2139), CONN_TAG_IN_USE (2271), CONN_TAG_NOT_USABLE (2350).
        """
        return self.forward("serialize", options, tag)

    def authenticate(self, kind: int, secret: bytes) -> Call[float]:
        """Prove the user once more, with a secret of this CredentialKind, before the last proof ends: the seconds until
        this one ends, infinity if it does not. NOT_AUTHORIZED (2035): the last one holds until it ends.
        """
        return self.forward("authenticate", kind, secret)

    def begin(self) -> Call[int]:
        """MQBEGIN. Raises UOW_IN_PROGRESS (2128)."""
        return self.forward("begin")

    def commit(self) -> Call[int]:
        """MQCMIT: answered when the unit of work is durable. BACKED_OUT (2003) where it could not be made so, or could
        only be backed out.
        """
        return self.forward("commit")

    def backout(self) -> Call[int]:
        """MQBACK."""
        return self.forward("backout")

    def inquire(self, hobj: int, selectors: Sequence[int]) -> Call[dict[int, int | str]]:
        """MQINQ of these MQIA and MQCA: their values. NOT_OPEN_FOR_INQUIRE (2038), SELECTOR_ERROR (2067)."""
        return self.forward("inquire", hobj, selectors)

    def set(self, hobj: int, values: Mapping[int, int | str]) -> Call[int]:
        """MQSET of these MQIA and MQCA: answered when they are durable. NOT_OPEN_FOR_SET (2040), SELECTOR_ERROR (2067)
        and others.
        """
        return self.forward("set", hobj, values)

    def mqsc(self, text: str, check: bool = False) -> Call[list[CommandReply]]:
        """Run MQSC or ZMQSC: a reply to each command, also to those that fail. With `check` the first that fails is the
        last that is run. DATA_LENGTH_ERROR (2010) for a text that is too long. `abandon` leaves what has been run.
        """
        return self.forward("mqsc", check, text)

    def status(self) -> Call[dict[str, Any]]:
        """The figures of `evermq status`."""
        return self.forward("status")

    def figures(self, queue: str, per: str, names: str, queues_max: int) -> Call[str]:
        """The figures of these queues and of the queue manager, as text for Prometheus. OBJECT_NAME_ERROR (2152),
        OPTIONS_ERROR (2046).
        """
        return self.forward("figures", queue, per, names, queues_max)

    def explain(
        self, q_name: str, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None
    ) -> Call[Explanation]:
        """Explain why the messages of a queue with these identifiers (24 bytes; None for any) are not given to a get.
        UNKNOWN_OBJECT_NAME (2085).
        """
        return self.forward("explain", q_name, msg_id, correl_id, group_id)

    def own_user(self) -> Call[OwnUser]:
        """Return the user whose calls these are, as it is now."""
        return self.forward("own_user")

    def explain_open(self, name: str, q_mgr_name: str, object_type: int, user: str, rights: str) -> Call[Access]:
        """Explain whether a user, the caller where none is named, has rights on an object, by their words with commas.
        NOT_AUTHORIZED (2035) about another user, OPTIONS_ERROR (2046), UNKNOWN_OBJECT_NAME (2085) and its kin.
        """
        return self.forward("explain_open", name, q_mgr_name, object_type, user, rights)

    def explain_connect(
        self, user: str, address: str, channel: str, subject: str, issuer: str, plain: bool
    ) -> Call[Access]:
        """Explain whether a user would be let in from an address, by a channel or "", with a certificate of this
        subject and issuer or "", without TLS where it is `plain`. NOT_AUTHORIZED (2035), OPTIONS_ERROR (2046),
        SSL_PEER_NAME_ERROR (2399) for what is no distinguished name.
        """
        return self.forward("explain_connect", user, address, channel, subject, issuer, plain)

    def backup(self, path: str) -> Call[int]:
        """Make a copy of the data in this directory of the queue manager's machine, which is new or empty: answered
        when it is whole. It holds all that was durable when it was asked for. STORAGE_MEDIUM_FULL (2192) where there is
        no room, FILE_SYSTEM_ERROR (2208) where there is no backup for any other reason. `abandon` breaks it off.
        """
        return self.forward("backup", path)

    def recent_log(self, after: int) -> Call[LogPiece]:
        """The lines behind this one of those of its log that the queue manager keeps in memory, or some of them."""
        return self.forward("recent_log", after)

    def trigger_pending(self) -> Call[PendingStarts]:
        """The queues of which starts are pending now."""
        return self.forward("trigger_pending")

    def trigger_wait(self, posts: int) -> Call[int]:
        """Wait until there have been more posts than `posts`: how many there are. `abandon` ends the wait."""
        return self.forward("trigger_wait", posts)

    def trigger_take(self, q_name: str, limit: int) -> Call[list[StartLease]]:
        """Take up to `limit` starts of a queue; perhaps none. `abandon` makes them pending again."""
        return self.forward("trigger_take", q_name, limit)

    def trigger_done(self, leases: Sequence[int]) -> None:
        """These starts, by the ids of their leases, have been carried out."""
        raise NotImplementedError

    def trigger_return(self, leases: Sequence[int]) -> None:
        """These have not: they are pending again."""
        raise NotImplementedError

    def trigger_sweep(self) -> Call[int]:
        """Let a start be pending for each trigger EVERY queue on the fast path that has messages and nobody on the way
        to them: how many.
        """
        return self.forward("trigger_sweep")

    def connect(self, appl_name: str) -> Call[Port]:
        """Another connection on the same line, with a unit of work of its own. `abandon` ends it."""
        return self.forward("connect", appl_name)

    def disconnect(self, *, commit: bool) -> Call[int]:
        """MQDISC: the connection has ended from now on. Its unit of work is committed, or backed out without `commit`;
        answered when that is durable. Raises what `commit` raises.
        """
        return self.forward("disconnect", commit)


def drop(port: Port) -> None:
    """End a connection that nobody has any more, unless it has ended; its unit of work is backed out."""
    if not port.broken:
        port.disconnect(commit=False).withdraw()
