"""Single changes that a refusing backend's rule accepts: which they are, and what they leave alone."""

from collections.abc import Callable
from dataclasses import fields as dataclass_fields
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS, Decision, DeviceFacts
from attention.masks import mask_of
from attention.validation import WORKLOAD_FIELDS, check_workload, flatten_workload, parse_workload
from attention.workload import Workload
from profiling.budget import estimate_gpu_seconds, zero_gpu_duration
from profiling.check_records import UnlockMeasurement
from profiling.cli import main
from profiling.commands.summary import render_eligibility, render_report
from profiling.export.report_markdown import write_report_markdown
from profiling.measured_unlocks import describe_measurement
from profiling.recording import (
    Failure,
    Latency,
    Recording,
    RunRequest,
    Samples,
    UnreadableRecording,
    parse_recording,
    write_recording,
)
from profiling.report import analyze_recording
from profiling.unlock_timing import order_unlocks
from profiling.unlocks import describe_unlocks, find_unlocks
from tests.conftest import H200_ENVIRONMENT
from ui import build_app
from ui.components.notice import render_notices
from ui.live_run import run_live
from ui.machine_facts import KnownMachine
from ui.panels import backends as backends_panel
from ui.view import Origin, RunView

H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0), torch_version=(2, 11))
T4 = DeviceFacts(kind="cuda", name="Tesla T4", compute_capability=(7, 5), torch_version=(2, 11))
CPU = DeviceFacts(kind="cpu", torch_version=(2, 14))
REPEATED = "(key and value repeated for every query head)"
GROUPED = "(key and value as stored, with enable_gqa)"
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
        (H200, "sdpa_efficient", {"kv_heads": 4}, [f"layout → expanded_kv {REPEATED}"]),
        (H200, "sdpa_efficient", {"head_dim": 63}, ["head_dim → 64 (padded with zeros)"]),
        # The least size that the rule accepts, whatever the step is.
        (H200, "sdpa_cudnn", {"head_dim": 64, "head_dim_v": 33}, ["head_dim_v → 40 (padded with zeros)"]),
        (H200, "sdpa_efficient", {"head_dim": 57, "dtype": "float32"}, ["head_dim → 60 (padded with zeros)"]),
        (H200, "flex", {"head_dim": 8}, ["head_dim → 16 (padded with zeros)"]),
        (H200, "flex", {"head_dim": 3}, ["head_dim → 16 (padded with zeros)"]),
        (H200, "flex", {"head_dim": 64, "head_dim_v": 8}, ["head_dim_v → 16 (padded with zeros)"]),
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
    assert changes == ["layout → contiguous (.contiguous())", "dtype → float16"]


def test_repeated_heads_that_a_backend_refuses_are_given_as_stored():
    workload = parse_workload({"layout": "expanded_kv", "kv_heads": 4, "mask": "none", "dtype": "float16"})
    decision = Decision(backend="sdpa_cudnn", verdict="rejected", reason="no execution plan", basis="probe")
    edits = find_unlocks(workload, decision, H200)
    assert [edit.sentence for edit in edits] == [f"layout → contiguous {GROUPED}", "dtype → bfloat16"]
    assert edits[0].workload.presented_kv_heads == 4  # so that the call says enable_gqa
    stored = replace(workload, kv_heads=16)
    assert "layout" not in {edit.field for edit in find_unlocks(stored, decision, H200)}  # nothing is repeated


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
    assert describe_unlocks(replace(REFUSED, unlocked_by=(), untried=("dtype → float16 (too large)",))) == (
        "not tried: dtype → float16 (too large)"
    )
    assert describe_unlocks(replace(REFUSED, untried=("a", "b"))).endswith("(tried: runs); not tried: a; b")


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


def test_every_place_says_what_was_not_tried_instead_of_none_known(refused_run):
    untried = replace(REFUSED, unlocked_by=(), untried=("dtype → bfloat16 (one batch entry has 5 G scores)",))
    analysis = analyze_recording(replace(refused_run, decisions=(untried,)))
    view = RunView(analysis=analysis, origin=Origin(kind="opened", title="r.json"))
    terminal = " ".join(render_report(analysis.report).split())
    markdown = write_report_markdown(analysis).decode()
    for text in (str(backends_panel.render(view)), terminal, markdown):
        assert "not tried: dtype → bfloat16 (one batch entry has 5 G scores)" in text
        assert "none known" not in text


DEVICE = Samples(samples_ns=(92_000, 93_000, 93_000, 94_000), method="CUDA graph replay (test data)", l2="warm")
WALL = Samples(samples_ns=(130_000, 140_000), method="host clock (test data)")
MEASURED = UnlockMeasurement(
    backend="sdpa_flash",
    change="dtype → bfloat16",
    device=DEVICE,
    wall=WALL,
    max_abs_error=0.01,
    error_budget=0.02,
    within_budget=True,
)


@pytest.fixture
def measured_run(refused_run: Recording, sample_recording: Callable[[str], Recording]) -> Recording:
    skipped = UnlockMeasurement(backend="sdpa_flash", change="dtype → float16", skipped="needs 900.00 GiB")
    latency = sample_recording("math").latency
    return replace(refused_run, latency=latency, unlock_measurements=(MEASURED, skipped))


def test_a_measurement_stands_beside_its_unlock_everywhere(measured_run):
    analysis = analyze_recording(measured_run)
    view = RunView(analysis=analysis, origin=Origin(kind="opened", title="r.json"))
    terminal = " ".join(render_report(analysis.report).split())
    texts = (str(backends_panel.render(view)), str(render_notices(view)), terminal)
    for text in (*texts, write_report_markdown(analysis).decode()):
        assert "dtype → bfloat16 (tried: runs): 93.0\u2009µs" in text.replace("93.0 µs", "93.0\u2009µs")
        assert "within budget" in text
        assert "28.2× faster than sdpa_flash as asked (2.62" in text
        assert "dtype → float16 (tried: runs): not measured: needs 900.00 GiB" in text
    for text in (texts[0], write_report_markdown(analysis).decode()):
        assert "CUDA graph replay (test data)" in text.partition("unlocking changes cost")[2]


def test_a_measurement_without_a_base_or_a_device_clock_says_what_it_has(measured_run):
    alone = replace(measured_run, latency=Latency(), unlock_measurements=(replace(MEASURED, device=None),))
    (entry,) = analyze_recording(alone).report.unlock_measurements
    assert (entry.base_backend, entry.base_ns, entry.clock) == (None, None, None)
    assert describe_measurement(entry) == "135\u2009µs ±\u20092\u2009µs of wall time, within budget"
    on_wall = replace(measured_run, unlock_measurements=(replace(MEASURED, device=None, within_budget=False),))
    (entry,) = analyze_recording(on_wall).report.unlock_measurements
    assert entry.clock == "wall"
    assert "outside its budget" in describe_measurement(entry)


def test_measurements_travel_through_the_file_and_a_clock_without_samples_is_refused(measured_run):
    assert parse_recording(write_recording(measured_run)) == measured_run
    empty = replace(MEASURED, wall=replace(WALL, samples_ns=()))
    with pytest.raises(UnreadableRecording, match="wall time of dtype → bfloat16 for sdpa_flash has no samples"):
        parse_recording(write_recording(replace(measured_run, unlock_measurements=(empty,))))


def test_the_requested_backends_changes_come_first_and_equal_calls_stand_together():
    workload = parse_workload({"dtype": "float32", "kv_heads": 4, "backend": "sdpa_cudnn"})
    decisions = []
    for backend in BACKENDS:
        asked = replace(workload, backend=backend.slug)
        decision = backend.check(asked, H200)
        found = find_unlocks(asked, decision, H200)
        decisions.append(replace(decision, unlocked_by=tuple(f"{edit.sentence} (tried: runs)" for edit in found)))
    only = [decision for decision in decisions if decision.backend in SDPA]
    order = [(edit.workload.backend, edit.after) for edit in order_unlocks(workload, only, H200)]
    assert order == [
        ("sdpa_cudnn", "bfloat16"),
        ("sdpa_cudnn", "float16"),
        ("sdpa_flash", "bfloat16"),
        ("sdpa_flash", "float16"),
        ("sdpa_efficient", "expanded_kv"),
    ]


def test_measuring_is_counted_in_the_estimate_and_in_what_is_reserved():
    refused = parse_workload({"dtype": "float32", "backend": "sdpa_flash"})
    plain = estimate_gpu_seconds([refused], H200_ENVIRONMENT)
    measured = estimate_gpu_seconds([refused], H200_ENVIRONMENT, measure_unlocks=True)
    assert measured > plain + 0.5  # cuDNN builds two plans
    nothing = parse_workload({"backend": "sdpa_math", "mask": "none"})
    spared = estimate_gpu_seconds([nothing], H200_ENVIRONMENT, measure_unlocks=True)
    assert spared == estimate_gpu_seconds([nothing], H200_ENVIRONMENT)
    request = RunRequest(workloads=(refused,))
    assert zero_gpu_duration(replace(request, measure_unlocks=True)) > zero_gpu_duration(request)


@pytest.mark.parametrize("asked", [True, False])
def test_the_wish_to_measure_reaches_the_recorder_through_every_door(tmp_path, sample_recording, asked):
    requests = []

    def record(request):
        requests.append(request)
        yield sample_recording("flash")

    assert main(["run", "--device", "cuda", *(["--measure-unlocks"] if asked else [])], record=record) == 0
    page = build_app(record, recordings_folder=tmp_path)
    profile = next(fn.fn for fn in page.fns.values() if fn.api_name == "profile")
    profile(*[None for _ in WORKLOAD_FIELDS], asked)
    *_, _ = run_live(record, Workload(), KnownMachine(), guess=None, shows_old=False, measure_unlocks=asked)
    runs = [request.measure_unlocks for request in requests if request.workloads]
    assert runs == [asked] * 3
    box = next(block for block in page.blocks.values() if getattr(block, "elem_id", None) == "measure-unlocks")
    assert box.value is False
    assert any(box in fn.inputs for fn in page.fns.values() if fn.name == "_run")
