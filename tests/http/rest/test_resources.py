"""The queue manager, the installation and the queues of version 1 by REST (rest 8)."""

from __future__ import annotations

import json
import platform
import re
from typing import TYPE_CHECKING, Any

from broker import QueueManager, __version__
from broker.http.served_manager import ManagerInProcess
from tests.http.door import CSRF, Door, basic, doors
from tests.http.rest.test_login import error_of

if TYPE_CHECKING:
    import pytest

V2 = "/ibmmq/rest/v2/admin"
V1 = "/ibmmq/rest/v1/admin"


async def got(door: Door, path: str, user: str = "root") -> Any:
    answer = await door.ask(path, basic(user))
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json; charset=utf-8"), answer.text
    return json.loads(answer.text)


async def test_rest_8_the_queue_manager_is_the_only_one_and_runs(door: Door) -> None:
    for path in ("qmgr", "qmgr/QM1"):
        assert await got(door, f"{V2}/{path}", "bob") == {"qmgr": [{"name": "QM1", "state": "running"}]}
    answer = await door.ask(f"{V2}/qmgr/QM2", basic("bob"))
    assert error_of(answer) == (404, "MQWB0009E")
    assert error_of(await door.ask(f"{V2}/qmgr/qm1", basic("bob"))) == (404, "MQWB0009E"), "names have a case"


async def test_rest_8_more_of_the_queue_manager_for_who_asks(door: Door) -> None:
    (told,) = (await got(door, f"{V2}/qmgr?attributes=*&status=*"))["qmgr"]
    assert told["extended"] == {
        "installationName": "Installation1", "isDefaultQmgr": True, "permitStandby": "notPermitted"
    }  # fmt: skip
    assert told["status"]["connectionCount"] >= 1
    assert told["status"]["channelInitiatorState"] == "running"
    answer = await door.ask(f"{V2}/qmgr?status=*", basic("bob"))
    assert error_of(answer) == (403, "MQWB0004E"), "it takes dsp on the queue manager"
    for query in ("attributes=x", "name=QM1", "status=*&status=*"):
        assert error_of(await door.ask(f"{V2}/qmgr?{query}", basic("root"))) == (400, "MQWB0120E")


async def test_rest_8_a_queue_manager_that_ends_is_told_so_with_200(door: Door) -> None:
    cookie = await door.log_in("bob")
    await door.manager.quiesce(0)
    for who in (cookie, basic("bob")):
        answer = await door.ask(f"{V2}/qmgr", who)
        if answer.status == 200:
            (told,) = json.loads(answer.text)["qmgr"]
            assert told["state"] in ("quiescing", "running", "ended")
    assert (await door.ask(f"{V2}/qmgr", cookie)).status == 200


async def test_rest_8_a_queue_manager_that_has_stopped_is_told_so_with_200(
    manager: QueueManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing: dict[str, str] = {}
    monkeypatch.setattr(ManagerInProcess, "failing_checks", lambda self, *, ready: failing)
    async with doors(manager, monkeypatch, by_url=False) as door:
        for check, state in (("connection", "ended"), ("quiescing", "quiescing")):
            failing.clear()
            failing[check] = "why"
            told = await got(door, f"{V2}/qmgr?status=*")
            assert told["qmgr"][0] == {
                "name": "QM1", "state": state,
                "status": {"channelInitiatorState": "stopped", "connectionCount": 0},
            }  # fmt: skip


async def test_rest_8_the_installation_is_there_for_who_has_credentials(door: Door) -> None:
    for path in ("installation", "installation/Installation1"):
        (told,) = (await got(door, f"{V2}/{path}", "reader"))["installation"]
        assert told == {"name": "Installation1", "platform": "unix", "version": f"{__version__}.0"}
    (told,) = (await got(door, f"{V2}/installation?attributes=*"))["installation"]
    assert told["extended"]["operatingSystem"] == platform.system()
    assert error_of(await door.ask(f"{V2}/installation")) == (401, "MQWB0104E")
    assert error_of(await door.ask(f"{V2}/installation/Other", basic("bob"))) == (404, "MQWB0103E")
    answer = await door.ask(f"{V2}/installation", basic("bob"), CSRF, method="DELETE")
    assert (error_of(answer), answer.headers["allow"]) == ((405, "MQWB0103E"), "GET")


async def test_rest_8_queues_as_version_1_has_them(door: Door) -> None:
    await door.command(
        "DEFINE QLOCAL(DEV/Q1)\nDEFINE QALIAS(DEV/A) TARGET(Q)\nDEFINE QREMOTE(DEV/R) RNAME(X) RQMNAME(Y)"
    )
    async with door.manager.connect() as owner:
        await owner.put1("DEV/Q1", b"A")
    told = await got(door, f"{V1}/qmgr/QM1/queue?name=DEV*&status=status.currentDepth")
    assert told == {
        "queue": [
            {"name": "DEV/A", "type": "alias"},
            {"name": "DEV/Q1", "type": "local", "status": {"currentDepth": 1}},
            {"name": "DEV/R", "type": "remote"},
        ]
    }
    assert await got(door, f"{V1}/qmgr/QM1/queue/DEV%2FQ1?status=*") == {
        "queue": [
            {
                "name": "DEV/Q1",
                "type": "local",
                "status": {"currentDepth": 1, "openInputCount": 0, "openOutputCount": 0},
            }
        ]
    }
    assert await got(door, f"{V1}/qmgr/QM1/queue?name=DEV*&type=remote") == {
        "queue": [{"name": "DEV/R", "type": "remote"}]
    }  # fmt: skip
    assert await got(door, f"{V1}/qmgr/QM1/queue?name=NONE*") == {"queue": []}


async def test_rest_8_a_queue_that_is_not_there_has_ibms_identifier(door: Door) -> None:
    for name in ("FAKE.QUEUE", "q", "it's", "%00", "a%20b", "x" * 60):
        answer = await door.ask(f"{V1}/qmgr/QM1/queue/{name}", basic("root"))
        assert error_of(answer) == (404, "MQWB0037E"), name
        (error,) = json.loads(answer.text)["error"]
        assert (error["reasonCode"], error["type"]) == (3312, "pcf")


async def test_rest_8_what_version_1_does_not_have_here_is_told(door: Door) -> None:
    for query in ("status=status.x", "attributes=*", "type=x", "name=A&name=B"):
        assert error_of(await door.ask(f"{V1}/qmgr/QM1/queue?{query}", basic("root"))) == (400, "MQWB0120E"), query
    answer = await door.ask(f"{V1}/qmgr/QM1/queue", basic("root"), CSRF, method="POST", body={"name": "A"})
    assert error_of(answer) == (405, "MQWB0103E")
    for path in (f"{V2}/qmgr/QM1/queue", f"{V2}/qmgr/QM1/channel", f"{V1}/qmgr/QM1/queue/a/b", f"{V2}/nothing", V2):
        assert error_of(await door.ask(path, basic("root"))) == (404, "MQWB0103E"), path
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", __version__)
