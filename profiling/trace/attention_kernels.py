"""Names of attention kernels but flash attention's. Each entry's comment is its source; "seen": read in a trace."""

from profiling.trace.kernel_pattern import (
    BACKWARD_ON_TENSOR_CORES,
    FORWARD_ON_TENSOR_CORES,
    NO_TYPES,
    PatternGroup,
    entry,
)

_HALF = {"bf16": "bfloat16", "f16": "float16", "fp16": "float16", "fp8": "float8"}

# cuDNN's generated engines, seen with cuDNN 9: their "f16" stands for bfloat16 too, so only "f8" is a data type. All
# take half precision or less, and compute on tensor cores. Source: cuDNN developer guide, attention.
_SDPA = r"^cudnn_generated\w*?_sdpa_(?P<arch>sm\d+)_"
_ENGINE = r"(?:_wgmma|_wmma|_hmma)?(?:_(?P<type>mxfp8|f\d+))?(?:_knob_\d+)?(?:_(?P<tile>\d+x\d+)x\d+)?"
_CUDNN_TYPES = {"f8": "float8", "mxfp8": "float8"}
CUDNN = PatternGroup(
    markers=("cudnn",),
    patterns=(
        entry(
            _SDPA + r"(?:flash_)?bprop" + _ENGINE,
            "attention_backward",
            "cuDNN",
            BACKWARD_ON_TENSOR_CORES,
            True,
            _CUDNN_TYPES,
        ),
        entry(
            _SDPA + r"(?:flash_)?fprop" + _ENGINE,
            "attention_forward",
            "cuDNN",
            FORWARD_ON_TENSOR_CORES,
            True,
            _CUDNN_TYPES,
        ),
        # Engines of cuDNN 9.0 to 9.3 name no direction.
        entry(
            _SDPA + r"\w*?knob_\d+(?:_(?P<tile>\d+x\d+)x\d+)?",
            "attention",
            "cuDNN",
            "Fused attention on tensor cores",
            True,
            NO_TYPES,
        ),
        # The kernels around a backward engine, seen beside sm90 and sm100 engines.
        entry(
            r"cudnn::fusion::compute_dot_do_o",
            "attention_backward",
            "cuDNN",
            "Prepares the attention backward: row sums of dO·O",
            types=NO_TYPES,
        ),
        entry(
            r"cudnn::fusion::convert_dq",
            "attention_backward",
            "cuDNN",
            "Converts the query's gradient after attention backward",
            types=NO_TYPES,
        ),
        entry(
            r"cudnn::fusion::fmha_reduce_head",
            "attention_backward",
            "cuDNN",
            "Adds up the gradients of query heads that share one key and value head",
            types=NO_TYPES,
        ),
    ),
)

# PyTorch's aten/src/ATen/native/transformers/cuda/mem_eff_attention: F forward, B backward, data type, tile, where the
# output accumulates (rf: registers), and the architecture it was built for. gemm_kernel_utils.h, DefaultGemmType: half
# precision takes tensor cores from sm70 on, float32 from sm80 on (as three TF32 products); all else is SIMT.
_EFFICIENT_F = r"fmha_cutlassF_(?P<type>{})_(?:not)?aligned_(?P<tile>\d+x\d+)\w*?_(?P<arch>sm(?:{}))(?!\d)"
_EFFICIENT_B = _EFFICIENT_F.replace("cutlassF", "cutlassB")
_TENSOR_OP = (r"bf16|f16", r"7[05]|[89]\d|1\d\d"), (r"f32", r"[89]\d|1\d\d")
_SIMT = (r"bf16|f16", r"[56]\d"), (r"f32", r"[567]\d")
_EFFICIENT_TYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}
EFFICIENT = PatternGroup(
    markers=("fmha_cutlass",),
    patterns=(
        *(
            entry(
                _EFFICIENT_F.format(*facts),
                "attention_forward",
                "cutlassF efficient attention",
                FORWARD_ON_TENSOR_CORES if tensor_cores else "Fused attention forward on CUDA cores",
                tensor_cores,
                _EFFICIENT_TYPES,
            )
            for tensor_cores, rows in ((True, _TENSOR_OP), (False, _SIMT))
            for facts in rows
        ),
        *(
            entry(
                _EFFICIENT_B.format(*facts),
                "attention_backward",
                "cutlassB efficient attention",
                BACKWARD_ON_TENSOR_CORES if tensor_cores else "Fused attention backward on CUDA cores",
                tensor_cores,
                _EFFICIENT_TYPES,
            )
            for tensor_cores, rows in ((True, _TENSOR_OP), (False, _SIMT))
            for facts in rows
        ),
        entry(r"fmha_cutlassF", "attention_forward", "cutlassF efficient attention", "Fused attention forward"),
        entry(r"fmha_cutlassB", "attention_backward", "cutlassB efficient attention", "Fused attention backward"),
    ),
)

OTHER_ATTENTION = PatternGroup(
    markers=("fmha", "Fmha", "paged_decode", "attn_fwd", "bwd_", "KVCacheKernel", "unified_attention"),
    patterns=(
        # attention/backends/paged_kernel.py; whether tl.dot takes tensor cores hangs on the dtype, which no name says.
        entry(
            r"^paged_decode_reduce_kernel",
            "attention_forward",
            "AttnScope paged decode",
            "Adds up the parts of a split decode through a block table",
        ),
        entry(
            r"^paged_decode_kernel",
            "attention_forward",
            "AttnScope paged decode",
            "Fused attention decode through a block table",
        ),
        # NVIDIA/cutlass examples/77_blackwell_fmha: tcgen05 only.
        entry(
            r"cutlass::fmha::\w*::?(?P<arch>Sm\d+)FmhaFwd",
            "attention_forward",
            "CUTLASS attention",
            FORWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"cutlass::fmha::\w*::?(?P<arch>Sm\d+)FmhaBwd",
            "attention_backward",
            "CUTLASS attention",
            BACKWARD_ON_TENSOR_CORES,
            True,
        ),
        # ROCm/aiter hsa/: hand-written kernels, the data type and the head dim in the name.
        entry(
            r"fmha_fwd_hd\d+_(?P<type>bf16|fp16|fp8)",
            "attention_forward",
            "AITER attention",
            "Fused attention forward",
            types=_HALF,
        ),
        entry(
            r"fmha_bwd_hd\d+_odo_(?P<type>bf16|fp16)",
            "attention_backward",
            "AITER attention",
            "Prepares the attention backward: row sums of dO·O",
            types=_HALF,
        ),
        entry(
            r"fmha_bwd_hd\d+_dq_convert_(?P<type>bf16|fp16)",
            "attention_backward",
            "AITER attention",
            "Converts the query's gradient after attention backward",
            types=_HALF,
        ),
        entry(
            r"fmha_bwd_hd\d+_(?P<type>bf16|fp16)",
            "attention_backward",
            "AITER attention",
            "Fused attention backward",
            types=_HALF,
        ),
        # ROCm/composable_kernel include/ck_tile/ops/fmha, in a ck_tile::kentry.
        entry(
            r"FmhaFwdSplitKVCombine\w*Kernel",
            "attention_forward",
            "Composable Kernel attention",
            "Adds up the parts of a split-KV attention forward",
        ),
        entry(r"FmhaFwd\w*?Kernel", "attention_forward", "Composable Kernel attention", "Fused attention forward"),
        entry(
            r"FmhaBwdOGradDotO\w*?Kernel",
            "attention_backward",
            "Composable Kernel attention",
            "Prepares the attention backward: row sums of dO·O",
        ),
        entry(
            r"FmhaBwdConvertQGrad\w*?Kernel",
            "attention_backward",
            "Composable Kernel attention",
            "Converts the query's gradient after attention backward",
        ),
        entry(r"FmhaBwd\w*?Kernel", "attention_backward", "Composable Kernel attention", "Fused attention backward"),
        # ROCm/aotriton tritonsrc/: PyTorch's flash and efficient paths on AMD. Others name Triton kernels alike.
        entry(r"^attn_fwd", "attention_forward", "Triton attention", "Fused attention forward"),
        entry(
            r"^bwd_(?:preprocess|postprocess)",
            "attention_backward",
            "Triton attention",
            "Prepares or ends the attention backward",
        ),
        entry(r"^bwd_kernel_(?:dk_dv|dq|fuse)", "attention_backward", "Triton attention", "Fused attention backward"),
        # NVIDIA/TensorRT-LLM's generated kernels, which FlashInfer ships: for sm100, so on tcgen05.
        entry(
            r"^fmha(?P<arch>Sm\d+)[a-z]?Kernel_Qkv(?P<type>Bfloat16|Fp16|E4m3)(?:\w*?Q(?P<rows>\d+)Kv(?P<columns>\d+))?",
            "attention_forward",
            "TensorRT-LLM attention",
            FORWARD_ON_TENSOR_CORES,
            True,
            {"Bfloat16": "bfloat16", "Fp16": "float16", "E4m3": "float8"},
        ),
        # flashinfer-ai/flashinfer include/flashinfer/attention, and vLLM's Triton backend.
        entry(
            r"Batch(?:Prefill|Decode)With\w*KVCacheKernel",
            "attention_forward",
            "FlashInfer",
            "Fused attention over a paged or ragged key and value cache",
        ),
        entry(
            r"^kernel_unified_attention",
            "attention_forward",
            "vLLM unified attention",
            "Fused attention through a block table",
        ),
    ),
)
