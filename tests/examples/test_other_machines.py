"""docs/how-to/serve-other-machines.md: its commands make a certificate that clients take, and followed word for word
on two hosts, it ends with an order that is shipped on the other one.
"""

from __future__ import annotations

import shutil
import ssl
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.examples.processes import ROOT, Running, Shell
from tests.examples.test_readme import Block, Newcomer, blocks, logs
from tests.security.network.namespaces import NoNamespacesError, network

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.security.network.namespaces import Host

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


class Terminal(Shell):
    """A shell in which what is exported stays so."""

    def run(self, script: str) -> str:
        said = super().run(f"{script}\nenv --null >.exported")
        exported = (self.folder / ".exported").read_text("utf-8").rstrip("\0").split("\0")
        self.environment = dict(each.split("=", 1) for each in exported)
        return said


class Administrator(Newcomer):
    """Follows the page on the server, and what it says for the other host there."""

    def __init__(self, server: Shell, elsewhere: Shell, stack: ExitStack) -> None:
        super().__init__(server, stack)
        self.server = server
        self.elsewhere = elsewhere

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        match block:
            case Block(text="evermq init shop\n"):
                password = "correct horse"
                self.server.run_on_terminal(block.text, {"Password of admin: ": password, "Once more: ": password})
                self.server.folder /= "shop"  # cd shop
                (self.server.folder / "admin.password").touch(0o600)
                (self.server.folder / "admin.password").write_text(password, "utf-8")
            case Block(language="toml"):
                with (self.server.folder / "broker.toml").open("a", encoding="utf-8") as configuration:
                    configuration.write(block.text)
            case Block(purpose="elsewhere") | Block(language="python"):
                self._shell = self.elsewhere
                for brought in ("ca.pem", "shop.password"):
                    shutil.copy(self.server.folder / brought, self.elsewhere.folder)
                super().follow(block)
                self._shell = self.server
            case Block(text=text) if text.startswith("evermq explain connect"):
                self.server.run("echo \"DELETE AUTHREC OBJTYPE(QMGR) GROUP('workers')\" | evermq mqsc")
                super().follow(block)
            case _:
                super().follow(block)


@pytest.fixture
def hosts() -> Iterator[dict[str, Host]]:
    """The two hosts of the page."""
    with ExitStack() as stack:
        addresses = {"server": "192.0.2.10", "elsewhere": "192.0.2.7"}
        try:
            yield stack.enter_context(network(addresses, {"mq.example.com": "192.0.2.10"}))
        except NoNamespacesError as error:
            pytest.skip(str(error))


@pytest.fixture
def administrator(hosts: dict[str, Host], tmp_path: Path, programs: Path) -> Iterator[Administrator]:
    """One who is about to follow the page."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    for name in hosts:
        (tmp_path / name).mkdir()
    server, elsewhere = (Terminal(tmp_path / name, programs, host) for name, host in hosts.items())
    for each in (server, elsewhere):
        del each.environment["EVERMQ_LISTENER_PORT"]
    with ExitStack() as stack:
        yield Administrator(server, elsewhere, stack)


def test_the_page_leads_from_nothing_to_an_order_that_is_shipped_on_another_host(administrator: Administrator) -> None:
    for block in PAGE:
        administrator.follow(block)


def test_a_program_shows_a_certificate_in_place_of_a_password(administrator: Administrator) -> None:
    """As the page says it in words, with its commands for a channel."""
    server, elsewhere = administrator.server, administrator.elsewhere
    for each in PAGE:
        if each.language == "python":
            break
        administrator.follow(each)
        if each.language == "toml":
            administrator.follow(each._replace(text='ca = "ca.pem"\n'))
    administrator.follow(block("DEFINE CHANNEL(SHOP.SVRCONN)"))
    server.run("evermq mqsc channel.mqsc && echo 'extendedKeyUsage = clientAuth' >program.ext")
    _, _, request, signature = block("umask").text.replace("\\\n", "").splitlines()
    made = f"{request}\n{signature}".replace("/CN=mq.example.com", "/O=Shop/CN=worker-1")
    server.run(made.replace("server", "program"))
    for brought in ("ca.pem", "program.pem", "program.key"):
        shutil.copy(server.folder / brought, elsewhere.folder)
    asked = "evermq explain connect shop --from 192.0.2.7 --url 'mqs://mq.example.com/QM1?channel=SHOP.SVRCONN'"
    with pytest.raises(AssertionError, match=r"SSL_INITIALIZATION_ERROR \(2393\)"):
        elsewhere.run(f"EVERMQ_CA=ca.pem {asked}")
    said = elsewhere.run(f"EVERMQ_CA=ca.pem EVERMQ_CERT=program.pem EVERMQ_KEY=program.key {asked}")
    assert said.endswith("shop may connect from 192.0.2.7\n")


def test_the_worker_handles_what_is_put_to_the_queues_that_the_page_defines(shell: Shell) -> None:
    """By plain TCP on one machine."""
    save_files(shell)
    with ExitStack() as stack:
        stack.enter_context(shell.daemon("evermq run"))
        shell.run("evermq mqsc shop.mqsc")
        worker = stack.enter_context(Running(block("export EVERMQ_CA").text.splitlines()[-1], shell))
        said = [each.text.strip() for each in PAGE if each.purpose == "worker"]
        worker.wait_for(lambda line: logs(said[0], line))
        shell.run(block("evermq put").text)
        worker.wait_for(lambda line: logs(said[1], line))
