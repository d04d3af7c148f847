"""Events about who was refused: authority events, and those of channels and of TLS (security 9.2).

AUTHOREV of the queue manager lets NOT_AUTHORIZED tell of a connection (type 1), of an open or MQPUT1 (2), of a close
that deletes (3) and of a command (4). CHLEV tells of what a rule of channels blocks or only warns of, SSLEV of a line
whose transport or certificate its channel does not take. The fields are those that IBM documents, in its order, but for
those about other queue managers and exits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.core.events import (
    NAME_SIZE,
    Q_MGR_EVENT,
    QUEUE_MANAGER_QUEUE,
    Events,
    integer_parameter,
    program_parameters,
    string_parameter,
)
from broker.core.security.admission import Lacking
from broker.core.security.distinguished_names import written
from broker.core.security.facts import RuleType
from broker.mqi.constants.attributes import MQCA
from broker.mqi.constants.descriptor import MQAT
from broker.mqi.constants.objects import MQOT
from broker.mqi.names import CHANNEL_NAME_LENGTH
from broker.mqi.reasons import MQRC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from broker.core.identifiers import Identifiers
    from broker.core.names.definitions import Definition
    from broker.core.queues.effects import Effects
    from broker.core.security.admission import Admission
    from broker.core.security.authority import RefusedCall
    from broker.core.security.facts import Rule
    from broker.core.security.partner import Partner

CHANNEL_QUEUE: Final = "SYSTEM.ADMIN.CHANNEL.EVENT"

_CHANNEL_EVENT: Final = 46  # MQCMD
_REASON_QUALIFIER, _COMMAND, _OPEN_OPTIONS, _SSL_RETURN_CODE = 1020, 1021, 1022, 1533  # MQIACF, MQIACH
_OBJECT_Q_MGR_NAME, _USER_IDENTIFIER = 3023, 3025  # MQCACF
_CHANNEL_NAME, _CONNECTION_NAME, _SSL_PEER_NAME, _SSL_HANDSHAKE_STAGE, _CLIENT_USER_ID = 3501, 3506, 3545, 3546, 3567
_CONN_NOT_AUTHORIZED, _OPEN_NOT_AUTHORIZED, _CLOSE_NOT_AUTHORIZED, _CMD_NOT_AUTHORIZED = 1, 2, 3, 4  # MQRQ
_SSL_HANDSHAKE_ERROR, _SSL_CIPHER_SPEC_ERROR, _SSL_CLIENT_AUTH_ERROR, _SSL_PEER_NAME_ERROR = 13, 14, 15, 16
_BLOCKED_ADDRESS, _BLOCKED_USER, _BLOCKED_NO_ACCESS = 21, 22, 23

_USER_SIZE: Final = 12
_CONNECTION_NAME_SIZE: Final = 264
_STAGE_SIZE: Final = 32
_PEER_NAME_MAX: Final = 1024

_NAMES: Final = {MQOT.Q.value: MQCA.Q_NAME, MQOT.PROCESS.value: MQCA.PROCESS_NAME}
"""The parameter that names an object, by its type; the queue manager's own name is in each event."""

_QUALIFIERS: Final = {RuleType.BLOCKADDR: _BLOCKED_ADDRESS, RuleType.BLOCKUSER: _BLOCKED_USER}
_BLOCKED: Final = frozenset({Lacking.ADDRESS, Lacking.ACCESS, Lacking.BLOCKED})
_OF_TLS: Final = frozenset({Lacking.TRANSPORT, Lacking.CERTIFICATE})


class SecurityEvents(Events):
    """The events of a queue manager, those about who was refused too. Each is for nobody unless its switch is on."""

    def __init__(self, ids: Identifiers, effects: Effects) -> None:
        super().__init__(ids, effects)
        self._authority = self._channel = self._ssl = False

    def configure(self, definition: Definition) -> None:
        """Take over AUTHOREV, CHLEV and SSLEV too."""
        super().configure(definition)
        switches = definition.attributes
        self._authority, self._channel = bool(switches["AUTHOREV"]), bool(switches["CHLEV"])
        self._ssl = bool(switches["SSLEV"])

    # Authority

    def call_refused(self, user: str, call: RefusedCall, now: float) -> None:
        """A user may not open an object so (type 2), or delete a queue by closing it (type 3)."""
        closes = call.step == "close"
        parameter = _NAMES.get(call.object_type)
        name = () if parameter is None else (string_parameter(parameter, call.name, NAME_SIZE),)
        whose = (
            string_parameter(_USER_IDENTIFIER, user, _USER_SIZE),
            *program_parameters(call.appl_type, call.appl_name),
        )
        elsewhere = call.q_mgr_name not in ("", self._ids.q_mgr_name)
        at = (string_parameter(_OBJECT_Q_MGR_NAME, call.q_mgr_name, NAME_SIZE),) if elsewhere else ()
        if closes:
            self._tell_authority(_CLOSE_NOT_AUTHORIZED, (*name, *whose), now)
        else:
            options = integer_parameter(_OPEN_OPTIONS, call.options)
            self._tell_authority(_OPEN_NOT_AUTHORIZED, (options, *whose, *at, *name), now)

    def command_refused(self, user: str, command: int, now: float) -> None:
        """A user may not run a command (type 4), which is told by its number (MQCMD)."""
        parameters = (integer_parameter(_COMMAND, command), string_parameter(_USER_IDENTIFIER, user, _USER_SIZE))
        self._tell_authority(_CMD_NOT_AUTHORIZED, parameters, now)

    def connection_refused(self, admission: Admission, partner: Partner, appl_name: str, now: float) -> None:
        """A partner is not let in: a channel event, one of TLS, or NOT_AUTHORIZED (type 1), by the step that refused
        it. A channel that is unknown or not available is no event.
        """
        lacking = admission.lacking
        if lacking in _BLOCKED and admission.rule is not None:
            self._blocked(MQRC.CHANNEL_BLOCKED, admission.rule, admission.user, partner, appl_name, now)
        elif lacking in _OF_TLS:
            self._tls(admission, partner, now)
        elif lacking is None or lacking.reason == MQRC.NOT_AUTHORIZED:
            self.connect_refused(admission.user or partner.user, appl_name, now)

    def connect_refused(self, user: str, appl_name: str, now: float) -> None:
        """A user may not connect (type 1)."""
        parameters = (
            string_parameter(_USER_IDENTIFIER, user, _USER_SIZE),
            *program_parameters(MQAT.UNIX.value, appl_name),
        )
        self._tell_authority(_CONN_NOT_AUTHORIZED, parameters, now)

    # Channels

    def connection_warned(self, admission: Admission, partner: Partner, appl_name: str, now: float) -> None:
        """Rules that only warn would have refused a partner."""
        for rule in admission.warned:
            self._blocked(MQRC.CHANNEL_BLOCKED_WARNING, rule, admission.user, partner, appl_name, now)

    def handshake_failed(self, address: str, why: str, now: float) -> None:
        """A handshake with TLS came to nothing."""
        parameters = (
            integer_parameter(_REASON_QUALIFIER, _SSL_HANDSHAKE_ERROR),
            string_parameter(_CONNECTION_NAME, address, _CONNECTION_NAME_SIZE),
            string_parameter(_SSL_HANDSHAKE_STAGE, why, _STAGE_SIZE),
            integer_parameter(_SSL_RETURN_CODE, 0),
        )
        self._tell_tls(parameters, now)

    def _blocked(self, reason: MQRC, rule: Rule, user: str, partner: Partner, appl_name: str, now: float) -> None:
        if not self._channel:
            return
        qualifier = _QUALIFIERS.get(rule.type, _BLOCKED_NO_ACCESS)
        parameters = [integer_parameter(_REASON_QUALIFIER, qualifier)]
        if qualifier != _BLOCKED_ADDRESS:
            parameters.append(string_parameter(_CHANNEL_NAME, partner.channel, CHANNEL_NAME_LENGTH))
        if qualifier == _BLOCKED_USER:
            parameters.append(string_parameter(_USER_IDENTIFIER, user, _USER_SIZE))
        parameters.append(string_parameter(_CONNECTION_NAME, partner.address, _CONNECTION_NAME_SIZE))
        if qualifier == _BLOCKED_NO_ACCESS:
            if partner.subject:
                parameters.append(_peer_name(partner))
            parameters.append(string_parameter(_CLIENT_USER_ID, partner.user or partner.asserted, _USER_SIZE))
        if qualifier != _BLOCKED_ADDRESS:
            parameters += program_parameters(MQAT.UNIX.value, appl_name)
        self._tell_of(CHANNEL_QUEUE, _CHANNEL_EVENT, reason, parameters, now)

    def _tls(self, admission: Admission, partner: Partner, now: float) -> None:
        if partner.subject and admission.lacking is Lacking.CERTIFICATE:
            qualifier = _SSL_PEER_NAME_ERROR
        elif admission.lacking is Lacking.CERTIFICATE or "SSLCAUTH" in admission.steps[-1].rule:
            qualifier = _SSL_CLIENT_AUTH_ERROR
        else:
            qualifier = _SSL_CIPHER_SPEC_ERROR
        parameters = [
            integer_parameter(_REASON_QUALIFIER, qualifier),
            string_parameter(_CHANNEL_NAME, partner.channel, CHANNEL_NAME_LENGTH),
            string_parameter(_CONNECTION_NAME, partner.address, _CONNECTION_NAME_SIZE),
        ]
        if qualifier == _SSL_PEER_NAME_ERROR:
            parameters.append(_peer_name(partner))
        self._tell_tls(parameters, now)

    # Their messages

    def _tell_authority(self, qualifier: int, parameters: Sequence[bytes], now: float) -> None:
        if self._authority:
            qualified = (integer_parameter(_REASON_QUALIFIER, qualifier), *parameters)
            self._tell_of(QUEUE_MANAGER_QUEUE, Q_MGR_EVENT, MQRC.NOT_AUTHORIZED, qualified, now)

    def _tell_tls(self, parameters: Sequence[bytes], now: float) -> None:
        if self._ssl:
            self._tell_of(CHANNEL_QUEUE, _CHANNEL_EVENT, MQRC.CHANNEL_SSL_ERROR, parameters, now)

    def _tell_of(self, q_name: str, command: int, reason: MQRC, parameters: Sequence[bytes], now: float) -> None:
        own = string_parameter(MQCA.Q_MGR_NAME, self._ids.q_mgr_name, NAME_SIZE)
        self._send(q_name, command, reason, (own, *parameters), now)


def _peer_name(partner: Partner) -> bytes:
    name = written(partner.subject)
    size = len(name.encode())
    return string_parameter(_SSL_PEER_NAME, name, min(size + -size % 4, _PEER_NAME_MAX))
