"""The examples do what they say, run as a newcomer runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT, Shell

if TYPE_CHECKING:
    from pathlib import Path


def test_the_embedded_manager_answers_requests(shell: Shell) -> None:
    assert shell.run(f"python {ROOT}/examples/embedded.py").splitlines() == [
        "AMQ8006I: IBM MQ queue created.",
        "AMQ8006I: IBM MQ queue created.",
        "three -> THREE",
        "two -> TWO",
        "one -> ONE",
    ]
    assert list(shell.folder.iterdir()) == []


CLIENT_SAYS = """\
connected to QM1
AMQ8006I: IBM MQ queue created.
AMQ8022I: IBM MQ queue cleared.
browsed: fire!, then coffee
backed out: cannot handle fire!
got: fire! (backout count 1)
got: coffee (backout count 0)
got: bread (backout count 0)
"""


@pytest.mark.parametrize("url", ["", " $EVERMQ_URL"], ids=["from the environment", "from the command line"])
def test_the_client_puts_browses_backs_out_and_gets(shell: Shell, url: str) -> None:
    with shell.daemon("evermq run"):
        assert shell.run(f"python {ROOT}/examples/client.py{url}") == CLIENT_SAYS


def test_the_client_can_be_run_again(shell: Shell) -> None:
    with shell.daemon("evermq run"):
        first = shell.run(f"python {ROOT}/examples/client.py")
        assert shell.run(f"python {ROOT}/examples/client.py") == first


@pytest.fixture
def shop(tmp_path: Path, programs: Path) -> Shell:
    """A shell in the folder of the repository, for a daemon with its data elsewhere."""
    return Shell(ROOT, programs, EVERMQ_QUEUE_MANAGER_DATA=str(tmp_path / "data"))


def test_each_order_starts_the_handler(shop: Shell) -> None:
    with shop.daemon("evermq run --config examples/orders/broker.toml") as daemon:
        shop.run("evermq put ORDERS '3 chairs'")
        assert shop.run("evermq get ORDERS.SHIPPED --wait 60") == "3 chairs shipped, EXPRESS\n"
        daemon.wait_for(lambda line: "shipped 3 chairs" in line)
        shop.run("evermq put ORDERS 'no number'")
        assert shop.run("evermq get ORDERS.REJECTED --wait 60") == "no number\n"
        daemon.wait_for(lambda line: "rejected b'no number'" in line)


def test_orders_that_waited_start_the_handler_when_the_daemon_starts_again(shop: Shell) -> None:
    run = "evermq run --config examples/orders/broker.toml"
    with shop.daemon(f"EVERMQ_TRIGGER_MONITOR_ENABLED=false {run}"):
        shop.run("printf '1 table\\n4 forks\\n' | evermq put ORDERS --lines")
    with shop.daemon(run):
        shipped = [shop.run("evermq get ORDERS.SHIPPED --wait 60") for _ in range(2)]
    assert sorted(shipped) == ["1 table shipped, EXPRESS\n", "4 forks shipped, EXPRESS\n"]
