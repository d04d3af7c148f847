"""From the syntax tree to the request: whether verb, noun and keywords exist, and what their values are.

Everything that can be said of a command by its text alone is decided here; what is refused counts as a syntax error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.errors import did_you_mean
from broker.commands.language import security, syntax, zmqsc
from broker.commands.language.options import FILTERS
from broker.commands.language.parameters import add, alone, object_name, option_value, parameters, single, where
from broker.commands.language.words import (
    COMMANDS,
    DISPLAY_OPTIONS,
    KEYWORDS,
    NAMELESS,
    NOUNS,
    NOUNS_NOT_SUPPORTED,
    VERBS,
    VERBS_NOT_SUPPORTED,
    is_zmqsc,
    keyword_error,
    not_supported,
    syntax_error,
)
from broker.commands.requests import (
    AlterRequest,
    BackUpRequest,
    ClearRequest,
    DefineRequest,
    DeleteRequest,
    DisplayRequest,
    FailRequest,
    MembersRequest,
    MoveRequest,
    PeerUnitsRequest,
    RecoverRequest,
    ResetRequest,
    ResolveConsumerRequest,
    ResolvePeerUnitRequest,
    ResolveUnitRequest,
    ScopedRequest,
    StatusRequest,
)
from broker.commands.table.attributes import TABLE
from broker.commands.table.dispositions import LIVE, TO_DISPLAY, UNSAID
from broker.commands.table.kinds import SHOWN
from broker.commands.table.statuses import NOT_SUPPORTED, STATUSES, TYPE_BY_DEFAULT
from broker.core.names.definitions import OWN, QUEUE_KINDS, SHARED
from broker.mqi.names import is_name

if TYPE_CHECKING:
    from broker.commands.requests import Request
    from broker.commands.selection import Condition
    from broker.commands.table.forms import Value
    from broker.core.names.definitions import Attributes

COMMAND_LENGTH_MAX = 32768
COMMAND_TOKENS_MAX = 1000
"""More than any command has that means something; to parse them takes some 30 ms."""

_TOKEN = re.compile(r"""'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?|[()]|[^\s,()'"]+""")
_IN_EITHER_LANGUAGE = (DefineRequest, AlterRequest, DisplayRequest, StatusRequest)


def read(text: str) -> Request:
    """The request that one complete command makes, in either language; raises CommandError."""
    if len(text) > COMMAND_LENGTH_MAX:
        raise errors.segment_error(text[:COMMAND_LENGTH_MAX], f"A command has up to {COMMAND_LENGTH_MAX} characters.")
    if len(text) > COMMAND_TOKENS_MAX and len(_TOKEN.findall(text)) > COMMAND_TOKENS_MAX:
        raise errors.segment_error(text, f"A command has up to {COMMAND_TOKENS_MAX} words, values and parentheses.")
    tpf = is_zmqsc(text)
    refusal = None if tpf else not_supported(text)
    if refusal is not None:
        raise refusal
    try:
        command = zmqsc.translate(syntax.parse_zmqsc(text)) if tpf else syntax.parse(text)
    except syntax.SyntaxFailure as failure:
        raise syntax_error(text, failure.end) from None
    command, scope = _scope(command)
    request = bind(command)
    if isinstance(request, _IN_EITHER_LANGUAGE):
        request = replace(request, tpf=tpf)
    return ScopedRequest(request, scope, text) if scope else request


def _scope(command: syntax.Command) -> tuple[syntax.Command, str]:
    """The command without CMDSCOPE, and what that names; empty for the queue manager that reads it."""
    given = [parameter for parameter in command.parameters if parameter.keyword == "CMDSCOPE"]
    if not given:
        return command, ""
    if len(given) > 1:
        raise errors.duplicate_keyword("CMDSCOPE")
    scope = single(command, given[0]).folded.rstrip(" ")
    if scope != "*" and scope and not is_name(scope):
        raise errors.bad_name("CMDSCOPE", scope)
    others = tuple(parameter for parameter in command.parameters if parameter.keyword != "CMDSCOPE")
    return replace(command, parameters=others), scope


def bind(command: syntax.Command) -> Request:
    """The request that this tree makes; raises CommandError."""
    verb = VERBS.get(command.verb.keyword)
    if verb is None:
        hint = did_you_mean(command.verb.keyword, [*VERBS, *VERBS_NOT_SUPPORTED])
        raise syntax_error(command.text, command.verb.end, hint)
    noun = NOUNS.get(command.object.keyword)
    if noun is None or noun not in COMMANDS[verb]:
        hint = "" if noun else did_you_mean(command.object.keyword, [*COMMANDS[verb], *NOUNS_NOT_SUPPORTED])
        raise syntax_error(command.text, command.object.end, hint)
    if verb == "DISPLAY" and noun != "ENTAUTH":
        return _shown(command, noun)
    name = _name(command, noun, generic=verb == "BACKUP")
    noun = _kind(command, noun) if verb in ("DEFINE", "ALTER", "DELETE") else noun
    options, given = parameters(command, verb, noun)
    request = security.request_of(verb, noun, name, options, given)
    if request is not None:
        return request
    if verb in ("DEFINE", "ALTER"):
        return _definition(verb, noun, name, given, options)
    if verb == "RESOLVE":
        return _resolve(noun, name, options)
    if noun == "CFSTRUCT" and verb != "DELETE":
        return _of_structure(verb, name, options)
    match verb:
        case "DELETE":
            purge, ignore_state = bool(options.get("PURGE")), bool(options.get("IGNSTATE"))
            disposition, records = int(options.get("QSGDISP", UNSAID)), bool(options.get("AUTHREC", True))
            return DeleteRequest(noun, name, purge, ignore_state, disposition, records)
        case "CLEAR":
            return ClearRequest(name, int(options.get("QSGDISP", UNSAID)))
        case "MOVE":
            target = str(options.get("TOQLOCAL", name))
            return MoveRequest(name, target, options.get("QSGDISP") == SHARED, bool(options.get("TYPE")))
        case _:
            return ResetRequest(name)


def _kind(command: syntax.Command, noun: str) -> str:
    """The kind of object that a noun means: channels that clients have are a kind of their own."""
    written = {parameter.keyword: parameter.items for parameter in command.parameters}
    for keyword, word in (("CHLTYPE", "CLNTCONN"), ("CHLTABLE", "CLNTTAB")) if noun == "CHANNEL" else ():
        items = written.get(keyword)
        if items and items[0].text.upper() == word:
            return "CLNTCONN"
    return noun


def _definition(verb: str, noun: str, name: str, given: Attributes, options: dict[str, Value]) -> Request:
    disposition = int(options.get("QSGDISP", OWN if verb == "DEFINE" else UNSAID))
    if verb == "ALTER":
        return AlterRequest(noun, name, given, bool(options.get("FORCE")), disposition=disposition)
    like = options.get("LIKE")
    like = None if like is None else str(like)
    return DefineRequest(noun, name, given, like, bool(options.get("REPLACE")), disposition=disposition)


def _of_structure(verb: str, name: str, options: dict[str, Value]) -> Request:
    if verb == "BACKUP":
        return BackUpRequest(name)
    if verb == "RECOVER":
        return RecoverRequest(name, bool(options.get("TYPE")))
    if "ACTION" not in options:
        raise errors.missing_keyword("RESET CFSTRUCT needs ACTION(FAIL)")
    return FailRequest(name)


def _resolve(noun: str, name: str, options: dict[str, Value]) -> Request:
    if "ACTION" not in options:
        raise errors.missing_keyword(f"RESOLVE {noun} needs ACTION(BACKOUT) or ACTION(COMMIT)")
    if noun == "INDOUBT":
        member = str(options.get("QMNAME", ""))
        commit = bool(options["ACTION"])
        return ResolvePeerUnitRequest(member, name, commit) if member else ResolveUnitRequest(name, commit)
    return ResolveConsumerRequest(name, bool(options["ACTION"]), bool(options.get("PINNED")))


def _name(command: syntax.Command, noun: str, *, generic: bool = False) -> str:
    """The name after the noun; what there is one of has none."""
    items = command.object.items
    if noun == "SECURITY" and (items is None or [item.text for item in items] == ["*"]):
        return ""
    if noun in NAMELESS:
        if items:
            raise syntax_error(command.text, command.object.end)
        return ""
    if items is None:
        raise errors.missing_keyword(f"{noun} needs a name")
    return object_name(command, command.object, generic=generic)


def _display(command: syntax.Command, noun: str) -> Request:
    pattern = _name(command, noun, generic=True) or ("*" if noun == "AUTHREC" else "")
    kinds = SHOWN[noun].kinds
    rows = {
        row.keyword: row for kind in reversed(kinds) for row in TABLE[kind].values()
    }  # of two forms the first kind's
    seen: dict[str, Value] = {}
    named: list[str] = []
    found: Condition | None = None
    disposition = LIVE
    filters = FILTERS.get(noun, {})
    options: dict[str, Value] = {}
    for parameter in command.parameters:
        keyword = KEYWORDS.get(parameter.keyword, parameter.keyword)
        add(seen, keyword, "")
        option = keyword if keyword in DISPLAY_OPTIONS[noun] else ""
        if keyword in filters and parameter.items is not None:
            add(options, filters[keyword].setting, option_value(command, parameter, filters[keyword]))
            continue
        if option == "WHERE":
            found = where(command, parameter, {row.keyword: row.form for row in rows.values()})
        elif option == "TYPE" and parameter.items is not None:
            kinds = _queue_kinds(command, parameter, kinds)
        elif option == "QSGDISP" and parameter.items is not None:
            disposition = TO_DISPLAY.read(option, single(command, parameter).folded)
        elif option == "ALL" or keyword in rows:
            alone(command, parameter)
            named.append(keyword)
        else:
            raise keyword_error(command.text, parameter, SHOWN[noun].kinds, DISPLAY_OPTIONS[noun])
    everything = "ALL" in seen
    request = DisplayRequest(noun, pattern, kinds, tuple(named), found, everything=everything, disposition=disposition)
    return security.chosen(request, options) if noun in FILTERS else request


def _queue_kinds(command: syntax.Command, parameter: syntax.Parameter, kinds: tuple[str, ...]) -> tuple[str, ...]:
    word = single(command, parameter).folded.upper()
    if word in ("ALL", "QUEUE"):
        return kinds
    if word not in QUEUE_KINDS:
        raise errors.bad_value("TYPE", word, " | ".join(("ALL", *QUEUE_KINDS)))
    return tuple(kind for kind in kinds if kind == word)


def _shown(command: syntax.Command, noun: str) -> Request:
    if noun in SHOWN:
        return _display(command, noun)
    found = _status(command, noun)
    return (
        MembersRequest(replace(found, pattern="*")) if isinstance(found, StatusRequest) and noun == "GROUP" else found
    )


def _status(command: syntax.Command, noun: str) -> StatusRequest | PeerUnitsRequest:
    pattern = _name(command, noun, generic=True)
    type = _status_type(command, noun)
    figures = STATUSES[noun, type].figures
    seen: dict[str, Value] = {}
    named: list[str] = []
    found: Condition | None = None
    member = ""
    for parameter in command.parameters:
        keyword = parameter.keyword
        add(seen, keyword, "")
        if keyword == "WHERE":
            found = where(command, parameter, {each.keyword: each.form for each in figures.values()})
        elif keyword in figures and keyword != "TYPE":
            alone(command, parameter)
            named.append(keyword)
        elif keyword == "ALL":
            alone(command, parameter)
        elif keyword == "QMNAME" and noun == "THREAD":
            member = single(command, parameter).folded
        elif keyword != "TYPE" or not type:
            known = (*figures, *DISPLAY_OPTIONS[noun])
            raise syntax_error(command.text, parameter.end, did_you_mean(keyword, known))
    if member:
        if named or found:
            raise errors.conflict("with QMNAME all figures of all units are shown")
        return PeerUnitsRequest(member, pattern)
    keywords = () if "ALL" in seen else tuple(named)
    return StatusRequest(noun, type, pattern, keywords, found)


def _status_type(command: syntax.Command, noun: str) -> str:
    """The TYPE that the command names."""
    word = TYPE_BY_DEFAULT[noun]
    for parameter in command.parameters:
        if word and parameter.keyword == "TYPE":
            word = single(command, parameter).folded.upper()
    if word in NOT_SUPPORTED.get(noun, ()):
        raise errors.not_supported(f"DISPLAY {noun} TYPE({word})")
    if (noun, word) not in STATUSES:
        raise errors.bad_value("TYPE", word, " | ".join(type for each, type in STATUSES if each == noun))
    return word
