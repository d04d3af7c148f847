"""runCommand: a command of MQSC as it is typed, judged as the caller's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from broker.commands.language.script import commands_of
from broker.http.rest.errors import NOT_VALID, refused

if TYPE_CHECKING:
    from broker.http.rest.errors import RestError

_DISPLAYS = re.compile(r"(?:ZMQSC\s+DIS[A-Z]*|DISPLAY|DIS)(?![A-Za-z0-9])", re.IGNORECASE)


def not_valid(message: str) -> RestError:
    """Return the error of a body that asks for nothing that could be done (400)."""
    return refused(400, NOT_VALID, message)


def command_of(body: dict[str, Any]) -> str:
    """Return the one command of a request. Raises RestError (400)."""
    unknown = body.keys() - {"type", "parameters"}
    if unknown:
        raise not_valid(f"{_listed(unknown)} is nothing that runCommand has: type and parameters are.")
    parameters = body.get("parameters")
    if not isinstance(parameters, dict):
        raise not_valid("The required 'parameters' is missing, or is no object.")
    if parameters.keys() - {"command"}:
        raise not_valid(f"{_listed(parameters.keys() - {'command'})} is no parameter of runCommand: 'command' is.")
    text = parameters.get("command")
    if not isinstance(text, str):
        raise not_valid("The required parameter 'command' is missing, or is no text.")
    commands = commands_of(text)
    if len(commands) != 1:
        raise not_valid(f"The parameter 'command' is one complete command, not {len(commands) or 'none'}.")
    return commands[0]


def displays(command: str) -> bool:
    """True if a command displays something, and changes nothing."""
    return _DISPLAYS.match(command) is not None


def _listed(names: set[str]) -> str:
    return ", ".join(repr(each[:48]) for each in sorted(names)[:5])
