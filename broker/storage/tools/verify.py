"""Is a stopped store, or a backup, whole? Every byte that counts is looked at, past the caches, and none is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from broker.storage.tools.inspection import Inspection
from broker.storage.tools.old_file import old_store, placeholder_note
from broker.storage.tools.reading import stopped

if TYPE_CHECKING:
    from broker.storage.disk.disk import Disk


class Verdict(NamedTuple):
    """The verdict on a store: its faults, a line each, none when it is whole. `notes` are what a crash may leave, and
    no damage; `messages` and `definitions` are those that a start finds, in the snapshot and in the log; `batches` is
    the number that the log reaches, 0 in a store of version 1, which has none.
    """

    findings: list[str]
    notes: list[str]
    messages: int
    definitions: int
    batches: int


def verify(disk: Disk) -> Verdict:
    """Look at the store in a directory that nobody has open. It blocks; raises StoreUnusableError when there is none,
    when it is in use or of a newer format, and when a copy that is needed finds no room, OSError.
    """
    with stopped(disk.path), Inspection(disk) as inspection:
        old = old_store(disk)
        if old is not None:
            note = f"{disk.path} has a store of an older release; a start upgrades it"
            return Verdict(old.findings, [note], old.messages, old.definitions, 0)
        inspection.look()
        inspection.look_at_messages()
        if note := placeholder_note(disk):
            inspection.notes.append(note)
        return verdict(inspection)


def verdict(inspection: Inspection) -> Verdict:
    """Return the verdict of an inspection that has come to its end."""
    return Verdict(
        inspection.findings,
        inspection.notes,
        inspection.messages,
        inspection.definitions,
        inspection.chain.end if inspection.chain is not None else 0,
    )
