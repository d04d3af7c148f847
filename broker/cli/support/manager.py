"""The parts of a bundle that the queue manager tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from broker.mqi import MQError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from broker import Connection
    from broker.cli.support.bundle import Bundle

QUEUES_EXPLAINED: Final = 20

_OBJECTS: Final = (
    "DISPLAY QMGR ALL",
    "DISPLAY QUEUE(*) ALL",
    "DISPLAY PROCESS(*) ALL",
    "DISPLAY CHANNEL(*) ALL",
    "DISPLAY AUTHINFO(*) ALL",
    "DISPLAY USER(*) ALL",
    "DISPLAY CHLAUTH(*) ALL",
    "DISPLAY AUTHREC ALL",
    "DISPLAY QSTATUS(*) TYPE(HANDLER) ALL",
    "DISPLAY QSTATUS(*) TYPE(CLAIM) ALL",
    "DISPLAY THREAD(*) TYPE(INDOUBT)",
)
_OF_GROUP: Final = ("DISPLAY GROUP", "DISPLAY CFSTRUCT(*) ALL", "DISPLAY CFSTATUS(*)")


async def ask(connection: Connection, bundle: Bundle) -> None:
    """Take in what the queue manager of a connection tells, each part as far as its user may know of it."""
    figures: dict[str, Any] = {}
    try:
        figures = await connection.status()
        bundle.add("status.json", json.dumps(figures, indent=1) + "\n")
    except MQError as error:
        bundle.leave_out("status.json", error)
    bundle.add("objects.txt", await _objects(connection, in_group="sharing" in figures))
    bundle.add("explain.txt", await _explained(connection, figures.get("queues", ())))
    try:
        lines = await connection.recent_log()
        bundle.add("log.txt", "".join(f"{line}\n" for line in lines))
    except MQError as error:
        bundle.leave_out("log.txt", error)


async def _objects(connection: Connection, *, in_group: bool) -> str:
    """The replies to DISPLAY of all objects."""
    text = ""
    for command in (*_OBJECTS, *(_OF_GROUP if in_group else ())):
        text += f"> {command}\n"
        try:
            text += "".join(f"{reply.text}\n" for reply in await connection.mqsc(command))
        except MQError as error:
            text += f"{error}\n"
        text += "\n"
    return text


async def _explained(connection: Connection, queues: Iterable[Mapping[str, Any]]) -> str:
    """Why messages of the queues with the oldest ones are not delivered."""
    text = ""
    for queue in oldest_first(queues)[:QUEUES_EXPLAINED]:
        text += f"{queue['name']}: depth {queue['depth']}, the oldest message available for {queue['oldest_age']} s\n"
        try:
            findings = (await connection.explain(queue["name"])).findings
            text += "".join(f"  {each.code}: {each.text}\n" for each in findings)
        except MQError as error:
            text += f"  {error}\n"
    return text


def oldest_first(queues: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the queues that hold messages, those with the oldest ones first."""
    holding = [queue for queue in queues if queue["depth"]]
    return sorted(holding, key=lambda queue: (-queue["oldest_age"], -queue["depth"], queue["name"]))
