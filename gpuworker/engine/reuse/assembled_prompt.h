// SPDX-License-Identifier: Apache-2.0
//
// AssembledPrompt: the keys and values that a prompt over several stored documents attends to. It
// reads the units that a plan's cells need, layer by layer, the next layer beside the model's work
// on this one. Keys are turned to their places in the prompt while units are decoded. After the
// prefill the model generates over it.
//
// Ownership: owns the device memory; what it is given outlives it.
// Thread-safety: none; one executor thread works for it inside.
// Errors: DATA_LOSS for units that do not match their checksums, NOT_FOUND for a document that is
// gone, RESOURCE_EXHAUSTED when the device has no room. They name the document.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/page/rope_rotation.h"
#include "gpuworker/context/reuse_method.h"
#include "gpuworker/device/device_list.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/reuse_costs.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/layer_view.h"
#include "kernels/api/transpose.h"
#include "quire/contexts.h"
#include "quire/payload.h"
#include "quire/status.h"

namespace quire::worker {

/// A stored document in the prompt.
struct AssembledDocument {
  std::string name;  ///< For errors.
  ContextRef context;
  PlacedSource placed;
  SourceTier tier = SourceTier::kDram;  ///< The slowest tier of its pages.
};

class AssembledPrompt final : public LayerViews, public AttentionBackend {
 public:
  /// `cells` has one entry, or one for each layer. `first_new` is the position behind the prompt;
  /// up to `new_tokens` may follow it. View is CANCELLED once `keep_going`, which may be empty, is
  /// false.
  AssembledPrompt(const EngineParts& parts, std::vector<AssembledDocument> documents,
                  std::vector<ViewCells> cells, uint64_t first_new, uint32_t new_tokens,
                  std::function<bool()> keep_going = {});
  ~AssembledPrompt() override;
  AssembledPrompt(const AssembledPrompt&) = delete;
  AssembledPrompt& operator=(const AssembledPrompt&) = delete;

  StatusOr<LayerView> View(uint32_t layer) override;
  /// One generated token, or several. FAILED_PRECONDITION when they do not follow what is there.
  Status Attend(const LayerStep& step) override;

  /// Payload bytes of units read so far.
  uint64_t bytes_read() const { return bytes_read_; }
  /// Loads so far. Seconds are those of the thread that loads.
  const OfTiers<TierLoad>& loads() const { return loads_; }
  /// Seconds that views have waited for their loads.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Layer {
    DeviceBuffer keys;
    DeviceBuffer values;
    uint64_t tokens = 0;  ///< Generated ones behind the visible cells.
  };
  const ViewCells& CellsOf(uint32_t layer) const {
    return cells_.size() == 1 ? cells_.front() : cells_[layer];
  }
  Status Load(uint32_t layer);
  Status LoadDocument(uint32_t layer, const AssembledDocument& document);
  /// Reads pages of a document into the staging pools, page i to slot i.
  Status Stage(uint32_t layer, const AssembledDocument& document, std::span<const uint32_t> pages);
  /// Decodes and turns the units of `pages` pages into the slots from `first_slot` on.
  Status Place(const AssembledDocument& document, const Payload& payload, size_t first_slot,
               size_t pages);
  /// Copies rows of the staging pools to neighbouring cells.
  Status CopyCell(uint32_t layer, uint64_t staged_row, uint64_t cell, uint64_t rows);
  size_t RowBytes() const;

  const EngineParts parts_;
  const std::vector<AssembledDocument> documents_;
  const std::vector<ViewCells> cells_;
  const uint64_t first_new_;
  const uint32_t new_tokens_;
  const std::function<bool()> keep_going_;
  const RopeRotation rotation_;

  std::vector<Layer> layers_;
  DeviceList<std::byte> units_;  ///< A batch of units as they came.
  DeviceList<kernels::UnitPlacement> placements_;
  DeviceList<int32_t> turns_;
  DeviceBuffer staged_keys_;  ///< [pages][p][n_kv][d] of one document and layer
  DeviceBuffer staged_values_;
  DeviceList<float> cosines_;  ///< One row: the document's move.
  DeviceList<float> sines_;
  uint64_t bytes_read_ = 0;
  OfTiers<TierLoad> loads_;
  double seconds_waited_ = 0;
  std::optional<std::future<Status>> loading_;  ///< Load of the layer after the last view.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_
