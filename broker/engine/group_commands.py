"""Commands that a queue-sharing group has a part in: what is asked of it, and what its refusals are to a command."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from broker.commands import errors
from broker.commands.interpreter import refused
from broker.engine.jobs import Look
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from broker.commands.requests import GroupRequest, ResolveConsumerRequest, ScopedRequest
    from broker.core.queues.handles import Handle
    from broker.engine.conversation import Conversation
    from broker.engine.shared_desk import SharedDesk
    from broker.mqi.replies import CommandReply
    from broker.storage.store import Done

T = TypeVar("T")


def refusal_of(error: Exception) -> CommandReply | None:
    """The reply to a command that the group has refused; None where it has failed for another reason."""
    if isinstance(error, errors.CommandError):
        return refused(error)
    if not isinstance(error, MQError):
        return None
    match error.reason:
        case MQRC.OBJECT_ALREADY_EXISTS:
            return refused(errors.already_exists(error.detail))
        case MQRC.OBJECT_IN_USE:
            return refused(errors.in_use(error.detail))
        case MQRC.Q_NOT_EMPTY:
            return refused(errors.not_empty())
        case MQRC.UNKNOWN_OBJECT_NAME:
            return refused(errors.not_found(error.detail))
    return None


class Refreshed(Look):
    """What is known of the shared queues is brought up to date, as far as the database can be reached. `held`: who has
    claimed messages of them too, and how far behind they are.
    """

    __slots__ = ("_desk", "_held")

    def __init__(self, desk: SharedDesk, *, held: bool = False) -> None:
        self._desk = desk
        self._held = held

    def begin(self, done: Done) -> None:
        self._desk.refresh(done, held=self._held, lag=self._held)


class LookedUp(Look):
    """What other members have defined until now is known, as far as the database can be reached."""

    __slots__ = ("_desk",)

    def __init__(self, desk: SharedDesk) -> None:
        self._desk = desk

    def begin(self, done: Done) -> None:
        self._desk.look_up(done)


class Swept(Look):
    """Starts are pending that were missing on shared queues: so many, as far as the database can be reached."""

    __slots__ = ("_desk", "made")

    def __init__(self, desk: SharedDesk) -> None:
        self._desk = desk
        self.made = 0

    def begin(self, done: Done) -> None:
        def answer(made: int) -> None:
            self.made = made
            done(None)

        self._desk.sweep(answer)


class Registered(Look):
    """The group learns that a shared queue is open."""

    __slots__ = ("_conversation", "_handle")

    def __init__(self, conversation: Conversation, handle: Handle) -> None:
        self._conversation = conversation
        self._handle = handle

    def begin(self, done: Done) -> None:
        self._conversation.context.desk.register(self._conversation, self._handle, done)


class Resolved(Look):
    """An administrator's decision about a consumer of the group is carried out: how many messages are removed, and how
    many are back on their queues. NO_SUBSCRIPTION (2428) where there is no such consumer.
    """

    __slots__ = ("_decision", "_desk", "counts")

    def __init__(self, desk: SharedDesk, decision: ResolveConsumerRequest) -> None:
        self._desk = desk
        self._decision = decision
        self.counts = (0, 0)

    def begin(self, done: Done) -> None:
        self._desk.resolve(self._decision, partial(self._resolved, done))

    def _resolved(self, done: Done, counts: tuple[int, int], error: Exception | None) -> None:
        self.counts = counts
        done(error)


class Asked(Look, Generic[T]):
    """Something that the group is asked, called `what`; its `answer`."""

    __slots__ = ("_desk", "_what", "_work", "answer")

    answer: T

    def __init__(self, desk: SharedDesk, what: str, work: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._desk = desk
        self._what = what
        self._work = work

    def begin(self, done: Done) -> None:
        self._desk.ask(self._ask, self._what, done)

    async def _ask(self) -> None:
        self.answer = await self._work()


class Answered(Look):
    """What the group, or members of it, answer to a command."""

    __slots__ = ("_desk", "_request", "replies")

    def __init__(self, desk: SharedDesk, request: ScopedRequest | GroupRequest) -> None:
        self._desk = desk
        self._request = request
        self.replies: Sequence[CommandReply] = ()

    def begin(self, done: Done) -> None:
        self._desk.carry_out(self._request, partial(self._answered, done))

    def _answered(self, done: Done, replies: Sequence[CommandReply], error: Exception | None) -> None:
        self.replies = replies
        done(error)
