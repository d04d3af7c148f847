"""A user of another host is refused, an administrator asks why, and the line that is the answer lets the user in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.security.lines import hashed
from tests.security.network.conftest import ELSEWHERE
from tests.security.network.served import serving

if TYPE_CHECKING:
    from pathlib import Path

    from tests.security.network.namespaces import Host

DEFINITIONS: Final = f"DEFINE USER('bob') REPLACE PASSWORD('{hashed()}')\nDEFINE QLOCAL(Q) REPLACE\n"
REFUSED: Final = "NOT_AUTHORIZED (2035)"


@pytest.fixture
def server(hosts: dict[str, Host]) -> Host:
    return hosts["server"]


@pytest.fixture
def elsewhere(hosts: dict[str, Host]) -> Host:
    return hosts["elsewhere"]


async def test_x9_1_the_lines_of_explain_let_a_user_of_another_host_in_and_outlive_a_kill(
    server: Host, elsewhere: Host, tmp_path: Path
) -> None:
    explained = [("connect", "bob", "--from", ELSEWHERE), ("open", "Q", "--as", "bob", "--for", "put")]
    async with serving(tmp_path, server, DEFINITIONS) as at:
        for question in explained:
            code, said = await at.evermq(elsewhere, "bob", "put", "Q", "x")
            assert code != 0
            assert REFUSED in said
            code, said = await at.evermq(server, "root", "explain", *question)
            assert code == 0, said
            *_, verdict, line = said.splitlines()
            assert verdict.endswith("; this would allow it:")
            code, said = await at.evermq(server, "root", "mqsc", typed=line)
            assert code == 0, said
            await at.daemon.kill()
            await at.daemon.start()
            code, said = await at.evermq(server, "root", "explain", *question)
            assert code == 0
            assert "not " not in said.splitlines()[-1]
        code, said = await at.evermq(elsewhere, "bob", "put", "Q", "x")
        assert code == 0, said
        line = at.daemon.log[-1]
        assert " event=connected " in line
        assert line.endswith(" user=bob application=evermq channel=EVERMQ.SVRCONN peer=192.0.2.7 proof=password\n")
