"""The security log, and the events that go with it: who came in, who was refused and by which rule, who changed what
(security 9.2).

A line begins with a word that stays the same, its `event`. Of one origin there are ten lines a second at most; what is
left out is counted. No line, and no event message, has a secret.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from broker.commands.errors import without_secrets
from broker.commands.judging import COMMAND_STEP
from broker.core.security.authority import NotAuthorizedError
from broker.core.security.caller import Caller
from broker.log_rate import LogRate

if TYPE_CHECKING:
    from collections.abc import Callable

    from broker.clock import Clock
    from broker.core.manager import Manager
    from broker.core.queues.handles import Hconn
    from broker.core.security.admission import Admission
    from broker.core.security.partner import Partner
    from broker.mqi.errors import MQError

_COMMAND_MAX: Final = 1024

logger = logging.getLogger(__name__)


class SecurityLog:
    """The security log of a queue manager. `perform` has the events put that a step of the core has left."""

    def __init__(self, core: Manager, clock: Clock, perform: Callable[[], None]) -> None:
        self._core = core
        self._clock = clock
        self._perform = perform
        self._rate = LogRate()
        self.refused: dict[str, int] = {}
        """Connections that were refused, by the reason in a word."""

    # Calls and commands

    def failed(self, error: MQError) -> None:
        """A call has failed, perhaps because it was refused."""
        if isinstance(error, NotAuthorizedError):
            self.not_authorized(error)

    def not_authorized(self, error: NotAuthorizedError) -> None:
        """A call was refused. Of a command that was that is told already."""
        if error.step == COMMAND_STEP:
            return
        self._refused(error)
        if error.call is not None:
            self._core.events.call_refused(error.user, error.call, self._clock.time())
            self._perform()

    def refused_in_list(self, hconn: Hconn) -> None:
        """Destinations of a distribution list were refused."""
        refused, hconn.refused = hconn.refused, ()
        for error in refused:
            self.not_authorized(error)

    def connecting(self, user: str, appl_name: str) -> Caller:
        """The caller of a new connection as this user. Raises NOT_AUTHORIZED (2035)."""
        try:
            return Caller.connecting(self._core.objects.authority, user)
        except NotAuthorizedError as error:
            self.count_refused("authority")
            self._refused(error, application=appl_name)
            self._core.events.connect_refused(user, appl_name, self._clock.time())
            self._perform()
            raise

    def command_refused(self, error: NotAuthorizedError, command: int, user: str = "") -> None:
        """A command of a user was refused: its number is that of `broker.commands.language.numbers`."""
        error.step = COMMAND_STEP
        self._refused(error, user)
        self._core.events.command_refused(error.user or user, command, self._clock.time())
        self._perform()

    def security_changed(self, user: str, command: str) -> None:
        """A command about security has done its work."""
        shown = without_secrets(command)[:_COMMAND_MAX]
        logger.info("security_changed user=%s command=%s", user, shown)

    def _refused(self, error: NotAuthorizedError, user: str = "", application: str = "") -> None:
        whose = error.user or user
        if self.allows("not_authorized", whose):
            application = application if error.call is None else error.call.appl_name
            logger.info(
                "not_authorized user=%s application=%s step=%s rule=%s", whose, application, error.step, error.rule,
            )  # fmt: skip

    # Connections

    def count_refused(self, reason: str) -> None:
        """Count a connection that is refused."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def connected(self, user: str, partner: Partner, appl_name: str) -> None:
        """A partner is in, as this user."""
        if self.allows("connected", partner.address):
            logger.info(
                "connected user=%s application=%s channel=%s peer=%s proof=%s", user, appl_name, partner.channel,
                partner.address or "local", partner.proof.name.lower(),
            )  # fmt: skip

    def connection_refused(self, admission: Admission, partner: Partner, appl_name: str = "") -> None:
        """A partner is not let in: the last step of its admission says by which rule."""
        step = admission.steps[-1]
        lacking = "" if admission.lacking is None else admission.lacking.value[0]
        self.count_refused(lacking or "rule")
        if self.allows("connection_refused", partner.address):
            logger.info(
                "connection_refused user=%s application=%s channel=%s peer=%s step=%s rule=%s",
                admission.user or partner.user, appl_name, partner.channel, partner.address or "local", lacking,
                str(step),
            )  # fmt: skip
        self._core.events.connection_refused(admission, partner, appl_name, self._clock.time())
        self._perform()

    def token_refused(self, address: str, why: str) -> None:
        """A token says nothing here."""
        if self.allows("connection_refused", address):
            logger.info("connection_refused peer=%s step=token rule=%s", address or "local", why)

    def connection_warned(self, admission: Admission, partner: Partner, appl_name: str = "") -> None:
        """A partner is let in by rules that only warn."""
        self._core.events.connection_warned(admission, partner, appl_name, self._clock.time())
        self._perform()

    def line_refused(self, address: str, why: str) -> None:
        """A line was ended before anybody had logged in on it."""
        self.count_refused("line")
        self._line_ended(address, why)

    def _line_ended(self, address: str, why: str) -> None:
        if self.allows("connection_refused", address):
            logger.info("connection_refused peer=%s: %s", address or "local", why)

    def handshake_failed(self, address: str, why: str) -> None:
        """A handshake with TLS came to nothing."""
        self.count_refused("handshake")
        self._line_ended(address, f"no TLS handshake: {why}")
        self._core.events.handshake_failed(address, why, self._clock.time())
        self._perform()

    def credential_expired(self, user: str, channel: str, address: str) -> None:
        """The token or certificate of a conversation has ended, and the conversation with it."""
        logger.info(
            "credential_expired user=%s channel=%s peer=%s", user, channel, address or "local",
        )  # fmt: skip

    def allows(self, event: str, origin: str) -> bool:
        """True if a line about this origin may be written now. It begins with how many were not."""
        if not self._rate.allows(origin, self._clock.monotonic()):
            return False
        if left_out := self._rate.collect():
            logger.info("lines_left_out after=%s lines=%d", event, left_out)
        return True
