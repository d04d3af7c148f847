"""A real browser, Debian's Chromium with its driver, on a queue manager in a thread of its own.

Needs selenium, which comes with the extra `full`, and /usr/bin/chromium with /usr/bin/chromedriver; without them the
tests skip by name.
"""

from __future__ import annotations

import shutil
from contextlib import asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import pytest
from anyio.from_thread import start_blocking_portal

from broker import QueueManager
from tests.http.conftest import port_of, serving
from tests.security.lines import PASSWORD, hashed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from anyio.from_thread import BlockingPortal

    from broker import Connection
    from broker.server.http_server import HttpServer

selenium = pytest.importorskip("selenium", reason="selenium comes with the extra full")

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.wait import WebDriverWait  # noqa: E402

__all__ = ["Keys", "Window", "World", "window", "world"]

CHROMIUM: Final = shutil.which("chromium")
DRIVER: Final = shutil.which("chromedriver")

OPTIONS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip

WATCH: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""

USERS: Final = (
    "DEFINE USER('alice') GROUPS('mqm') PASSWORD('{0}')",
    "DEFINE USER('bob') GROUPS('app') PASSWORD('{0}')",
    "DEFINE USER('carol') GROUPS('MQWebAdminRO', 'app') PASSWORD('{0}')",
    "SET AUTHREC OBJTYPE(QMGR) GROUP('app') AUTHADD(CONNECT, INQ, DSP)",
    "SET AUTHREC PROFILE('ORDERS') OBJTYPE(QUEUE) GROUP('app') AUTHADD(BROWSE, INQ, DSP)",
)


class World:
    """A queue manager that is served: `do` runs calls on a connection of its owner."""

    def __init__(self, portal: BlockingPortal, manager: QueueManager, server: HttpServer, owner: Connection) -> None:
        self.portal = portal
        self.manager = manager
        self.server = server
        self.owner = owner

    @property
    def url(self) -> str:
        return f"{self.server.addresses[0]}/console"

    def mqsc(self, text: str) -> Any:
        return self.portal.call(self.owner.mqsc, text)

    def go_away(self) -> None:
        """End the HTTP server; the queue manager stays."""
        self.portal.call(self.server.__aexit__, None, None, None)

    def come_back(self) -> None:
        """Serve again, at the same address: another life, which knows no session."""

        async def served() -> HttpServer:
            port = port_of(self.server)
            return await serving(self.manager, listen=f"127.0.0.1:{port}").__aenter__()

        self.server = self.portal.call(served)

    def put(self, q_name: str, data: Any, *args: Any, **kwargs: Any) -> bytes:
        """Put a message; its MsgId."""

        async def put() -> bytes:
            return (await self.owner.put1(q_name, data, *args, **kwargs)).md.msg_id

        return self.portal.call(put)


class Window:
    """A window of the browser."""

    def __init__(self, driver: Any, base: str) -> None:
        self.driver = driver
        self.base = base

    def open(self, path: str) -> None:
        self.driver.get(f"{self.base}{path}")

    def log_in(self, user: str = "alice", password: str = PASSWORD) -> None:
        self.open("/login")
        self.find("[name=user]").send_keys(user)
        self.find("[name=password]").send_keys(password)
        self.find("button.act").click()
        self.wait("header.bar")

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return found

    def link(self, text: str) -> Any:
        return self.driver.find_element(By.LINK_TEXT, text)

    def wait(self, selector: str, text: str = "", seconds: float = 15) -> Any:
        """Wait until an element is there, and has a text in it."""

        def there(driver: Any) -> Any:
            try:
                return next((each for each in self.all(selector) if text in each.text), None)
            except selenium.common.exceptions.StaleElementReferenceException:
                return None

        return WebDriverWait(self.driver, seconds, 0.05).until(there, f"{selector} with {text!r}")

    def run(self, script: str, *args: Any) -> Any:
        return self.driver.execute_script(script, *args)

    def press(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def resize(self, width: int, height: int = 1000) -> None:
        self._cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, *, dark: bool = True) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._cdp("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: str) -> None:
        self.driver.save_screenshot(path)

    def complaints(self) -> list[str]:
        """Return the complaints of the browser about the page: breaches of its policy, and errors of its script."""
        told = [each["message"] for each in self.driver.get_log("browser") if each["level"] != "INFO"]
        violations: list[str] = self.run("return window.violations || []")
        return violations + [each for each in told if "favicon" not in each]

    def _cdp(self, command: str, **arguments: Any) -> None:
        self.driver.execute_cdp_cmd(command, arguments)


@asynccontextmanager
async def _served(portal: BlockingPortal) -> AsyncIterator[World]:
    async with QueueManager.open(name="QM1", defaults="mq") as manager, manager.connect("orders") as owner:
        await owner.mqsc("DEFINE QLOCAL(ORDERS) MAXDEPTH(100000)\nDEFINE QLOCAL(MAIL)", check=True)
        await owner.mqsc("\n".join(USERS).format(hashed()), check=True)
        async with serving(manager) as server:
            world = World(portal, manager, server, owner)
            yield world
            if world.server is not server:
                await world.server.__aexit__(None, None, None)


@contextmanager
def running_world() -> Iterator[World]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served(portal)) as world:
        yield world


@contextmanager
def opened_window(base: str, *, script: bool = True) -> Iterator[Window]:
    """A window of a browser of its own; without `script` the browser runs none."""
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no Chromium here, or no chromedriver")
    with TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for each in (*OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(each)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        try:
            window = Window(driver, base)
            window.resize(1440)
            window._cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
            if not script:
                window._cdp("Emulation.setScriptExecutionDisabled", value=True)
            yield window
        finally:
            driver.quit()


@pytest.fixture
def world() -> Iterator[World]:
    with running_world() as world:
        yield world


@pytest.fixture
def window(world: World) -> Iterator[Window]:
    with opened_window(world.url) as window:
        yield window
