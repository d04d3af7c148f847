"""The answers of the console: documents in pieces, the way to another page, and the headers that all of them bear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import RedirectResponse, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from htpy import Element

PIECE_CHARACTERS: Final = 8 * 1024

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def html(document: Element, status: int = 200) -> StreamingResponse:
    """A document, made while it is sent: so no step is long, however long it is."""
    return StreamingResponse(_pieces(document), status, media_type="text/html; charset=utf-8", headers=HEADERS)


def see_other(path: str, cookie: str = "") -> RedirectResponse:
    """The way to another page, which is read and not posted to; with a Set-Cookie header."""
    return RedirectResponse(path, 303, headers={**HEADERS, "Set-Cookie": cookie} if cookie else HEADERS)


async def _pieces(document: Element) -> AsyncIterator[str]:
    piece: list[str] = []
    length = 0
    for chunk in document.iter_chunks():
        piece.append(chunk)
        length += len(chunk)
        if length >= PIECE_CHARACTERS:
            yield "".join(piece)
            piece, length = [], 0
            await anyio.lowlevel.checkpoint()
    yield "".join(piece)
