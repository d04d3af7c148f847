"""The handles of queues, as DISPLAY QSTATUS TYPE(HANDLE) shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from broker.mqi import MQOO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from broker.clock import Clock
    from broker.core.manager import Manager
    from broker.core.queues.handles import Handle

_USES: Final = {"BROWSE": MQOO.BROWSE, "INQUIRE": MQOO.INQUIRE, "OUTPUT": MQOO.OUTPUT, "SET": MQOO.SET}
_EXCLUSIVE: Final = int(MQOO.INPUT_EXCLUSIVE)


def handle_status(core: Manager, clock: Clock) -> Iterator[dict[str, int | str] | None]:
    """The figures of DISPLAY QSTATUS TYPE(HANDLE) (`broker.commands.table.statuses`), by queue; None after each."""
    for name in sorted(core.objects.queues):
        queue = core.objects.queues.get(name)
        if queue is not None:
            now = clock.monotonic()
            yield from (_figures(name, each, now) for each in list(queue.handles))
            yield None


def _figures(q_name: str, handle: Handle, now: float) -> dict[str, int | str]:
    removing = "NO" if not handle.removes else "EXCL" if handle.options & _EXCLUSIVE else "SHARED"
    return {
        "QUEUE": q_name,
        "TYPE": "HANDLE",
        "APPLTAG": handle.hconn.appl_name,
        "CHANNEL": handle.hconn.channel,
        "USERID": handle.hconn.user,
        "INPUT": removing,
        **{keyword: "YES" if handle.options & use else "NO" for keyword, use in _USES.items()},
        "AGE": int(max(0.0, now - handle.opened_at)),
    }
