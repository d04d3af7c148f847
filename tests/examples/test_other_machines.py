"""docs/how-to/serve-other-machines.md: its commands make a certificate that clients take, and its worker works."""

from __future__ import annotations

import shutil
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT, Running
from tests.examples.test_readme import blocks, shows

if TYPE_CHECKING:
    from tests.examples.processes import Shell
    from tests.examples.test_readme import Block

PAGE = blocks((ROOT / "docs" / "how-to" / "serve-other-machines.md").read_text("utf-8"))


def block(beginning: str) -> Block:
    """The one block of the page whose text begins so."""
    (found,) = (each for each in PAGE if each.text.startswith(beginning))
    return found


def save_files(shell: Shell) -> None:
    for each in PAGE:
        if each.purpose.startswith("title="):
            (shell.folder / each.purpose.removeprefix("title=").strip('"')).write_text(each.text, "utf-8")


@pytest.fixture
def certified(shell: Shell) -> Shell:
    """A folder with what the commands of the page have made."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    save_files(shell)
    shell.run(block("umask").text)
    return shell


def shake_hands(shell: Shell, host: str) -> None:
    """A client that trusts the page's authority, as strictly as Python can, and calls the server by this name."""
    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    of_server.load_cert_chain(shell.folder / "server.pem", shell.folder / "server.key")
    of_client = ssl.create_default_context(cafile=str(shell.folder / "ca.pem"))
    of_client.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = of_client.wrap_bio(back, there, server_hostname=host)
    server = of_server.wrap_bio(there, back, server_side=True)
    for end in (client, server, client, server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert client.version() is not None


@pytest.mark.parametrize("host", ["mq.example.com", "192.0.2.10"])
def test_clients_take_the_certificate_for_the_names_that_it_is_for(certified: Shell, host: str) -> None:
    shake_hands(certified, host)


def test_clients_take_it_for_no_other_name(certified: Shell) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(certified, "mq.example.org")


def test_nobody_else_can_read_the_keys(certified: Shell) -> None:
    keys = [each for each in certified.folder.iterdir() if each.suffix == ".key"]
    assert {each.name: oct(each.stat().st_mode & 0o777) for each in keys} == {"ca.key": "0o600", "server.key": "0o600"}


def test_the_worker_handles_what_is_put_to_the_queues_that_the_page_defines(shell: Shell) -> None:
    """By plain TCP on one machine."""
    save_files(shell)
    with ExitStack() as stack:
        stack.enter_context(shell.daemon("evermq run"))
        shell.run("evermq mqsc shop.mqsc")
        worker = stack.enter_context(Running(block("export EVERMQ_CA").text.splitlines()[-1], shell))
        said = [each.text.strip() for each in PAGE if each.purpose == "worker"]
        worker.wait_for(lambda line: shows(said[0], line))
        shell.run(block("evermq put").text)
        worker.wait_for(lambda line: shows(said[1], line))
