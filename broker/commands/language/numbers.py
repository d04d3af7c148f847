"""The numbers of commands, as events tell them (MQCMD)."""

from __future__ import annotations

import re
from typing import Final

from broker.commands.language.words import NOUNS, VERBS
from broker.core.names.definitions import QUEUE_KINDS

_WORD: Final = re.compile(r"[A-Za-z]+")

ESCAPE: Final = 38
"""A script, of which no command is run."""


NUMBERS: Final = {
    **{("ALTER", noun): 8 for noun in QUEUE_KINDS},
    **{("DEFINE", noun): 11 for noun in QUEUE_KINDS},
    **{("DELETE", noun): 12 for noun in QUEUE_KINDS},
    **{("DISPLAY", noun): 13 for noun in ("QUEUE", *QUEUE_KINDS)},
    ("ALTER", "QMGR"): 1, ("DISPLAY", "QMGR"): 2,
    ("ALTER", "PROCESS"): 3, ("DEFINE", "PROCESS"): 5, ("DELETE", "PROCESS"): 6, ("DISPLAY", "PROCESS"): 7,
    ("CLEAR", "QLOCAL"): 9, ("MOVE", "QLOCAL"): 127, ("DISPLAY", "QSTATUS"): 41,
    ("ALTER", "CHANNEL"): 21, ("DEFINE", "CHANNEL"): 23, ("DELETE", "CHANNEL"): 24, ("DISPLAY", "CHANNEL"): 25,
    ("START", "CHANNEL"): 28, ("STOP", "CHANNEL"): 29,
    ("REFRESH", "SECURITY"): 78,
    ("ALTER", "AUTHINFO"): 79, ("DEFINE", "AUTHINFO"): 81, ("DELETE", "AUTHINFO"): 82, ("DISPLAY", "AUTHINFO"): 83,
    ("DISPLAY", "AUTHREC"): 87, ("DISPLAY", "ENTAUTH"): 88, ("DELETE", "AUTHREC"): 89, ("SET", "AUTHREC"): 90,
    ("SET", "CHLAUTH"): 203, ("DISPLAY", "CHLAUTH"): 204,
    ("ALTER", "CFSTRUCT"): 101, ("BACKUP", "CFSTRUCT"): 105, ("DEFINE", "CFSTRUCT"): 108,
    ("DELETE", "CFSTRUCT"): 112, ("DISPLAY", "CFSTRUCT"): 115, ("DISPLAY", "CFSTATUS"): 116,
    ("RECOVER", "CFSTRUCT"): 130, ("RESET", "CFSTRUCT"): 213,
    ("DISPLAY", "GROUP"): 119, ("DISPLAY", "THREAD"): 124, ("RESOLVE", "INDOUBT"): 131,
}  # fmt: skip
"""By verb and noun; those of EverMQ's own nouns have none."""


def number_of(text: str) -> int:
    """Return the number of a command by its text; MQCMD_NONE (0) for what is none of IBM MQ's."""
    verb, noun = (*_WORD.findall(text)[:2], "", "")[:2]
    return NUMBERS.get((_verb(verb.upper()), NOUNS.get(noun.upper(), "")), 0)


def verb_of(text: str) -> str:
    """Return the verb of a command in full, by its text: OTHER where it has none that is known."""
    word = next(iter(_WORD.findall(text)), "").upper()
    return VERBS.get(word, "OTHER")


def _verb(word: str) -> str:
    """The verb that a word, or the beginning of one, stands for."""
    return VERBS.get(word) or next((verb for verb in VERBS.values() if word and verb.startswith(word)), "")
