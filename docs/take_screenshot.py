"""Take the README's picture of the page with its first recorded run: ``make screenshot``.

Serves the app itself on a free port, waits until the recorded run stands and the machine has said what it is, opens
the kernel table and writes ``docs/screenshot.png``. Chromium comes from the system (``CHROMIUM`` names it).
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "screenshot.png"
VIEWPORT = {"width": 1440, "height": 900}
START_LIMIT_S = 60.0
READY_LIMIT_MS = 60_000


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        sys.exit("Chromium was not found. Install it or name it: make screenshot CHROMIUM=/path/to/chromium")
    port = free_port()
    environment = os.environ | {"GRADIO_SERVER_NAME": "127.0.0.1", "GRADIO_SERVER_PORT": str(port)}
    server = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment)
    try:
        address = f"http://127.0.0.1:{port}"
        wait_for(address, server)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport=VIEWPORT, color_scheme="light", device_scale_factor=1.25)
            page.goto(address)
            show_kernels(page)
            page.screenshot(path=PICTURE)
            browser.close()
    finally:
        server.terminate()
        server.wait(timeout=30)
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size} bytes")


def show_kernels(page: Page) -> None:
    """Waits for the recorded run and every request of the load, then opens the kernel table."""
    page.locator("#strip dt").first.wait_for(timeout=READY_LIMIT_MS)
    page.get_by_role("tab", name="Kernels").click()
    page.locator("#panel-kernels table").first.wait_for(timeout=READY_LIMIT_MS)
    page.wait_for_function("document.fonts.status === 'loaded'")
    page.mouse.move(0, 0)  # no row stands out because the pointer rests on it
    page.evaluate("window.scrollTo(0, 0)")
    page.wait_for_timeout(3_000)  # the machine's name arrives when torch was imported in the worker


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    """Returns once the page answers; ends the program when the server has ended or takes too long."""
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        if server.poll() is not None:
            sys.exit(f"app.py ended with status {server.returncode} before it served the page.")
        try:
            with urlopen(address, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    sys.exit(f"app.py did not serve {address} within {START_LIMIT_S:.0f} s.")


if __name__ == "__main__":
    main()
