"""ZMQSC, the command language of TPF, put into MQSC's words: one tree to another.

What TPF refuses and MQSC would allow is refused here, except what depends on the queue's other attributes.
"""

from __future__ import annotations

from dataclasses import replace

from broker.commands import errors
from broker.commands.language.syntax import Command, Item, Parameter
from broker.commands.language.words import (
    ZMQSC_KEYWORDS,
    ZMQSC_KEYWORDS_NOT_SUPPORTED,
    ZMQSC_NOUNS,
    ZMQSC_NOUNS_NOT_SUPPORTED,
    ZMQSC_VERBS,
    ZMQSC_VERBS_NOT_SUPPORTED,
    syntax_error,
    zmqsc_verb,
)
from broker.core.names.definitions import QUEUE_KINDS

PROGRAM_NAME_LENGTH_MAX = 4
UNLIMITED_DEPTH = "999999999"
TRIGGER_TYPES = ("FIRST", "EVERY")
_STATUS_NOUNS = ("CHANNEL", "QSTATUS", "THREAD")


def translate(command: Command) -> Command:
    """The MQSC command that a ZMQSC command stands for; raises CommandError."""
    verb = _verb(command)
    noun = command.object.keyword
    if noun in ZMQSC_NOUNS_NOT_SUPPORTED:
        raise errors.not_supported(f"ZMQSC {verb} {noun}")
    if (verb, noun) not in ZMQSC_KEYWORDS:
        hint = "" if noun in ZMQSC_NOUNS else errors.did_you_mean(noun, ZMQSC_NOUNS)
        raise syntax_error(command.text, command.object.end, hint)
    parameters = tuple(_parameter(command, verb, parameter) for parameter in command.parameters)
    if verb == "DEFINE" and noun == "PROCESS":
        parameters = (Parameter("APPLTYPE", (Item("TPF", quoted=False),), command.object.end), *parameters)
    return Command(command.text, replace(command.verb, keyword=verb), _object(command, verb), parameters)


def _verb(command: Command) -> str:
    verb = zmqsc_verb(command.verb.keyword)
    if verb is None:
        raise syntax_error(command.text, command.verb.end, errors.did_you_mean(command.verb.keyword, ZMQSC_VERBS))
    if verb in ZMQSC_VERBS_NOT_SUPPORTED:
        raise errors.not_supported(f"ZMQSC {verb}")
    return verb


def _object(command: Command, verb: str) -> Parameter:
    """The noun and name. No queue may be called ALL, which means all of the kind in DISPLAY."""
    written = command.object
    noun = ZMQSC_NOUNS[written.keyword]
    items = written.items and (Item(written.items[0].folded, quoted=True),)
    if noun in (*QUEUE_KINDS, *_STATUS_NOUNS) and items and items[0].text == "ALL":
        if verb != "DISPLAY":
            raise errors.bad_name(written.keyword, "ALL")
        items = (Item("*", quoted=True),)
    return Parameter(noun, items, written.end)


def _parameter(command: Command, verb: str, parameter: Parameter) -> Parameter:
    """The keyword with its value as MQSC writes it; the value is folded here and then taken as it is."""
    keyword = parameter.keyword
    known = ZMQSC_KEYWORDS[verb, command.object.keyword]
    if keyword not in known:
        raise syntax_error(command.text, parameter.end, errors.did_you_mean(keyword, known))
    if keyword in ZMQSC_KEYWORDS_NOT_SUPPORTED:
        raise errors.not_supported(f"ZMQSC {keyword}")
    if keyword == "COMMON":
        return _disposition(parameter)
    if parameter.items is None:
        return parameter
    value = parameter.items[0].folded
    if keyword == "APPLICID" and len(value) > PROGRAM_NAME_LENGTH_MAX:
        raise errors.too_long(keyword, PROGRAM_NAME_LENGTH_MAX, len(value))
    if keyword == "TRIGTYPE" and value.upper() not in TRIGGER_TYPES:
        raise errors.bad_value(keyword, value, " | ".join(TRIGGER_TYPES))
    if keyword == "MAXDEPTH" and value.isdecimal() and not value.strip("0"):
        value = UNLIMITED_DEPTH
    return Parameter(keyword, (Item(value, quoted=True),), parameter.end)


def _disposition(parameter: Parameter) -> Parameter:
    """COMMON asks for a queue that a whole group shares."""
    value = parameter.items[0].folded.upper() if parameter.items else ""
    if value not in ("NO", "YES"):
        raise errors.bad_value("COMMON", value, "NO | YES")
    return Parameter("QSGDISP", (Item("SHARED" if value == "YES" else "QMGR", quoted=True),), parameter.end)
