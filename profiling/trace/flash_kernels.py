"""Names of the flash attention kernels, versions 1 to 4.

Source: Dao-AILab/flash-attention, the folders named with each version.
"""

from profiling.trace.kernel_pattern import BACKWARD_ON_TENSOR_CORES, FORWARD_ON_TENSOR_CORES, PatternGroup, entry

# Version 4 (flash_attn/cute): NVIDIA's Python DSL puts the module and the kernel's class into its name, seen with 4.0.
# Version 3 (hopper/): mainloop<stages, cluster, tile of queries by keys by head dim, …>.
_HOPPER_TILE = (
    r"(?:<flash::CollectiveMainloop\w+<(?:(?:\(int\))?\d+, )+cute::tuple<.{0,96}?>, "
    r"cute::tuple<cute::C<(?:\(int\))?(?P<rows>\d+)>, cute::C<(?:\(int\))?(?P<columns>\d+)>)?"
)
# Version 2 (csrc/flash_attn): traits<head dim, rows of queries, rows of keys, …>; float16 and bfloat16 on mma only.
# PyTorch builds the same source in the namespace pytorch_flash.
_TRAITS = r"(?:<Flash_{}_kernel_traits<(?:\(int\))?\d+, (?:\(int\))?(?P<rows>\d+), (?:\(int\))?(?P<columns>\d+))?"
FLASH = PatternGroup(
    markers=("flash", "Flash", "fmha_fwd_loop", "fmha_fprop", "fmha_bwd_dq", "fmha_dgrad"),
    patterns=(
        entry(
            r"FlashAttentionForwardCombine",
            "attention_forward",
            "flash attention 4",
            "Adds up the parts of a split-KV attention forward",
        ),
        entry(
            r"FlashAttentionForward(?P<arch>Sm\d+)",
            "attention_forward",
            "flash attention 4",
            FORWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"FlashAttentionBackward(?P<arch>Sm\d+)",
            "attention_backward",
            "flash attention 4",
            BACKWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"FlashAttentionBackwardPreprocess",
            "attention_backward",
            "flash attention 4",
            "Prepares the attention backward: row sums of dO·O",
        ),
        entry(
            r"FlashAttentionBackwardPostprocess",
            "attention_backward",
            "flash attention 4",
            "Converts the gradients after attention backward",
        ),
        entry(
            r"FlashAttnFwdCombine",
            "attention_forward",
            "flash attention 3",
            "Adds up the parts of a split-KV attention forward",
        ),
        entry(
            r"FlashAttnFwd(?P<arch>Sm\d+)" + _HOPPER_TILE,
            "attention_forward",
            "flash attention 3",
            FORWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"FlashAttnBwd(?P<arch>Sm\d+)" + _HOPPER_TILE,
            "attention_backward",
            "flash attention 3",
            BACKWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"FlashAttnBwdPreprocess",
            "attention_backward",
            "flash attention 3",
            "Prepares the attention backward: row sums of dO·O",
        ),
        entry(
            r"FlashAttnBwdPostprocess",
            "attention_backward",
            "flash attention 3",
            "Converts the gradients after attention backward",
        ),
        entry(
            r"flash::prepare_varlen_num_blocks_kernel",
            "attention_forward",
            "flash attention 3",
            "Counts the blocks of each sequence before attention",
        ),
        entry(
            r"flash_fwd_splitkv_combine_kernel",
            "attention_forward",
            "flash attention",
            "Adds up the parts of a split-KV attention forward",
        ),
        entry(
            r"(?<![a-z_])flash_fwd(?:_splitkv)?_kernel" + _TRAITS.format("fwd"),
            "attention_forward",
            "flash attention",
            FORWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"(?<![a-z_])flash_bwd_dot_do_o",
            "attention_backward",
            "flash attention",
            "Prepares the attention backward: row sums of dO·O",
        ),
        entry(
            r"(?<![a-z_])flash_bwd_(?:convert|clear)",
            "attention_backward",
            "flash attention",
            "Clears or converts a gradient's accumulator around attention backward",
        ),
        entry(
            r"(?<![a-z_])flash_bwd_\w*kernel" + _TRAITS.format("bwd"),
            "attention_backward",
            "flash attention",
            BACKWARD_ON_TENSOR_CORES,
            True,
        ),
        # Version 1 of flash attention, seen in traces of 2022 and 2023; on tensor cores, float16 and bfloat16 only.
        entry(
            r"\bfmha_(?:fwd_loop|fprop)\w*kernel",
            "attention_forward",
            "flash attention 1",
            FORWARD_ON_TENSOR_CORES,
            True,
        ),
        entry(
            r"\bfmha_(?:bwd_dq_dk_dv|dgrad)\w*kernel",
            "attention_backward",
            "flash attention 1",
            BACKWARD_ON_TENSOR_CORES,
            True,
        ),
    ),
)
