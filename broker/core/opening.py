"""MQOPEN and MQCLOSE of queues: which options fit where a name leads, who may share, and what is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.core.handles import FOR_CO_OP, Handle
from broker.core.selector import selector
from broker.mqi.errors import MQError
from broker.mqi.options import MQOO
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from broker.core.handles import Hconn
    from broker.core.queue import LocalQueue
    from broker.core.resolution import Resolution
    from broker.core.routes import Route
    from broker.core.selector import Selector

_INPUT_AS_Q_DEF = MQOO.INPUT_AS_Q_DEF.value
_INPUT_SHARED = MQOO.INPUT_SHARED.value
_INPUT_EXCLUSIVE = MQOO.INPUT_EXCLUSIVE.value


_INPUT_BROWSE_SET = _INPUT_AS_Q_DEF | _INPUT_SHARED | _INPUT_EXCLUSIVE | (MQOO.BROWSE | MQOO.SET).value
_INQUIRE = MQOO.INQUIRE.value


def check_options(name: str, found: Resolution, options: int) -> None:
    """Whether what the name leads to can be opened so (semantics 9.1, 9.4). Raises Q_TYPE_ERROR (2057),
    OPTION_NOT_VALID_FOR_TYPE (2045).
    """
    if found.model:
        raise MQError(MQRC.Q_TYPE_ERROR, f"{name} is a model queue, and this call makes no dynamic queue of it")
    own_definition = len(found.path) == 2 and not found.by_alias  # the name is that of the remote queue's definition
    only_output = found.by_alias or found.remote
    if only_output and (options & _INPUT_BROWSE_SET or (options & _INQUIRE and not own_definition)):
        raise MQError(
            MQRC.OPTION_NOT_VALID_FOR_TYPE,
            f"{name} leads to {found.q_name} of {found.q_mgr_name}: it can only be opened for output",
        )


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
        handle.selector = selector_of(handle, selection_string)
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


def selector_of(handle: Handle, text: str) -> Selector:
    """MQOD's SelectionString. Raises SELECTOR_INVALID_FOR_TYPE (2516), SELECTOR_SYNTAX_ERROR (2459)."""
    if not handle.removes and not handle.browses:
        raise MQError(MQRC.SELECTOR_INVALID_FOR_TYPE, "a selector is for a queue opened for input or to browse")
    return selector(text)


def _admit(handle: Handle, queue: LocalQueue) -> None:
    wanted = queue.default_input if handle.options & _INPUT_AS_Q_DEF else handle.options
    exclusive = bool(wanted & _INPUT_EXCLUSIVE) or not queue.shareable
    if queue.exclusive is not None or (exclusive and queue.input_count):
        how = "exclusive input" if queue.exclusive else "input"
        raise MQError(MQRC.OBJECT_IN_USE, f"{queue.name} is open for {how} already")
    if exclusive:
        queue.exclusive = handle


def close_queue(handle: Handle, queue: LocalQueue) -> None:
    """Take a handle off its queue. Its waiting gets have been ended before."""
    assert handle.route is not None
    for level in handle.route.levels:
        level.handles.discard(handle)
    if handle.removes:
        queue.input_count -= 1
    if handle.puts:
        queue.output_count -= 1
    if handle.options & FOR_CO_OP:
        queue.browse_marks.co_op_count -= 1
    queue.browse_marks.drop_of(handle)
    if handle.selector is not None:
        queue.shelf.select_by(handle.selector, -1)
    if queue.exclusive is handle:
        queue.exclusive = None
