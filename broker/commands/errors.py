"""The refusal of a command: one exception that carries the AMQ message, and a constructor for each message.

The identifying phrase of a message is IBM MQ's, because programs look for it; what follows it is our own.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SEGMENT_LENGTH_MAX = 2048
WORD_LENGTH_MAX = 16
"""Longer than any keyword, with room for a mistake."""


_VALUE = r"""'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?"""
_PASSWORD = r"(?=\w{0,20}?(?:PASS|PSW|P\w{0,12}W\w{0,12}D))[A-Z]{3,24}"
_SECRET = re.compile(
    rf"\b({_PASSWORD}(?:\s*\(\s*|-|\s+[A-Z]{{2}}\s+))(?:{_VALUE}|(?<=\()[^)]*+|[^\s()]++)", re.IGNORECASE
)


def without_secrets(text: str) -> str:
    """The text of a command, or the beginning of one, without the values of what looks like the keyword of a password,
    however it is spelled.
    """
    return _SECRET.sub(r"\1***", text)


class CommandError(Exception):
    """A command that is not carried out. `syntax_error` tells one that was never run from one that failed."""

    def __init__(self, code: str, text: str, *, syntax_error: bool = True) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = f"{code}: {text}"
        self.syntax_error = syntax_error


def segment_error(segment: str, advice: str) -> CommandError:
    """AMQ8405I: the text of the command up to the token that does not fit, a blank line, and what would have."""
    shown = without_secrets(segment.strip())
    if len(shown) > SEGMENT_LENGTH_MAX:
        shown = "..." + shown[-SEGMENT_LENGTH_MAX:]
    first = "Syntax error detected at or near end of command segment below:-"
    return CommandError("AMQ8405I", f"{first}\n{shown}\n\n{advice}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the known word nearest to a wrong one; empty when none is near."""
    if len(word) > WORD_LENGTH_MAX:
        return ""  # to compare it would take long
    nearest = get_close_matches(word.upper(), list(known), n=1)
    return f"{word}: did you mean {nearest[0]}?" if nearest else ""


def not_supported(what: str) -> CommandError:
    """EMQ0001E: IBM MQ knows this, EverMQ does not. IBM MQ has no message for it, hence an id of our own."""
    return CommandError("EMQ0001E", f"{what} is not supported by EverMQ.", syntax_error=False)


def duplicate_keyword(keyword: str) -> CommandError:
    """AMQ8411E (L14)."""
    return CommandError("AMQ8411E", f"Duplicate keyword error: {keyword} is given more than once.")


def out_of_range(keyword: str, allowed: str) -> CommandError:
    """AMQ8412E."""
    return CommandError("AMQ8412E", f"Numeric range error: {keyword} takes {allowed}.")


def too_long(keyword: str, length_max: int, length: int) -> CommandError:
    """AMQ8413E; lengths in characters."""
    return CommandError("AMQ8413E", f"String length error: {keyword} takes {length_max} characters, not {length}.")


def missing_keyword(explanation: str) -> CommandError:
    """AMQ8421E."""
    return CommandError("AMQ8421E", f"A required keyword was not specified: {explanation}.")


def bad_name(keyword: str, name: str, valid: str = "") -> CommandError:
    """AMQ8424E; `valid`: what a name is, where it is none of an object of IBM MQ."""
    follows = f" It takes {valid}." if valid else ""
    return CommandError("AMQ8424E", f"Error detected in a name keyword: {keyword}({name}).{follows}")


def bad_value(keyword: str, value: str, allowed: str) -> CommandError:
    """AMQ8425E: the value is not one that the keyword takes."""
    return CommandError("AMQ8425E", f"Attribute value error: {keyword}({value}); valid are {allowed}.")


def conflict(explanation: str, *, syntax_error: bool = False) -> CommandError:
    """AMQ8425E: each value is valid, but not beside the others."""
    return CommandError("AMQ8425E", f"Attribute value error: {explanation}.", syntax_error=syntax_error)


def not_empty() -> CommandError:
    """AMQ8143E."""
    return CommandError("AMQ8143E", "IBM MQ queue not empty.", syntax_error=False)


def not_found(name: str, why: str = "") -> CommandError:
    """AMQ8147E; `why`: what there is instead."""
    follows = f" {why}." if why else ""
    return CommandError("AMQ8147E", f"IBM MQ object {name} not found.{follows}", syntax_error=False)


def in_use(why: str = "") -> CommandError:
    """AMQ8148E: handles are open on the object, units of work on it are unfinished, or what `why` says."""
    follows = f" {why}." if why else ""
    return CommandError("AMQ8148E", f"IBM MQ object in use.{follows}", syntax_error=False)


def active(member: str) -> CommandError:
    """CSQV435I: units of work of a queue manager that runs are its own."""
    return CommandError("CSQV435I", f"QMNAME({member}) is active, command ignored.", syntax_error=False)


def already_exists(why: str = "") -> CommandError:
    """AMQ8150E; `why`: what it is, where that is not what was to be defined."""
    follows = f" {why}." if why else ""
    return CommandError("AMQ8150E", f"IBM MQ object already exists.{follows}", syntax_error=False)


def different_type() -> CommandError:
    """AMQ8151E: the name belongs to an object of another kind in the same name space."""
    return CommandError("AMQ8151E", "IBM MQ object has different type.", syntax_error=False)


def not_authorized() -> CommandError:
    """AMQ8135E: who runs the command lacks a right. The log and `explain` tell which."""
    return CommandError("AMQ8135E", "Not authorized.", syntax_error=False)


def no_configuration() -> CommandError:
    """EMQ0030E: the queue manager runs in a program, which has no file that could be read again."""
    what = "There is no configuration to read again: the queue manager runs in a program, not in a daemon."
    return CommandError("EMQ0030E", what, syntax_error=False)


def needs_administrator() -> CommandError:
    """EMQ0026E: from the first user on all have to prove who they are, so it has to be able to let others in."""
    what = (
        "The first user must be an administrator who has a password and is not disabled: GROUPS('mqm') and PASSWORD, "
        "as `evermq user add NAME --groups mqm` defines one."
    )
    return CommandError("EMQ0026E", what, syntax_error=False)


def rule_exists() -> CommandError:
    """EMQ0024E: the record of channel authentication is there already."""
    what = "Channel authentication record already exists: ACTION(REPLACE) replaces it."
    return CommandError("EMQ0024E", what, syntax_error=False)


def rule_not_found(why: str = "") -> CommandError:
    """AMQ8884E."""
    follows = f" {why}." if why else ""
    return CommandError("AMQ8884E", f"Channel authentication record not found.{follows}", syntax_error=False)
