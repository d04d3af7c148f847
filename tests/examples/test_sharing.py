"""The example of a queue-sharing group: two daemons and a PostgreSQL, as a newcomer starts them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT

if TYPE_CHECKING:
    from tests.examples.processes import Shell
    from tests.sharing.postgres import Postgres

SAYS = """\
1. A queue that both have: defined at one, known to the other.
   AMQ8006I: IBM MQ queue created.
   put at QM1, got at QM2 after N ms
2. QM1 is killed with a message in its hands, in a unit of work that it never ends.
   its program hears MQRC_CONNECTION_BROKEN (2009)
   QM2 has backed the unit out and got the message, N s after the kill
   what had been put in that unit of work is gone
3. QM1 comes back. A message for a queue that only it has goes there without a channel.
   AMQ8005I: IBM MQ queue manager changed.
   AMQ8006I: IBM MQ queue created.
   put at QM2 to (INBOX, QM1), got there after N ms
"""


@pytest.mark.postgres
def test_two_members_share_a_queue_outlive_each_other_and_send_without_a_channel(
    shell: Shell, postgres: Postgres
) -> None:
    said = shell.run(f"python {ROOT}/examples/sharing '{postgres.dsn()}'")
    assert re.sub(r"\d+(\.\d+)? (ms|s\b)", r"N \2", said) == SAYS


@pytest.mark.postgres
def test_it_starts_a_database_of_its_own(shell: Shell) -> None:
    said = shell.run(f"python {ROOT}/examples/sharing")
    assert re.sub(r"\d+(\.\d+)? (ms|s\b)", r"N \2", said) == SAYS
