"""What each command prints and writes, and the exit code that goes with it."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from profiling.cli import main
from profiling.export import EXPORTERS
from profiling.recording import CapturedWarning, Failure, Progress, Recording, RunRequest
from profiling.report import analyze_recording
from profiling.report_schema import parse_report
from tests.unit.fake_machine import FakeMachine, failing

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
SampleRecording = Callable[[str], Recording]


@pytest.fixture
def cpu(cpu_recording: Recording) -> FakeMachine:
    return FakeMachine(cpu_recording)


@pytest.fixture
def gpu(sample_recording: SampleRecording) -> FakeMachine:
    return FakeMachine(sample_recording("cudnn"))


def test_run_prints_what_ran_what_it_cost_and_whether_it_was_right(
    gpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--backend", "sdpa_cudnn"], record=gpu) == 0
    printed = capsys.readouterr()
    for words in (
        "sdpa_cudnn · B8 H16 S1024 D64 bfloat16 causal · forward",
        "NVIDIA H200",
        "requested sdpa_cudnn → predicted sdpa_cudnn → observed cudnn (proven)",
        "57.5\u2009µs ±\u20090.3\u2009µs",
        "CUDA graph replay (test data)",
        "1 kernel, 0 memcpy, 1 memset",
        "0.400× its budget",
        "trace health",
        "FINDINGS",
        "aten::_cudnn_attention_forward",
        "KERNEL",
    ):
        assert words in printed.out
    assert printed.err == ""


def test_json_on_standard_output_is_the_report_and_nothing_else(
    gpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--backend", "sdpa_cudnn", "--json", "-"], record=gpu) == 0
    expected = analyze_recording(replace(gpu.recording, workload=gpu.ran, schedule=gpu.requests[-1].schedule)).report
    assert parse_report(capsys.readouterr().out.encode()) == expected


def test_files_are_written_and_named(gpu: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, trace, bundle = tmp_path / "r.json", tmp_path / "t.json.gz", tmp_path / "new" / "bundle"
    line = f"run --json {report} --trace {trace} --bundle {bundle}"
    assert main(line.split(), record=gpu) == 0
    assert parse_report(report.read_bytes()).requested_backend == "sdpa_auto"
    assert trace.read_bytes() == gpu.recording.trace_gz
    assert {path.name for path in bundle.iterdir()} == {exporter.file_name for exporter in EXPORTERS}
    printed = capsys.readouterr()
    assert len([note for note in printed.err.splitlines() if note.startswith("wrote ")]) == 2 + len(EXPORTERS)
    assert "requested" in printed.out


def test_a_file_that_cannot_be_made_says_why_and_that_an_older_one_is_there(
    cpu: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "kernels.csv").write_text("old")
    assert main(["run", "--bundle", str(tmp_path)], record=cpu) == 0
    (note,) = (line for line in capsys.readouterr().err.splitlines() if line.startswith("not written"))
    assert "No device activity" in note
    assert "earlier run" in note


def test_a_refused_backend_is_a_result(cpu: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = failing(
        cpu, stage="first_call", kind="refused", message="sdpa_cudnn did not run.\nNeeds CUDA.", hint="Choose another."
    )
    report = tmp_path / "r.json"
    decisions = tuple(replace(d, raw_message=f"raw words on {d.backend}") for d in refused.recording.decisions)
    refused = FakeMachine(replace(refused.recording, decisions=decisions))
    assert main(["run", "--backend", "sdpa_cudnn", "--json", str(report)], record=refused) == 0
    printed = capsys.readouterr()
    assert "REFUSED in stage first_call" in printed.out
    assert "Needs CUDA." in printed.out
    assert "    raw words on sdpa_cudnn" in printed.out
    assert "raw words on sdpa_flash" not in printed.out
    assert "✗ refuses" in printed.out
    assert "refused in stage first_call: sdpa_cudnn did not run. Needs CUDA." in printed.err
    assert parse_report(report.read_bytes()).failures[0].kind == "refused"


@pytest.mark.parametrize("kind", ["out_of_memory", "crashed", "error", "timeout", "stopped"])
def test_a_failed_run_still_writes_its_partial_report(
    gpu: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    failed = failing(gpu, stage="profile", kind=kind, message="what happened", hint="what to do")
    report = tmp_path / "r.json"
    assert main(["run", "--json", str(report), "--trace", str(tmp_path / "t.gz")], record=failed) == 1
    assert parse_report(report.read_bytes()).latency.device is not None
    printed = capsys.readouterr()
    assert "what happened" in printed.out
    assert "what to do" in printed.out
    assert "No trace was recorded" in printed.err
    assert not (tmp_path / "t.gz").exists()


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_workload_that_does_not_fit_is_bad_input_in_one_line(
    command: str, cpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    def too_large(request: RunRequest) -> Iterator[Progress | Recording]:
        for item in cpu(request):
            if isinstance(item, Recording) and request.depth != "environment":
                failure = Failure(stage="inputs", kind="invalid", message="needs 294 GiB, has 21 GiB.", hint="Shrink.")
                item = Recording(workload=item.workload, failures=(failure,))
            yield item

    assert main([command, "--json", "-"], record=too_large) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "python -m profiling: needs 294 GiB, has 21 GiB.\n"


def test_a_clock_that_this_build_lacks_fails_no_run(gpu: FakeMachine) -> None:
    assert main(["run"], record=failing(gpu, stage="timing", kind="unavailable", message="m", hint="h")) == 0


def test_warnings_are_shown_whole(cpu: FakeMachine, capsys: pytest.CaptureFixture[str]) -> None:
    warning = CapturedWarning(stage="first_call", category="UserWarning", message="first line\nsecond line")
    assert main(["run"], record=FakeMachine(replace(cpu.recording, warnings=(warning,)))) == 0
    assert "    first line\n    second line" in capsys.readouterr().out


def test_check_lists_every_backend_with_its_reason(cpu: FakeMachine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--dtype", "float32"], record=cpu) == 0
    assert cpu.requests[-1].depth == "check"
    out = capsys.readouterr().out
    for decision in cpu.recording.decisions:
        (row,) = (line for line in out.splitlines() if re.match(rf"{decision.backend}  +[✓✗]", line))
        assert decision.reason in row
        assert {"accepted": "✓", "rejected": "✗"}[decision.verdict] in row


def test_check_json_holds_the_raw_messages(cpu: FakeMachine, capsys: pytest.CaptureFixture[str]) -> None:
    decisions = tuple(replace(decision, raw_message="two\nlines") for decision in cpu.recording.decisions)
    machine = FakeMachine(replace(cpu.recording, decisions=decisions))
    assert main(["check", "--json", "-"], record=machine) == 0
    assert {d["raw_message"] for d in json.loads(capsys.readouterr().out)["decisions"]} == {"two\nlines"}


def test_environment_gives_the_facts(gpu: FakeMachine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["environment"], record=gpu) == 0
    out = capsys.readouterr().out
    for words in ("NVIDIA H200", "9.0", "140\u2009GiB", "2.11.0+cu130", "SM clock", "not recorded"):
        assert words in out
    path = tmp_path / "e.json"
    assert main(["environment", "--json", str(path)], record=gpu) == 0
    assert main(["environment", "--json", "-"], record=gpu) == 0
    assert gpu.recording.environment is not None
    expected = json.loads(json.dumps(asdict(gpu.recording.environment)))
    assert json.loads(path.read_text()) == expected
    assert json.loads(capsys.readouterr().out.partition("\n{")[2].join(("{", ""))) == expected


@pytest.mark.parametrize("name", ["naive", "flash", "cudnn", "flex"])
def test_analyze_reads_a_trace_without_any_machine(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    def no_machine(request: RunRequest) -> Iterator[Progress | Recording]:
        raise AssertionError("analyze needs no machine")

    path = TRACES / f"{name}.json.gz"
    assert main(["analyze", str(path)], record=no_machine) == 0
    out = capsys.readouterr().out
    for words in ("trace health", "KERNEL", "OPERATOR", "FINDINGS", "NVIDIA H200, as the trace names it"):
        assert words in out
    assert "peak memory" not in out
    assert main(["analyze", str(path), "--json", "-"], record=no_machine) == 0
    report = parse_report(capsys.readouterr().out.encode())
    assert report.workload is None
    assert report.kernels


def test_analyze_shows_names_of_a_trace_without_their_control_characters(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::\x1b[31mred\u202e", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": [event]}))
    main(["analyze", str(path)])
    out = capsys.readouterr().out
    assert "red" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
