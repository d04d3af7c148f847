"""Defines what an app names and nobody has defined (handlers rules 6.4, 7.1). What is there is never altered: where it
cannot be served as it is, the error prints the command that would change it. What belongs to a shared queue is defined
for the group. While the group cannot be asked for it nothing is missing.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQOO, MQOT, MQRC, CommandFailedError, MQError, ObjectDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from broker import Connection
    from triggers.app.handler import Handler

logger = logging.getLogger(__name__)

_DEFINE_QUEUE: Final = (
    "DEFINE QLOCAL('{0}') DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS('{0}') MAXDEPTH(999999999) DESCR('{1}')"
)
_DEFINE_PROCESS: Final = "DEFINE PROCESS('{0}') DESCR('{1}')"
_DEFINE_DEAD: Final = (
    "DEFINE QLOCAL('{0}') DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(104857600) DESCR('Dead letters of {1}')"
)
_DESCRIPTION_CHARACTERS: Final = 64
_TYPES: Final = {"QUEUE": MQOT.Q, "PROCESS": MQOT.PROCESS}


class NotServableError(Exception):
    """A queue that is there cannot be served as it is. The text is one line that says what to do."""


async def define(connection: Connection, handlers: Iterable[Handler]) -> None:
    """Define the queues and processes of handlers that are missing, and their dead-letter queues.

    Raises NotServableError for a queue that is there and cannot be served; CommandFailedError; DB2_NOT_AVAILABLE
    (2342), having defined nothing, while something is missing and may be the group's, which cannot be asked.
    """
    dead_letter_q_name = str((await _one(connection, "DISPLAY QMGR DEADQ"))["DEADQ"])
    for handler in handlers:
        queue = await _queue(connection, handler)
        shared = queue.get("QSGDISP") == "SHARED"
        await _process(connection, str(queue["PROCESS"]), handler, " QSGDISP(GROUP)" if shared else "")
        named = handler.dead_letter
        if named is None and not queue["BOQNAME"] and not dead_letter_q_name:
            named = handler.options.last_dead_letter
        if named:
            disposition = f" QSGDISP(SHARED) CFSTRUCT({queue['CFSTRUCT']})" if shared else ""
            await _define_missing(connection, "QUEUE", named, _DEFINE_DEAD.format(named, handler.q_name) + disposition)


async def define_targets(connection: Connection, q_names: Iterable[str], app_name: str) -> None:
    """Define the queues that are missing of those that an app only puts to, with their processes: so what is put counts
    as a start for whoever comes to serve them. Raises CommandFailedError.
    """
    described = _quotable(f"Put to by {app_name}")
    for name in q_names:
        if await _displayed(connection, "QUEUE", name) is None:
            await _define_missing(connection, "PROCESS", name, _DEFINE_PROCESS.format(name, described))
            await _define_missing(connection, "QUEUE", name, _DEFINE_QUEUE.format(name, described))


async def unserved(connection: Connection, q_names: Sequence[str]) -> dict[str, int]:
    """Return those of these queues that no worker serves, no program has open for input and no trigger's handler runs
    for, with the starts that are pending, as far as this queue manager knows: not those that lie elsewhere.
    """
    if not q_names:
        return {}
    figures = await connection.status()
    served = {str(each["queue"]) for each in figures["handlers"] if each.get("workers")}
    idle = {
        str(queue["name"]): int(queue["trigger_pending"])
        for queue in figures["queues"]
        if not (queue["ipprocs"] or queue["trigger_running"] or queue["name"] in served)
    }
    return {name: idle[name] for name in q_names if name in idle}


async def _queue(connection: Connection, handler: Handler) -> Mapping[str, Any]:
    """The queue of a handler, which is there and can be served."""
    name = handler.q_name
    command = _DEFINE_QUEUE.format(name, _described(handler))
    queue = await _define_missing(connection, "QUEUE", name, command)
    fault = _fault(name, queue)
    if fault:
        raise NotServableError(f"{handler.place} cannot serve queue {name}: {fault}")
    return queue


async def _process(connection: Connection, name: str, handler: Handler, disposition: str) -> None:
    command = _DEFINE_PROCESS.format(name, _described(handler)) + disposition
    await _define_missing(connection, "PROCESS", name, command)


async def _define_missing(connection: Connection, kind: str, name: str, command: str) -> Mapping[str, Any]:
    """The attributes of an object, which is defined if it is missing; another worker may do so at the same moment."""
    found = await _displayed(connection, kind, name)
    if found is None:
        await _look_up(connection, kind, name)
        [reply] = await connection.mqsc(command)
        found = await _displayed(connection, kind, name)
        if found is None:
            raise CommandFailedError([reply])
        if reply.ok:
            logger.info("defined for the app: %s", command)
    return found


async def _displayed(connection: Connection, kind: str, name: str) -> Mapping[str, Any] | None:
    [reply] = await connection.mqsc(f"DISPLAY {kind}('{name}') ALL")
    return reply.attributes[0] if reply.ok and reply.attributes else None


async def _look_up(connection: Connection, kind: str, name: str) -> None:
    """Raise DB2_NOT_AVAILABLE (2342) where the queue manager cannot know that its group has no object of this name: a
    queue of its own by the name of a shared one would be in the way of both.
    """
    try:
        opened = await connection.open(ObjectDescriptor(object_type=_TYPES[kind], object_name=name), MQOO.INQUIRE)
    except MQError as error:
        if error.reason != MQRC.UNKNOWN_OBJECT_NAME:
            raise
    else:
        await opened.close()  # it is there since a moment ago


async def _one(connection: Connection, command: str) -> Mapping[str, Any]:
    [reply] = await connection.mqsc(command, check=True)
    return reply.attributes[0]


def _fault(name: str, queue: Mapping[str, Any]) -> str:
    """Return the reason why a queue cannot be served, and what would change that; "" if it can be."""
    kind = str(queue["TYPE"])
    if kind == "QALIAS":
        return f"it is an alias: serve the queue that it stands for, {queue.get('TARGET') or queue.get('TARGQ')}"
    if kind != "QLOCAL":
        return f"it is no local queue but a {kind}"
    changes = []
    if queue["TRIGTYPE"] != "EVERY":
        changes.append("TRIGTYPE(EVERY)")
    if not queue["PROCESS"]:
        changes.append(f"PROCESS('{name}')")
    if queue["INITQ"]:
        changes.append("INITQ(' ')")
    if not changes:
        return ""
    is_so = f"TRIGTYPE({queue['TRIGTYPE']}) PROCESS({queue['PROCESS']}) INITQ({queue['INITQ']})"
    return f"it has {is_so}; to have it served: ALTER QLOCAL('{name}') {' '.join(changes)}"


def _described(handler: Handler) -> str:
    return _quotable(f"Handled by {handler.name}")


def _quotable(description: str) -> str:
    """A description without what would end the string of a command."""
    return description.replace("'", "")[:_DESCRIPTION_CHARACTERS]
