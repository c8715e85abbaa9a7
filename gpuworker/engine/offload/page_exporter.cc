// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/offload/page_exporter.h"

#include "quire/layout.h"

namespace quire::worker {

uint64_t PageExporter::layer_bytes() const { return ExtentBytes(*parts_.spec, 1); }
uint64_t PageExporter::page_bytes() const { return SegmentBytes(*parts_.spec, 1); }

Status PageExporter::Export(const BudgetCache& cache, uint32_t layer, uint32_t page, uint32_t rows,
                            UnitBuffer* to, uint64_t offset) {
  QUIRE_ASSIGN_OR_RETURN(void* const units, Units());
  QUIRE_RETURN_IF_ERROR(cache.ExportPage(layer, page, rows, units));
  return CopyUnits(to, offset);
}

StatusOr<void*> PageExporter::Units() {
  if (units_.size_bytes() == 0) {
    QUIRE_ASSIGN_OR_RETURN(units_, parts_.device->Allocate(layer_bytes()));
  }
  return units_.data();
}

Status PageExporter::CopyUnits(UnitBuffer* to, uint64_t offset) {
  QUIRE_RETURN_IF_ERROR(
      parts_.device->CopyToPinned(to->bytes.get() + offset, units_.data(), layer_bytes()));
  return to->arrived->Record(DeviceStream::kCompute);
}

StatusOr<std::shared_ptr<UnitBuffer>> PageExporter::ExportNow(const BudgetCache& cache,
                                                              uint32_t page, uint32_t rows) {
  QUIRE_ASSIGN_OR_RETURN(std::shared_ptr<UnitBuffer> buffer, parts_.unit_buffers->Take());
  for (uint32_t layer = 0; layer < cache.num_layers(); ++layer) {
    QUIRE_RETURN_IF_ERROR(Export(cache, layer, page, rows, buffer.get(), layer * layer_bytes()));
  }
  QUIRE_RETURN_IF_ERROR(buffer->arrived->Await());
  return buffer;
}

}  // namespace quire::worker
