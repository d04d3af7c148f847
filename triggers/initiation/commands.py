"""Commands that trigger messages start, as runmqtrm starts them.

The command string is ApplId, a blank, the MQTMC2 in double quotes, a blank, and EnvData without the blanks behind it;
`/bin/sh` runs it. ApplId and EnvData are the administrator's, and mean to the shell what they say. The MQTMC2 contains
texts that others choose: the characters that mean something between double quotes are escaped in it, so that the
program is given the 732 bytes as its first argument, whatever they are.

A `&` at the end of EnvData lets the monitor go on at once. The shell does not see it: the command is waited for beside
the monitor, so that it too is bounded in number and time, and that a command which cannot be started is reported.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.abc import Process

    from broker import Clock
    from broker.mqi import MQTM, MQTMC2

logger = logging.getLogger(__name__)

SHELL: Final = "/bin/sh"

NOT_STARTED: Final = frozenset({126, 127})
"""The exit codes by which a shell says that it could not start the command."""

KILL_AFTER: Final = 5.0
"""Seconds that a command has to end when it was told to."""

_LIVE: Final = re.compile(rb'[$`"\\]')
_IN_BACKGROUND: Final = re.compile(r"(?<![\\&])&$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """That trigger messages of APPLTYPE(UNIX) may start commands, and within which bounds.

    Whoever may put on the initiation queue, or define processes, then runs commands as the user of this program.

    - `timeout`: seconds that a command may run; then it is told to end (SIGTERM), and killed 5 seconds later. 0: any.
    - `max_background`: commands in the background at a time. With as many the monitor waits until one has ended.
    """

    timeout: float = 3600.0
    max_background: int = 10

    def __post_init__(self) -> None:
        if not self.timeout >= 0:
            raise ValueError(f"timeout={self.timeout}: must be 0 seconds or more")
        if self.max_background < 1:
            raise ValueError(f"max_background={self.max_background}: must be at least 1")


def in_background(trigger: MQTM) -> bool:
    """True if the monitor is not to wait for the command."""
    return _IN_BACKGROUND.search(trigger.env_data) is not None


def command_string(trigger: MQTM, argument: MQTMC2) -> bytes:
    """Return the line for the shell. Raises ValueError for a NUL in it, which no argument of a command can have."""
    quoted = _LIVE.sub(rb"\\\g<0>", bytes(argument))
    env_data = _IN_BACKGROUND.sub("", trigger.env_data).rstrip()
    line = b'%b "%b" %b' % (trigger.appl_id.encode(), quoted, env_data.encode())
    if b"\0" in line:
        raise ValueError("there is a NUL character in the trigger message")
    return line


async def run(line: bytes, timeout: float, clock: Clock) -> int:
    """Run a command to its end and return its exit code, below 0 for the signal that ended it.

    It is a process group of its own, with the output of this program and no input. After `timeout` seconds, and when
    the caller is cancelled, it is ended. Raises OSError when there is no process for it.
    """
    process = await anyio.open_process(
        [SHELL, "-c", line], stdin=subprocess.DEVNULL, stdout=None, stderr=None, start_new_session=True
    )
    async with process:
        try:
            with _ending(process, timeout, clock):
                return await process.wait()
        except BaseException:
            with anyio.CancelScope(shield=True), _killing(process, clock):
                await process.wait()
            raise


@contextmanager
def _ending(process: Process, timeout: float, clock: Clock) -> Iterator[None]:
    """Tell the process to end when it has run for too long."""

    def end() -> None:
        logger.warning(
            "a command has run for %.0f s and is ended: pid=%d",
            timeout,
            process.pid,
            extra={"event": "command_timed_out"},
        )
        _signal(process, signal.SIGTERM)

    timers = [clock.call_later(timeout, end)] if timeout else []
    timers += [clock.call_later(timeout + KILL_AFTER, lambda: _signal(process, signal.SIGKILL))] if timeout else []
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


@contextmanager
def _killing(process: Process, clock: Clock) -> Iterator[None]:
    """Tell the process to end now."""
    _signal(process, signal.SIGTERM)
    timer = clock.call_later(KILL_AFTER, lambda: _signal(process, signal.SIGKILL))
    try:
        yield
    finally:
        timer.cancel()


def _signal(process: Process, number: signal.Signals) -> None:
    """To the whole group: the shell may have made a process for the command."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
