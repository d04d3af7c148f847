"""Dead letters, handlers, units, the group, objects, commands and the log in a real browser: with its script, without,
and by the keyboard alone.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from broker.mqi import MQPMO
from tests.http.console.chromium import Keys, opened_window, window, world
from tests.http.console.hostile import HOSTILE
from tests.http.console.readable import check_readable
from triggers import App, Reject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.http.console.chromium import Window, World

__all__ = ["window", "world"]

PATHS = (
    "/dead-letters", "/handlers", "/units", "/group", "/objects", "/objects?kind=CHLAUTH", "/objects/QLOCAL/SHOP",
    "/objects/QLOCAL/SHOP?edit=1", "/objects/QLOCAL/SHOP?set-MAXDEPTH=7", "/commands", "/log",
    "/objects/access?explain=open&name=SHOP&for=put&as=bob",
)  # fmt: skip


@contextmanager
def shop(world: World, *bodies: str) -> Iterator[list[str]]:
    """Two workers that serve SHOP: a body `bad` is rejected. What they have done is returned."""
    done: list[str] = []
    apps = [App(world.manager, name=f"shop{number}") for number in range(2)]
    for app in apps:

        @app.handler("SHOP")
        async def ship(body: str) -> None:
            if "bad" in body:
                raise Reject(f"<b>{body}</b>")
            done.append(body)

    with (
        world.portal.wrap_async_context_manager(apps[0].running()),
        world.portal.wrap_async_context_manager(apps[1].running()),
    ):
        for body in bodies:
            world.put("SHOP", body)
        yield done


def dead(world: World, window: Window, count: int) -> None:
    """Wait for so many dead letters, on the page of them."""
    window.open("/dead-letters")
    for _ in range(100):
        if any(each.text == str(count) for each in window.all("tbody td.n a")):
            return
        window.open("/dead-letters")
    raise AssertionError(window.find("main").text)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_each_page_can_be_read_and_has_names_for_what_it_has(
    world: World, window: Window, width: int, dark: bool
) -> None:
    window.resize(width)
    window.dark(dark=dark)
    with shop(world, "bad 1", "bad 2", "good"):
        world.put("ORDERS", "held", options=MQPMO.SYNCPOINT)
        window.log_in()
        dead(world, window, 2)
        letters = window.find("tbody tr a").get_attribute("href").removeprefix(window.base)
        window.open(letters)
        letter = window.find("tbody tr a").get_attribute("href").removeprefix(window.base)
        window.open("/commands")
        window.find("#command").send_keys("DISPLAY QLOCAL(SHOP) ALL", Keys.ENTER)
        window.wait(".notice.good", "1 command sent")
        for path in (*PATHS, letters, letter):
            window.open(path)
            window.wait("main h1")
            check_readable(window, path)


def test_n1_2_and_n1_3_what_has_failed_is_seen_and_retried_in_three_clicks(world: World, window: Window) -> None:
    with shop(world, "bad 1", "bad 2", "bad 3"):
        window.log_in()
        dead(world, window, 3)
        window.open("/")
        window.link("Dead letters").click()  # 1
        window.wait("tbody tr a", "rejected").click()  # 2
        window.wait("tbody tr a").click()  # 3: reason, traceback, how often it came back
        assert "It was not put back before." in window.wait("main", "Dead letter").text
        window.link("rejected").click()
        window.wait("input[name=sure]").click()
        window.wait("button", "Retry all 3").click()
        window.wait(".notice.good", "3 letters put back to SHOP.")


def test_a_letter_is_found_edited_and_put_back_by_the_keyboard_alone(world: World, window: Window) -> None:
    with shop(world, "bad order") as done:
        window.log_in()
        dead(world, window, 1)
        window.press("j", Keys.ENTER)
        window.wait("h1", "Died of: rejected")
        window.press("j", Keys.ENTER)
        window.wait("h1", "Dead letter")
        for _ in range(60):
            window.press(Keys.TAB)
            if window.driver.switch_to.active_element.get_attribute("name") == "data":
                break
        window.press(Keys.CONTROL + "a", "new order", Keys.TAB, Keys.TAB, Keys.ENTER)
        window.wait(".notice.good", "1 letter put back to SHOP.")
        for _ in range(100):
            if done:
                break
            window.open("/handlers")
        assert done == ["new order"]
        assert window.complaints() == []


def test_without_a_script_every_page_reads_and_its_forms_post(world: World) -> None:
    with shop(world, "bad 1", "bad 2"), opened_window(world.url, script=False) as window:
        window.log_in()
        dead(world, window, 2)
        window.find("tbody tr a").click()
        window.wait("tbody input[name=letter]").click()
        window.wait("button", "Remove the chosen").click()
        window.wait(".notice.good", "1 letter removed for good.")
        window.open("/handlers")
        window.wait("button", "Pause SHOP").click()
        window.wait(".notice.good", "SHOP is paused")
        window.open("/objects/QLOCAL/SHOP?edit=1")
        field = window.wait("input[name=MAXDEPTH]")
        field.clear()
        field.send_keys("4321")
        window.find("main button.act").click()
        window.wait("code.line", "MAXDEPTH(4321)")
        window.wait("button", "Send").click()
        window.wait(".notice.good", "AMQ8008I")
        window.open("/commands")
        window.find("#command").send_keys("DISPLAY QLOCAL(SHOP) MAXDEPTH", Keys.ENTER)
        assert "4321" in window.wait(".done").text
        for path in (*PATHS, "/log?level=ERROR"):
            window.open(path)
            window.wait("main h1")


def test_a_command_is_completed_while_it_is_typed(world: World, window: Window) -> None:
    window.log_in()
    window.open("/commands")
    window.find("#command").send_keys("ALTER QLOCAL(ORD")
    window.wait("#completions option[value='ALTER QLOCAL(ORDERS)']")
    window.find("#command").send_keys("ERS) MAXD")
    window.wait("#completions option[value='ALTER QLOCAL(ORDERS) MAXDEPTH(']")
    assert window.complaints() == []


def test_n4_1_what_a_user_may_not_do_is_shown_and_refused(world: World, window: Window) -> None:
    world.mqsc("DEFINE QLOCAL(SHOP.DEAD) DESCR('Dead letters of SHOP')\nDEFINE QLOCAL(SHOP)")
    world.put("SHOP.DEAD", "x", properties={"evermq.queue": "SHOP", "evermq.why": "failed"})
    world.mqsc("SET AUTHREC PROFILE('SHOP.DEAD') OBJTYPE(QUEUE) GROUP('app') AUTHADD(BROWSE, INQ, DSP)")
    window.log_in("bob")
    window.open("/dead-letters/letters?why=failed")
    assert "needs get,browse on SHOP.DEAD" in window.wait("main", "needs").text
    assert not [each for each in window.all("main button") if each.is_enabled()]
    window.open("/log")
    assert "MQRC_NOT_AUTHORIZED" in window.wait("main", "MQRC").text
    window.open("/commands")
    window.find("#command").send_keys("DELETE QLOCAL(SHOP)", Keys.ENTER)
    window.wait(".notice.bad", "1 failed")


def test_n2_3_hostile_texts_are_texts_in_a_browser_whose_policy_has_nothing_to_report(
    world: World, window: Window
) -> None:
    world.mqsc("DEFINE QLOCAL(SHOP.DEAD) DESCR('Dead letters of SHOP')")
    ids = []
    for text in HOSTILE.values():
        plain = text.encode("utf-8", "replace").decode().replace("\x00", "")[:3000]
        told = {"queue": "SHOP", "why": plain[:100], "handler": plain[:100], "error": plain, "traceback": plain}
        properties = {f"evermq.{name}": value for name, value in told.items()}
        ids.append(world.put("SHOP.DEAD", text.encode("utf-8", "surrogatepass")[:20_000], properties=properties))
    window.log_in()
    window.open("/dead-letters")
    lists = [
        each.get_attribute("href").removeprefix(window.base)
        for each in window.all("tbody td:first-child a[href*=letters]")
    ]
    for path in ("/dead-letters", *lists, *(f"/dead-letters/SHOP.DEAD/{each.hex()}" for each in ids)):
        window.open(path)
        window.wait("main h1")
        assert window.run("return document.querySelectorAll('script').length") == 1
        assert window.run("return document.querySelectorAll('img, iframe, style, base, b, object, embed').length") == 0
        assert window.run("return document.title").endswith("– QM1")
        assert window.complaints() == [], path
