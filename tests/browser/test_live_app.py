"""The real app, its own worker and a real run, on whatever device this machine has."""

import pytest

from ui.panels import PANELS

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect
pytestmark = pytest.mark.torch

LONGEST_MS = 240_000  # importing torch from a cold disk, and then a run of some seconds


def test_live_run_fills_every_tab(live_app: str, visit) -> None:
    visitor = visit(live_app)
    page = visitor.page
    expect(page.locator("#top-bar")).to_contain_text("torch", timeout=LONGEST_MS)
    visitor.choose("preset", "Small")
    expect(page.locator("#field-seq_len_q input")).to_have_value("512")
    page.locator("#run:not([disabled])").click()
    expect(page.locator("#origin")).to_contain_text("live on", timeout=LONGEST_MS)
    expect(page.locator("#strip")).to_contain_text("within budget")
    expect(page.locator("#notices .notice")).to_have_count(0)
    for panel in PANELS:
        visitor.open_tab(panel.slug)
        expect(page.locator(f"#tab-{panel.slug}")).not_to_have_text("")
    visitor.open_tab("operators")
    expect(page.locator("#panel-operators")).to_contain_text("aten::scaled_dot_product_attention")
    visitor.open_tab("timeline")
    expect(page.locator(".tl-slice.operator")).not_to_have_count(0)
