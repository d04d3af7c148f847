"""Calls that take more than one step, as jobs (`broker.engine.jobs`): their arguments have been checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.core.explain.explaining import explain
from broker.core.explain.holders import held_by
from broker.core.names import dynamic
from broker.core.names.definitions import Delete
from broker.engine.answers import fail, fail_written, opened, succeed
from broker.engine.backups import Backup
from broker.engine.figures import Figures
from broker.engine.group_commands import Refreshed, Registered
from broker.engine.leaving import ending_waits
from broker.engine.objects import inquire, settings
from broker.mqi.explanations import Explanation
from broker.mqi.options import MQCO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from broker.core.explain.explaining import Wanted
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.engine.jobs import LookingSteps, Steps
    from broker.interface.port import Call, Opened
    from broker.mqi.explanations import Finding
    from broker.mqi.structures import ObjectDescriptor


def open_model(conversation: Conversation, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> Steps:
    """MQOPEN of a model queue: make a dynamic queue, then open it."""
    core, hconn, clock = conversation.core, conversation.hconn, conversation.context.clock
    define = core.make_dynamic(hconn, descriptor, options, clock.time())
    error = yield (define,)
    if error is not None:
        fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)
        return
    handle = core.open_dynamic(hconn, descriptor, define.definition.name, options, clock.monotonic())
    if define.definition.shared:
        error = yield Registered(conversation, handle)
        if error is not None:
            raise error
    if not conversation.broken and not call.done():
        call.set_result(opened(handle, core.name))
        return
    conversation.close_handle(handle)
    _end_with_connection(conversation, call)


def delete_dynamic(conversation: Conversation, call: Call[int], handle: Handle, options: int) -> Steps:
    """MQCLOSE with MQCO_DELETE of a permanent dynamic queue: delete it, then close the handle. What keeps it from that
    leaves the handle open.
    """
    queue, clock = handle.queue, conversation.context.clock
    assert queue is not None
    while not queue.deleted and queue.shelf.is_overdue(clock.time()):
        for _ in conversation.core.expiry((queue,), clock.time()):
            conversation.context.perform()
            yield None
            if conversation.broken:
                _end_with_connection(conversation, call)
                return
    if not queue.deleted:  # by another handle meanwhile
        if not queue.shared:  # else the group judges
            dynamic.check_deletable(queue, options, held_by(conversation.core, queue, clock.time()))
        purge = bool(options & MQCO.DELETE_PURGE)
        error = yield (Delete("QUEUE", queue.name, queue.definition.disposition, purge, closing=True),)
        if error is not None:
            fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)
            return
    succeed(call, _close_if_open(conversation, handle))


def close_with_waits(conversation: Conversation, call: Call[int], handle: Handle) -> Steps:
    """MQCLOSE of a handle on which very many gets wait."""
    for _ in ending_waits(handle, MQRC.HOBJ_ERROR):
        conversation.context.perform()
        yield None
    if conversation.broken:
        _end_with_connection(conversation, call)
    else:
        succeed(call, _close_if_open(conversation, handle))


def set_attributes(
    conversation: Conversation, call: Call[int], handle: Handle, values: Mapping[int, int | str]
) -> Steps:
    """MQSET."""
    now = conversation.context.clock.time()
    error = yield (settings(conversation.manager.catalog, handle, values, now),)
    if error is None:
        succeed(call, 0)
    else:
        fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)


def inquire_shared(
    conversation: Conversation, call: Call[dict[int, int | str]], handle: Handle, selectors: Sequence[int]
) -> LookingSteps:
    """MQINQ of the depth of a shared queue, which others change."""
    yield Refreshed(conversation.context.desk)
    call.set_result(inquire(conversation.manager.catalog, handle, selectors))


def status(conversation: Conversation, call: Call[dict[str, Any]]) -> LookingSteps:
    """The queue manager in figures."""
    if conversation.context.sharing is not None:
        yield Refreshed(conversation.context.sharing, held=True)
    figures = Figures(conversation.manager)
    for _ in figures.steps():
        yield None
    call.set_result(figures.all())


def explanation(conversation: Conversation, call: Call[Explanation], route: Route, wanted: Wanted) -> LookingSteps:
    """Why a queue gives a message, or does not."""
    findings: list[Finding] = []
    now = conversation.context.clock.time()
    largest = conversation.manager.config.limits.claim_bytes
    for finding in explain(route, route.queue.shelf, wanted, now, conversation.core, largest):
        if finding is not None:
            findings.append(finding)
        yield None
    call.set_result(Explanation(q_name=route.queue.name, findings=tuple(findings)))


def backup(conversation: Conversation, call: Call[int], path: str) -> LookingSteps:
    """A copy of the data in a directory. It is broken off when nobody waits for it any more."""
    making = Backup(conversation.manager, path)
    try:
        error = yield making
        if error is not None:
            raise error
        call.set_result(0)
    finally:
        making.end()


def _close_if_open(conversation: Conversation, handle: Handle) -> int:
    return conversation.close_handle(handle) if handle.hobj in conversation.hconn.handles else 0


def _end_with_connection(conversation: Conversation, call: Call[Any]) -> None:
    fail(call, conversation.call_order.ended or MQRC.CONNECTION_BROKEN)
