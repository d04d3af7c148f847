"""The README and the tour are true: every block of them is run here, in its order, and prints what they show.

A block names its language, and after it what it is for: one with `title="NAME"` is saved under that name and not run,
`text` is what the block before it prints, `text daemon` and `text worker` what these print meanwhile. `...` stands for
anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.examples.processes import ROOT, Running

if TYPE_CHECKING:
    from pathlib import Path

    from tests.examples.processes import Daemon, Shell

README = (ROOT / "README.md").read_text("utf-8")
TOUR = (ROOT / "docs" / "tutorial" / "tour.md").read_text("utf-8")
PIPELINES = (ROOT / "docs" / "how-to" / "pipelines.md").read_text("utf-8")
ADDRESS = "127.0.0.1:1414"
SET_UP = "python3 -m venv .venv && .venv/bin/pip install -q . && "


class Block(NamedTuple):
    """A code block: its language, what it is for, and its text."""

    language: str
    purpose: str
    text: str


def blocks(markdown: str) -> list[Block]:
    """The code blocks of a page."""
    found = re.finditer(r"^```(\w+) ?([^\n]*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    return [Block(*block.groups()) for block in found]


class Newcomer:
    """Does what the README says, block by block. `said` is what the last block printed; None when the daemon was it."""

    def __init__(self, shell: Shell, stack: ExitStack) -> None:
        self._shell = shell
        self._stack = stack
        self._daemon: Daemon | None = None
        self._worker: Running | None = None
        self._said: str | None = ""

    def follow(self, block: Block) -> None:
        """Do what one block says."""
        match block.language:
            case _ if block.purpose.startswith("title="):
                (self._shell.folder / block.purpose.removeprefix("title=").strip('"')).write_text(block.text, "utf-8")
            case "sh" if "evermq worker" in block.text:
                self._worker = self._stack.enter_context(Running(block.text.strip(), self._shell))
                self._said = None
            case "sh" if "evermq run" in block.text:
                self._restart(block.text)
                self._said = None
            case "sh":
                self._said = self._shell.run(block.text)
            case "python":
                (self._shell.folder / "program.py").write_text(self._here(block.text), "utf-8")
                self._said = self._shell.run("python program.py")
            case "text" if block.purpose == "worker":
                for line in block.text.splitlines():
                    self._hear(line, self._worker)
            case "text" if block.purpose == "daemon" or self._said is None:
                for line in block.text.splitlines():
                    self._hear(line, self._daemon)
            case "text":
                assert self._said is not None
                assert shows(block.text, self._said), f"{self._said}\nshould be\n{block.text}"
            case _:
                raise AssertionError(f"what is a block of {block.language}?")

    def _restart(self, command: str) -> None:
        if self._daemon is not None:
            self._stack.close()
        self._daemon = self._stack.enter_context(self._shell.daemon(command.strip()))

    def _hear(self, line: str, who: Running | None) -> None:
        assert who is not None
        wanted = self._here(line)
        who.wait_for(lambda said: logs(wanted, said))

    def _here(self, text: str) -> str:
        return text.replace(ADDRESS, self._daemon.address) if self._daemon else text


def logs(shown: str, said: str) -> bool:
    """True if a line of the log has what a page shows of it, which may begin with `...`."""
    return shows(f"...{shown.removeprefix('... ')}...", said)


def shows(shown: str, said: str) -> bool:
    """True if the README shows what was said, `...` standing for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("..."))), said, re.DOTALL) is not None


def section(title: str) -> str:
    """The text of a section, with those below it."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def test_the_tour_shows_what_happens(shell: Shell) -> None:
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in blocks(TOUR):
            newcomer.follow(block)


@pytest.mark.parametrize("title", ["An app", "The MQI in fifteen lines"])
def test_the_first_lines_show_what_happens(shell: Shell, title: str) -> None:
    with ExitStack() as stack:
        newcomer = Newcomer(shell, stack)
        for block in blocks(section(title)):
            newcomer.follow(block)


def test_the_first_lines_print_no_warning(shell: Shell) -> None:
    """Nor anything else on standard error: Python prints warnings there where nobody has set up logging."""
    (shell.folder / "program.py").write_text(blocks(section("The MQI in fifteen lines"))[0].text, "utf-8")
    said = shell.run("python program.py 2>&1 >/dev/null")
    assert [
        line for line in said.splitlines() if not line.startswith("file system path=")
    ] == []  # /tmp may be anything


def test_the_first_lines_are_as_many_as_their_title_says() -> None:
    program = blocks(section("The MQI in fifteen lines"))[0].text
    assert len([line for line in program.splitlines() if line]) <= 15


EMBEDDED = re.compile(r'QueueManager.open\(name="QM1"(?:, data="[^"]*")?\)')
DEPTHS = """
import asyncio
from broker import QueueManager

async def main():
    async with QueueManager.open(name="QM1", data="kept") as manager, manager.connect() as connection:
        for reply in await connection.mqsc("DISPLAY QLOCAL(*) CURDEPTH"):
            for queue in reply.attributes:
                if not queue["QUEUE"].startswith("SYSTEM."):
                    print(queue["QUEUE"], queue["CURDEPTH"])

asyncio.run(main())
"""
KILLED = """
import builtins, os, signal

def print(*words):
    builtins.print(*words, flush=True)
    if words[0].startswith("{last}"):
        os.kill(os.getpid(), signal.SIGKILL)

"""


def ended(shell: Shell, program: str, *, killed: bool) -> str:
    """Return what is on the queues of a program of the README that kept its data, after its end. Killed: when it has
    said the last word.
    """
    text = EMBEDDED.sub('QueueManager.open(name="QM1", data="kept")', program)
    if killed:
        shown = [block.text for block in blocks(README + TOUR)]
        said = shown[shown.index(program) + 1]
        text = KILLED.format(last=said.splitlines()[-1]) + text
    (shell.folder / "program.py").write_text(text, "utf-8")
    (shell.folder / "depths.py").write_text(DEPTHS, "utf-8")
    shell.run(f"rm -rf kept; python program.py || test $? -eq {137 if killed else 0}")
    return shell.run("python depths.py")


def test_with_data_the_programs_keep_their_messages(shell: Shell) -> None:
    programs = [block.text for block in blocks(TOUR) if EMBEDDED.search(block.text)]
    found = []
    for program in programs:
        kept = ended(shell, program, killed=False)
        assert ended(shell, program, killed=True) == kept
        found += kept.splitlines()
    assert "NUMBERS 398" in found


def test_the_first_lines_lose_nothing_when_they_are_killed_in_their_unit_of_work(shell: Shell) -> None:
    program = blocks(section("The MQI in fifteen lines"))[0].text
    assert ended(shell, program, killed=False) == "ORDERS 0\n"
    assert ended(shell, program, killed=True) == "ORDERS 1\n"


def test_every_block_is_run_here() -> None:
    sections = ("An app", "The MQI in fifteen lines", "Two commands")
    assert blocks(README) == [block for title in sections for block in blocks(section(title))]
    assert README.count("```") == 2 * len(blocks(README))
    assert TOUR.count("```") == 2 * len(blocks(TOUR))


def test_the_first_command_ends_in_a_demonstration_that_accounts_for_every_line(shell: Shell) -> None:
    command = blocks(section("Two commands"))[0].text
    assert command.startswith(SET_UP)
    said = shell.run(command.removeprefix(SET_UP + ".venv/bin/"))
    assert re.search(r"^lines +3,000$", said, re.MULTILINE)
    assert said.endswith("\nevery line is accounted for\n")
    assert list(shell.folder.iterdir()) == []


def test_the_second_command_is_what_must_pass_before_a_change_lands() -> None:
    assert [block.text for block in blocks(section("Two commands"))[1:]] == ["bash .ci/run\n"]
    assert '"$venv/bin/python" -m pytest' in (ROOT / ".ci" / "run").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_pipeline_ends_in_a_page_with_the_figures_of_the_demonstration(shell: Shell) -> None:
    command = blocks(PIPELINES)[0].text
    steps = command.partition("&&\n")[2]  # what sets up is not run again
    assert steps.startswith("evermq demo --keep ")
    said = shell.run(steps)
    assert "3,200 messages archived to demo-archive" in said  # 3,000 lines, and 200 once more
    page = (shell.folder / "demo-report" / "report.html").read_text("utf-8")
    assert "<dd>3,200</dd>" in page
    assert page.count("<svg ") == 5


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_first_command_sets_up_what_it_needs(tmp_path: Path) -> None:
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    command = blocks(section("Two commands"))[0].text
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nevery line is accounted for\n")


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len(README.split()) <= 700
    assert len(re.findall(r"\]\(", README)) == 6


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
