"""The document around a page: navigation, search, who has come in, and the notice about what was just done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import htpy as h

from broker.http.console.assets import SCRIPT, STYLE
from broker.http.console.elements import live, shown
from broker.http.console.forms import hidden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from htpy import Element, Node

    from broker.http.console.page import ConsolePage, Content, Keyed, Notice
    from broker.http.console.visit import Visit

KEYS: Final = (
    ("/", "search a queue"),
    ("j", "the next row"),
    ("k", "the row before"),
    ("Enter", "open the row"),
    ("g", "the first page of the console"),
    ("?", "show or hide these keys"),
)

_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Crect width='16' height='16' rx='4' fill='%230b6e5f'/%3E"
    "%3Cpath d='M4 5h8M4 8h8M4 11h5' stroke='white' stroke-width='1.6'/%3E%3C/svg%3E"
)


def document(
    visit: Visit,
    page: ConsolePage,
    content: Content,
    pages: Sequence[ConsolePage],
    notice: Notice | None,
    troubles: Sequence[Keyed] = (),
) -> Element:
    """The whole of a page. The first page has `troubles` in its verdict."""
    site = visit.site
    return _html(
        site.base,
        f"{content.title} – {site.q_mgr_name}" if site.q_mgr_name else content.title,
        h.a(".skip", href="#main")["To the content"],
        h.header(".bar")[
            h.a(".home", href=visit.url())[h.span(".mark", aria_hidden="true"), h.bdi[site.q_mgr_name or "EverMQ"]],
            _navigation(visit, page, pages),
            h.form(".search", method="get", action=visit.url("queues"), role="search")[
                h.input(
                    type="search", name="q", id="search", aria_label="Search a queue by its name",
                    placeholder="Queue  /", spellcheck="false",
                    value=visit.query("q") if page.path == "/queues" else "",
                )
            ],
            h.div(".who")[
                h.span(".live", id="live", role="status", hidden=True)["live"],
                shown(visit.caller.user, 24),
                h.form(method="post", action=visit.url("logout"))[
                    hidden("form_token", visit.form_token), h.button(".plain", type="submit")["Log out"]
                ],
            ],
        ],
        h.main("#main", tabindex="-1", data_stream="" if page.parts is not None and content.status == 200 else None)[
            _crumbs(visit, content.crumbs),
            _notice(notice),
            live("troubles", {"troubles": troubles}) if page.path != "/" else None,
            h.h1[shown(content.title)],
            content.body,
        ],
        h.dialog("#keys", aria_label="Keys")[
            h.h2["Keys"], h.dl[((h.dt[h.kbd[key]], h.dd[what]) for key, what in KEYS)]
        ],
    )  # fmt: skip


def bare_document(base: str, title: str, body: Node, *, refresh: int = 0) -> Element:
    """A page for somebody who has not come in, or where the queue manager is away. `refresh`: it is asked for again
    after so many seconds.
    """
    return _html(base, title, h.main("#main.alone", tabindex="-1")[h.h1[title], body], refresh=refresh)


def _html(base: str, title: str, *body: Node, refresh: int = 0) -> Element:
    return h.html(lang="en")[
        h.head[
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.meta(http_equiv="refresh", content=str(refresh)) if refresh else None,
            h.title[title],
            h.link(rel="icon", href=_ICON),
            h.link(rel="stylesheet", href=f"{base}/assets/{STYLE.name}"),
            h.script(src=f"{base}/assets/{SCRIPT.name}", defer=True),
        ],
        h.body(data_base=base)[body],
    ]


def _navigation(visit: Visit, page: ConsolePage, pages: Sequence[ConsolePage]) -> Element:
    def current(each: ConsolePage) -> str | None:
        if each is page:
            return "page"
        return "true" if each.path != "/" and page.path.startswith(each.path) else None

    return h.nav(aria_label="Pages")[
        (h.a(href=f"{visit.base}{each.path}", aria_current=current(each))[each.name] for each in pages if each.name)
    ]


def _crumbs(visit: Visit, crumbs: Sequence[tuple[str, str]]) -> Node:
    if not crumbs:
        return None
    return h.nav(".crumbs", aria_label="Where this is")[
        ((h.a(href=f"{visit.base}{path}")[shown(word)], h.span(aria_hidden="true")[" / "]) for word, path in crumbs)
    ]


def _notice(notice: Notice | None) -> Node:
    if notice is None:
        return None
    return h.p(".notice.good" if notice.good else ".notice.bad", role="status")[shown(notice.text, 2000)]
