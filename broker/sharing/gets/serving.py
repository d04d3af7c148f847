"""Somebody waits for what is on a shared queue: it is looked at whenever there may be something new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from broker.engine.mistakes import mistake
from broker.mqi.errors import MQError
from broker.sharing.database.errors import OutcomeUnknownError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from broker.sharing.members.group_member import GroupMember

T = TypeVar("T", bound="Hashable")


class Serving(Generic[T]):
    """Serves each of several by one task at most: what is told of one meanwhile has it served again. A failure of the
    database ends that; those who wait are looked after from time to time. `what` it is, for a mistake of ours.
    """

    def __init__(self, member: GroupMember, serve: Callable[[T], Awaitable[None]], what: str) -> None:
        self._member = member
        self._serve = serve
        self._what = what
        self._again: dict[T, bool] = {}  # those that are served: whether they are to be served again

    def mark_dirty(self, one: T) -> None:
        """There may be something new for one."""
        if one in self._again:
            self._again[one] = True
        elif not self._member.stopping:
            self._again[one] = True
            self._member.manager.start_soon(self._run, one)

    async def _run(self, one: T) -> None:
        try:
            with anyio.CancelScope(shield=True):
                while self._again[one] and not self._member.stopping:
                    self._again[one] = False
                    await self._serve(one)
        except (MQError, OutcomeUnknownError):
            return  # the database is away: they wait on
        except Exception as error:
            mistake(error, self._what)
        finally:
            del self._again[one]
