"""What a kernel's name says, and what there is to say of its occupancy, in the report, the page and the CSV."""

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from profiling.export.kernels_csv import write_kernels_csv
from profiling.format import format_bytes
from profiling.report import Analysis, analyze_recording
from profiling.report_schema import KernelRole, parse_report, write_report
from profiling.statistics import build_kernel_summaries
from tests.conftest import build_sample
from ui.panels import kernels
from ui.roles import ROLE_TITLES
from ui.view import Origin, RunView

STYLE = Path(kernels.__file__).parents[1] / "static" / "page.css"
# Role, data type and tile of the kernel with the most device time. Source: the names in tests/data/traces.
HEAVIEST: dict[str, tuple[KernelRole, str | None, str | None]] = {
    "naive": ("mask", "bfloat16", None),
    "math": ("gemm", "float32", "128×128"),
    "efficient": ("attention_forward", "bfloat16", "64×64"),
    "flash": ("attention_forward", "bfloat16", "128×128"),
    "cudnn": ("attention_forward", None, "64×128"),
}


class Cells(HTMLParser):
    """The words of each cell of a table's body, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")
        self.inside = tag == "td" or (self.inside and tag != "th")

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag != "td"

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += f"{data} "


def analysis_of(name: str) -> Analysis:
    return analyze_recording(build_sample(name))


def shown(analysis: Analysis) -> list[dict[str, str]]:
    """The panel's table: one dictionary a row, by column title."""
    cells = Cells()
    cells.feed(str(kernels.render(RunView(analysis=analysis, origin=Origin(kind="live")))))
    titles = [column.title for column in kernels.COLUMNS]
    return [dict(zip(titles, row, strict=True)) for row in cells.rows if row]


@pytest.mark.parametrize("name", HEAVIEST)
def test_the_report_holds_what_the_heaviest_kernels_name_says(name: str) -> None:
    top = analysis_of(name).report.kernels[0]
    assert (top.role, top.data_type, top.tile) == HEAVIEST[name]


def test_the_page_shows_data_type_and_tile_or_that_the_name_is_silent() -> None:
    flash, cudnn = (shown(analysis_of(name))[0] for name in ("flash", "cudnn"))
    assert (flash["data type"].strip(), flash["tile"].strip()) == ("bfloat16", "128×128")
    assert (cudnn["data type"].strip(), cudnn["tile"].strip()) == ("unknown", "64×128")
    copies = [row for row in shown(analysis_of("naive")) if row["role"].strip() in ("memcpy", "memset")]
    assert len(copies) == 2
    assert {row["data type"].strip() for row in copies} == {"–"}


def test_the_page_names_the_false_zero_beside_the_recomputed_value() -> None:
    row = shown(analysis_of("cudnn"))[0]
    assert "artefact" in row["limited by"]
    assert format_bytes(134144) in row["limited by"]
    assert row["limited by"].startswith("registers and shared memory")
    assert all("artefact" not in other["limited by"] for other in shown(analysis_of("flash")))


def test_a_device_that_is_not_computed_says_why_in_every_door() -> None:
    sample = analysis_of("flash")
    assert sample.trace is not None
    amd = replace(sample.trace.devices[0], name="AMD Instinct MI300X", warp_size=64, compute_capability=(9, 4))
    summaries = build_kernel_summaries(replace(sample.trace, devices=(amd,)))
    assert [kernel.occupancy_recomputed for kernel in summaries] == [None]
    assert summaries[0].occupancy_limiter is None
    assert summaries[0].occupancy_note is not None
    assert summaries[0].occupancy_note.startswith("not computed: ")
    changed = replace(sample, report=replace(sample.report, kernels=summaries))
    assert "not computed" in shown(changed)[0]["limited by"]
    row = next(csv.DictReader(io.StringIO(write_kernels_csv(changed).decode(), newline="")))
    assert (row["occupancy_recomputed"], row["occupancy_note"]) == ("", summaries[0].occupancy_note)


@pytest.mark.parametrize("name", HEAVIEST)
def test_the_csv_has_the_columns_and_leaves_silence_empty(name: str) -> None:
    analysis = analysis_of(name)
    rows = csv.DictReader(io.StringIO(write_kernels_csv(analysis).decode(), newline=""))
    for row, kernel in zip(rows, analysis.report.kernels, strict=True):
        said = (kernel.data_type or "", kernel.tile or "", kernel.occupancy_note or "")
        assert (row["data_type"], row["tile"], row["occupancy_note"]) == said


def test_a_report_from_before_these_keys_is_still_read() -> None:
    report = analysis_of("flash").report
    stored = json.loads(write_report(report))
    for kernel in stored["kernels"]:
        for key in ("data_type", "tile", "occupancy_note"):
            del kernel[key]
        kernel["role"] = "attention"
    read = parse_report(json.dumps(stored).encode()).kernels[0]
    assert (read.role, read.data_type, read.tile, read.occupancy_note) == ("attention", None, None, None)
    assert parse_report(write_report(report)) == report


def test_every_role_has_a_word_and_a_colour_in_light_and_dark() -> None:
    roles = get_args(KernelRole)
    assert set(ROLE_TITLES) == set(roles)
    light, dark = STYLE.read_text(encoding="utf-8").split(".dark {", maxsplit=1)
    for role in roles:
        assert f"--role-{role}: #" in light, role
        assert f"--role-{role}: #" in dark.split("}", maxsplit=1)[0], role
