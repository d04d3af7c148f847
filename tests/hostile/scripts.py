"""Scripts of commands that are much too long, much too many or no text at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.wire import Verb
from tests.hostile.scene import TARGET, Attack, queues

if TYPE_CHECKING:
    from tests.hostile.scene import Scene

_PLACE: Final = "@@@"
"""Stands in a text for bytes that are not UTF-8, as many as these are."""

_TEXTS: Final = ("* nothing\n", "DEFINE +\n", "(", "DISPLAY QMGR DESCR('a b", " ", "DIS QMGR(", "ZMQSC DISPLAY;")
"""Comments, one command over many lines, brackets, a text without an end, blanks, and commands of ZMQSC."""


async def script(scene: Scene, text: str) -> None:
    """Send one script, and read whatever it is answered with."""
    async with scene.line() as line:
        await scene.begin()
        await line.call(Verb.MQSC, text)


async def displays(scene: Scene, count: int) -> None:
    await script(scene, "DIS Q(*) ALL;" * count)


async def wrong_commands(scene: Scene, count: int) -> None:
    await script(scene, "x;" * count)


async def display(scene: Scene, count: int) -> None:
    """Display everything about as many queues as there are."""
    await script(scene, "DIS Q(*) ALL")


async def too_long(scene: Scene, count: int) -> None:
    """Send a script of so many bytes."""
    await script(scene, "x;" * (count // 2))


async def repeated(scene: Scene, count: int) -> None:
    """Send scripts of so many bytes, each the same few again and again."""
    async with scene.line() as line:
        await scene.begin()
        for text in _TEXTS:
            await line.call(Verb.MQSC, text * (count // len(text)))


async def no_text(scene: Scene, count: int) -> None:
    """Send scripts that are not UTF-8: half a surrogate pair, bytes that begin nothing, and control characters, which
    are.
    """
    await scene.begin()
    for bad in (b"\xed\xa0\x80", b"\xff\xfe\xfd", b"\xc0\x80\xc0", b"\0\x1b\r"):
        async with scene.line() as line:
            frame = line.frame(Verb.MQSC, f"DEFINE QLOCAL({TARGET}) DESCR('{_PLACE}') REPLACE")
            await line.write(frame.replace(_PLACE.encode(), bad))
            await line.final(line.calls)


async def unread_displays(scene: Scene, count: int) -> None:
    """Display a thousand queues, again and again, and read none of the answers."""
    async with scene.line() as line:
        await scene.begin()
        await line.pour([b"".join(line.frame(Verb.MQSC, "DIS Q(*) ALL") for _ in range(count))])
        await scene.handled()


DISPLAYS: Final = Attack(
    name="displays",
    title="a script of {count} DISPLAY QUEUE(*) ALL",
    run=displays,
    count=1_000,
    definitions=queues(1_000),
)

WRONG_COMMANDS: Final = Attack(
    name="wrong-commands",
    title="a script of {count} wrong commands",
    run=wrong_commands,
    count=128 * 1024,
)

DISPLAY: Final = Attack(
    name="display",
    title="DISPLAY QUEUE(*) ALL with {count} queues",
    run=display,
    count=3_000,
    definitions=queues(3_000),
)

ATTACKS: Final = (
    DISPLAYS,
    WRONG_COMMANDS,
    DISPLAY,
    Attack(
        name="unread displays",
        title="{count} x DISPLAY QUEUE(*) ALL not read",
        run=unread_displays,
        count=50,
        definitions=queues(1_000),
    ),
    Attack(name="too long", title="a script of {count} bytes", run=too_long, count=16 * 1024 * 1024),
    Attack(name="repeated", title="{count} bytes of brackets, of blanks and of others", run=repeated, count=256 * 1024),
    Attack(name="no text", title="scripts that are not UTF-8", run=no_text),
)
