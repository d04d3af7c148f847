"""A conversation: the engine's side of one connection. It implements the Port.

Every method of the port makes its call in issue order (`broker.engine.calls.call_order`). The step that the call then
takes is the method of the same name with an underscore. The steps of puts are in `puts.py`, those of batches in
`batches.py`, of the ends of a unit of work in `unit_of_work.py`, of trigger starts in `leases.py`, of the end of the
connection in `leaving.py`; a call that takes more than one step is in `slow_calls.py`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from broker.core.names import dynamic
from broker.core.queues.effects import Grant
from broker.core.queues.handles import Hconn, deleted
from broker.core.queues.shared_queue import SharedQueue
from broker.core.queues.shelf.views import Search
from broker.engine import leaving, tags
from broker.engine.admin.objects import inquire
from broker.engine.admin.scripts import ScriptCall
from broker.engine.calls import batches, put_back, puts, slow_calls
from broker.engine.calls.answers import opened
from broker.engine.calls.batches import GetManyCall, PutManyCall
from broker.engine.calls.call_order import CallOrder
from broker.engine.calls.explain_calls import ExplainCalls
from broker.engine.calls.get_answer import Form, form_of
from broker.engine.calls.gets import GetCall, HeldCall, ReceivingCall, WaitingCall
from broker.engine.calls.puts import PutCall
from broker.engine.calls.room import BOUNDLESS
from broker.engine.calls.unit_of_work import UnitOfWork
from broker.engine.claims.claim_calls import ClaimCalls
from broker.engine.claims.sink_calls import SinkCalls
from broker.engine.context import WAITS_AT_ONCE
from broker.engine.figures.call_counts import counted
from broker.engine.handlers.delivery_calls import DeliveryCalls
from broker.engine.handlers.leases import Leases
from broker.interface.port import Call, Port
from broker.mqi import checks
from broker.mqi.constants.attributes import MQIA
from broker.mqi.constants.options import MQGMO, MQOO
from broker.mqi.delivery_fields import NO_EXTRAS, PutExtras
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from broker.core.manager import Manager
    from broker.core.queues.handles import Handle
    from broker.core.queues.queue import LocalQueue
    from broker.core.queues.shelf.selection import Request
    from broker.engine.calls.room import Room
    from broker.engine.manager import QueueManager
    from broker.engine.tags import TagUse
    from broker.interface.answers import GetAnswer, LogPiece, Opened, PendingStarts, Placed, PlacedMany, StartLease
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, MessageDescriptor, ObjectDescriptor, PutMessageOptions

_INQUIRE = MQOO.INQUIRE.value
_SET = MQOO.SET.value
_CONVERT = MQGMO.CONVERT.value
_DEPTH = MQIA.CURRENT_Q_DEPTH.value
_FIGURES_BYTES = 1024  # of a queue, in a status


@counted
class Conversation(ClaimCalls, DeliveryCalls, ExplainCalls, SinkCalls, Port):
    """One connection to the queue manager."""

    def __init__(self, manager: QueueManager, appl_name: str, user: str, channel: str, room: Room = BOUNDLESS) -> None:
        self.manager = manager
        self.context = manager.context
        self.verbs = manager.context.figures.calls.verbs
        self.core: Manager = manager.core
        self.hconn = Hconn(appl_name, user)
        self.hconn.channel = self.channel = channel
        self.room = room
        self.call_order = CallOrder(manager.context, room)
        self.unit_of_work = UnitOfWork(self.hconn, self.call_order)
        self.leases = Leases(manager.context, self.hconn)
        self.process = ""  # where its program runs; empty: in the queue manager's own process
        self.tag_use: TagUse | None = None
        self.proof = None
        self.of_delivery = False
        self.by_group = False  # the program has named the queue-sharing group: any member would do
        self.tell_expelled: Callable[[str], None] | None = None  # on the line that it is on

    @property
    def q_mgr_name(self) -> str:
        return self.core.name

    @property
    def frame_bytes(self) -> int:
        return self.room.frame_bytes

    @property
    def broken(self) -> bool:
        return self.call_order.ended is not None

    @property
    def at_rest(self) -> bool:
        """True if its end would undo nothing: it has no unit of work, no trigger start and no delivery."""
        return not (
            self.hconn.unit is not None
            or self.unit_of_work.begun
            or self.core.triggers.leases.held_by(self.hconn)
            or self.core.deliveries.any_of(self.hconn)
        )

    @property
    def end_reported(self) -> bool:
        return self.call_order.end_reported

    # The calls

    def open(self, descriptor: ObjectDescriptor, options: int) -> Call[Opened]:
        return self.call_order.after_own_writes(HeldCall(self._close_unclaimed), self._open, descriptor, options)

    def close(self, hobj: int, options: int) -> Call[int]:
        issue = self.call_order.after_own_writes if options else self.call_order.in_order  # to delete, it looks
        return issue(Call(), self._close, hobj, options)

    def put(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        self.verbs["put"] += 1
        return self.call_order.in_order(PutCall(), puts.put, self, hobj, md, options, data, extras)

    def put1(
        self,
        descriptor: ObjectDescriptor,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        extras: PutExtras = NO_EXTRAS,
    ) -> Call[Placed]:
        self.verbs["put1"] += 1
        return self.call_order.in_order(Call(), puts.put1, self, descriptor, md, options, data, extras)

    def get(
        self,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        delayed: bool = False,
    ) -> Call[GetAnswer]:
        self.verbs["get"] += 1
        return self.call_order.after_own_writes(GetCall(self), self._get, hobj, md, options, max_length, delayed)

    def put_many(
        self,
        hobj: int,
        messages: Iterable[tuple[MessageDescriptor | None, bytes]],
        options: PutMessageOptions,
        after: Call[PlacedMany] | None,
    ) -> Call[PlacedMany]:
        self.verbs["put_many"] += 1
        call = PutManyCall()
        make = partial(batches.put_many, self, call)
        return self.call_order.in_order(call, make, hobj, messages, options, after)

    def get_many(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, count: int
    ) -> Call[list[GetAnswer]]:
        self.verbs["get_many"] += 1
        call = GetManyCall(self, hobj, md, options, count)
        return self.call_order.after_own_writes(call, GetManyCall.make)

    def give_back(self, hobj: int, tokens: Sequence[bytes], last: bytes) -> None:
        put_back.give_back(self, hobj, tokens, last)

    def serialize(self, options: int, tag: bytes) -> Call[int]:
        return self.call_order.in_order(Call(), partial(tags.serialize, self), options, tag)

    def authenticate(self, kind: int, secret: bytes) -> Call[float]:
        return self.call_order.in_order(Call(), partial(slow_calls.authenticate, self), kind, secret)

    def begin(self) -> Call[int]:
        return self.call_order.in_order(Call(), self.unit_of_work.begin)

    def commit(self) -> Call[int]:
        self.verbs["commit"] += 1
        return self.call_order.in_order(Call(), self.unit_of_work.commit)

    def backout(self) -> Call[int]:
        self.verbs["backout"] += 1
        return self.call_order.in_order(Call(), self.unit_of_work.backout)

    def inquire(self, hobj: int, selectors: Sequence[int]) -> Call[dict[int, int | str]]:
        return self.call_order.after_own_writes(Call(), self._inquire, hobj, selectors)

    def set(self, hobj: int, values: Mapping[int, int | str]) -> Call[int]:
        return self.call_order.after_own_writes(Call(), self._set, hobj, values)

    def mqsc(self, text: str, check: bool = False) -> ScriptCall:
        call = ScriptCall(self.manager.config.limits.replies_bytes)
        return self.call_order.after_own_writes(call, self._mqsc, text, check)

    def status(self) -> Call[dict[str, Any]]:
        return self.call_order.after_own_writes(Call(), self._status)

    def figures(self, queue: str, per: str, names: str, queues_max: int) -> Call[str]:
        return self.call_order.after_own_writes(Call(), self._figures, (queue, per, names, queues_max))

    def backup(self, path: str) -> Call[int]:
        return self.call_order.after_own_writes(ReceivingCall(), self._backup, path)

    def recent_log(self, after: int) -> Call[LogPiece]:
        return self.call_order.in_order(Call(), partial(slow_calls.recent_log, self), after)

    def trigger_pending(self) -> Call[PendingStarts]:
        return self.call_order.after_own_writes(Call(), self.leases.pending)

    def trigger_wait(self, posts: int) -> Call[int]:
        return self.call_order.in_order(ReceivingCall(), partial(self.context.monitors.wait, self), posts)

    def trigger_take(self, q_name: str, limit: int) -> Call[list[StartLease]]:
        return self.call_order.in_order(HeldCall(self.leases.give_back_unclaimed), self.leases.take, q_name, limit)

    def trigger_done(self, leases: Sequence[int]) -> None:
        self.leases.done(leases)

    def trigger_return(self, leases: Sequence[int]) -> None:
        self.leases.give_back(leases)

    def trigger_sweep(self) -> Call[int]:
        return self.call_order.in_order(Call(), self._trigger_sweep)

    def connect(self, appl_name: str) -> Call[Port]:
        return self.call_order.in_order(HeldCall(_break_unclaimed), self._connect, appl_name)

    def disconnect(self, *, commit: bool) -> Call[int]:
        return self.call_order.in_order(Call(), partial(leaving.disconnect, self), commit)

    def break_(self, reason: MQRC = MQRC.CONNECTION_BROKEN, *, at_once: bool = False) -> None:
        """The line is cut, or the queue manager stops: calls end with `reason`, the unit of work is backed out.

        Where there are very many calls that takes more than one turn of the event loop, unless it must be `at_once`.
        """
        leaving.break_off(self, reason, at_once=at_once)

    def expel(self, why: str) -> None:
        """Its user may not be here any more: break it, and tell the program."""
        tell = self.tell_expelled  # which its end forgets
        self.break_()
        if tell is not None:
            tell(why)

    # Objects

    def _open(self, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        descriptor, options = checks.object_descriptor(descriptor), checks.options(options)
        self.call_order.name_look_up.check_list(descriptor)
        if self.core.objects.opens_model(descriptor):
            self.call_order.change(call, slow_calls.open_model(self, call, descriptor, options))
        elif self.context.sharing is not None and self.core.opens_shared(descriptor, options):
            self.context.sharing.handles.open(self, call, descriptor, options)
        elif descriptor.records and self.hconn.caller is not None and self.context.sharing is not None:
            self.call_order.change(call, slow_calls.open_list(self, call, descriptor, options))
        else:
            call.set_result(opened(self.open_handle(descriptor, options), self.core.name))

    def open_handle(self, descriptor: ObjectDescriptor, options: int) -> Handle:
        """Open an object that is there, and is not shared. Raises what `Manager.open` does."""
        try:
            return self.core.open(self.hconn, descriptor, options, self.manager.clock.monotonic())
        finally:
            if self.hconn.refused:
                self.context.security_log.refused_in_list(self.hconn)

    def _close(self, call: Call[int], hobj: int, options: int) -> None:
        handle, options = self.hconn.handle(hobj), checks.options(options)
        if dynamic.close_deletes(handle, options):
            self.call_order.change(call, slow_calls.delete_dynamic(self, handle, options))
        elif handle.queue is not None and handle.queue.shared:
            self.context.member.handles.close(self, call, handle)
        elif len(handle.waiting) > WAITS_AT_ONCE:
            self.call_order.change(call, slow_calls.close_with_waits(self, handle))
        else:
            call.set_result(self.close_handle(handle))

    def close_handle(self, handle: Handle) -> int:
        reason = self.core.close(self.hconn, handle.hobj, self.manager.clock.monotonic())
        if handle.queue is not None and handle.queue.shared:
            self.context.member.handles.closed(handle)
        self.context.perform()
        return reason

    def _close_unclaimed(self, opened: Opened) -> None:
        handle = self.hconn.handles.get(opened.hobj)
        if handle is not None:
            self.close_handle(handle)

    def _inquire(self, call: Call[dict[int, int | str]], hobj: int, selectors: Sequence[int]) -> None:
        handle, selectors = self._open_for(hobj, _INQUIRE, MQRC.NOT_OPEN_FOR_INQUIRE), checks.selectors(selectors)
        if handle.queue is not None and handle.queue.shared and _DEPTH in selectors:
            self.call_order.look(call, slow_calls.inquire_shared(self, handle, selectors))
        else:
            call.set_result(inquire(self.manager.catalog, handle, selectors))

    def _set(self, call: Call[int], hobj: int, values: Mapping[int, int | str]) -> None:
        handle, values = self._open_for(hobj, _SET, MQRC.NOT_OPEN_FOR_SET), checks.settings(values)
        self.call_order.change(call, slow_calls.set_attributes(self, handle, values))

    def _mqsc(self, call: Call[list[CommandReply]], text: str, check: bool) -> None:
        commands = self.manager.commands
        commands.check(text, self.hconn)
        script = call if isinstance(call, ScriptCall) else self._unread_script()
        script.user = self.hconn.user
        self.call_order.change(
            call, commands.script(text, script, self.hconn.caller, up_to_failure=check), at_once=False
        )

    def _unread_script(self) -> ScriptCall:
        """A script whose call was given up before it was made: it runs all the same, and nobody reads its replies."""
        script = ScriptCall(self.manager.config.limits.replies_bytes)
        script.cancel()
        return script

    def _open_for(self, hobj: int, option: int, reason: MQRC) -> Handle:
        handle = self.hconn.handle(hobj)
        if handle.queue is not None and handle.queue.deleted:
            raise deleted(handle.name)
        handle.check_unchanged()
        if not handle.options & option:
            raise MQError(reason, f"{handle.name} was opened without MQOO_{MQOO(option).name}")
        return handle

    # Messages

    def _get(
        self,
        call: GetCall,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
        delayed: bool,
    ) -> None:
        handle, queue = self.hconn.queue(hobj)
        if queue.shared:
            assert isinstance(queue, SharedQueue)
            self.context.member.gets.get(self, call, handle, queue, (md, options, max_length, delayed))
            return
        found = self.core.get(handle, queue, md, options, max_length, self.manager.clock.time(), delayed=delayed)
        if not (md is None and max_length is None) or options.options & _CONVERT:
            call.form = self.form(md, options, max_length)
        if isinstance(found, Grant):
            call.granted(found)
        elif isinstance(found, Search):
            self.call_order.prepare(found.steps, call, self._get, hobj, md, options, max_length, delayed)
        else:
            self.wait(call, handle, queue, found, options)

    def wait(
        self, call: WaitingCall[Any], handle: Handle, queue: LocalQueue, request: Request, options: GetMessageOptions
    ) -> None:
        """Let a get wait for its message, as long as its options say."""
        call.waiter = self.core.wait(handle, queue, request, call)
        if request.unmarked_by is not None:
            self.context.mark_expiry.watch(queue)
        if options.wait_interval > 0:
            over = partial(call.ended, MQRC.NO_MSG_AVAILABLE)
            call.timer = self.manager.clock.call_later(options.wait_interval / 1000, over)

    def form(self, md: MessageDescriptor | None, options: GetMessageOptions, max_length: int | None) -> Form:
        """Return the form of the message for a get with these arguments, which have been checked."""
        return form_of(md, options, max_length, self.core.ids.coded_char_set_id)

    # The connection

    def _status(self, call: Call[dict[str, Any]]) -> None:
        self.call_order.look(call, slow_calls.status(self), _FIGURES_BYTES * len(self.core.objects.queues))

    def _figures(self, call: Call[str], asked: tuple[str, str, str, int]) -> None:
        steps, series = slow_calls.figures(self, *asked)
        self.call_order.look(call, steps, 2 * _FIGURES_BYTES * series)

    def _backup(self, call: Call[int], path: str) -> None:
        self.call_order.look(call, slow_calls.backup(self, checks.path(path)))

    def _trigger_sweep(self, call: Call[int]) -> None:
        self.call_order.look(call, self.leases.sweep())

    def _connect(self, call: Call[Port], appl_name: str) -> None:
        name = appl_name or self.hconn.appl_name
        call.set_result(self.manager.converse(name, self.hconn.user, self.channel, self.room, like=self))


def _break_unclaimed(port: Port) -> None:
    assert isinstance(port, Conversation)
    port.break_()
