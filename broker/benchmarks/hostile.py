"""Strangers who would stop the queue manager or fill it, and what a second client sees meanwhile.

A handful of the attacks that `tests/hostile` holds it to, as figures: the longest that a put or a get of the second
client took, from the moment when it was due.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.benchmarks.bystander import BYSTANDER_DEFINITIONS, stand_by
from broker.benchmarks.child import MeasurementError, child
from broker.benchmarks.rawline import getting, packed, putting, waiting
from broker.benchmarks.scene import Attack, watched
from broker.benchmarks.workload import Measured, Unit, Workload
from broker.mqi import MQFMT, MQGMO, MQMO, MQOO, MessageDescriptor
from broker.mqi.rfh2 import FORMAT, MQRFH2
from broker.wire import Verb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from broker.benchmarks.rawline import RawLine
    from broker.benchmarks.scene import Scene
    from broker.benchmarks.workload import Trial

TARGET: Final = "TARGET"

TARGET_DEFINITIONS: Final = f"DEFINE QLOCAL({TARGET}) DEFPSIST(NO) MAXDEPTH(999999999) REPLACE\n"

LARGE: Final = 4_000_000
"""Bytes of a large message, a little less than MAXMSGL is by default."""


def queues(count: int) -> str:
    """The definitions of many queues."""
    return "".join(f"DEFINE QLOCAL({TARGET}.{number}) REPLACE\n" for number in range(count))


async def script(scene: Scene, text: str) -> None:
    """Send one script, and read whatever it is answered with."""
    async with scene.line() as line:
        await scene.begin()
        await line.call(Verb.MQSC, text)


async def displays(scene: Scene, count: int) -> None:
    await script(scene, "DIS Q(*) ALL;" * count)


async def wrong_commands(scene: Scene, count: int) -> None:
    await script(scene, "x;" * count)


async def header_chain(scene: Scene, count: int) -> None:
    """Put a message that is all headers, and get it."""
    data = MQRFH2(format=FORMAT).to_bytes() * (count - 1) + MQRFH2(format=MQFMT.STRING).to_bytes()
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.INPUT_SHARED | MQOO.OUTPUT)
        await scene.begin()
        await line.call(Verb.PUT, handle, packed(MessageDescriptor(format=FORMAT)), putting(), data)
        await line.call(Verb.GET, handle, None, getting(MQGMO.NO_WAIT), None)


async def unread_browses(scene: Scene, count: int) -> None:
    """Browse a message of 4 MB but for its last byte, again and again, and read none of the answers."""
    await browse_unread(scene, count, None, getting(MQGMO.BROWSE_FIRST | MQGMO.ACCEPT_TRUNCATED_MSG), LARGE - 1)


async def browse_unread(scene: Scene, count: int, *items: object) -> None:
    """Make gets with these items on a queue with one large message, and read none of the answers."""
    await scene.fill(TARGET, [b"a" * LARGE], MessageDescriptor(format=MQFMT.STRING))
    async with scene.line() as line:
        handle = await line.open(TARGET, MQOO.BROWSE)
        await scene.begin()
        await line.pour([b"".join(line.frame(Verb.GET, handle, *items) for _ in range(count))])
        await scene.heeded()


async def cut_trigger_waits(scene: Scene, count: int) -> None:
    """Wait for triggers on many conversations of one line, and cut it."""
    async with scene.line() as line:
        numbers = range(2, count + 2)
        await line.write(b"".join(line.connect(number) for number in numbers))
        await line.final(line.calls)
        waits = (line.frame(Verb.TRIGGER_WAIT, 2**40, conversation=number) for _ in range(20) for number in numbers)
        await line.write(b"".join(waits))
        await line.answer(Verb.COMMIT)
        await scene.begin()
    await scene.heeded()


async def getters_wait_in_vain(
    scene: Scene, count: int, gets: Callable[[RawLine, int], Awaitable[Iterable[bytes]]]
) -> None:
    """Have many gets wait, and put messages that none of them waits for."""
    async with scene.line() as line:
        await line.write(b"".join(await gets(line, count)))
        target = await line.open(TARGET, MQOO.OUTPUT)
        await scene.begin()
        puts = [line.frame(Verb.PUT, target, None, putting(), b"for nobody") for _ in range(500)]
        await line.write(b"".join(puts))
        await line.final(line.calls)


async def by_group(line: RawLine, count: int) -> Iterable[bytes]:
    handle = await line.open(TARGET)
    groups = (MessageDescriptor(group_id=number.to_bytes(24, "big")) for number in range(1, count + 1))
    return (line.frame(Verb.GET, handle, *waiting(group, MQMO.MATCH_GROUP_ID), None) for group in groups)


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

HEADER_CHAIN: Final = Attack(
    name="headers",
    title="a message of {count} MQRFH2",
    run=header_chain,
    count=40_000,
    definitions=TARGET_DEFINITIONS,
)

UNREAD_BROWSES: Final = Attack(
    name="unread",
    title="{count} browses of 4 MB not read",
    run=unread_browses,
    count=200,
    definitions=TARGET_DEFINITIONS,
)

CUT_TRIGGER_WAITS: Final = Attack(
    name="cut",
    title="a line with {count} conversations cut",
    run=cut_trigger_waits,
    count=2_000,
)

GETTERS_BY_GROUP: Final = Attack(
    name="getters",
    title="500 puts beside {count} gets by GroupId",
    run=partial(getters_wait_in_vain, gets=by_group),
    count=10_000,
    definitions=TARGET_DEFINITIONS,
)

ATTACKS: Final = (DISPLAYS, WRONG_COMMANDS, HEADER_CHAIN, UNREAD_BROWSES, CUT_TRIGGER_WAITS, GETTERS_BY_GROUP)


async def _worst(trial: Trial, attack: Attack) -> Measured:
    async with child(stand_by) as bystander:
        seen = await watched(replace(attack, count=trial.count), trial.daemon.url, trial.daemon.pid, bystander)
    if seen.complaints:
        raise MeasurementError("; ".join(seen.complaints))
    return Measured(value=seen.worst_ms, details={"peak_mib": seen.peak_mib})


def _workload(attack: Attack) -> Workload:
    return Workload(
        name=f"hostile-{attack.name}",
        title=f"worst put or get beside {attack.title}",
        unit=Unit.MILLISECONDS,
        sizes=(256,),
        count=attack.count,
        run=partial(_worst, attack=attack),
        ways=lambda count: ({"round-trip": 1, "commit": 1},),
        definitions=BYSTANDER_DEFINITIONS + attack.definitions,
        settings={"EVERMQ_LOGGING_LEVEL": "ERROR", **attack.settings},
    )


HOSTILE: Final = tuple(map(_workload, ATTACKS))
