"""Is dropout active where nothing is trained? SDPA takes dropout_p as it is and knows no evaluation mode."""

import re

from profiling.findings.facts import TraceFacts
from profiling.findings.rule import Clear, Fired, NotEvaluated, Outcome, TraceRule
from profiling.report_schema import Evidence, Report

# aten::dropout alone does nothing outside training; these draw the random numbers.
# Source: PyTorch, aten/src/ATen/native/Dropout.cpp and native_functions.yaml.
DRAWS = ("aten::native_dropout", "aten::_fused_dropout", "aten::bernoulli_", "aten::bernoulli")
DROPOUT_KERNEL = re.compile(r"fused_dropout_kernel|bernoulli")
# Flash attention's kernels say it in the first flag after their traits: flash_fwd_kernel<Flash_fwd_kernel_traits<…>,
# Is_dropout, Is_causal, …>. Source: Dao-AILab/flash-attention, csrc/flash_attn/src/flash_fwd_launch_template.h.
FLASH_DROPS = re.compile(r"flash_fwd_kernel<[^>]*kernel_traits<[^>]*> ?>, ?(?:\(bool\)1|true)\b")


def _judge(report: Report, facts: TraceFacts) -> Outcome:
    if not facts.trace.operators and not facts.items:
        return NotEvaluated(reason=facts.why_no_operators)
    if facts.trains:
        return Clear(explanation="A backward runs in the trace: dropout belongs to training.")
    # One drawing operator may call another: native_dropout calls bernoulli_ on a CPU.
    draws = facts.outermost(facts.named(*DRAWS))
    kernels = [
        kernel
        for kernel in report.kernels
        if kernel.kind == "kernel" and (DROPOUT_KERNEL.search(kernel.name) or FLASH_DROPS.search(kernel.name))
    ]
    if not draws and not kernels:
        return Clear(
            explanation=(
                "No operator draws a dropout mask, and no kernel's name shows one; efficient and cuDNN kernels do not "
                "say it in theirs."
            )
        )
    shown = sorted({op.name for op in draws} | {kernel.short_name for kernel in kernels})
    count = len(draws) or sum(kernel.calls for kernel in kernels)
    return Fired(
        severity="warning",
        explanation=(
            f"{facts.per_step(count, 'active dropout')} ({', '.join(shown)}), and no backward runs: in inference the "
            "outputs are random."
        ),
        evidence=(
            *(
                [Evidence(text=", ".join(sorted({op.name for op in draws})), operators=tuple(op.index for op in draws))]
                if draws
                else []
            ),
            *(Evidence(text=kernel.short_name, items=kernel.items) for kernel in kernels),
        ),
        advice="Pass dropout_p=0.0 to SDPA outside training: dropout_p if self.training else 0.0. Call model.eval().",
    )


RULE = TraceRule(
    slug="dropout_in_inference",
    title="Dropout in inference",
    source="Operators and kernels that draw dropout masks in a trace without a backward; pytorch/pytorch#124464.",
    judge=_judge,
)
