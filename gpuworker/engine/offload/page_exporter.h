// SPDX-License-Identifier: Apache-2.0
//
// PageExporter: copies pages out of a budget cache into units in host memory (NHD to HND). The
// layout kernel and the copy run on the device's compute stream, behind the writes of the page.
// Only readers of the units wait for them. Thread-safety: none. Ownership: what it is given
// outlives it.
#ifndef QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_EXPORTER_H_
#define QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_EXPORTER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/engine/offload/unit_buffers.h"
#include "gpuworker/engine/parts.h"
#include "quire/status.h"

namespace quire::worker {

class PageExporter {
 public:
  explicit PageExporter(const EngineParts& parts) : parts_(parts) {}

  uint64_t layer_bytes() const;  ///< Bytes of one page at one layer.
  uint64_t page_bytes() const;   ///< Bytes of one page at all layers, which fill a buffer.

  /// Has the [n_kv] units of a page at one layer, `rows` of its tokens, written to `to`, from byte
  /// `offset` on. They are there once to->arrived is passed.
  [[nodiscard]] Status Export(const BudgetCache& cache, uint32_t layer, uint32_t page,
                              uint32_t rows, UnitBuffer* to, uint64_t offset);
  /// Room for the units of a page at one layer, on the device.
  StatusOr<void*> Units();
  /// Has what is there copied to `to`, as Export.
  [[nodiscard]] Status CopyUnits(UnitBuffer* to, uint64_t offset);
  /// The units exported last, on the device.
  const void* units() const { return units_.data(); }

  /// A page at all layers, [num_layers][n_kv] units. Waits until they are there.
  StatusOr<std::shared_ptr<UnitBuffer>> ExportNow(const BudgetCache& cache, uint32_t page,
                                                  uint32_t rows);

 private:
  const EngineParts parts_;
  DeviceBuffer units_;  ///< [n_kv] units
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_OFFLOAD_PAGE_EXPORTER_H_
