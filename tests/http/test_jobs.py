"""`/jobs/QUEUE/ID`: what has become of a message, by HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from broker.mqi import MQGMO, MQOO
from tests.http.rest.messaging.conftest import anyio_backend, error_of, refusal, rest, way

if TYPE_CHECKING:
    from typing import Any

    from tests.http.rest.messaging.conftest import Rest

__all__ = ["anyio_backend", "rest", "way"]

ABSENT = "414d5120" + "0" * 40


async def job(rest: Rest, q_name: str, id: str, query: str = "") -> Any:
    answer = await rest.ask("GET", f"/jobs/{q_name}/{id}{query}")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json; charset=utf-8")
    assert answer.headers["cache-control"].startswith("no-cache")
    return json.loads(answer.text)


async def test_a_message_waits_runs_and_is_gone(rest: Rest) -> None:
    put = (await rest.put("Q")).headers["ibm-mq-md-messageid"]
    assert await job(rest, "Q", put) == {"state": "waiting", "queue": "Q", "id": put}
    assert (await job(rest, "Q", f"ID:{put.upper()}"))["id"] == put
    assert (await job(rest, "A", put))["queue"] == "Q"
    async with rest.owner.open("Q", MQOO.INPUT_SHARED) as queue:
        await queue.get(options=MQGMO.SYNCPOINT)
        running = await job(rest, "Q", put)
        assert running["state"] == "running"
        assert "where" not in running  # DSP on the queue manager would tell
        assert running["since"] > 1.7e9
        await rest.owner.commit()
    assert await job(rest, "Q", put) == {"state": "gone", "queue": "Q", "id": put}


async def test_a_delivery_in_hand_is_running(rest: Rest) -> None:
    rest.user = "root"
    put = (await rest.put("Q")).headers["ibm-mq-md-messageid"]
    await rest.ask("POST", rest.url("Q", "delivery"))
    assert (await job(rest, "Q", put))["where"] == "evermq http"


async def test_a_slash_in_the_name_of_a_queue_is_encoded(rest: Rest) -> None:
    put = (await rest.put("DEV/Q1")).headers["ibm-mq-md-messageid"]
    assert (await job(rest, "DEV%2FQ1", put))["queue"] == "DEV/Q1"
    assert refusal(await rest.ask("GET", f"/jobs/DEV/Q1/{put}")) == (404, 0)


async def test_a_delayed_message_tells_until_when(rest: Rest) -> None:
    put = await rest.owner.put1("Q", b"A", delay=60)
    assert await job(rest, "Q", put.md.msg_id.hex()) == {
        "state": "delayed",
        "queue": "Q",
        "id": put.md.msg_id.hex(),
        "until": put.deliver_at,
    }


async def test_what_is_no_job_is_told(rest: Rest) -> None:
    assert refusal(await rest.ask("GET", f"/jobs/NONE/{ABSENT}")) == (404, 2085)
    for id in ("zz", ABSENT[1:], "0" * 48, "ID:"):
        assert refusal(await rest.ask("GET", f"/jobs/Q/{id}")) == (400, 0)
    for query in ("?wait=1", "?history=Q&history=Q"):
        assert refusal(await rest.ask("GET", f"/jobs/Q/{ABSENT}{query}")) == (400, 0)
    answer = await rest.ask("POST", f"/jobs/Q/{ABSENT}")
    assert refusal(answer) == (405, 0)
    assert answer.headers["allow"] == "GET, HEAD"
    assert (await rest.ask("HEAD", f"/jobs/Q/{ABSENT}")).status == 200


async def test_it_wants_a_user_who_may_browse(rest: Rest) -> None:
    put = (await rest.put("Q")).headers["ibm-mq-md-messageid"]
    rest.user = "other"
    assert refusal(await rest.ask("GET", f"/jobs/Q/{put}")) == (403, 2035)
    rest.user = "nobody"
    answer = await rest.ask("GET", f"/jobs/Q/{put}")
    assert answer.status == 401
    assert error_of(answer)["msgId"] == "MQWB0104E"
