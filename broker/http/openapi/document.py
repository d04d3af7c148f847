"""The whole text of /openapi.json, and its route."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse

from broker import __version__
from broker.http.openapi import messaging, paths

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


@cache
def document() -> dict[str, Any]:
    """Return the text as an object of JSON."""
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "EverMQ",
            "version": __version__,
            "description": "IBM MQ's REST API, jobs, health and figures of a queue manager.",
        },
        "security": [{"basic": []}, {"bearer": []}],
        "paths": paths.rest_paths() | messaging.paths() | paths.other_paths(),
        "components": {
            "schemas": paths.SCHEMAS,
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


async def openapi(request: Request) -> Response:
    """/openapi.json: everybody may read it; it tells nothing of the queue manager."""
    return JSONResponse(document())
