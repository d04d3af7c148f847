"""Commands about who may do what, from their options to requests: authority records, rules of channels, and what is
refreshed, started and stopped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.language.options import ACTIONS, MATCHES, MODES, REFRESHED, RULE_MATCHES, STOPPED
from broker.commands.requests import (
    DeleteRecordsRequest,
    EntityRightsRequest,
    RecordChoice,
    RefreshConfigRequest,
    RefreshSecurityRequest,
    RuleChoice,
    RunCheckRequest,
    SetRecordsRequest,
    SetRuleRequest,
    StartChannelRequest,
    StopChannelRequest,
)
from broker.commands.table.authority_records import CLASS_WORDS, OBJECT_TYPES, PROFILE
from broker.commands.table.channels import CLIENT
from broker.commands.table.dispositions import UNSAID
from broker.core.security.facts import SELF, Principal
from broker.core.security.profiles import CLASS
from broker.core.security.rights import Q_MGR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.commands.requests import DisplayRequest, Entity, Request
    from broker.commands.table.forms import Value
    from broker.core.names.definitions import Attributes

    Options = Mapping[str, Value]


def request_of(verb: str, noun: str, name: str, options: Options, given: Attributes) -> Request | None:
    """The request that these options make; None for a command that is not about security. Raises CommandError."""
    match verb, noun:
        case "SET", "AUTHREC":
            return _set_records(options)
        case "DELETE", "AUTHREC":
            profile, object_type = _subject("DELETE", options)
            return DeleteRecordsRequest(profile, object_type, _entities("DELETE", options), _disposition(options))
        case "SET", "CHLAUTH":
            action = str(ACTIONS.plain(options.get("ACTION", 0)))
            return SetRuleRequest(action, {"CHLAUTH": name, **given}, _disposition(options))
        case "DISPLAY", "ENTAUTH":
            return _entity_rights(options)
        case "REFRESH", "CONFIG":
            return RefreshConfigRequest()
        case "REFRESH", "SECURITY":
            return RefreshSecurityRequest(str(REFRESHED.plain(options.get("TYPE", 0))))
        case "START", "CHANNEL":
            return StartChannelRequest(name)
        case "STOP", "CHANNEL":
            mode, status = MODES.plain(options.get("MODE", 0)), STOPPED.plain(options.get("STATUS", 0))
            return StopChannelRequest(name, str(mode), str(status), str(options.get("CONNAME", "")))
    return None


def chosen(request: DisplayRequest, options: Options) -> Request:
    """A DISPLAY with what its options choose. Raises CommandError."""
    if request.noun == "AUTHREC":
        return replace(request, chosen=_record_choice(options))
    type = int(options.get("TYPE", 0))
    if request.noun == "CHANNEL" and type:
        kind = "CLNTCONN" if type == CLIENT else "CHANNEL"
        return replace(request, kinds=(kind,), types=() if type == CLIENT else (type,))
    request = replace(request, types=(type,) if type else ())
    return request if request.noun != "CHLAUTH" else _rules(request, options)


def _set_records(options: Options) -> SetRecordsRequest:
    profile, object_type = _subject("SET", options)
    added, removed = _words(options, "AUTHADD"), _words(options, "AUTHRMV")
    if not added and not removed:
        raise errors.missing_keyword("SET AUTHREC needs AUTHADD or AUTHRMV")
    entities = _entities("SET", options)
    service, disposition = "SERVCOMP" in options, _disposition(options)
    return SetRecordsRequest(profile, object_type, entities, added, removed, service, disposition)


def _disposition(options: Options) -> int:
    return int(options.get("QSGDISP", UNSAID))


def _words(options: Options, keyword: str) -> tuple[str, ...]:
    return tuple(filter(None, str(options.get(keyword, "")).split(",")))


def _subject(verb: str, options: Options) -> tuple[str, int]:
    """The profile and the type of object that a command is about."""
    if "OBJTYPE" not in options:
        raise errors.missing_keyword(f"{verb} AUTHREC needs OBJTYPE({' | '.join(OBJECT_TYPES)})")
    object_type = int(options["OBJTYPE"])
    if "PROFILE" not in options and object_type != Q_MGR:
        raise errors.missing_keyword(f"{verb} AUTHREC needs PROFILE, but with OBJTYPE(QMGR)")
    return _profile(str(options.get("PROFILE", SELF)), object_type), object_type


def _profile(text: str, object_type: int) -> str:
    """The profile as it is kept: of the queue manager, of a class of objects, or of names."""
    if object_type == Q_MGR and text.lower() != CLASS:
        return SELF if text in ("", "*") or text.lower() == SELF else text
    if text.startswith("@"):
        if text.lower() not in (CLASS, CLASS_WORDS.get(object_type)):
            raise errors.bad_value(
                "PROFILE", text, f"{CLASS}, {CLASS_WORDS.get(object_type, CLASS)}, names and patterns"
            )
        return CLASS
    if not text:
        raise errors.bad_name("PROFILE", text)
    PROFILE.check("PROFILE", text)
    return text


def _entities(verb: str, options: Options) -> tuple[Entity, ...]:
    users = [(Principal.USER, name) for name in _words(options, "PRINCIPAL")]
    groups = [(Principal.GROUP, name) for name in _words(options, "GROUP")]
    if not users and not groups:
        raise errors.missing_keyword(f"{verb} AUTHREC needs PRINCIPAL or GROUP with a name")
    return (*users, *groups)


def _entity(options: Options) -> Entity | None:
    """The user or the group that a DISPLAY names, if it names one."""
    if "PRINCIPAL" in options and "GROUP" in options:
        raise errors.conflict("only one of PRINCIPAL and GROUP can be given", syntax_error=True)
    if "GROUP" in options:
        return Principal.GROUP, str(options["GROUP"])
    return (Principal.USER, str(options["PRINCIPAL"])) if "PRINCIPAL" in options else None


def _record_choice(options: Options) -> RecordChoice:
    object_type = int(options.get("OBJTYPE", 0)) or None
    profile = str(options["PROFILE"]) if "PROFILE" in options else None
    if profile is not None and object_type is not None:
        profile = _profile(profile, object_type)
    match = str(MATCHES.plain(options.get("MATCH", 0)))
    entity = _entity(options)
    if match == "MEMBERSHIP" and (entity is None or entity[0] is not Principal.USER):
        raise errors.missing_keyword("MATCH(MEMBERSHIP) needs PRINCIPAL")
    return RecordChoice(profile, object_type, entity, match)


def _entity_rights(options: Options) -> EntityRightsRequest:
    entity = _entity(options)
    if entity is None:
        raise errors.missing_keyword("DISPLAY ENTAUTH needs PRINCIPAL or GROUP")
    if "OBJTYPE" not in options:
        raise errors.missing_keyword(f"DISPLAY ENTAUTH needs OBJTYPE({' | '.join(OBJECT_TYPES)})")
    object_type = int(options["OBJTYPE"])
    if "OBJNAME" not in options and object_type != Q_MGR:
        raise errors.missing_keyword("DISPLAY ENTAUTH needs OBJNAME, but with OBJTYPE(QMGR)")
    return EntityRightsRequest(entity, object_type, _profile(str(options.get("OBJNAME", SELF)), object_type))


def _rules(request: DisplayRequest, options: Options) -> Request:
    """DISPLAY CHLAUTH; with MATCH(RUNCHECK) the question which record counts for a client."""
    match = str(RULE_MATCHES.plain(options.get("MATCH", 0)))
    about = {keyword: str(options.get(keyword, "")) for keyword in ("ADDRESS", *_CLIENT)}
    if match == "RUNCHECK":
        if "*" in request.pattern:
            raise errors.bad_name("CHLAUTH", request.pattern, "with MATCH(RUNCHECK) the name of a channel")
        if not about["ADDRESS"]:
            raise errors.missing_keyword("MATCH(RUNCHECK) needs ADDRESS")
        return RunCheckRequest(request.pattern, about["ADDRESS"], *(about[keyword] for keyword in _CLIENT))
    wrong = next((keyword for keyword, value in about.items() if value), None)
    if wrong is not None:
        raise errors.conflict(f"{wrong} has a value only with MATCH(RUNCHECK)", syntax_error=True)
    return replace(request, chosen=RuleChoice(match))


_CLIENT = ("SSLPEER", "SSLCERTI", "CLNTUSER", "QMNAME")
