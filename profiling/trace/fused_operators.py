"""The operators in an Inductor kernel's name: ``_softmax_masked_fill_mul`` -> ``_softmax``, ``masked_fill``, ``mul``.

Inductor joins the operators' names by underscores, which the names themselves are full of. A text is split only when
it is made of known names through and through, so that no operator is read that is none.
Source: torch/_inductor/utils.py, get_fused_kernel_name; the names: torch/_inductor/lowering.py, 2.8 to 2.14.
"""

from functools import lru_cache


def name_set(text: str) -> frozenset[str]:
    """The names in ``text``, which white space parts."""
    return frozenset(text.split())


# The operators of transformers, forward and backward, and what they decompose into.
_NAMES = name_set(
    """
    _to_copy _unsafe_view _softmax _log_softmax _safe_softmax _softmax_backward_data _log_softmax_backward_data
    _scaled_mm _scaled_mm_v2 _int_mm _grouped_mm _scaled_grouped_mm _fused_rms_norm _fused_rms_norm_backward
    _unsafe_index _unsafe_index_put _unsafe_masked_index _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _foreach_add _foreach_mul _foreach_copy _assert_async _adaptive_avg_pool2d
    _efficient_attention_forward _efficient_attention_backward _flash_attention_forward _flash_attention_backward
    _scaled_dot_product_attention_math _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention_backward
    _scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward
    abs acos add addcdiv addcmul addmm alias all amax amin any arange argmax argmin as_strided asin atan atan2
    avg_pool2d baddbmm bernoulli bitwise_and bitwise_not bitwise_or bitwise_xor bmm bucketize cat ceil clamp clamp_max
    clamp_min clone constant_pad_nd convert_element_type convolution convolution_backward copy copy_ cos cosh
    cross_entropy_loss cumprod cumsum detach diagonal div dot embedding embedding_backward embedding_dense_backward
    empty empty_like eq erf erfc exp exp2 expand expm1 eye fill flex_attention flex_attention_backward flip floor
    floor_divide fma fmod full full_like gather ge gelu gelu_backward gt index index_add index_copy index_put
    index_select inductor_lookup_seed inductor_randint inductor_random inductor_seed inductor_seeds iota isinf isnan
    isneginf item layer_norm le leaky_relu lerp lift_fresh lift_fresh_copy linalg_vector_norm linear linspace log log10
    log1p log2 log_sigmoid_forward log_softmax logical_and logical_not logical_or logical_xor logsumexp lt masked_fill
    masked_scatter matmul max maximum mean min minimum mm mse_loss mul multinomial mv nan_to_num native_batch_norm
    native_batch_norm_backward native_dropout native_dropout_backward native_group_norm native_group_norm_backward
    native_layer_norm native_layer_norm_backward ne neg new_empty new_full new_ones new_zeros nll_loss
    nll_loss_backward nll_loss_forward nonzero norm normal one_hot ones ones_like outer pad permute pow
    prepare_softmax_online prod rand rand_like randint randn randn_like reciprocal relu remainder repeat
    repeat_interleave reshape rms_norm roll round rsqrt rsub scalar_tensor scaled_dot_product_attention scatter
    scatter_add scatter_reduce searchsorted select select_backward select_scatter sigmoid sigmoid_backward sign silu
    silu_backward sin sinh slice slice_backward slice_scatter softmax softplus sort split split_with_sizes sqrt square
    squeeze stack std sub sum t take tan tanh tanh_backward threshold_backward topk transpose tril triu trunc unbind
    unfold uniform unsqueeze var var_mean view where zero zeros zeros_like
    """
)
_REMEMBERED = 1024


@lru_cache(maxsize=_REMEMBERED)
def split_fused(text: str) -> tuple[str, ...]:
    """The operators in ``text``, longest names first; the text itself as one where some of it is no known name."""
    if not text:
        return ()
    # rest[i]: the operators of text[i:], from the end backwards; the end itself is one underscore past the text.
    rest: dict[int, tuple[str, ...]] = {len(text) + 1: ()}
    ends = [at for at, letter in enumerate(text) if letter == "_"] + [len(text)]
    for start in reversed([0, *(at + 1 for at in ends[:-1])]):
        for end in reversed(ends):
            if end > start and end + 1 in rest and text[start:end] in _NAMES:
                rest[start] = (text[start:end], *rest[end + 1])
                break
    return rest.get(0, (text,))
