"""The calls that explain: why messages are not delivered, and why a user may do something or not (security 9.1)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from typing import TYPE_CHECKING

from broker.core.explain import accessing
from broker.core.explain.explaining import ExplainSelection, explain
from broker.core.explain.findings import without_programs
from broker.core.security import distinguished_names
from broker.core.security.rights import Right, rights_of
from broker.engine.jobs.awaits import PAUSE
from broker.interface.port import Call
from broker.mqi import checks
from broker.mqi.access import Access, AccessStep, OwnUser
from broker.mqi.errors import MQError
from broker.mqi.explanations import Explanation
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.core.manager import Manager
    from broker.core.names.routes import Route
    from broker.core.queues.handles import Hconn
    from broker.core.security.caller import Caller
    from broker.core.security.distinguished_names import Name
    from broker.engine.calls.call_order import CallOrder
    from broker.engine.context import EngineContext
    from broker.engine.manager import QueueManager
    from broker.mqi.explanations import Finding

_LOOKED_AT_BYTES = 64  # of a message that is explained: where it is found


class ExplainCalls:
    """A part of `Conversation`. Everybody may ask about its own rights, administrators about those of others."""

    manager: QueueManager
    context: EngineContext
    core: Manager
    hconn: Hconn
    call_order: CallOrder

    def explain(
        self, q_name: str, msg_id: bytes | None, correl_id: bytes | None, group_id: bytes | None
    ) -> Call[Explanation]:
        return self.call_order.after_own_writes(Call(), self._explain, q_name, msg_id, correl_id, group_id)

    def own_user(self) -> Call[OwnUser]:
        return self.call_order.after_own_writes(Call(), self._own_user)

    def explain_open(self, name: str, q_mgr_name: str, object_type: int, user: str, rights: str) -> Call[Access]:
        return self.call_order.after_own_writes(
            Call(), self._explain_open, (name, q_mgr_name, object_type), user, rights
        )

    def explain_connect(
        self, user: str, address: str, channel: str, subject: str, issuer: str, plain: bool
    ) -> Call[Access]:
        arguments = (user, address, channel, subject, issuer, plain)
        return self.call_order.after_own_writes(Call(), self._explain_connect, *arguments)

    def _explain(
        self,
        call: Call[Explanation],
        q_name: str,
        msg_id: bytes | None,
        correl_id: bytes | None,
        group_id: bytes | None,
    ) -> None:
        q_name = checks.name(q_name)
        caller = self.hconn.caller
        if caller is not None and not (msg_id is not None and caller.may(Right.BROWSE, q_name)):
            caller.require(Right.DSP, q_name)  # for one message it is enough that its queue may be browsed
        selection = ExplainSelection(
            checks.identifier(msg_id, "msg_id", MQRC.MSG_ID_ERROR),
            checks.identifier(correl_id, "correl_id", MQRC.CORREL_ID_ERROR),
            checks.identifier(group_id, "group_id", MQRC.GROUP_ID_ERROR),
        )
        route = self.core.objects.destination(q_name, "")
        if route.queue.shared:
            member = self.context.member
            explain = partial(member.explaining.explain, route, selection)
            member.answer(self.call_order, call, partial(_shown_to, self.hconn.caller, explain))
            return
        steps = self._explanation(route, selection)
        self.call_order.look(call, steps, _LOOKED_AT_BYTES * len(route.queue.shelf.entries))

    async def _explanation(self, route: Route, selection: ExplainSelection) -> Explanation:
        """Explain why a queue gives a message, or does not."""
        findings: list[Finding] = []
        names = _may_know_programs(self.hconn.caller)
        now = self.context.clock.time()
        largest = self.manager.config.limits.claim_bytes
        for finding in explain(route, route.queue.shelf, selection, now, self.core, largest):
            if finding is not None:
                findings.append(finding if names else without_programs(finding))
            await PAUSE
        return Explanation(q_name=route.queue.name, findings=tuple(findings))

    def _explain_open(self, call: Call[Access], about: tuple[str, str, int], user: str, rights: str) -> None:
        asked = accessing.AskedObject(checks.name(about[0]), checks.name(about[1]), about[2])
        wanted = _rights(rights)
        judged = self._user(user)
        if judged is None:
            call.set_result(_owner(self.hconn.user))
        else:
            call.set_result(accessing.explain_open(self.core.objects, judged, asked, wanted))

    def _explain_connect(
        self, call: Call[Access], user: str, address: str, channel: str, subject: str, issuer: str, plain: bool
    ) -> None:
        judged = self._user(user) or self.hconn.user
        line = accessing.AskedLine(judged, _address(address), channel, _name(subject), _name(issuer), plain)
        posture, tokens = self.manager.authentication.posture(), bool(self.manager.config.tokens.issuer)
        call.set_result(accessing.explain_connect(self.core.objects, posture, line, tokens=tokens))

    def _own_user(self, call: Call[OwnUser]) -> None:
        caller = self.hconn.caller
        if caller is None:
            call.set_result(OwnUser(self.hconn.user, proved=False, administrator=True, stamp=""))  # the owner
            return
        known = self.core.objects.authority.users.get(caller.user)
        groups = () if known is None else tuple(sorted(known.groups))
        stamp = self.manager.authentication.stamp_of(caller.user)
        call.set_result(
            OwnUser(caller.user, proved=True, administrator=caller.administrator, stamp=stamp, groups=groups)
        )

    def _user(self, user: str) -> str | None:
        """The user that is asked about, who is the caller itself where none is named; None for the owner of the queue
        manager. Raises NOT_AUTHORIZED (2035).
        """
        caller = self.hconn.caller
        if caller is not None and user not in ("", caller.user):
            caller.require_administrator()
        return user or (None if caller is None else caller.user)


async def _shown_to(caller: Caller | None, explain: Callable[[], Awaitable[Explanation]]) -> Explanation:
    """An explanation as this user may see it."""
    explanation = await explain()
    if _may_know_programs(caller):
        return explanation
    return replace(explanation, findings=tuple(map(without_programs, explanation.findings)))


def _may_know_programs(caller: Caller | None) -> bool:
    """True if a user may know who else uses the queue manager: DSP on it."""
    return caller is None or caller.may_manager(Right.DSP)


def _owner(user: str) -> Access:
    step = AccessStep("owner", f"user {user}", "allowed: the calls of this connection are not judged")
    return Access(allowed=True, user=user, steps=(step,))


def _rights(text: str) -> Right:
    try:
        return rights_of(text)
    except (AttributeError, ValueError) as error:
        raise MQError(MQRC.OPTIONS_ERROR, f"for_={text!r}: {error}") from None


def _address(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError as error:
        raise MQError(MQRC.OPTIONS_ERROR, f"from_: {error}") from None
    return str(getattr(address, "ipv4_mapped", None) or address)


def _name(text: str) -> Name:
    try:
        return distinguished_names.parse(text)
    except ValueError as error:
        raise MQError(MQRC.SSL_PEER_NAME_ERROR, f"{text!r} is no distinguished name: {error}") from None
