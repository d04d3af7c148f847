"""The vocabulary of both languages: verbs, nouns, their short forms, and the options that are not attributes."""

from __future__ import annotations

import re
from typing import NamedTuple

from broker.commands import errors
from broker.commands.attributes import TABLE
from broker.commands.forms import Choice, Flag
from broker.commands.kinds import SHOWN
from broker.commands.row import Attribute, Origin
from broker.core.definitions import QUEUE_KINDS

VERBS = {
    "ALTER": "ALTER", "ALT": "ALTER",
    "CLEAR": "CLEAR",
    "DEFINE": "DEFINE", "DEF": "DEFINE",
    "DELETE": "DELETE", "DEL": "DELETE",
    "DISPLAY": "DISPLAY", "DIS": "DISPLAY",
}  # fmt: skip

NOUNS = {
    "PROCESS": "PROCESS", "PRO": "PROCESS",
    "QALIAS": "QALIAS", "QA": "QALIAS",
    "QLOCAL": "QLOCAL", "QL": "QLOCAL",
    "QMGR": "QMGR",
    "QMODEL": "QMODEL", "QM": "QMODEL",
    "QREMOTE": "QREMOTE", "QR": "QREMOTE",
    "QUEUE": "QUEUE", "Q": "QUEUE",
}  # fmt: skip

KEYWORDS = {"TARGQ": "TARGET"}
"""Other words for keywords of attributes."""

COMMANDS = {
    "ALTER": (*QUEUE_KINDS, "PROCESS", "QMGR"),
    "CLEAR": ("QLOCAL",),
    "DEFINE": (*QUEUE_KINDS, "PROCESS"),
    "DELETE": (*QUEUE_KINDS, "PROCESS"),
    "DISPLAY": ("QUEUE", *QUEUE_KINDS, "PROCESS", "QMGR"),
}


class Option(NamedTuple):
    """A keyword that is no attribute. `setting` is what it decides; `value` what it means when it stands alone.

    With `words` it takes one of them in parentheses; with neither it takes the name of an object.
    """

    setting: str
    value: bool | None = None
    words: Choice | None = None


YES_NO = Choice({"NO": 0, "YES": 1})
DEFINE_OPTIONS = {
    "LIKE": Option("LIKE"),
    "REPLACE": Option("REPLACE", value=True),
    "NOREPLACE": Option("REPLACE", value=False),
}
FORCE_OPTION = {"FORCE": Option("FORCE", value=True)}
IGNORE_STATE_OPTION = {"IGNSTATE": Option("IGNSTATE", words=YES_NO)}
DELETE_QUEUE_OPTIONS = {
    "AUTHREC": Option("AUTHREC", words=YES_NO),  # there are no authority records to keep or drop
    **IGNORE_STATE_OPTION,
}
DELETE_LOCAL_OPTIONS = {
    "PURGE": Option("PURGE", value=True),
    "NOPURGE": Option("PURGE", value=False),
    **DELETE_QUEUE_OPTIONS,
}
OPTIONS: dict[tuple[str, str], dict[str, Option]] = {
    **{("DEFINE", kind): DEFINE_OPTIONS for kind in (*QUEUE_KINDS, "PROCESS")},
    **{("ALTER", kind): FORCE_OPTION for kind in ("QLOCAL", "QALIAS", "QREMOTE", "QMGR")},
    ("ALTER", "QMODEL"): {},
    ("ALTER", "PROCESS"): {},
    **{("DELETE", kind): DELETE_QUEUE_OPTIONS for kind in ("QALIAS", "QREMOTE", "QMODEL")},
    ("DELETE", "QLOCAL"): DELETE_LOCAL_OPTIONS,
    ("DELETE", "PROCESS"): IGNORE_STATE_OPTION,
    ("CLEAR", "QLOCAL"): {},
}

# What can follow DISPLAY of a noun, besides the attributes that are to be shown.
DISPLAY_OPTIONS = {
    **dict.fromkeys(("QUEUE", *QUEUE_KINDS), ("ALL", "TYPE", "WHERE")),
    "PROCESS": ("ALL", "WHERE"),
    "QMGR": ("ALL",),
}

# ZMQSC: verbs by any unambiguous start of three letters or more, the rest as it stands here.
ZMQSC_VERBS = ("ALTER", "DEFINE", "DELETE", "DISPLAY")
ZMQSC_VERBS_NOT_SUPPORTED = ("DBREBUILD", "MIGRATE", "MOVE", "RESET", "RESOLVE", "START", "STOP", "SWEEP", "TRACE")
ZMQSC_NOUNS = {"QL": "QLOCAL", "QA": "QALIAS", "QR": "QREMOTE", "PROCESS": "PROCESS", "QMGR": "QMGR"}
ZMQSC_NOUNS_NOT_SUPPORTED = ("CHL", "MQP")
ZMQSC_KEYWORDS_NOT_SUPPORTED = ("SWEEP",)
_ALTERABLE = (
    "DEFPSIST", "GET", "MAXDEPTH", "MAXMSGL", "NOTRIGGER", "PROCESS", "PUT", "QDEPTHHI", "SWEEP", "TRIGDATA",
    "TRIGGER", "TRIGTYPE",
)  # fmt: skip
_ALIAS_KEYWORDS = ("DEFPSIST", "GET", "PUT", "TARGET", "TARGQ")
_REMOTE_KEYWORDS = ("DEFPSIST", "PUT", "RNAME", "RQMNAME", "XMITQ")
_PROCESS_KEYWORDS = ("APPLICID", "ENVRDATA", "USERDATA")
ZMQSC_KEYWORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("DEFINE", "QL"): ("COMMON", "USAGE", *_ALTERABLE),
    ("ALTER", "QL"): _ALTERABLE,
    ("DELETE", "QL"): (),
    ("DISPLAY", "QL"): (),
    ("DEFINE", "QA"): _ALIAS_KEYWORDS,
    ("ALTER", "QA"): _ALIAS_KEYWORDS,
    ("DELETE", "QA"): (),
    ("DISPLAY", "QA"): (),
    ("DEFINE", "QR"): _REMOTE_KEYWORDS,
    ("ALTER", "QR"): _REMOTE_KEYWORDS,
    ("DELETE", "QR"): (),
    ("DISPLAY", "QR"): (),
    ("DEFINE", "PROCESS"): _PROCESS_KEYWORDS,
    ("ALTER", "PROCESS"): _PROCESS_KEYWORDS,
    ("DELETE", "PROCESS"): (),
    ("DISPLAY", "PROCESS"): (),
    ("DISPLAY", "QMGR"): (),
}

_FIRST_WORDS = re.compile(r"[\s,]*([A-Za-z]+)(?:[\s,]+([A-Za-z]+))?")
_ZMQSC = re.compile(r"\s*ZMQSC(?!\S)", re.IGNORECASE)


def is_zmqsc(text: str) -> bool:
    """Whether this is a command of TPF's language."""
    return _ZMQSC.match(text) is not None


def zmqsc_verb(word: str) -> str | None:
    """The verb that the word begins, when it is the only one."""
    verbs = [verb for verb in ZMQSC_VERBS + ZMQSC_VERBS_NOT_SUPPORTED if verb.startswith(word)]
    return verbs[0] if len(verbs) == 1 and len(word) >= 3 else None


def syntax_error(text: str, end: int) -> errors.CommandError:
    """AMQ8405I for a command whose first token that does not fit ends at `end`, with advice on what would."""
    return errors.segment_error(text[:end], _advice(text))


def _advice(text: str) -> str:
    if _ZMQSC.match(text):
        return f"AMQ8427I: Valid syntax for the ZMQSC command:\n{_zmqsc_usage(text)}"
    match = _FIRST_WORDS.match(text)
    verb_word, noun_word = match.groups() if match else (None, None)
    verb = VERBS.get((verb_word or "").upper())
    if verb is None:
        return "AMQ8426I: Valid MQSC commands are:\n" + "\n".join(f"    {word}" for word in COMMANDS)
    noun = NOUNS.get((noun_word or "").upper(), "")
    usage = usage_of(verb, noun) if noun in COMMANDS[verb] else f"{verb} {' | '.join(COMMANDS[verb])}"
    return f"AMQ8427I: Valid syntax for the MQSC command:\n    {usage}"


def usage_of(verb: str, noun: str) -> str:
    """What can be written after this verb and noun, in one line."""
    subject = (
        f"{verb} {noun}" if noun == "QMGR" else f"{verb} {noun}({'name' if verb != 'DISPLAY' else 'generic-name'})"
    )
    if verb == "DISPLAY":
        keywords = dict.fromkeys(keyword for kind in SHOWN[noun].kinds for keyword in TABLE[kind])
        where = " [WHERE(keyword operator value)]" if "WHERE" in DISPLAY_OPTIONS[noun] else ""
        return f"{subject}{where} [ALL | {' | '.join(keywords)}]"
    options = [_option_usage(keyword, option) for keyword, option in OPTIONS[verb, noun].items()]
    given = TABLE[noun].values() if verb in ("DEFINE", "ALTER") else ()
    attributes = [_attribute_usage(row) for row in given if row.origin is Origin.GIVEN]
    return " ".join([subject, *options, *attributes])


def _attribute_usage(row: Attribute) -> str:
    return f"[{row.keyword} | NO{row.keyword}]" if isinstance(row.form, Flag) else f"[{row.keyword}( )]"


def _option_usage(keyword: str, option: Option) -> str:
    if option.value is not None:
        return f"[{keyword}]"
    return f"[{keyword}({option.words.syntax if option.words else 'name'})]"


def _zmqsc_usage(text: str) -> str:
    """The commands of the verb that the text has, or all if it has none; a line each."""
    words = _ZMQSC.sub("", text, count=1).split(maxsplit=1)
    meant = zmqsc_verb(words[0].upper()) if words else None
    lines = []
    for (verb, noun), keywords in ZMQSC_KEYWORDS.items():
        if meant in (verb, None):
            subject = noun if noun == "QMGR" else f"{noun}-name"
            supported = (f"[{keyword}]" for keyword in keywords if keyword not in ZMQSC_KEYWORDS_NOT_SUPPORTED)
            lines.append(" ".join([f"    ZMQSC {verb} {subject}", *supported]))
    return "\n".join(lines)
