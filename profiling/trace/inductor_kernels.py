"""Names of kernels that torch.compile generated: the kind of kernel and the operators fused into it.

Source: torch/_inductor/codegen/triton.py (create_kernel_name) and utils.py (get_fused_kernel_name, original_aten).
"""

import re
from dataclasses import dataclass

from profiling.report_schema import KernelRole
from profiling.trace.fused_operators import name_set, split_fused

_NAME = re.compile(r"^triton_(?P<kind>[a-z]+)_fused(?:_(?P<fused>\w*?))?_\d+(?:\b|$)")
_OLD_TEMPLATE = re.compile(r"^triton_(?:mm|bmm|addmm|baddbmm)\b|^triton_(?:mm|bmm|addmm|baddbmm)_")
_KINDS: dict[str, tuple[KernelRole, str]] = {
    "poi": ("elementwise", "Fused elementwise work"),
    "for": ("elementwise", "Fused elementwise work over many tensors"),
    "red": ("reduce", "Fused reduction"),
    "per": ("reduce", "Fused reduction, each row held on chip"),
    "mix": ("reduce", "Fused reductions"),
    "spl": ("other", "Fused scan"),
    "tem": ("other", "Template"),
}
_PRODUCTS = name_set(
    "mm bmm addmm baddbmm matmul linear _scaled_mm _scaled_mm_v2 _int_mm _grouped_mm _scaled_grouped_mm"
)
_SOFTMAX = name_set(
    "softmax _softmax log_softmax _log_softmax _safe_softmax _softmax_backward_data _log_softmax_backward_data "
    "prepare_softmax_online"
)
_NORMALIZATION = name_set(
    "native_layer_norm native_layer_norm_backward layer_norm rms_norm _fused_rms_norm _fused_rms_norm_backward "
    "native_group_norm native_group_norm_backward native_batch_norm native_batch_norm_backward "
    "_native_batch_norm_legit _native_batch_norm_legit_functional _native_batch_norm_legit_no_training"
)
_VIEWS = name_set(
    "view _unsafe_view reshape transpose permute t expand unsqueeze squeeze slice select split alias detach "
    "as_strided unbind"
)
_CASTS = frozenset({"_to_copy", "convert_element_type"})
_COPIES = frozenset({"clone", "copy", "copy_", "cat", "stack", "repeat", "constant_pad_nd"})
_CONSTANTS = name_set("arange iota ones zeros full scalar_tensor lift_fresh ones_like zeros_like full_like where")
_BOOLEANS = name_set(
    "tril triu ge gt le lt eq ne logical_and logical_or logical_not bitwise_and bitwise_or bitwise_not"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InductorKernel:
    """What a generated kernel's name says; ``fused`` are its operators, or their unsplit text as one."""

    role: KernelRole
    says: str
    fused: tuple[str, ...]


def read_inductor_name(name: str) -> InductorKernel:
    """What the kernel ``name``, which starts with ``triton_``, does."""
    match = _NAME.match(name)
    if match is None:
        if _OLD_TEMPLATE.match(name):
            return InductorKernel(role="gemm", says="Matrix product from a template", fused=())
        return InductorKernel(role="other", says="Kernel that torch.compile generated", fused=())
    fused = split_fused(match["fused"] or "")
    kind_role, says = _KINDS.get(match["kind"], ("other", "Kernel that torch.compile generated"))
    operators = frozenset(fused)
    if match["kind"] == "tem":
        role, says = _read_template(operators)
        return InductorKernel(role=role, says=says, fused=fused)
    if operators & _SOFTMAX:
        return InductorKernel(role="softmax", says=f"Softmax: {says.lower()}", fused=fused)
    if operators & _NORMALIZATION:
        return InductorKernel(role="normalization", says=f"Normalization: {says.lower()}", fused=fused)
    if match["kind"] == "poi":
        kind_role = _pointwise_role(operators)
    return InductorKernel(role=kind_role, says=says, fused=fused)


def _read_template(operators: frozenset[str]) -> tuple[KernelRole, str]:
    if "flex_attention_backward" in operators:
        return "attention_backward", "Fused attention backward from a template"
    if "flex_attention" in operators:
        return "attention_forward", "Fused attention forward from a template"
    if operators & _PRODUCTS:
        return "gemm", "Matrix product from a template"
    if operators & {"convolution", "convolution_backward"}:
        return "convolution", "Convolution from a template"
    return "other", "Kernel from a template"


def _pointwise_role(operators: frozenset[str]) -> KernelRole:
    """What pointwise work amounts to, where every operator of it says the same; else only that it is elementwise."""
    if "masked_fill" in operators:
        return "mask"
    work = operators - _VIEWS
    if not work:
        return "elementwise"
    if work & _CASTS and work <= _CASTS | _COPIES:
        return "cast"
    if work <= _COPIES:
        return "copy"
    if work & _BOOLEANS and work <= _BOOLEANS | _CONSTANTS | _CASTS:
        return "mask_build"
    return "elementwise"
