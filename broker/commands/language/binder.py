"""From the syntax tree to the request: whether verb, noun and keywords exist, and what their values are.

Everything that can be said of a command by its text alone is decided here; what is refused counts as a syntax error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.commands import errors
from broker.commands.errors import did_you_mean
from broker.commands.language import syntax, zmqsc
from broker.commands.language.words import (
    COMMANDS,
    DISPLAY_OPTIONS,
    KEYWORDS,
    NAMELESS,
    NOUNS,
    NOUNS_NOT_SUPPORTED,
    OPTIONS,
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
from broker.commands.selection import OPERATORS, condition
from broker.commands.table.attributes import TABLE
from broker.commands.table.dispositions import LIVE, TO_DISPLAY, UNSAID
from broker.commands.table.forms import Flag
from broker.commands.table.kinds import SHOWN
from broker.commands.table.row import Attribute, Origin
from broker.commands.table.statuses import NOT_SUPPORTED, STATUSES, TYPE_BY_DEFAULT, UNIT_NAME_LENGTH
from broker.commands.table.structures import STRUCTURE_NAME
from broker.core.names.definitions import OWN, QUEUE_KINDS, SHARED
from broker.mqi.names import NAME_LENGTH, is_name

if TYPE_CHECKING:
    from broker.commands.language.words import CommandOption
    from broker.commands.requests import Request
    from broker.commands.selection import Condition
    from broker.commands.table.forms import Form, Value
    from broker.core.names.definitions import Attributes

COMMAND_LENGTH_MAX = 32768
COMMAND_TOKENS_MAX = 1000
"""More than any command has that means something; to parse them takes some 30 ms."""

_TOKEN = re.compile(r"""'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?|[()]|[^\s,()'"]+""")
NOT_FOR_WHERE = ("TYPE", "QSGDISP")
_IN_EITHER_LANGUAGE = (DefineRequest, AlterRequest, DisplayRequest, StatusRequest)
_FREE_NAMES = {"INDOUBT": UNIT_NAME_LENGTH, "SINK": NAME_LENGTH, "THREAD": UNIT_NAME_LENGTH}
"""Nouns whose names may have any printable characters, and how many."""
_SHORT_NAMES = {"CFSTATUS": STRUCTURE_NAME.length, "CFSTRUCT": STRUCTURE_NAME.length}


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
    scope = _single(command, given[0]).folded.rstrip(" ")
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
    if verb == "DISPLAY":
        return _shown(command, noun)
    name = _name(command, noun, generic=verb == "BACKUP")
    options, given = _parameters(command, verb, noun)
    if verb in ("DEFINE", "ALTER"):
        return _definition(verb, noun, name, given, options)
    if verb == "RESOLVE":
        return _resolve(noun, name, options)
    if noun == "CFSTRUCT" and verb != "DELETE":
        return _of_structure(verb, name, options)
    match verb:
        case "DELETE":
            purge, ignore_state = bool(options.get("PURGE")), bool(options.get("IGNSTATE"))
            return DeleteRequest(noun, name, purge, ignore_state, int(options.get("QSGDISP", UNSAID)))
        case "CLEAR":
            return ClearRequest(name, int(options.get("QSGDISP", UNSAID)))
        case "MOVE":
            target = str(options.get("TOQLOCAL", name))
            return MoveRequest(name, target, options.get("QSGDISP") == SHARED, bool(options.get("TYPE")))
        case _:
            return ResetRequest(name)


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
    if noun in NAMELESS:
        if items:
            raise syntax_error(command.text, command.object.end)
        return ""
    if items is None:
        raise errors.missing_keyword(f"{noun} needs a name")
    return _object_name(command, command.object, generic=generic)


def _object_name(command: syntax.Command, parameter: syntax.Parameter, *, generic: bool = False) -> str:
    name = _single(command, parameter).folded.rstrip(" ")
    stem = name.removesuffix("*") if generic else name
    longest = _FREE_NAMES.get(parameter.keyword)
    if longest is not None:
        valid = len(stem) <= longest and stem.isprintable()
    else:
        valid = not stem or is_name(stem, _SHORT_NAMES.get(parameter.keyword, NAME_LENGTH))
    if not name or not valid:
        raise errors.bad_name(parameter.keyword, name)
    return name


def _single(command: syntax.Command, parameter: syntax.Parameter) -> syntax.Item:
    """The value of a keyword that takes exactly one."""
    if parameter.items is None or len(parameter.items) != 1:
        raise syntax_error(command.text, parameter.end)
    return parameter.items[0]


def _alone(command: syntax.Command, parameter: syntax.Parameter) -> None:
    """Insist that the keyword has no value."""
    if parameter.items is not None:
        raise syntax_error(command.text, parameter.end)


def _parameters(command: syntax.Command, verb: str, noun: str) -> tuple[dict[str, Value], Attributes]:
    """The options of the command, and the attributes that it gives."""
    options: dict[str, Value] = {}
    given: Attributes = {}
    for parameter in command.parameters:
        option = OPTIONS[verb, noun].get(parameter.keyword)
        if option is not None:
            _add(options, option.setting, _option_value(command, parameter, option))
            continue
        gives = verb in ("DEFINE", "ALTER")
        row = _row_given(noun, parameter.keyword) if gives else None
        if row is None:
            raise keyword_error(command.text, parameter, (noun,) if gives else (), OPTIONS[verb, noun])
        _add(given, row.keyword, _value(command, parameter, row))
    _check_together(given)
    return options, given


def _add(values: dict[str, Value], keyword: str, value: Value) -> None:
    if keyword in values:
        raise errors.duplicate_keyword(keyword)
    values[keyword] = value


def _option_value(command: syntax.Command, parameter: syntax.Parameter, option: CommandOption) -> Value:
    if option.value is not None:
        _alone(command, parameter)
        return option.value
    if option.words is not None:
        return option.words.read(parameter.keyword, _single(command, parameter).folded)
    return _object_name(command, parameter)


def _row_given(kind: str, keyword: str) -> Attribute | None:
    """The attribute that the keyword sets; NO before a flag's keyword clears it."""
    row = TABLE[kind].get(KEYWORDS.get(keyword, keyword))
    if row is None and keyword.startswith("NO"):
        row = TABLE[kind].get(keyword.removeprefix("NO"))
        row = row if row is not None and isinstance(row.form, Flag) else None
    return row if row is not None and row.origin is Origin.GIVEN else None


def _value(command: syntax.Command, parameter: syntax.Parameter, row: Attribute) -> Value:
    if isinstance(row.form, Flag):
        _alone(command, parameter)
        return int(parameter.keyword == row.keyword)
    value = row.form.read(row.keyword, _single(command, parameter).folded)
    row.form.check(row.keyword, value)
    return value


def _check_together(given: Attributes) -> None:
    """QDEPTHHI >= QDEPTHLO where a command gives both; alone each may have any value, as the other may follow."""
    if "QDEPTHHI" in given and "QDEPTHLO" in given and int(given["QDEPTHHI"]) < int(given["QDEPTHLO"]):
        raise errors.conflict("QDEPTHHI is less than QDEPTHLO", syntax_error=True)


def _display(command: syntax.Command, noun: str) -> DisplayRequest:
    pattern = _name(command, noun, generic=True)
    kinds = SHOWN[noun].kinds
    rows = {
        row.keyword: row for kind in reversed(kinds) for row in TABLE[kind].values()
    }  # of two forms the first kind's
    seen: dict[str, Value] = {}
    named: list[str] = []
    found: Condition | None = None
    disposition = LIVE
    for parameter in command.parameters:
        keyword = KEYWORDS.get(parameter.keyword, parameter.keyword)
        _add(seen, keyword, "")
        option = keyword if keyword in DISPLAY_OPTIONS[noun] else ""
        if option == "WHERE":
            found = _where(command, parameter, {row.keyword: row.form for row in rows.values()})
        elif option == "TYPE" and parameter.items is not None:
            kinds = _queue_kinds(command, parameter, kinds)
        elif option == "QSGDISP" and parameter.items is not None:
            disposition = TO_DISPLAY.read(option, _single(command, parameter).folded)
        elif option == "ALL" or keyword in rows:
            _alone(command, parameter)
            named.append(keyword)
        else:
            raise keyword_error(command.text, parameter, SHOWN[noun].kinds, DISPLAY_OPTIONS[noun])
    everything = "ALL" in seen
    return DisplayRequest(noun, pattern, kinds, tuple(named), found, everything=everything, disposition=disposition)


def _queue_kinds(command: syntax.Command, parameter: syntax.Parameter, kinds: tuple[str, ...]) -> tuple[str, ...]:
    word = _single(command, parameter).folded.upper()
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
        _add(seen, keyword, "")
        if keyword == "WHERE":
            found = _where(command, parameter, {each.keyword: each.form for each in figures.values()})
        elif keyword in figures and keyword != "TYPE":
            _alone(command, parameter)
            named.append(keyword)
        elif keyword == "ALL":
            _alone(command, parameter)
        elif keyword == "QMNAME" and noun == "THREAD":
            member = _single(command, parameter).folded
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
            word = _single(command, parameter).folded.upper()
    if word in NOT_SUPPORTED.get(noun, ()):
        raise errors.not_supported(f"DISPLAY {noun} TYPE({word})")
    if (noun, word) not in STATUSES:
        raise errors.bad_value("TYPE", word, " | ".join(type for each, type in STATUSES if each == noun))
    return word


def _where(command: syntax.Command, parameter: syntax.Parameter, forms: dict[str, Form]) -> Condition:
    if parameter.items is None or len(parameter.items) != 3:
        raise syntax_error(command.text, parameter.end)
    keyword, comparison, operand = parameter.items
    word = KEYWORDS.get(keyword.text.upper(), keyword.text.upper())
    if word not in forms:
        raise syntax_error(command.text, parameter.end, did_you_mean(keyword.text.upper(), forms))
    if word in NOT_FOR_WHERE or comparison.text.upper() not in OPERATORS:
        raise syntax_error(command.text, parameter.end)
    return condition(forms[word], word, comparison.text.upper(), operand.folded)
