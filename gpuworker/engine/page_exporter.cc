// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/page_exporter.h"

#include "common/page/layout.h"

namespace quire::worker {

uint64_t PageExporter::layer_bytes() const { return ExtentBytes(*parts_.spec, 1); }
uint64_t PageExporter::page_bytes() const { return SegmentBytes(*parts_.spec, 1); }

Status PageExporter::Export(const BudgetCache& cache, uint32_t layer, uint32_t page, uint32_t rows,
                            std::byte* to) {
  if (units_.size_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(units_, parts_.device->Allocate(layer_bytes()));
  }
  QUIRE_RETURN_IF_ERROR(cache.ExportPage(layer, page, rows, units_.data()));
  return parts_.device->CopyToHost(to, units_.data(), layer_bytes());
}

}  // namespace quire::worker
