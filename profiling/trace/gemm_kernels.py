"""Names of matrix products and convolutions. Each entry's comment is its source; "seen": read in a trace."""

from profiling.trace.kernel_pattern import NO_TYPES, PatternGroup, entry

_ON_TENSOR_CORES = "Matrix product on tensor cores"
_ON_CUDA_CORES = "Matrix product on CUDA cores"

# cuBLAS's Hopper and Blackwell kernels: nvjet[_arch]_<types>_<tile>_<k-tile>x<stages>_<cluster>. The first letter is
# the type of the left matrix. Seen: t under bfloat16, h under float16, s under float32 (as TF32), q under float8.
_NVJET_TYPES = {"t": "bfloat16", "h": "float16", "s": "float32", "q": "float8"}
_NVJET = r"(?P<type>[a-z])[a-z]{2}(?:[a-z]{2})?_(?:tf32_)?(?P<tile>\d+x\d+)_"

# Tensile's problem types: H half, B bfloat16, S single, D double, F8 and B8 the float8 formats; the first is the left
# matrix. MT is the macro tile, MI the matrix instruction, TT the tile of a thread where there is none, ISA the target.
# Source: ROCm/rocm-libraries, Tensile's SolutionStructs naming.
_TENSILE_TYPES = {
    "H": "float16",
    "B": "bfloat16",
    "S": "float32",
    "D": "float64",
    "F8": "float8",
    "B8": "float8",
    "I8": "int8",
}
_TENSILE = r"^(?:Custom_)?Cijk_A[a-z]+_B[a-z]+_(?P<type>[FBI]8|[HBSD])[A-Z0-9]*_\w*?MT(?P<tile>\d+x\d+)x\d+(?:_|\b)"
_ISA = r"(?:\w*?_ISA(?P<arch>\d+[a-f]?)_)?"

# The tile of a CUTLASS 3 collective is the tuple before the first element type.
_COLLECTIVE_TILE = (
    r"(?:[^()]{0,400}?cute::tuple<cute::C<(?:\(int\))?(?P<rows>\d+)>, cute::C<(?:\(int\))?(?P<columns>\d+)>, "
    r"cute::C<(?:\(int\))?\d+>\s?>, (?:cutlass::|float|double))?"
)

GEMM = PatternGroup(
    markers=(
        "nvjet_",
        "gemm",
        "Gemm",
        "GEMM",
        "Cijk_",
        "splitKreduce",
        "gemv",
        "dot_kernel",
        "SplitK",
        "reduce_1Block",
    ),
    patterns=(
        entry(r"^nvjet_(?P<arch>sm\d+)_" + _NVJET, "gemm", "cuBLAS nvjet", _ON_TENSOR_CORES, True, _NVJET_TYPES),
        entry(r"^nvjet_" + _NVJET, "gemm", "cuBLAS nvjet", _ON_TENSOR_CORES, True, _NVJET_TYPES),
        entry(r"^nvjet_", "gemm", "cuBLAS nvjet", _ON_TENSOR_CORES, True, NO_TYPES),
        # cuBLAS's xmma kernels, seen: "ffma" is the float32 fused multiply-add of the CUDA cores, "tensor16x8x16" and
        # "warpgroup" matrix instructions.
        entry(
            r"(?P<arch>sm\d+)_xmma_gemm_\w{0,96}?tilesize(?P<tile>\d+x\d+)x\d+\w{0,64}?_ffma",
            "gemm",
            "cuBLAS xmma",
            _ON_CUDA_CORES,
            False,
        ),
        entry(
            r"(?P<arch>sm\d+)_xmma_gemm_\w{0,96}?tilesize(?P<tile>\d+x\d+)x\d+\w{0,64}?_(?:tensor\d|warpgroup)",
            "gemm",
            "cuBLAS xmma",
            _ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"(?P<arch>sm\d+)_xmma_gemm_(?:\w{0,96}?tilesize(?P<tile>\d+x\d+))?",
            "gemm",
            "cuBLAS xmma",
            "Matrix product",
        ),
        # CUTLASS's profiler names: opclass tensorop or simt, instruction shape, data types, threadblock tile.
        # Source: NVIDIA/cutlass python/cutlass_library/gemm_operation.py, procedural_name.
        entry(
            r"cutlass(?:3x)?_(?P<arch>(?:sm)?\d+)_(?:wmma_)?tensorop_\w{0,40}?gemm\w{0,80}?_(?P<tile>\d+x\d+)",
            "gemm",
            "CUTLASS",
            _ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"cutlass(?:3x)?_(?P<arch>(?:sm)?\d+)_simt_\w{0,40}?gemm\w{0,80}?_(?P<tile>\d+x\d+)",
            "gemm",
            "CUTLASS",
            _ON_CUDA_CORES,
            False,
        ),
        # NVIDIA/cutlass include/cutlass/gemm/dispatch_policy.hpp: Gmma is wgmma, Umma is tcgen05.
        entry(
            r"cutlass::gemm::\w+::CollectiveMma<(?:\w+::)*Mainloop(?P<arch>Sm\d+)\w*?(?:Gmma|Umma)" + _COLLECTIVE_TILE,
            "gemm",
            "CUTLASS",
            _ON_TENSOR_CORES,
            True,
        ),
        entry(r"cutlass::gemm|cutlass\w*gemm", "gemm", "CUTLASS", "Matrix product"),
        # cuBLAS's older kernels: s16816, s1688, h884 and the like are the shapes of mma instructions (PTX ISA).
        entry(
            r"^(?:trt_)?(?P<arch>volta|turing|ampere|hopper)_\w{0,40}?(?:[shid]\d{3,6}gemm|tensorop)\w{0,40}?_(?P<tile>\d+x\d+)",
            "gemm",
            "cuBLAS",
            _ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"^(?P<arch>maxwell|volta|turing|ampere|hopper)_[shdcz]gemm\w*?_(?P<tile>\d+x\d+)",
            "gemm",
            "cuBLAS",
            _ON_CUDA_CORES,
            False,
        ),
        # Seen under aten::mm and aten::addmm.
        entry(r"splitKreduce_kernel", "gemm", "cuBLAS", "Adds up the parts of a split-K matrix product"),
        entry(r"gemv", "gemm", "cuBLAS", "Matrix-vector product"),
        entry(r"\bgemmSN_|\bgemmk1_|\bdot_kernel|\breduce_1Block", "gemm", "cuBLAS", "Small matrix or dot product"),
        entry(
            _TENSILE + r"MI\d+x\d+x\d+" + _ISA,
            "gemm",
            "Tensile",
            "Matrix product on matrix cores",
            True,
            _TENSILE_TYPES,
        ),
        entry(
            _TENSILE + r"(?=\w*_TT\d+_\d+)" + _ISA,
            "gemm",
            "Tensile",
            "Matrix product without matrix cores",
            False,
            _TENSILE_TYPES,
        ),
        entry(_TENSILE, "gemm", "Tensile", "Matrix product", None, _TENSILE_TYPES),
        entry(
            r"^(?:Custom_)?Cijk_A[a-z]+_B[a-z]+_(?P<type>[FBI]8|[HBSD])",
            "gemm",
            "Tensile",
            "Matrix product",
            None,
            _TENSILE_TYPES,
        ),
        entry(r"^(?:Custom_)?Cijk_", "gemm", "Tensile", "Matrix product", None, NO_TYPES),
        # ROCm/composable_kernel: xdl is its word for the matrix instructions.
        entry(r"\bck::kernel_\w*gemm\w*xdl", "gemm", "Composable Kernel", "Matrix product on matrix cores", True),
        entry(r"\bck(?:_tile)?::\w*[gG]emm|ck_tile::kentry<.*Gemm", "gemm", "Composable Kernel", "Matrix product"),
        # ROCm/aiter hsa/; vllm-project/vllm csrc/rocm/skinny_gemms.cu.
        entry(r"aiter\w*?bf16gemm_\w*?_(?P<tile>\d+x\d+)", "gemm", "AITER", "Matrix product"),
        entry(r"\bwvSplitK|\bLLGemm1", "gemm", "vLLM", "Skinny matrix product"),
        # deepseek-ai/DeepGEMM: sm90 kernels are wgmma only, sm100 ones tcgen05 only.
        entry(r"deep_gemm::(?P<arch>sm\d+)_\w*gemm", "gemm", "DeepGEMM", _ON_TENSOR_CORES, True),
        entry(r"deep_gemm::\w*gemm", "gemm", "DeepGEMM", "Matrix product"),
    ),
)

# cuDNN's convolutions carry the same words as cuBLAS's products. Seen in traces of convolutional networks.
CONVOLUTION = PatternGroup(
    markers=("cudnn", "implicit_gemm", "xmma_fprop", "xmma_dgrad", "xmma_wgrad", "igemm_", "miopen"),
    patterns=(
        entry(
            r"(?P<arch>sm\d+)_xmma_(?:fprop|dgrad|wgrad)_\w{0,96}?tilesize(?P<tile>\d+x\d+)x\d+\w{0,64}?_ffma",
            "convolution",
            "cuDNN",
            "Convolution on CUDA cores",
            False,
        ),
        entry(
            r"(?P<arch>sm\d+)_xmma_(?:fprop|dgrad|wgrad)_\w{0,96}?tilesize(?P<tile>\d+x\d+)x\d+\w{0,64}?_(?:tensor\d|warpgroup)",
            "convolution",
            "cuDNN",
            "Convolution on tensor cores",
            True,
        ),
        entry(r"(?P<arch>sm\d+)_xmma_(?:fprop|dgrad|wgrad)_", "convolution", "cuDNN", "Convolution"),
        entry(
            r"^(?P<arch>volta|turing|ampere|hopper)_\w*?[shi]\d{3,6}cudnn\w*?_(?P<tile>\d+x\d+)",
            "convolution",
            "cuDNN",
            "Convolution on tensor cores",
            True,
        ),
        entry(
            r"^(?P<arch>maxwell|volta|turing|ampere)_\w*?[sh]cudnn\w*?_(?P<tile>\d+x\d+)",
            "convolution",
            "cuDNN",
            "Convolution on CUDA cores",
            False,
        ),
        entry(
            r"cudnn::(?:\w+::)*(?:winograd|\w*conv|\w*dgrad|\w*wgrad|\w*fprop)", "convolution", "cuDNN", "Convolution"
        ),
        entry(r"cudnn::bn_|cudnn::(?:\w+::)*batchnorm", "normalization", "cuDNN", "Batch normalization"),
        entry(r"nchwToNhwc|nhwcToNchw|nchwToFoldedNhwc", "copy", "cuDNN", "Copies a tensor into another layout"),
        entry(r"^igemm_(?:fwd|bwd|wrw)_", "convolution", "MIOpen", "Convolution"),
        entry(r"miopen\w*Conv|MIOpenConv", "convolution", "MIOpen", "Convolution"),
    ),
)
