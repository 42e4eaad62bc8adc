"""A trace of the visitor's own and a comparison of two: opened, dropped, refused, laid beside each other."""

import gzip
import json
from pathlib import Path

import pytest

from profiling.recording import write_recording
from tests.conftest import TRACES, build_sample
from tests.unit.trace_builder import annotation, operator, write

expect = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed").expect

OPEN = "#open-trace"
BASELINE = "#baseline-file"
READ_MS = 30_000  # the bomb expands to 256 MiB, twice, before it is refused


def give(page, button: str, path: Path) -> None:
    """Gives the file at ``path`` to the input that belongs to ``button``."""
    page.locator(f"input[type=file]:has(+ {button})").set_input_files(path)


def drop(page, target: str, *paths: Path) -> None:
    """Drops files on the element ``target``, as from a file manager."""
    files = [{"name": path.name, "bytes": list(path.read_bytes())} for path in paths]
    transfer = page.evaluate_handle(
        """files => {
            const transfer = new DataTransfer();
            for (const file of files) transfer.items.add(new File([new Uint8Array(file.bytes)], file.name));
            return transfer;
        }""",
        files,
    )
    for event in ("dragover", "drop"):
        page.dispatch_event(target, event, {"dataTransfer": transfer})


def write_lossy(path: Path) -> Path:
    """The naive trace with its last kernel lost."""
    document = json.loads(gzip.decompress((TRACES / "naive.json.gz").read_bytes()))
    kernels = [event for event in document["traceEvents"] if event.get("cat") == "kernel"]
    document["traceEvents"].remove(max(kernels, key=lambda event: event["ts"]))
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("kind", ["json", "json.gz"])
def test_trace_opens_and_each_tab_says_what_the_file_lacks(serve_state, visit, tmp_path: Path, kind: str) -> None:
    data = (TRACES / "math.json.gz").read_bytes()
    path = tmp_path / f"mine.{kind}"
    path.write_bytes(gzip.decompress(data) if kind == "json" else data)
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, path)
    expect(page.locator("#origin")).to_contain_text(f"opened from mine.{kind}")
    for slug, words in {
        "operators": "No shapes recorded: record with record_shapes=True.",
        "latency": "No clocks recorded",
        "correctness": "No values recorded",
        "memory": "No memory recorded",
        "environment": "No versions and flags recorded",
    }.items():
        visitor.open_tab(slug)
        expect(page.locator(f"#tab-{slug} .panel-note")).to_contain_text(words)
    visitor.open_tab("kernels")
    expect(page.locator("#panel-kernels tr[data-items]")).not_to_have_count(0)
    expect(page.locator("#tab-kernels .panel-note")).to_have_count(0)


def test_label_named_after_opening_marks_the_calls_of_the_open_file(serve_state, visit, tmp_path: Path) -> None:
    path = tmp_path / "block.json"
    path.write_bytes(write([annotation("ProfilerStep#1", 0, 100), annotation("block", 5, 80), operator("mm", 10, 5)]))
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, path)
    note = page.locator("#tab-summary .panel-note")
    expect(note).to_contain_text(
        "No label 'attn_fwd' recorded, so nothing marks each call. This file's labels: 'block'"
    )
    field = page.locator("#open-label").locator("input, textarea")
    field.fill("block")
    field.press("Enter")
    expect(page.locator("#panel-summary")).to_contain_text("the call in each is labelled block")
    expect(note).not_to_contain_text("No label")
    expect(page.locator("#origin")).to_contain_text("opened from block.json")


def test_evidence_brings_the_timeline_into_view(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, TRACES / "math.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from math.json.gz")
    page.get_by_role("button", name="show on timeline").first.click()
    expect(page.locator("#tab-timeline .tl-chart")).to_be_in_viewport()


def test_recording_restores_the_whole_report(serve_state, visit, tmp_path: Path) -> None:
    path = tmp_path / "recording.json.gz"
    path.write_bytes(write_recording(build_sample("naive")))
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, path)
    expect(page.locator("#origin")).to_contain_text(
        "opened from recording.json.gz, recorded on NVIDIA H200, 2026-11-29"
    )
    for part in ("naive → naive", "1.06\u2009ms", "✓ within budget"):
        expect(page.locator("#strip")).to_contain_text(part)
    expect(page.locator(".panel-note")).to_have_count(0)


def test_suspect_trace_is_announced_above_every_number_it_taints(serve_state, visit, tmp_path: Path) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, write_lossy(tmp_path / "lossy.json"))
    banner = page.locator("#notices .taint")
    expect(banner).to_contain_text("The trace is suspect")
    expect(banner).to_contain_text("launch without device item")
    assert banner.bounding_box()["y"] < page.locator("#strip").bounding_box()["y"]
    for slug in ("summary", "kernels", "operators", "timeline", "compare_traces"):
        visitor.open_tab(slug)
        expect(page.locator(f"#tab-{slug} .taint").first).to_contain_text("suspect")
    visitor.open_tab("latency")
    expect(page.locator("#tab-latency .taint")).to_have_count(0)
    visitor.choose("gallery", "naive")
    expect(page.locator(".taint")).to_have_count(0)


def test_file_dropped_on_the_page_opens_and_two_are_refused(serve_state, visit) -> None:
    page = visit(serve_state("recorded")).page
    drop(page, "#strip", TRACES / "naive.json.gz", TRACES / "math.json.gz")
    expect(page.locator("#open-refusal")).to_contain_text("2 files were dropped; give one at a time.")
    drop(page, "#strip", TRACES / "flash.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz")
    expect(page.locator("#open-refusal")).to_have_text("")


def test_file_opened_while_another_is_read_is_the_one_that_stays(serve_state, visit, tmp_path: Path) -> None:
    page = visit(serve_state("recorded")).page
    event = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}'
    slow = tmp_path / "slow.json"
    slow.write_text(f'{{"traceEvents": [{",".join([event] * 200_000)}]}}')
    with page.expect_request("**/queue/join*"):
        give(page, OPEN, slow)
    give(page, OPEN, TRACES / "flash.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz", timeout=READ_MS)


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("huge.json", 201 * 2**20, "huge.json has 201 MB and 200 MB are allowed"),
        ("notes.txt", 10, "notes.txt is not a .json or .gz file"),
    ],
)
def test_file_that_cannot_be_uploaded_gets_one_line_that_stays(serve_state, visit, name, size, words) -> None:
    page = visit(serve_state("recorded")).page
    page.locator(f"input[type=file]:has(+ {OPEN})").evaluate(
        """(input, [name, size]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(size)], name));
            input.files = transfer.files;
            input.dispatchEvent(new Event("change", { bubbles: true }));
        }""",
        [name, size],
    )
    expect(page.locator("#open-refusal")).to_contain_text(words)
    give(page, OPEN, TRACES / "flash.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz")
    expect(page.locator("#open-refusal")).to_have_text("")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'{"beach": true}', "Not a profiler trace"),
        (b"\x1f\x8b not gzip", "not readable gzip"),
        (b"", "Not a profiler trace"),
        (gzip.compress(b"[" + bytes(300 * 2**20)), "expands to more than"),
    ],
    ids=["other json", "damaged", "empty", "gzip bomb"],
)
def test_bad_file_gets_one_line_and_the_page_stays_usable(serve_state, visit, tmp_path, data, words) -> None:
    wrong = tmp_path / "wrong.json.gz"
    wrong.write_bytes(data)
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, wrong)
    expect(page.locator("#notices")).to_contain_text("wrong.json.gz was not opened", timeout=READ_MS)
    expect(page.locator("#notices")).to_contain_text(words)
    expect(page.locator("#strip")).to_contain_text("auto → cudnn")
    visitor.open_tab("compare_traces")
    give(page, BASELINE, wrong)
    expect(page.locator("#panel-compare_traces")).to_contain_text(words, timeout=READ_MS)
    give(page, OPEN, TRACES / "flash.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz")


def test_comparison_with_the_gallery_follows_the_run_on_the_page(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    visitor.open_tab("compare_traces")
    panel = page.locator("#panel-compare_traces")
    expect(panel).to_contain_text("Choose a recorded run")
    visitor.choose("baseline-picker", "naive")
    expect(panel).to_contain_text("One recorded variable differs, backend: naive before, sdpa_auto after.")
    expect(panel).to_contain_text("18.4× faster")
    vanished = panel.locator("tr", has_text="masked_fill_kernel")
    expect(vanished).to_contain_text("vanished")
    expect(panel.locator("tr", has_text="Memcpy")).to_contain_text("−256\u2009MiB")
    panel.locator("tr", has_text="cudnn_sdpa").click()
    visitor.open_tab("timeline")
    expect(page.locator(".tl-slice.hot")).not_to_have_count(0)
    visitor.choose("gallery", "sdpa_math")
    visitor.open_tab("compare_traces")
    expect(panel).to_contain_text("backend: naive before, sdpa_math after")
    expect(panel).to_contain_text("2.48× slower")
    visitor.choose("preset", "Naive")
    visitor.run()
    expect(panel).to_contain_text("live run · naive")
    expect(panel).to_contain_text("No recorded variable differs")
    assert "faster" not in panel.locator("table").first.inner_text().replace("slower or faster", "")


def test_two_files_are_compared(serve_state, visit) -> None:
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, TRACES / "flash.json.gz")
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz")
    visitor.open_tab("compare_traces")
    drop(page, "#panel-compare_traces", TRACES / "efficient.json.gz")
    panel = page.locator("#panel-compare_traces")
    for words in (
        "efficient.json.gz",
        "flash.json.gz",
        "a trace alone does not say which call was run",
        "1.83× faster",
    ):
        expect(panel).to_contain_text(words)
    expect(page.locator("#origin")).to_contain_text("opened from flash.json.gz")
    give(page, BASELINE, TRACES / "cpu_naive.json.gz")
    expect(panel).to_contain_text("Not comparable")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_comparison_never_scrolls_sideways(serve_state, visit, width: int, theme: str) -> None:
    visitor = visit(serve_state("recorded"), width=width, theme=theme)
    page = visitor.page
    visitor.open_tab("compare_traces")
    visitor.choose("baseline-picker", "sdpa_math")
    expect(page.locator("#panel-compare_traces")).to_contain_text("faster")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    cut = page.evaluate(
        """() => [...document.querySelectorAll('#results .att *, #sources *, #open-hint *')]
            .filter((node) => !node.closest('.table-scroll, pre, svg, .visually-hidden'))
            .filter((node) => node.getClientRects().length)
            .filter((node) => node.getBoundingClientRect().right > window.innerWidth + 1)
            .map((node) => node.outerHTML.slice(0, 120))"""
    )
    assert cut == []


NASTY_NAME = "<script>document.title='broken in'</script><img src=x onerror=\"document.title='broken in'\">"


def test_names_of_either_trace_stay_text(serve_state, visit, tmp_path: Path) -> None:
    launch = {"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": 1, "args": {"correlation": 5}}
    kernel = {"ph": "X", "cat": "kernel", "pid": 0, "tid": 7, "args": {"correlation": 5, "stream": 7, "device": 0}}
    for name in ("one", "two"):
        events = [
            launch | {"name": "cudaLaunchKernel", "ts": 10, "dur": 5},
            kernel | {"name": f"{NASTY_NAME}{name}", "ts": 20, "dur": 40},
        ]
        (tmp_path / f"{name}.json").write_text(json.dumps({"traceEvents": events}))
    visitor = visit(serve_state("recorded"))
    page = visitor.page
    give(page, OPEN, tmp_path / "one.json")
    expect(page.locator("#origin")).to_contain_text("opened from one.json")
    visitor.open_tab("compare_traces")
    give(page, BASELINE, tmp_path / "two.json")
    panel = page.locator("#panel-compare_traces")
    expect(panel).to_contain_text("vanished")
    expect(panel).to_contain_text("appeared")
    expect(panel.locator("img, script")).to_have_count(0)
    expect(page).to_have_title("AttnScope")
