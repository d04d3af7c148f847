"""The reply of the command server to one MQSC command."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReply:
    """What a command did.

    `code` is the AMQ message id ("AMQ8006I"); `text` is the whole reply as runmqsc prints it, without the echo of the
    command. `syntax_error` tells a command that was never run from one that failed. `attributes` holds, for DISPLAY,
    one dictionary an object: MQSC keywords in upper case, numbers as int, flags such as TRIGGER as bool. `warnings` are
    lines of `text` about attributes that the command has set and that are kept without being acted on; the command did
    its work all the same. Each is told once a script.
    """

    code: str
    text: str
    ok: bool = True
    syntax_error: bool = False
    attributes: tuple[dict[str, int | str | bool], ...] = field(default=())
    warnings: tuple[str, ...] = ()
