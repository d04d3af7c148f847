"""Searches: the view that a get looks in, and a view of its own for a get whose fields lead to many messages.

Such a get looks on in short steps, between which others put and get. Its view is on the shelf, and its request with its
handle (`LastCalls.search`), from the first look that finds nothing (`begin`) until it is answered or will wait (`end`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from broker.core.queues.shelf.views import LOOKS_AT_ONCE, View

if TYPE_CHECKING:
    from broker.core.queues.handles import Handle
    from broker.core.queues.shelf.selection import Request
    from broker.core.queues.shelf.shelf import Shelf

_SEARCH = "search"  # names the view of one request of a handle


def find_view(shelf: Shelf, request: Request, handle: Handle) -> None:
    """Give the request of a get through this handle a view to look in, where its fields do not lead to few messages."""
    if request.anything or request.item is not None or request.token is not None:
        return
    if handle.last_calls.search is not None and handle.last_calls.search.asks_as(request):
        request.view = shelf.views.get((handle.marker, _SEARCH))
    elif not _has_fields(request):
        request.view = shelf.shared_view(request)


def begin(shelf: Shelf, request: Request, handle: Handle) -> None:
    """None of the first messages to which its fields lead will do: if there are more, look on in a view of its own."""
    if request.item is not None or request.token is not None or not _has_fields(request):
        return
    if _count_of(shelf, request) > LOOKS_AT_ONCE:
        handle.last_calls.search = request
        request.view = View(partial(request.accepts, shelf=shelf), partial(shelf.with_fields, request), request.after)
        shelf.views[handle.marker, _SEARCH] = request.view


def end(shelf: Shelf, request: Request, handle: Handle) -> None:
    """The get is answered, or will wait."""
    if handle.last_calls.search is not None:
        handle.last_calls.search = None
        own = shelf.views.pop((handle.marker, _SEARCH), None)
        if request.view is own:
            request.view = None


def _has_fields(request: Request) -> bool:
    return (
        request.msg_id is not None
        or request.correl_id is not None
        or request.group_id is not None
        or request.msg_seq_number is not None
        or request.offset is not None
    )


def _count_of(shelf: Shelf, request: Request) -> int:
    """Return the largest number of messages that the fields of a request can lead to."""
    if request.msg_id is not None:
        return shelf.by_msg_id.count(request.msg_id) + 1
    if request.correl_id is not None:
        return shelf.by_correl_id.count(request.correl_id)
    if request.group_id is not None:
        return shelf.groups.count(request.group_id)
    return len(shelf.available)
