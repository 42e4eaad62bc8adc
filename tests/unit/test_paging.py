"""The block table as data, the launch of the decode kernel, and the rules of the three decode backends."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention.backends import BACKENDS, DeviceFacts
from attention.cost import estimate_memory
from attention.lookup import find
from attention.paging import (
    BLOCK_SIZE,
    DOT_ROWS_MOST,
    RESERVED_BYTES,
    SPLITS_MOST,
    STEP_BYTES,
    DecodeConfig,
    build_block_table,
    cache_bytes,
    choose_decode_config,
    count_blocks,
    dot_rows,
    gathered_bytes,
    widest_row,
)
from attention.validation import parse_workload
from profiling.export.report_markdown import EXPORTER as MARKDOWN
from profiling.format import format_bytes, format_share
from profiling.observed import build_observed_backend
from profiling.paged_memory import NO_NEIGHBOURS, describe_copies, describe_paging
from profiling.recording import Memory, Recording, parse_recording, write_recording
from profiling.report import analyze_recording
from profiling.trace.events import DeviceItem, Operator, Trace
from profiling.trace.kernel_names import read_kernel_name
from ui.panels.memory import render
from ui.view import Origin, RunView

SLUGS = ("paged_gather", "paged_flex", "paged_triton")
H200 = DeviceFacts(kind="cuda", name="NVIDIA H200", compute_capability=(9, 0))
CPU = DeviceFacts(kind="cpu")
DECODE = {
    "backend": "paged_triton",
    "batch_size": 4,
    "num_heads": 32,
    "kv_heads": 8,
    "seq_len_q": 1,
    "seq_len_kv": 1000,
    "head_dim": 128,
    "dtype": "bfloat16",
    "mask": "none",
}
RAGGED = {"mask": "padding", "mask_lengths": "1000,0,17,16"}


def build(**fields):
    return parse_workload(DECODE | fields)


def backend(slug):
    return find(slug, BACKENDS, field="backend")


lengths_of_sequences = st.lists(st.integers(0, 300), min_size=1, max_size=12).filter(any)


@given(lengths_of_sequences, st.integers(0, 2**63 - 1))
def test_every_sequence_has_as_many_blocks_as_it_needs_and_no_block_twice(lengths, seed):
    workload = build(
        batch_size=len(lengths),
        seq_len_kv=300,
        seed=seed,
        mask="padding",
        mask_lengths=",".join(map(str, lengths)),
    )
    table = build_block_table(workload)
    assert table.lengths == tuple(lengths)
    assert [len(row) for row in table.rows] == [-(-length // BLOCK_SIZE) for length in lengths]
    assert sorted(block for row in table.rows for block in row) == list(range(table.blocks))
    assert (table.blocks, table.widest) == (count_blocks(workload), widest_row(workload))
    assert table == build_block_table(workload)


def test_the_seed_and_nothing_else_moves_the_blocks():
    tables = {slug: build_block_table(build(backend=slug)) for slug in SLUGS}
    assert tables["paged_gather"] == tables["paged_flex"] == tables["paged_triton"]
    assert build_block_table(build(seed=1)) != tables["paged_triton"]


@given(lengths_of_sequences, st.sampled_from(SLUGS))
def test_facts_agree_with_the_table(lengths, slug):
    workload = build(
        backend=slug,
        batch_size=len(lengths),
        seq_len_kv=300,
        mask="padding",
        mask_lengths=",".join(map(str, lengths)),
    )
    table, paging = build_block_table(workload), backend(slug).paging_of(workload)
    slots = table.blocks * BLOCK_SIZE
    assert (paging.block_size, paging.sequences, paging.blocks) == (BLOCK_SIZE, len(lengths), table.blocks)
    assert paging.cache_bytes == cache_bytes(workload) == slots * 8 * (128 + 128) * 2
    assert paging.share_of_empty_slots * slots == pytest.approx(slots - sum(lengths))
    pairs = [pair for row in table.rows for pair in pairwise(row)]
    if pairs:
        neighbours = sum(after - before == 1 for before, after in pairs)
        assert paging.share_of_scattered_blocks == pytest.approx(1 - neighbours / len(pairs))
    else:
        assert paging.share_of_scattered_blocks is None
    assert paging.kept_bytes == paging.cache_bytes + paging.table_bytes


def test_a_full_cache_has_no_empty_slot_and_its_blocks_are_scattered():
    paging = backend("paged_triton").paging_of(build(seq_len_kv=1024))
    assert paging.share_of_empty_slots == 0
    assert paging.share_of_scattered_blocks > 0.95
    assert paging.table_bytes == 4 * (64 + 1) * 4  # int32: a row of 64 blocks and a length for each of 4 sequences


def test_only_gathering_writes_copies_as_wide_as_the_longest_sequence():
    ragged = build(**RAGGED)
    extra = {slug: backend(slug).paging_of(replace(ragged, backend=slug)).gather_extra_bytes for slug in SLUGS}
    # 4 sequences of 63 blocks, 8 heads, 128 elements of key and of value, 2 bytes each, written and read.
    assert extra == {"paged_gather": 2 * 4 * 63 * 16 * 8 * 256 * 2, "paged_flex": 0, "paged_triton": 0}
    assert extra["paged_gather"] == 2 * gathered_bytes(ragged)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_memory_estimate_holds_the_cache(slug):
    workload = build(backend=slug, **RAGGED)
    estimate, plain = estimate_memory(workload), estimate_memory(replace(workload, backend="sdpa_flash"))
    paging = backend(slug).paging_of(workload)
    assert estimate.held_bytes == paging.kept_bytes + paging.gather_extra_bytes // 2
    assert estimate.mask_bytes == 0
    assert estimate.total_bytes == plain.total_bytes - plain.mask_bytes + estimate.held_bytes
    assert plain.held_bytes == 0


@pytest.mark.parametrize("slug", SLUGS)
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"seq_len_q": 1024}, "decode: needs seq_len_q 1, this is 1024"),
        ({"direction": "forward_backward"}, "runs the forward pass alone, this is forward_backward"),
        (
            {"mask": "alibi", "mask_alignment": "lower_right"},
            "takes mask none, causal (lower_right) or padding (right), this is alibi",
        ),
        (
            {"mask": "causal", "mask_alignment": "upper_left"},
            "takes mask causal with alignment lower_right, this is upper_left",
        ),
        (RAGGED | {"mask_side": "left"}, "takes mask padding with side right, this is left"),
    ],
    ids=str,
)
def test_what_is_no_decode_step_is_refused_with_both_sides_named(slug, fields, reason):
    decision = backend(slug).check(build(backend=slug, **fields), H200)
    assert decision.verdict == "rejected"
    assert reason in decision.reason


@pytest.mark.parametrize(
    "fields",
    [
        {},
        RAGGED,
        {"mask": "causal", "mask_alignment": "lower_right"},
        {"layout": "expanded_kv"},
        {"layout": "transposed"},
    ],
    ids=str,
)
def test_a_decode_step_is_taken_by_all_three(fields):
    verdicts = {slug: backend(slug).check(build(backend=slug, **fields), H200).verdict for slug in SLUGS}
    assert set(verdicts.values()) == {"accepted"}, verdicts


@pytest.mark.parametrize(
    ("slug", "fields", "device", "reason"),
    [
        ("paged_triton", {}, CPU, "needs a CUDA device, this is cpu"),
        (
            "paged_triton",
            {},
            replace(H200, compute_capability=(7, 5)),
            "takes bfloat16 from compute capability 8.0 on, this is 7.5",
        ),
        (
            "paged_triton",
            {},
            replace(H200, compute_capability=(6, 1)),
            "needs compute capability 7.0 or newer, this is 6.1",
        ),
        ("paged_triton", {"dtype": "float64"}, H200, "takes float32, float16 or bfloat16, this is float64"),
        ("paged_triton", {"head_dim": 80}, H200, "takes head_dim 16, 32, 64, 128 or 256, this is 80"),
        ("paged_triton", {"head_dim_v": 512}, H200, "this is 512"),
        ("paged_flex", {"dtype": "float64"}, H200, "takes float32, float16 or bfloat16, this is float64"),
        (
            "paged_flex",
            {"num_heads": 24},
            H200,
            "takes a power of two up to 128 of query heads a key/value head, this is 3",
        ),
    ],
)
def test_what_one_of_them_lacks_is_named(slug, fields, device, reason):
    decision = backend(slug).check(build(backend=slug, **fields), device)
    assert decision.verdict == "rejected"
    assert reason in decision.reason


@pytest.mark.parametrize("fields", [{"dtype": "float64"}, {"head_dim": 80}, {"num_heads": 24}], ids=str)
def test_gathering_takes_what_sdpa_takes(fields):
    for device in (CPU, H200):
        assert backend("paged_gather").check(build(backend="paged_gather", **fields), device).verdict == "accepted"


def test_none_is_tried_apart():
    assert not any(backend(slug).is_probed for slug in SLUGS)


@given(st.integers(1, 1024))
def test_rows_of_the_product_hold_the_group_or_a_tile_of_it(group):
    rows = dot_rows(group)
    assert rows & (rows - 1) == 0
    assert 16 <= rows <= DOT_ROWS_MOST
    assert rows >= min(group, DOT_ROWS_MOST)
    assert rows < 2 * group or rows == 16


@given(
    programs=st.integers(1, 2**20),
    longest=st.integers(1, 2**20),
    token_bytes=st.sampled_from([64, 128, 256, 512, 1024, 2048]),
    sm_count=st.integers(1, 256),
    shared_memory_bytes=st.sampled_from([48 * 2**10, 64 * 2**10, 99 * 2**10, 227 * 2**10]),
)
def test_any_launch_fits_the_device_and_has_no_empty_split(**facts):
    config = choose_decode_config(**facts)
    assert config.tokens_per_step % BLOCK_SIZE == 0
    assert config.tokens_per_step & (config.tokens_per_step - 1) == 0
    step_bytes = config.tokens_per_step * facts["token_bytes"]
    assert step_bytes <= STEP_BYTES
    if config.num_stages > 1:
        assert (config.num_stages - 1) * step_bytes + RESERVED_BYTES <= facts["shared_memory_bytes"]
    assert 1 <= config.splits <= SPLITS_MOST
    steps = -(-facts["longest"] // config.tokens_per_step)
    steps_of_each = -(-steps // config.splits)
    assert (config.splits - 1) * steps_of_each < steps <= config.splits * steps_of_each


def test_keys_are_split_only_where_heads_alone_do_not_fill_the_device():
    h200 = {"longest": 8192, "token_bytes": 512, "sm_count": 132, "shared_memory_bytes": 227 * 2**10}
    full = choose_decode_config(programs=64 * 8, **h200)
    assert full == DecodeConfig(tokens_per_step=64, num_warps=4, num_stages=2, splits=1)
    assert choose_decode_config(programs=8, **h200).splits > 32
    assert choose_decode_config(programs=8, **h200 | {"longest": 64}).splits == 1


def test_the_kernels_names_are_attention_by_our_own_kernel():
    for name in ("paged_decode_kernel", "paged_decode_reduce_kernel"):
        identity = read_kernel_name(name, "kernel", "attnscope::paged_decode")
        assert (identity.role, identity.family, identity.short_name) == (
            "attention_forward",
            "AttnScope paged decode",
            name,
        )


def observe(operators, kernels=()):
    """The backend in a trace without steps that holds these ``(name, index of the parent)`` operators and kernels."""
    trace = Trace(
        operators=tuple(
            Operator(index=index, name=name, start_ns=index * 10, duration_ns=5, thread=1, parent=parent)
            for index, (name, parent) in enumerate(operators)
        ),
        device_items=tuple(
            DeviceItem(
                index=index,
                kind="kernel",
                name=name,
                start_ns=index * 10,
                duration_ns=5,
                device=0,
                stream=7,
                correlation=index,
            )
            for index, name in enumerate(kernels)
        ),
    )
    return build_observed_backend(trace)


SELECT, SDPA = "aten::index_select", "aten::scaled_dot_product_attention"
CUDNN_OPERATOR, CUDNN_KERNEL = "aten::_scaled_dot_product_cudnn_attention", "cudnn_generated_fort_native_sdpa_sm90"
GATHER_KERNEL = "void at::native::vectorized_gather_kernel<16, long>"
GATHERED = [(SELECT, None), (SELECT, None), (SDPA, None), (CUDNN_OPERATOR, 2)]


def test_our_kernel_is_proven_by_its_operator_and_its_names():
    kernels = ["paged_decode_kernel", "paged_decode_reduce_kernel"]
    found = observe([("attnscope::paged_decode", None), ("aten::empty", 0)], kernels)
    assert (found.family, found.confidence) == ("paged_triton", "proven")
    assert len([text for text in found.evidence if text.startswith("kernel paged_decode")]) == 2
    assert observe([], kernels).confidence == "likely"


def test_gathering_is_proven_by_the_copies_and_sdpas_own_names():
    found = observe(GATHERED, [GATHER_KERNEL, GATHER_KERNEL, CUDNN_KERNEL])
    assert (found.family, found.confidence) == ("paged_gather", "proven")
    shown = " ".join(found.evidence)
    assert all(name in shown for name in (SELECT, SDPA, CUDNN_OPERATOR, CUDNN_KERNEL, "vectorized_gather_kernel"))
    assert observe(GATHERED).confidence == "proven"  # on a CPU, which has no kernels
    assert observe(GATHERED, [CUDNN_KERNEL]).confidence == "likely"


@pytest.mark.parametrize(
    "operators",
    [
        [("aten::embedding", None), (SELECT, 0), (SELECT, 0), (SDPA, None), (CUDNN_OPERATOR, 3)],
        [(SELECT, None), (SDPA, None), (CUDNN_OPERATOR, 1)],
        [(SDPA, None), (CUDNN_OPERATOR, 0)],
    ],
)
def test_sdpa_beside_other_selections_stays_itself(operators):
    found = observe(operators, [GATHER_KERNEL, CUDNN_KERNEL])
    assert (found.family, found.confidence) == ("cudnn", "proven")


def test_the_facts_travel_to_the_report_and_its_markdown():
    workload = build(backend="paged_gather", **RAGGED)
    paging = backend("paged_gather").paging_of(workload)
    memory = Memory(peak_bytes=2**24, inputs_bytes=2**22, output_bytes=2**12, materialized_bytes=2**23)
    recording = Recording(workload=workload, paging=paging, memory=memory)
    assert parse_recording(write_recording(recording)) == recording
    analysis = analyze_recording(recording)
    assert analysis.report.paging == paging
    text = MARKDOWN.write(analysis).decode()
    # 63 + 0 + 2 + 1 blocks, of whose 1,056 slots 1,033 hold a token.
    assert "| blocks of 16 tokens | 66 |" in text
    assert f"| internal fragmentation: slots that hold no token | {format_share(23 / 1056)} |" in text
    assert f"cache of blocks {format_bytes(paging.cache_bytes)}" in text
    assert "no neighbours in memory" not in MARKDOWN.write(analyze_recording(replace(recording, paging=None))).decode()


def test_the_memory_panel_shows_the_table_and_no_score_matrix_where_copies_were_made():
    workload = build(backend="paged_gather", **RAGGED)
    memory = Memory(peak_bytes=2**24, inputs_bytes=2**22, output_bytes=2**12, materialized_bytes=2**23)
    recording = Recording(workload=workload, paging=backend("paged_gather").paging_of(workload), memory=memory)
    shown = str(render(RunView(analysis=analyze_recording(recording), origin=Origin(kind="live"))))
    assert "Block table" in shown
    assert "gathers the blocks into contiguous copies" in shown
    assert "writes the matrix" not in shown
    plain = replace(recording, workload=replace(workload, backend="sdpa_math"), paging=None)
    shown = str(render(RunView(analysis=analyze_recording(plain), origin=Origin(kind="live"))))
    assert "Block table" not in shown
    assert "writes the matrix" in shown


def test_one_block_a_sequence_has_no_neighbours_to_be_scattered_from():
    paging = backend("paged_triton").paging_of(build(seq_len_kv=16))
    assert paging.share_of_scattered_blocks is None
    assert NO_NEIGHBOURS in dict(describe_paging(paging)).values()
    assert "nothing is gathered" in describe_copies(paging)
    gathering = backend("paged_gather").paging_of(build(seq_len_kv=16))
    assert format_bytes(gathering.gather_extra_bytes // 2) in describe_copies(gathering)
