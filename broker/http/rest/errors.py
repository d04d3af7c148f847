"""The errors of REST as JSON, with the identifiers that IBM's server gives them, and the status of each reason.

Ids that clients look at are IBM's own: MQWB0009E, MQWB0112E, MQWB0120E, MQWB0302E, MQWB0004E. The others of MQWBnnnn
are of their class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from starlette.responses import JSONResponse

from broker.mqi import MQRC, MQError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.responses import Response

MEDIA_TYPE: Final = "application/json; charset=utf-8"

FAILED: Final = 2
"""The completion code MQCC_FAILED."""

STATUSES: Final[dict[int, int]] = {
    MQRC.UNKNOWN_OBJECT_NAME: 404,
    MQRC.UNKNOWN_ALIAS_BASE_Q: 404,
    MQRC.UNKNOWN_REMOTE_Q_MGR: 404,
    MQRC.Q_MGR_NAME_ERROR: 404,
    MQRC.OBJECT_NAME_ERROR: 404,
    MQRC.PUT_INHIBITED: 405,
    MQRC.GET_INHIBITED: 405,
    MQRC.NOT_AUTHORIZED: 403,
    MQRC.OPTION_NOT_VALID_FOR_TYPE: 400,
    MQRC.Q_MGR_NOT_AVAILABLE: 503,
    MQRC.Q_MGR_QUIESCING: 503,
    MQRC.Q_MGR_STOPPING: 503,
    MQRC.CONNECTION_BROKEN: 503,
    MQRC.HOST_NOT_AVAILABLE: 503,
    MQRC.CHANNEL_NOT_AVAILABLE: 503,
    MQRC.MAX_CONNS_LIMIT_REACHED: 503,
}
"""The status of a reason of the queue manager; of any other 500."""

UNAVAILABLE: Final = 503
INTERNAL: Final = 500


class RestError(Exception):
    """A request that is answered with an error: its status, and what the JSON says (rest 6).

    `type` is `rest` for what REST itself refuses, `pcf` and `java` are IBM's others. `completion_code` and
    `reason_code` are 0 where no call of the queue manager was made. `headers` go with the answer.
    """

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        status: int,
        msg_id: str,
        message: str,
        *,
        explanation: str = "",
        action: str = "",
        completion_code: int = 0,
        reason_code: int = 0,
        type: str = "rest",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{msg_id}: {message}")
        self.status = status
        self.msg_id = msg_id
        self.message = message
        self.explanation = explanation or message
        self.action = action or "Correct the request and send it again."
        self.completion_code = completion_code
        self.reason_code = reason_code
        self.type = type
        self.headers = dict(headers or {})

    def body(self) -> dict[str, str | int]:
        """Return the seven fields of the error."""
        return {
            "action": self.action,
            "completionCode": self.completion_code,
            "explanation": self.explanation,
            "message": f"{self.msg_id}: {self.message}",
            "msgId": self.msg_id,
            "reasonCode": self.reason_code,
            "type": self.type,
        }


class MessageOf(NamedTuple):
    """A message of MQWBnnnn: its id, and what a reader is to do."""

    msg_id: str
    action: str


NO_Q_MGR: Final = MessageOf("MQWB0009E", "Name the queue manager that this server serves: GET /admin/qmgr tells it.")
NOT_HERE: Final = MessageOf("MQWB0103E", "Look up the resource, its version and its method in /openapi.json.")
NO_CREDENTIALS: Final = MessageOf("MQWB0104E", "Send a user and a password, a token or a client certificate.")
NO_ROLE: Final = MessageOf(
    "MQWB0108E", "Have an administrator put the user into the group of USER with the role's name."
)
COOKIE_OVER: Final = MessageOf("MQWB0112E", "Log in again: POST /login.")
NO_CSRF_HEADER: Final = MessageOf("MQWB0111E", "Send the header ibm-mq-rest-csrf-token, with any value or none.")
NOT_VALID: Final = MessageOf("MQWB0120E", "Correct the attribute and send the request again.")
MESSAGING: Final = MessageOf("MQWB0302E", "Look up the reason code, and see the log of the queue manager.")
ADMINISTRATION: Final = MessageOf("MQWB0004E", "Look up the reason code, and see the log of the queue manager.")
INTERNAL_ERROR: Final = MessageOf("MQWB0005E", "Report it with the log of the queue manager.")


def refused(status: int, about: MessageOf, message: str, headers: Mapping[str, str] | None = None) -> RestError:
    """Return the error of a request that REST itself refuses."""
    return RestError(status, about.msg_id, message, action=about.action, headers=headers)


def unknown_q_mgr(name: str) -> RestError:
    """Return the error of a request for a queue manager that is not served here."""
    return RestError(
        404,
        NO_Q_MGR.msg_id,
        f"MQ REST API: the queue manager '{name}' is not known here.",
        action=NO_Q_MGR.action,
        completion_code=FAILED,
        reason_code=MQRC.Q_MGR_NAME_ERROR,
    )


def of_reason(error: MQError, about: MessageOf = MESSAGING) -> RestError:
    """Return the error of a call that the queue manager refuses: the status of its reason, by the table above."""
    status = STATUSES.get(error.reason, INTERNAL)
    return RestError(
        status,
        about.msg_id,
        f"The queue manager answered with completion code '{int(error.completion)}' and reason '{error}'.",
        action=about.action,
        completion_code=int(error.completion),
        reason_code=int(error.reason),
        type="rest" if about is MESSAGING else "pcf",
        headers={"Retry-After": "1"} if status == UNAVAILABLE else None,
    )


def error_response(error: RestError | MQError) -> Response:
    """Return the answer that tells an error."""
    told = error if isinstance(error, RestError) else of_reason(error)
    return errors_response(told.status, [told])


def errors_response(status: int, errors: Iterable[RestError]) -> Response:
    """Return the answer that tells several errors."""
    headers: dict[str, str] = {}
    bodies = []
    for error in errors:
        headers |= error.headers
        bodies.append(error.body())
    return JSONResponse({"error": bodies}, status, headers, media_type=MEDIA_TYPE)
