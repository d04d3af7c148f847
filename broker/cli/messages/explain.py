"""`evermq explain`: why messages of a queue are not delivered."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from broker.cli.conversation import converse, with_url
from broker.cli.terminal.escaping import escaped
from broker.cli.terminal.identifier import identifier
from broker.cli.terminal.terminal import say

if TYPE_CHECKING:
    from broker import Connection
    from broker.mqi import Explanation


@click.command()
@click.argument("queue")
@click.option("--msg-id", callback=identifier, metavar="HEX", help="Only messages with this MsgId, and their groups.")
@click.option(
    "--correl-id", callback=identifier, metavar="HEX", help="Only messages with this CorrelId, and their groups."
)
@click.option("--group-id", callback=identifier, metavar="HEX", help="Only this group.")
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@with_url
def explain(
    queue: str, *, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None, in_json: bool, url: str
) -> None:
    """Tell why messages of QUEUE are not delivered, a line for each thing found.

    Uncommitted, and by whom and since when; locked; claimed by a consumer; expired; groups and segments that are
    incomplete, and what they lack; what comes first; what getters wait for.
    """

    async def asked(connection: Connection) -> Explanation:
        return await connection.explain(queue, msg_id=msg_id, correl_id=correl_id, group_id=group_id)

    explanation = converse(url, asked)
    if in_json:
        print(json.dumps(asdict(explanation)))
    else:
        for finding in explanation.findings:
            say(escaped(f"{finding.code}: {finding.text}"))
