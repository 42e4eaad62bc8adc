"""Names of PyTorch's own CUDA kernels, and of the libraries under them.

Source, unless an entry says otherwise: PyTorch, aten/src/ATen/native/cuda. The functor, or the function around the
lambda, is part of the template arguments of the shared kernels, and a name in the mangled form holds the same words.
"""

from profiling.trace.kernel_pattern import NO_TYPES, PatternGroup, entry

# SoftMax.cu and PersistentSoftmax.cuh, without a namespace that tells them from others.
SOFTMAX = PatternGroup(
    markers=("oftmax", "oftMax"),
    patterns=(
        entry(
            r"softmax_warp_forward",
            "softmax",
            "ATen softmax",
            "Softmax over the last dimension, each row in the registers of one warp",
        ),
        entry(
            r"softmax_warp_backward",
            "softmax",
            "ATen softmax",
            "Softmax backward, each row in the registers of one warp",
        ),
        entry(r"cunn_\w*SoftMaxBackward", "softmax", "ATen softmax", "Softmax backward, each row by one block"),
        entry(r"cunn_\w*SoftMaxForward", "softmax", "ATen softmax", "Softmax, each row by one block"),
    ),
)

_NOT_SHARED = r"(?!\w*elementwise|gpu_|opmath_|jitted_)"
_UNARY = r"[AB]UnaryFunctor.*?(?:MulFunctor|DivFunctor|TrueDivFunctor)"
ATEN = PatternGroup(
    markers=("at::native", "at6native", "at::cuda", "at4cuda"),
    patterns=(
        entry(r"masked_fill_kernel", "mask", "ATen elementwise", "Writes a value wherever the mask says so"),
        entry(r"triu_tril_kernel", "mask_build", "ATen triangular", "Keeps one triangle of a matrix"),
        entry(r"where_kernel_impl", "mask", "ATen elementwise", "Picks between two values by a mask"),
        entry(r"isneginf_kernel_impl", "mask_build", "ATen elementwise", "Finds -inf, the score of a masked cell"),
        entry(r"FillFunctor(?:<bool>|IbE)", "mask_build", "ATen elementwise", "Fills a boolean tensor with one value"),
        entry(
            r"Compare(?:Eq)?Functor|compare_scalar_kernel|logical_\w+_kernel|Bitwise\w+Functor<bool>",
            "mask_build",
            "ATen elementwise",
            "Compares, or combines booleans, into a boolean tensor",
        ),
        entry(
            r"(?:bfloat16|float16|float8)\w*_copy_kernel_cuda",
            "cast",
            "ATen elementwise",
            "Copies a tensor into another data type",
        ),
        entry(
            r"direct_copy_kernel_cuda.*StoreWithCast",
            "cast",
            "ATen elementwise",
            "Copies a tensor into another data type",
        ),
        entry(r"direct_copy_kernel_cuda|copy_kernel_impl", "copy", "ATen copy", "Copies a tensor"),
        entry(r"CatArrayBatchedCopy", "copy", "ATen copy", "Copies several tensors into one"),
        entry(r"FillFunctor", "elementwise", "ATen elementwise", "Fills a tensor with one value"),
        entry(_UNARY, "scale", "ATen elementwise", "Multiplies or divides every element by one number"),
        entry(r"MulFunctor|DivFunctor", "elementwise", "ATen elementwise", "Multiplies or divides two tensors"),
        entry(r"CUDAFunctorOnSelf_add", "elementwise", "ATen elementwise", "Adds one number to every element"),
        entry(r"CUDAFunctor_add|AddFunctor", "elementwise", "ATen elementwise", "Adds two tensors"),
        entry(r"GeluCUDA(?:Backward)?KernelImpl", "elementwise", "ATen elementwise", "Elementwise GELU"),
        entry(r"masked_scale", "elementwise", "ATen dropout", "Scales what dropout kept"),
        entry(r"dropout", "elementwise", "ATen dropout", "Sets random elements to zero"),
        entry(r"distribution_\w*kernel|philox", "random", "ATen random", "Draws random numbers"),
        entry(
            r"layer_norm|rms_norm|LayerNorm|batch_norm|RowwiseMoments|GammaBetaBackward|group_norm|GroupNorm",
            "normalization",
            "ATen normalization",
            "Normalizes rows, or computes what that takes",
        ),
        entry(
            r"multi_tensor_apply_kernel", "elementwise", "ATen foreach", "Elementwise work over many tensors at once"
        ),
        entry(r"(?:and|or)_kernel_cuda", "reduce", "ATen reduce", "Reduces booleans: all or any"),
        entry(r"reduce_kernel|ReduceOp", "reduce", "ATen reduce", "Reduces along a dimension"),
        entry(
            r"index\w*_kernel|_gather_(?:elementwise_)?kernel|scatter\w*_kernel|indexSelect|indexFunc|embedding",
            "copy",
            "ATen indexing",
            "Reads or writes rows by index",
        ),
        entry(r"arange|range_cuda|linspace", "elementwise", "ATen elementwise", "Writes a sequence of numbers"),
        entry(
            r"native::(?:\(anonymous namespace\)::|<unnamed>::)?"
            + _NOT_SHARED
            + r"(?P<work>\w+?)_kernel(?:_cuda|_impl)?\b",
            "elementwise",
            "ATen elementwise",
            "Elementwise work",
        ),
        entry(r"elementwise_kernel", "elementwise", "ATen elementwise", "Elementwise work"),
        entry(r"at::native::|at::cuda::|at6native|at4cuda", "other", "ATen", "Kernel of PyTorch's own library"),
    ),
)

RUNTIMES = PatternGroup(
    markers=("nccl", "rccl", "amd_rocclr", "rocprim", "cub::", "cudnn"),
    patterns=(
        # NVIDIA/nccl src/device, ROCm/rccl: the collective, the operation, the data type, the algorithm.
        entry(
            r"^(?:nccl|rccl)\w*?(?P<work>All[A-Z][a-z]+(?:All)?|ReduceScatter|Broadcast|SendRecv|Reduce)_",
            "communication",
            "NCCL",
            "Communication between GPUs",
        ),
        entry(r"^(?:nccl|rccl)", "communication", "NCCL", "Communication between GPUs"),
        # ROCm/clr rocclr/device/blit: the runtime copies and fills with kernels of its own.
        entry(r"^__amd_rocclr_fill", "memset", "HIP runtime", "Fills memory, by a kernel of the runtime"),
        entry(r"^__amd_rocclr_copy", "memcpy", "HIP runtime", "Copies memory, by a kernel of the runtime"),
        entry(r"\brocprim::", "other", "rocPRIM", "Sorts, scans, selects or reduces elements", types=NO_TYPES),
        # NVIDIA/cccl cub/device/dispatch/kernels; PyTorch builds it in a namespace of its own.
        entry(r"\bcub::[\w:]*Device(?:Segmented)?Reduce", "reduce", "CUB", "Reduces a tensor", types=NO_TYPES),
        entry(r"\bcub::", "other", "CUB", "Sorts, scans or selects elements", types=NO_TYPES),
        entry(r"cudnn", "other", "cuDNN", "Kernel of cuDNN", types=NO_TYPES),
    ),
)

# Libraries that no line above knows: only what the name says in so many words.
_NOT_ITSELF = r"(?!\w*(?:mask|cache|norm|rotary|rope|quant|bias|gather|copy|pad|permute))"
_ATTENTION = r"(?i)\b" + _NOT_ITSELF + r"\w*(?:attn|attention|fmha|sdpa)"
BY_WORDS = PatternGroup(
    markers=("attn", "Attn", "ATTN", "ttention", "fmha", "Fmha", "FMHA", "sdpa", "norm", "Norm", "oftmax"),
    patterns=(
        entry(
            _ATTENTION + r"\w*(?:bwd|backward|bprop)",
            "attention_backward",
            "unknown",
            "Attention backward, by its name",
        ),
        entry(
            _ATTENTION + r"\w*(?:fwd|forward|fprop)", "attention_forward", "unknown", "Attention forward, by its name"
        ),
        entry(_ATTENTION, "attention", "unknown", "Attention, by its name"),
        entry(r"(?i)(?:rms|layer|batch|group)_?norm", "normalization", "unknown", "Normalization, by its name"),
        entry(r"(?<!topk_)softmax", "softmax", "unknown", "Softmax, by its name"),
    ),
)
