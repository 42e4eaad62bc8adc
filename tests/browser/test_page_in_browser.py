"""What a visitor does: read the recorded run, run, be refused, be corrected, stop, download, on any screen."""

import csv
import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from profiling.export import EXPORTERS
from profiling.recording import parse_recording
from tests.conftest import TRACES
from ui.panels import PANELS

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect

SLUGS = [panel.slug for panel in PANELS]


def test_opens_with_the_recorded_run(serve_state, visit) -> None:
    page = visit(serve_state("recorded")).page
    expect(page.locator("#origin")).to_contain_text("recorded on NVIDIA H200, 2026-11-29")
    expect(page.locator("#origin")).to_contain_text("torch 2.11.0+cu130 · CUDA 13.0")
    for part in ("auto → cudnn", "57.5", "CUDA graph replay", "+ 1 memset", "✓ within budget", "✓ ok"):
        expect(page.locator("#strip")).to_contain_text(part)
    expect(page.locator("#findings")).to_contain_text("checks clear")
    expect(page.locator("#panel-summary dt")).to_have_count(6 + 7)  # six questions, and seven figures of the work


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_tab_is_filled_and_never_scrolls_sideways(serve_state, visit, width: int, theme: str) -> None:
    visitor = visit(serve_state("recorded"), width=width, theme=theme)
    page = visitor.page
    expect(page.locator("body")).to_have_class("dark" if theme == "dark" else "")
    if width == 390:
        expect(page.locator(".sidebar")).not_to_have_class("open")
    for slug in SLUGS:
        visitor.open_tab(slug)
        expect(page.locator(f"#tab-{slug}")).not_to_have_text("")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # Hidden overflow would pass the line above and still cut text off.
        cut = page.evaluate(
            """() => [...document.querySelectorAll('#results .att *, #origin *, #top-bar *')]
                .filter((node) => !node.closest('.table-scroll, pre, svg, .visually-hidden'))
                .filter((node) => node.getClientRects().length)
                .filter((node) => node.getBoundingClientRect().right > window.innerWidth + 1)
                .map((node) => node.outerHTML.slice(0, 120))"""
        )
        assert cut == []


def test_strip_has_two_columns_on_a_narrow_screen(serve_state, visit) -> None:
    page = visit(serve_state("recorded"), width=390).page
    lefts = page.locator("#strip .strip > div").evaluate_all(
        "nodes => nodes.map(n => Math.round(n.getBoundingClientRect().left))"
    )
    assert len(set(lefts)) == 2


def test_narrow_screen_shows_a_runs_progress_wherever_the_visitor_was(serve_state, visit) -> None:
    page = visit(serve_state("slow"), width=390).page
    page.evaluate("window.scrollTo(0, 900)")
    page.locator(".sidebar .toggle-button").click()
    page.locator("#run:not([disabled])").click()
    expect(page.locator(".sidebar")).not_to_have_class("open")
    expect(page.locator("#progress")).to_contain_text("profiling")
    expect(page.locator("#progress .running")).to_be_in_viewport()
    page.locator(".sidebar .toggle-button").click()
    page.locator("#stop").click()
    expect(page.locator("#notices")).to_contain_text("Stopped")


def test_narrow_screen_gives_each_download_its_own_line(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"), width=390)
    visitor.open_tab("downloads")
    for line in visitor.page.locator("#downloads-list p").all():
        assert line.bounding_box()["width"] > 250


def test_gallery_opens_another_recording(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    visitor.choose("gallery", "sdpa_math")
    expect(visitor.page.locator("#strip")).to_contain_text("math → math")
    expect(visitor.page.locator("#strip")).to_contain_text("20")


def test_live_run_replaces_the_recorded_one_and_scores_the_guess(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    visitor.choose("preset", "Naive")
    expect(page.locator("#field-backend input")).to_have_value("naive")
    page.locator("#guess input, #guess textarea").fill("six")
    page.locator("#run:not([disabled])").click()
    for place in ("#form-error", "#notices"):
        expect(page.locator(place)).to_contain_text("guess='six' is not a whole number")
    page.locator("#guess input, #guess textarea").fill("6")
    visitor.run()
    expect(page.locator("#origin")).to_contain_text("live on NVIDIA H200")
    expect(page.locator("#strip")).to_contain_text("guess: 6 ✗ ran 5")
    expect(page.locator("#panel-summary")).to_contain_text("1 fewer")
    expect(page.locator("#findings")).to_contain_text("Hidden copy")
    for slug in SLUGS:
        visitor.open_tab(slug)
        expect(page.locator(f"#tab-{slug}")).not_to_have_text("")


def test_form_shows_the_chosen_masks_parameters_and_its_picture(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    expect(page.locator("#field-mask_alignment")).to_be_visible()
    expect(page.locator("#field-mask_window")).to_have_count(0)
    visitor.choose("field-mask", "sliding_window")
    window = page.locator("#field-mask_window input, #field-mask_window textarea")
    expect(page.locator("#form-error")).to_contain_text("mask_window=None is missing")
    window.fill("0")
    expect(page.locator("#form-error")).to_contain_text("mask_window=0 is out of range")
    window.fill("100")
    expect(page.locator("#form-error")).to_have_text("")
    expect(page.locator("#mask-picture")).to_contain_text("9.3\u2009% of the pairs allowed")
    page.locator("#field-seq_len_q input").fill("2048")
    expect(page.locator("#mask-picture svg")).to_have_count(2)
    expect(page.locator("#form-error")).to_contain_text("mask_alignment=None")
    visitor.choose("field-mask_alignment", "upper_left")
    expect(page.locator("#mask-picture")).to_contain_text("✓ upper_left")
    expect(page.locator("#mask-picture")).to_contain_text("query rows may attend to nothing")
    visitor.choose("field-mask", "none")
    expect(page.locator("#field-mask_window")).to_have_count(0)
    expect(page.locator("#field-mask_alignment")).to_have_count(0)
    expect(page.locator("#form-error")).to_have_text("")
    expect(page.locator("#run")).to_be_enabled()
    visitor.choose("field-mask", "sliding_window")
    expect(window).to_have_value("100")
    visitor.choose("preset", "Padding")
    lengths = page.locator("#field-mask_lengths input, #field-mask_lengths textarea")
    expect(lengths).to_have_value("640,1024,900,777,512,300,128,16")
    expect(page.locator("#mask-picture")).to_contain_text("batch entry 0 is drawn")
    expect(page.locator("#field-mask_window")).to_have_count(0)


@pytest.mark.parametrize(
    "chosen",
    [
        {"mask": "sliding_window", "backend": "compiled_naive_max_autotune"},
        {"operation": "residual_rms_norm"},
    ],
)
def test_no_name_in_the_form_runs_under_the_arrow_of_its_list(serve_state, visit, chosen: dict[str, str]) -> None:
    visitor = visit(serve_state("recorded"), width=1280)
    for field, name in chosen.items():
        visitor.choose(f"field-{field}", name)
        expect(visitor.page.locator(f"#field-{field} input")).to_have_value(name)
    gaps = visitor.page.evaluate(
        """() => [...document.querySelectorAll('#sidebar-form input[role="combobox"]')]
            .filter((input) => input.getClientRects().length)
            .map((input) => {
                const style = getComputedStyle(input), pen = document.createElement('canvas').getContext('2d');
                pen.font = `${style.fontSize} ${style.fontFamily}`;
                const start = input.getBoundingClientRect().left + parseFloat(style.paddingLeft);
                const arrow = input.parentElement.querySelector('.dropdown-arrow path').getBoundingClientRect();
                return [input.ariaLabel, arrow.left - start - pen.measureText(input.value).width];
            })"""
    )
    assert {"backend", "dtype", *chosen} <= {label for label, _ in gaps}
    assert [label for label, gap in gaps if gap < 0] == []


def test_no_label_of_the_form_shines_through_the_row_of_buttons(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"), width=1280)
    page = visitor.page
    visitor.choose("preset", "Padding")  # a long form; and by now the sidebar has come to rest
    expect(page.locator("#mask-picture")).to_contain_text("batch entry 0 is drawn")
    on_top = page.evaluate(
        """() => {
            const row = document.querySelector('#run-row'), scroller = row.closest('.sidebar-content');
            const edge = row.getBoundingClientRect();
            return [...document.querySelectorAll('#sidebar-form [data-testid="block-info"]')]
                .filter((label) => label.getClientRects().length)
                .map((label) => {
                    scroller.scrollTop += label.getBoundingClientRect().top - edge.top - 10;
                    const at = label.getBoundingClientRect(), x = at.left + at.width / 2, y = at.top + at.height / 2;
                    const hidden = y > edge.top && y < edge.bottom;
                    return [hidden, !hidden || row.contains(document.elementFromPoint(x, y))];
                });
        }"""
    )
    assert any(hidden for hidden, _ in on_top)
    assert all(covered for _, covered in on_top)


def test_refused_backend_shows_its_reason_and_no_number(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    visitor.choose("preset", "Refusal")
    expect(page.locator("#eligibility")).to_contain_text("why not")
    visitor.run()
    notice = page.locator("#notices")
    for part in (
        "sdpa_flash did not run",
        "this is float32",
        "PyTorch said",
        "<b>not bold</b>",
        "Set dtype to bfloat16",
    ):
        expect(notice).to_contain_text(part)
    expect(page.locator("#notices b")).to_have_count(0)
    expect(page.locator("#strip .strip")).to_have_count(0)
    expect(page.locator("#panel-backends")).to_contain_text("✗ refuses")  # the table is in front


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kv_heads", "3", "kv_heads=3 does not divide num_heads=16; choose 1, 2, 4, 8 or 16."),
        ("batch_size", "0", "batch_size=0 is out of range"),
        ("seq_len_q", "", "seq_len_q='' is empty"),
        ("head_dim", "1.5", "head_dim=1.5 is not a whole number"),
    ],
)
def test_bad_value_shows_its_message_and_blocks_the_run(
    serve_state, visit, field: str, value: str, message: str
) -> None:
    page = visit(serve_state("recorded")).page
    box = page.locator(f"#field-{field} input")
    good = box.input_value()
    box.fill(value)
    expect(page.locator("#form-error")).to_contain_text(message)
    expect(page.locator("#run")).to_be_disabled()
    box.fill(good)
    expect(page.locator("#form-error [role=alert]")).to_have_count(0)
    expect(page.locator("#run")).to_be_enabled()


def test_notes_of_the_form_are_about_the_machine_once_it_is_known(serve_state, visit) -> None:
    page = visit(serve_state("recorded")).page
    expect(page.locator("#eligibility")).to_contain_text("By rule on NVIDIA H200")


def test_stop_ends_the_run_and_the_next_one_starts(serve_state, visit) -> None:
    page = visit(serve_state("slow")).page
    for _ in range(2):
        page.locator("#run:not([disabled])").click()
        expect(page.locator("#progress")).to_contain_text("profiling")
        expect(page.locator("#progress")).to_contain_text("previous result")
        page.locator("#stop").click()
        expect(page.locator("#notices")).to_contain_text("Stopped")
        expect(page.locator("#progress .running")).to_have_count(0)
    expect(page.locator("#origin")).to_contain_text("recorded on")


def test_a_stop_has_the_last_word_whenever_it_comes(serve_state, visit) -> None:
    page = visit(serve_state("slow")).page
    for wait_ms in (0, 100, 300, 500, 700):
        page.locator("#run:not([disabled])").click()
        page.wait_for_timeout(wait_ms)  # this delay is what the test varies
        page.locator("#stop:not([disabled])").dblclick()
        expect(page.locator("#notices")).to_contain_text("Stopped")
        expect(page.locator("#run")).to_be_enabled()
        page.wait_for_timeout(1500)  # a stage that arrives late would come now
        expect(page.locator("#progress .running")).to_have_count(0)
        expect(page.locator("#stop")).to_be_disabled()


def test_cpu_machine_starts_from_a_small_case_and_says_that_no_device_ran(serve_state, visit) -> None:
    visitor = visit(serve_state("cpu"))
    page = visitor.page
    expect(page.locator("#field-seq_len_q input")).to_have_value("512")
    expect(page.locator("#top-bar")).to_contain_text("test CPU")
    visitor.run()
    expect(page.locator("#strip")).to_contain_text("no device activity was recorded; this ran on the CPU")
    expect(page.locator("#strip")).to_contain_text("wall time")
    visitor.open_tab("kernels")
    expect(page.locator("#panel-kernels")).to_contain_text("this ran on the CPU")
    expect(page.locator("#panel-kernels td").first).to_contain_text("aten::")


def test_empty_page_says_what_to_do(serve_state, visit) -> None:
    page = visit(serve_state("empty")).page
    expect(page.locator("#origin")).to_contain_text("No run yet")
    expect(page.locator("#results")).to_have_count(0)


def read_download(name: str, data: bytes) -> None:
    """Fails where the file does not parse as what its name says."""
    if name == "trace.json.gz":
        assert json.loads(gzip.decompress(data))["traceEvents"]
    elif name == "recording.json.gz":
        assert parse_recording(data).workload is not None
    elif name.endswith(".json"):
        assert json.loads(data)["kernels"]
    elif name.endswith(".csv"):
        assert len(list(csv.reader(io.StringIO(data.decode())))) > 1
    elif name.endswith(".py"):
        compile(data, name, "exec")
    elif name.endswith(".zip"):
        archive = zipfile.ZipFile(io.BytesIO(data))
        assert archive.testzip() is None
        assert len(archive.namelist()) >= 5
    elif name.endswith(".md"):
        assert data.decode().startswith("#")
    else:
        assert data


@pytest.mark.parametrize("exporter", EXPORTERS, ids=lambda exporter: exporter.slug)
def test_download_arrives_and_parses(serve_state, visit, exporter) -> None:
    visitor = visit(serve_state("recorded"))
    visitor.open_tab("downloads")
    with visitor.page.expect_download() as waiting:
        visitor.page.locator(f"#download-{exporter.slug}").click()
    assert waiting.value.suggested_filename == exporter.file_name
    read_download(exporter.file_name, Path(waiting.value.path()).read_bytes())


def test_trace_downloads_exactly_as_the_profiler_wrote_it(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    visitor.open_tab("downloads")
    with visitor.page.expect_download() as waiting:
        visitor.page.locator("#download-chrome_trace").click()
    assert Path(waiting.value.path()).read_bytes() == (TRACES / "cudnn.json.gz").read_bytes()


def test_brought_trace_opens_and_lacks_what_it_cannot_have(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    page.locator("input[type=file]").first.set_input_files(TRACES / "math.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from math.json.gz")
    expect(page.locator("#strip")).to_contain_text("20")
    visitor.open_tab("downloads")
    expect(page.locator("#tab-downloads")).to_contain_text("Not available")


def test_file_that_is_no_trace_says_so_and_keeps_the_page(serve_state, visit, tmp_path: Path) -> None:
    wrong = tmp_path / "holiday.json"
    wrong.write_text('{"beach": true}')
    page = visit(serve_state("recorded")).page
    page.locator("input[type=file]").first.set_input_files(wrong)
    expect(page.locator("#notices")).to_contain_text("holiday.json was not opened")
    expect(page.locator("#strip")).to_contain_text("auto → cudnn")


def test_table_sorts_by_value(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    visitor.choose("gallery", "naive")
    expect(visitor.page.locator("#strip")).to_contain_text("naive → naive")
    visitor.open_tab("kernels")
    table = visitor.page.locator("#panel-kernels table")
    for order in ("descending", "ascending"):
        table.get_by_role("button", name="mean").click()
        heading = table.locator("th[aria-sort]")
        expect(heading).to_have_attribute("aria-sort", order)
        column = heading.evaluate("node => node.cellIndex")
        values = [
            float(value)
            for value in table.locator("tbody tr").evaluate_all(
                f"rows => rows.map(row => row.cells[{column}].dataset.sort)"
            )
        ]
        assert values == sorted(values, reverse=order == "descending")


def test_row_and_timeline_select_each_other(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    visitor.open_tab("kernels")
    row = page.locator("#panel-kernels tr[data-items]").first
    row.click()
    expect(row).to_have_attribute("aria-selected", "true")
    visitor.open_tab("timeline")
    expect(page.locator(".tl-slice.hot")).not_to_have_count(0)
    expect(page.locator(".tl-link")).not_to_have_count(0)
    expect(page.locator(".tl-record")).to_contain_text("cudnn_generated")
    page.locator(".tl-slice.device").first.click()  # the memset
    expect(page.locator(".tl-record h4")).to_have_text("Memset (Device)")
    visitor.open_tab("kernels")
    selected = page.locator("#panel-kernels tr[aria-selected=true]")
    expect(selected).to_have_count(1)
    expect(selected).to_contain_text("Memset")


def test_timeline_works_by_keyboard_and_ruler(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    visitor.open_tab("timeline")
    chart = page.locator(".tl-chart")
    chart.focus()

    def widest() -> float:
        return max(page.locator(".tl-slice").evaluate_all("nodes => nodes.map(n => n.width.baseVal.value)"))

    before = widest()
    page.keyboard.press("+")
    assert widest() > before
    page.keyboard.press("0")
    assert widest() == pytest.approx(before)
    page.keyboard.press("n")
    expect(page.locator(".tl-record h4")).not_to_have_text("")
    page.keyboard.press("r")
    box = chart.bounding_box()
    page.mouse.click(box["x"] + 300, box["y"] + 30)
    page.mouse.click(box["x"] + 500, box["y"] + 30)
    expect(page.locator(".tl-measure")).to_contain_text("between the two marks")
    page.keyboard.press("Escape")
    page.locator(".tl-step").select_option("1")
    expect(page.locator(".tl-slice.device")).to_have_count(2)


def test_evidence_opens_the_timeline(serve_state, visit) -> None:
    page = visit(serve_state("recorded")).page
    page.locator("#findings summary", has_text="Fused kernels").click()  # a note: its evidence opens when asked for
    page.get_by_role("button", name="show on timeline").first.click()
    expect(page.locator("#tab-timeline")).to_be_visible()
    expect(page.locator(".tl-slice.hot")).not_to_have_count(0)


NASTY_NAME = "<img src=x onerror=\"document.title='broken in'\">${document.title='broken in'}{{constructor}}`"


def write_nasty_trace(path: Path) -> None:
    """A small trace whose every name tries to become a tag or a template."""
    launch = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "args": {"correlation": 5}}
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"correlation": 5, "stream": 7, "device": 0}}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": NASTY_NAME, "pid": 1, "tid": 1, "ts": 1, "dur": 50},
        launch | {"name": "cudaLaunchKernel", "ts": 10, "dur": 5},
        kernel | {"name": NASTY_NAME, "ts": 20, "dur": 40},
    ]
    path.write_text(json.dumps({"traceEvents": events}))


def test_names_of_a_trace_stay_text(serve_state, visit, tmp_path: Path) -> None:
    write_nasty_trace(tmp_path / "nasty.json")
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    page.locator("input[type=file]").first.set_input_files(tmp_path / "nasty.json")
    expect(page.locator("#origin")).to_contain_text("opened from nasty.json")
    visitor.open_tab("kernels")
    page.locator("#panel-kernels tr[data-items]").first.click()
    visitor.open_tab("timeline")
    page.locator(".tl-slice.device").first.hover()
    expect(page.locator(".tl-record h4")).to_have_text(NASTY_NAME)
    for slug in SLUGS:
        visitor.open_tab(slug)
        expect(page.locator("#results img")).to_have_count(0)
    expect(page).to_have_title("AttnScope")
