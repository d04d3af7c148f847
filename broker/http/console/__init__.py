"""The console: web pages for people who look after a queue manager. HTML made in Python by htpy, without a script of
others; needs the extra `http`. Written over the public names of `broker` alone, with the rights of who asks.

console    the application: lets callers in, finds the page, answers
site       what all pages share
visit      one request of a caller, and what pages ask of it
page       what a page is: content, live parts, actions
layout     the document around a page
troubles   what of the queue manager is not ready, above the content of each page
elements   elements that pages share
rows       the rows of queues and handlers
paging     lists some rows at a time
forms      buttons, each with the line that it sends
stream     the live parts of a page as server-sent events
entry      the login page, the page of a queue manager without users
admission  what the console asks of the entrance of the HTTP server
answers    documents in pieces, and the headers of all answers
browsing   the messages of a queue, browsed or held by somebody
letters    dead letters gathered, and what is done with them
objects    attributes, completion, the commands of a session
figures    one look a second at the status for all pages; fifteen minutes of figures
pages      the pages, a module each
assets     the style sheet and the script

A page, for example of the units of work, is a module of `pages`:

    async def _content(visit: Visit) -> Content:
        parts = await _parts(visit)
        body = section("Units of work", table("Units of work", COLUMNS, live("units", parts, h.tbody)))
        return Content("Units", body)

    async def _parts(visit: Visit) -> Parts:
        look = await visit.look()  # figures that are shared by all who look, as far as this caller may display them
        return {"units": [_row(visit, each) for each in look.units_of_work]}

    async def _resolve(visit: Visit, form: FormData) -> Notice:
        async with visit.connection() as connection:  # of the caller: all is judged as its
            [reply] = await connection.mqsc(f"RESOLVE ...")
        return Notice(reply.text, good=reply.ok)

    UNITS = ConsolePage(path="/units", name="Units", content=_content, parts=_parts, actions={"resolve": _resolve})

1. Add it to `PAGES` in `broker.http.console.pages`, and its line to the map there. `{name:segment}` in its path is any
   text, which `visit.param("name")` returns; `visit.url("queues", name, "messages", page=2)` is the path of another.
2. What somebody chose (names, payloads, reasons, properties) is shown by `shown(text)`, identifiers by `identifier`,
   instants by `when(instant, visit.now)`, figures by `count`, `rate`, `octets`: never by an f-string in an element.
3. A live part is a list of children, each with a key: `Keyed(key, Markup(h.tr({"data-key": key})[...]))` or
   `keyed(key, ...)`. Rows that change seldom are made by a function of plain values with `lru_cache` (`rows`): it is
   called for each open page each second. A part that is not there leaves its element empty: say so in another part.
   Parts are shared by all who may see the same: no form is in them.
4. A button is `action_form(visit, Action(name="resolve", label="Resolve", line="RESOLVE ...", missing=await
   visit.missing(name, "chg"), confirm="..."))`: `line` is what it sends, `missing` what the caller lacks. Its name is
   a key of `actions`. The frame has checked the form's token and the role; an MQError becomes a notice by itself.
5. No `style=`, no `on...=`, no script: the page allows none. Looks are classes of `assets/console.css`: `section`,
   `columns` (two side by side), `tiles`, `tabs`, `badge` and its kinds, `filter` (a form of fields in a row), `pager`,
   `notice`; a `PageColumn` with `wide=True` is left out on narrow screens.
6. Read a bounded part: a hundred rows, and the way to the next. Nothing is counted for a page number.
"""
