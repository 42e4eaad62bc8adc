"""One report, three doors: page, command line and endpoints say the same of the same input."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from attention.validation import WORKLOAD_FIELDS, default_fields, parse_workload
from attention.workload import InvalidWorkload
from profiling.cli import main
from profiling.comparison_words import format_signed_duration
from profiling.report import analyze_file
from profiling.report_schema import write_report
from profiling.workload_flags import flag_of
from tests.conftest import TRACES, build_sample
from tests.unit.fake_machine import FakeMachine
from ui import build_app
from ui.live_run import run_live
from ui.machine_facts import KnownMachine
from ui.panels import compare_traces
from ui.view import Origin, RunView
from ui.workload_form import build_notes, control_values, read_controls

CHANGES: dict[str, Any] = {"backend": "sdpa_flash", "seq_len_q": 256, "seq_len_kv": 256, "dtype": "float16", "seed": 3}


BEYOND: list[dict[str, Any]] = [
    {"operation": "swiglu", "backend": "compiled", "tokens": 64, "intermediate_size": 96, "dtype": "float16"},
    {"operation": "residual_rms_norm", "hidden_size": 48, "seed": 3},
]


def fields_of(machine: FakeMachine, changes: dict[str, Any]) -> dict[str, Any]:
    assert machine.recording.environment is not None
    return default_fields(machine.recording.environment.device, changes.get("operation", "attention")) | changes


class Doors:
    """One page for all tests, because building it takes most of their time; its recorder asks ``machine``."""

    def __init__(self, folder: Path) -> None:
        self.machine = FakeMachine(build_sample("flash"))
        page = build_app(lambda request: self.machine(request), recordings_folder=folder)
        self.endpoints = {fn.api_name: fn.fn for fn in page.fns.values()}

    def call_endpoint(self, machine: FakeMachine, name: str, *arguments: object) -> Any:
        self.machine = machine
        return self.endpoints[name](*arguments)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Doors:
    return Doors(tmp_path_factory.mktemp("no_recordings"))


@pytest.fixture(params=["flash", "cpu_flash"])
def machine(request: pytest.FixtureRequest) -> FakeMachine:
    return FakeMachine(build_sample(request.param))


def endpoint_arguments(**given: object) -> list[object]:
    return [given.get(field.name) for field in WORKLOAD_FIELDS]


def call_command(capsys: pytest.CaptureFixture[str], machine: FakeMachine, *words: str) -> Any:
    assert main([*words, "--json", "-"], record=machine) == 0
    return json.loads(capsys.readouterr().out)


def flags(changes: dict[str, Any]) -> list[str]:
    return [word for name, value in changes.items() for word in (flag_of(name), str(value))]


@pytest.mark.parametrize("changes", [CHANGES, *BEYOND], ids=lambda changes: changes.get("operation", "attention"))
def test_a_run_gives_one_report(
    machine: FakeMachine, doors: Doors, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    printed = call_command(capsys, machine, "run", *flags(changes))
    by_command = machine.ran
    fields = fields_of(machine, changes)
    answered, _ = doors.call_endpoint(machine, "profile", *endpoint_arguments(**fields))
    assert machine.ran == by_command
    assert answered == printed
    workload = parse_workload(read_controls(control_values(fields)))
    *_, last = run_live(machine, workload, KnownMachine(), guess=None, shows_old=False)
    assert machine.ran == by_command
    assert last.view is not None
    assert json.loads(write_report(last.view.analysis.report)) == printed


@pytest.mark.parametrize("changes", [CHANGES, *BEYOND], ids=lambda changes: changes.get("operation", "attention"))
def test_a_check_gives_one_report(
    machine: FakeMachine, doors: Doors, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    fields = fields_of(machine, changes)
    printed = call_command(capsys, machine, "check", *flags(changes))
    assert doors.call_endpoint(machine, "check", *endpoint_arguments(**fields)) == printed


def test_a_trace_gives_one_report(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    machine, trace = FakeMachine(build_sample("math")), str(TRACES / "math.json.gz")
    printed = call_command(capsys, machine, "analyze", trace)
    answered, _, comparison = doors.call_endpoint(machine, "analyze", trace)
    assert answered == printed
    assert comparison is None


def test_two_traces_give_one_comparison(doors: Doors, capsys: pytest.CaptureFixture[str]) -> None:
    machine = FakeMachine(build_sample("math"))
    after, before = (TRACES / f"{name}.json.gz" for name in ("flash", "naive"))
    printed = call_command(capsys, machine, "analyze", str(after), "--against", str(before))
    report, _, answered = doors.call_endpoint(machine, "analyze", str(after), None, str(before))
    titles = {"before_title": before.name, "after_title": after.name}
    assert answered == printed | titles
    assert report == call_command(capsys, machine, "analyze", str(after))
    views = [
        RunView(analysis=analyze_file(path.read_bytes()), origin=Origin(kind="opened")) for path in (after, before)
    ]
    shown = compare_traces.render(replace(views[0], against=views[1]))
    for row in printed["rows"]:
        assert format_signed_duration(row["difference_ns"]) in shown


def test_a_machine_gives_one_description(
    machine: FakeMachine, doors: Doors, capsys: pytest.CaptureFixture[str]
) -> None:
    assert doors.call_endpoint(machine, "environment") == call_command(capsys, machine, "environment")


@pytest.mark.parametrize(
    "changes",
    [
        {"kv_heads": 3},
        {"batch_size": 0},
        {"backend": "sdpa_flesh"},
        {"mask": "cauzal"},
        {"operation": "swiglu", "tokens": 0},
        {"operation": "swiglu", "direction": "forward_backward"},
        {"operation": "residual_rms_norm", "hidden_size": 10**9},
    ],
)
def test_a_wrong_value_gets_one_message(
    doors: Doors, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    machine = FakeMachine(build_sample("flash"))
    fields = fields_of(machine, changes)
    with pytest.raises(InvalidWorkload) as problem:
        parse_workload(fields)
    assert main(["run", *flags(changes)], record=machine) == 2
    assert str(problem.value) in capsys.readouterr().err
    with pytest.raises(gr.Error) as error:
        doors.call_endpoint(machine, "profile", *endpoint_arguments(**fields))
    assert error.value.message == str(problem.value)
    shown = build_notes(control_values(fields), None).message
    assert str(problem.value) in shown.replace("&#x27;", "'")
