"""The curl lines of docs/how-to/rest-messaging.md print what the page shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.http.door import doors
from tests.http.rest.test_page import ROOT, hashed, run_as_shown

if TYPE_CHECKING:
    from pathlib import Path

    from broker import QueueManager

PAGE = ROOT / "docs/how-to/rest-messaging.md"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_the_commands_of_the_page_print_what_it_shows(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        await door.command(
            f"DELETE USER('admin')\nDEFINE USER('admin') GROUPS('mqm') PASSWORD('{hashed()}')\n"
            "DEFINE QLOCAL(DEV.QUEUE.1)"
        )
        await run_as_shown(PAGE, door, tmp_path)
