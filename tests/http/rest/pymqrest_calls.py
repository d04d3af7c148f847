"""Every call of `pymqrest`, a client of IBM MQ's REST API, made in an environment of its own by `test_pymqrest.py`.

python pymqrest_calls.py URL USER PASSWORD: a line of JSON for each call, with what was sent, the status and the answer.
"""

import inspect
import json
import sys
from typing import Any

from pymqrest import BasicAuth, LTPAAuth, MQRESTSession  # type: ignore[import-not-found,unused-ignore]
from pymqrest.commands import MQRESTCommandMixin  # type: ignore[import-not-found,unused-ignore]

NAMELESS = ("authrec", "qmgr", "entauth", "group", "config")
FIRST = ("define", "set", "display", "alter")
LAST = ("delete", "stop")
PARAMETERS: dict[str, dict[str, Any]] = {
    "set_authrec": {"PROFILE": "P.1", "OBJTYPE": "QUEUE", "PRINCIPAL": ["bob"], "AUTHADD": ["GET"]},
    "delete_authrec": {"PROFILE": "P.1", "OBJTYPE": "QUEUE", "PRINCIPAL": ["bob"]},
    "set_chlauth": {"TYPE": "ADDRESSMAP", "ADDRESS": "192.0.2.1", "USERSRC": "NOACCESS"},
    "define_channel": {"CHLTYPE": "SVRCONN"},
    "alter_channel": {"CHLTYPE": "SVRCONN", "DESCR": "a"},
    "define_authinfo": {"AUTHTYPE": "IDPWOS"},
    "alter_authinfo": {"AUTHTYPE": "IDPWOS", "DESCR": "a"},
    "alter_qmgr": {"DESCR": "a"},
    "define_qlocal": {"MAXDEPTH": 7, "DESCR": "it's", "TRIGGER": "YES"},
    "display_authrec": {"PROFILE": "P.1", "MATCH": "EXACT"},
}


def order(call: str) -> tuple[int, str]:
    """The definitions first, the deletions last."""
    verb = call.partition("_")[0]
    return (FIRST.index(verb) if verb in FIRST else len(FIRST) + (verb in LAST)), call


def called(session: Any, call: str) -> dict[str, Any]:
    """Make a call, and return what came of it."""
    verb, _, noun = call.partition("_")
    method = getattr(session, call)
    given: dict[str, Any] = {}
    if "name" in inspect.signature(method).parameters and noun not in NAMELESS:
        given["name"] = "*" if verb == "display" else f"P.{noun[:8].upper()}"
    if call in PARAMETERS:
        given["request_parameters"] = PARAMETERS[call]
    outcome = "done"
    try:
        method(**given)
    except Exception as error:
        outcome = type(error).__name__
    return {
        "call": call,
        "sent": session.last_command_payload,
        "status": session.last_http_status,
        "outcome": outcome,
        "answer": session.last_response_payload,
    }


def main() -> None:
    url, user, password = sys.argv[1:]
    calls = sorted((name for name in vars(MQRESTCommandMixin) if not name.startswith("_")), key=order)
    for number, call in enumerate(calls):
        auth = LTPAAuth if number == 0 else BasicAuth
        if number < 2:
            session = MQRESTSession(url, "QM1", credentials=auth(user, password), map_attributes=False)
        print(json.dumps(called(session, call)))  # noqa: T201
    session = MQRESTSession(url, "QM1", credentials=BasicAuth(user, password))  # with names of its own for attributes
    ensured = session.ensure_qlocal("P.ENSURED", {"max_queue_depth": 5})
    again = session.ensure_qlocal("P.ENSURED", {"max_queue_depth": 5})
    print(json.dumps({"call": "ensure", "ensured": str(ensured), "again": str(again)}))  # noqa: T201


if __name__ == "__main__":
    main()
