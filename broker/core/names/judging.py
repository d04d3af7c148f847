"""The judgement of an MQOPEN, and of what counts as one: MQPUT1, and the reply queue of a message that asks for reports
(security 5).

Judged is the name that is opened, and not what it leads to: an alias, the local definition of a remote queue, a local
queue. By the name of another queue manager it is the first definition on the way that is no queue manager alias, so the
transmission queue. An open handle keeps the rights that it was opened with.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from broker.core.names.resolution import UnknownNameError
from broker.core.queues.handles import REMOVING
from broker.core.security.rights import Right
from broker.mqi.constants.objects import MQOT
from broker.mqi.constants.options import MQOO, MQPMO
from broker.mqi.errors import MQError

if TYPE_CHECKING:
    from broker.core.names.objects import Objects
    from broker.core.names.routes import Route
    from broker.core.security.caller import Caller
    from broker.mqi.structures import MessageDescriptor

_OUTPUT = MQOO.OUTPUT.value
_ALTERNATE_USER = MQOO.ALTERNATE_USER_AUTHORITY.value

_ON_OBJECT = (
    (REMOVING | MQOO.SAVE_ALL_CONTEXT.value, Right.GET),
    (MQOO.BROWSE.value, Right.BROWSE),
    (_OUTPUT, Right.PUT),
    (MQOO.INQUIRE.value, Right.INQ),
    (MQOO.SET.value, Right.SET),
    (MQOO.PASS_IDENTITY_CONTEXT.value, Right.PASSID),
    (MQOO.PASS_ALL_CONTEXT.value, Right.PASSALL),
    (MQOO.SET_IDENTITY_CONTEXT.value, Right.SETID),
    (MQOO.SET_ALL_CONTEXT.value, Right.SETALL),
)
"""Options of MQOPEN, and the right on the object that any of them needs."""

_ONE_EACH = ~(REMOVING & ~MQOO.INPUT_SHARED.value | MQOO.SAVE_ALL_CONTEXT.value)
"""Masks all but one of the options that need the same right."""

_ON_MANAGER = Right.SETID | Right.SETALL
"""Rights that are needed on the queue manager too."""

_OF_PUT1 = (
    (MQPMO.PASS_IDENTITY_CONTEXT.value, MQOO.PASS_IDENTITY_CONTEXT.value),
    (MQPMO.PASS_ALL_CONTEXT.value, MQOO.PASS_ALL_CONTEXT.value),
    (MQPMO.SET_IDENTITY_CONTEXT.value, MQOO.SET_IDENTITY_CONTEXT.value),
    (MQPMO.SET_ALL_CONTEXT.value, MQOO.SET_ALL_CONTEXT.value),
    (MQPMO.ALTERNATE_USER_AUTHORITY.value, _ALTERNATE_USER),
)

AUTOMATIC_PREFIX = "AMQ."
"""The beginning of names of dynamic queues that their users did not choose."""

_SPACE_TYPES = {"QUEUE": MQOT.Q.value, "PROCESS": MQOT.PROCESS.value}


@lru_cache(maxsize=1024)
def rights_for(options: int) -> Right:
    """Return the rights on the object that an open with these options needs."""
    rights = Right.NONE
    for some, right in _ON_OBJECT:
        if options & some:
            rights |= right
    return rights


def options_for(wanted: Right) -> tuple[int, Right]:
    """Return options of an open that needs these rights on the object, and those of them that no open needs."""
    options, others = 0, wanted
    for some, right in _ON_OBJECT:
        if right in wanted:
            options |= some & _ONE_EACH
            others &= ~right
    return options, others


@lru_cache(maxsize=1024)
def options_of_put1(options: int) -> int:
    """Return the options of the MQOPEN that an MQPUT1 with these options of MQPMO does."""
    return _OUTPUT | sum(opens for puts, opens in _OF_PUT1 if options & puts)


def route(objects: Objects, caller: Caller, names: tuple[str, str], options: int, alternate_user: str) -> Route:
    """The way that these two names of MQOD lead, for a user who may open them so. Raises NOT_AUTHORIZED (2035) for one
    who may not, whatever is wrong with the way; else what `Objects.route` does.
    """
    q_name, q_mgr_name = names
    subject = _subject(caller, options, alternate_user)
    try:
        found = objects.route(q_name, q_mgr_name, options)
    except UnknownNameError as error:
        if ("QUEUE", q_name) in objects.definitions:
            subject.require(rights_for(options), q_name)
            raise
        if caller.may(Right.DSP, q_name.upper()):
            raise  # it may name what there is in upper case
        raise UnknownNameError(error.reason, f"{objects.definition.name} has no queue {q_name!r}") from None
    except MQError:
        subject.require(rights_for(options), q_name)
        raise
    _judge(subject, found, options)
    return found


def judge(caller: Caller, route: Route, options: int, alternate_user: str) -> None:
    """Raise NOT_AUTHORIZED (2035) for a user who may not open what leads this way."""
    _judge(_subject(caller, options, alternate_user), route, options)


def judge_object(caller: Caller, space: str, name: str, options: int, alternate_user: str) -> None:
    """As `judge`, for a process definition or the queue manager itself."""
    subject, wanted = _subject(caller, options, alternate_user), rights_for(options)
    if space == "QMGR":
        subject.require_manager(wanted)
    else:
        subject.require(wanted, name, _SPACE_TYPES[space])


def judge_model(
    caller: Caller, model: str, name: str, options: int, alternate_user: str, *, shared: bool = False
) -> None:
    """As `judge`, for a model queue of which a dynamic queue of this name is to be made, a `shared` one perhaps."""
    subject, wanted = _subject(caller, options, alternate_user), rights_for(options)
    _judge_manager(subject, wanted)
    subject.require(wanted | Right.DSP, model)
    if not name.startswith(AUTOMATIC_PREFIX):
        (subject.of_group if shared else subject).require(wanted, name)


def judge_reply(objects: Objects, caller: Caller, md: MessageDescriptor) -> None:
    """Raise NOT_AUTHORIZED (2035) for a user who may not put to the reply queue of a message. Where nothing has that
    name now, something may have it when a report is made.
    """
    try:
        found = objects.destination(md.reply_to_q, md.reply_to_q_mgr)
    except MQError:
        caller.require(Right.PUT, md.reply_to_q)
    else:
        _judge(caller, found, _OUTPUT)


def judge_arrival(objects: Objects, caller: Caller, q_name: str, q_mgr_name: str) -> None:
    """Raise NOT_AUTHORIZED (2035) for a user for whom no message of another queue manager is put to a queue: that takes
    PUT and SETALL on it (security 5.5). Where nothing has that name now, something may have it by then.
    """
    try:
        judged = objects.destination(q_name, q_mgr_name).judged
    except MQError:
        judged = q_name
    caller.require(Right.PUT | Right.SETALL, judged)


def _subject(caller: Caller, options: int, alternate_user: str) -> Caller:
    """The user whose rights count: with ALTERNATE_USER_AUTHORITY another one than the caller."""
    if not options & _ALTERNATE_USER:
        return caller
    caller.require_manager(Right.ALTUSR)
    return caller.other(alternate_user)


def _judge(subject: Caller, route: Route, options: int) -> None:
    queue, wanted = route.queue, rights_for(options)
    if options & _OUTPUT and queue.transmits and not route.remote:
        wanted |= Right.SETALL  # who writes transmission headers decides where messages go
    _judge_manager(subject, wanted)
    maker = queue.creator
    if maker is not None and maker.hconn.caller is not None and maker.hconn.caller.user == subject.user:
        return  # who has made a temporary dynamic queue has all rights on it
    subject.require(wanted, route.judged)


def _judge_manager(subject: Caller, wanted: Right) -> None:
    if wanted & _ON_MANAGER:
        subject.require_manager(wanted & _ON_MANAGER)
