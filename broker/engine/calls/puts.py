"""MQPUT and MQPUT1: a message to a queue, or to the queues of a distribution list."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from broker.core.calls.puts import distribution, placing
from broker.core.calls.puts.distribution import DistributionList, ListPut
from broker.core.calls.puts.keying import Duplicate
from broker.core.calls.puts.put import Put
from broker.core.message.rows import Rows
from broker.core.names import judging
from broker.core.names.opening import judged_route
from broker.core.queues.handles import Handle
from broker.engine.calls.answers import answer_written, fail, fail_written, placed, repeated, succeed
from broker.engine.shared_queues import PutStep
from broker.interface.answers import Distribution, Placed
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.constants.options import MQOO
from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.core.names.routes import Route
    from broker.core.queues.unit import Unit
    from broker.engine.calls.call_order import QueuedCall
    from broker.engine.conversation import Conversation
    from broker.mqi.structures import MessageDescriptor, ObjectDescriptor, PutMessageOptions

_OUTPUT = MQOO.OUTPUT.value


class PutCall(Call[Placed]):
    """An MQPUT, which `put` makes."""

    __slots__ = ()


class DeferredPut(NamedTuple):
    """The arguments with which `put` makes a `PutCall`."""

    conversation: Conversation
    hobj: int
    md: MessageDescriptor | None
    options: PutMessageOptions
    data: bytes
    extras: PutExtras


def shared_put(deferred: QueuedCall) -> DeferredPut | None:
    """Return the arguments of a deferred call that is MQPUT through a handle which leads to a shared queue: it may be
    made together with others. None for any other call.
    """
    if not isinstance(deferred.call, PutCall):
        return None
    arguments = DeferredPut(*deferred.arguments)
    handle = arguments.conversation.hconn.handles.get(arguments.hobj)
    if isinstance(handle, DistributionList):
        shared = _reaches_shared(handle)
    else:
        shared = handle is not None and handle.route is not None and handle.route.queue.shared
    return arguments if shared else None


def put(
    call: Call[Placed],
    conversation: Conversation,
    hobj: int,
    md: MessageDescriptor | None,
    options: PutMessageOptions,
    data: bytes,
    extras: PutExtras,
) -> None:
    """MQPUT."""
    hconn = conversation.hconn
    try:
        handle = hconn.handles.get(hobj) or hconn.handle(hobj)
        if isinstance(handle, DistributionList):
            _check_no_extras(extras)
            _distribute(call, conversation, ListPut(handle, md, options, data))
        else:
            _place(call, conversation, Put(hconn, handle, handle.output_route(), md, options, data, extras=extras))
    except MQError as error:
        _failed(conversation, options, error)
        raise


def put1(
    call: Call[Placed],
    conversation: Conversation,
    descriptor: ObjectDescriptor,
    md: MessageDescriptor | None,
    options: PutMessageOptions,
    data: bytes,
    extras: PutExtras,
) -> None:
    """MQPUT1."""
    core, hconn = conversation.core, conversation.hconn
    try:
        descriptor = checks.object_descriptor(descriptor)
        opens = _OUTPUT
        if hconn.caller is not None:
            opens = judging.options_of_put1(int(checks.put_options(options).options))
        known = core.route_of_put1(hconn, descriptor, opens)
        if known is not None:
            last = hconn.last_put1(known)
            _place(call, conversation, Put(hconn, None, known, md, options, data, extras=extras, last_calls=last))
            return
        conversation.call_order.name_look_up.check_list(descriptor)
        handle = conversation.open_handle(descriptor, opens)
        try:
            judge = _judgement(conversation, descriptor, handle, opens)
            if isinstance(handle, DistributionList):
                _check_no_extras(extras)
                _distribute(call, conversation, ListPut(handle, md, options, data, once=True), judge)
            else:
                route = handle.output_route()
                core.objects.know_route(descriptor, route)
                _place(call, conversation, Put(hconn, None, route, md, options, data, extras=extras), judge)
        finally:
            conversation.close_handle(handle)
    except MQError as error:
        _failed(conversation, options, error)
        raise


def _failed(conversation: Conversation, options: PutMessageOptions, error: MQError) -> None:
    if not conversation.call_order.name_look_up.may_help(error):
        conversation.unit_of_work.rollback_only.put_failed(options, error)


def _judgement(
    conversation: Conversation, descriptor: ObjectDescriptor, handle: Handle, options: int
) -> Callable[[], None] | None:
    """The judgement of an MQPUT1 whose user is judged: on shared queues it is made again, by the rights that the group
    has when the message is put.
    """
    hconn = conversation.hconn
    if hconn.caller is None or conversation.context.sharing is None:
        return None
    names = [(descriptor.object_name, descriptor.object_q_mgr_name)]
    if isinstance(handle, DistributionList):
        both = zip(descriptor.records, handle.destinations, strict=True)
        names = [(each.object_name, each.object_q_mgr_name) for each, there in both if isinstance(there, Handle)]

    def judge() -> None:
        for each in names:
            judged_route(conversation.core.objects, hconn, each, options, descriptor.alternate_user_id)

    return judge


def _place(call: Call[Placed], conversation: Conversation, put: Put, judge: Callable[[], None] | None = None) -> None:
    """Put a message to a queue."""
    if put.route.group is not None:
        put = placing.on_its_way(conversation.core, put)
    if put.route.queue.shared:
        step = PutStep(partial(_place_in_core, conversation, put), put.pmo, put.handle, put, judge, len(put.data))
        conversation.context.member.puts.put(conversation, call, step)
        return
    try:
        entry, unit, reason = conversation.core.put(put, conversation.context.moment())
    except Duplicate as duplicate:
        _answer_again(call, conversation, put, duplicate)
        return
    answer = placed(entry, reason)
    _placed(call, conversation, answer if put.handle is not None else _resolved(answer, put.route), unit)


def _place_in_core(conversation: Conversation, put: Put) -> tuple[Placed, Unit | None]:
    """Put a message to a shared queue in the core: the answer, and the implicit unit if there is one."""
    entry, unit, reason = conversation.core.put(put, conversation.context.moment())
    answer = placed(entry, reason)
    return answer if put.handle is not None else _resolved(answer, put.route), unit


def _resolved(answer: Placed, route: Route) -> Placed:
    """The answer to MQPUT1, which says where the name leads; a program that opened the queue was told then."""
    return answer._replace(resolved_q_name=route.q_name, resolved_q_mgr_name=route.q_mgr_name)


def _answer_again(call: Call[Placed], conversation: Conversation, put: Put, duplicate: Duplicate) -> None:
    """Answer a put that was made before: where the first is on its way to the store, when it is there, and with its
    failure if it could not be written.
    """
    clock = conversation.context.clock
    answer = repeated(put, duplicate, conversation.core.ids, clock.time())
    if not duplicate.awaited:
        call.set_result(answer)
        return

    def first_settled(error: Exception | None) -> None:
        if error is not None:
            fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)
        elif duplicate.is_held(clock.time()):
            succeed(call, answer)
        else:
            fail(call, MQRC.STORAGE_MEDIUM_FULL, "the put with this key that was made first could not be written")

    conversation.call_order.write(Rows(), first_settled, reveals=False)


def _distribute(
    call: Call[Placed], conversation: Conversation, list_put: ListPut, judge: Callable[[], None] | None = None
) -> None:
    """Put a message to a distribution list."""
    if _reaches_shared(list_put.destinations):
        step = PutStep(partial(_distribute_in_core, conversation, list_put), list_put.pmo, judge=judge)
        conversation.context.member.puts.put(conversation, call, step)
    else:
        _placed(call, conversation, *_distribute_in_core(conversation, list_put))


def _distribute_in_core(conversation: Conversation, list_put: ListPut) -> tuple[Placed, Unit | None]:
    put = distribution.put(conversation.core, list_put, conversation.context.moment())
    given = put.given
    answer = Placed(
        put.packed_md,
        given.msg_id,
        given.correl_id,
        given.group_id,
        put.first.msg_seq_number,
        put.first.offset,
        put.first.original_length,
        given.priority,
        given.persistence,
        put.reason,
        distribution=Distribution(put.records, put.unknown_count),
    )
    return answer, put.unit


def _reaches_shared(destinations: DistributionList) -> bool:
    return any(each.queue is not None and each.queue.shared for each in destinations.opened)


def _placed(call: Call[Placed], conversation: Conversation, answer: Placed, unit: Unit | None) -> None:
    """Answer a put, when its implicit unit is durable if it is outside syncpoint."""
    if unit is None:
        call.set_result(answer)
    else:
        written = partial(answer_written, call, answer, MQRC.STORAGE_MEDIUM_FULL)
        awaited_outside = unit.puts[0].queue.waiters.outside
        if not (awaited_outside and conversation.call_order.try_handoff(unit, written)):
            conversation.call_order.commit(unit, written)


def _check_no_extras(extras: PutExtras) -> None:
    if extras != NO_EXTRAS:
        raise MQError(MQRC.OPTIONS_ERROR, "a put to a distribution list has no delivery instant, and no key")
