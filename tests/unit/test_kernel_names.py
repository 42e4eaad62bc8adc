"""Names of five GPU generations, how each is read, and that nothing is read that a name does not say."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.trace.fused_operators import split_fused
from profiling.trace.kernel_names import KernelIdentity, read_kernel_name
from profiling.trace.kernel_pattern import KernelPattern
from profiling.trace.kernel_patterns import GROUPS
from profiling.trace.short_names import shorten_name

FOLDER = Path(__file__).resolve().parents[1] / "data" / "kernel_names"
GENERATIONS = ("hopper", "blackwell", "ampere", "turing", "cdna3")
LEAST_NAMES = 25
# A trace of a whole model has some hundred names, which a visitor waits for.
COLD_NAME_S = 100e-6
# A trace can come from anybody. Its longest names may cost more than real ones, not seconds.
HOSTILE_NAME_S = 0.25
TENSOR_CORES = {"yes": True, "no": False, "": None}
PRODUCT = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, {}<float> > >"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NameRow:
    """One line of a name file; empty cells are None."""

    name: str
    operator: str | None
    expected: tuple[str | bool | None, ...]


def read_rows(stem: str) -> list[NameRow]:
    head, *lines = (FOLDER / f"{stem}.tsv").read_text(encoding="utf-8").splitlines()
    columns = head.split("\t")
    rows = []
    for line in lines:
        row = dict(zip(columns, line.split("\t"), strict=True))
        assert row["seen_in"], f"{stem}: {row['name']} names no source"
        said = (row["role"], row["family"], row["data_type"] or None, row["tile"] or None)
        expected = (*said, TENSOR_CORES[row["tensor_cores"]], row["short_name"])
        rows.append(NameRow(name=row["name"], operator=row["operator"] or None, expected=expected))
    return rows


ROWS = {path.stem: read_rows(path.stem) for path in sorted(FOLDER.glob("*.tsv"))}
NAMES = [row.name for rows in ROWS.values() for row in rows]
every_row = pytest.mark.parametrize(
    "row", [pytest.param(row, id=f"{stem}-{row.name[:80]}") for stem, rows in ROWS.items() for row in rows]
)


def said(identity: KernelIdentity) -> tuple[str | bool | None, ...]:
    return (
        identity.role,
        identity.family,
        identity.data_type,
        identity.tile,
        identity.uses_tensor_cores,
        identity.short_name,
    )


@every_row
def test_a_name_is_read_as_the_file_says(row: NameRow) -> None:
    assert said(read_kernel_name(row.name, "kernel", row.operator)) == row.expected


@every_row
def test_what_the_name_says_needs_no_operator_unless_the_template_is_shared(row: NameRow) -> None:
    alone = read_kernel_name(row.name, "kernel", None)
    assert said(alone)[1:] == row.expected[1:]
    assert alone.role == row.expected[0] or alone.role in ("elementwise", "other")


@every_row
def test_the_sentence_is_one_plain_line_and_claims_no_more_than_the_columns(row: NameRow) -> None:
    identity = read_kernel_name(row.name, "kernel", row.operator)
    assert identity.description[0].isupper()
    assert not {"\n", "_kernel", "::"} & set(identity.description.split())
    on_cores = "on tensor cores" in identity.description or "on matrix cores" in identity.description
    assert on_cores == (identity.uses_tensor_cores is True)
    assert ("tile" in identity.description) == (identity.tile is not None)


@pytest.mark.parametrize("generation", GENERATIONS)
def test_each_generation_has_its_names(generation: str) -> None:
    names = [row.name for row in ROWS[generation]]
    assert len(names) == len(set(names)) >= LEAST_NAMES
    roles = {row.expected[0] for row in ROWS[generation]}
    assert {"attention_forward", "attention_backward", "gemm"} <= roles


def decide(name: str) -> KernelPattern | None:
    groups = [group for group in GROUPS if any(marker in name for marker in group.markers)]
    return next((entry for group in groups for entry in group.patterns if entry.pattern.search(name)), None)


def test_every_table_line_decides_a_name_and_so_has_an_example() -> None:
    deciding = {id(decide(name)) for name in NAMES}
    idle = [entry.pattern.pattern for group in GROUPS for entry in group.patterns if id(entry) not in deciding]
    assert idle == []


def test_the_operator_decides_what_the_name_leaves_open() -> None:
    template = "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl<X>>(int, X)"
    assert read_kernel_name(template, "kernel", None).role == "elementwise"
    assert read_kernel_name(template, "kernel", "aten::masked_fill_").role == "mask"
    assert read_kernel_name("some_kernel", "kernel", "aten::tril").role == "mask_build"
    assert read_kernel_name("some_kernel", "kernel", "FlashAttnFuncBackward").role == "attention_backward"
    softmax = "void (anonymous namespace)::softmax_warp_forward<float>(float*)"
    assert read_kernel_name(softmax, "kernel", "aten::masked_fill").role == "softmax"  # a clear name is not overruled


def test_an_operator_says_nothing_of_what_a_known_kernel_does_in_it() -> None:
    fill = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float> >(int)"
    assert read_kernel_name(fill, "kernel", "aten::_flash_attention_backward").role == "elementwise"
    assert read_kernel_name(fill, "kernel", "aten::mm").role == "elementwise"


def test_a_product_of_two_tensors_is_no_scale_whatever_its_operator() -> None:
    product = PRODUCT.format("at::native::binary_internal::MulFunctor")
    assert read_kernel_name(product, "kernel", "aten::mul").role == "elementwise"
    scale = product.replace("BinaryFunctor", "AUnaryFunctor")
    assert read_kernel_name(scale, "kernel", "aten::mul").role == "scale"


@pytest.mark.parametrize(
    "name",
    [
        "frobnicate_kernel",
        "void my::kernel<float>(float*, double, long)",
        "_Z9my_kernelPfS_i",
        "void conv1x1<int, bool>(int)",
        "__myl_AddCast_0xa4deb5483aee644da51bf16bf8fe4m3",
        "_gemv",
        "reshape_and_cache",
        "attention_bias_gather",
        "multiply",
        "kernel_cutlass_kernel_mymoduleMyClass_object_at__0",
    ],
)
def test_unknown_stays_unknown(name: str) -> None:
    identity = read_kernel_name(name, "kernel", "mylib::frobnicate")
    unknown = (identity.data_type, identity.tile, identity.uses_tensor_cores)
    if name == "_gemv":  # the word is cuBLAS's; no more is read than it says
        assert (identity.role, *unknown) == ("gemm", None, None, None)
        return
    assert (identity.role, identity.family, *unknown) == ("other", "unknown", None, None, None)
    assert "mylib::frobnicate" in identity.description


@given(st.text(alphabet="bcdijkpqvwxyz0123456789_<>(): ,*"))
def test_a_name_without_a_known_word_is_other_and_says_nothing(name: str) -> None:
    identity = read_kernel_name(name, "kernel", None)
    assert said(identity)[:5] == ("other", "unknown", None, None, None)


@pytest.mark.parametrize(
    ("name", "kind", "short", "phrase"),
    [
        ("Memcpy DtoD (Device -> Device)", "memcpy", "Memcpy DtoD", "device memory to device memory"),
        ("Memcpy HtoD (Pageable -> Device)", "memcpy", "Memcpy HtoD", "host memory to the device"),
        ("CopyHostToDevice", "memcpy", "CopyHostToDevice", "Copies memory"),
        ("Memset (Device)", "memset", "Memset", "Fills memory"),
    ],
)
def test_memory_operations(name: str, kind: str, short: str, phrase: str) -> None:
    identity = read_kernel_name(name, kind, "aten::copy_")
    assert (identity.short_name, identity.role, identity.family) == (short, kind, kind)
    assert (identity.data_type, identity.tile, identity.uses_tensor_cores) == (None, None, None)
    assert phrase in identity.description


def test_descriptions_say_what_the_kernel_was_built_for() -> None:
    def describe(name: str) -> str:
        return read_kernel_name(name, "kernel", None).description

    nvjet = describe("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT")
    assert nvjet == "Matrix product on tensor cores, 256×128 tile (cuBLAS nvjet, built for Hopper)"
    assert "Ada" in describe("cutlass3x_sm89_tensorop_s16832gemm_f16_128x128")
    assert "Blackwell" in describe("nvjet_sm120_tst_64x64_64x4_1x1_h_TNT")
    assert "CDNA 3" in describe("Cijk_Alik_Bljk_BBS_BH_MT128x128x32_MI16x16x1_SN_ISA942_K1")
    assert "built into PyTorch" in describe("void pytorch_flash::flash_fwd_kernel<X>(Y)")
    assert "in TF32" in describe("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_tensor16x8x8")
    assert "TF32" not in describe("Cijk_Ailk_Bljk_S_B_Bias_MT256x208x16_MI16x16x1_SN_ISA942_K1")


@pytest.mark.parametrize(
    ("text", "operators"),
    [
        ("_softmax_masked_fill_mul", ("_softmax", "masked_fill", "mul")),
        ("clamp_copy__mul_silu_slice", ("clamp", "copy_", "mul", "silu", "slice")),
        ("flex_attention_backward_transpose_view", ("flex_attention_backward", "transpose", "view")),
        ("_to_copy__unsafe_view_add", ("_to_copy", "_unsafe_view", "add")),
        ("masked_fill", ("masked_fill",)),
        ("my_operator_mul", ("my_operator_mul",)),
        ("mul_my_operator", ("mul_my_operator",)),
        ("", ()),
    ],
)
def test_fused_operators_are_split_where_all_of_them_are_known(text: str, operators: tuple[str, ...]) -> None:
    assert split_fused(text) == operators


known_operators = st.lists(
    st.sampled_from(
        ["_softmax", "_to_copy", "add", "masked_fill", "mul", "native_layer_norm", "silu", "view", "where"]
    ),
    min_size=1,
    max_size=10,
)


@given(known_operators)
def test_what_is_joined_comes_apart_again(operators: list[str]) -> None:
    assert split_fused("_".join(operators)) == tuple(operators)


@given(st.text(alphabet="abcmul_", max_size=40))
def test_a_split_loses_no_letter(text: str) -> None:
    assert "_".join(split_fused(text)) == text


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Traits<64, A<2> >, false>(Params)", "pytorch_flash::flash_fwd_kernel"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "CatArrayBatchedCopy"),
        ("void at::native::<unnamed>::CatArrayBatchedCopy<float>(T1 *)", "CatArrayBatchedCopy"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4>(P)", "cutlass_80_simt_sgemm_256x128_8x4"),
        ("void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<A>>>(P)", "flash::FlashAttnFwdSm90"),
        ("std::enable_if<!(false), void>::type internal::gemvx::kernel<int>(int)", "internal::gemvx::kernel"),
        ("kernel_cutlass_kernel_amoduleMyKernel_object_at__0", "MyKernel"),
        ("attn_fwd.kd", "attn_fwd"),
        ("_ZN2at6native13reduce_kernelILi512ELi1EEEvT_", "reduce_kernel"),
        ("_ZN7cutlass7Kernel2I20cutlass_80_tensorop_EEvNT_6ParamsE", "cutlass_80_tensorop_"),
        ("_Z9my_kernelPfS_i", "my_kernel"),
        ("_Z99999oops", "_Z99999oops"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("<lambda>", "<lambda>"),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert shorten_name(name) == short


@given(st.text(), st.sampled_from(["kernel", "memcpy", "memset"]), st.none() | st.text())
def test_no_name_breaks_the_reader(name: str, kind: str, operator: str | None) -> None:
    identity = read_kernel_name(name, kind, operator)
    assert identity.description
    assert len(identity.short_name) <= max(len(name), 1)


def cold_time_s(name: str, repeats: int) -> float:
    """The least CPU time of reading a name that was not seen before: what else the machine does counts for nothing."""
    best = float("inf")
    for _ in range(repeats):
        read_kernel_name.cache_clear()
        split_fused.cache_clear()
        start = time.thread_time()
        read_kernel_name(name, "kernel", None)
        best = min(best, time.thread_time() - start)
    return best


def test_a_name_not_seen_before_costs_little() -> None:
    cold_time_s(NAMES[0], 3)
    slow = {name[:80]: f"{cost * 1e6:.0f} µs" for name in NAMES if (cost := cold_time_s(name, 20)) > COLD_NAME_S}
    assert slow == {}


@pytest.mark.parametrize(
    "part",
    [
        "sm80_xmma_gemm_tilesize1x1x1_",
        "cutlass_80_tensorop_gemm_",
        "fmha",
        "attn",
        "attention_",
        "mul_",
        "cute::tuple<cute::C<1>, ",
        "at::native::AUnaryFunctor",
        "CollectiveMma<MainloopSm90Gmma",
        "enable_sm90<",
        "a",
        "_",
    ],
)
@pytest.mark.parametrize(
    "head", ["", "triton_poi_fused_", "sm80_xmma_gemm_", "cutlass::gemm::c::", "Cijk_Ailk_Bljk_SB_"]
)
def test_a_hostile_name_costs_no_time(head: str, part: str) -> None:
    name = head + part * (20_000 // len(part))
    assert cold_time_s(name, 3) < HOSTILE_NAME_S
