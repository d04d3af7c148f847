"""Which conformance texts are not run on shared queues."""

from __future__ import annotations

import re
from pathlib import Path

from tests.conformance.exempt import EXEMPT, EXEMPT_MAX, PRIVATE
from tests.conformance.sharing import shared

TEXTS = Path(__file__).parents[1] / "conformance"


def test_few_are_exempt_and_each_by_a_rule() -> None:
    assert len(EXEMPT) <= EXEMPT_MAX
    assert [name for name, why in EXEMPT.items() if not re.search(r"queue-sharing \d", why)] == []


def test_what_is_named_is_there() -> None:
    files = {path.stem: path.read_text("utf-8") for path in TEXTS.rglob("test_*.py")}
    assert set(PRIVATE) <= set(files)
    defined = re.findall(r"^async def (test_\w+)", "\n".join(files.values()), re.MULTILINE)
    assert set(EXEMPT) <= set(defined)


def test_the_queues_of_a_text_become_shared_and_nothing_else_does() -> None:
    text = "DEFINE QLOCAL(Q) MAXDEPTH(3)\nDEFINE QLOCAL(X) USAGE(XMITQ)\nDEFINE QALIAS(A) TARGET(Q)\nALTER QLOCAL(Q)"
    assert shared(text) == text.replace("QLOCAL(Q) MAX", "QLOCAL(Q) QSGDISP(SHARED) MAX")
    private = "DEFINE QLOCAL(SYSTEM.ADMIN.QMGR.EVENT) REPLACE\nDEFINE QLOCAL(P) QSGDISP(QMGR)"
    assert shared(private) == private
