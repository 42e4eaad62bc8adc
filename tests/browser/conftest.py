"""One browser for all tests, and one server for each named state of the page."""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 90.0
EXPECT_LIMIT_MS = 15_000  # a loaded machine of two cores draws late; what is right at once costs no wait


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


def find_chromium() -> str | None:
    """The browser named by CHROMIUM, or the first that is installed."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium was found: install Debian's chromium package, or name one in CHROMIUM")
    playwright.expect.set_options(timeout=EXPECT_LIMIT_MS)
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def serve(command: list[str], port: int, log: Path) -> Iterator[str]:
    """The address of a server that answers; it is ended afterwards."""
    environment = os.environ | {
        "GRADIO_SERVER_PORT": str(port),
        "GRADIO_SERVER_NAME": "127.0.0.1",
        "GRADIO_ANALYTICS_ENABLED": "False",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_until_it_answers(process, url, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    give_up_at = time.monotonic() + START_LIMIT_S
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)  # between two tries of one loop that ends as soon as the server answers
    pytest.fail(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")


@pytest.fixture(scope="session")
def serve_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """``serve_state("recorded")`` is the address of a page in that state; see replayed_app."""
    running: dict[str, tuple[object, str]] = {}
    logs = tmp_path_factory.mktemp("servers")

    def start(state: str) -> str:
        if state not in running:
            port = free_port()
            command = [sys.executable, "-m", "tests.browser.replayed_app", state, str(port)]
            server = serve(command, port, logs / f"{state}.log")
            running[state] = (server, server.__enter__())
        return running[state][1]

    yield start
    for server, _ in running.values():
        server.__exit__(None, None, None)  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def live_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The real app with a worker of its own, on whatever device this machine has."""
    pytest.importorskip("torch", reason="a live run needs torch")
    port = free_port()
    with serve([sys.executable, "app.py"], port, tmp_path_factory.mktemp("live") / "app.log") as url:
        yield url


class Visit:
    """A page that remembers what went wrong on it."""

    def __init__(self, browser, url: str, *, width: int, theme: str) -> None:
        self.page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=theme, accept_downloads=True
        )
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url, url))
        self.page.goto(f"{url}?__theme={theme}")
        self.page.locator("#origin .att").wait_for(state="attached")

    def _note(self, address: str, url: str) -> None:
        if not address.startswith((url.rstrip("/"), "data:", "blob:")):
            self.foreign.append(address)

    def open_tab(self, slug: str) -> None:
        self.page.locator(f"#tab-{slug}-button").click()
        self.page.locator(f"#tab-{slug}").wait_for(state="visible")

    def choose(self, field: str, option: str) -> None:
        """Picks ``option`` in the drop-down ``field``."""
        self.page.locator(f"#{field} input").click()
        self.page.get_by_role("option", name=option).first.click()

    def run(self) -> None:
        """Presses Run live and waits for the live result."""
        self.page.locator("#run:not([disabled])").click()
        self.page.locator("#progress .running").wait_for(state="attached")
        self.page.locator("#progress .running").wait_for(state="detached", timeout=120_000)

    def assert_clean(self) -> None:
        assert self.errors == []
        assert self.foreign == []


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    """``visit(url, width=1280, theme="light")`` opens a page; at the end each must be free of errors."""
    visits: list[Visit] = []

    def open_page(url: str, *, width: int = 1280, theme: str = "light") -> Visit:
        visits.append(Visit(browser, url, width=width, theme=theme))
        return visits[-1]

    yield open_page
    for one in visits:
        one.page.close()
    for one in visits:
        one.assert_clean()
