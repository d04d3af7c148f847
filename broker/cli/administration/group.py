"""`evermq group`: the queue-sharing group of a queue manager, through its database (queue-sharing 7)."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from broker.cli.administration.status import table
from broker.cli.conversation import run
from broker.cli.program import CannotRunError, SomeFailedError
from broker.cli.terminal.terminal import say
from broker.config import load
from broker.config.kinds import DatabaseAddress
from broker.engine.shared_queues import GroupError
from broker.sharing.members.group import NEEDS_EXTRA, QueueSharingGroup

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.sharing.members.administration import Administration
    from broker.sharing.versions.progress import UpgradePlan

_RECOVER_SECONDS: Final = 60.0


@click.group()
@click.option("--config", "whole", metavar="FILE", help="The broker.toml of a member; a command may name it, too.")
def group(whole: str | None) -> None:
    """Make a queue-sharing group, look at it, recover what a failed member has left.

    It is found by its database: the section [queue_sharing_group] of --config, or EVERMQ_QUEUE_SHARING_GROUP_NAME and
    EVERMQ_QUEUE_SHARING_GROUP_DSN in the environment. No queue manager need run.
    """


def _named(context: click.Context, _: click.Parameter, file: str | None) -> str | None:
    """Return the file that a command names, or the one that stands before it."""
    before: str | None = None if context.parent is None else context.parent.params["whole"]
    return file or before


_config = click.option("--config", "file", metavar="FILE", callback=_named, help="The broker.toml of a member.")
_json = click.option("--json", "in_json", is_flag=True, help="As JSON.")
_dsn = click.option("--dsn", metavar="DSN", help="Of the owner of the tables, in place of that of the member.")
_dsn_password_file = click.option(
    "--dsn-password-file", "password_file", metavar="FILE", help="The password of that DSN is in FILE."
)


@group.command("init")
@_dsn
@_dsn_password_file
@_config
def init_group(dsn: str | None, password_file: str | None, file: str | None) -> None:
    """Make the tables of the group in its database, unless they are there.

    A member does that too when it joins, if its user of the database may; here you see first whether the database will
    do. With --dsn the tables are another user's, who grants members what they need. Its password is in
    --dsn-password-file, in PGPASSWORD or in ~/.pgpass.
    """
    schema = _ask(file, lambda administration: administration.init(), owner=_owner(dsn, password_file))
    say(f"the tables of the group are in schema {schema}")


@group.command("upgrade")
@_dsn
@_dsn_password_file
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", is_flag=True, help="Take an upgrade back that has not come to its last step.")
@_config
def upgrade_group(dsn: str | None, password_file: str | None, file: str | None, *, yes: bool, undo: bool) -> None:
    """Bring the tables and functions of the group to the version of this EverMQ.

    A member does that too when it joins, if its user of the database owns them, and members of older releases go on;
    unless the tables were made anew since, as in version 3. Then all members must have ended. The command says what it
    is about to do, and asks; it copies the messages, says how far it is, compares, and asks again before the last step.
    One that was broken off goes on when it is given again. The password of --dsn is in --dsn-password-file, in
    PGPASSWORD or in ~/.pgpass.
    """
    owner = _owner(dsn, password_file)
    if undo:
        schema, version = _ask(file, lambda administration: administration.undo_upgrade(), owner=owner)
        say(f"the upgrade is taken back: the SQL of the group in schema {schema} has version {version}")
        return
    plan = _ask(file, lambda administration: administration.plan_upgrade(), owner=owner)
    if plan is not None:
        _upgrade_stopped(plan, partial(_ask, file, owner=owner), yes=yes)
        return
    done = _ask(file, lambda administration: administration.upgrade(), owner=owner)
    before, after = done["before"], done["after"]
    reported = f"has version {after}" if before == after else f"had version {before}, and has {after}"
    say(f"the SQL of the group in schema {done['schema']} {reported}")
    for name, version in done["older"].items():
        say(f"{name} joined last with version {version}")


def _upgrade_stopped(plan: UpgradePlan, ask: Callable[..., Any], *, yes: bool) -> None:
    """Upgrade a group whose members have all ended."""
    say(f"the tables of the group in schema {plan.schema} have version {plan.before}; those of {plan.after} are others")
    say(
        f"to be copied: {plan.messages} messages and {plan.units} units of work, {_size(plan.bytes)} on the disk, "
        "where they need as much once more meanwhile"
    )
    if plan.copied is not None:
        say(f"an upgrade has been broken off that had copied {plan.copied} of these messages: it goes on")
    say(f"that takes about {plan.minutes} minute{'s' if plan.minutes > 1 else ''}, in which no member can join")
    if not yes:
        click.confirm("Do it?", abort=True)
    ask(lambda administration: administration.copy_upgraded(_CopyReport()))
    say("all is copied, and compared with what it was copied from")
    if not yes:
        say("behind the last step there is no way back to the older release; before it there is: --undo")
        click.confirm("Take the last step?", abort=True)
    ask(lambda administration: administration.end_upgrade())
    say(f"the SQL of the group in schema {plan.schema} had version {plan.before}, and has {plan.after}")


class _CopyReport:
    """Tells of messages that are copied, once for each twentieth of them."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, copied: int, messages: int) -> None:
        twentieths = 20 * copied // max(1, messages)
        if twentieths > self._told:
            self._told = twentieths
            say(f"copied {copied} of {messages} messages, {5 * twentieths} %")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


@group.command("members")
@_config
@_json
def list_members(file: str | None, *, in_json: bool) -> None:
    """List the members: state, epoch, rest of the lease, units of work, handles, version of their SQL, address."""
    members = _ask(file, lambda administration: administration.members())
    if in_json:
        print(json.dumps(members))
    elif members:
        say("\n".join(table(_member_rows(members))))
    else:
        say("no queue manager has joined yet")


@group.command("status")
@_config
@_json
def show_status(file: str | None, *, in_json: bool) -> None:
    """Show the group: members, shared queues with their depths, structures.

    The age of the oldest snapshot says for how many transactions the database must remember dead rows: where it grows,
    somebody keeps a transaction open, and gets become slow.
    """
    status = _ask(file, lambda administration: administration.status())
    if in_json:
        print(json.dumps(status))
        return
    say(f"group {status['group']} in schema {status['schema']}")
    say("\n".join(table(_member_rows(status["members"]))))
    say("")
    queues = [[str(each[key]) for key in _QUEUE] for each in status["queues"]]
    say("\n".join(table([["queue", *_QUEUE[1:]], *queues])))
    say("")
    for each in status["breaches"]:
        whose = f", of {each['member']} in unit of work {each['unit']}" if each["unit"] else ""
        say(f"broken on {each['queue']}: {each['what']}, {each['rows']} times from {each['first']} on{whose}")
    say("structures: " + ", ".join(f"{name} {state}" for name, state in status["structures"].items()))
    say(f"oldest snapshot: {status['oldest_snapshot']} transactions")


@group.command("recover")
@click.argument("member")
@click.option(
    "--timeout", type=click.FloatRange(min=1), default=_RECOVER_SECONDS, show_default=True, metavar="S",
    help="Give up after so many seconds.",
)  # fmt: skip
@_config
def recover_member(member: str, file: str | None, *, timeout: float) -> None:
    """Have what the failed MEMBER has left recovered, where no peer runs that would do it.

    Its units of work are backed out, or finished where they were decided; its handles, locks and connection tags go.
    """
    _ask(file, lambda administration: administration.recover(member, timeout), failed=True)
    say(f"{member} has left nothing behind")


_QUEUE: Final = ("name", "depth", "handles")
_MEMBER: Final = ("name", "state", "epoch", "lease", "units", "handles", "version", "address")


def _member_rows(members: list[dict[str, Any]]) -> list[list[str]]:
    rows = []
    for each in members:
        shown = each | {"lease": f"{each['lease_seconds']:.1f} s"}
        rows.append([str(shown[key]) for key in _MEMBER])
    return [["member", *_MEMBER[1:]], *rows]


def _owner(dsn: str | None, password_file: str | None) -> tuple[str, Path | None] | None:
    """Return the DSN of the owner of the tables and the file of its password, where they are given."""
    if dsn is None and password_file is not None:
        raise click.UsageError("--dsn-password-file is for --dsn: that of the member is a setting")
    if dsn is None:
        return None
    if DatabaseAddress.has_password(dsn):
        raise CannotRunError(
            "a password in --dsn can be read by every user of this machine: name it in --dsn-password-file, in "
            "PGPASSWORD or in ~/.pgpass"
        )
    return dsn, None if password_file is None else Path(password_file)


def _ask(
    file: str | None,
    work: Callable[[Administration], Awaitable[Any]],
    *,
    failed: bool = False,
    owner: tuple[str, Path | None] | None = None,
) -> Any:
    config = load(None if file is None else Path(file), os.environ)
    own = config.queue_sharing_group
    if not own.name:
        raise CannotRunError(
            "which group? Give the --config of a member that has the section [queue_sharing_group], or set "
            "EVERMQ_QUEUE_SHARING_GROUP_NAME and EVERMQ_QUEUE_SHARING_GROUP_DSN"
        )
    try:
        from broker.sharing.members.administration import Administration

        dsn, password_file = owner or (own.dsn, own.dsn_password_file)
        administration = Administration(QueueSharingGroup(own.name, dsn, own.lease, password_file))
        return run(lambda: work(administration))
    except (GroupError, ValueError) as error:
        raise (SomeFailedError if failed else CannotRunError)(str(error)) from error
    except ImportError as error:
        raise CannotRunError(NEEDS_EXTRA) from error
