"""The worked exchange by clients that are not ours: curl, and fetch of Node.js (rest 11)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.http.client import answer_of

if TYPE_CHECKING:
    from tests.http.client import Answer
    from tests.http.rest.messaging.conftest import Rest

CURL, NODE = shutil.which("curl"), shutil.which("node")
EXCHANGE = Path(__file__).with_name("exchange.mjs")


async def said(rest: Rest, *arguments: str) -> Answer:
    """Return the answer of a server to curl, head and body."""
    assert CURL is not None
    command = [CURL, "--silent", "--show-error", "--include", "--user", "app:secret", *arguments]
    url = f"http://localhost:{rest.port}"
    done = await anyio.run_process([each.replace("URL", url) for each in command], stderr=PIPE)
    return answer_of(done.stdout)


def check(answers: list[Any], again: Any) -> None:
    put, seen, got, nothing = answers
    assert [each["status"] for each in answers] == [201, 200, 200, 204]
    id = put["headers"]["ibm-mq-md-messageid"]
    assert bytes.fromhex(id)[:16] == b"AMQ QM1         "
    assert (put["headers"]["content-language"], put["headers"]["content-length"]) == ("en-US", "0")
    assert put["headers"]["content-type"] == "text/plain; charset=utf-8"
    for each in (seen, got):
        assert (each["text"], each["headers"]["ibm-mq-md-messageid"]) == ("Hello", id)
        assert each["headers"]["ibm-mq-md-persistence"] == "nonPersistent"
        assert 110_000 < int(each["headers"]["ibm-mq-md-expiry"]) <= 120_000
        assert each["headers"]["content-type"] == "text/plain; charset=utf-8"
    assert nothing["text"] == ""
    assert again["status"] == 403
    assert json.loads(again["text"])["error"][0]["type"] == "rest"


@pytest.mark.skipif(NODE is None, reason="needs Node.js")
async def test_rest_11_the_exchange_by_a_javascript_client(rest: Rest) -> None:
    assert NODE is not None
    await rest.run("ALTER QLOCAL(Q) DEFPSIST(YES)")
    url = f"http://localhost:{rest.port}{rest.url('Q', 'message')}"
    done = await anyio.run_process([NODE, str(EXCHANGE), url, "app", "secret"], stderr=PIPE)
    *answers, again = json.loads(done.stdout)
    check(answers, again)
    assert await rest.depth("Q") == 0


@pytest.mark.skipif(CURL is None, reason="needs curl")
async def test_rest_11_the_exchange_by_curl(rest: Rest) -> None:
    await rest.run("ALTER QLOCAL(Q) DEFPSIST(YES)")
    url = "URL" + rest.url("Q", "message")
    csrf = ("-H", "ibm-mq-rest-csrf-token: blank")
    text = ("-H", "Content-Type: text/plain;charset=utf-8", "-H", "ibm-mq-md-expiry: 120000", "--data", "Hello")
    answers = [
        await said(rest, *csrf, *text, url),
        await said(rest, url),
        await said(rest, "-X", "DELETE", *csrf, f"{url}?wait=1000"),
        await said(rest, "-X", "DELETE", *csrf, url),
        await said(rest, *text, url),
    ]
    *told, again = [each._asdict() for each in answers]
    check(told, again)


@pytest.mark.skipif(CURL is None, reason="needs curl")
async def test_curl_sends_no_long_body_that_is_refused(rest: Rest, tmp_path: Path) -> None:
    await rest.run("ALTER QLOCAL(Q) MAXMSGL(1000)")
    body = tmp_path / "body"
    await anyio.Path(body).write_bytes(b"x" * 5_000_000)
    csrf = ("-H", "ibm-mq-rest-csrf-token: blank", "-H", "Content-Type: text/plain")
    answer = await said(rest, *csrf, "--data-binary", f"@{body}", "URL" + rest.url("Q", "message"))
    assert (answer.status, json.loads(answer.text)["error"][0]["reasonCode"]) == (500, 2030)
