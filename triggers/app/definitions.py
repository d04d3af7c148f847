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
    from broker.mqi import CommandReply
    from triggers.app.handler import Handler

logger = logging.getLogger(__name__)

_DEFINE_QUEUE: Final = (
    "DEFINE QLOCAL('{0}') DEFPSIST(YES) TRIGGER TRIGTYPE(EVERY) PROCESS('{0}') MAXDEPTH(999999999) DESCR('{1}')"
)
_DEFINE_PROCESS: Final = "DEFINE PROCESS('{0}') DESCR('{1}')"
_DEFINE_DEAD: Final = (
    "DEFINE QLOCAL('{0}') DEFPSIST(YES) MAXDEPTH(999999999) MAXMSGL(104857600) DESCR('Dead letters of {1}')"
)
_DEFINE_HISTORY: Final = "DEFINE QLOCAL('{0}') DEFPSIST(YES) MAXDEPTH(999999999) DESCR('{1}')"
_DESCRIPTION_CHARACTERS: Final = 64
_TYPES: Final = {"QUEUE": MQOT.Q, "PROCESS": MQOT.PROCESS, "QMGR": MQOT.Q_MGR}


class NotServableError(Exception):
    """A queue that is there cannot be served as it is. The text is one line that says what to do."""


async def define(
    connection: Connection, handlers: Iterable[Handler], targets: Iterable[str] = (), app_name: str = ""
) -> None:
    """Define the queues and processes of handlers that are missing, and their dead-letter queues; then those of the
    queues that the app only puts to: so what is put counts as a start for whoever comes to serve them.

    Raises NotServableError for a queue that is there and cannot be served; CommandFailedError; DB2_NOT_AVAILABLE
    (2342), having defined nothing, while something is missing and may be the group's, which cannot be asked;
    NOT_AUTHORIZED (2035) for what the app may not define or see, with the commands for an administrator as a note.
    """
    definitions = Definitions(connection)
    try:
        manager = await definitions.queue_manager()
        for handler in handlers:
            await _define_handler(definitions, handler, dead_letter_q_name=str(manager["DEADQ"]))
        described = _quotable(f"Put to by {app_name}")
        for name in targets:
            if await definitions.displayed("QUEUE", name) is None:
                await definitions.define("PROCESS", name, _DEFINE_PROCESS.format(name, described))
                await definitions.define("QUEUE", name, _DEFINE_QUEUE.format(name, described))
    except MQError as error:
        if error.reason != MQRC.NOT_AUTHORIZED:
            raise
        await definitions.may_not("QMGR", "")  # without which no command is run
        if not definitions.refused:
            raise
    if definitions.refused:
        raise not_definable(app_name, definitions.refused)


def not_definable(app_name: str, commands: Iterable[str]) -> MQError:
    """NOT_AUTHORIZED (2035) for what an app needs and may not define, with the commands that an administrator can run
    for it as a note.
    """
    error = MQError(
        MQRC.NOT_AUTHORIZED,
        f"the app {app_name} may not define what it needs: an administrator can, with evermq mqsc and these lines",
    )
    error.add_note("\n".join(commands))
    return error


def is_refused(reply: CommandReply) -> bool:
    """True if a command was not run because its program may not run it."""
    return reply.code == "AMQ8135E"


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


class Definitions:
    """Defines what is missing, over a connection. `refused` are the commands for what it may not, in their order."""

    def __init__(self, connection: Connection) -> None:
        self.refused: list[str] = []
        self._connection = connection
        self._in_group = False

    async def queue_manager(self) -> Mapping[str, Any]:
        """The attributes DEADQ and QSGNAME."""
        [reply] = await self._connection.mqsc("DISPLAY QMGR DEADQ QSGNAME", check=True)
        self._in_group = bool(reply.attributes[0]["QSGNAME"])
        return reply.attributes[0]

    async def define(self, kind: str, name: str, command: str) -> Mapping[str, Any] | None:
        """The attributes of an object, which is defined if it is missing; another worker may do so at the same moment.
        None if the app may not.
        """
        found = await self.displayed(kind, name)
        if found is not None:
            return found
        if not self._in_group or await self._looked_up(kind, name):
            [reply] = await self._connection.mqsc(command)
            found = await self.displayed(kind, name)
            if found is not None:
                if reply.ok:
                    logger.info("defined for the app: %s", command)
                return found
            if not is_refused(reply):
                raise CommandFailedError([reply])
        self.refused.append(command)
        await self.may_not(kind, name)
        return None

    async def displayed(self, kind: str, name: str) -> Mapping[str, Any] | None:
        """The attributes of an object, None where it is missing, or not for the app to see."""
        [reply] = await self._connection.mqsc(f"DISPLAY {kind}('{name}') ALL")
        return reply.attributes[0] if reply.ok and reply.attributes else None

    async def may_not(self, kind: str, name: str) -> None:
        """Note what would let the app see an object, where it may not."""
        access = await self._connection.explain_open(name, for_="dsp", object_type=_TYPES[kind])
        if access.grant:
            self.refused.append(access.grant)

    async def _looked_up(self, kind: str, name: str) -> bool:
        """True if the group was asked for an object of this name, False where the app may not ask. DB2_NOT_AVAILABLE
        (2342) where the group cannot be asked: a queue of a member's own would be in the way of a shared one.
        """
        descriptor = ObjectDescriptor(object_type=_TYPES[kind], object_name=name)
        try:
            opened = await self._connection.open(descriptor, MQOO.INQUIRE)
        except MQError as error:
            if error.reason == MQRC.NOT_AUTHORIZED:
                return False
            if error.reason != MQRC.UNKNOWN_OBJECT_NAME:
                raise
        else:
            await opened.close()  # it is there since a moment ago
        return True


async def _define_handler(definitions: Definitions, handler: Handler, *, dead_letter_q_name: str) -> None:
    name, described = handler.q_name, _quotable(f"Handled by {handler.name}")
    if await definitions.displayed("QUEUE", name) is None:  # else it may name another process
        await definitions.define("PROCESS", name, _DEFINE_PROCESS.format(name, described))
    queue = await definitions.define("QUEUE", name, _DEFINE_QUEUE.format(name, described))
    if queue is None:
        queue = {"PROCESS": "", "BOQNAME": ""}
    elif fault := _fault(name, queue):
        raise NotServableError(f"{handler.place} cannot serve queue {name}: {fault}")
    shared = queue.get("QSGDISP") == "SHARED"
    if process := str(queue["PROCESS"]):
        disposition = " QSGDISP(GROUP)" if shared else ""
        await definitions.define("PROCESS", process, _DEFINE_PROCESS.format(process, described) + disposition)
    named = handler.dead_letter
    if named is None and not queue["BOQNAME"] and not dead_letter_q_name:
        named = handler.options.last_dead_letter
    if named:
        disposition = f" QSGDISP(SHARED) CFSTRUCT({queue['CFSTRUCT']})" if shared else ""
        await definitions.define("QUEUE", named, _DEFINE_DEAD.format(named, name) + disposition)
    if handler.options.history:
        await _define_history(definitions, handler, shared=shared)


async def _define_history(definitions: Definitions, handler: Handler, *, shared: bool) -> None:
    name, history = handler.q_name, handler.options.history
    if shared:
        raise NotServableError(
            f"{handler.place} cannot have history= with queue {name}: it is a shared queue, whose messages end in the "
            "database of the group, and a record of that would not be in the same unit of work"
        )
    command = _DEFINE_HISTORY.format(history, _quotable(f"What became of the messages of {name}"))
    queue = await definitions.define("QUEUE", history, command)
    if queue is not None and (queue["TYPE"] != "QLOCAL" or queue.get("QSGDISP") == "SHARED"):
        raise NotServableError(
            f"{handler.place} cannot have history= with queue {name}: {history} is no local queue of the queue "
            "manager's own"
        )


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


def _quotable(description: str) -> str:
    """A description without what would end the string of a command."""
    return description.replace("'", "")[:_DESCRIPTION_CHARACTERS]
