"""replay.py, run: it passes on the machine that recorded it and fails when the recording says something else."""

import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attention.workload import DType, Layout, MaskForm, MaskSpec, Workload
from profiling.export.replay_script import EXPORTER, REPLAYED_MASKS
from profiling.recorder import record
from profiling.recording import Recording, RunRequest
from profiling.report import Analysis, analyze_recording

SMALL = Workload(
    backend="sdpa_flash",
    batch_size=2,
    num_heads=4,
    kv_heads=4,
    seq_len_q=48,
    seq_len_kv=48,
    head_dim=16,
    dtype=DType.FLOAT32,
    seed=7,
)
LOWER_RIGHT = MaskSpec(name="causal", parameters={"alignment": "lower_right"})
UPPER_LEFT = MaskSpec(name="causal", parameters={"alignment": "upper_left"})
MASKS_OF_48 = (
    MaskSpec(name="sliding_window", parameters={"window": 9}),
    MaskSpec(name="prefix_lm", parameters={"prefix_length": 7}),
    MaskSpec(name="document", parameters={"lengths": "20,3,25"}),
    MaskSpec(name="padding", parameters={"lengths": "11,48"}),
    MaskSpec(name="padding", parameters={"lengths": "0,30", "side": "left"}),
    MaskSpec(name="alibi"),
    MaskSpec(name="random", parameters={"density": 0.2, "seed": 5}),
    MaskSpec(name="dead_rows", parameters={"count": 6}),
)


def record_here(workload: Workload) -> Analysis:
    (recording,) = (
        item for item in record(RunRequest(workloads=(workload,), device="cpu")) if isinstance(item, Recording)
    )
    return analyze_recording(recording)


def script_of(analysis: Analysis) -> str:
    data = EXPORTER.write(analysis)
    assert data is not None, EXPORTER.lacks(analysis)
    return data.decode()


def run_script(path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    # -I keeps the checkout off the path: torch is all that the script may need.
    return subprocess.run(
        [sys.executable, "-I", str(path), *flags], cwd=path.parent, capture_output=True, text=True, check=False
    )


@pytest.fixture(autouse=True)
def _torch_as_it_was() -> Iterator[None]:
    import torch

    always, grad = torch.is_warn_always_enabled(), torch.is_grad_enabled()
    yield
    torch.set_warn_always(always)
    torch.set_grad_enabled(grad)


def replay_here(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Exit code and output, in this process: the import of torch is paid once."""
    path = tmp_path / "replay.py"
    path.write_text(script, encoding="utf-8")
    monkeypatch.setattr(sys, "argv", [str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


@pytest.fixture(scope="module")
def recorded() -> Analysis:
    return record_here(SMALL)


def test_a_replay_on_the_same_machine_passes_every_check_with_torch_alone(recorded: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "replay.py"
    path.write_text(script_of(recorded), encoding="utf-8")
    done = run_script(path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[-1] == "PASS"
    passed = [line for line in lines if line.startswith("PASS  ")]
    assert [re.split(r"  |: ", line)[1] for line in passed] == [
        "query is the recorded one",
        "key is the recorded one",
        "value is the recorded one",
        "the call runs",
        "float64 reference is the recorded one",
        "non-finite elements",
        "worst error within its budget",
        "worst error is the recorded one",
    ]
    (delta,) = recorded.report.correctness
    assert f"{delta.max_abs_error:.6g} now, {delta.max_abs_error:.6g} recorded" in done.stdout
    assert "median of 20 calls, wall clock" in done.stdout


def test_a_device_that_is_not_here_is_said_in_one_line(recorded: Analysis, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    path = tmp_path / "replay.py"
    path.write_text(script_of(recorded), encoding="utf-8")
    done = run_script(path, "--device", "cuda")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "--device cpu" in done.stderr


@pytest.mark.parametrize(
    "workload",
    [
        *(replace(SMALL, backend=backend) for backend in ("naive", "naive_inplace", "sdpa_auto", "sdpa_math")),
        *(replace(SMALL, backend="naive", mask=MaskSpec(name="none")), replace(SMALL, mask=MaskSpec(name="none"))),
        *(
            replace(SMALL, backend=backend, mask=MaskSpec(name="causal", form=form))
            for backend in ("naive", "naive_inplace", "sdpa_math", "sdpa_flash")
            for form in (MaskForm.BOOL, MaskForm.ADDITIVE)
        ),
        replace(SMALL, backend="naive", kv_heads=2),
        replace(SMALL, backend="sdpa_auto", kv_heads=1),
        replace(SMALL, backend="sdpa_math", seq_len_kv=80, mask=UPPER_LEFT),
        replace(SMALL, backend="naive", seq_len_kv=80, mask=LOWER_RIGHT),
        replace(SMALL, backend="sdpa_auto", seq_len_q=1, seq_len_kv=33, mask=LOWER_RIGHT),
        replace(SMALL, backend="sdpa_math", scale=0.5),
        replace(SMALL, backend="naive", dtype=DType.BFLOAT16),
        replace(SMALL, backend="sdpa_math", dtype=DType.FLOAT16),
        replace(SMALL, backend="sdpa_math", dtype=DType.FLOAT64),
        # More query rows than keys, counted from the lower right: the first rows may attend to nothing.
        replace(SMALL, backend="naive", seq_len_kv=16, mask=LOWER_RIGHT),
        replace(SMALL, backend="sdpa_math", seq_len_kv=16, mask=LOWER_RIGHT),
        *(replace(SMALL, backend=backend, mask=mask) for backend in ("naive", "sdpa_math") for mask in MASKS_OF_48),
        replace(SMALL, mask=MaskSpec(name="alibi", parameters={}), dtype=DType.BFLOAT16),
        replace(SMALL, backend="naive", mask=MaskSpec(name="alibi", form=MaskForm.ADDITIVE_FLOAT32)),
        replace(SMALL, num_heads=6, kv_heads=6, mask=MaskSpec(name="alibi")),
        replace(SMALL, mask=MaskSpec(name="sliding_window", parameters={"window": 9}, form=MaskForm.ADDITIVE)),
        replace(SMALL, seq_len_kv=80, mask=MaskSpec(name="alibi", parameters={"alignment": "lower_right"})),
        *(replace(SMALL, kv_heads=heads, layout=layout) for heads in (1, 2, 4) for layout in Layout),
        replace(SMALL, backend="sdpa_math", head_dim_v=24),
    ],
    ids=lambda workload: f"{workload.backend}-{workload.describe()}-{workload.mask.form}-{workload.layout}".replace(
        " ", "-"
    ),
)
def test_a_replay_computes_what_the_app_computes(
    workload: Workload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = replay_here(script_of(record_here(workload)), tmp_path, monkeypatch, capsys)
    assert code == 0, output
    assert "FAIL" not in output


def test_every_mask_is_replayed() -> None:
    assert set(REPLAYED_MASKS) == {"none", "causal", *(mask.name for mask in MASKS_OF_48)}


def test_a_replay_with_another_mask_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for mask in MASKS_OF_48:
        if mask.name == "dead_rows":
            continue  # its live rows see every key, as without a mask
        analysis = record_here(replace(SMALL, backend="sdpa_math", mask=mask))
        assert analysis.report.workload is not None
        analysis = change(analysis, workload=replace(analysis.report.workload, mask=MaskSpec(name="none")))
        code, output = replay_here(script_of(analysis), tmp_path, monkeypatch, capsys)
        assert code == 1, mask
        assert "FAIL  float64 reference is the recorded one" in output


def change(recorded: Analysis, **changes: Any) -> Analysis:
    return replace(recorded, report=replace(recorded.report, **changes))


def tampered(recorded: Analysis, what: str) -> Analysis:
    report = recorded.report
    (delta,) = report.correctness
    assert report.workload is not None
    assert delta.max_abs_error is not None
    if what == "query":
        fingerprint = report.inputs_fingerprint
        return change(recorded, inputs_fingerprint=fingerprint | {"query": fingerprint["query"] + 1})
    if what == "seed":
        return change(recorded, workload=replace(report.workload, seed=8))
    if what == "mask":
        return change(recorded, workload=replace(report.workload, mask=MaskSpec(name="none")))
    if what == "scale":
        return change(recorded, workload=replace(report.workload, scale=0.3))
    samples = delta.reference_samples
    changed = {
        "reference": replace(
            delta, reference_samples=(*samples[:-1], replace(samples[-1], value=samples[-1].value + 1e-6))
        ),
        "budget": replace(delta, error_budget=delta.max_abs_error / 2),
        "worst": replace(delta, max_abs_error=delta.max_abs_error / 3),
        "nan": replace(delta, nan_count=1),
    }[what]
    return change(recorded, correctness=(changed,))


@pytest.mark.parametrize(
    ("what", "failing"),
    [
        ("query", "query is the recorded one"),
        ("seed", "query is the recorded one"),
        ("mask", "float64 reference is the recorded one"),
        ("scale", "float64 reference is the recorded one"),
        ("reference", "float64 reference is the recorded one"),
        ("budget", "worst error within its budget"),
        ("worst", "worst error is the recorded one"),
        ("nan", "non-finite elements"),
    ],
)
def test_a_recording_that_says_something_else_fails(
    recorded: Analysis,
    what: str,
    failing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output = replay_here(script_of(tampered(recorded, what)), tmp_path, monkeypatch, capsys)
    assert code == 1
    assert output.splitlines()[-1] == "FAIL"
    assert f"FAIL  {failing}" in output


def test_a_tampered_script_fails_as_a_program_too(recorded: Analysis, tmp_path: Path) -> None:
    path = tmp_path / "replay.py"
    script = script_of(recorded)
    assert script.count('"seed": 7') == 1
    path.write_text(script.replace('"seed": 7', '"seed": 8'), encoding="utf-8")
    done = run_script(path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "FAIL"


def test_a_refused_backend_passes_when_it_refuses_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis = record_here(replace(SMALL, backend="sdpa_cudnn"))
    assert [failure.kind for failure in analysis.report.failures] == ["refused"]
    code, output = replay_here(script_of(analysis), tmp_path, monkeypatch, capsys)
    assert code == 0, output
    assert "PASS  refused as recorded" in output
    assert "viable backend" in output.lower()


def test_a_backend_that_was_refused_and_runs_now_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    analysis = record_here(replace(SMALL, backend="sdpa_cudnn"))
    assert analysis.report.workload is not None
    analysis = change(analysis, workload=replace(analysis.report.workload, backend="sdpa_math"))
    code, output = replay_here(script_of(analysis), tmp_path, monkeypatch, capsys)
    assert code == 1
    assert "FAIL  refused as recorded: sdpa_math ran here" in output


def test_a_backend_that_ran_and_is_refused_now_fails_with_torchs_words(
    recorded: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.report.workload is not None
    analysis = change(recorded, workload=replace(recorded.report.workload, backend="sdpa_efficient"))
    code, output = replay_here(script_of(analysis), tmp_path, monkeypatch, capsys)
    assert code == 1
    assert "FAIL  the call runs: " in output


def test_another_machine_compares_against_the_budget_and_notes_the_rest(
    recorded: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded.report.environment is not None
    elsewhere = change(recorded, environment=replace(recorded.report.environment, torch="2.8.0"))
    code, output = replay_here(script_of(elsewhere), tmp_path, monkeypatch, capsys)
    assert code == 0, output
    assert "NOTE  worst error: " in output
    assert "on another machine or torch" in output
