"""Commands by REST: as text and as JSON (rest 2, 6, 7)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from broker.http.rest.administration.json_command import JsonCommand
from broker.http.rest.administration.replies import as_json, as_text
from broker.http.rest.errors import RestError
from broker.mqi import CommandReply
from tests.http.door import CSRF, Door, basic
from tests.http.rest.test_login import error_of

if TYPE_CHECKING:
    from tests.http.client import Answer

MQSC = "/ibmmq/rest/v3/admin/action/qmgr/QM1/mqsc"
DONE = {"overallCompletionCode": 0, "overallReasonCode": 0}
FAILED = {"overallCompletionCode": 2, "overallReasonCode": 3008}


async def run(door: Door, body: object, user: str = "root", path: str = MQSC) -> Answer:
    return await door.ask(path, basic(user), CSRF, method="POST", body=body)


async def text(door: Door, command: str, user: str = "root") -> dict[str, Any]:
    """Return the answer to runCommand."""
    answer = await run(door, {"type": "runCommand", "parameters": {"command": command}}, user)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json; charset=utf-8")
    told: dict[str, Any] = json.loads(answer.text)
    return told


async def in_json(door: Door, command: str, qualifier: str, user: str = "root", **fields: object) -> dict[str, Any]:
    """Return the answer to runCommandJSON."""
    body = {"type": "runCommandJSON", "command": command, "qualifier": qualifier, **fields}
    answer = await run(door, body, user)
    assert answer.status == 200, answer.text
    told: dict[str, Any] = json.loads(answer.text)
    return told


async def test_rest_7_a_command_as_text(door: Door) -> None:
    created = {"completionCode": 0, "reasonCode": 0, "text": ["AMQ8006I: IBM MQ queue created."]}
    assert await text(door, "DEFINE QLOCAL(A)") == {"commandResponse": [created], **DONE}
    there = {"completionCode": 2, "reasonCode": 4001, "text": ["AMQ8150E: IBM MQ object already exists."]}
    assert await text(door, "DEFINE QLOCAL(A)") == {"commandResponse": [there], **FAILED}
    told = await text(door, "DEFINE BOGUS(A)")
    (element,) = told.pop("commandResponse")
    assert told == FAILED
    assert element["text"][0].startswith("AMQ8405I: Syntax error detected")


async def test_rest_7_what_is_shown_as_text_is_one_line_an_object(door: Door) -> None:
    await door.command("ALTER QLOCAL(Q) DESCR('two  blanks')")
    told = await text(door, "display qlocal(*) where(queue lk 'Q*') curdepth descr")
    assert told == {
        "commandResponse": [
            {
                "completionCode": 0,
                "reasonCode": 0,
                "text": [
                    "AMQ8409I: Display Queue details.   QUEUE(Q)                                TYPE(QLOCAL)   "
                    "CURDEPTH(0)                             DESCR(two  blanks)"
                ],
            }
        ],
        **DONE,
    }


async def test_rest_7_an_object_is_defined_by_json_as_given(door: Door) -> None:
    given = {"maxdepth": 7, "trigger": "yes", "trigtype": "every", "process": "P", "replace": "yes"}
    for _ in range(2):  # the second time in the place of the first
        told = await in_json(door, "define", "qlocal", name="lower.Case", parameters=given | {"descr": "It's; (x)"})
        assert told == {
            "commandResponse": [
                {"completionCode": 0, "reasonCode": 0, "message": ["AMQ8006I: IBM MQ queue created."]}
            ],
            **DONE,
        }  # fmt: skip
    shown = ["maxdepth", "Trigger", "TRIGTYPE", "process", "descr", "hardenbo"]
    told = await in_json(door, "DISPLAY", "ql", name="lower.*", responseParameters=shown)
    assert told["commandResponse"][0]["parameters"] == {
        "queue": "lower.Case", "type": "QLOCAL", "maxdepth": 7, "trigger": "YES", "trigtype": "EVERY", "process": "P",
        "descr": "It's; (x)", "hardenbo": "YES",
    }  # fmt: skip


async def test_rest_7_what_is_not_there_is_told_exactly_so(door: Door) -> None:
    absent = {
        "completionCode": 2, "reasonCode": 2085, "message": ["AMQ8147E: IBM MQ object FAKE.QUEUE not found."]
    }  # fmt: skip
    told = await in_json(door, "display", "qlocal", name="FAKE.QUEUE")
    assert told == {"commandResponse": [absent], **FAILED}


async def test_rest_7_the_queue_manager_has_no_name_in_json(door: Door) -> None:
    (element,) = (await in_json(door, "display", "qmgr"))["commandResponse"]
    assert element["parameters"]["qmname"] == "QM1"
    assert {"maxmsgl", "descr", "deadq"} <= element["parameters"].keys()
    answer = await run(door, {"type": "runCommandJSON", "command": "display", "qualifier": "qmgr", "name": "QM1"})
    assert error_of(answer) == (400, "MQWB0120E")


async def test_rest_7_lists_filters_and_security_by_json(door: Door) -> None:
    parameters = {"profile": "Q", "objtype": "queue", "principal": ["bob", "admin"], "authadd": ["GET", "PUT"]}
    assert (await in_json(door, "set", "authrec", parameters=parameters))["overallCompletionCode"] == 0
    told = await in_json(door, "display", "authrec", parameters={"profile": "Q", "match": "exact"})
    assert [each["parameters"]["entity"] for each in told["commandResponse"]] == ["admin", "bob"]
    told = await in_json(door, "display", "queue", name="*", parameters={"where": "queue eq 'R'"})
    assert [each["parameters"]["queue"] for each in told["commandResponse"]] == ["R"]


@pytest.mark.parametrize(
    ("command", "qualifier", "name"),
    [("display", "conn", "*"), ("define", "topic", "T"), ("display", "chstatus", "*"), ("ping", "qmgr", None)],
)
async def test_rest_7_nouns_that_are_not_there_yet_are_refused_by_the_command(
    door: Door, command: str, qualifier: str, name: str | None
) -> None:
    fields: dict[str, Any] = {"parameters": {"whatever": 1}} | ({} if name is None else {"name": name})
    told = await in_json(door, command, qualifier, **fields)
    what = f"EMQ0001E: {command.upper()} {qualifier.upper()} is not supported by EverMQ."
    assert told == {
        "commandResponse": [{"completionCode": 2, "reasonCode": 2298, "message": [what]}], **FAILED
    }  # fmt: skip


LONG = "x" * 5000
DISPLAY = {"type": "runCommandJSON", "command": "display", "qualifier": "qlocal", "name": "*"}
DEFINE = {"type": "runCommandJSON", "command": "define", "qualifier": "qlocal", "name": "A"}
NONE = [
    b"{",
    b"[]",
    {},
    {"type": "x"},
    {"type": ["runCommand"]},
    {"type": "runCommand"},
    {"type": "runCommand", "parameters": []},
    {"type": "runCommand", "parameters": {}},
    {"type": "runCommand", "parameters": {"command": 7}},
    {"type": "runCommand", "parameters": {"command": ""}},
    {"type": "runCommand", "parameters": {"command": "* a comment"}},
    {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR; DEFINE QLOCAL(A)"}},
    {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR\nDEFINE QLOCAL(A)"}},
    {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR", "more": 1}},
    {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR"}, LONG: 1},
    {"type": "runCommandJSON"},
    {"type": "runCommandJSON", "command": "display"},
    {"type": "runCommandJSON", "command": "display", "qualifier": "qlocal"},
    {"type": "runCommandJSON", "command": "bogus", "qualifier": "qlocal", "name": "A"},
    {"type": "runCommandJSON", "command": "display", "qualifier": LONG, "name": "A"},
    DISPLAY | {"name": 7},
    DISPLAY | {"responseParameters": "all"},
    DISPLAY | {"responseParameters": [1]},
    DISPLAY | {"responseParameters": ["bogus"]},
    DISPLAY | {"responseParameters": ["curdepth) DELETE QLOCAL(Q"]},
    DISPLAY | {"parameters": {"where": "curdepth"}},
    DISPLAY | {"parameters": {"where": 7}},
    DISPLAY | {"more": 1},
    DEFINE | {"responseParameters": ["all"]},
    DEFINE | {"parameters": []},
    DEFINE | {"parameters": {"bogus": 1}},
    DEFINE | {"parameters": {"noreplace": "yes"}},
    DEFINE | {"parameters": {"notrigger": "yes"}},
    DEFINE | {"parameters": {"trigger": "maybe"}},
    DEFINE | {"parameters": {"trigger": 1}},
    DEFINE | {"parameters": {"maxdepth": None}},
    DEFINE | {"parameters": {"maxdepth": 1.5}},
    DEFINE | {"parameters": {"maxdepth": {"a": 1}}},
    DEFINE | {"parameters": {"maxdepth": True}},
    DEFINE | {"parameters": {"descr": "a\nDELETE QLOCAL(Q)"}},
    DEFINE | {"parameters": {"descr": "a", "DESCR": "b"}},
]


async def test_rest_7_what_is_no_command_is_400_and_runs_nothing(door: Door) -> None:
    before = sorted(door.manager.core.objects.queues)
    for body in NONE:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = (basic("root"), CSRF, "Content-Type: application/json")
        answer = await door.ask(MQSC, *headers, method="POST", body=sent)
        assert error_of(answer) == (400, "MQWB0120E"), body
        assert len(answer.text) < 1200, "it repeats no more than is needed"
    assert sorted(door.manager.core.objects.queues) == before
    assert (await door.ask(MQSC, basic("root"), CSRF, method="POST", body=b"{}")).status == 415


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
async def test_rest_6_an_unknown_queue_manager_is_told_with_its_reason(door: Door, version: str) -> None:
    path = f"/ibmmq/rest/{version}/admin/action/qmgr/QM%2F2/mqsc"
    answer = await run(door, {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR"}}, path=path)
    assert error_of(answer) == (404, "MQWB0009E")
    (error,) = json.loads(answer.text)["error"]
    assert (error["completionCode"], error["reasonCode"], error["type"]) == (2, 2058, "rest")
    assert "QM/2" in error["message"]


async def test_rest_2_what_displays_alone_is_open_to_who_reads_alone(door: Door) -> None:
    for command in ("DISPLAY QLOCAL(Q)", "dis ql(Q)", "ZMQSC DISPLAY QL-Q"):
        assert (await text(door, command, "reader"))["overallCompletionCode"] == 0
    assert (await in_json(door, "display", "qlocal", "reader", name="Q"))["overallCompletionCode"] == 0
    for command in ("DELETE QLOCAL(Q)", "DISPLAYX QLOCAL(Q)", "ZMQSC DEFINE QL-X", "SET CHLAUTH('*')"):
        answer = await run(door, {"type": "runCommand", "parameters": {"command": command}}, "reader")
        assert error_of(answer) == (403, "MQWB0108E")
    assert error_of(await run(door, DEFINE, "reader")) == (403, "MQWB0108E")
    assert "Q" in door.manager.core.objects.queues


async def test_rest_2_a_role_opens_the_door_and_grants_nothing_behind_it(door: Door) -> None:
    assert (await text(door, "DEFINE QLOCAL(B)", "admin"))["overallCompletionCode"] == 0
    told = await text(door, "DEFINE PROCESS(P)", "admin")
    assert told["commandResponse"] == [
        {"completionCode": 2, "reasonCode": 2035, "text": ["AMQ8135E: Not authorized."]}
    ]  # fmt: skip
    answer = await run(door, {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR"}}, "bob")
    assert error_of(answer) == (403, "MQWB0004E"), "bob may connect, and run no commands"
    assert json.loads(answer.text)["error"][0]["reasonCode"] == 2035


async def test_rest_2_a_command_needs_the_csrf_header_whatever_it_holds(door: Door) -> None:
    body = {"type": "runCommand", "parameters": {"command": "DEFINE QLOCAL(C)"}}
    assert error_of(await door.ask(MQSC, basic("root"), method="POST", body=body)) == (403, "MQWB0111E")
    assert "C" not in door.manager.core.objects.queues
    answer = await door.ask(MQSC, basic("root"), "ibm-mq-rest-csrf-token:", method="POST", body=body)
    assert (answer.status, "C" in door.manager.core.objects.queues) == (200, True)


async def test_rest_2_a_cookie_is_as_good_as_a_password_until_the_logout(door: Door) -> None:
    cookie = await door.log_in("root")
    body = {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR"}}
    assert (await door.ask(MQSC, cookie, CSRF, method="POST", body=body)).status == 200
    assert (await door.ask("/ibmmq/rest/v1/login", cookie, CSRF, method="DELETE")).status == 204
    answer = await door.ask(MQSC, cookie, CSRF, method="POST", body=body)
    assert error_of(answer) == (401, "MQWB0112E")


async def test_a_command_while_the_queue_manager_quiesces_is_503(door: Door) -> None:
    body = {"type": "runCommand", "parameters": {"command": "DISPLAY QMGR"}}
    await door.manager.quiesce(0)
    answer = await run(door, body)
    assert error_of(answer)[0] == 503
    assert answer.headers["retry-after"] == "1"


def test_rest_7_results_and_failures_stand_side_by_side() -> None:
    shown = CommandReply(code="AMQ8409I", text="AMQ8409I: A\n   QUEUE(A)\nAMQ8409I: A\n   QUEUE(B)   TYPE(QLOCAL)",
                         attributes=({"QUEUE": "A"}, {"QUEUE": "B", "TRIGGER": False}))  # fmt: skip
    assert [each["text"] for each in as_text(shown)] == [["AMQ8409I: A   QUEUE(A)"],
                                                         ["AMQ8409I: A   QUEUE(B)   TYPE(QLOCAL)"]]  # fmt: skip
    assert [each["parameters"] for each in as_json(shown)] == [{"queue": "A"}, {"queue": "B", "trigger": "NO"}]


@pytest.mark.parametrize(
    ("body", "mqsc"),
    [
        (DEFINE, "DEFINE QLOCAL('A')"),
        (DEFINE | {"parameters": {"replace": "no", "trigger": False, "maxdepth": 5}},
         "DEFINE QLOCAL('A') NOREPLACE NOTRIGGER MAXDEPTH('5')"),
        (DEFINE | {"name": "it's"}, "DEFINE QLOCAL('it''s')"),
        (DEFINE | {"command": "DELETE", "parameters": {"purge": "yes"}}, "DELETE QLOCAL('A') PURGE"),
        (DEFINE | {"command": "ALTER", "parameters": {"force": "no", "descr": ""}}, "ALTER QLOCAL('A') DESCR(' ')"),
        (DISPLAY | {"parameters": {"where": "CURDEPTH  gt 0"}, "responseParameters": ["all"]},
         "DISPLAY QLOCAL('*') WHERE(CURDEPTH gt '0') ALL"),
        (DISPLAY | {"parameters": {"where": "descr eq 'it''s it'", "all": "yes"}},
         "DISPLAY QLOCAL('*') WHERE(descr eq 'it''s it') ALL"),
        ({"type": "runCommandJSON", "command": "REFRESH", "qualifier": "security", "parameters": {"type": "ssl"}},
         "REFRESH SECURITY TYPE('ssl')"),
    ],
)  # fmt: skip
def test_rest_7_json_is_written_as_mqsc(body: dict[str, Any], mqsc: str) -> None:
    assert JsonCommand(body).text == mqsc


def test_rest_7_no_value_is_anything_but_a_value() -> None:
    hostile = ("a') REPLACE DESCR('b", "'", "''", ";", "'; DELETE QLOCAL(Q)", '"', "*", "+", "-", "(", "\u2028x")
    for value in hostile:
        words = JsonCommand(DEFINE | {"name": value, "parameters": {"descr": value}}).text
        outside = "".join(words.split("'")[::2])
        assert outside.replace(" ", "") == "DEFINEQLOCAL()DESCR()", value
    with pytest.raises(RestError):
        JsonCommand(DEFINE | {"name": "a\nb"})
