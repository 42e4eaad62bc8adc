"""report.md: every part of the report is in it, and no name from a trace can act as markup."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import Decision
from profiling.export.markdown import code, code_block, escape, table
from profiling.export.report_markdown import write_report_markdown
from profiling.recording import CapturedWarning, Failure, Recording
from profiling.report import Analysis, analyze_recording
from profiling.trace.events import Problem, TraceHealth
from profiling.workload_flags import write_command

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60) | st.text(
    alphabet="`|\\_*<>\n ab#", max_size=30
)
RAW = "Flash attention kernel not used because:\nExpected query to be of dtype bfloat16\n```\n| not a table |"


@pytest.fixture
def full(sample_recording: Callable[[str], Recording]) -> Analysis:
    """A naive run with one of everything that a report can hold."""
    recording = replace(
        sample_recording("naive"),
        decisions=(
            Decision(
                backend="sdpa_flash",
                verdict="rejected",
                reason="takes float16 or bfloat16, this is float32",
                raw_message=RAW,
                unlocked_by=("dtype → bfloat16",),
                basis="probe",
            ),
        ),
        warnings=(CapturedWarning(stage="profile", category="UserWarning", message="cold | cache"),),
        failures=(Failure(stage="timing", kind="unavailable", message="capture failed", hint="Read the trace."),),
    )
    return analyze_recording(recording)


def report_text(analysis: Analysis) -> str:
    return write_report_markdown(analysis).decode()


def one_line(text: str) -> str:
    return re.sub(r"[\t-\r\x1c-\x20\x85\u2028\u2029]+", " ", text).strip(" ")


def outside_code_blocks(text: str) -> list[str]:
    lines, fence = [], ""
    for line in text.splitlines():
        match = re.match(r"(`{3,})[^`]*$", line)
        if not fence and match:
            fence = match[1]
        elif fence and line == fence:
            fence = ""
        elif not fence:
            lines.append(line)
    assert not fence
    return lines


def test_every_section_is_there_in_order(full: Analysis) -> None:
    headings = [line[3:] for line in outside_code_blocks(report_text(full)) if line.startswith("## ")]
    assert headings == [
        "Summary",
        "What did not finish",
        "Findings",
        "Six questions",
        "Which backend ran",
        "Time",
        "Device items",
        "Device activity",
        "Operators",
        "Memory",
        "Work and rates",
        "Correctness",
        "Trace",
        "Warnings, as PyTorch wrote them",
        "Workload",
        "Environment",
        "Run it again",
    ]


def test_the_numbers_carry_units_and_methods(full: Analysis) -> None:
    text = report_text(full)
    for expected in (
        "1.06\u2009ms ±\u20090.01\u2009ms",
        "CUDA graph replay (test data)",
        "5 kernels, 1 memcpy, 1 memset",
        "requested naive → predicted",
        "1.40e-2",
        "0.400× its budget of 3.50e-2",
        "256\u2009MiB",
        "17.2\u2009G",
        "wait 1, warm-up 2, active 3",
    ):
        assert expected in text


def test_raw_words_are_whole(full: Analysis) -> None:
    text = report_text(full)
    assert f"````text\n{RAW}\n````" in text
    assert "```text\ncold | cache\n```" in text
    assert "capture failed" in text
    assert "`dtype → bfloat16`" in text


def test_every_kernel_and_operator_is_named_whole(full: Analysis) -> None:
    text = report_text(full)
    for kernel in full.report.kernels:
        assert code(kernel.name) in text
    for operator in full.report.operators:
        assert code(operator.name) in text


def test_every_question_and_rule_is_answered(full: Analysis) -> None:
    text = report_text(full)
    assert full.report.answers
    assert full.report.verdicts
    for answer in full.report.answers:
        assert escape(answer.question) in text
    for verdict in full.report.verdicts:
        assert escape(verdict.title) in text


def test_the_command_that_reproduces_it_is_there(full: Analysis) -> None:
    assert full.report.workload is not None
    assert write_command(full.report.workload, device="cuda") in report_text(full)


def test_trace_problems_are_listed(full: Analysis) -> None:
    health = TraceHealth(
        status="suspect",
        problems=(Problem(kind="lost_kernels", count=3, example="cudaLaunchKernel"),),
        launches=21,
        linked_kernels=18,
    )
    text = report_text(replace(full, report=replace(full.report, trace_health=health)))
    assert "suspect: lost_kernels × 3" in text
    assert "lost_kernels × 3, for example `cudaLaunchKernel`" in text


def test_what_was_not_recorded_says_so_and_never_reads_zero() -> None:
    text = report_text(analyze_recording(Recording()))
    assert "machine not recorded" in text
    assert "no trace was recorded" in text
    assert not re.search(r"\b0\u2009", text)


def test_a_cpu_run_says_that_it_has_no_kernels(cpu_recording: Recording) -> None:
    text = report_text(analyze_recording(cpu_recording))
    assert "No device activity was recorded" in text
    assert "this ran on the CPU" in text


def unescaped_bars(line: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))


@pytest.mark.parametrize("name", ["a|b", "`x`|``y``", "a``b", "<b>x</b>", "tail\\", "line\nbreak", "*_~[x](y)"])
def test_hostile_kernel_names_leave_the_tables_whole(full: Analysis, name: str) -> None:
    kernels = tuple(replace(k, name=name, short_name=name, family=name, launched_by=name) for k in full.report.kernels)
    lines = outside_code_blocks(report_text(replace(full, report=replace(full.report, kernels=kernels))))
    tables: list[list[str]] = [[]]
    for line in lines:
        if line.startswith("| "):
            tables[-1].append(line)
        elif tables[-1]:
            tables.append([])
    assert len(tables) > 8
    for rows in tables:
        # A backslash before a bar inside a code span is what keeps the bar in its cell.
        assert len({unescaped_bars(row.replace("\\\\", "")) for row in rows}) <= 1


@given(TEXT)
def test_escaped_text_has_no_live_markup(text: str) -> None:
    escaped = escape(text)
    assert "\n" not in escaped
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*<>|\[\]&~]", escaped)
    assert not re.match(r"([-+]|#+|=+|---+|\d+[.)])(\s|$)", escaped)
    unescaped = re.sub(r"\\([\\`*\[\]<>|~&_\-+#=.)])", r"\1", escaped)
    assert unescaped == one_line(text)


@given(TEXT)
def test_a_code_span_closes_with_its_own_fence(text: str) -> None:
    span = code(text)
    line = one_line(text)
    if not line:
        assert span == ""
        return
    fence = re.match(r"`+", span)
    assert fence is not None
    inner = span[len(fence[0]) : -len(fence[0])]
    assert span.endswith(fence[0])
    assert fence[0] not in re.findall(r"`+", inner)
    assert inner.strip(" ").replace("\\|", "|") == line.strip(" ")


@given(TEXT)
def test_a_code_block_ends_where_its_text_does(text: str) -> None:
    block = code_block(text)
    fence, rest = block.split("text\n", 1)
    assert rest.endswith(f"\n{fence}")
    body = rest[: -len(fence) - 1]
    assert body == text.rstrip()
    assert fence not in re.findall(r"`+", body)


def test_numbers_stand_right_and_text_left() -> None:
    assert table(("a", "b"), [("x", "1")], right=("b",)) == "| a | b |\n| --- | ---: |\n| x | 1 |"
