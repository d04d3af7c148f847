"""CMDSCOPE: commands that one member gives to others, and their replies, as rows (queue-sharing 2).

Who is asked takes its row before it runs the command, and writes the replies there. Who asks takes them from there, in
the order of the names; a row that nobody has taken when the time is up is taken back, so that the command is not run
any more.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

import anyio

from broker.commands import errors
from broker.commands.interpreter import refused
from broker.engine.admin.scripts import ScriptCall
from broker.engine.jobs.jobs import Job
from broker.mqi.errors import MQError
from broker.mqi.replies import CommandReply
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.commands.requests import ScopedRequest
    from broker.sharing.database.sessions import DatabaseSession
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

ANSWER_SECONDS: Final = 10.0
"""The time that a member has to answer."""

COMMANDS_CHANGED: Final = "@commands"
"""The notification that a command was sent, or answered. No name of a queue begins so."""


class Orders:
    """The commands that one member sends, and those that it is sent."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database
        self._news = anyio.Event()  # replaced when it is set

    def notified(self) -> None:
        """A command was sent to somebody, or answered."""
        self._wake()
        if not self._member.stopping:
            self._member.manager.start_soon(self._take)

    def _wake(self) -> None:
        """Let those who wait for answers look."""
        self._news.set()
        self._news = anyio.Event()

    # Who asks

    async def send(self, request: ScopedRequest, user: str | None) -> list[CommandReply]:
        """Give the command to whom it is for, each of whom judges its `user`, unless it is its owner; the replies of
        each, those that do not answer named. Raises MQError.
        """
        sent = uuid4()
        asked = await self._ask(sent, request, user)
        if not asked:
            return [refused(errors.not_found(request.scope, "It is no member of the group that runs"))]
        over = False

        def end() -> None:
            nonlocal over
            over = True
            self._wake()

        timer = self._member.manager.clock.call_later(ANSWER_SECONDS, end)
        try:
            while True:
                news = self._news
                if over or await self._answered(sent):
                    break
                await news.wait()
        finally:
            timer.cancel()
        return await self._collect(sent)

    async def _ask(self, sent: UUID, request: ScopedRequest, user: str | None) -> int:
        async def work(session: DatabaseSession) -> int:
            about = sent, self._database.member, request.scope, request.text
            if user is None:
                return int(await session.fetchval("SELECT send_command($1, $2, $3, $4)", *about))
            return int(await session.fetchval("SELECT send_command_of($1, $2, $3, $4, $5)", user, *about))

        return await self._database.transact(work)

    async def _answered(self, sent: UUID) -> bool:
        async with self._database.look() as session:
            return not await session.fetchval(
                "SELECT EXISTS (SELECT 1 FROM command WHERE id = $1 AND replies IS NULL)", sent
            )

    async def _collect(self, sent: UUID) -> list[CommandReply]:
        async def work(session: DatabaseSession) -> Sequence[Any]:
            rows: Sequence[Any] = await session.fetch(
                "DELETE FROM command WHERE id = $1 RETURNING member, begun, replies", sent
            )
            return rows

        rows = await self._database.transact(work)
        return [reply for row in sorted(rows, key=_member) for reply in _replies(row)]

    # Who is asked

    async def _take(self) -> None:
        """Run the commands that this member was sent."""

        async def work(session: DatabaseSession) -> Sequence[Any]:
            rows: Sequence[Any] = await session.fetch(
                "UPDATE command SET begun = true WHERE member = $1 AND epoch = $2 AND NOT begun "
                "RETURNING id, command, its_user",
                self._database.member,
                self._database.epoch,
            )
            return rows

        try:
            async with self._database.look() as session:
                if not await session.fetchval(
                    "SELECT EXISTS (SELECT 1 FROM command WHERE member = $1 AND epoch = $2 AND NOT begun)",
                    self._database.member,
                    self._database.epoch,
                ):
                    return
            rows = await self._database.transact(work)
            for row in rows:
                await self._answer(row["id"], await self._run(row["command"], row["its_user"]))
        except (MQError, OutcomeUnknownError) as away:
            logger.warning("command of another member not run: %s", away, extra={"event": "foreign_command_not_run"})

    async def _run(self, command: str, user: str | None) -> list[CommandReply]:
        manager = self._member.manager
        call = ScriptCall(manager.config.limits.replies_bytes)
        self._member.context.jobs.run(Job(manager.commands.sent(command, call, user), call, lambda: None))
        return await call

    async def _answer(self, sent: UUID, replies: Sequence[CommandReply]) -> None:
        written = json.dumps([_written(reply) for reply in replies])

        async def work(session: DatabaseSession) -> None:
            await session.execute("SELECT answer_command($1, $2, $3)", sent, self._database.member, written)

        await self._database.transact(work)


def _member(row: Any) -> str:
    return str(row["member"])


def _written(reply: CommandReply) -> dict[str, Any]:
    return {
        "code": reply.code,
        "text": reply.text,
        "ok": reply.ok,
        "syntax_error": reply.syntax_error,
        "attributes": reply.attributes,
        "warnings": reply.warnings,
    }


def _replies(row: Any) -> list[CommandReply]:
    """Return the replies of one member; each says whose it is."""
    name = row["member"]
    if row["replies"] is None:
        outcome = "its outcome is unknown" if row["begun"] else "it is not run"
        text = f"EMQ0015E: EverMQ {name} has not answered within {ANSWER_SECONDS:.0f} seconds: {outcome}."
        return [CommandReply(code="EMQ0015E", text=text, ok=False)]
    return [
        CommandReply(
            code=each["code"],
            text=f"EMQ0016I: EverMQ {name} answers:\n{each['text']}",
            ok=each["ok"],
            syntax_error=each["syntax_error"],
            attributes=tuple(each["attributes"]),
            warnings=tuple(each["warnings"]),
        )
        for each in json.loads(row["replies"])
    ]
