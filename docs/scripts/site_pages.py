"""The pages of the site that are no files in `docs/`: those that are made from the code, and those that lead on from
old addresses.

`mkdocs build` adds them (`docs/site/hooks.py`); `python docs/scripts/site_pages.py cases` prints one. The files
are shown as `as_shown` gives them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import cases_page
import reasons_page

if TYPE_CHECKING:
    from collections.abc import Callable

MADE: Final[dict[str, Callable[[], str]]] = {
    "rules/cases.md": cases_page.page,
    "reference/constants.md": reasons_page.constants,
    "reference/reasons.md": reasons_page.reasons,
}
"""Pages that change with the code and the tests, so they are not committed, and the functions that make them."""

MOVED: Final = {
    "api.md": "reference/api.md",
    "asyncio.md": "how-to/asyncio.md",
    "cases.md": "rules/cases.md",
    "celery.md": "how-to/celery.md",
    "claims.md": "rules/claims.md",
    "commands.md": "reference/commands.md",
    "comparison.md": "explanation/comparison.md",
    "configuration.md": "reference/configuration.md",
    "constants.md": "reference/constants.md",
    "daemon.md": "how-to/daemon.md",
    "dead-letters.md": "how-to/dead-letters.md",
    "durability.md": "explanation/durability.md",
    "evermq.md": "reference/evermq.md",
    "glossary.md": "reference/glossary.md",
    "groups.md": "how-to/groups.md",
    "handlers-reload.md": "how-to/workers.md#replace-its-handlers-while-they-run",
    "handlers.md": "rules/handlers.md",
    "initiation-queues.md": "how-to/initiation-queues.md",
    "intra-group-queuing.md": "how-to/queue-sharing.md#intra-group-queuing",
    "log.md": "rules/log.md",
    "operations.md": "how-to/operations.md",
    "performance.md": "explanation/performance.md",
    "periodic.md": "how-to/periodic.md",
    "pipeline-archive.md": "how-to/pipelines.md#archive-queues",
    "pipeline-reassemble.md": "how-to/pipelines.md#put-groups-and-segments-together",
    "pipeline-replay.md": "how-to/pipelines.md#put-archived-messages-back",
    "pipeline-report.md": "how-to/pipelines.md#report-on-queues",
    "properties.md": "how-to/properties.md",
    "queue-sharing-groups.md": "how-to/queue-sharing.md",
    "reasons.md": "reference/reasons.md",
    "retries.md": "how-to/retries.md",
    "semantics.md": "rules/semantics.md",
    "sharing.md": "rules/queue-sharing.md",
    "spark.md": "how-to/spark.md",
    "storage.md": "explanation/storage.md",
    "testing.md": "how-to/testing.md",
    "tracing.md": "how-to/tracing.md",
    "triggers.md": "rules/triggers.md",
    "tutorial.md": "tutorial/order-service.md",
    "versions.md": "reference/versions.md",
    "waiting.md": "how-to/waiting.md",
    "web.md": "how-to/web.md",
    "workers.md": "how-to/workers.md",
}
"""Old pages, and the pages and sections that have their text now."""

_LEADS_ON: Final = """\
<!doctype html>
<meta charset="utf-8">
<title>Moved</title>
<link rel="canonical" href="{page}">
<script>location.replace("{page}" + (location.hash || "{section}"))</script>
<noscript><meta http-equiv="refresh" content="0; url={page}{section}"></noscript>
<p>This page is now <a href="{page}{section}">{page}</a>.</p>
"""


_PURPOSE: Final = re.compile(r"^(```\w+) \w+$", re.MULTILINE)


def as_shown(markdown: str) -> str:
    """Return a page without the words that tell the tests whose a block is, as in "text worker": a site that meets one
    takes the block for prose.
    """
    return _PURPOSE.sub(r"\1", markdown)


def leading_on() -> dict[str, str]:
    """The file of each old address in the site, and its text. An address within an old page keeps its section."""
    found = {}
    for old, new in MOVED.items():
        page, mark, section = new.replace(".md", ".html").partition("#")
        found[old.replace(".md", ".html")] = _LEADS_ON.format(page=page, section=mark + section)
    return found


if __name__ == "__main__":
    print("\n".join(make() for name, make in MADE.items() if Path(name).stem in sys.argv[1:]), end="")
