"""Single changes that a refusing backend's rule accepts: which they are, and what they leave alone."""

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.masks import mask_of
from attention.validation import check_workload, flatten_workload, parse_workload
from attention.workload import Workload
from profiling.commands.summary import render_eligibility, render_report
from profiling.export.report_markdown import write_report_markdown
from profiling.recording import Failure, Recording
from profiling.report import analyze_recording
from profiling.unlocks import describe_unlocks, find_unlocks
from ui.components.notice import render_notices
from ui.panels import backends as backends_panel
from ui.view import Origin, RunView

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
T4 = DeviceFacts(kind="cuda", name="Tesla T4", compute_capability=(7, 5), torch_version=(2, 11))
CPU = DeviceFacts(kind="cpu", torch_version=(2, 14))
SDPA = ("sdpa_math", "sdpa_flash", "sdpa_efficient", "sdpa_cudnn")


def unlock(device, backend, **fields):
    workload = parse_workload(fields)
    rule = next(entry for entry in BACKENDS if entry.slug == backend)
    return find_unlocks(workload, rule.check(workload, device), device)


def sentences(device, backend, **fields):
    return [edit.sentence for edit in unlock(device, backend, **fields)]


@pytest.mark.parametrize(
    ("device", "backend", "fields", "expected"),
    [
        (H200, "sdpa_flash", {"dtype": "float32"}, ["dtype → bfloat16", "dtype → float16"]),
        (H200, "sdpa_efficient", {"dtype": "float64"}, ["dtype → bfloat16", "dtype → float16", "dtype → float32"]),
        (H200, "sdpa_flash", {"mask_form": "bool"}, ["mask_form → is_causal"]),
        (H200, "sdpa_flash", {"mask_form": "additive_float32"}, ["mask_form → is_causal"]),
        (
            H200,
            "sdpa_efficient",
            {"mask_form": "additive_float32"},
            ["mask_form → is_causal", "mask_form → bool", "mask_form → additive", "dtype → float32"],
        ),
        (H200, "sdpa_efficient", {"kv_heads": 4}, ["layout → expanded_kv"]),
        (H200, "sdpa_efficient", {"head_dim": 63}, ["head_dim → 64 (padded with zeros)"]),
        (H200, "sdpa_cudnn", {"head_dim": 64, "head_dim_v": 33}, [
            "head_dim_v → 40 (padded with zeros)", "head_dim_v → 64 (padded with zeros)"]),
        (H200, "sdpa_flash", {"head_dim": 64, "head_dim_v": 128}, ["head_dim → 128 (padded with zeros)"]),
        (H200, "sdpa_flash", {"head_dim": 128, "head_dim_v": 64}, ["head_dim_v → 128 (padded with zeros)"]),
        (T4, "sdpa_efficient", {}, ["dtype → float16", "dtype → float32"]),
        # No single change is enough.
        (H200, "sdpa_flash", {"head_dim": 264}, []),
        (H200, "sdpa_flash", {"dtype": "float32", "mask_form": "bool"}, []),
        (H200, "sdpa_cudnn", {"seq_len_kv": 1, "mask": "none"}, []),
        (H200, "sdpa_flash", {"seq_len_q": 512, "mask_alignment": "lower_right"}, []),
        (T4, "sdpa_flash", {"dtype": "float16"}, []),
        (CPU, "sdpa_efficient", {}, []),
        # Nothing to unlock.
        (H200, "sdpa_flash", {}, []),
    ],
    ids=str,
)  # fmt: skip
def test_which_changes(device, backend, fields, expected):
    assert sentences(device, backend, **fields) == expected


def test_a_change_holds_both_sides_and_the_edited_workload():
    (edit,) = unlock(H200, "sdpa_efficient", kv_heads=4)
    assert (edit.field, edit.before, edit.after) == ("layout", "contiguous", "expanded_kv")
    assert edit.workload.backend == "sdpa_efficient"
    assert edit.workload.layout == "expanded_kv"


def test_a_padded_head_keeps_its_scale_and_value_follows():
    (edit,) = unlock(H200, "sdpa_efficient", head_dim=63)
    assert edit.workload.softmax_scale == 63**-0.5
    assert (edit.workload.head_dim, edit.workload.value_dim) == (64, 64)


def test_a_refusal_that_only_the_device_knew_of_gets_every_change_that_the_rule_accepts():
    workload = parse_workload({"layout": "transposed", "mask": "none"})
    decision = Decision(backend="sdpa_cudnn", verdict="rejected", reason="no execution plan", basis="probe")
    changes = [edit.sentence for edit in find_unlocks(workload, decision, H200)]
    assert changes == ["layout → contiguous", "dtype → float16"]


workloads = st.fixed_dictionaries(
    {
        "kv_heads": st.sampled_from([1, 4, 16]),
        "head_dim": st.integers(1, 300),
        "head_dim_v": st.none() | st.integers(1, 300),
        "dtype": st.sampled_from(["float64", "float32", "float16", "bfloat16"]),
        "mask_form": st.sampled_from(["auto", "is_causal", "bool", "additive", "additive_float32"]),
        "layout": st.sampled_from(["contiguous", "transposed", "expanded_kv"]),
        "scale": st.none() | st.just(0.25),
    }
)
PADDED = {"head_dim": {"head_dim", "head_dim_v", "scale"}, "head_dim_v": {"head_dim_v", "scale"}}


@given(
    values=workloads, device=st.sampled_from([H200, T4, CPU]), backend=st.sampled_from(SDPA)
)  # fmt: skip
def test_every_change_is_one_change_that_the_rule_accepts(values, device, backend):
    workload = parse_workload(values)
    rule = next(entry for entry in BACKENDS if entry.slug == backend)
    decision = rule.check(workload, device)
    edits = find_unlocks(workload, decision, device)
    if decision.verdict == "accepted":
        assert edits == ()
    assert len({edit.sentence for edit in edits}) == len(edits)
    for edit in edits:
        check_workload(edit.workload)
        assert rule.check(edit.workload, device).verdict == "accepted"
        assert edit.before != edit.after
        changed = {
            field.name
            for field in dataclass_fields(Workload)
            if getattr(workload, field.name) != getattr(edit.workload, field.name)
        } - {"backend"}
        assert changed <= PADDED.get(edit.field, {edit.field.replace("mask_form", "mask")})
        # The same question: the same keys, the same scale, and a workload that the form could give.
        assert edit.workload.softmax_scale == workload.softmax_scale
        assert mask_of(edit.workload).count_allowed(edit.workload) == mask_of(workload).count_allowed(workload)
        assert parse_workload(flatten_workload(edit.workload) | {"backend": backend}) == edit.workload


CHANGES = ("dtype → bfloat16 (tried: runs)", "dtype → float16 (tried: runs)")
REFUSED = Decision(
    backend="sdpa_flash",
    verdict="rejected",
    reason="takes float16, this is float32",
    basis="probe",
    unlocked_by=CHANGES,
)


def test_words_for_a_reader():
    assert describe_unlocks(REFUSED) == "dtype → bfloat16 (tried: runs); or dtype → float16 (tried: runs)"
    assert describe_unlocks(replace(REFUSED, unlocked_by=())) == "none known"
    assert describe_unlocks(replace(REFUSED, verdict="accepted", unlocked_by=())) == ""


@pytest.fixture
def refused_run(sample_recording: Callable[[str], Recording]) -> Recording:
    whole = sample_recording("flash")
    failure = Failure(stage="first_call", kind="refused", message="sdpa_flash did not run.", hint="")
    return Recording(
        workload=whole.workload,
        environment=whole.environment,
        decisions=(REFUSED, replace(REFUSED, backend="sdpa_cudnn", unlocked_by=())),
        failures=(failure,),
    )


def test_page_shows_the_change_in_the_notice_and_in_the_table(refused_run):
    view = RunView(analysis=analyze_recording(refused_run), origin=Origin(kind="opened", title="r.json"))
    notice, panel = str(render_notices(view)), str(backends_panel.render(view))
    assert "Change one thing: dtype → bfloat16 (tried: runs)" in notice
    assert "Change one thing:" in panel
    assert all(change in panel for change in CHANGES)
    assert panel.count("none known") == 1


def test_terminal_shows_the_change_with_the_refusal_and_under_the_table(refused_run):
    report = analyze_recording(refused_run).report
    said = " ".join(render_report(report).split())
    assert f"CHANGE ONE THING {' ; or '.join(CHANGES).replace(' ;', ';')}" in said
    assert "sdpa_flash: change one thing: dtype → bfloat16 (tried: runs); or" in " ".join(
        render_eligibility(report).split()
    )
    nothing = replace(refused_run, decisions=(replace(REFUSED, unlocked_by=()),))
    assert "CHANGE ONE THING none known" in " ".join(render_report(analyze_recording(nothing).report).split())


def test_markdown_shows_the_change_in_the_row_of_its_backend(refused_run):
    lines = write_report_markdown(analyze_recording(refused_run)).decode().splitlines()
    flash, cudnn = (
        next(line for line in lines if line.startswith(f"| `{slug}`")) for slug in ("sdpa_flash", "sdpa_cudnn")
    )
    assert "dtype → bfloat16" in flash
    assert "none known" in cudnn
