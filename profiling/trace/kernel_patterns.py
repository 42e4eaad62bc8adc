"""What kernel names say, as tables: in the groups' order, the first pattern that matches a name decides."""

from profiling.trace.aten_kernels import ATEN, BY_WORDS, RUNTIMES, SOFTMAX
from profiling.trace.attention_kernels import CUDNN, EFFICIENT, OTHER_ATTENTION
from profiling.trace.flash_kernels import FLASH
from profiling.trace.gemm_kernels import CONVOLUTION, GEMM
from profiling.trace.kernel_pattern import PatternGroup

GROUPS: tuple[PatternGroup, ...] = (
    CUDNN,
    EFFICIENT,
    FLASH,
    OTHER_ATTENTION,
    CONVOLUTION,
    GEMM,
    SOFTMAX,
    ATEN,
    RUNTIMES,
    BY_WORDS,
)
