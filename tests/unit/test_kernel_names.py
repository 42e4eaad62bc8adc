"""Names of many libraries, what each is read as, and that no name breaks the reader."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profiling.trace.kernel_names import read_kernel_name, shorten_name

ELEMENTWISE = "void at::native::vectorized_elementwise_kernel<4, at::native::{}, std::array<char*, 2ul> >(int, float)"


@pytest.mark.parametrize(
    ("name", "role", "family", "dtype", "tile", "tensor_cores"),
    [
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_NNT", "gemm", "cuBLAS nvjet", "bfloat16", "128×256", True),
        ("nvjet_sm100_hsh_128x64_64x8_1x2_h_bz_TNT", "gemm", "cuBLAS nvjet", "float16", "128×64", True),
        ("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", "gemm", "cuBLAS", "bfloat16", "128×256", True),
        ("ampere_sgemm_128x64_tn", "gemm", "cuBLAS", "float32", "128×64", False),
        ("volta_h884gemm_64x64_ldg8_nn", "gemm", "cuBLAS", "float16", "64×64", True),
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel",
            "gemm",
            "cuBLAS xmma",
            "bfloat16",
            "128×128",
            True,
        ),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_64x3_tn_align8>(Params)",
            "gemm",
            "CUTLASS",
            "bfloat16",
            "128×64",
            True,
        ),
        (
            "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(Params)",
            "gemm",
            "CUTLASS",
            "float32",
            "256×128",
            False,
        ),
        ("void gemv2T_kernel_val<int, int, __nv_bfloat16, float, 128, 16>(T)", "gemm", "cuBLAS", None, None, None),
        (
            "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, cutlass::half_t>>()",
            "attention",
            "flash attention",
            "float16",
            "64×128",
            True,
        ),
        (
            "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64, cutlass::bfloat16_t>>()",
            "attention",
            "flash attention",
            "bfloat16",
            None,
            True,
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<cutlass::bfloat16_t>>>(Params)",
            "attention",
            "flash attention 3",
            "bfloat16",
            None,
            True,
        ),
        (
            "fmha_cutlassF_f32_aligned_64x64_rf_sm80(Params)",
            "attention",
            "cutlassF efficient attention",
            "float32",
            "64×64",
            None,
        ),
        (
            "fmha_cutlassB_bf16_aligned_64x64_k64_sm80(Params)",
            "attention",
            "cutlassB efficient attention",
            "bfloat16",
            "64×64",
            None,
        ),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_3_64x64x64_4x1x1_cga1x1x1_kernel0_0",
            "attention",
            "cuDNN",
            None,
            None,
            True,
        ),
        ("triton_tem_fused_flex_attention_backward_3", "attention", "Triton/Inductor", None, None, None),
        ("triton_tem_fused_mm_0", "gemm", "Triton/Inductor", None, None, None),
        ("triton_per_fused__softmax_masked_fill_mul_1", "softmax", "Triton/Inductor", None, None, None),
        ("triton_red_fused_mean_pow_2", "reduce", "Triton/Inductor", None, None, None),
        ("triton_poi_fused_add_mul_0", "elementwise", "Triton/Inductor", None, None, None),
        ("triton_poi_fused_clone_0", "copy", "Triton/Inductor", None, None, None),
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::MeanOps<float, float>>>()",
            "reduce",
            "ATen reduce",
            "float32",
            None,
            None,
        ),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(Args)", "other", "NCCL", "bfloat16", None, None),
        ("Cijk_Ailk_Bljk_BBS_BH_MT128x64x32_MI16x16x16x1_SN", "gemm", "rocBLAS Tensile", None, "128×64", True),
        ("_my_paged_attention_2d", "attention", "unknown", None, None, None),
    ],
)
def test_names_of_many_libraries(
    name: str, role: str, family: str, dtype: str | None, tile: str | None, tensor_cores: bool | None
) -> None:
    identity = read_kernel_name(name, "kernel", None)
    assert (identity.role, identity.family) == (role, family)
    assert (identity.tile, identity.uses_tensor_cores) == (tile, tensor_cores)
    if dtype is not None:
        assert identity.dtype == dtype


def test_the_operator_decides_what_the_name_leaves_open() -> None:
    product = ELEMENTWISE.format("BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >")
    assert read_kernel_name(product, "kernel", None).role == "elementwise"
    assert read_kernel_name(product, "kernel", "aten::mul").role == "scale"
    assert read_kernel_name(product, "kernel", "aten::mul_").role == "scale"
    assert read_kernel_name("some_kernel", "kernel", "aten::masked_fill_").role == "mask"
    softmax = "void (anonymous namespace)::softmax_warp_forward<float>(float*)"
    assert read_kernel_name(softmax, "kernel", "aten::mul").role == "softmax"  # a clear name is not overruled


def test_unknown_stays_unknown() -> None:
    identity = read_kernel_name("frobnicate_kernel", "kernel", "mylib::frobnicate")
    assert (identity.role, identity.family, identity.dtype, identity.uses_tensor_cores) == (
        "other",
        "unknown",
        None,
        None,
    )
    assert "mylib::frobnicate" in identity.description


@pytest.mark.parametrize(
    ("name", "kind", "short", "said"),
    [
        ("Memcpy DtoD (Device -> Device)", "memcpy", "Memcpy DtoD", "device memory to device memory"),
        ("Memcpy HtoD (Pageable -> Device)", "memcpy", "Memcpy HtoD", "host memory to the device"),
        ("CopyHostToDevice", "memcpy", "CopyHostToDevice", "Copies memory"),
        ("Memset (Device)", "memset", "Memset", "Fills memory"),
    ],
)
def test_memory_operations(name: str, kind: str, short: str, said: str) -> None:
    identity = read_kernel_name(name, kind, "aten::copy_")
    assert (identity.short_name, identity.role, identity.family) == (short, kind, kind)
    assert said in identity.description


def test_descriptions_are_sentences_of_what_the_name_says() -> None:
    def describe(name: str) -> str:
        return read_kernel_name(name, "kernel", None).description

    nvjet = describe("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT")
    assert nvjet == "Matrix product on tensor cores, 256×128 tile (cuBLAS nvjet, Hopper)"
    assert "Ada" in describe("cutlass3x_sm89_tensorop_s16832gemm_f16_128x128")
    assert "Blackwell" in describe("nvjet_sm120_tst_64x64_64x4_1x1_h_TNT")
    assert "built into PyTorch" in describe("void pytorch_flash::flash_fwd_kernel<X>(Y)")


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("void pytorch_flash::flash_fwd_kernel<Traits<64, A<2> >, false>(Params)", "pytorch_flash::flash_fwd_kernel"),
        (ELEMENTWISE.format("FillFunctor<bool>"), "vectorized_elementwise_kernel<FillFunctor>"),
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>(float*)", "CatArrayBatchedCopy"),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4>(P)", "cutlass_80_simt_sgemm_256x128_8x4"),
        (
            "void cutlass::device_kernel<flash::enable_sm90<flash::FlashAttnFwdSm90<A>>>(P)",
            "flash::FlashAttnFwdSm90",
        ),
        ("_ZN2at6native13reduce_kernelILi512ELi1EEEvT_", "reduce_kernel"),
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
