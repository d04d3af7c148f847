"""The settings of a session: how long what it does may take, and how the database plans it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.sharing.members.lease_times import LeaseTimes

_PLANS: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
}
"""Give each statement of a call its one good plan, whatever the statistics say (queue-sharing rule 10.2.8)."""


def settings_for(purpose: str, lane: int, times: LeaseTimes) -> dict[str, str]:
    """Return the settings of a session for this purpose; for calls on this lane. Nothing of a call takes longer than
    the lease, so that a takeover waits for nobody.
    """
    settings = {
        "synchronous_commit": "off" if purpose == "calls" else "on",  # of calls `Flushes` makes it durable
        "jit": "off",
        "idle_in_transaction_session_timeout": _milliseconds(times.idle),
        "tcp_user_timeout": _milliseconds(times.idle),
    }
    if purpose == "calls":
        settings["statement_timeout"] = settings["lock_timeout"] = _milliseconds(times.statement)
        settings["evermq.lane"] = str(lane)
        settings |= _PLANS
    return settings


def _milliseconds(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
