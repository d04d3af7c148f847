"""Connection tags in the group: one row a connection that has one (queue-sharing 6).

A row goes after the last unit of work of its connection, which the database checks as well (`release_tag` in the
schema), and after all that is under way for it; those of a failed member go with the end of its recovery. Until then
the tag is in use.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from broker.engine.calls.answers import succeed
from broker.engine.tags import hold, in_use
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.engine.calls.call_order import CallOrder
    from broker.engine.conversation import Conversation
    from broker.engine.tags import TagUse
    from broker.interface.port import Call
    from broker.sharing.members.group_member import GroupMember

logger = logging.getLogger(__name__)

_TAKE: Final = "SELECT take_tag($1, $2, $3, $4, $5, $6, $7) AS taken"
_RELEASE: Final = "SELECT release_tag($1, $2, $3) AS free"
_AGAIN_SECONDS: Final = 0.1
_AWAY: Final = (MQRC.CF_NOT_AVAILABLE, MQRC.CF_STRUC_IN_USE)


class Tags:
    """The connection tags of one member."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member
        self._database = member.database

    def take(self, conversation: Conversation, call: Call[int], use: TagUse) -> None:
        self._member.make(conversation.call_order, call, partial(self._take, conversation, call, use))

    async def _take(self, conversation: Conversation, call: Call[int], use: TagUse) -> None:
        own = self._database.member, self._database.epoch
        try:
            rows = await self._database.repeat(_TAKE, *own, use.id, use.tag, use.process, use.exclusive, use.groupwide)
        except MQError as error:
            # it may have been taken, and the answer lost
            self.release(conversation.call_order, use, _nothing)
            if error.reason not in _AWAY:
                raise
            raise MQError(MQRC.CONN_TAG_NOT_USABLE, f"connection tag {use}: {error.detail}") from error
        if not rows[0]["taken"]:
            raise in_use(use)
        if conversation.broken or call.done():  # meanwhile: nobody has it
            self.release(conversation.call_order, use, _nothing)
            succeed(call, 0)
            return
        hold(conversation, use)
        succeed(call, 0)

    def release(self, call_order: CallOrder, use: TagUse, then: Callable[[], None]) -> None:
        self._member.manager.start_soon(self._release, call_order, use, then)

    async def _release(self, call_order: CallOrder, use: TagUse, then: Callable[[], None]) -> None:
        """Let a tag go, as soon as the database says that it can; the end of this member does so in any case.

        A statement that was made for the connection may still be taking messages, for nobody, in a unit of work that
        the database does not show yet: that comes first.
        """
        try:
            async with self._member.call_lock(call_order):
                pass
            while not await self._released(use) and not self._member.stopping:
                with anyio.move_on_after(_AGAIN_SECONDS):
                    await self._member.stopped.wait()
        finally:
            then()

    async def _released(self, use: TagUse) -> bool:
        try:
            await self._member.returned.settle()
            rows = await self._database.repeat(_RELEASE, self._database.member, self._database.epoch, use.id)
        except (MQError, OutcomeUnknownError) as error:
            logger.debug("connection tag not released yet tag=%s: %s", use, error)
            return False
        return bool(rows[0]["free"])


def _nothing() -> None:
    """Nobody waits for it."""
