"""The style sheet and the script of the console: read once, each with a hash of its text in its name."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files
from typing import Final, NamedTuple

from starlette.responses import PlainTextResponse, Response

FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}
_TYPES: Final = {"console.css": "text/css; charset=utf-8", "console.js": "text/javascript; charset=utf-8"}


class Asset(NamedTuple):
    """A file that pages refer to: its name, which changes with its text, its media type, its bytes."""

    name: str
    media_type: str
    data: bytes


def _read(name: str, media_type: str) -> Asset:
    data = (files(__name__) / name).read_bytes()
    stem, _, suffix = name.partition(".")
    return Asset(f"{stem}-{sha256(data).hexdigest()[:12]}.{suffix}", media_type, data)


STYLE, SCRIPT = (_read(name, media_type) for name, media_type in _TYPES.items())


def asset_response(name: str) -> Response:
    """The answer to a request for a file: it may be kept for good, since another text has another name."""
    for asset in (STYLE, SCRIPT):
        if asset.name == name:
            return Response(asset.data, media_type=asset.media_type, headers=FOREVER)
    return PlainTextResponse("there is no such file; load the page again\n", 404)
