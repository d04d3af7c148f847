"""Connection authentication: who a program is, found alike for all doors, and what ends when that changes (security 4).

1. A program that wants to come in is looked at before anything of it is verified, and again behind that: no await
   stands between the last look and the answer.
2. Every refusal for what somebody is, or proves, is NOT_AUTHORIZED (2035), "not authorized"; the log has the step that
   refused it, and the rule. One that has brought a secret hears of it late.
3. When a user is deleted or disabled its conversations are over before that is answered. A new password ends none.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio

from broker.core.names.definitions import Delete, single_changes
from broker.core.security.admission import Lacking, admit, is_trusted
from broker.core.security.authority import NotAuthorizedError
from broker.core.security.channel_rules import address_block
from broker.core.security.distinguished_names import of_certificate
from broker.core.security.partner import DEFAULT_CHANNEL, Partner, Posture, Proof
from broker.core.security.rights import Right
from broker.engine.security.credentials import Credentials
from broker.engine.security.delays import FailedLogins
from broker.engine.security.login import Login, LoginProof, LoginRequest
from broker.engine.security.peer_names import PeerNames, owns_process
from broker.engine.security.proofs import Proofs
from broker.engine.security.rates import UserRate, UserRates
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC
from broker.mqi.security_parameters import CredentialKind

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping

    from broker.clock import Clock
    from broker.config import Config
    from broker.core.manager import Manager
    from broker.core.names.definitions import Change
    from broker.core.security.admission import Admission
    from broker.core.security.facts import Channel, User
    from broker.engine.admin.security_log import SecurityLog
    from broker.engine.security.login import LoggedIn
    from broker.interface.port import Call

logger = logging.getLogger(__name__)

_GIVEN = {CredentialKind.PASSWORD: Proof.PASSWORD_GIVEN, CredentialKind.TOKEN: Proof.TOKEN_GIVEN}
TRUST_ENDED = "the queue manager checks its users from now on: log in"


class Authentication:
    """Lets users in, and out, and tells `log` of it. `followers` are called when the queue manager trusts its own
    machine no more, `user_followers` with the name of each user that is defined, changed or deleted. Raises what
    `tokens_of` does.
    """

    def __init__(
        self,
        config: Config,
        core: Manager,
        clock: Clock,
        conversations: Iterable[LoggedIn],
        change: Callable[[Coroutine[Any, Any, int], Call[int]], None],
        log: SecurityLog,
    ) -> None:
        self.proofs = Proofs(clock, self._expired)
        self.rates = UserRates()
        self.peers = PeerNames()
        self.followers: list[Callable[[], None]] = []
        self.user_followers: list[Callable[[str], None]] = []
        self.config = config
        self._core = core
        self._authority = core.objects.authority
        self._clock = clock
        self._conversations = conversations
        self._failed = FailedLogins()
        self.log = log
        self.credentials = Credentials(config, core, clock, change, log)
        self._scope = anyio.CancelScope()
        self._given: WeakSet[LoginProof] = WeakSet()
        self._trusted = self.trusts

    async def run(self) -> None:
        """Keep the keys of tokens fresh, until the end."""
        with self._scope:
            await self.credentials.run()

    def end(self) -> None:
        """Nobody comes in any more."""
        self._scope.cancel()
        self.proofs.end()
        self.credentials.end()

    # Posture (security 1)

    @property
    def trusts(self) -> bool:
        """True if programs of this machine are believed all they say."""
        loopback = self.config.security.loopback
        return loopback == "trust" or (loopback == "auto" and not (self._core.checked or self._authority.users))

    def figures(self) -> Mapping[str, int]:
        """Return the figures of what is verified; none where programs are believed."""
        return {} if self.trusts else self.credentials.figures()

    @property
    def can_authenticate(self) -> bool:
        """True if somebody can prove to be a user: by a password, a certificate or a token."""
        by_password = any(user.enabled and user.password for user in self._authority.users.values())
        return by_password or self.config.tls.ca is not None or self.credentials.takes_tokens

    def blocks(self, address: str) -> bool:
        """True if nobody may come from an address at all."""
        found = address_block(self._authority.rules, address)
        return found is not None and not found[0].warns and self.posture().rules

    def posture(self) -> Posture:
        """The settings of the queue manager about who comes in, as they are now."""
        return Posture.of(self._core.objects.definition.attributes, trusts=self.trusts)

    # Channels

    def channel(self, name: str) -> Channel | None:
        """The channel of this name, the default one for none."""
        return self._authority.channels.get(name or DEFAULT_CHANNEL)

    def lowest_heartbeat(self) -> float:
        """The lowest HBINT of the channels by which clients come, in seconds; infinity where none has one."""
        channels = self._authority.channels.values()
        return min((each.heartbeat for each in channels if each.serves_clients and each.heartbeat), default=inf)

    # Logins (security 4)

    def admit_at_once(self, request: LoginRequest) -> Login | None:
        """The login of a program about which nothing has to be found out first, None of others, which `admit` lets in.
        Raises what it does.
        """
        peer = self._known_peer(request)
        if peer is None:
            return None
        partner = self._partner(request, peer)
        admission = admit(self._authority, partner, self._posture_for(request))
        return None if admission.verify else self._let_in(request, partner, admission)

    async def admit(self, request: LoginRequest) -> Login:
        """The login of a program. Raises NOT_AUTHORIZED (2035), UNKNOWN_CHANNEL_NAME (2540), CHANNEL_CONFIG_ERROR
        (2539), CHANNEL_NOT_AVAILABLE (2537), SSL_INITIALIZATION_ERROR (2393), SSL_PEER_NAME_ERROR (2399).
        """
        peer = self._known_peer(request)
        if peer is None:
            assert request.uid is not None
            peer = await self.peers.look_up(request.uid)
        partner = self._partner(request, peer)
        admission = admit(self._authority, partner, self._posture_for(request))
        if not admission.verify:
            return self._let_in(request, partner, admission)
        outcome = await self.credentials.verified(request)
        partner = self._partner(request, peer)._replace(user=outcome.user, proof=outcome.proof)
        admission = admit(self._authority, partner, self._posture_for(request))
        try:
            return self._let_in(request, partner, admission, outcome.ends)
        except MQError:
            delay = self._failed.failed(request.address, request.user, self._clock.monotonic(), self._fail_delay())
            await self._clock.sleep(delay)
            raise

    def proof_of(self, user: str | Login, appl_name: str, request: LoginRequest | None = None) -> LoginProof:
        """The proof of a new connection of a program, judged as a user, or that of a login. Raises NOT_AUTHORIZED
        (2035) where the user may not connect, and for a login that has ended or whose user has changed.
        """
        login = Login(user) if isinstance(user, str) else user
        caller = None
        if not login.owner:
            if not self.holds(login):
                rule = f"that of {login.user} has ended, or the user has changed since"
                raise self._refused("login", rule)
            caller = self.log.connecting(login.user, appl_name)
        proof = LoginProof(login, caller, request and replace(request, secret=b""))  # which nobody keeps
        self._given.add(proof)
        self.proofs.watch(proof)
        return proof

    def holds(self, login: Login) -> bool:
        """True while a login has not ended, and its user has the password, the status and the groups that it had."""
        return login.ends > self._clock.time() and login.stamp in ("", self.stamp_of(login.user))

    def rate_of(self, proof: LoginProof) -> UserRate | None:
        """The rate of a user of whom its lines may send only so much a second; None of others."""
        user = None if proof.caller is None else self._authority.users.get(proof.caller.user)
        return None if user is None else self.rates.of(user)

    def settle_in(self, conversation: LoggedIn, proof: LoginProof | None, like: LoggedIn | None) -> None:
        """A conversation begins to live by a proof, its own or that of the one that it is `like`. Raises
        MAX_CONNS_LIMIT_REACHED (2025) where its user has as many connections as it may, NOT_AUTHORIZED (2035) where it
        may not connect any more.
        """
        if like is not None:
            proof, conversation.hconn.limits = like.proof, like.hconn.limits
        if proof is None:
            return
        caller = proof.caller
        if caller is not None:
            caller.require_manager(Right.CONNECT)
        user = None if caller is None else self._authority.users.get(caller.user)
        if user is not None:
            self._check_room(user, conversation)
            if user.max_unit_bytes:
                conversation.hconn.limits = conversation.hconn.limits._replace(unit_bytes=user.max_unit_bytes)
        conversation.hconn.caller = caller
        conversation.proof = proof
        proof.conversations[conversation] = None

    def _check_room(self, user: User, conversation: LoggedIn) -> None:
        if user.max_connections and not conversation.of_delivery:
            own = sum(1 for each in self._of(user.name) if not each.of_delivery)
            if own >= user.max_connections:
                raise MQError(MQRC.MAX_CONNS_LIMIT_REACHED, f"{user.name} has {own} connections, its MAXCONNS")

    async def renew(self, proof: LoginProof | None, kind: int, secret: bytes) -> float:
        """Let a fresh proof of the same user take the place of one that ends; the seconds until it does."""
        request = None if proof is None else proof.request
        if proof is None or request is None:
            raise self._refused("renewal", "the program has proved nothing before")
        login = await self.admit(replace(request, kind=kind, secret=secret))
        try:
            return self.proofs.renew(proof, login)
        except NotAuthorizedError as error:
            self.log.not_authorized(error)
            raise

    def _known_peer(self, request: LoginRequest) -> str | None:
        """The name of the user at the other end, None if it is not known yet; of nobody where nobody asks for it."""
        return "" if request.uid is None or self.trusts else self.peers.known(request.uid)

    def _posture_for(self, request: LoginRequest) -> Posture:
        """The settings by which a program comes in: whom its door does not trust has to prove who it is."""
        posture = self.posture()
        return posture._replace(trusts=False) if request.must_prove else posture

    def _partner(self, request: LoginRequest, peer: str) -> Partner:
        channel, certificate = request.channel or DEFAULT_CHANNEL, request.certificate
        stopped = channel in self._core.objects.stopped_channels
        return Partner(
            channel=channel,
            address=request.address,
            user=request.user,
            proof=_GIVEN.get(CredentialKind(request.kind), Proof.NONE),
            asserted=request.user,
            subject=() if certificate is None else of_certificate([certificate.subject], certificate.serial),
            issuer=() if certificate is None else of_certificate([certificate.issuer]),
            protocol=request.protocol,
            suite=request.cipher,
            local=request.local,
            peer=peer,
            owner=request.uid is not None and owns_process(request.uid),
            unavailable="it is stopped" if stopped else request.unavailable(),
        )

    def _let_in(self, request: LoginRequest, partner: Partner, admission: Admission, ends: float = inf) -> Login:
        """The login of an admission, or its refusal."""
        if admission.lacking is not None:
            self.log.connection_refused(admission, partner, request.appl_name)
            (step, reason), last = admission.lacking.value, admission.steps[-1]
            if reason == MQRC.NOT_AUTHORIZED:
                raise NotAuthorizedError(step, last.rule)
            raise MQError(reason, f"{last.rule}: {last.verdict}")
        user, certificate = admission.user, request.certificate
        trusted = is_trusted(partner, self._posture_for(request))
        owner = admission.administrator and (trusted or not self._authority.is_administrator(user))
        ends = ends if certificate is None else min(ends, certificate.ends)
        if ends <= self._clock.time():
            raise self._refused(Lacking.CREDENTIAL.value[0], "it has ended")
        if admission.warned:
            self.log.connection_warned(admission, partner, request.appl_name)
        self.log.connected(user, partner, request.appl_name)
        return Login(user, ends, self.stamp_of(user), owner, trusted)

    def _refused(self, step: str, rule: str) -> NotAuthorizedError:
        """Log a refusal, and return its error."""
        error = NotAuthorizedError(step, rule)
        self.log.not_authorized(error)
        return error

    def _expired(self, proof: LoginProof) -> None:
        """A proof has ended, and its conversations with it."""
        request = proof.request
        if request is not None:
            self.log.credential_expired(proof.login.user, request.channel or DEFAULT_CHANNEL, request.address)

    def _fail_delay(self) -> float:
        checker = self._authority.auth_infos.get(self.posture().conn_auth.strip())
        return 1.0 if checker is None else float(checker.fail_delay)

    def stamp_of(self, name: str) -> str:
        """Return a text that changes with the password, the status and the groups of a user."""
        return _stamp(name, self._authority.users.get(name))

    # Changes of users

    def changed(self, change: Change) -> None:
        """A change of definitions has taken effect, and is not answered yet."""
        for each in single_changes(change):
            if each.space == "USER":
                self._user_changed(each.name, deleted=isinstance(each, Delete))
        trusted, self._trusted = self._trusted, self.trusts
        if trusted and not self._trusted:
            logger.warning("security_changed: programs of this machine are not trusted any more")
            for follow in self.followers:
                follow()

    def _user_changed(self, name: str, *, deleted: bool) -> None:
        user = self._authority.users.get(name)
        if deleted:
            self.rates.forget(name)
        elif user is not None:
            self.rates.of(user)
        for follow in self.user_followers:
            follow(name)
        if user is None or not user.enabled:
            for proof in self._given:
                proof.over = proof.over or proof.login.user == name
            for conversation in list(self._of(name)):
                conversation.expel(f"{name} is {'no user any more' if user is None else 'disabled'}")

    def _of(self, user: str) -> Iterator[LoggedIn]:
        """The conversations of a user."""
        for conversation in self._conversations:
            caller = conversation.hconn.caller
            if caller is not None and caller.user == user:
                yield conversation


@lru_cache(maxsize=1024)  # asked for at each request of HTTP
def _stamp(name: str, user: User | None) -> str:
    about = (name,) if user is None else (name, user.password, str(user.enabled), *sorted(user.groups))
    return sha256("\0".join(about).encode()).hexdigest()[:32]
