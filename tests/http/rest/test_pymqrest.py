"""A client of IBM MQ's REST API that is not ours: `pymqrest`, in an environment of its own, which
EVERMQ_PYMQREST_PYTHON names; `.ci/full` makes it where there is a Python 3.12.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import pytest

from broker.commands.language.words import COMMANDS
from tests.http.door import doors

if TYPE_CHECKING:
    from broker import QueueManager

PYTHON = os.environ.get("EVERMQ_PYMQREST_PYTHON", "")


@pytest.mark.skipif(not PYTHON, reason="needs EVERMQ_PYMQREST_PYTHON, a Python 3.12 with pymqrest")
async def test_every_call_of_pymqrest_is_answered(manager: QueueManager, monkeypatch: pytest.MonkeyPatch) -> None:
    async with doors(manager, monkeypatch, by_url=False) as door:
        url = f"http://127.0.0.1:{door.port}/ibmmq/rest/v2"
        words = [PYTHON, str(Path(__file__).parent / "pymqrest_calls.py"), url, "root", "secret"]
        ran = await anyio.to_thread.run_sync(
            lambda: subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
        )
    *calls, ensured = map(json.loads, ran.stdout.splitlines())
    assert len(calls) >= 140
    for each in calls:
        assert each["status"] == 200, each
        if not is_here(each["sent"]):
            (element,) = each["answer"]["commandResponse"]
            assert element["completionCode"] == 2, each
            assert element["reasonCode"] == 2298 or element["message"][0].startswith("AMQ8405I"), each
    done = {each["call"] for each in calls if each["outcome"] == "done"}
    assert done >= {
        "define_qlocal", "alter_qlocal", "display_queue", "clear_qlocal", "delete_qlocal", "define_qalias",
        "define_qremote", "define_qmodel", "define_process", "display_process", "delete_process", "display_qmgr",
        "alter_qmgr", "define_channel", "display_channel", "alter_channel", "set_chlauth", "display_chlauth",
        "set_authrec", "display_authrec", "delete_authrec", "define_authinfo", "display_authinfo",
    }, sorted(done)  # fmt: skip
    assert ("CREATED" in ensured["ensured"], "UNCHANGED" in ensured["again"]) == (True, True), ensured


def is_here(sent: dict[str, Any]) -> bool:
    """True for a command that there is."""
    return sent["qualifier"] in COMMANDS.get(sent["command"], ())
