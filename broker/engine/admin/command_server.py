"""The command server: runs MQSC and ZMQSC scripts.

A script is a job (`broker.engine.jobs.jobs`): a step is a command, or one object that a DISPLAY looks at. A command is
judged by what is in force, so no command is looked at before the changes of the last are durable and applied. A script
whose replies nobody reads waits for that. One whose caller has gone goes on to its end, but displays nothing any more.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.commands import errors
from broker.commands.errors import CommandError
from broker.commands.interpreter import CommandOutcome, begin, refused
from broker.commands.language import script
from broker.commands.language.numbers import ESCAPE, number_of, verb_of
from broker.commands.requests import (
    DECISIONS,
    GROUP_REQUESTS,
    SECURITY_QUESTIONS,
    SECURITY_REQUESTS,
    RefreshConfigRequest,
    ScopedRequest,
)
from broker.core.security.authority import NotAuthorizedError
from broker.core.security.caller import Caller
from broker.core.security.rights import Right
from broker.engine.admin.configuration import Reloaded
from broker.engine.admin.group_commands import refusal_of
from broker.engine.admin.scripts import Unread
from broker.engine.admin.security_commands import SecurityCommands, changes_security
from broker.engine.jobs.awaits import PAUSE, Changed
from broker.engine.jobs.group_awaits import Asked, refreshed
from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.replies import CommandReply
from broker.storage.store import StoreError, StoreFullError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.commands.interpreter import Parts
    from broker.commands.requests import Decision, GroupRequest, SecurityRequest
    from broker.core.queues.handles import Hconn
    from broker.engine.admin.configuration import Reload
    from broker.engine.admin.decisions import Decisions
    from broker.engine.admin.objects import LiveCatalog
    from broker.engine.admin.scripts import ScriptCall
    from broker.engine.context import EngineContext
    from broker.engine.jobs.awaits import Pause

logger = logging.getLogger(__name__)

_REFUSALS: Final = (MQError, CommandError, StoreError)


class CommandServer:
    """Makes jobs of scripts."""

    def __init__(self, context: EngineContext, catalog: LiveCatalog, decisions: Decisions, script_bytes: int) -> None:
        self._context = context
        self._clock = context.clock
        self._catalog = catalog
        self._decisions = decisions
        self.security = SecurityCommands(context.core.objects, catalog)
        self.script_bytes = script_bytes
        self.reload: Reload | None = None
        """REFRESH CONFIG is done by this, where a daemon runs the queue manager."""

    def check(self, text: str, hconn: Hconn) -> None:
        """Raises NOT_AUTHORIZED (2035) for a connection whose user may run no commands at all, DATA_LENGTH_ERROR (2010)
        for a script that is too long, CHAR_CONVERSION_ERROR (2340) for one with characters that are none.
        """
        try:
            hconn.require_manager(Right.DSP)
        except NotAuthorizedError as error:
            self._context.security_log.command_refused(error, ESCAPE)
            raise
        try:
            length = len(text) if len(text) > self.script_bytes else len(text.encode())
        except UnicodeEncodeError as error:
            bad = f"U+{ord(text[error.start]):04X} at position {error.start}"
            raise MQError(MQRC.CHAR_CONVERSION_ERROR, f"{bad} of the commands is not a character") from None
        if length > self.script_bytes:
            raise MQError(
                MQRC.DATA_LENGTH_ERROR,
                f"a script of {length} bytes is over [limits] script_bytes = {self.script_bytes}: nothing of it was "
                "run; send it in several calls",
            )

    async def script(self, text: str, call: ScriptCall, caller: Caller | None, *, up_to_failure: bool = False) -> None:
        """Run the commands of a checked text in their turn as their caller, and answer `call` with a reply to each;
        with `up_to_failure` up to the first that fails.
        """
        try:
            await self._commands(text, call, caller, up_to_failure=up_to_failure)
        except Exception as error:
            call.add(_failed(mistake(error, "MQSC")))
        call.complete()

    async def _commands(self, text: str, call: ScriptCall, caller: Caller | None, *, up_to_failure: bool) -> None:
        await self._look_up()
        warned: set[str] = set()
        count = 0
        for command in script.steps(text):
            ok = True
            if command:
                count += 1
                ok = await self._judged(command, call, warned, caller)
            await _unread(call)
            if call.over:
                call.add(_too_long(call.limit, count))
                return
            if up_to_failure and not ok:
                return

    async def sent(self, text: str, call: ScriptCall, user: str | None) -> None:
        """Run one command that another member of the group has sent, and answer `call`. It is judged by a `user` of the
        group, the same at each member; None: it is of the owner of that member.
        """
        try:
            await self._look_up()
            authority = self._context.core.objects.authority
            caller = None if user is None else Caller(authority, user)
            if user is not None and user not in authority.group.users:
                why = f"{user} is no user with QSGDISP(SHARED): connect to this member itself"
                call.add(refused(errors.conflict(why)))
            else:
                await self._judged(text, call, set(), caller, here=True)
        except Exception as error:
            call.add(_failed(mistake(error, "MQSC")))
        call.complete()

    async def _look_up(self) -> None:
        """Commands begin with what other members have defined until now, as far as the database can be reached."""
        sharing = self._context.sharing
        if sharing is not None:
            with suppress(MQError):
                await Asked(sharing, "the reading of shared definitions", sharing.repository.look_up)

    async def _judged(
        self, text: str, call: ScriptCall, warned: set[str], caller: Caller | None, *, here: bool = False
    ) -> bool:
        """As `_command`, for a user who may not be allowed to do all that it does."""
        try:
            if here and caller is not None:
                caller.require_manager(Right.DSP)
            return await self._command(text, call, warned, caller, here=here)
        except NotAuthorizedError as error:
            user = "" if caller is None else caller.user
            self._context.security_log.command_refused(error, number_of(text), user)
            call.add(refused(errors.not_authorized()))
            return False

    async def _command(
        self, text: str, call: ScriptCall, warned: set[str], caller: Caller | None, *, here: bool = False
    ) -> bool:
        """Run one command; whether it did its work. `here`: it is not sent on. Raises NOT_AUTHORIZED (2035)."""
        self._context.figures.calls.command(verb_of(text))
        now = datetime.fromtimestamp(self._clock.time(), UTC)
        begun = begin(text, self._catalog, now, warned, caller, here=here)
        if isinstance(begun, CommandOutcome):
            reply = await self._change(begun)
            if reply.ok and changes_security(begun.changes, text):
                self._context.security_log.security_changed(call.user, text)
            call.add(reply)
            return reply.ok
        if isinstance(begun, DECISIONS):
            reply = await self._decide(begun, caller)
            call.add(reply)
            return reply.ok
        if isinstance(begun, SECURITY_REQUESTS):
            reply = self._secure(begun)
            if reply.ok and not isinstance(begun, SECURITY_QUESTIONS):
                self._context.security_log.security_changed(call.user, text)
            call.add(reply)
            return reply.ok
        if isinstance(begun, RefreshConfigRequest):
            reply = refused(errors.no_configuration()) if self.reload is None else await Reloaded(self.reload)
            call.add(reply)
            return reply.ok
        if isinstance(begun, (ScopedRequest, *GROUP_REQUESTS)):
            return await self._ask_group(begun, call, caller)
        return await self._show(begun, call)

    async def _change(self, begun: CommandOutcome) -> CommandReply:
        """The reply to a command when its changes are made."""
        try:
            if begun.changes:
                await Changed(*begun.changes)
        except _REFUSALS as error:
            return refusal_of(error) or _failed(error)
        return begun.reply

    async def _show(self, parts: Parts, call: ScriptCall) -> bool:
        """The reply to a DISPLAY, in parts."""
        if self._context.sharing is not None:
            await refreshed(self._context.sharing, held=parts.held)
        continues = False
        ok = True
        for part in parts:
            if part is not None:
                call.add(part, continues=continues)
                continues = True
                ok = part.ok
            await _unread(call)
            if call.cancelled() or call.over:
                break
        return ok

    async def _ask_group(self, request: ScopedRequest | GroupRequest, call: ScriptCall, caller: Caller | None) -> bool:
        """Carry a command out in the group, or by its members: a reply of each that is asked."""
        sharing = self._context.sharing
        if sharing is None:
            call.add(refused(errors.conflict("this needs a queue-sharing group, and the queue manager is in none")))
            return False
        replies: Sequence[CommandReply]
        carry_out, user = sharing.commands.carry_out, None if caller is None else caller.user
        try:
            replies = await Asked(sharing, "a command", partial(carry_out, request, user))
        except _REFUSALS as error:
            replies = [refusal_of(error) or _failed(error)]
        for reply in replies:
            call.add(reply)
        return all(reply.ok for reply in replies)

    def _secure(self, request: SecurityRequest) -> CommandReply:
        try:
            return self.security.carry_out(request)
        except CommandError as error:
            return refused(error)

    async def _decide(self, decision: Decision, caller: Caller | None) -> CommandReply:
        try:
            return await self._decisions.carry_out(decision, caller)
        except CommandError as error:
            return refused(error)
        except NotAuthorizedError:
            raise
        except (MQError, StoreError) as error:
            return _failed(error)


def _unread(call: ScriptCall) -> Unread | Pause:
    """Return what a script waits for before its next step, if for anything."""
    return Unread(call) if call.full else PAUSE


def _failed(error: Exception) -> CommandReply:
    if isinstance(error, MQError):
        why = error.detail
    elif isinstance(error, StoreFullError):
        why = f"the store is full: {error}"
    else:
        why = f"the store failed, the outcome is unknown: {error}"
    return CommandReply(code="AMQ8101S", text=f"AMQ8101S: IBM MQ error: {why}.", ok=False)


def _too_long(limit: int, count: int) -> CommandReply:
    text = (
        f"AMQ8101S: IBM MQ error: the replies are over [limits] replies_bytes = {limit}. The first {count} commands "
        "were run, and the reply to the last of them may be cut off; those after them were not. Ask in several calls."
    )
    return CommandReply(code="AMQ8101S", text=text, ok=False)
