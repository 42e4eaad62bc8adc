"""The page as a whole: form, endpoints and workload fields agree, runs can be stopped, torch stays away."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.masks import MASKS, density, mask_of
from attention.validation import MASK_PARAMETER_FIELDS, WORKLOAD_FIELDS, default_fields, parse_workload
from attention.workload import InvalidWorkload, Workload
from profiling.environment import build_device_facts
from profiling.format import format_share
from profiling.recording import Environment, Progress, Recording, RunRequest, write_recording
from profiling.report import analyze_file
from tests.conftest import CPU_ENVIRONMENT, H200_ENVIRONMENT, build_sample
from ui import build_app, launch_options
from ui.components.mask_picture import sample_mask
from ui.gallery import read_gallery
from ui.guess import parse_guess
from ui.live_run import run_live
from ui.machine_facts import KnownMachine
from ui.markup import Markup
from ui.panels.downloads import write_files
from ui.presets import PRESETS
from ui.workload_form import build_notes, control_values, create_controls, read_controls, show_fields

ROOT = Path(__file__).parents[2]
MASK_FIELDS = {field.name for field in MASK_PARAMETER_FIELDS.values()}


def never_run(request: RunRequest) -> Iterator[Progress | Recording]:
    raise AssertionError("building the page must not run anything")
    yield


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> gr.Blocks:
    return build_app(never_run, recordings_folder=tmp_path_factory.mktemp("recordings"))


def field_names() -> list[str]:
    return [field.name for field in WORKLOAD_FIELDS]


def endpoint_parameters(page: gr.Blocks, name: str) -> list[dict]:
    return page.get_api_info()["named_endpoints"][name]["parameters"]


def test_form_endpoint_and_fields_are_the_same(page: gr.Blocks) -> None:
    form = [
        block.elem_id.removeprefix("field-")
        for block in page.blocks.values()
        if (getattr(block, "elem_id", None) or "").startswith("field-")
    ]
    assert sorted(form) == sorted(field_names())
    for name, options in (("/profile", ["measure_unlocks"]), ("/check", [])):
        parameters = endpoint_parameters(page, name)
        assert [parameter["parameter_name"] for parameter in parameters] == [*field_names(), *options]
        defaults = {parameter["parameter_name"]: parameter["parameter_default"] for parameter in parameters}
        assert not any(defaults.pop(option) for option in options)
        # Left out means the default of the device that will run it, as on the command line.
        assert set(defaults.values()) == {None}


def test_only_the_four_endpoints_are_public(page: gr.Blocks) -> None:
    assert set(page.get_api_info()["named_endpoints"]) == {"/profile", "/check", "/environment", "/analyze"}
    assert page.get_api_info()["unnamed_endpoints"] == {}


def test_endpoints_take_the_machines_defaults_before_anyone_opened_the_page(tmp_path: Path) -> None:
    asked: list[Workload] = []

    def cpu(request: RunRequest) -> Iterator[Progress | Recording]:
        asked.extend(request.workloads)
        yield Recording(environment=CPU_ENVIRONMENT)

    fresh = build_app(cpu, recordings_folder=tmp_path)
    check = next(fn.fn for fn in fresh.fns.values() if fn.api_name == "check")
    check(*[None] * len(WORKLOAD_FIELDS))
    assert asked == [parse_workload(default_fields("cpu"))]


def test_page_starts_where_another_user_has_the_machine_wide_temporary_folders(tmp_path: Path) -> None:
    for name in ("gradio", "attnscope-downloads"):
        (tmp_path / name).touch()  # like a folder of somebody else, nothing can be made in it
    code = (
        "import app\n"
        "def without_worker():\n"
        "    import gradio\n"
        "    gradio.Blocks.launch = lambda self, **options: print('launched')\n"
        "    return lambda request: iter(())\n"
        "app.choose_recorder = without_worker\n"
        "app.main()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GRADIO_TEMP_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "launched" in done.stdout, done.stderr


def test_every_endpoint_is_described(page: gr.Blocks) -> None:
    for endpoint in page.get_api_info()["named_endpoints"].values():
        assert endpoint["description"]
    for parameter in endpoint_parameters(page, "/profile"):
        assert parameter["type"].get("type") or parameter["type"].get("oneOf")


def test_the_last_choice_is_shown_also_while_an_earlier_one_is_read(page: gr.Blocks) -> None:
    """Gradio's own trigger mode, once, drops a choice while the event before it is pending."""
    choices = {fn.name: fn.trigger_mode for fn in page.fns.values()}
    for name in ("_pick", "_open", "_relabel", "_compare", "_compare_file"):
        assert choices[name] == "always_last"


def test_device_work_is_one_at_a_time(page: gr.Blocks) -> None:
    on_device = [fn for fn in page.fns.values() if fn.concurrency_id == "device"]
    assert len(on_device) == 4  # a live run and three endpoints
    assert {fn.concurrency_limit for fn in on_device} == {1}


def test_server_never_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "tutorial_sdpa_auto.recording.json.gz").write_bytes(write_recording(build_sample("cudnn")))
    script = (
        "import sys\nfrom pathlib import Path\nfrom ui import build_app, launch_options\n"
        "build_app(lambda request: iter(()), recordings_folder=Path(sys.argv[1]))\nlaunch_options()\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "False"


def test_fonts_are_the_systems_own() -> None:
    theme = launch_options()["theme"]
    assert not theme._stylesheets
    assert "googleapis" not in theme._get_theme_css()


def test_controls_read_back_the_same_workload() -> None:
    for preset in PRESETS:
        values = control_values(preset.fields())
        assert parse_workload(read_controls(values)) == parse_workload(preset.fields())


def test_presets_with_a_mask_draw_more_than_a_full_square() -> None:
    """Batch entry 0 is what the picture and the mask read back from a run show."""
    for preset in PRESETS:
        workload = parse_workload(preset.fields())
        if isinstance(workload, Workload) and workload.mask.name != "none":
            assert any(share < 1.0 for line in sample_mask(workload) for share in line), preset.slug


@pytest.mark.parametrize(
    ("field", "value", "part"),
    [
        ("kv_heads", 3, "kv_heads=3 does not divide num_heads=16"),
        ("batch_size", 0, "batch_size=0 is out of range"),
        ("seq_len_q", -1, "seq_len_q=-1"),
        ("head_dim", 1.5, "head_dim=1.5 is not a whole number"),
        ("seq_len_kv", 10**9, "seq_len_kv=1000000000 is out of range"),
        ("seq_len_q", None, "seq_len_q='' is empty"),
        ("scale", "wide", "scale='wide' is not a number"),
        ("mask", "cauzal", "did you mean causal"),
        ("mask", "sliding_window", "mask_window=None is missing"),
        ("head_dim_v", "wide", "head_dim_v='wide' is not a whole number"),
        ("layout", "diagonal", "layout='diagonal' is not known"),
    ],
)
def test_wrong_value_gets_its_message(field: str, value: object, part: str) -> None:
    values = control_values(default_fields("cuda") | {field: value})  # type: ignore[dict-item]
    notes = build_notes(values, None)
    assert notes.workload is None
    assert part in notes.message.replace("&#x27;", "'")


def test_a_run_that_cannot_fit_is_refused_with_the_numbers() -> None:
    fields = default_fields("cuda") | {"backend": "naive", "seq_len_q": 262144, "seq_len_kv": 262144}
    notes = build_notes(control_values(fields), H200_ENVIRONMENT)
    assert notes.workload is None
    assert "GiB" in notes.message


def test_notes_show_each_backends_eligibility_once_the_machine_is_known() -> None:
    fields = control_values(default_fields("cuda") | {"dtype": "float32"})
    assert "after a first run" in build_notes(fields, None).chips
    on_gpu = build_notes(fields, H200_ENVIRONMENT).chips
    # flash, cuDNN and flash-attn 2, 3 and 4 take no float32, and the paged backends one query alone.
    assert on_gpu.count("✗") == 8
    assert "this is float32" in on_gpu
    assert "needs a CUDA device" in build_notes(fields, CPU_ENVIRONMENT).chips


# What each mask needs on 16 queries and 16 keys, where a cell of the picture is one pair.
NEEDED: dict[str, dict[str, str | int | float | None]] = {
    "sliding_window": {"mask_window": 5},
    "prefix_lm": {"mask_prefix_length": 3},
    "document": {"mask_lengths": "4,7,5"},
    "padding": {"mask_lengths": "11"},
    "random": {"mask_density": 0.4},
    "dead_rows": {"mask_count": 3},
}


def note_picture(changes: Mapping[str, object]) -> Markup:
    picture = build_notes(control_values(default_fields("cuda") | changes), None).picture
    assert picture is not None
    return picture


@pytest.mark.parametrize("mask", [mask.slug for mask in MASKS])
def test_picture_shows_the_masks_own_predicate(mask: str) -> None:
    fields = {"mask": mask, "seq_len_q": 16, "seq_len_kv": 16} | NEEDED.get(mask, {})
    picture = note_picture(fields)
    drawn = parse_workload(default_fields("cuda") | fields)
    assert picture.count("mask-allowed") * drawn.batch_size == mask_of(drawn).count_allowed(drawn)
    assert picture.count("mask-allowed") + picture.count("mask-blocked") == 256
    assert format_share(density(drawn)) in picture
    assert "fill-opacity" not in picture


def test_a_long_masks_cells_are_as_full_as_their_part_of_it() -> None:
    shares = sample_mask(parse_workload({"mask": "causal", "seq_len_q": 4096, "seq_len_kv": 4096}))
    for row, line in enumerate(shares):
        assert line == (1.0,) * row + (pytest.approx(6 / 9),) + (0.0,) * (15 - row)
    assert note_picture({}).count("fill-opacity") == 16
    window = sample_mask(parse_workload({"mask": "sliding_window", "mask_window": 1}))
    assert [sum(map(bool, line)) for line in window] == [1] * 16  # even a diagonal stays visible


@given(st.integers(1, 300), st.integers(1, 300))
def test_a_picture_has_a_cell_for_every_part(rows: int, keys: int) -> None:
    shares = sample_mask(parse_workload({"mask": "none", "seq_len_q": rows, "seq_len_kv": keys}))
    assert (len(shares), len(shares[0])) == (min(16, rows), min(16, keys))
    assert {share for line in shares for share in line} == {1.0}


@pytest.mark.parametrize("mask", ["causal", "sliding_window", "prefix_lm", "alibi"])
@pytest.mark.parametrize("chosen", ["upper_left", "lower_right", None])
def test_both_corners_are_drawn_where_the_lengths_differ(mask: str, chosen: str | None) -> None:
    fields = {"mask": mask, "seq_len_q": 20, "seq_len_kv": 12, "mask_alignment": chosen} | NEEDED.get(mask, {})
    picture = note_picture(fields)
    assert picture.count("<svg") == 2
    assert picture.count("✓") == (chosen is not None)
    assert chosen is None or f"✓ {chosen}" in picture
    for corner in ("upper_left", "lower_right"):
        drawn = parse_workload(default_fields("cuda") | fields | {"mask_alignment": corner})
        assert format_share(density(drawn)) in picture
        dead = mask_of(drawn).count_dead_rows(drawn)
        assert not dead or f"{dead} of 160 query rows may attend to nothing" in picture


def test_dead_rows_are_told_before_the_run() -> None:
    assert "every query row has a key to attend to" in note_picture({})
    assert "192 of 8192 query rows" in note_picture({"mask": "dead_rows", "mask_count": 24}).replace(",", "")
    assert "batch entry 0 is drawn" in note_picture({"mask": "padding", "mask_lengths": "7"})


@pytest.mark.parametrize("mask", [mask.slug for mask in MASKS])
def test_form_shows_the_chosen_masks_parameters_alone(mask: str) -> None:
    own = {f"mask_{parameter.name}" for parameter in next(entry for entry in MASKS if entry.slug == mask).parameters}
    with gr.Blocks():
        controls = create_controls(default_fields("cuda") | {"mask": mask})
    assert {name for name in MASK_FIELDS if controls.by_field[name].visible} == own
    assert controls.rows[-1].visible is bool(own)
    updates = show_fields(control_values(default_fields("cuda") | {"mask": mask}))
    for component, update in zip(controls.changing, updates, strict=True):
        assert update.get("visible", True) is component.visible, component.elem_id


def test_a_hidden_parameter_is_no_part_of_the_experiment() -> None:
    values = control_values(default_fields("cuda") | {"mask": "causal", "mask_window": 7, "mask_density": "wide"})
    assert parse_workload(read_controls(values)) == parse_workload(default_fields("cuda"))
    values = control_values(default_fields("cuda") | {"mask": "sliding_window", "mask_window": 7})
    assert parse_workload(read_controls(values)).mask.parameters == {"window": 7}


def test_form_holds_layout_and_value_head_dim() -> None:
    values = control_values(default_fields("cuda") | {"layout": "transposed", "head_dim_v": "32"})
    workload = parse_workload(read_controls(values))
    assert (workload.layout, workload.value_dim) == ("transposed", 32)


@pytest.mark.parametrize(("typed", "guess"), [("", None), (None, None), (" 5 ", 5), ("0", 0)])
def test_guess_is_a_whole_number_or_nothing(typed: str | None, guess: int | None) -> None:
    assert parse_guess(typed) == guess


@pytest.mark.parametrize("typed", ["five", "-1", "1.5", "9" * 12])
def test_wrong_guess_gets_its_message(typed: str) -> None:
    with pytest.raises(InvalidWorkload, match="guess="):
        parse_guess(typed)


def test_live_run_shows_stages_and_ends_with_a_view() -> None:
    def record(request: RunRequest) -> Iterator[Progress | Recording]:
        yield Progress(stage="profile", workload_index=0, workload_count=1, done=1, total=4)
        yield build_sample("flash")

    machine = KnownMachine()
    first, last = run_live(record, Workload(), machine, guess=1, shows_old=True)
    assert "profiling" in first.progress
    assert "previous result" in first.progress
    assert 'aria-valuenow="25"' in first.progress
    assert last.view is not None
    assert last.view.guess == 1
    assert machine.environment == H200_ENVIRONMENT


def test_closing_a_live_run_stops_the_recorder() -> None:
    closed = []

    def record(request: RunRequest) -> Iterator[Progress | Recording]:
        try:
            while True:
                yield Progress(stage="profile", workload_index=0, workload_count=1, done=1, total=4)
        finally:
            closed.append(True)

    updates = run_live(record, Workload(), KnownMachine(), guess=None, shows_old=False)
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert closed == [True]


def test_gallery_starts_with_the_tutorial_and_leaves_out_what_it_cannot_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name, sample in (("a_naive", "naive"), ("tutorial_sdpa_auto", "cudnn")):
        (tmp_path / f"{name}.recording.json.gz").write_bytes(write_recording(build_sample(sample)))
    (tmp_path / "broken.recording.json.gz").write_bytes(b"not gzip")
    (tmp_path / "notes.txt").write_text("not a recording")
    gallery = read_gallery(tmp_path)
    assert [entry.slug for entry in gallery] == ["tutorial_sdpa_auto", "a_naive"]
    assert "broken" in caplog.text
    assert read_gallery(tmp_path / "missing") == ()


def test_a_downloaded_recording_opens_as_the_same_report(tmp_path: Path) -> None:
    recording = build_sample("cudnn")
    assert analyze_file(write_recording(recording)).recording == recording


def test_downloads_are_written_and_old_ones_removed() -> None:
    analysis = analyze_file(write_recording(build_sample("naive")))
    first, second = write_files(analysis), write_files(analysis)
    assert set(first) == set(second)
    assert first["report_json"].parent != second["report_json"].parent
    assert all(path.stat().st_size for path in first.values())


def test_device_facts_keep_what_the_rules_need() -> None:
    facts = build_device_facts(H200_ENVIRONMENT)
    assert (facts.kind, facts.compute_capability, facts.torch_version) == ("cuda", (9, 0), (2, 11))
    assert build_device_facts(Environment(device="cpu", device_name="CPU", torch="")).kind == "cpu"
