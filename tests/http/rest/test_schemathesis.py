"""Requests that schemathesis makes of /openapi.json: no status, header or body that the text does not list, no answer
500 without a reason of the queue manager, no traceback in the log.
"""

from __future__ import annotations

import threading
from queue import Queue
from typing import TYPE_CHECKING, Any

import anyio
import anyio.from_thread
import pytest

from broker import QueueManager
from tests.http.door import doors

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis comes with the extra `full`")

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = 40
NAMES = {"qmgr": "QM1", "queue": "Q"}
"""Names that are there, in the place of most that are made up."""

MINE = r"^/(ibmmq/rest|jobs|livez|readyz|metrics)"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a server in a thread of its own: schemathesis waits for its answers."""
    ready: Queue[int] = Queue()
    over = threading.Event()

    async def serve() -> None:
        patch = pytest.MonkeyPatch()
        try:
            async with QueueManager.open(name="QM1", defaults="mq") as manager:
                async with manager.connect() as owner:
                    await owner.mqsc("DEFINE QLOCAL(Q)")
                async with doors(manager, patch, by_url=False) as door:
                    ready.put(door.port)
                    while not over.is_set():  # noqa: ASYNC110  # it is set by another thread
                        await anyio.sleep(0.05)
        finally:
            patch.undo()

    thread = threading.Thread(target=anyio.run, args=(serve,))
    thread.start()
    try:
        yield ready.get(timeout=30)
    finally:
        over.set()
        thread.join()


def operations(port: int, user: str) -> Any:
    """The operations, whose requests a user makes."""
    schema = schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/openapi.json")
    schema.config.generation.update(max_examples=EXAMPLES)
    return schema.include(path_regex=MINE)


@pytest.mark.parametrize("user", ["root", "reader"])
def test_no_answer_is_one_that_the_text_does_not_list(port: int, user: str, caplog: pytest.LogCaptureFixture) -> None:
    from hypothesis import HealthCheck, Phase, given, settings
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_headers_conformance,
        response_schema_conformance,
        status_code_conformance,
    )

    checks = [
        status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance
    ]  # fmt: skip
    seen: dict[int, int] = {}
    for result in operations(port, user).get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate],
            database=None,
        )  # fmt: skip
        @given(case=operation.as_strategy())
        def made(case: Any) -> None:
            for name, value in NAMES.items():
                if name in case.path_parameters and len(case.path_parameters[name]) % 4:
                    case.path_parameters[name] = value
            if "wait" in (case.query or {}):
                case.query["wait"] = min(case.query["wait"], 10)  # nobody puts anything meanwhile
            response = case.call(auth=(user, "secret"))
            seen[response.status_code] = seen.get(response.status_code, 0) + 1
            case.validate_response(response, checks=checks)
            if response.status_code == 500:
                assert response.json()["error"][0]["reasonCode"] not in (0, 2195), response.text

        made()
    assert seen.keys() >= {200, 204, 400, 404, 401} | ({403} if user == "reader" else set()), seen
    assert seen[200] > 4 * EXAMPLES
    assert "Traceback" not in caplog.text
    assert "REST call failed" not in caplog.text
