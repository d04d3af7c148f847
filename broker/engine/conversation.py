"""A conversation: the engine's side of one connection. It implements the Port.

Each call takes effect when it is made, in issue order (journal rule 3). There is one exception to "when it is made":
a call that looks at queues (get, open, inquire) must see what this connection's own earlier calls made visible, so
while those are being written it waits its turn, and all later calls wait behind it. All wait for one that changes
definitions.
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from broker.core import distribution, dynamic
from broker.core import unit as units
from broker.core.conversion import Coding
from broker.core.definitions import Delete
from broker.core.distribution import DistributionList
from broker.core.effects import Grant
from broker.core.explaining import Wanted, explain
from broker.core.handles import Hconn
from broker.core.properties import HOWS as PROPERTY_FORMS
from broker.core.reports import unread
from broker.core.rows import Rows
from broker.engine.calls import GetCall, HeldCall, ReceivingCall
from broker.engine.delivery import Form
from broker.engine.doom import Doom
from broker.engine.objects import inquire, settings
from broker.interface.port import Call, Delivery, Distribution, Lease, Opened, PendingQueue, PendingStarts, Placed
from broker.mqi.descriptor import MQCCSI, MQENC
from broker.mqi.errors import MQError
from broker.mqi.explanations import Explanation
from broker.mqi.options import MQGMO, MQOO
from broker.mqi.reasons import MQRC
from broker.mqi.structures import MessageDescriptor
from broker.storage.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from broker.core.definitions import Change, Define
    from broker.core.entry import Entry
    from broker.core.handles import Handle
    from broker.core.manager import Manager
    from broker.core.queue import LocalQueue
    from broker.core.routes import Route
    from broker.core.unit import Unit
    from broker.engine.manager import QueueManager
    from broker.interface.port import Port
    from broker.mqi.replies import CommandReply
    from broker.mqi.structures import GetMessageOptions, ObjectDescriptor, PutMessageOptions

logger = logging.getLogger(__name__)

T = TypeVar("T")
C = TypeVar("C", bound=Call[Any])

_INQUIRE = MQOO.INQUIRE.value
_SET = MQOO.SET.value
_CONVERT = MQGMO.CONVERT.value
_OWN_CCSID = (MQCCSI.Q_MGR.value, MQCCSI.APPL.value)

_DETAILS = {
    int(MQRC.NO_MSG_AVAILABLE): "no suitable message came before the wait interval was over",
    int(MQRC.GET_INHIBITED): "the queue was set to GET(DISABLED)",
    int(MQRC.Q_DELETED): "the queue was deleted",
    int(MQRC.OBJECT_CHANGED): "the way from the name to its queue was changed",
    int(MQRC.HOBJ_ERROR): "the handle was closed while the call was waiting",
    int(MQRC.HCONN_ERROR): "the connection has ended",
    int(MQRC.CONNECTION_BROKEN): "the connection is broken",
    int(MQRC.Q_MGR_QUIESCING): "the queue manager is quiescing",
    int(MQRC.Q_MGR_STOPPING): "the queue manager is stopping",
}


class Conversation:
    """One connection to the queue manager."""

    def __init__(self, manager: QueueManager, appl_name: str, user: str, channel: str) -> None:
        self.manager = manager
        self.core: Manager = manager.core
        self.hconn = Hconn(appl_name, user)
        self.hconn.channel = self.channel = channel
        self._unsettled = 0  # units of this connection in the journal
        self._revealing = 0  # those among them that will make messages visible
        self._changing = 0  # 1 while a call of this connection changes definitions, or a commit reads bodies
        self._deferred: deque[tuple[Call[Any], bool, Callable[..., None], tuple[Any, ...]]] = deque()
        self._doom = Doom()
        self._ended: MQRC | None = None

    @property
    def q_mgr_name(self) -> str:
        return self.core.name

    @property
    def broken(self) -> bool:
        return self._ended is not None

    # The calls

    def open(self, descriptor: ObjectDescriptor, options: int) -> Call[Opened]:
        return self._issue(HeldCall(self._close_unclaimed), True, self._open, descriptor, int(options))

    def close(self, hobj: int, options: int) -> Call[int]:
        deletes = bool(options)  # and looks at what is on the queue
        return self._issue(Call(), deletes, self._close, hobj, int(options))

    def put(self, hobj: int, md: MessageDescriptor | None, options: PutMessageOptions, data: bytes) -> Call[Placed]:
        return self._issue(Call(), False, self._doom.watched(self._put, options), hobj, md, options, data)

    def put1(
        self, descriptor: ObjectDescriptor, md: MessageDescriptor | None, options: PutMessageOptions, data: bytes
    ) -> Call[Placed]:
        return self._issue(Call(), False, self._doom.watched(self._put1, options), descriptor, md, options, data)

    def get(
        self, hobj: int, md: MessageDescriptor | None, options: GetMessageOptions, max_length: int | None
    ) -> Call[Delivery]:
        form = Form(
            max_length,
            2 if md is None else md.version,
            self._coding(md) if options.options & _CONVERT else None,
            int(options.options) & PROPERTY_FORMS,
        )
        return self._issue(GetCall(self, form), True, self._get, hobj, md, options, max_length)

    def begin(self) -> Call[int]:
        return self._issue(Call(), False, self._begin)

    def commit(self) -> Call[int]:
        return self._issue(Call(), False, self._commit)

    def backout(self) -> Call[int]:
        return self._issue(Call(), False, self._backout)

    def inquire(self, hobj: int, selectors: Sequence[int]) -> Call[dict[int, int | str]]:
        return self._issue(Call(), True, self._inquire, hobj, selectors)

    def set(self, hobj: int, values: Mapping[int, int | str]) -> Call[int]:
        return self._issue(Call(), True, self._set, hobj, values)

    def mqsc(self, text: str) -> Call[list[CommandReply]]:
        return self._issue(Call(), True, self._mqsc, text)

    def status(self) -> Call[dict[str, Any]]:
        return self._issue(Call(), True, self._status)

    def explain(
        self, q_name: str, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None
    ) -> Call[Explanation]:
        return self._issue(Call(), True, self._explain, q_name, Wanted(msg_id, correl_id, group_id))

    def trigger_pending(self) -> Call[PendingStarts]:
        return self._issue(Call(), True, self._trigger_pending)

    def trigger_wait(self, posts: int) -> Call[int]:
        return self._issue(ReceivingCall(), False, partial(self.manager.monitors.wait, self), posts)

    def trigger_take(self, q_name: str, limit: int) -> Call[list[Lease]]:
        return self._issue(HeldCall(self._return_unclaimed), False, self._trigger_take, q_name, limit)

    def trigger_done(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self.core.triggers.done(self.hconn, lease)

    def trigger_return(self, leases: Sequence[int]) -> None:
        for lease in leases:
            self.core.triggers.give_back(self.hconn, lease)
        self.manager.follow_up()

    def connect(self, appl_name: str) -> Call[Port]:
        return self._issue(HeldCall(_break_unclaimed), False, self._connect, appl_name)

    def disconnect(self, *, commit: bool) -> Call[int]:
        return self._issue(Call(), False, self._disconnect, commit)

    def break_(self, reason: MQRC = MQRC.CONNECTION_BROKEN) -> None:
        """The line is cut, or the queue manager stops: calls end with `reason`, the unit of work is backed out."""
        if self._ended is not None:
            return
        unit, self.hconn.unit = self.hconn.unit, None
        self._leave(reason)
        if unit is not None:
            self._settle_later(unit, self.core.backout(unit), _nobody, committed=False)

    # Issue order

    def _issue(self, call: C, looks: bool, make: Callable[..., None], *arguments: Any) -> C:
        """Make a call now, or in its turn when it looks at queues. What it raises is its answer."""
        if self._ended is not None:
            self.fail(call, self._ended)
        elif self._deferred or self._changing or (looks and self._revealing):
            self._deferred.append((call, looks, make, arguments))
        else:
            self._make(call, make, arguments)
        return call

    def _make(self, call: Call[Any], make: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            make(call, *arguments)
        except MQError as error:
            call.set_exception(error)
        self.manager.follow_up(self)

    def _resume(self) -> None:
        """Make the calls that waited their turn, as far as they need not wait on."""
        while self._deferred and not self._changing and not (self._revealing and self._deferred[0][1]):
            call, _, make, arguments = self._deferred.popleft()
            if not call.cancelled():
                self._make(call, make, arguments)
            elif not isinstance(call, ReceivingCall):
                self._make(_unheard(), make, arguments)  # who made it is not there to hear, and decides nothing

    def reveal(self) -> Callable[[], None]:
        """Something is under way that makes messages visible: until the function returned is called, calls that look
        at queues wait their turn.
        """
        self._revealing += 1

        def revealed() -> None:
            self._revealing -= 1
            self._resume()

        return revealed

    def commit_unit(self, unit: Unit, then: Callable[[Exception | None], None]) -> None:
        """Freeze a unit and have it written and settled; `then` gives the answer.

        A unit whose reports carry data that is only on disk waits for that, and the later calls with it.
        """
        on_disk = unread(unit.reports.items())
        if not on_disk:
            clock = self.manager.clock
            self._settle_later(unit, self.core.commit(unit, clock.time(), clock.monotonic()), then, committed=True)
            return

        def fetched(error: Exception | None) -> None:
            self._changing -= 1
            if error is None:
                self.commit_unit(unit, then)
            else:
                then(error)
            self._resume()

        self._changing += 1
        self.manager.bodies.fetch(on_disk, fetched)

    def _settle_later(
        self, unit: Unit, rows: Rows, then: Callable[[Exception | None], None], *, committed: bool
    ) -> None:
        """Settle a frozen unit when it is durable, after this connection's earlier ones."""
        if not rows and not self._unsettled:
            self.manager.settle(unit, committed=committed)
            then(None)
            return

        def written(error: Exception | None) -> None:
            if error is None or isinstance(error, StoreFullError):
                self.manager.settle(unit, committed=committed and error is None)
            then(error)

        self._write(rows, written, reveals=bool(unit.puts) if committed else bool(unit.gets))

    def _write(self, rows: Rows, then: Callable[[Exception | None], None], *, reveals: bool) -> None:
        """Have rows written; later calls that look at queues wait for it if it `reveals` messages."""
        self._unsettled += 1
        self._revealing += reveals

        def written(error: Exception | None) -> None:
            self._unsettled -= 1
            self._revealing -= reveals
            then(error)
            self._resume()

        self.manager.journal.submit(rows, written)

    # Gets whose answer nobody took

    def put_back(self, entry: Entry, unit: Unit) -> None:
        """Nobody took the answer to the get with which `unit` got this message: the message goes back to its queue.

        If its unit of work is still open, it leaves it. If that has been committed since, or was the implicit one of a
        get outside syncpoint, the message is put again. If it was backed out, the message is back already.
        """
        if unit.state == units.COMMITTED:
            self._put_again(entry)
        elif unit.state == units.COMMITTING:
            self._write(Rows(), partial(self._settled_meanwhile, entry, unit), reveals=True)
        elif unit.state == units.ACTIVE and entry.marked:
            entry.marked = False
            clear = Rows(backouts=[(entry.id, entry.backout_count)])
            self._write(clear, partial(self._settled_meanwhile, entry, unit), reveals=True)
        elif unit.state == units.ACTIVE:
            self.manager.perform(self.core.give_back(entry, self.manager.clock.time()))

    def _settled_meanwhile(self, entry: Entry, unit: Unit, error: Exception | None) -> None:
        if error is None or isinstance(error, StoreFullError):
            self.put_back(entry, unit)

    def _put_again(self, entry: Entry) -> None:
        """Put a message back after its removal became durable (journal rule 11)."""
        unit = self.core.put_again(entry)
        if unit is not None:
            self.commit_unit(unit, partial(_put_again, entry))

    # Answers

    def fail(self, call: Call[Any], reason: int, detail: str = "") -> None:
        """Answer a call with an error."""
        if not call.done():
            call.set_exception(MQError(reason, detail or _DETAILS.get(int(reason), "")))

    def fail_written(self, call: Call[Any], error: Exception, full: MQRC) -> None:
        """Answer a call whose rows could not be written: with `full` when there was no room (journal rule 6)."""
        if isinstance(error, StoreFullError):
            self.fail(call, full, f"the store is full: {error}")
        else:
            self.fail(call, MQRC.CONNECTION_BROKEN, "the store failed; the outcome of this call is unknown")

    def _answered(self, call: Call[T], result: T, full: MQRC) -> Callable[[Exception | None], None]:
        """Who answers `call` when it is written: with `result`, or with `full` when there was no room."""

        def written(error: Exception | None) -> None:
            if error is not None:
                self.fail_written(call, error, full)
            elif not call.done():
                call.set_result(result)

        return written

    # Objects

    def _open(self, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        if self.core.opens_model(descriptor):
            self._open_model(call, descriptor, options)
        else:
            call.set_result(self._opened(self.core.open(self.hconn, descriptor, options)))

    def _opened(self, handle: Handle) -> Opened:
        if isinstance(handle, DistributionList):
            return _opened_list(handle)
        route = handle.route
        if route is None:
            return Opened(handle.hobj, handle.name, handle.name, self.core.name, 0)
        defaults = route.first.answers_puts_later, bool(route.first.default_persistence)
        return Opened(handle.hobj, handle.name, route.q_name, route.q_mgr_name, 0, *defaults)

    def _open_model(self, call: Call[Opened], descriptor: ObjectDescriptor, options: int) -> None:
        """Make a dynamic queue in the order of all changes of definitions, then open it."""
        name = ""

        def make() -> Define:
            nonlocal name
            define = self.core.make_dynamic(self.hconn, descriptor, options, self.manager.clock.time())
            name = define.definition.name
            return define

        def made() -> None:
            handle = self.core.open_dynamic(self.hconn, descriptor, name, options)
            if self._ended is None and not call.done():
                call.set_result(self._opened(handle))
                return
            self._close_handle(handle)
            self.fail(call, self._ended or MQRC.CONNECTION_BROKEN)

        self._define(call, make, made)

    def _close(self, call: Call[int], hobj: int, options: int) -> None:
        handle = self.hconn.handle(hobj)
        if dynamic.close_deletes(handle, options):
            self._delete_dynamic(call, handle, options)
        else:
            call.set_result(self._close_handle(handle))

    def _delete_dynamic(self, call: Call[int], handle: Handle, options: int) -> None:
        """Delete a permanent dynamic queue, then close the handle. What keeps it from that leaves the handle open."""
        queue = handle.queue
        assert queue is not None

        def make() -> Delete | None:
            if queue.deleted:  # by another handle meanwhile
                return None
            self.core.expire(queue, self.manager.clock.time())
            dynamic.check_deletable(queue, options)
            return Delete("QUEUE", queue.name)

        def deleted() -> None:
            reason = self._close_handle(handle) if handle.hobj in self.hconn.handles else 0
            if not call.done():
                call.set_result(reason)

        self._define(call, make, deleted)

    def _close_handle(self, handle: Handle) -> int:
        reason, effects = self.core.close(self.hconn, handle.hobj, self.manager.clock.monotonic())
        self.manager.perform(effects)
        return reason

    def _close_unclaimed(self, opened: Opened) -> None:
        handle = self.hconn.handles.get(opened.hobj)
        if handle is not None:
            self._close_handle(handle)

    def _inquire(self, call: Call[dict[int, int | str]], hobj: int, selectors: Sequence[int]) -> None:
        handle = self._open_for(hobj, _INQUIRE, MQRC.NOT_OPEN_FOR_INQUIRE)
        call.set_result(inquire(self.manager.catalog, handle.space, handle.name, selectors))

    def _set(self, call: Call[int], hobj: int, values: Mapping[int, int | str]) -> None:
        handle = self._open_for(hobj, _SET, MQRC.NOT_OPEN_FOR_SET)

        def make() -> Define:
            return settings(self.manager.catalog, handle.space, handle.name, values, self.manager.clock.time())

        def made() -> None:
            if not call.done():
                call.set_result(0)

        self._define(call, make, made)

    def _define(self, call: Call[Any], make: Callable[[], Change | None], made: Callable[[], None]) -> None:
        """Have a change of definitions made in its turn, then call `made`; later calls of this connection wait. What
        goes wrong is the answer to the call.
        """

        def done(error: Exception | None) -> None:
            self._changing -= 1
            if error is None:
                made()
            elif isinstance(error, MQError):
                self.fail(call, error.reason, error.detail)
            else:
                self.fail_written(call, error, MQRC.STORAGE_MEDIUM_FULL)
            self._resume()

        self._changing += 1
        self.manager.commands.submit(make, done)

    def _mqsc(self, call: Call[list[CommandReply]], text: str) -> None:
        def done(replies: list[CommandReply]) -> None:
            self._changing -= 1
            if not call.done():
                call.set_result(replies)
            self._resume()

        self._changing += 1
        self.manager.commands.run(text, done)

    def _open_for(self, hobj: int, option: int, reason: MQRC) -> Handle:
        handle = self.hconn.handle(hobj)
        if handle.queue is not None and handle.queue.deleted:
            raise MQError(MQRC.Q_DELETED, f"{handle.name} was deleted after it was opened")
        handle.check_unchanged()
        if not handle.options & option:
            raise MQError(reason, f"{handle.name} was opened without MQOO_{MQOO(option).name}")
        return handle

    # Messages

    def _put(
        self, call: Call[Placed], hobj: int, md: MessageDescriptor | None, options: PutMessageOptions, data: bytes
    ) -> None:
        handle = self.hconn.handle(hobj)
        if isinstance(handle, DistributionList):
            self._distribute(call, handle, md, options, data)
            return
        queue = handle.usable_queue()
        if not handle.puts:
            raise MQError(MQRC.NOT_OPEN_FOR_OUTPUT, f"{handle.name} was opened without MQOO_OUTPUT")
        self._place(call, handle, queue, md, options, data)

    def _place(
        self,
        call: Call[Placed],
        handle: Handle | None,
        queue: LocalQueue,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        route: Route | None = None,
    ) -> None:
        """Put a message through a handle, or through none (MQPUT1) on the way that its name leads."""
        clock = self.manager.clock
        entry, unit, reason = self.core.put(
            self.hconn, handle, queue, md, options, data, clock.time(), clock.monotonic(), route
        )
        placed = Placed(
            entry.kept,
            entry.msg_id,
            entry.correl_id,
            entry.group_id,
            entry.msg_seq_number,
            entry.offset,
            entry.original_length,
            entry.priority,
            entry.persistence,
            reason,
        )
        self._placed(call, placed, unit)

    def _distribute(
        self,
        call: Call[Placed],
        destinations: DistributionList,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
        *,
        once: bool = False,
    ) -> None:
        """Put a message to a distribution list; `once` for MQPUT1."""
        clock = self.manager.clock
        put = distribution.put(self.core, destinations, md, options, data, clock.time(), clock.monotonic(), once=once)
        given = md or MessageDescriptor()
        placed = Placed(
            put.kept,
            given.msg_id,
            given.correl_id,
            given.group_id,
            put.first.msg_seq_number,
            put.first.offset,
            put.first.original_length,
            given.priority,
            given.persistence,
            put.reason,
            Distribution(put.records, put.unknown_count),
        )
        self._placed(call, placed, put.unit)

    def _placed(self, call: Call[Placed], placed: Placed, unit: Unit | None) -> None:
        """Answer a put, when the implicit unit is durable that it is if it is outside syncpoint."""
        if unit is None:
            call.set_result(placed)
        else:
            self.commit_unit(unit, self._answered(call, placed, MQRC.STORAGE_MEDIUM_FULL))

    def _put1(
        self,
        call: Call[Placed],
        descriptor: ObjectDescriptor,
        md: MessageDescriptor | None,
        options: PutMessageOptions,
        data: bytes,
    ) -> None:
        handle = self.core.open(self.hconn, descriptor, MQOO.OUTPUT.value)
        try:
            if isinstance(handle, DistributionList):
                self._distribute(call, handle, md, options, data, once=True)
            else:
                self._place(call, None, handle.usable_queue(), md, options, data, handle.route)
        finally:
            self._close_handle(handle)

    def _get(
        self,
        call: GetCall,
        hobj: int,
        md: MessageDescriptor | None,
        options: GetMessageOptions,
        max_length: int | None,
    ) -> None:
        handle, queue = self.hconn.queue(hobj)
        clock = self.manager.clock
        found = self.core.get(handle, queue, md, options, max_length, clock.time())
        if isinstance(found, Grant):
            call.granted(found)
            return
        call.waiter = self.core.wait(handle, queue, found, call)
        if found.unmarked_by is not None:
            self.manager.marks.watch(queue)
        if options.wait_interval > 0:
            call.timer = clock.call_later(options.wait_interval / 1000, partial(call.ended, MQRC.NO_MSG_AVAILABLE))

    def _coding(self, md: MessageDescriptor | None) -> Coding:
        """What a get with CONVERT wants data to be converted to."""
        ccsid, encoding = (0, MQENC.NATIVE.value) if md is None else (md.coded_char_set_id, md.encoding)
        return Coding(self.core.ids.coded_char_set_id if ccsid in _OWN_CCSID else ccsid, encoding)

    # Units of work

    def _begin(self, call: Call[int]) -> None:
        if self.hconn.unit is not None:
            raise MQError(MQRC.UOW_IN_PROGRESS, f"{self.hconn.unit.calls} messages wait for commit or backout")
        call.set_result(0)

    def _commit(self, call: Call[int]) -> None:
        unit, self.hconn.unit = self.hconn.unit, None
        self._commit_or_back_out(call, unit)

    def _commit_or_back_out(self, call: Call[int], unit: Unit | None) -> None:
        doomed = self._doom.end()
        if doomed is not None:
            self._back_out_doomed(call, unit, doomed)
        elif unit is None:
            call.set_result(0)
        else:
            self.commit_unit(unit, self._answered(call, 0, MQRC.BACKED_OUT))

    def _back_out_doomed(self, call: Call[int], unit: Unit | None, doomed: MQError) -> None:
        def backed_out(_: Exception | None) -> None:
            if not call.done():
                call.set_exception(doomed)

        if unit is None:
            backed_out(None)
        else:
            self._settle_later(unit, self.core.backout(unit), backed_out, committed=False)

    def _backout(self, call: Call[int]) -> None:
        self._doom.end()
        unit, self.hconn.unit = self.hconn.unit, None
        if unit is None:
            call.set_result(0)
            return
        # Without room for the raised counts the unit is backed out all the same: that needs none.
        rows = self.core.backout(unit)
        self._settle_later(unit, rows, self._answered(call, 0, MQRC.STORAGE_MEDIUM_FULL), committed=False)

    # Triggers

    def _trigger_pending(self, call: Call[PendingStarts]) -> None:
        triggers = self.core.triggers
        pending = [
            PendingQueue(
                name, queue.process_name, str(triggers.process(queue).attributes["APPLICID"]), queue.pending_starts
            )
            for name, queue in sorted(self.core.queues.items())
            if triggers.startable(queue)
        ]
        call.set_result(PendingStarts(triggers.posts, pending))

    def _trigger_take(self, call: Call[list[Lease]], q_name: str, limit: int) -> None:
        queue = self.core.queues.get(q_name)
        taken = self.core.triggers.take(queue, self.hconn, limit) if queue is not None else []
        call.set_result([Lease(id, trigger) for id, trigger in taken])

    def _return_unclaimed(self, leases: list[Lease]) -> None:
        self.trigger_return([lease.id for lease in leases])

    # The connection

    def _status(self, call: Call[dict[str, Any]]) -> None:
        call.set_result(self.manager.status())

    def _explain(self, call: Call[Explanation], q_name: str, wanted: Wanted) -> None:
        route = self.core.destination(q_name, "")
        findings = tuple(explain(route, wanted, self.manager.clock.time()))
        call.set_result(Explanation(q_name=route.queue.name, findings=findings))

    def _connect(self, call: Call[Port], appl_name: str) -> None:
        call.set_result(self.manager.converse(appl_name or self.hconn.appl_name, self.hconn.user, self.channel))

    def _disconnect(self, call: Call[int], commit: bool) -> None:
        unit, self.hconn.unit = self.hconn.unit, None
        self._leave(MQRC.HCONN_ERROR)
        if commit:
            self._commit_or_back_out(call, unit)
        elif unit is None:
            call.set_result(0)
        else:
            then = self._answered(call, 0, MQRC.STORAGE_MEDIUM_FULL)
            self._settle_later(unit, self.core.backout(unit), then, committed=False)

    def _leave(self, reason: MQRC) -> None:
        """End all calls with `reason`, close all handles, give back the leases."""
        self._ended = reason
        deferred, self._deferred = self._deferred, deque()
        for call, *_ in deferred:
            self.fail(call, reason)
        for handle in list(self.hconn.handles.values()):
            for waiter in list(handle.waiting):
                waiter.owner.ended(reason)
            self._close_handle(handle)
        self.manager.monitors.leave(self, reason)
        self.trigger_return(self.core.triggers.held_by(self.hconn))
        self.manager.forget(self)


def _opened_list(handle: DistributionList) -> Opened:
    persistent = any(each.route is not None and each.route.first.default_persistence for each in handle.opened)
    found = Distribution(handle.records, handle.unknown_count)
    return Opened(handle.hobj, "", "", "", handle.reason, False, persistent, found)


def _break_unclaimed(port: Port) -> None:
    assert isinstance(port, Conversation)
    port.break_()


def _put_again(entry: Entry, error: Exception | None) -> None:
    if error is not None:
        logger.error("message lost id=%s queue=%s: %s", entry.msg_id.hex(), entry.queue.name, error)


def _unheard() -> Call[Any]:
    """A call whose answer nobody hears, be it an error."""
    call: Call[Any] = Call()
    call.add_done_callback(lambda done: done.cancelled() or done.exception())
    return call


def _nobody(_: Exception | None) -> None:
    """Nobody waits for this outcome."""
