"""Groups and segmented messages that lack something, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.core.explain.findings import finding, in_steps
from broker.core.message.entry import AVAILABLE, CLAIMED, DAMAGED, DELAYED, GET_PENDING, GONE, LOCKED, PUT_PENDING
from broker.core.message.logical_order import GROUPED
from broker.mqi.completeness import in_words, lack
from broker.mqi.explanations import Cause

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from broker.core.explain.findings import Steps
    from broker.core.message.entry import Entry
    from broker.mqi.completeness import Lack
    from broker.mqi.explanations import Finding

GROUPS_MAX = 10


def incomplete(entries: Sequence[Entry], ids: Iterable[bytes], now: float) -> Steps:
    """The groups with these identifiers, and the segmented messages, that lack something."""
    members: dict[bytes, list[Entry]] = {id: [] for id in ids}
    if not members:
        return
    for entry in in_steps(entries):
        if entry is None:
            yield None
        elif entry.group_id in members:
            members[entry.group_id].append(entry)
    reported_of = left = 0
    for id, group in members.items():
        findings = list(_lacking(id, [entry for entry in group if entry.state != GONE], now))
        if findings and reported_of < GROUPS_MAX:
            reported_of += 1
            yield from findings
        elif findings:
            left += 1
        yield None
    if left:
        yield finding(Cause.INCOMPLETE_GROUP, f"{left} more groups lack something", groups=left)


def _lacking(group_id: bytes, members: Sequence[Entry], now: float) -> Iterator[Finding]:
    if not members:  # they have gone meanwhile
        return
    available = [entry for entry in members if entry.state == AVAILABLE and not entry.expired(now)]
    others = [entry for entry in members if entry.state != AVAILABLE or entry.expired(now)]
    grouped = any(entry.msg_flags & GROUPED for entry in members)
    found = lack(available, others, grouped=grouped)
    figures: dict[str, Any] = {"group_id": group_id.hex(), "available": len(available), **_others(others, now)}
    if grouped and not any(entry.offset == 0 and entry.msg_seq_number == 1 for entry in available):
        yield finding(
            Cause.FIRST_ITEM_ABSENT,
            f"the first message of group {group_id.hex()} is not available: no get in logical order begins the group",
            group_id=group_id.hex(),
        )
    if grouped and (found.messages or found.segments):
        yield _incomplete_group(found, figures)
    for number, gaps in found.segments.items():
        of = f"message {number} of group {group_id.hex()}" if grouped else f"the message of group id {group_id.hex()}"
        text = f"{of} lacks segments with the bytes {in_words(gaps)}"
        yield finding(Cause.INCOMPLETE_MESSAGE, text, **figures, msg_seq_number=number, missing=_lists(gaps))
    if not grouped and not available:
        yield finding(
            Cause.INCOMPLETE_MESSAGE, f"no segment of group id {group_id.hex()} is available", **figures, missing=[]
        )


def _incomplete_group(found: Lack, figures: dict[str, Any]) -> Finding:
    size = "its last message is not there" if found.last is None else f"it has {found.last}"
    lacks = f"messages {in_words(found.messages)}" if found.messages else "segments"
    text = f"group {figures['group_id']} lacks {lacks}; {size}"
    if uncommitted := figures.get("uncommitted"):
        text += f"; put and not committed: {', '.join(map(str, uncommitted))}"
    return finding(Cause.INCOMPLETE_GROUP, text, **figures, last=found.last, missing=_lists(found.messages))


def _lists(gaps: Iterable[tuple[int, int | None]]) -> list[list[int | None]]:
    return [list(gap) for gap in gaps]


def _others(others: Iterable[Entry], now: float) -> dict[str, list[int]]:
    """The sequence numbers of members that nobody gets now, by what keeps them."""
    kept: dict[str, set[int]] = {}
    for entry in others:
        name = "expired" if entry.state == AVAILABLE and entry.expired(now) else _KEPT_BY[entry.state]
        kept.setdefault(name, set()).add(entry.msg_seq_number)
    if "delayed" in kept:
        kept["waiting"] = kept["delayed"]  # the old word, until 0.2
    return {name: sorted(numbers)[:100] for name, numbers in sorted(kept.items())}


_KEPT_BY = {
    PUT_PENDING: "uncommitted", GET_PENDING: "got", LOCKED: "locked", DAMAGED: "damaged", CLAIMED: "claimed",
    DELAYED: "delayed",
}  # fmt: skip
