"""The documents name files that are there, and the site leads on from every address that it had."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import broker
import triggers
from tests.scripts import script

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

BEFORE = {
    "api", "architecture", "asyncio", "cases", "celery", "claims", "commands", "comparison", "configuration",
    "constants", "daemon", "dead-letters", "durability", "evermq", "glossary", "groups", "handlers",
    "handlers-reload", "index", "initiation-queues", "intra-group-queuing", "log", "operations",
    "performance", "periodic", "pipeline-archive", "pipeline-reassemble", "pipeline-replay",
    "pipeline-report", "properties", "queue-sharing-groups", "reasons", "retries", "semantics", "sharing",
    "spark", "storage", "testing", "tracing", "triggers", "tutorial", "versions", "waiting", "web", "workers",
}  # fmt: skip
"""The pages of the site when its addresses became fixed."""

GUIDES = {
    "CONTRIBUTING.md": "",
    "SECURITY.md": "",
    "tests/README.md": "tests",
    "docs/architecture.md": "broker",
    "docs/explanation/inside.md": "broker",
}
"""Documents for those who look at the files, each with the folder from which it may name them, beside the top."""

FILE = re.compile(r"[\w.*-]+\.(?:cfg|csv|jsonl|lark|md|mqsc|py|sql|toml|txt|ya?ml)")
FOLDER = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*/")
PATH = re.compile(rf"(?:[\w.*-]+/)+[\w.*-]+|{FILE.pattern}|{FOLDER.pattern}")
MADE = (".venv/", "build/")
"""Where to find what a command of the document makes."""


def code(markdown: str) -> Iterable[str]:
    """Return what stands in backticks, or in a block of code."""
    blocks = re.compile(r"^```.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return chain(blocks.findall(markdown), re.findall(r"`([^`\n]+)`", blocks.sub("", markdown)))


def paths(markdown: str) -> set[str]:
    """The files and folders that a document names."""
    words = chain.from_iterable(each.split() for each in code(markdown))
    named = (word.partition("::")[0].strip("'\"[](),;:") for word in words)
    return {word for word in named if PATH.fullmatch(word) and not word.startswith(MADE)}


@pytest.mark.parametrize(("guide", "folder"), GUIDES.items())
def test_every_file_that_a_guide_names_is_there(guide: str, folder: str) -> None:
    named = paths((ROOT / guide).read_text("utf-8"))
    assert named
    assert sorted(path for path in named if not any(any(top.glob(path)) for top in (ROOT, ROOT / folder))) == []


@pytest.mark.parametrize("guide", GUIDES)
def test_every_module_that_a_guide_runs_is_there(guide: str) -> None:
    run = re.findall(r"python -m ([\w./]+)", (ROOT / guide).read_text("utf-8"))
    assert [module for module in run if find_spec(module) is None] == []


@pytest.mark.parametrize("document", [each for each in GUIDES if not each.startswith("docs/")])
def test_every_link_leads_somewhere(document: str) -> None:
    text = (ROOT / document).read_text("utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    assert [each for each in targets if not ((ROOT / document).parent / each).exists()] == []


def sections(page: str) -> list[str]:
    """The anchors that Markdown gives the headings of a page."""
    return list(
        map(script("cases_page").slug, re.findall(r"^#+ (.+)$", (DOCS / page).read_text("utf-8"), re.MULTILINE))
    )


def test_every_page_that_the_sources_name_is_there() -> None:
    made = {f"docs/{page}" for page in script("site_pages").MADE}
    folders = ("broker", "docs/scripts", "examples", "tests", "triggers")
    sources = [ROOT / "CHANGELOG.md", *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    named = {(page, path) for path in sources for page in re.findall(r"docs/[\w/-]+\.md", path.read_text("utf-8"))}
    assert len(named) > 30
    assert sorted((page, path) for page, path in named if page not in made and not (ROOT / page).exists()) == []


def test_every_address_that_the_site_had_leads_on() -> None:
    site = script("site_pages")
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | site.MADE.keys()
    assert [page for page in BEFORE if f"{page}.md" not in there | site.MOVED.keys()] == []
    assert site.MOVED.keys() & there == set()
    for new in site.MOVED.values():
        page, _, section = new.partition("#")
        assert page in there
        assert not section or section in sections(page), new


def test_an_old_address_keeps_its_section() -> None:
    text = script("site_pages").leading_on()["pipeline-report.html"]
    assert 'location.replace("how-to/pipelines.html" + (location.hash || "#report-on-queues"))' in text


def test_the_site_takes_every_block_of_code_for_one() -> None:
    as_shown = script("site_pages").as_shown
    openings = {
        line for page in DOCS.rglob("*.md") for line in re.findall(r"^```.+$", as_shown(page.read_text("utf-8")), re.M)
    }
    assert {each for each in openings if not re.fullmatch(r'```\w+( title="[\w./]+")?', each)} == set()
    assert "```text" in openings


def test_the_glossary_has_a_word_of_each_public_class() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (DOCS / "reference" / "glossary.md").read_text("utf-8"), re.MULTILINE)
    assert terms[1:] == sorted(terms[1:], key=str.lower)
    stems = {word.lower()[:6] for term in terms for word in term.split()}
    public = {name for package in (broker, triggers) for name in dir(package) if re.match(r"[A-Z]+[a-z]", name)}
    words = {name: re.findall(r"[A-Z][a-z]+", name) for name in public - {"MQError", "NotServableError"}}
    assert len(words) > 40
    assert [name for name, parts in words.items() if not stems & {part.lower()[:6] for part in parts}] == []


def test_paths_are_told_from_other_words() -> None:
    text = "See `broker/core/`, `Call.take` and `wire/frames.py`, [`a.md`]:\n```sh\npython b/c.py --out=x\n```"
    assert paths(text) == {"broker/core/", "wire/frames.py", "a.md", "b/c.py"}


def test_the_commands_to_run_while_working_are_those_that_must_pass() -> None:
    must = (ROOT / ".ci" / "run").read_text("utf-8").replace('"$venv/bin/', ".venv/bin/").replace('"', "")
    commands = re.findall(r"^\.venv/bin/.*(?:ruff|mypy|pytest).*$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
    assert len(commands) == 4
    assert [each for each in commands if each.replace("format .", "format --check .") not in must] == []
