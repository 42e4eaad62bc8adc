"""Work and bytes that a workload needs, counted from its shape alone: FLOPs of the allowed cells, least traffic."""

from dataclasses import dataclass

from attention.backends import BACKENDS
from attention.lookup import find
from attention.masks import mask_of
from attention.workload import MaskForm, Workload

COST_ASSUMPTIONS = (
    "FLOPs count two products (query·keyᵀ and weights·value) over the pairs the mask allows, 2 per multiply-add; "
    "softmax is left out",
    "least bytes: query, key and value read once, output written once, no score matrix; a mask tensor is left out",
)

# The float64 reference works on blocks of about this many score elements, so that its memory has a ceiling.
REFERENCE_BLOCK_ELEMENTS = 32 * 2**20
# Live float64 arrays of one reference block: scores, weights and one temporary of the softmax.
REFERENCE_ARRAYS = 3


def count_flops(workload: Workload) -> int:
    """FLOPs of one forward call over the allowed (query, key) pairs."""
    pairs = mask_of(workload).count_allowed(workload) * workload.num_heads
    return 2 * pairs * (workload.head_dim + workload.value_dim)


def inputs_bytes(workload: Workload) -> int:
    """Bytes of query, key and value."""
    query = workload.num_heads * workload.seq_len_q * workload.head_dim
    key_value = workload.stored_kv_heads * workload.seq_len_kv * (workload.head_dim + workload.value_dim)
    return workload.batch_size * (query + key_value) * workload.dtype.itemsize


def output_bytes(workload: Workload) -> int:
    return workload.batch_size * workload.num_heads * workload.seq_len_q * workload.value_dim * workload.dtype.itemsize


def count_bytes_min(workload: Workload) -> int:
    """Least device traffic of one forward call: inputs read once, output written once."""
    return inputs_bytes(workload) + output_bytes(workload)


def score_matrix_bytes(workload: Workload) -> int:
    """One copy of the score matrix in the workload's dtype."""
    return workload.score_count * workload.dtype.itemsize


def mask_bytes(workload: Workload) -> int:
    """Bytes of the dense mask tensor that the call receives; 0 where it receives none."""
    mask, backend = mask_of(workload), find(workload.backend, BACKENDS, field="backend")
    form = mask.resolve_form(workload)
    if form is None or backend.builds_mask or (form is MaskForm.IS_CAUSAL and not backend.takes_dense_mask):
        return 0
    elements = workload.seq_len_q * workload.seq_len_kv
    elements *= workload.batch_size if mask.varies_by_batch else 1
    elements *= workload.num_heads if mask.varies_by_head else 1
    return elements * {MaskForm.ADDITIVE: workload.dtype.itemsize, MaskForm.ADDITIVE_FLOAT32: 4}.get(form, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEstimate:
    """Bytes that a run holds at its peak, by part."""

    inputs_bytes: int
    output_bytes: int
    mask_bytes: int
    score_matrices_bytes: int
    reference_bytes: int  # the float64 block, and the outputs of the two runs that it judges

    @property
    def total_bytes(self) -> int:
        """The call and the reference never overlap; the larger one decides."""
        held = self.inputs_bytes + self.output_bytes + self.mask_bytes
        return held + max(self.score_matrices_bytes, self.reference_bytes)


def estimate_memory(workload: Workload) -> MemoryEstimate:
    """What a run of ``workload`` will hold, before anything is allocated."""
    backend = find(workload.backend, BACKENDS, field="backend")
    heads_and_keys = workload.num_heads * workload.seq_len_kv
    block = min(workload.score_count, max(REFERENCE_BLOCK_ELEMENTS, heads_and_keys))
    float64_copies = 8 * (inputs_bytes(workload) // workload.batch_size) // workload.dtype.itemsize
    return MemoryEstimate(
        inputs_bytes=inputs_bytes(workload),
        output_bytes=output_bytes(workload),
        mask_bytes=mask_bytes(workload),
        score_matrices_bytes=int(workload.score_count * backend.score_matrices * backend.score_element(workload.dtype)),
        reference_bytes=block * 8 * REFERENCE_ARRAYS + float64_copies + output_bytes(workload),
    )
