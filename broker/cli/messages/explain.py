"""`evermq explain`: why messages of a queue are not delivered; why a user may connect or open something, or not."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from broker.cli.conversation import converse, with_url
from broker.cli.terminal.identifier import identifier
from broker.cli.terminal.terminal import say
from broker.presentation.escaping import escaped

if TYPE_CHECKING:
    from broker import Connection
    from broker.mqi import Access, Explanation

_OF_QUEUE = "queue"


class ExplainGroup(click.Group):
    """The group of what can be explained. Any other first word is the name of a queue."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words of the command line, the name of the command as their first."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [_OF_QUEUE, *args]
        return super().parse_args(ctx, args)


@click.group(cls=ExplainGroup, subcommand_metavar="QUEUE | COMMAND [ARGS]...")
def explain() -> None:
    """Tell why messages of QUEUE are not delivered, or what a user may do, and why.

    `evermq explain QUEUE` is about messages. `evermq explain connect USER --from ADDRESS` and `evermq explain open NAME
    --as USER --for put,get` end with the command that would allow what is refused, on a line of its own: paste it into
    `evermq mqsc`.
    """


@explain.command(_OF_QUEUE)
@click.argument("queue")
@click.option("--msg-id", callback=identifier, metavar="HEX", help="Only messages with this MsgId, and their groups.")
@click.option(
    "--correl-id", callback=identifier, metavar="HEX", help="Only messages with this CorrelId, and their groups."
)
@click.option("--group-id", callback=identifier, metavar="HEX", help="Only this group.")
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@with_url
def explain_queue(
    queue: str, *, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None, in_json: bool, url: str
) -> None:
    """Tell why messages of QUEUE are not delivered, a line for each thing found: `evermq explain QUEUE` does the same.

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


@explain.command("connect")
@click.argument("name", metavar="USER")
@click.option("--from", "address", metavar="ADDRESS", required=True, help="The address that the user comes from.")
@click.option("--channel", metavar="C", default="", help="The channel by which; else that of clients that name none.")
@click.option("--subject", metavar="DN", default="", help='The name in the certificate it shows: "CN=app1, O=Example".')
@click.option("--issuer", metavar="DN", default="", help="The name of who has issued the certificate.")
@click.option("--plain", is_flag=True, help="By a line without TLS.")
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@partial(with_url, by_channel=False)
def explain_connect(name: str, *, address: str, in_json: bool, url: str, **line: Any) -> None:
    """Tell whether USER may connect from an address, a line for each rule, and the command that would allow it.

    The user is taken to know its password. Administrators may ask about others, everybody about itself.
    """

    async def asked(connection: Connection) -> Access:
        return await connection.explain_connect(name, from_=address, **line)

    _show(converse(url, asked), f"{name} may {{}}connect from {address}", in_json=in_json)


@explain.command("open")
@click.argument("name")
@click.option("--as", "as_user", metavar="USER", default="", help="The user; else the one of this command.")
@click.option("--for", "for_", metavar="RIGHTS", required=True, help="The rights, as put,get or dsp.")
@click.option("--qmgr", "q_mgr_name", metavar="NAME", default="", help="The queue manager in the object descriptor.")
@click.option("--json", "in_json", is_flag=True, help="Everything, as one JSON object.")
@with_url
def explain_open(name: str, *, as_user: str, for_: str, q_mgr_name: str, in_json: bool, url: str) -> None:
    """Tell whether a user may open queue NAME, a line for each rule, and the command that would allow it.

    The name is resolved as by MQOPEN. Rights of commands, such as dsp and clr, are explained too.
    """

    async def asked(connection: Connection) -> Access:
        return await connection.explain_open(name, as_user=as_user, for_=for_, q_mgr_name=q_mgr_name)

    access = converse(url, asked)
    _show(access, f"{access.user} may {{}}open {name} for {for_}", in_json=in_json)


def _show(access: Access, what: str, *, in_json: bool) -> None:
    """Print an answer. What is to be pasted stands on lines of its own."""
    if in_json:
        steps = [step._asdict() for step in access.steps]
        print(json.dumps({**access._asdict(), "steps": steps}))
        return
    for step in access.steps:
        say(escaped(str(step)))
    if access.allowed:
        say(escaped(what.format("")))
    elif access.grant:
        say(escaped(f"{what.format('not ')}; this would allow it:"))
        for command in access.grant.splitlines():
            say(escaped(command))
    else:
        say(escaped(f"{what.format('not ')}; no command allows it without letting others in"))
