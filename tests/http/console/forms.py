"""Forms as a browser without a script sends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.http.console.conftest import words

if TYPE_CHECKING:
    import httpx


def form(action: str, **fields: object) -> dict[str, object]:
    """The fields of a form of the caller's."""
    return {"form_token": "the word", "action": action, **fields}


async def sent(browser: httpx.AsyncClient, path: str, data: dict[str, object]) -> tuple[str, str]:
    """Send a form: where it leads to, and the words of the page there, with the notice at their head."""
    answer = await browser.post(f"/console{path}", data=data)
    assert answer.status_code == 303, answer.text
    where = answer.headers["location"]
    return where, words(await browser.get(where))
