"""The resources that clients look at: the queue manager, the installation, and queues as version 1 has them."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from broker import __version__
from broker.http.rest.administration.replies import REASONS
from broker.http.rest.administration.run_command import not_valid
from broker.http.rest.errors import ADMINISTRATION, FAILED, MEDIA_TYPE, RestError
from broker.mqi import MQRC

if TYPE_CHECKING:
    from starlette.responses import Response

    from broker.http.rest.calls import RestCall
    from broker.http.served_manager import ServedManager

INSTALLATION: Final = "Installation1"
"""The name of the one installation, which is that of IBM's first."""

STATES: Final = {"connection": "ended", "starting": "starting", "quiescing": "quiescing"}
"""The states of a queue manager by the checks of its health that fail; without these it runs."""

QUEUE_TYPES: Final = {"QLOCAL": "local", "QALIAS": "alias", "QREMOTE": "remote", "QMODEL": "model"}
STATUS_FIELDS: Final = {"currentDepth": "CURDEPTH", "openInputCount": "IPPROCS", "openOutputCount": "OPPROCS"}
NO_QUEUE_REASON: Final = 3312
"""MQRCCF_UNKNOWN_OBJECT_NAME."""


def parameters_of(call: RestCall, *known: str) -> dict[str, str]:
    """Return the parameters behind the question mark. Raises RestError (400) for one that is not known."""
    given: dict[str, str] = {}
    for name, value in call.query.multi_items():
        if name not in known or name in given:
            what = "is given twice" if name in given else f"is no parameter here: {', '.join(known) or 'none'}"
            raise not_valid(f"{name[:48]!r} {what}.")
        given[name] = value
    return given


async def queue_managers(call: RestCall, served: ServedManager, name: str) -> Response:
    """Return the answer about the queue manager, which is the only one: its name and state; with `attributes=*` and
    `status=*` more.
    """
    given = parameters_of(call, "attributes", "status")
    if any(value not in ("*", "") for value in given.values()):
        raise not_valid("'attributes' and 'status' take *, which is all of them.")
    told: dict[str, Any] = {"name": name, "state": state_of(served)}
    if "attributes" in given:
        told["extended"] = {
            "installationName": INSTALLATION, "isDefaultQmgr": True, "permitStandby": "notPermitted"
        }  # fmt: skip
    if "status" in given:
        told["status"] = await _status(call, running=told["state"] == "running")
    return JSONResponse({"qmgr": [told]}, media_type=MEDIA_TYPE)


def state_of(served: ServedManager) -> str:
    """Return the state of the queue manager, in IBM's words."""
    failing = served.failing_checks(ready=True)
    return next((state for check, state in STATES.items() if check in failing), "running")


async def _status(call: RestCall, *, running: bool) -> dict[str, Any]:
    if not running:
        return {"connectionCount": 0, "channelInitiatorState": "stopped"}
    async with call.caller.connection() as connection:
        status = await connection.status()
    return {
        "connectionCount": status["connections"],
        "channelInitiatorState": "running",
        "ldapConnectionState": "disconnected",
        "publishSubscribeState": "stopped",
    }


def installations(call: RestCall) -> Response:
    """Return the answer about the installation: clients use it to see if anybody is there."""
    given = parameters_of(call, "attributes")
    told: dict[str, Any] = {"name": INSTALLATION, "platform": "unix", "version": f"{__version__}.0"}
    if given:
        told["extended"] = {"description": "EverMQ", "level": __version__, "operatingSystem": platform.system()}
    return JSONResponse({"installation": [told]}, media_type=MEDIA_TYPE)


async def queues(call: RestCall, name: str | None) -> Response:
    """Return the answer about queues (version 1): all that the caller may display, those of a generic `name`, or one.
    Raises RestError (404) where there is none of that name.
    """
    given = parameters_of(call, *(("status",) if name is not None else ("name", "type", "status")))
    fields = _status_fields(given.get("status", ""))
    wanted = name if name is not None else given.get("name", "*")
    kind = given.get("type", "all")
    if kind not in (*QUEUE_TYPES.values(), "all"):
        raise not_valid(f"'type' is one of all, {', '.join(QUEUE_TYPES.values())}.")
    if "'" in wanted or not wanted.isprintable():
        raise _no_queue(wanted)
    async with call.caller.connection() as connection:
        (reply,) = await connection.mqsc(f"DISPLAY QUEUE('{wanted}') TYPE CURDEPTH IPPROCS OPPROCS")
    if not reply.ok and (name is not None or reply.code != "AMQ8147E"):
        raise _no_queue(wanted) if reply.code in ("AMQ8147E", "AMQ8424E") else _failed(reply.text, reply.code)
    told = []
    for row in reply.attributes:
        each: dict[str, Any] = {"name": row["QUEUE"], "type": QUEUE_TYPES[str(row["TYPE"])]}
        if kind not in ("all", each["type"]):
            continue
        if fields and each["type"] == "local":
            each["status"] = {field: row.get(STATUS_FIELDS[field], 0) for field in fields}
        told.append(each)
    return JSONResponse({"queue": told}, media_type=MEDIA_TYPE)


def _status_fields(given: str) -> list[str]:
    fields = [each.strip().removeprefix("status.") for each in given.split(",") if each.strip()]
    if fields in (["*"], ["status"]):
        return list(STATUS_FIELDS)
    wrong = [each for each in fields if each not in STATUS_FIELDS]
    if wrong:
        known = ", ".join(f"status.{each}" for each in STATUS_FIELDS)
        raise not_valid(f"{wrong[0][:48]!r} is no figure of the status of queues: *, {known} are.")
    return fields


def _no_queue(name: str) -> RestError:
    return RestError(
        404,
        "MQWB0037E",
        f"Could not find the queue '{name[:48]}': the queue manager reports reason code {NO_QUEUE_REASON}.",
        completion_code=FAILED,
        reason_code=NO_QUEUE_REASON,
        type="pcf",
    )


def _failed(text: str, code: str) -> RestError:
    reason = REASONS.get(code, MQRC.UNEXPECTED_ERROR)
    status, shown = 403 if reason == MQRC.NOT_AUTHORIZED else 400, text.partition("\n")[0]
    return RestError(
        status, ADMINISTRATION.msg_id, shown, completion_code=FAILED, reason_code=int(reason), type="pcf"
    )  # fmt: skip
