"""Login, administration, jobs, health and figures."""

from __future__ import annotations

from typing import Final

from broker.http.openapi.operations import (
    CSRF,
    Q_MGR,
    QUEUE,
    REST_HEADERS,
    STRING,
    TEXT,
    VERSION,
    Json,
    answer,
    in_json,
    in_path,
    operation,
    query,
)

_REST: Final = "/ibmmq/rest/{version}"
_ALL: Final = {"type": "string", "enum": ["*"]}


def _named(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _read(summary: str, schema: str, *parameters: Json) -> Json:
    return {"get": operation(summary, {"200": answer(summary, in_json(_named(schema)), *REST_HEADERS)}, *parameters)}


def rest_paths() -> Json:
    """Return the paths of login and administration."""
    done = answer("It is done.", None, "Set-Cookie", *REST_HEADERS)
    attributes, status = query("attributes", "More of it.", _ALL), query("status", "Its status.", _ALL)
    queue_status = query("status", "Figures of local queues: *, status.currentDepth, ...")
    queue_type = {"type": "string", "enum": ["all", "local", "alias", "remote", "model"]}
    return {
        f"{_REST}/login": {
            "post": operation(
                "Begin a session, by a cookie.", {"204": done}, VERSION, body=in_json(_named("Login")),
                open_to_all=True,
            ),
            "delete": operation("End the session of the cookie.", {"204": done}, VERSION, CSRF),
            **_read("Tell who asks, and its roles.", "Users", VERSION),
        },
        f"{_REST}/admin/action/qmgr/{{qmgr}}/mqsc": {
            "post": operation(
                "Run a command of MQSC. One that fails is answered with 200 too: completionCode tells.",
                {"200": answer("The replies.", in_json(_named("CommandResponses")), *REST_HEADERS)},
                VERSION,
                Q_MGR,
                CSRF,
                body=in_json({"oneOf": [_named("RunCommand"), _named("RunCommandJson")]}),
            )
        },
        f"{_REST}/admin/qmgr": _read("Tell of the queue manager.", "QueueManagers", VERSION, attributes, status),
        f"{_REST}/admin/qmgr/{{qmgr}}": _read(
            "Tell of a queue manager.", "QueueManagers", VERSION, Q_MGR, attributes, status
        ),
        f"{_REST}/admin/installation": _read("Tell of the installation.", "Installations", VERSION, attributes),
        "/ibmmq/rest/v1/admin/qmgr/{qmgr}/queue": _read(
            "Tell of queues.", "Queues", Q_MGR, query("name", "A name, or a generic one."),
            query("type", "The type.", queue_type), queue_status,
        ),
        "/ibmmq/rest/v1/admin/qmgr/{qmgr}/queue/{queue}": _read(
            "Tell of a queue.", "Queues", Q_MGR, QUEUE, queue_status
        ),
    }  # fmt: skip


def other_paths() -> Json:
    """Return the paths of jobs, health and figures."""
    job = operation(
        "Tell what has become of a message.",
        {"200": answer("Its state.", in_json({"type": "object"}), *REST_HEADERS)},
        QUEUE,
        in_path("id", "The MsgId, 48 hexadecimal digits."),
        query("dead_letter", "The dead-letter queue to look at."),
        query("history", "The history to look at."),
    )
    plain = {"421": answer("The Host is not known here.", TEXT)}
    probe = {
        "get": {
            "summary": "Tell if the daemon is well.",
            "security": [],
            "responses": {
                "200": answer("It is.", TEXT | _ANY_JSON, "Cache-Control"),
                "503": answer("The checks that fail.", TEXT | _ANY_JSON, "Cache-Control"),
                **plain,
            },
        }
    }
    figures = {
        "summary": "Give the figures of the queue manager for Prometheus.",
        "parameters": [
            query("queue", "A name, or a generic one."),
            query("per", "Series for each queue, or none.", {"type": "string", "enum": ["queue", "none"]}),
            query("names", "Whose names.", {"type": "string", "enum": ["evermq", "ibmmq"]}),
        ],
        "responses": {
            "200": answer(
                "The figures.",
                {
                    "text/plain; version=0.0.4; charset=utf-8": {"schema": STRING},
                    "application/openmetrics-text; version=1.0.0; charset=utf-8": {"schema": STRING},
                },
            ),
            **{str(status): answer("Why not.", TEXT, "WWW-Authenticate", "Retry-After")
               for status in (400, 401, 403, 500, 503)},
            **plain,
        },
    }  # fmt: skip
    return {
        "/jobs/{queue}/{id}": {"get": job},
        **dict.fromkeys(("/livez", "/readyz", "/startupz"), probe),
        "/metrics": {"get": figures},
    }


_ANY_JSON: Final[Json] = {"application/json": {"schema": {"type": "object"}}}
_CODE: Final = {"type": "integer"}


def _object(required: tuple[str, ...] = (), **properties: Json) -> Json:
    told: Json = {"type": "object", "properties": properties}
    return told | {"required": list(required)} if required else told


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


_ERROR_FIELDS: Final = ("action", "completionCode", "explanation", "message", "msgId", "reasonCode", "type")

SCHEMAS: Final[Json] = {
    "Errors": _object(
        ("error",),
        error=_list(
            _object(
                _ERROR_FIELDS,
                **{name: _CODE if name.endswith("Code") else STRING for name in _ERROR_FIELDS[:-1]},
                type={"type": "string", "enum": ["rest", "pcf", "java"]},
            )
        ),
    ),
    "Login": _object(("username", "password"), username=STRING, password={"type": "string", "format": "password"})
    | {"additionalProperties": False},
    "Users": _object(("user",), user=_list(_object(("name", "role"), name=STRING, role=_list(STRING)))),
    "RunCommand": _object(
        ("type", "parameters"),
        type={"type": "string", "enum": ["runCommand"]},
        parameters=_object(("command",), command=STRING) | {"additionalProperties": False},
    )
    | {"additionalProperties": False},
    "RunCommandJson": _object(
        ("type", "command", "qualifier"),
        type={"type": "string", "enum": ["runCommandJSON"]},
        command=STRING,
        qualifier=STRING,
        name=STRING,
        parameters=_object(),
        responseParameters=_list(STRING),
    )
    | {"additionalProperties": False},
    "CommandResponses": _object(
        ("commandResponse", "overallCompletionCode", "overallReasonCode"),
        commandResponse=_list(
            _object(
                ("completionCode", "reasonCode"),
                completionCode=_CODE,
                reasonCode=_CODE,
                text=_list(STRING),
                message=_list(STRING),
                parameters=_object(),
            )
        ),
        overallCompletionCode=_CODE,
        overallReasonCode=_CODE,
    ),
    "QueueManagers": _object(("qmgr",), qmgr=_list(_object(("name", "state"), name=STRING, state=STRING))),
    "Installations": _object(
        ("installation",),
        installation=_list(_object(("name", "version"), name=STRING, platform=STRING, version=STRING)),
    ),
    "Queues": _object(("queue",), queue=_list(_object(("name", "type"), name=STRING, type=STRING, status=_object()))),
    "MessageList": _object(
        ("messages",),
        messages=_list(
            _object(
                ("messageId", "correlationId", "format"), messageId=STRING, correlationId=STRING, format=STRING
            )
        ),
    ),
}  # fmt: skip
"""The bodies, by their names."""
