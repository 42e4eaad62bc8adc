"""Which attention implementation a trace shows, from operator and kernel names, with the names as evidence.

What was asked for plays no part here: the answer comes from what ran.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

from attention.backends import BACKENDS
from attention.kinds import AnyWorkload, kind_of
from attention.workload import DType, Workload
from profiling.report_schema import ObservedBackend
from profiling.trace.events import DeviceItem, Operator, RuntimeCall, Trace

# These write the score matrix to memory; the others keep it on chip.
COMPOSED_FAMILIES = frozenset({"naive", "naive_inplace", "math", "flex_eager", "compiled_naive"})
NAIVE_FAMILIES = frozenset({"naive", "naive_inplace"})

# Inductor names a generated kernel for the operators that it fused (config.triton.descriptive_names), on the GPU as an
# operator too, and on a CPU as an operator alone. Products stay library calls or templates, so the softmax between
# them is what shows a compiled formula. Source: torch/_inductor/codegen/triton.py and cpp.py; CPU traces of torch 2.14.
_COMPILED_SOFTMAX = (re.compile(r"(?:\btriton_|cpp_)\w*fused_\w*softmax"), "compiled_naive")
# Its C++ template for FlexAttention has no name of its own. Source: _inductor/codegen/cpp_flex_attention_template.py.
_CPU_FLEX = (re.compile(r"^graph_\d+_kernel$"), "flex")
# Operator names. Source: PyTorch, aten/src/ATen/native/native_functions.yaml (2.8 to 2.14); the CUDA trace of each
# backend holds the outer name, and on a CPU flash carries its own suffix. FlexAttention names its compiled template.
_FUSED_OPERATORS = (
    (re.compile(r"aten::_scaled_dot_product_cudnn_attention\b|aten::_cudnn_attention_forward\b"), "cudnn"),
    (
        re.compile(r"aten::_scaled_dot_product_flash_attention(_for_cpu)?\b|aten::_flash_attention_forward\b"),
        "flash",
    ),
    (
        re.compile(r"aten::_scaled_dot_product_efficient_attention\b|aten::_efficient_attention_forward\b"),
        "efficient",
    ),
    # The namespaces of the packages' own operators, and of the Hub's builds: _flash_attn2_cuda_81fb77c::fwd.
    (re.compile(r"flash_attn_?3\w*::"), "flash_attn3"),
    (re.compile(r"flash_attn(?:_?2\w*)?::"), "flash_attn2"),
    (re.compile(r"flex_attention"), "flex"),
    (re.compile(r"aten::_scaled_dot_product_attention_math\b"), "math"),
    (re.compile(r"attnscope::paged_decode\b"), "paged_triton"),
    _COMPILED_SOFTMAX,
    _CPU_FLEX,
)
# Kernel names. Source: H200 traces of each backend, torch 2.11 with cuDNN 9.19. ``pytorch_flash::`` is the copy inside
# PyTorch and ``flash::`` the package's own namespace, in which version 3 names its kernels otherwise. Version 4 has the
# module's and the class's name in its kernels, as NVIDIA's DSL puts them together.
# Source: Dao-AILab/flash-attention, csrc/flash_attn, hopper and flash_attn/cute.
_FUSED_KERNELS = (
    (re.compile(r"cudnn.*sdpa", re.IGNORECASE), "cudnn"),
    (re.compile(r"flash_attncute|FlashAttention(?:Forward|Backward)Sm\d"), "flash_attn4"),
    (re.compile(r"\bflash::.*FlashAttn(?:Fwd|Bwd)"), "flash_attn3"),
    (re.compile(r"\bflash::"), "flash_attn2"),
    (re.compile(r"\bpytorch_flash::|flash_fwd_"), "flash"),
    (re.compile(r"\bfmha_cutlassF|PyTorchMemEffAttention"), "efficient"),
    (re.compile(r"triton.*flex_attention"), "flex"),
    (re.compile(r"^paged_decode_(?:reduce_)?kernel\b"), "paged_triton"),
    _COMPILED_SOFTMAX,
)
# Beyond attention: SiLU and the reciprocal square root are what no attention has. Inductor's kernels name them among
# what they fuse; left alone they are operators of their own, and kernels named after them.
# Source: CPU traces of torch 2.14; aten/src/ATen/native/cuda, ActivationSiluKernel.cu and UnaryFractionKernels.cu.
_FUSED_OPERATION = (re.compile(r"(?:\btriton_|cpp_)\w*fused_\w*(?:silu|rsqrt)"), "compiled")
_OPERATION_OPERATORS = (_FUSED_OPERATION, (re.compile(r"^aten::(?:silu|rsqrt)$"), "eager"))
_OPERATION_KERNELS = (_FUSED_OPERATION, (re.compile(r"\b(?:silu_kernel|rsqrt_kernel)"), "eager"))
# Of the composed formulas only math looks for rows of -inf, in its safe softmax.
# Source: aten/src/ATen/native/transformers/attention.cpp, _safe_softmax.
_MATH_SOFTMAX = re.compile(r"softmax|isneginf")
# The autograd function around the kernels of any flash-attn, which the profiler shows as an operator. Version 4 has no
# operator besides, so that this one says the package and the kernel's name the version.
_PACKAGE_FUNCTION = re.compile(r"^FlashAttnFunc(?:Backward)?$")
_GRAPH_LAUNCH = re.compile(r"^(?:cuda|cu|hip)GraphLaunch")
# Keys and values gathered block by block, then SDPA: attention/backends/paged.py. Source of the kernels' names:
# aten/src/ATen/native/cuda/{Indexing.cu,IndexKernelUtils.cu}.
_GATHER, _SDPA = "aten::index_select", "aten::scaled_dot_product_attention"
_GATHER_KERNEL = re.compile(r"indexSelect|vectorized_gather_kernel|index_elementwise_kernel|_gather_kernel")
_SDPA_FAMILIES = frozenset({"cudnn", "flash", "efficient", "math"})
_SOFTMAX = frozenset({"aten::softmax", "aten::_softmax", "aten::_safe_softmax"})
_PRODUCT = frozenset({"aten::bmm", "aten::baddbmm"})
_NAME_LENGTH = 96

EventT = TypeVar("EventT", Operator, DeviceItem, RuntimeCall)


def build_observed_backend(trace: Trace) -> ObservedBackend:
    """The family that ran, the names that show it, and how sure that is.

    ``proven``: an operator and a kernel name the same family; on a CPU, where there are no kernels, the operator is
    proof alone, and in a replayed CUDA graph, which has no operators, its launch and the kernels. ``likely``: only one
    of the two was seen. ``unknown``: neither, or names of several families.
    """
    operators = _in_steps(trace, trace.operators)
    items = [item for item in _in_steps(trace, trace.device_items) if item.kind == "kernel"]
    by_operator = _families(operators, _FUSED_OPERATORS)
    by_kernel = _families(items, _FUSED_KERNELS)
    notes: tuple[str, ...] = ()

    function = Counter(op.name for op in operators if _PACKAGE_FUNCTION.search(op.name))
    if function and "flash_attn4" in by_kernel:
        by_operator.setdefault("flash_attn4", function)
        notes = ("FlashAttnFunc is the autograd function of any flash-attn; the kernel's name says which",)
    inside_sdpa = _inside_sdpa(trace)
    composed = [op for op in operators if not inside_sdpa[op.index]]
    if any(op.name in _PRODUCT for op in composed) and any(op.name in _SOFTMAX for op in composed):
        family, counts, notes = _composed_family(composed)
        by_operator[family] = counts
    by_launch = {} if by_operator else _replays(trace)
    if by_launch and not by_kernel:
        by_kernel = _replayed_math(items)
    for family in COMPOSED_FAMILIES & by_operator.keys():
        softmax = Counter(item.name for item in items if "softmax" in item.name)
        if softmax:
            by_kernel[family] = softmax
    gathers = _gathers(operators)
    if gathers and _SDPA_FAMILIES.issuperset((*by_operator, *by_kernel)):
        by_operator, by_kernel = _join_gather(gathers, items, by_operator, by_kernel)
    if not (by_operator or by_kernel):
        by_operator, by_kernel = _families(operators, _OPERATION_OPERATORS), _families(items, _OPERATION_KERNELS)

    families = list(dict.fromkeys((*by_operator, *by_kernel)))
    evidence = tuple(
        f"{what} {_shorten(name)} ({calls} {'call' if calls == 1 else 'calls'})"
        for what, found in (("operator", by_operator), ("launch", by_launch), ("kernel", by_kernel))
        for names in found.values()
        for name, calls in names.items()
    )
    if not families:
        return ObservedBackend(
            family="unknown", evidence=("no operator or kernel of a known kind was seen",), confidence="unknown"
        )
    if len(families) > 1:
        note = f"names of several families were seen: {', '.join(families)}"
        return ObservedBackend(family="unknown", evidence=(note, *evidence), confidence="unknown")
    on_cpu = not trace.device_items and not any(call.launches_work for call in trace.launches)
    agree = bool(by_operator or by_launch) and (bool(by_kernel) or on_cpu)
    if on_cpu and by_operator and all(_CPU_FLEX[0].search(name) for name in by_operator[families[0]]):
        agree = False
        notes = ("of Inductor's C++ kernels, only the template for FlexAttention has no name of its own",)
    return ObservedBackend(family=families[0], evidence=(*evidence, *notes), confidence="proven" if agree else "likely")


def expected_families(workload: AnyWorkload) -> frozenset[str]:
    """The families that ``workload`` may show when its backend was honoured; empty for a backend not known here.

    Without a mask nothing tells the two naive variants apart, so either matches.
    """
    backends = kind_of(workload).backends
    families = next((set(backend.families) for backend in backends if backend.slug == workload.backend), set())
    if isinstance(workload, Workload) and workload.mask.name == "none" and families & NAIVE_FAMILIES:
        families |= NAIVE_FAMILIES
    return frozenset(families)


def score_copy(family: str, workload: Workload) -> tuple[int, DType]:
    """Bytes of one score matrix as a composed ``family`` writes it, and its dtype: math raises half precision."""
    composed = next(backend for backend in BACKENDS if family in backend.families and backend.score_matrices)
    itemsize = composed.score_element(workload.dtype)
    dtype = workload.dtype if itemsize == workload.dtype.itemsize else DType.FLOAT32
    return workload.score_count * itemsize, dtype


def _in_steps(trace: Trace, events: Iterable[EventT]) -> list[EventT]:
    # What ran outside the steps is set-up, unless the trace has no steps at all.
    return [event for event in events if event.step is not None] if trace.steps else list(events)


def _families(
    events: Iterable[Operator | DeviceItem], patterns: tuple[tuple[re.Pattern[str], str], ...]
) -> dict[str, Counter[str]]:
    """Names and calls of each family that some event's name belongs to."""
    found: dict[str, Counter[str]] = {}
    for name, calls in Counter(event.name for event in events).items():
        family = next((family for pattern, family in patterns if pattern.search(name)), None)
        if family is not None:
            found.setdefault(family, Counter())[name] = calls
    return found


def _replays(trace: Trace) -> dict[str, Counter[str]]:
    """Launches of whole CUDA graphs: their operators ran once, at the capture."""
    counts = Counter(call.name for call in _in_steps(trace, trace.launches) if _GRAPH_LAUNCH.search(call.name))
    return {"replay": counts} if counts else {}


def _replayed_math(items: Iterable[DeviceItem]) -> dict[str, Counter[str]]:
    """The kernels of the math path, known by its check for rows of -inf; a naive softmax has none."""
    shown = Counter(item.name for item in items if _MATH_SOFTMAX.search(item.name))
    return {"math": shown} if any("isneginf" in name for name in shown) else {}


def _gathers(operators: list[Operator]) -> Counter[str]:
    """The index_selects of a call that copies blocks of keys and values together; empty for any other.

    Two for each SDPA, neither of them inside another operator, as that of an embedding is.
    """
    outermost = Counter(op.name for op in operators if op.parent is None)
    gathers, calls = outermost[_GATHER], outermost[_SDPA]
    return Counter({_GATHER: gathers, _SDPA: calls}) if calls and gathers == 2 * calls else Counter()


def _join_gather(
    gathers: Counter[str],
    items: Iterable[DeviceItem],
    by_operator: dict[str, Counter[str]],
    by_kernel: dict[str, Counter[str]],
) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """The copies and SDPA's own names as one family; a kernel of each must be seen, or none counts."""
    copies = Counter(item.name for item in items if _GATHER_KERNEL.search(item.name))
    attention = sum(by_kernel.values(), Counter[str]())
    joined = gathers + sum(by_operator.values(), Counter[str]())
    return {"paged_gather": joined}, {"paged_gather": copies + attention} if copies and attention else {}


def _inside_sdpa(trace: Trace) -> list[bool]:
    """Of each operator, whether SDPA is around it: its matmul and softmax are then the math path's, not a naive one's.

    A parent starts before its child, so one pass in the trace's order is enough.
    """
    inside = [False] * len(trace.operators)
    for op in trace.operators:
        if "scaled_dot_product" in op.name:
            inside[op.index] = True
        elif op.parent is not None:
            inside[op.index] = inside[op.parent]
    return inside


def _composed_family(operators: list[Operator]) -> tuple[str, Counter[str], tuple[str, ...]]:
    """naive, naive_inplace or flex_eager, the operators that show it, and what cannot be told."""
    names = Counter(op.name for op in operators)
    shown = _PRODUCT | _SOFTMAX - {"aten::_softmax"}
    if names["aten::logsumexp"] and names["aten::_safe_softmax"]:
        # FlexAttention's eager form also gives back the logarithm of each row's sum.
        family, shown = "flex_eager", shown | {"aten::logsumexp"}
    elif names["aten::masked_fill"]:
        # Out of place, it calls masked_fill_ itself, on a clone.
        family, shown = "naive", shown | {"aten::masked_fill"}
    elif names["aten::masked_fill_"]:
        family, shown = "naive_inplace", shown | {"aten::masked_fill_"}
    else:
        note = "no masked_fill was seen: without a mask, naive and naive_inplace run the same operators"
        return "naive", Counter({name: names[name] for name in sorted(shown) if names[name]}), (note,)
    return family, Counter({name: names[name] for name in sorted(shown) if names[name]}), ()


def _shorten(name: str) -> str:
    return name if len(name) <= _NAME_LENGTH else name[: _NAME_LENGTH - 1] + "…"
