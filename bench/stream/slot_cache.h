// SPDX-License-Identifier: Apache-2.0
//
// SlotCache: a worker's slots in plain memory, with a separate record of their contents. A test or
// benchmark compares the result of a session byte by byte. Thread-safety: none.
#ifndef QUIRE_BENCH_STREAM_SLOT_CACHE_H_
#define QUIRE_BENCH_STREAM_SLOT_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bench/stream/paged_context.h"
#include "common/base/status.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

class SlotCache {
 public:
  SlotCache(const KvSpec& spec, uint32_t slots_per_head);

  /// Copies a unit of `page` into slot `slot`.
  void Place(uint32_t layer, uint32_t head, uint32_t slot, uint32_t page,
             std::span<const std::byte> unit);
  /// OK if the slots hold exactly the selection, and every byte equals the context's. Otherwise
  /// DATA_LOSS, naming the first wrong slot or page.
  [[nodiscard]] Status Check(const StepSelection& selection, const PagedContext& context) const;

 private:
  size_t IndexOf(uint32_t layer, uint32_t head, uint32_t slot) const {
    return (size_t{layer} * num_kv_heads_ + head) * slots_ + slot;
  }
  std::span<std::byte> Unit(size_t index) {
    return std::span(units_).subspan(index * unit_bytes_, unit_bytes_);
  }
  std::span<const std::byte> Unit(size_t index) const {
    return const_cast<SlotCache*>(this)->Unit(index);
  }

  const uint32_t num_kv_heads_;
  const uint32_t slots_;
  const uint64_t unit_bytes_;
  std::vector<std::byte> units_;                ///< [layers][n_kv][slots] units.
  std::vector<std::optional<uint32_t>> pages_;  ///< [layers][n_kv][slots]
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_STREAM_SLOT_CACHE_H_
