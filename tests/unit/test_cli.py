"""The command line through ``main``: exit codes, streams, files, and words for every mistake."""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.validation import WORKLOAD_FIELDS, default_fields, flatten_workload, parse_workload
from attention.workload import InvalidWorkload
from profiling.cli import build_parser, main
from profiling.commands import COMMANDS
from profiling.recording import Failure, FailureKind, Progress, Recording, RunRequest
from profiling.workload_flags import flag_of, write_command
from tests.unit.fake_machine import FakeMachine

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "data" / "traces"
SampleRecording = Callable[[str], Recording]


@pytest.fixture
def cpu(cpu_recording: Recording) -> FakeMachine:
    return FakeMachine(cpu_recording)


@pytest.fixture
def gpu(sample_recording: SampleRecording) -> FakeMachine:
    return FakeMachine(sample_recording("cudnn"))


# What a workload is made of


def test_every_workload_field_is_a_flag_of_run_and_check() -> None:
    for command in ("run", "check"):
        arguments = build_parser().parse_args([command])
        assert {field.name for field in WORKLOAD_FIELDS} <= set(vars(arguments))
        assert all(getattr(arguments, field.name) is None for field in WORKLOAD_FIELDS)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_without_flags_the_devices_own_default_runs(device: str, cpu: FakeMachine, gpu: FakeMachine) -> None:
    machine = cpu if device == "cpu" else gpu
    assert main(["run"], record=machine) == 0
    assert machine.ran == parse_workload(default_fields(device))
    assert [request.depth for request in machine.requests] == ["environment", "record"]
    assert machine.requests[-1].device == device


def test_flags_reach_the_workload(cpu: FakeMachine) -> None:
    line = (
        "run --backend naive --batch-size 2 --num-heads 8 --kv-heads 4 --seq-len-q 16 --seq-len-kv 32 --head-dim 8 "
        "--head-dim-v 24 --dtype float16 --mask sliding_window --mask-form bool --mask-alignment lower_right "
        "--mask-window 4 --direction forward --layout transposed --scale 0.5 --seed 3 --steps 5"
    )
    assert main(line.split(), record=cpu) == 0
    assert flatten_workload(cpu.ran) == {
        "operation": "attention",
        "backend": "naive",
        "batch_size": 2,
        "num_heads": 8,
        "kv_heads": 4,
        "seq_len_q": 16,
        "seq_len_kv": 32,
        "head_dim": 8,
        "head_dim_v": 24,
        "dtype": "float16",
        "mask": "sliding_window",
        "mask_form": "bool",
        "mask_alignment": "lower_right",
        "mask_window": 4,
        "mask_prefix_length": None,
        "mask_lengths": None,
        "mask_side": None,
        "mask_density": None,
        "mask_seed": None,
        "mask_count": None,
        "direction": "forward",
        "layout": "transposed",
        "scale": 0.5,
        "seed": 3,
    }
    assert cpu.requests[-1].schedule.active == 5


def test_left_out_lengths_and_heads_follow_the_querys(gpu: FakeMachine) -> None:
    assert main(["run", "--num-heads", "12", "--seq-len-q", "100"], record=gpu) == 0
    assert (gpu.ran.num_heads, gpu.ran.kv_heads) == (12, 12)
    assert (gpu.ran.seq_len_q, gpu.ran.seq_len_kv) == (100, 100)


sizes = st.integers(min_value=1, max_value=64)


@given(
    batch=sizes,
    groups=st.integers(1, 4),
    kv_heads=st.integers(1, 8),
    length=sizes,
    head_dim=sizes,
    dtype=st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
    mask=st.sampled_from(["none", "causal"]),
    scale=st.none() | st.floats(min_value=1e-3, max_value=10),
    seed=st.integers(0, 2**62),
)
def test_the_written_command_gives_the_same_workload(
    batch: int,
    groups: int,
    kv_heads: int,
    length: int,
    head_dim: int,
    dtype: str,
    mask: str,
    scale: float | None,
    seed: int,
) -> None:
    workload = parse_workload(
        {
            "backend": "naive",
            "batch_size": batch,
            "num_heads": groups * kv_heads,
            "kv_heads": kv_heads,
            "seq_len_q": length,
            "seq_len_kv": length,
            "head_dim": head_dim,
            "dtype": dtype,
            "mask": mask,
            "scale": scale,
            "seed": seed,
        }
    )
    words = shlex.split(write_command(workload, device="cpu"))
    assert words[:3] == ["python", "-m", "profiling"]
    arguments = build_parser().parse_args(words[3:])
    assert arguments.device == "cpu"
    assert parse_workload({field.name: getattr(arguments, field.name) for field in WORKLOAD_FIELDS}) == workload


# Mistakes: exit 2, one line on standard error that says what to do, and nothing was run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("run --batch-size 0", ["batch_size=0", "choose 1 to"]),
        ("run --batch-size -4", ["batch_size=-4", "choose 1 to"]),
        ("run --batch-size 1.5", ["batch_size='1.5'", "whole number"]),
        ("run --seq-len-q 99999999999", ["seq_len_q=99999999999", "choose 1 to"]),
        ("run --kv-heads 3 --num-heads 8", ["kv_heads=3", "num_heads=8", "1, 2, 4 or 8"]),
        ("run --dtype bfloat61", ["dtype='bfloat61'", "did you mean bfloat16"]),
        ("run --backend sdpa_falsh", ["backend='sdpa_falsh'", "did you mean sdpa_flash"]),
        ("check --mask casual", ["mask='casual'", "did you mean causal"]),
        ("run --scale nan", ["scale=nan"]),
        ("run --scale=-1", ["scale=-1.0"]),
        ("run --head-dim=", ["head_dim=''", "is empty"]),
        ("run --seq-len-q 4 --seq-len-kv 8", ["mask_alignment", "upper_left", "lower_right"]),
        ("run --device gpu", ["device='gpu'", "auto, cpu, cuda"]),
        ("run --steps 0", ["steps='0'", "choose 1 to 20"]),
        ("run --steps three", ["steps='three'", "choose 1 to 20"]),
        ("run --steps 999999999999", ["choose 1 to 20"]),
        ("run --seq_len_q 4", ["--seq_len_q is not a flag of run", "did you mean --seq-len-q?"]),
        ("run --sede=1", ["--sede is not a flag of run", "did you mean --seed?"]),
        ("check --bundle x", ["--bundle is not a flag of check"]),
        ("run 8 16", ["'8' belongs to no flag"]),
        ("run --seed", ["--seed", "expected one argument"]),
        ("rnu", ["command='rnu'", "did you mean run"]),
        ("", ["COMMAND", "--help"]),
        ("--sede 1", ["COMMAND"]),
        ("run --json /nowhere/at/all.json", ["json='/nowhere/at/all.json'", "no existing folder"]),
        ("run --trace /", ["trace='/' is not a file"]),
        (f"run --json {'x' * 300}", ["cannot be a file (File name too long)", "choose another name"]),
        ("analyze /dev/zero", ["TRACE='/dev/zero'", "neither a trace nor a recording"]),
        ("run --bundle /dev/null/x", ["bundle='/dev/null/x'", "choose another"]),
        ("analyze", ["TRACE", "--help"]),
        ("analyze /nowhere.json", ["TRACE='/nowhere.json'", "cannot be read", "No such file"]),
        (f"analyze {ROOT}", ["cannot be read", "directory"]),
        (f"analyze {ROOT / 'pyproject.toml'}", ["pyproject.toml' is neither a trace nor a recording"]),
    ],
)
def test_a_mistake_is_one_line_and_runs_nothing(
    line: str, words: list[str], cpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split(), record=cpu) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    for word in words:
        assert word in printed.err
    assert [request for request in cpu.requests if request.depth != "environment"] == []


def test_what_is_wrong_on_every_device_is_refused_before_the_machine_is_read(cpu: FakeMachine) -> None:
    assert main(["run", "--dtype", "int8"], record=cpu) == 2
    assert cpu.requests == []


def test_what_is_wrong_on_the_found_device_alone_is_refused_after_it_is_read(
    cpu: FakeMachine, gpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    # 16 heads on a GPU by default, 8 on a CPU.
    assert main(["run", "--kv-heads", "16"], record=gpu) == 0
    capsys.readouterr()
    assert main(["run", "--kv-heads", "16"], record=cpu) == 2
    assert "kv_heads=16" in capsys.readouterr().err


def test_a_field_says_the_same_words_here_as_in_the_page_and_the_api(
    cpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InvalidWorkload) as problem:
        parse_workload({"head_dim": "12x"})
    assert main(["run", "--head-dim", "12x"], record=cpu) == 2
    assert str(problem.value) in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--json", "--trace", "--bundle"])
def test_a_place_that_may_not_be_written_is_refused_before_the_run(
    flag: str, cpu: FakeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Permissions themselves would not stop a test that runs as root.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert main(["run", flag, str(tmp_path / "place")], record=cpu) == 2
    assert f"{flag[2:]}='{tmp_path / 'place'}' cannot be written" in capsys.readouterr().err
    assert cpu.requests == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_disk_that_fills_up_fails_the_command_in_one_line(
    cpu: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--json", "/dev/full"], record=cpu) == 1
    streams = capsys.readouterr()
    assert "worst error" in streams.out  # the run itself is not lost with the file
    (line,) = streams.err.splitlines()
    assert "'/dev/full' could not be written: No space left" in line
    with open("/dev/full", "w") as full:
        done = run_program("analyze", str(TRACES / "flash.json.gz"), stdout=full)
    assert done.returncode == 1
    assert "standard output could not be written: No space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("kind", "line", "code", "words"),
    [
        ("error", "environment --device cuda", 2, "device='cuda' cannot be used: torch sees no GPU."),
        ("error", "run --device cuda", 2, "device='cuda' cannot be used: torch sees no GPU."),
        ("invalid", "environment --device cuda", 2, "torch sees no GPU."),
        ("error", "environment", 1, "the machine could not be read: torch sees no GPU."),
    ],
)
def test_a_machine_that_cannot_be_read_is_said_in_one_line(
    kind: FailureKind, line: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_gpu(request: RunRequest) -> Iterator[Progress | Recording]:
        failure = Failure(stage="environment", kind=kind, message="torch sees no GPU.", hint="Choose cpu.")
        yield Recording(failures=(failure,))

    assert main(line.split(), record=without_gpu) == code
    assert capsys.readouterr().err == f"python -m profiling: {words}\n"


@pytest.mark.parametrize("package", ["torch", "pydantic", "msgspec"])
def test_a_missing_package_is_said_in_one_line(package: str, capsys: pytest.CaptureFixture[str]) -> None:
    def without_it(request: RunRequest) -> Iterator[Progress | Recording]:
        raise ModuleNotFoundError(f"No module named '{package}'", name=package)
        yield

    assert main(["environment"], record=without_it) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{package} is not installed for {sys.executable}; install requirements.txt." in line


def test_a_recorder_without_a_recording_is_a_failed_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["environment"], record=lambda request: iter(())) == 1
    assert "without a recording" in capsys.readouterr().err


# As a program


def run_program(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-m", "profiling", *words],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, "text": True, "check": False} | options,
    )


@pytest.mark.parametrize("line", ["--help", *(f"{command.slug} --help" for command in COMMANDS)])
def test_help_answers_and_lists_its_flags(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "usage: python -m profiling" in printed.out
    if line.startswith("run"):
        for field in WORKLOAD_FIELDS:
            assert flag_of(field.name) in printed.out


def test_help_imports_no_heavy_library() -> None:
    """What makes it quick: 0.06 s where it was measured."""
    code = (
        "import sys; from profiling.cli import main; code = main(['check', '--help']); "
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    exit_code, *modules = done.stderr.split()
    assert exit_code == "0"
    assert not {"torch", "pydantic", "msgspec", "gradio", "numpy", "plotly"} & set(modules)


def test_the_program_exits_with_the_commands_code() -> None:
    done = run_program("run", "--dtype", "nope")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("python -m profiling: dtype='nope' is not known")
    assert len(done.stderr.splitlines()) == 1


def test_a_reader_that_closes_early_is_no_fault() -> None:
    program = shlex.join([sys.executable, "-m", "profiling", "analyze", str(TRACES / "math.json.gz"), "--json", "-"])
    command = f"{program} | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "{0\n"
    assert done.stderr == ""


def test_a_terminal_without_unicode_still_gets_its_report() -> None:
    done = run_program("analyze", str(TRACES / "flash.json.gz"), env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "trace health" in done.stdout


def test_progress_is_shown_on_a_terminal_alone(
    cpu: FakeMachine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run"], record=cpu) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert main(["run"], record=cpu) == 0
    err = capsys.readouterr().err
    assert "1/1 environment…" in err
    assert err.endswith("\r")
    assert err.rsplit("\r", 2)[-2].strip() == ""


def test_an_interrupt_ends_the_run_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(request: RunRequest) -> Iterator[Progress | Recording]:
        raise KeyboardInterrupt
        yield

    assert main(["run"], record=interrupted) == 130
    assert "stopped" in capsys.readouterr().err


def test_commands_are_unique_and_say_what_they_do() -> None:
    assert [command.slug for command in COMMANDS] == ["run", "analyze", "check", "environment"]
    assert all(command.help for command in COMMANDS)
