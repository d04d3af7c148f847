"""The programs on pages that do not stand there whole, in what surrounds them: each is run from its page's text."""

from __future__ import annotations

import re
from contextlib import ExitStack
from textwrap import indent
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest

from tests.examples.processes import ROOT
from tests.examples.test_readme import ADDRESS, blocks

if TYPE_CHECKING:
    from tests.examples.processes import Shell


class Fragment(NamedTuple):
    """The first program of a page, what surrounds it, with `...` in its place, and what all of that prints."""

    page: str
    around: str
    prints: str


IN_A_MANAGER: Final = """
import asyncio
from datetime import UTC, datetime

from broker import QueueManager
from broker.mqi import MQGMO, MQOO, MessageDescriptor

async def main():
    lines = ["one", "two", "three"]
    async with QueueManager.open(name="QM1") as manager, manager.connect() as connection:
        await connection.mqsc("DEFINE QLOCAL(LINES)\\nDEFINE QLOCAL(LINES.PUT)\\nDEFINE QLOCAL(LINES.GOT)", check=True)
        await connection.mqsc("DEFINE QLOCAL(ORDERS)", check=True)
        async with connection.open("ORDERS", MQOO.OUTPUT | MQOO.INPUT_SHARED | MQOO.BROWSE) as queue:
            ...
            print(*[(await connection.mqsc(f"DISPLAY QLOCAL({name}) CURDEPTH"))[0].attributes[0]["CURDEPTH"]
                    for name in ("LINES", "ORDERS")])

asyncio.run(main())
"""

IN_A_TEST: Final = """
import asyncio

...

async def main():
    async with app.test() as t:
        await t.advance("1d")
        handled = [event.queue for event in t.events if event.outcome == "done"]
        print(handled.count("PERIODIC.SHOP.REFRESH.RUN"), handled.count("PERIODIC.SHOP.REPORT.RUN"))

asyncio.run(main())
"""

AN_ORDER_THAT_FAILS: Final = """
import asyncio

...

async def main():
    async with app.test() as t:
        await t.put("ORDERS", {"count": 1})
        await t.put("ORDERS", {"count": 0})
        with t.failures() as failures:
            await t.idle()
        print(*failures, *[event.outcome for event in t.events])

asyncio.run(main())
"""

BESIDE_A_DAEMON: Final = """
import asyncio
import broker
from broker.mqi import Outcome, Settlement

async def main():
    async with broker.connect("mq://127.0.0.1:1414") as admin:
        await admin.mqsc("DEFINE PROCESS(P)\\nDEFINE QLOCAL(ORDERS) TRIGGER TRIGTYPE(EVERY) PROCESS(P)", check=True)
        for body in ("chair", "table"):
            await admin.put1("ORDERS", body)
        ...
        print(*[queue["depth"] for queue in (await admin.status())["queues"] if queue["name"] == "ORDERS"])

asyncio.run(main())
"""

FRAGMENTS: Final = [
    Fragment("how-to/groups", IN_A_MANAGER, "0 0\n"),
    Fragment("rules/handlers", IN_A_MANAGER, "0 1\n"),
    Fragment("how-to/periodic", IN_A_TEST, "288 1\n"),
    Fragment("how-to/console", AN_ORDER_THAT_FAILS, "nothing to ship done dead\n"),
    Fragment("how-to/workers", BESIDE_A_DAEMON, "0\n"),
]


@pytest.mark.parametrize("fragment", FRAGMENTS, ids=lambda fragment: fragment.page)
def test_a_program_of_a_page_does_what_it_says(shell: Shell, fragment: Fragment) -> None:
    page = blocks((ROOT / "docs" / f"{fragment.page}.md").read_text("utf-8"))
    program = next(block.text for block in page if block.language == "python")
    text = re.sub(r"^( *)\.\.\.$", lambda dots: indent(program, dots[1]), fragment.around, count=1, flags=re.MULTILINE)
    with ExitStack() as stack:
        if fragment.around is BESIDE_A_DAEMON:
            text = text.replace(ADDRESS, stack.enter_context(shell.daemon("evermq run")).address)
        (shell.folder / "program.py").write_text(text, "utf-8")
        assert shell.run("python program.py") == fragment.prints
