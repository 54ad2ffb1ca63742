"""The largest batches that fit into memory, as far as a study searched for them."""

from collections.abc import Sequence

from touchstone.analysis.findings_model import LargestBatch
from touchstone.results.max_batch import MaxBatch, of_cell
from touchstone.results.study import Study


def largest_batches(study: Study, searches: Sequence[MaxBatch]) -> list[LargestBatch]:
    """Each search that holds for a cell of the study, with the first such cell."""
    by_search: dict[int, LargestBatch] = {}
    for cell in study.cells if searches else []:
        if (search := of_cell(searches, cell.plan.factors)) and id(search) not in by_search:
            by_search[id(search)] = LargestBatch(
                cell=cell.plan.name,
                max_batch_size=search.value,
                status=search.status,
                reason=search.reason,
                limit=search.limit,
                probes=len(search.probes),
            )
    return list(by_search.values())
