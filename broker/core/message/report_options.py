"""The Report field of a message that is put: which options go together, and what becomes of those not known.

Options that this queue manager does not know fall under one of three masks (semantics 12.3): some are refused with
REPORT_OPTIONS_ERROR (2061), some are kept and the put warns with UNKNOWN_REPORT_OPTION (2104), and some are kept only
where the message goes on to another queue manager, which may know them. A pattern that no option has, such as "with
data" without the report itself, counts as not known.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from broker.mqi.constants.descriptor import (
    MQRO,
    MQRO_ACCEPT_UNSUP_IF_XMIT_MASK,
    MQRO_ACCEPT_UNSUP_MASK,
    MQRO_REJECT_UNSUP_MASK,
)
from broker.mqi.errors import MQError
from broker.mqi.reasons import MQRC


class ReportChoice(NamedTuple):
    """The three options of one kind of report. The bits of the last include those of the others."""

    plain: int
    with_data: int
    with_full_data: int

    def of(self, report: int) -> int:
        """The option of this kind in a Report field; 0 when there is none, or no valid one."""
        given = report & self.with_full_data
        return given if given in self else 0


EXCEPTION = ReportChoice(MQRO.EXCEPTION.value, MQRO.EXCEPTION_WITH_DATA.value, MQRO.EXCEPTION_WITH_FULL_DATA.value)
EXPIRATION = ReportChoice(MQRO.EXPIRATION.value, MQRO.EXPIRATION_WITH_DATA.value, MQRO.EXPIRATION_WITH_FULL_DATA.value)
COA = ReportChoice(MQRO.COA.value, MQRO.COA_WITH_DATA.value, MQRO.COA_WITH_FULL_DATA.value)
COD = ReportChoice(MQRO.COD.value, MQRO.COD_WITH_DATA.value, MQRO.COD_WITH_FULL_DATA.value)
CHOICES = (EXCEPTION, EXPIRATION, COA, COD)

WITH_DATA_BYTES = 100
"""The number of bytes of a message, after its MQ headers, that a report WITH_DATA carries."""

_SINGLE = (
    MQRO.PAN | MQRO.NAN | MQRO.ACTIVITY | MQRO.PASS_CORREL_ID | MQRO.PASS_MSG_ID | MQRO.PASS_DISCARD_AND_EXPIRY
    | MQRO.DISCARD_MSG
).value  # fmt: skip
_ALL_BITS = 0xFFFF_FFFF
_UNKNOWN_REPORT_OPTION = int(MQRC.UNKNOWN_REPORT_OPTION)


@lru_cache(maxsize=1024)
def check(report: int, *, remote: bool = False) -> int:
    """The reason of the warning that a put with this Report field gives, or 0.

    `remote` says that the message goes to another queue manager without the program naming the transmission queue.
    Raises REPORT_OPTIONS_ERROR (2061).
    """
    unknown = report & _ALL_BITS & ~_SINGLE
    for choice in CHOICES:
        unknown &= ~choice.of(report)
    refused = MQRO_REJECT_UNSUP_MASK if remote else MQRO_REJECT_UNSUP_MASK | MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    if unknown & refused:
        raise MQError(MQRC.REPORT_OPTIONS_ERROR, f"report={report:#x}: {unknown & refused:#x} is not an option")
    kept = MQRO_ACCEPT_UNSUP_MASK | MQRO_ACCEPT_UNSUP_IF_XMIT_MASK
    return _UNKNOWN_REPORT_OPTION if unknown & kept else 0
