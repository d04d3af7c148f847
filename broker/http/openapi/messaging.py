"""Messaging: put, take, look, list, and take with a lease."""

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
    header,
    in_json,
    in_path,
    operation,
    query,
)

_MESSAGE_HEADERS: Final = (
    "ibm-mq-md-messageId", "ibm-mq-md-correlationId", "ibm-mq-md-expiry", "ibm-mq-md-persistence",
    "ibm-mq-md-priority", "ibm-mq-md-replyTo", "ibm-mq-usr", *REST_HEADERS,
)  # fmt: skip
_BODIES: Final = ("text/plain", "text/html", "text/xml", "application/json", "application/xml")
_QUEUE: Final = "/ibmmq/rest/{version}/messaging/qmgr/{qmgr}/queue/{queue}"
_NAMES: Final = (VERSION, Q_MGR, QUEUE)
_SELECTORS: Final = (
    query("messageId", "48 hexadecimal digits, with ID: before them in v3."),
    query("correlationId", "48 hexadecimal digits; in v3 with ID: before them, or the string of a program."),
)
_WAIT: Final = query("wait", "Milliseconds to wait for a message.", {"type": "integer", "minimum": 0})
_LEASE: Final = query(
    "lease", "Milliseconds that the message is the client's.", {"type": "integer", "minimum": 0, "maximum": 3_600_000}
)
_NONE: Final = answer("There is no such message.", None, *REST_HEADERS)
_MORE: Final = (501,)
_DELIVERY_HEADERS: Final = ("evermq-delivery-id", "evermq-lease", "evermq-attempt", "Location", *_MESSAGE_HEADERS)


def paths() -> Json:
    """Return the paths of messaging."""
    return {
        f"{_QUEUE}/message": {
            "post": operation(
                "Put a message.",
                {"201": answer("It is on the queue.", None, "ibm-mq-md-messageId", *REST_HEADERS)},
                *_NAMES,
                CSRF,
                header("ibm-mq-md-correlationId", "As correlationId."),
                header("ibm-mq-md-expiry", "unlimited, or milliseconds up to 99999999900."),
                header("ibm-mq-md-persistence", "nonPersistent or persistent."),
                header("ibm-mq-md-priority", "0 to 9 or asDestination, in v3."),
                header("ibm-mq-md-replyTo", "queue or queue@qmgr."),
                header("ibm-mq-usr", "User properties, name;value;type with commas between them, in v3."),
                body={kind: {"schema": STRING} for kind in _BODIES},
            ),
            "get": operation(
                "Look at the first message, and leave it.",
                {"200": answer("The message.", TEXT, *_MESSAGE_HEADERS), "204": _NONE},
                *_NAMES,
                *_SELECTORS,
                more=_MORE,
            ),
            "delete": operation(
                "Take the first message. If the answer is lost, so is the message: a delivery loses nothing.",
                {"200": answer("The message.", TEXT, *_MESSAGE_HEADERS), "204": _NONE},
                *_NAMES,
                CSRF,
                *_SELECTORS,
                _WAIT,
                more=_MORE,
            ),
        },
        f"{_QUEUE}/messagelist": {
            "get": operation(
                "List messages in the order in which they are given.",
                {"200": answer("The list.", in_json({"$ref": "#/components/schemas/MessageList"}), *REST_HEADERS)},
                *_NAMES,
                *_SELECTORS,
                query("limit", "The most messages.", {"type": "integer", "minimum": 1, "maximum": 1000}),
            )
        },
        f"{_QUEUE}/delivery": {
            "post": operation(
                "Take the first message for the time of a lease; it comes back unless it is said to be done.",
                {"200": answer("The message.", TEXT, *_DELIVERY_HEADERS), "204": _NONE},
                *_NAMES,
                CSRF,
                *_SELECTORS,
                _WAIT,
                _LEASE,
                more=_MORE,
            )
        },
        f"{_QUEUE}/delivery/{{delivery}}": {
            "delete": operation(
                "The message is done with, and gone.",
                {"204": answer("It is.", None, *REST_HEADERS)},
                *_NAMES,
                in_path("delivery", "The identifier of the delivery."),
                CSRF,
                more=(410,),
            ),
            "patch": operation(
                "Hold the message for longer; with 0 give it back.",
                {"204": answer("It is.", None, "evermq-lease", *REST_HEADERS)},
                *_NAMES,
                in_path("delivery", "The identifier of the delivery."),
                CSRF,
                _LEASE,
                more=(410,),
            ),
        },
    }
