"""The connection of a client command to a queue manager: `--url`, an event loop, one connection."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import anyio
import click

from broker.cli.program import CannotRunError
from broker.client import connect
from broker.client.address import completed
from broker.client.reaching import START_ONE
from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from broker import Connection

_NOT_LET_IN: Final = frozenset({MQRC.SECURITY_ERROR, MQRC.KEY_REPOSITORY_ERROR, MQRC.SSL_INITIALIZATION_ERROR})

NO_QUEUE_MANAGER: Final = frozenset(
    {
        MQRC.CONNECTION_BROKEN,
        MQRC.Q_MGR_NAME_ERROR,
        MQRC.Q_MGR_NOT_AVAILABLE,
        MQRC.Q_MGR_QUIESCING,
        MQRC.Q_MGR_STOPPING,
        MQRC.HOST_NOT_AVAILABLE,
        MQRC.MAX_CONNS_LIMIT_REACHED,
        *_NOT_LET_IN,
    }
)
"""The reasons that say there is no queue manager to talk to, rather than that it refused something."""

Result = TypeVar("Result")
Command = TypeVar("Command", bound="Callable[..., Any]")


def with_url(command: Command, *, by_channel: bool = True) -> Command:
    """Give a command the option `--url`, and those of who connects: its `url` has all of them. With `by_channel` one is
    `--channel`, which other commands mean otherwise.
    """

    @wraps(command)
    def completing(*arguments: Any, url: str, user: str, ca: str, cert: str, cert_key: str, **others: Any) -> Any:
        channel = others.pop("channel") if by_channel else ""
        try:
            whole = completed(url, user=user, channel=channel, ca=ca, cert=cert, key=cert_key)
        except ValueError as error:
            raise CannotRunError(str(error)) from None
        return command(*arguments, url=whole, **others)

    option = click.option(
        "--url",
        envvar="EVERMQ_URL",
        default="mq://127.0.0.1:1414",
        show_default=True,
        show_envvar=True,
        help="The queue manager to connect to.",
    )
    return option(with_identity(cast("Command", completing), by_channel=by_channel))


def with_identity(command: Command, *, by_channel: bool = True) -> Command:
    """Give a command the options of who connects. Secrets are in the environment, or in files that it names."""
    for name, option in reversed(_IDENTITY.items()):
        if by_channel or name != "channel":
            command = option(command)
    return command


_IDENTITY: Final = {
    "user": click.option("--user", metavar="NAME", default="", help="The user; else EVERMQ_USER."),
    "channel": click.option("--channel", metavar="NAME", default="", help="The channel to come in by."),
    "ca": click.option(
        "--ca", metavar="FILE", default="", help="Of mqs://: whom to trust; else EVERMQ_CA, or the system."
    ),
    "cert": click.option("--cert", metavar="FILE", default="", help="Of mqs://: our certificate; else EVERMQ_CERT."),
    "key": click.option(
        "--cert-key", metavar="FILE", default="", help="Its key; else EVERMQ_KEY, or in the same file."
    ),
}


def converse(url: str, work: Callable[[Connection], Awaitable[Result]], *, commands: bool = False) -> Result:
    """Run `work` with a connection, which commits at a clean end and backs out at any other. `commands`: it runs
    commands alone, each of which is done by itself (`left_in_peace`).
    """

    async def conversation() -> Result:
        async with AsyncExitStack() as stack:
            return await work(await connected(stack, url, commands=commands))

    return run(conversation)


@asynccontextmanager
async def left_in_peace(connecting: AbstractAsyncContextManager[Connection]) -> AsyncIterator[Connection]:
    """A connection for commands. That it is broken when it is left is no failure: behind the reply to the command that
    defines the first user it ends so, since the queue manager trusts nobody from then on.
    """
    done = False
    try:
        async with connecting as connection:
            yield connection
            done = True
    except MQError as error:
        if not done or error.reason != MQRC.CONNECTION_BROKEN:
            raise


def run(work: Callable[[], Awaitable[Result]]) -> Result:
    """Run a coroutine function to its end, on uvloop."""
    return anyio.run(work, backend_options={"use_uvloop": True})


async def connected(stack: AsyncExitStack, url: str, *, commands: bool = False) -> Connection:
    """Connect, for as long as `stack` is open. Raises CannotRunError that says how to get a queue manager."""
    try:
        connecting = connect(url, appl_name="evermq")
        return await stack.enter_async_context(left_in_peace(connecting) if commands else connecting)
    except MQError as error:
        raise no_queue_manager(url, error) from error
    except ValueError as error:
        raise CannotRunError(str(error)) from error


def no_queue_manager(url: str, error: MQError) -> CannotRunError:
    """The error for a connection that did not come about, with what to do where there is nobody to connect to."""
    absent = error.reason in (MQRC.HOST_NOT_AVAILABLE, MQRC.Q_MGR_NOT_AVAILABLE)
    what = "cannot connect to" if error.reason in {*_NOT_LET_IN, MQRC.NOT_AUTHORIZED} else "no queue manager at"
    advice = START_ONE if absent and not error.detail.endswith(START_ONE) else ""
    return CannotRunError(f"{what} {url}: {error}{advice}")
