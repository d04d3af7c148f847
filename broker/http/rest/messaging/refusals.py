"""The errors of messaging that no reason code of the MQI tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.http.rest.errors import RestError, of_reason
from broker.http.rest.messaging.put_fields import CONTENT_TYPES
from broker.http.rest.messaging.versions import shown
from broker.mqi import MQRC

if TYPE_CHECKING:
    from broker import MQError
    from broker.http.rest.messaging.leases import LeaseState
    from broker.http.rest.messaging.text_messages import NotTextError
    from broker.http.rest.messaging.versions import InvalidValueError


def invalid(error: InvalidValueError) -> RestError:
    """400: a header, a parameter or a body has a value that it cannot have."""
    return RestError(
        400,
        "MQWB0303E",
        f"{error.name} has no value that it may have.",
        explanation=f"{error.name}: {error.why}.",
        action="Correct the value, and send the request again: nothing was done.",
    )


def unsupported_type(kind: str) -> RestError:
    """415: the body is of a type that no message is made of."""
    said = f"Content-Type is {shown(kind)}" if kind else "there is no Content-Type"
    return RestError(
        415,
        "MQWB0304E",
        "The type of the body is not supported.",
        explanation=f"{said}; it is one of {', '.join(CONTENT_TYPES)}, in UTF-8.",
        action="Send text in UTF-8 and say so; put other data by the MQI.",
    )


def not_text(error: NotTextError) -> RestError:
    """501: a message is there, and no answer can express it."""
    return RestError(
        501,
        "MQWB0305E",
        "The message cannot be given as text.",
        explanation=f"The message that comes first stays on its queue: {error}.",
        action="Get it by the MQI, or ask for another by its messageId or correlationId.",
    )


def no_such_delivery(id: str) -> RestError:
    """404: nobody knows a delivery of this user by this identifier."""
    return RestError(
        404,
        "MQWB0306E",
        "The delivery is not known.",
        explanation=f"There is no delivery {shown(id)} of this user from this queue; if the server was restarted, "
        "what it held is back on its queue.",
        action="Ask for a delivery again.",
    )


def lease_over(id: str, state: LeaseState) -> RestError:
    """410: a delivery has ended in another way than the client wants."""
    return RestError(
        410,
        "MQWB0307E",
        "The delivery has ended.",
        explanation=f"Delivery {id} is {state}: "
        + ("its message is gone." if state == "done" else "its message is back on its queue."),
        action="Ask for a delivery again; ask for a longer lease if it has lapsed.",
    )


def too_long(error: MQError) -> RestError:
    """500, or 413 for a body that no queue of the queue manager takes."""
    told = of_reason(error)
    if error.reason == MQRC.MSG_TOO_BIG_FOR_Q_MGR:
        told.status = 413
    return told
