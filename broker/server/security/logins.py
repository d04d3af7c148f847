"""The logins of a line: its CONNECTs, one at a time, and the proof by which its conversations live (security 4).

A CONNECT that brings no proof of its own is of the user who has logged in on the line before. One that has to be
verified is answered later, and may be cancelled meanwhile; those behind it wait.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import anyio

from broker.engine.mistakes import mistake
from broker.engine.security.login import LoginRequest
from broker.interface.answers import Connected
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from broker.engine.security.login import Login, LoginProof
    from broker.interface.port import Call
    from broker.mqi.security_parameters import SecurityParameters
    from broker.server.session import Session


class Connecting(NamedTuple):
    """A CONNECT: the number of its conversation, and what it brings."""

    call: Call[Connected]
    conversation: int
    appl_name: str
    user: str
    security: SecurityParameters


class Logins:
    """The logins of one line. `channel` is the one by which it came in, empty before and where channels do not count:
    on a trusted line, and on a Unix socket.
    """

    def __init__(self, session: Session) -> None:
        self.channel = ""
        self.proof: LoginProof | None = None
        self._session = session
        self._manager = session.manager
        self._waiting: deque[Connecting] = deque()
        self.busy = False  # with one that has to be verified
        self._scope = anyio.CancelScope()

    @property
    def trusted(self) -> bool:
        """True if its program is believed all it says."""
        return self.proof is not None and self.proof.login.trusted

    def connect(self, connecting: Connecting) -> None:
        """Answer a CONNECT, now or later."""
        if self.busy:
            self._waiting.append(connecting)
        else:
            self._begin(connecting)

    def end(self) -> None:
        """The line is gone."""
        self.proof = None
        self._waiting.clear()
        self._scope.cancel()

    def _begin(self, connecting: Connecting) -> None:
        try:
            if self._inherits(connecting):
                self._converse(connecting, self.proof)
                return
            request = self._request(connecting)
            login = self._manager.authentication.admit_at_once(request)
            if login is not None:
                self._let_in(connecting, request, login)
            else:
                self.busy = True
                self._manager.start_soon(self._verify, connecting, request)
        except Exception as error:
            self._fail(connecting, error)

    async def _verify(self, connecting: Connecting, request: LoginRequest) -> None:
        """Find out who it is; for nobody, when its program has gone away."""
        connecting.call.add_done_callback(lambda call: self._scope.cancel() if call.cancelled() else None)
        with self._scope:
            try:
                login = await self._manager.authentication.admit(request)
                if not self._session.transport.is_closing():  # its end may have come in this turn of the loop
                    self._let_in(connecting, request, login)
            except Exception as error:
                self._fail(connecting, error)
        self.busy = False
        if self._session.newcomer is not None:
            self._session.newcomer.login_over()
        if self._session.transport.is_closing():
            return
        self._scope = anyio.CancelScope()
        while self._waiting and not self.busy:
            following = self._waiting.popleft()
            if not following.call.done():
                self._begin(following)

    def _request(self, connecting: Connecting) -> LoginRequest:
        line, security = self._session.line, connecting.security
        channel = security.channel
        return LoginRequest(
            channel=channel,
            address=line.address,
            user=connecting.user,
            appl_name=connecting.appl_name,
            kind=security.kind,
            secret=security.secret,
            certificate=line.certificate,
            protocol=line.protocol,
            cipher=line.cipher,
            uid=line.uid,
            unavailable=partial(self._unavailable, channel),
        )

    def _unavailable(self, channel: str) -> str:
        """Return why the channel takes this line no more; nothing where the line ends, on which nobody comes in."""
        session = self._session
        return "" if session.transport.is_closing() else session.channel_lines.unavailable(session, channel)

    def _inherits(self, connecting: Connecting) -> bool:
        """True if it is of the user who has logged in before, by the same channel."""
        proof, security = self.proof, connecting.security
        return (
            proof is not None
            and not proof.over
            and not proof.login.trusted
            and security.kind == CredentialKind.NONE
            and security.channel in ("", self.channel)
        )

    def _let_in(self, connecting: Connecting, request: LoginRequest, login: Login) -> None:
        """Begin a conversation by a login; no await stands between that and the last look at its user."""
        authentication = self._manager.authentication
        proof = self.proof
        if proof is None or proof.over or not _same(proof.login, login) or login.trusted:
            proof = authentication.proof_of(login, request.appl_name, request)
        else:  # a fresh proof of the same user is one for all that live by it
            authentication.proofs.renew(proof, login)
        if not (login.trusted or request.local):
            self._session.channel_lines.begin(self._session, request.channel)
        self._converse(connecting, proof)
        if self.proof is None or self.proof.over or login.trusted:
            self.proof = proof
        self._session.limit_rate()

    def _converse(self, connecting: Connecting, proof: LoginProof | None) -> None:
        session, calls = self._session, self._session.calls
        channel = self._manager.authentication.channel(self.channel) if self.channel else None
        if channel is not None and calls.sharing >= max(channel.shared_conversations, 1):
            raise MQError(
                MQRC.MAX_CONNS_LIMIT_REACHED,
                f"{calls.sharing} conversations share this line, SHARECNV of {self.channel}: dial another",
            )
        assert proof is not None
        port = self._manager.converse(
            appl_name=connecting.appl_name, user=proof.login.user, channel=session.peer, room=session.flow, proof=proof
        )
        port.process = session.process
        if channel is not None:
            port.hconn.limits = port.hconn.limits._replace(max_length=channel.max_length)
        calls.begin(connecting.conversation, port)
        left = self._manager.authentication.proofs.seconds_left(proof.login)
        connecting.call.set_result(Connected(self._manager.name, left, self._manager.core.instance))
        if session.newcomer is not None:
            session.newcomer.logged_in()

    def _fail(self, connecting: Connecting, error: Exception) -> None:
        if connecting.call.done():
            return
        if not isinstance(error, MQError):
            error = mistake(error, "CONNECT")
        connecting.call.set_exception(error.with_traceback(None))
        if self._session.newcomer is not None and error.reason == MQRC.NOT_AUTHORIZED:
            self._session.newcomer.login_failed()


def _same(one: Login, other: Login) -> bool:
    return (one.user, one.owner) == (other.user, other.owner)
