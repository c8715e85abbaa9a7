// SPDX-License-Identifier: Apache-2.0
//
// StepLists: what kernels read about the newest token of a sequence in layers without selectable
// pages: where its row goes, and what it attends to. Their place in device memory and their lengths
// never change, so kernels that were recorded over them do every token. Layers of one layout share
// their lists.
//
// Ownership: owns that memory; the device outlives it. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_CACHE_STEP_LISTS_H_
#define QUIRE_GPUWORKER_CACHE_STEP_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpuworker/cache/page_table.h"
#include "gpuworker/device/device.h"
#include "quire/kv_spec.h"
#include "quire/status.h"

namespace quire::worker {

class StepLists {
 public:
  /// Lists of one layer, in device memory.
  struct Lists {
    /// [1]: row of the pools, slot * p + row in the slot. In a layer that holds everything, also
    /// the token's position.
    const int32_t* place = nullptr;
    // As paged_attention has them; unused where the layer holds everything.
    const int32_t* slots = nullptr;         ///< [n_slots]
    const int32_t* valid_tokens = nullptr;  ///< [n_kv][n_slots]
    const int32_t* first_tokens = nullptr;  ///< [n_slots]; null without a sliding window
    int64_t n_slots = 0;                    ///< All that the layout has: unused ones have 0 rows.
  };

  /// For layers of these layouts, none with selectable pages.
  static StatusOr<StepLists> Create(std::span<const CacheLayout> layouts, const KvSpec& spec,
                                    Device* device);

  /// Sets the lists of `layer` for the token that `table` has just put into `place`.
  void Set(uint32_t layer, const PageTable& table, TokenPlace place);
  /// Lets kernels that are given to the device from here on read what is set.
  [[nodiscard]] Status Send();
  Lists Of(uint32_t layer) const;

 private:
  /// The lists of one layout.
  struct Part {
    CacheLayout layout;
    uint32_t first_layer = 0;  ///< First layer with this layout.
    size_t begin = 0;          ///< Offset in host_ of place, slots, valid_tokens, first_tokens.
    size_t n_slots = 0;
  };
  StepLists(const KvSpec& spec, Device* device) : spec_(spec), device_(device) {}
  void AddLayer(const CacheLayout& layout);

  KvSpec spec_;
  Device* device_;
  std::vector<Part> parts_;
  std::vector<size_t> part_of_;  ///< [num_layers]
  std::vector<int32_t> host_;    ///< All lists.
  DeviceBuffer memory_;          ///< All lists, on the device.
  AttendedSlots attended_;       ///< Scratch of Set.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CACHE_STEP_LISTS_H_
