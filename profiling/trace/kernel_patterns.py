"""What kernel names say, as a table: the first pattern that matches a name decides.

Each entry's comment is its source. "Seen" means read in a trace of that library.
"""

import re
from dataclasses import dataclass

from profiling.report_schema import KernelRole


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPattern:
    """``says`` is what the kernel does, as the start of a sentence.

    Named groups of ``pattern``: ``tile`` ("128x64") or ``rows`` and ``columns``, ``arch`` ("sm90", "ampere"), and
    ``fused`` (what Inductor fused). ``reads_dtype`` False: the name's type words are not the tensors' dtype.
    """

    pattern: re.Pattern[str]
    role: KernelRole
    family: str
    says: str
    tensor_cores: bool | None = None
    reads_dtype: bool = True


def _entry(
    pattern: str,
    role: KernelRole,
    family: str,
    says: str,
    tensor_cores: bool | None = None,
    reads_dtype: bool = True,
) -> KernelPattern:
    return KernelPattern(
        pattern=re.compile(pattern),
        role=role,
        family=family,
        says=says,
        tensor_cores=tensor_cores,
        reads_dtype=reads_dtype,
    )


_FORWARD, _BACKWARD = ("Fused attention forward on tensor cores", "Fused attention backward on tensor cores")
_ON_TENSOR_CORES = "Matrix product on tensor cores"
_ON_CUDA_CORES = "Matrix product on CUDA cores"

_ATTENTION = (
    # cuDNN's generated engines, seen with cuDNN 9: their "f16" stands for bfloat16 too. wgmma and hmma are tensor-core
    # instructions (PTX ISA).
    _entry(
        r"cudnn_generated\w*sdpa_(?P<arch>sm\d+)\w*bprop\w*?(?:_(?P<tile>\d+x\d+)x\d+)?",
        "attention",
        "cuDNN",
        "Fused attention backward on tensor cores",
        tensor_cores=True,
        reads_dtype=False,
    ),
    _entry(
        r"cudnn_generated\w*sdpa_(?P<arch>sm\d+)\w*?(?:_(?P<tile>\d+x\d+)x\d+\w*)?$",
        "attention",
        "cuDNN",
        "Fused attention forward on tensor cores",
        tensor_cores=True,
        reads_dtype=False,
    ),
    # PyTorch's aten/src/ATen/native/transformers/cuda/mem_eff_attention: F forward, B backward, the tile, where the
    # output accumulates (rf: registers), and the oldest architecture it was built for. Float32 runs without tensor
    # cores before sm80, so the name alone does not say it.
    _entry(
        r"fmha_cutlassF_(?:bf16|f16)_\w+?_(?P<tile>\d+x\d+)\w*?_(?P<arch>sm(?:7[05]|[89]\d|1\d\d))",
        "attention",
        "cutlassF efficient attention",
        "Fused attention forward on tensor cores",
        tensor_cores=True,
    ),
    _entry(
        r"fmha_cutlassF_\w+?_(?P<tile>\d+x\d+)\w*?_(?P<arch>sm\d+)",
        "attention",
        "cutlassF efficient attention",
        "Fused attention forward",
    ),
    _entry(
        r"fmha_cutlassB_\w+?_(?P<tile>\d+x\d+)\w*?_(?P<arch>sm\d+)",
        "attention",
        "cutlassB efficient attention",
        "Fused attention backward",
    ),
    # flash_attn/cute (version 4): module and class are part of the name, which holds names of version 2 as well.
    _entry(r"FlashAttentionForward(?P<arch>Sm\d+)", "attention", "flash attention 4", _FORWARD, True),
    _entry(r"FlashAttentionBackward(?P<arch>Sm\d+)", "attention", "flash attention 4", _BACKWARD, True),
    _entry(r"FlashAttentionBackward(?:Pre|Post)process", "attention", "flash attention 4", "Around attention backward"),
    # Dao-AILab/flash-attention csrc/flash_attn: traits<head_dim, rows of queries, rows of keys, warps>; float16 and
    # bfloat16 only, on mma. PyTorch builds the same source in the namespace pytorch_flash.
    _entry(
        r"flash_fwd_splitkv_combine_kernel",
        "attention",
        "flash attention",
        "Adds up the parts of a split-KV attention forward",
    ),
    _entry(
        r"flash_fwd(?:_splitkv)?_kernel(?:<Flash_fwd_kernel_traits<\d+, (?P<rows>\d+), (?P<columns>\d+))?",
        "attention",
        "flash attention",
        "Fused attention forward on tensor cores",
        tensor_cores=True,
    ),
    _entry(r"flash_bwd_dot_do_o", "attention", "flash attention", "Prepares the attention backward: row sums of dO·O"),
    _entry(
        r"flash_bwd_convert", "cast", "flash attention", "Converts a gradient to its dtype after attention backward"
    ),
    _entry(r"flash_bwd", "attention", "flash attention", "Fused attention backward on tensor cores", tensor_cores=True),
    # Dao-AILab/flash-attention hopper/ (version 3).
    _entry(
        r"FlashAttnFwdCombine", "attention", "flash attention 3", "Adds up the parts of a split-KV attention forward"
    ),
    _entry(
        r"FlashAttnFwd(?P<arch>Sm\d+)",
        "attention",
        "flash attention 3",
        "Fused attention forward on tensor cores",
        True,
    ),
    _entry(
        r"FlashAttnBwd(?P<arch>Sm\d+)",
        "attention",
        "flash attention 3",
        "Fused attention backward on tensor cores",
        True,
    ),
    # attention/backends/paged_kernel.py; whether tl.dot takes tensor cores depends on the dtype, which no name says.
    _entry(r"^paged_decode_reduce_kernel", "attention", "AttnScope paged decode", "Joins the parts of a split decode"),
    _entry(r"^paged_decode_kernel", "attention", "AttnScope paged decode", "Decodes through a block table"),
    # ROCm/composable_kernel ck_tile and ROCm/aotriton, PyTorch's flash and efficient paths on AMD.
    _entry(r"FmhaFwd\w*Kernel", "attention", "Composable Kernel attention", "Fused attention forward"),
    _entry(r"FmhaBwd\w*Kernel", "attention", "Composable Kernel attention", "Fused attention backward"),
    _entry(r"^attn_fwd", "attention", "AOTriton", "Fused attention forward"),
    _entry(r"^bwd_kernel_(?:dk_dv|dq|fuse)", "attention", "AOTriton", "Fused attention backward"),
)

_GEMM = (
    # cuBLAS's Hopper and Blackwell kernels, seen: nvjet[_arch]_<types>_<tile>_<k-tile>x<stages>_<cluster>.
    _entry(r"^nvjet_(?P<arch>sm\d+)_\w+?_(?P<tile>\d+x\d+)_", "gemm", "cuBLAS nvjet", _ON_TENSOR_CORES, True),
    _entry(r"^nvjet_\w+?_(?P<tile>\d+x\d+)_", "gemm", "cuBLAS nvjet", _ON_TENSOR_CORES, True),
    # cuBLAS's xmma kernels, seen: "ffma" is the float32 fused multiply-add of the CUDA cores, not a matrix instruction.
    _entry(
        r"(?P<arch>sm\d+)_xmma_gemm_\w*tilesize(?P<tile>\d+x\d+)x\d+\w*_ffma",
        "gemm",
        "cuBLAS xmma",
        _ON_CUDA_CORES,
        False,
    ),
    _entry(
        r"(?P<arch>sm\d+)_xmma_gemm_\w*tilesize(?P<tile>\d+x\d+)x\d+\w*_(?:tensor\w*|warpgroup\w*)",
        "gemm",
        "cuBLAS xmma",
        _ON_TENSOR_CORES,
        True,
    ),
    _entry(r"(?P<arch>sm\d+)_xmma_gemm_(?:\w*tilesize(?P<tile>\d+x\d+))?", "gemm", "cuBLAS xmma", "Matrix product"),
    # CUTLASS's profiler names: opclass tensorop or simt, instruction shape, threadblock tile.
    # Source: NVIDIA/cutlass python/cutlass_library/gemm_operation.py, procedural_name.
    _entry(
        r"cutlass(?:3x)?_(?P<arch>(?:sm)?\d+)_(?:wmma_)?tensorop_\w*?gemm\w*?_(?P<tile>\d+x\d+)",
        "gemm",
        "CUTLASS",
        _ON_TENSOR_CORES,
        True,
    ),
    _entry(
        r"cutlass(?:3x)?_(?P<arch>(?:sm)?\d+)_simt_\w*?gemm\w*?_(?P<tile>\d+x\d+)",
        "gemm",
        "CUTLASS",
        _ON_CUDA_CORES,
        False,
    ),
    _entry(r"cutlass::gemm|cutlass\w*gemm", "gemm", "CUTLASS", "Matrix product"),
    # cuBLAS's older kernels: s16816, s1688, h884 and the like are the shapes of mma instructions (PTX ISA).
    _entry(
        r"^(?P<arch>volta|turing|ampere|hopper)_\w*?(?:[shi]\d{3,6}gemm|tensorop)\w*?_(?P<tile>\d+x\d+)",
        "gemm",
        "cuBLAS",
        _ON_TENSOR_CORES,
        True,
    ),
    _entry(
        r"^(?P<arch>maxwell|volta|turing|ampere|hopper)_[shdcz]gemm\w*?_(?P<tile>\d+x\d+)",
        "gemm",
        "cuBLAS",
        _ON_CUDA_CORES,
        False,
    ),
    _entry(r"splitKreduce_kernel", "gemm", "cuBLAS", "Adds up the parts of a split-K matrix product"),
    _entry(r"gemv|gemmSN|gemmk1|\bdot_kernel|reduce_1Block", "gemm", "cuBLAS", "Matrix-vector or small matrix product"),
    # Tensile's names in rocBLAS and hipBLASLt: MT is the macro tile, MFMA the matrix instruction.
    _entry(
        r"^Cijk_\w*?_MT(?P<tile>\d+x\d+)x\d+\w*_MI\d+",
        "gemm",
        "rocBLAS Tensile",
        "Matrix product on matrix cores",
        True,
    ),
    _entry(r"^Cijk_", "gemm", "rocBLAS Tensile", "Matrix product"),
)

# torch/_inductor/codegen/triton.py: kind of kernel, then the fused operators, then a number.
_TRITON = (
    _entry(
        r"^triton_tem_fused_(?P<fused>\w*(?:attention|sdpa)\w*backward\w*?)_\d+",
        "attention",
        "Triton/Inductor",
        "Fused attention backward from a template",
    ),
    _entry(
        r"^triton_\w+_fused_(?P<fused>\w*(?:attention|sdpa)\w*?)_\d+",
        "attention",
        "Triton/Inductor",
        "Fused attention from a template",
    ),
    _entry(r"^triton_tem_fused_(?P<fused>\w+?)_\d+", "gemm", "Triton/Inductor", "Matrix product from a template"),
    _entry(r"^triton_(?:mm|bmm|addmm)\w*", "gemm", "Triton/Inductor", "Matrix product from a template"),
    _entry(r"^triton_\w+_fused_(?P<fused>\w*softmax\w*?)_\d+", "softmax", "Triton/Inductor", "Fused softmax"),
    _entry(r"^triton_(?:red|per)_fused_(?P<fused>\w+?)_\d+", "reduce", "Triton/Inductor", "Fused reduction"),
    _entry(r"^triton_poi_fused_(?P<fused>clone|_to_copy|copy)_\d+", "copy", "Triton/Inductor", "Copy"),
    _entry(
        r"^triton_poi_fused_(?P<fused>\w*(?:masked_fill|where|tril|triu)\w*?)_\d+",
        "mask",
        "Triton/Inductor",
        "Fused elementwise work that builds or applies a mask",
    ),
    _entry(r"^triton_poi_fused_(?P<fused>\w+?)_\d+", "elementwise", "Triton/Inductor", "Fused elementwise work"),
    _entry(r"^triton_", "other", "Triton/Inductor", "Kernel that torch.compile generated"),
)

# PyTorch's aten/src/ATen/native/cuda: the functor or the function around the lambda is part of the template arguments.
_ATEN = (
    _entry(r"masked_fill_kernel|masked_scale", "mask", "ATen elementwise", "Writes a value wherever the mask says so"),
    _entry(r"triu_tril_kernel", "mask", "ATen triangular", "Keeps one triangle of a matrix: builds a causal mask"),
    _entry(r"where_kernel_impl", "mask", "ATen elementwise", "Picks between two values by a mask"),
    _entry(r"isneginf_kernel_impl", "mask", "ATen elementwise", "Finds -inf, the score of a masked cell"),
    _entry(r"FillFunctor<bool>", "mask", "ATen elementwise", "Fills a boolean tensor with one value"),
    _entry(
        r"CompareFunctor|CompareEqFunctor|compare_scalar_kernel|logical_\w+_kernel|bitwise_\w+_kernel|Bitwise\w+Functor",
        "mask",
        "ATen elementwise",
        "Compares, or combines booleans: builds a mask",
    ),
    _entry(
        r"softmax_warp_forward|softmax_warp_backward",
        "softmax",
        "ATen softmax",
        "Softmax over the last dimension, each row in the registers of one warp",
    ),
    _entry(r"[sS]oft[mM]ax", "softmax", "ATen softmax", "Softmax"),
    _entry(
        r"bfloat16\w*_copy_kernel_cuda|float16\w*_copy_kernel_cuda|float8\w*_copy_kernel_cuda",
        "cast",
        "ATen elementwise",
        "Copies a tensor into another dtype",
    ),
    _entry(r"direct_copy_kernel_cuda.*StoreWithCast", "cast", "ATen elementwise", "Copies a tensor into another dtype"),
    _entry(
        r"direct_copy_kernel_cuda|CatArrayBatchedCopy|copy_device_to_device", "copy", "ATen copy", "Copies a tensor"
    ),
    _entry(r"FillFunctor", "elementwise", "ATen elementwise", "Fills a tensor with one value"),
    _entry(
        r"[AB]UnaryFunctor<.*(?:MulFunctor|DivFunctor|TrueDivFunctor)",
        "scale",
        "ATen elementwise",
        "Multiplies every element by one number",
    ),
    _entry(r"MulFunctor|DivFunctor", "elementwise", "ATen elementwise", "Multiplies or divides two tensors"),
    _entry(r"CUDAFunctor_add|AddFunctor", "elementwise", "ATen elementwise", "Adds two tensors"),
    _entry(r"dropout", "elementwise", "ATen dropout", "Sets random elements to zero"),
    _entry(r"distribution_\w*kernel|philox", "other", "ATen random", "Draws random numbers"),
    _entry(r"layer_norm|rms_norm|LayerNorm|batch_norm", "reduce", "ATen norm", "Normalises rows"),
    _entry(r"and_kernel_cuda|or_kernel_cuda", "reduce", "ATen reduce", "Reduces booleans: all or any"),
    _entry(r"reduce_kernel|ReduceOp|cub::\w*Reduce", "reduce", "ATen reduce", "Reduces along a dimension"),
    _entry(r"index\w*_kernel|gather|scatter|indexSelect", "copy", "ATen indexing", "Reads or writes rows by index"),
    _entry(r"arange|range_cuda|linspace", "other", "ATen elementwise", "Writes a sequence of numbers"),
    _entry(r"elementwise_kernel", "elementwise", "ATen elementwise", "Elementwise work"),
    _entry(r"at::native::|at::cuda::", "other", "ATen", "Kernel of PyTorch's own library"),
)

_REST = (
    _entry(r"^nccl", "other", "NCCL", "Communication between GPUs"),
    _entry(r"^cudnn|cudnn::", "other", "cuDNN", "Kernel of cuDNN"),
    _entry(r"(?i)attn|attention|fmha|sdpa", "attention", "unknown", "Attention, by its name"),
)

PATTERNS = _ATTENTION + _GEMM + _TRITON + _ATEN + _REST
