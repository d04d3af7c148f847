"""MQOPEN of one object: who may share a queue, what is counted, and the dynamic queue that is made of a model.

That the call may open anything at all has been checked by then (`Manager.open`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.names import dynamic, judging
from broker.core.names.definitions import Define
from broker.core.names.resolution import UnknownNameError, unknown
from broker.core.queues.handles import FOR_CO_OP, Handle
from broker.core.security.authority import NotAuthorizedError, RefusedCall
from broker.core.selector import selector
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.names.objects import Objects
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Hconn
    from broker.core.queues.queue import LocalQueue
    from broker.core.security.caller import Caller
    from broker.core.selector import Selector
    from broker.mqi.structures import ObjectDescriptor

_SPACES = {MQOT.Q.value: "QUEUE", MQOT.PROCESS.value: "PROCESS", MQOT.Q_MGR.value: "QMGR"}
_QUEUE = MQOT.Q.value
_INPUT_AS_Q_DEF = MQOO.INPUT_AS_Q_DEF.value
_INPUT_EXCLUSIVE = MQOO.INPUT_EXCLUSIVE.value
_INQUIRE_ONLY = (MQOO.INQUIRE | MQOO.FAIL_IF_QUIESCING).value
_JUDGED_OPTIONS = (MQOO.INQUIRE | MQOO.ALTERNATE_USER_AUTHORITY).value  # of other objects than queues


def open_object(objects: Objects, hconn: Hconn, od: ObjectDescriptor, options: int) -> Handle:
    """Open a queue, a process or the queue manager.

    Raises NOT_AUTHORIZED (2035), OBJECT_TYPE_ERROR (2043), what `Objects.route` does, OBJECT_IN_USE (2042),
    UNKNOWN_OBJECT_Q_MGR (2086), SELECTOR_INVALID_FOR_TYPE (2516), SELECTOR_SYNTAX_ERROR (2459).
    """
    space = _SPACES.get(int(od.object_type))
    if space is None:
        raise MQError(MQRC.OBJECT_TYPE_ERROR, f"object_type={od.object_type}: a queue, process or queue manager")
    if space == "QUEUE":
        route = judged_route(objects, hconn, (od.object_name, od.object_q_mgr_name), options, od.alternate_user_id)
        return open_queue(hconn, od.object_name, route, options, od.selection_string)
    own_name = objects.definition.name
    if od.object_q_mgr_name not in ("", own_name):
        raise MQError(MQRC.UNKNOWN_OBJECT_Q_MGR, f"{od.object_q_mgr_name} is not this queue manager, {own_name}")
    if od.selection_string:
        raise MQError(MQRC.SELECTOR_INVALID_FOR_TYPE, f"a selector is for queues, not for a {space.lower()}")
    name = own_name if space == "QMGR" else od.object_name
    with Judgement(hconn, (od.object_name, od.object_q_mgr_name), options, int(od.object_type)):
        check_other(objects, hconn.caller, space, name, options, od.alternate_user_id)
    handle = Handle(hconn, space, name, options, None)
    hconn.add(handle)
    return handle


def judged_route(objects: Objects, hconn: Hconn, names: tuple[str, str], options: int, alternate_user: str) -> Route:
    """The way that these two names of MQOD lead, for a program that may open them so. Raises what `Objects.route` does,
    and NOT_AUTHORIZED (2035).
    """
    if hconn.caller is None:
        return objects.route(*names, options)
    with Judgement(hconn, names, options):
        return judging.route(objects, hconn.caller, names, options, alternate_user)


def check_other(
    objects: Objects, caller: Caller | None, space: str, name: str, options: int, alternate_user: str
) -> None:
    """Raise what an open of a process, or of the queue manager itself, does by its name and options."""
    if caller is not None:
        judging.judge_object(caller, space, name, options & _JUDGED_OPTIONS, alternate_user)
    if space != "QMGR" and (space, name) not in objects.definitions:
        why = unknown(objects.definitions, objects.definition.name, name, space)
        raise UnknownNameError(MQRC.UNKNOWN_OBJECT_NAME, why)
    if options & ~_INQUIRE_ONLY:
        raise MQError(MQRC.OPTION_NOT_VALID_FOR_TYPE, f"{name}: a {space.lower()} can only be opened for INQUIRE")


def open_queue(hconn: Hconn, name: str, route: Route, options: int, selection_string: str = "") -> Handle:
    """Open a queue by a name (sharing rules: semantics 9.2). Raises OBJECT_IN_USE (2042)."""
    handle = enter_queue(hconn, name, route, options, selection_string)
    hconn.add(handle)
    return handle


def enter_queue(hconn: Hconn, name: str, route: Route, options: int, selection_string: str = "") -> Handle:
    """Open a queue for a handle that has no number of its own, such as a destination of a distribution list."""
    queue = route.queue
    if queue.clearing:
        raise MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is being cleared: open it when that is done")
    handle = Handle(hconn, "QUEUE", name, options, queue)
    handle.route = route
    if selection_string:
        handle.selector = _selector_of(handle, selection_string)
    if handle.removes:
        _admit(handle, queue)
        queue.input_count += 1
    if handle.puts:
        queue.output_count += 1
    if options & FOR_CO_OP:
        queue.browse_marks.co_op_count += 1
    if handle.selector is not None:
        queue.shelf.select_by(handle.selector, 1)
    for level in route.levels:
        level.handles.add(handle)
    return handle


def no_selector() -> MQError:
    """SELECTOR_INVALID_FOR_TYPE (2516) for an open that gets and browses nothing."""
    return MQError(MQRC.SELECTOR_INVALID_FOR_TYPE, "a selector is for a queue opened for input or to browse")


def _selector_of(handle: Handle, text: str) -> Selector:
    """MQOD's SelectionString. Raises SELECTOR_INVALID_FOR_TYPE (2516), SELECTOR_SYNTAX_ERROR (2459)."""
    if not handle.removes and not handle.browses:
        raise no_selector()
    return selector(text)


def _admit(handle: Handle, queue: LocalQueue) -> None:
    wanted = queue.default_input if handle.options & _INPUT_AS_Q_DEF else handle.options
    exclusive = bool(wanted & _INPUT_EXCLUSIVE) or not queue.shareable
    if queue.exclusive is not None or (exclusive and queue.input_count):
        how = "exclusive input" if queue.exclusive else "input"
        raise MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is open for {how} already")
    if exclusive:
        queue.exclusive = handle


def judge_known(hconn: Hconn, od: ObjectDescriptor, route: Route, options: int) -> None:
    """Raise NOT_AUTHORIZED (2035) where an open by a way that is known would."""
    if hconn.caller is not None:
        with Judgement(hconn, (od.object_name, od.object_q_mgr_name), options):
            judging.judge(hconn.caller, route, options, od.alternate_user_id)


class Judgement:
    """The judgement of an open of what has these two names in MQOD: a refusal knows which call it was."""

    __slots__ = ("_hconn", "_names", "_object_type", "_options")

    def __init__(self, hconn: Hconn, names: tuple[str, str], options: int, object_type: int = _QUEUE) -> None:
        self._hconn, self._names, self._options, self._object_type = hconn, names, options, object_type

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, NotAuthorizedError):
            program = (self._hconn.appl_type, self._hconn.appl_name)
            error.of(RefusedCall("open", *program, self._object_type, *self._names, self._options))


# Dynamic queues


def make_dynamic(objects: Objects, hconn: Hconn, od: ObjectDescriptor, options: int, now: float) -> Define:
    """The dynamic queue that MQOPEN makes of a model queue: to be defined, then opened with `open_dynamic`.

    Raises UNKNOWN_OBJECT_NAME (2085), DYNAMIC_Q_NAME_ERROR (2011), OBJECT_ALREADY_EXISTS (2100), NAME_IN_USE (2201),
    and what is wrong with the selector.
    """
    model = objects.model(od.object_name)
    if model is None:
        own_name = objects.definition.name
        raise MQError(MQRC.UNKNOWN_OBJECT_NAME, f"{own_name} has no model queue {od.object_name!r} any more")
    name = dynamic.name_for(od.dynamic_q_name, objects.ids)
    made = dynamic.definition_of(model, name, now)
    if hconn.caller is not None:
        with Judgement(hconn, (od.object_name, od.object_q_mgr_name), options):
            judging.judge_model(hconn.caller, model.name, name, options, od.alternate_user_id, shared=made.shared)
    if ("QUEUE", name) in objects.definitions:
        raise MQError(MQRC.OBJECT_ALREADY_EXISTS, f"there is a queue {name} already")
    if od.selection_string:
        _selector_of(Handle(hconn, "QUEUE", name, options, None), od.selection_string)
    if objects.keeps_name(name):
        raise MQError(MQRC.NAME_IN_USE, f"the dynamic queue {name} was deleted, but is still open somewhere")
    return Define(made)


def open_dynamic(objects: Objects, hconn: Hconn, od: ObjectDescriptor, name: str, options: int) -> Handle:
    """Open the dynamic queue just made. If it is a temporary one it ends with this handle."""
    queue = objects.queues[name]
    handle = open_queue(hconn, name, objects.route(name, "", options), options, od.selection_string)
    if queue.temporary:
        queue.creator = handle
    return handle
