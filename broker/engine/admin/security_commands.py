"""START and STOP CHANNEL, REFRESH SECURITY, DISPLAY ENTAUTH: what is asked of the judge and of channels that run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from broker.commands import errors
from broker.commands.display import layout
from broker.commands.inquiry import display_checked
from broker.commands.requests import (
    EntityRightsRequest,
    RefreshSecurityRequest,
    RunCheckRequest,
    StartChannelRequest,
    StopChannelRequest,
)
from broker.commands.table.authority_records import ENTITY_TYPES, RightSet
from broker.commands.table.channels import CHANNEL_TYPES
from broker.core.explain.accessing import AskedLine, explain_connect, rule_for
from broker.core.names.definitions import SECURITY_SPACES, single_changes
from broker.core.security import distinguished_names
from broker.core.security.facts import SELF, SERVER_CONNECTION, Principal
from broker.core.security.partner import Posture
from broker.core.security.rights import Q_MGR, TYPE_WORDS, Right, all_of
from broker.mqi.replies import CommandReply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from broker.commands.catalog import Catalog
    from broker.commands.requests import SecurityRequest
    from broker.core.names.definitions import Change
    from broker.core.names.objects import Objects
    from broker.core.security.distinguished_names import Name

_CHANNEL_WORDS: Final = {number: word for word, number in CHANNEL_TYPES.items()}
_ENTITY_WORDS: Final = {number: word for word, number in ENTITY_TYPES.items()}

_OF_Q_MGR: Final = re.compile(r"\b(?:CONNAUTH|CHLAUTH|AUTHOREV|CHLEV|SSLEV|IGQAUT|IGQUSER)\b", re.IGNORECASE)


def changes_security(changes: Iterable[Change], text: str) -> bool:
    """True if one of the changes that a command makes is about users, their rights, or who comes in."""
    spaces = {each.space for change in changes for each in single_changes(change)}
    return not spaces.isdisjoint(SECURITY_SPACES) or ("QMGR" in spaces and _OF_Q_MGR.search(text) is not None)


class SecurityCommands:
    """Carries out requests about security. `followers` are called with each that was accepted: a server ends the lines
    of a channel that is stopped, and loads its certificates anew.
    """

    def __init__(self, objects: Objects, catalog: Catalog) -> None:
        self._objects = objects
        self._catalog = catalog
        self.followers: list[Callable[[SecurityRequest], None]] = []

    def carry_out(self, request: SecurityRequest) -> CommandReply:
        """The reply to a request. Raises CommandError."""
        match request:
            case StartChannelRequest(name):
                self._check_channel(name, "START")
                self._objects.stopped_channels.discard(name)
                reply = _reply("AMQ8018I", "Start IBM MQ channel accepted")
            case StopChannelRequest(name):
                self._check_channel(name, "STOP")
                if request.status == "STOPPED" and not request.address:
                    self._objects.stopped_channels.add(name)
                reply = _reply("AMQ8019I", "Stop IBM MQ channel accepted")
            case RefreshSecurityRequest():
                self._objects.authority.refresh()
                reply = _reply("AMQ8560I", "IBM MQ security cache refreshed")
            case EntityRightsRequest():
                return self._rights(request)
            case RunCheckRequest():
                return self._run_check(request)
        for follow in self.followers:
            follow(request)
        return reply

    def _check_channel(self, name: str, verb: str) -> None:
        """Refuse a channel that is not there, and one by which nothing runs."""
        channel = self._objects.holding("CHANNEL", name)
        if channel is None:
            raise errors.not_found(name)
        type = int(channel.attributes["CHLTYPE"])
        if type != SERVER_CONNECTION:
            raise errors.not_supported(f"{verb} CHANNEL of CHLTYPE({_CHANNEL_WORDS[type]})")

    def _run_check(self, request: RunCheckRequest) -> CommandReply:
        """The record that counts for a client, and why it is let in or not, as `evermq explain connect` tells it."""
        names = (_name("SSLPEER", request.peer), _name("SSLCERTI", request.issuer))
        line = AskedLine(request.client_user, request.address, request.channel, *names)
        posture = Posture.of(self._objects.definition.attributes, trusts=False)
        found = explain_connect(self._objects, posture, line)
        lines = [*map(str, found.steps), *found.grant.splitlines()]
        return display_checked(rule_for(self._objects, posture, line), lines, self._catalog)

    def _rights(self, request: EntityRightsRequest) -> CommandReply:
        """The rights of an entity by all records that count for it."""
        (kind, entity), type, name = request.entity, request.object_type, request.name
        if type == Q_MGR and name not in (SELF, self._objects.definition.name):
            raise errors.not_found(name)
        name = SELF if type == Q_MGR else name
        authority = self._objects.authority.judge_of(type, name)
        if kind is Principal.USER:
            rights = authority.rights(entity, type, name)
            if authority.is_administrator(entity):
                rights = all_of(type) | Right.CRT
        else:
            record = authority.record_for(kind, entity, type, name)
            rights = Right.NONE if record is None else record.rights
        shown: dict[str, int | str | bool] = {
            "OBJNAME": self._objects.definition.name if type == Q_MGR else name,
            "ENTITY": entity,
            "ENTTYPE": _ENTITY_WORDS[kind],
            "OBJTYPE": TYPE_WORDS[type],
            "AUTHLIST": RightSet().plain(int(rights)),
        }
        text = layout(
            "AMQ8866I: Display entity authority details.", (f"{key}({value})" for key, value in shown.items())
        )
        return CommandReply(code="AMQ8866I", text=text, attributes=(shown,))


def _name(keyword: str, text: str) -> Name:
    try:
        return distinguished_names.parse(text)
    except ValueError:
        raise errors.bad_value(
            keyword, text, "with MATCH(RUNCHECK) a distinguished name, as CN=app1, O=Example"
        ) from None


def _reply(code: str, what: str) -> CommandReply:
    return CommandReply(code=code, text=f"{code}: {what}.")
