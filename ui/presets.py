"""Experiments worth starting from. Each names the fields it sets; every other field takes its default."""

from dataclasses import dataclass

from attention.validation import CPU_DEFAULTS, default_fields, operation_of_fields
from attention.workload import Scalar
from ui.markup import Markup, element


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """``summary`` says in one line what to look for."""

    slug: str
    title: str
    summary: str
    changes: dict[str, Scalar | None]

    def fields(self) -> dict[str, Scalar | None]:
        """The value of every field."""
        return default_fields("cuda", operation_of_fields(self.changes)) | self.changes

    def summary_line(self) -> Markup:
        """The summary as the form shows it."""
        return element("span", self.summary, class_="form-note att quiet")


PRESETS: tuple[Preset, ...] = (
    Preset(
        slug="tutorial",
        title="Tutorial: B8 H16 S1024 D64",
        summary="the case that most attention traces are explained with; which backend does auto pick here?",
        changes={},
    ),
    Preset(
        slug="small",
        title="Small: seconds on a CPU",
        summary="small enough for two CPU cores, with the type that a CPU computes in",
        changes=CPU_DEFAULTS,
    ),
    Preset(
        slug="naive",
        title="Naive: count the kernels",
        summary="matmul, scale, mask, softmax, matmul: five kernels, or is there one more item?",
        changes={"backend": "naive"},
    ),
    Preset(
        slug="refusal",
        title="Refusal: flash in float32",
        summary="a pinned backend that says no; the message is the result",
        changes={"backend": "sdpa_flash", "dtype": "float32"},
    ),
    Preset(
        slug="gqa",
        title="Grouped heads: 16 query, 4 key/value",
        summary="grouped-query attention; not every backend takes it",
        changes={"kv_heads": 4},
    ),
    Preset(
        slug="decode",
        title="Decode: one query row, 4096 keys",
        summary="one new token against a cache; almost no work, so the host decides",
        changes={"seq_len_q": 1, "seq_len_kv": 4096, "mask": "none"},
    ),
    Preset(
        slug="sliding_window",
        title="Sliding window: 256 of 4096 keys",
        summary="94 % of the score matrix is masked away; which backend skips it, and which computes it all?",
        changes={
            "batch_size": 1,
            "seq_len_q": 4096,
            "seq_len_kv": 4096,
            "mask": "sliding_window",
            "mask_window": 256,
        },
    ),
    Preset(
        slug="documents",
        title="Packed documents: four in 1024",
        summary="several documents in one sequence, each causal; a dense mask goes to backends that take one",
        changes={"mask": "document", "mask_lengths": "128,256,512,128"},
    ),
    Preset(
        slug="padding",
        title="Padding: eight lengths in one batch",
        summary="a mask that differs between batch entries, as a tokenizer gives it",
        # The picture, and the mask read back from a run, show the first entry: one that has padding.
        changes={"mask": "padding", "mask_lengths": "640,1024,900,777,512,300,128,16"},
    ),
    Preset(
        slug="dead_rows",
        title="Dead rows: 24 rows without a key",
        summary="rows that may attend to nothing: zeros or NaN? The Correctness tab counts them",
        changes={"backend": "naive", "mask": "dead_rows", "mask_count": 24},
    ),
    Preset(
        slug="long",
        title="Long: S8192 D128",
        summary="where a score matrix would take gigabytes and fused kernels pay most",
        changes={"batch_size": 1, "seq_len_q": 8192, "seq_len_kv": 8192, "head_dim": 128},
    ),
    Preset(
        slug="swiglu_eager",
        title="SwiGLU, eager",
        summary="beyond attention: three products, a silu and a product of two tensors; how many kernels?",
        changes={"operation": "swiglu", "backend": "eager"},
    ),
    Preset(
        slug="swiglu_compiled",
        title="SwiGLU, compiled",
        summary="the pointwise work is fused and the products stay: how much is there to gain beside them?",
        changes={"operation": "swiglu", "backend": "compiled"},
    ),
    Preset(
        slug="rms_norm_eager",
        title="residual + RMSNorm, eager",
        summary="no product at all: each operator reads and writes the whole tensor again",
        changes={"operation": "residual_rms_norm", "backend": "eager"},
    ),
    Preset(
        slug="rms_norm_compiled",
        title="residual + RMSNorm, compiled",
        summary="one kernel that reads and writes once; compare its device time with the eager one's",
        changes={"operation": "residual_rms_norm", "backend": "compiled"},
    ),
)
