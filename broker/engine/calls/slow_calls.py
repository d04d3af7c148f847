"""Calls that take more than one step, as jobs (`broker.engine.jobs.jobs`): their arguments have been checked."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from broker.commands.security.creation import created
from broker.commands.security.records import with_records
from broker.core.explain.holders import held_by
from broker.core.names import dynamic
from broker.core.names.definitions import Delete
from broker.core.security.rights import Right
from broker.engine.admin.backups import Backup
from broker.engine.admin.objects import inquire, settings
from broker.engine.calls.answers import opened, refusal, succeed
from broker.engine.calls.gets import spoil
from broker.engine.jobs.awaits import PAUSE, Changed
from broker.engine.jobs.group_awaits import Asked, refreshed, secured
from broker.engine.leaving import ending_waits
from broker.engine.mistakes import mistake
from broker.engine.security.proofs import renewal_under_way
from broker.interface.answers import LogPiece
from broker.mqi.constants.options import MQCO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.engine.figures.scrape import Scrape
    from broker.engine.jobs.jobs import Steps
    from broker.interface.answers import Opened
    from broker.interface.port import Call
    from broker.mqi.structures import ObjectDescriptor

_LOG_PIECE_BYTES: Final = 256 * 1024


async def open_model(
    conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int
) -> Opened | None:
    """MQOPEN of a model queue: make a dynamic queue, then open it."""
    core, hconn, clock = conversation.core, conversation.hconn, conversation.context.clock
    if hconn.caller is not None and conversation.context.sharing is not None:
        await secured(conversation.context.sharing)
    define = core.make_dynamic(hconn, descriptor, options, clock.time())
    await Changed(*created(define, conversation.manager.catalog, hconn.caller))
    handle = core.open_dynamic(hconn, descriptor, define.definition.name, options, clock.monotonic())
    if define.definition.shared:
        member = conversation.context.member
        await Asked(member, "the opening of a shared queue", partial(member.handles.register, conversation, handle))
    if not conversation.broken and not call.done():
        return opened(handle, core.name)
    conversation.close_handle(handle)
    raise _connection_ended(conversation)


async def open_list(
    conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int
) -> Opened | None:
    """MQOPEN of a distribution list by a user who is judged, where there is a group: its queues may be shared."""
    await secured(conversation.context.member)
    if conversation.broken or call.done():
        raise _connection_ended(conversation)
    return opened(conversation.open_handle(descriptor, options), conversation.core.name)


async def delete_dynamic(conversation: Conversation, handle: Handle, options: int) -> int:
    """MQCLOSE with MQCO_DELETE of a permanent dynamic queue: delete it, then close the handle. What keeps it from that
    leaves the handle open.
    """
    queue, clock = handle.queue, conversation.context.clock
    assert queue is not None
    while not queue.deleted and queue.shelf.is_overdue(clock.time()):
        for _ in conversation.core.expiry((queue,), clock.time()):
            conversation.context.perform()
            await PAUSE
            if conversation.broken:
                raise _connection_ended(conversation)
    if not queue.deleted:  # by another handle meanwhile
        if not queue.shared:  # else the group judges
            dynamic.check_deletable(queue, options, held_by(conversation.core, queue, clock.time()))
        purge = bool(options & MQCO.DELETE_PURGE)
        gone = Delete("QUEUE", queue.name, queue.definition.disposition, purge, closing=True)
        await Changed(*with_records(gone, conversation.manager.catalog))
    return _close_if_open(conversation, handle)


async def close_with_waits(conversation: Conversation, handle: Handle) -> int:
    """MQCLOSE of a handle on which very many gets wait."""
    for _ in ending_waits(handle, MQRC.HOBJ_ERROR):
        conversation.context.perform()
        await PAUSE
    if conversation.broken:
        raise _connection_ended(conversation)
    return _close_if_open(conversation, handle)


async def set_attributes(conversation: Conversation, handle: Handle, values: Mapping[int, int | str]) -> int:
    """MQSET."""
    now = conversation.context.clock.time()
    await Changed(settings(conversation.manager.catalog, handle, values, now))
    return 0


async def inquire_shared(conversation: Conversation, handle: Handle, selectors: Sequence[int]) -> dict[int, int | str]:
    """MQINQ of the depth of a shared queue, which others change."""
    await refreshed(conversation.context.member)
    return inquire(conversation.manager.catalog, handle, selectors)


async def status(conversation: Conversation) -> dict[str, Any]:
    """The queue manager in figures."""
    conversation.hconn.require_manager(Right.DSP)
    if conversation.context.sharing is not None:
        await refreshed(conversation.context.sharing, held=True)
    figures = conversation.manager.figures(conversation)
    for _ in figures.steps():
        await PAUSE
    return figures.all()


def figures(conversation: Conversation, queue: str, per: str, names: str, queues_max: int) -> tuple[Steps[str], int]:
    """The figures for Prometheus, and the number of queues that may have some. Nobody pays for them who asks for none.
    Raises OBJECT_NAME_ERROR (2152), OPTIONS_ERROR (2046), NOT_AUTHORIZED (2035).
    """
    from broker.engine.figures.scrape import Scrape
    from broker.engine.figures.selection import checked

    selection = checked(queue, per, names, queues_max, conversation.hconn.caller)
    conversation.hconn.require_manager(Right.DSP)
    scrape = Scrape(conversation.manager, selection)
    return _scraped(conversation, scrape), min(queues_max, len(conversation.core.objects.queues))


async def _scraped(conversation: Conversation, scrape: Scrape) -> str:
    if conversation.context.sharing is not None:
        await refreshed(conversation.context.sharing)
    for _ in scrape.steps():
        await PAUSE
    return scrape.text


async def backup(conversation: Conversation, path: str) -> int:
    """A copy of the data in a directory. It is broken off when nobody waits for it any more."""
    conversation.hconn.require_administrator()  # it writes where the caller says
    manager = conversation.manager
    making = Backup(partial(manager.backup, path), manager.start_soon)
    try:
        await making
    finally:
        making.end()
    return 0


def recent_log(conversation: Conversation, call: Call[LogPiece], after: int) -> None:
    """Lines of the daemon's log behind one, as many as fit a frame."""
    conversation.hconn.require_administrator()  # it tells of everybody
    read, size = conversation.manager.recent_log, min(_LOG_PIECE_BYTES, conversation.frame_bytes // 4)
    call.set_result(LogPiece(0, 0, []) if read is None else LogPiece(*read(after, size)))


def _close_if_open(conversation: Conversation, handle: Handle) -> int:
    return conversation.close_handle(handle) if handle.hobj in conversation.hconn.handles else 0


def _connection_ended(conversation: Conversation) -> MQError:
    return refusal(conversation.call_order.ended or MQRC.CONNECTION_BROKEN)


def authenticate(conversation: Conversation, call: Call[float], kind: int, secret: bytes) -> None:
    """AUTHENTICATE: a fresh proof of the user, in place of the one by which the conversation lives. Other calls go on
    meanwhile. Raises NOT_AUTHORIZED (2035), CALL_IN_PROGRESS (2219).
    """
    proof = conversation.proof
    if proof is not None:
        if proof.renewing:
            raise renewal_under_way()
        proof.renewing = True

    async def renewed() -> None:
        try:
            left = await conversation.manager.authentication.renew(proof, kind, secret)
        except Exception as error:
            spoil(call, error if isinstance(error, MQError) else mistake(error, "AUTHENTICATE"))
        else:
            succeed(call, left)
        finally:
            if proof is not None:
                proof.renewing = False

    conversation.manager.start_soon(renewed)
