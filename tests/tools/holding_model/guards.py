"""The guards of held messages. Each can be taken out, and a schedule must be found in which that does harm."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Guards:
    """What keeps messages whole; all of it by default."""

    fence: bool = True
    """Every statement that writes checks the member and its epoch."""
    active_end: bool = True
    """Commit and backout end only a unit that is active, of the life that they name."""
    epoch_named: bool = True
    """Who undoes a get of unknown outcome names the life in which it was asked; in another it does nothing."""
    stray: bool = True
    """Recovery also frees what is held without a unit that goes on."""
    outcome_read: bool = True
    """A commit of unknown outcome is settled by the row of the unit, not by a guess."""
    outcome_written: bool = True
    """Who finds the unit active writes that it is backed out, with its effects."""
    one_transaction: bool = True
    """A decision and the rows that it moves are one transaction."""
    entered: bool = True
    """A call joins only an active unit of its own life."""
    older_lives: bool = True
    """Recovery touches lives before the claimed epoch alone."""
    undecided: bool = True
    """Recovery decides only what nobody has decided."""
    turn: bool = True
    """A statement whose turn was given up comes too late."""
    settled: bool = True
    """Who settles a turn waits for the end of its transaction."""
    in_hand: bool = True
    """Outside syncpoint the COMMIT is sent when the rows have arrived."""
    recoverer: bool = True
    """Only the recoverer, at the claimed epoch, says that a recovery is over."""
    prepare_active: bool = True
    """Only an active unit of its own life is prepared."""
    prepared_apart: bool = True
    """Recovery leaves prepared units alone."""
    stray_apart: bool = True
    """What is held by a prepared unit is not taken for stray."""
    decided_once: bool = True
    """A decision from elsewhere, or by hand, ends only a unit that is prepared."""
    decided_life: bool = True
    """A decision moves what the life holds in which the unit was prepared, not the one that decides."""
    private_first: bool = True
    """The private half of a mixed unit is prepared before the shared half is committed."""
    row_stays: bool = True
    """The row of a mixed unit stays until its private half has ended."""
    generation: bool = True
    """Claims and their ends carry the generation of the consumer; an older one is refused."""
    claims_apart: bool = True
    """Claims belong to the consumer, not to the life by way of which they were made."""
    lock_of_handle: bool = True
    """A get of a locked message names the handle that has locked it, with its life."""
    got_counted: bool = True
    """The backout count rises for what was got, not for what was locked or claimed."""

    def without(self, *names: str) -> Guards:
        """All of these but some."""
        return replace(self, **dict.fromkeys(names, False))


SECOND_LINES: Final = {"stray": "epoch_named", "entered": "turn"}
"""Guards behind another: without them something is found only where that one is out too."""
NAMES: Final = tuple(each.name for each in fields(Guards) if each.name not in SECOND_LINES)
"""The names of all guards that hold by themselves."""
