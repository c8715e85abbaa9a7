// SPDX-License-Identifier: Apache-2.0
//
// StreamedPlacement: puts the recalled units of one layer into their slots, a buffer of units at a
// time. Checksums are compared, units copied to where the device's kernels read them, and spread
// over slots. With two buffers, one is filled while another is converted. An executor works through
// the buffers in the background, and Finish helps it. Units may arrive a few at a time (Add). A
// buffer is placed as soon as it is full, while the next units are in flight.
//
//   auto placing = StreamedPlacement::Start({.cache = &cache, .executor = &pool},
//   std::move(units));
//   QUIRE_RETURN_IF_ERROR((*placing)->Add(more));    // as they come
//   ...                                              // other layers
//   QUIRE_RETURN_IF_ERROR((*placing)->Finish());     // all units are in their slots, recorded
//
// Until Finish has returned OK the cache's table does not list the units, and the layer must not
// attend. Afterwards a device with streams may still place units; its attention waits
// (BudgetCache::RecordPlacements). After an error some slots hold other bytes than the table says.
// Finish then empties the layer's selectable slots, so that attention reads none of them. DATA_LOSS
// stands for a checksum mismatch, or a lease that ran out too early.
//
// Thread-safety: none; Finish and the destructor are called by the thread that owns the cache.
// Ownership: keeps the units' bytes; everything else outlives it. The destructor drops units that
// are not placed, waits for buffers in progress, and empties slots likewise.
#ifndef QUIRE_GPUWORKER_RECALL_STREAMED_PLACEMENT_H_
#define QUIRE_GPUWORKER_RECALL_STREAMED_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/cache/budget_cache.h"
#include "gpuworker/retrieval/options.h"
#include "quire/layout.h"
#include "quire/payload.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// The units of one layer, or the recalled part of each, one for each placement. The bytes of the
/// last ones may still be in flight.
struct ArrivedUnits {
  uint32_t layer = 0;
  std::vector<SlotPlacement> placements = {};
  std::vector<uint32_t> checksums = {};  ///< CRC-32C
  std::vector<UnitCodec> codecs = {};    ///< Codec of each; empty: all are raw.
  Payload units = {};

  UnitCodec CodecOf(size_t unit) const { return codecs.empty() ? UnitCodec::kRaw : codecs[unit]; }
};

class StreamedPlacement {
 public:
  struct Options {
    uint32_t units_per_buffer = 0;  ///< 0: all of one KV head.
    uint32_t buffers = 2;           ///< In work at a time; at least 1.
    RecallLayout layout = RecallLayout::kUnits;
    UnitPart part = UnitPart::kWhole;  ///< Part of a unit that comes.
  };
  struct Dependencies {
    BudgetCache* cache = nullptr;
    Executor* executor = nullptr;  ///< Null: Finish does everything.
    Options options = {};
    /// Changes a whole raw unit before it goes into its slot. Parts that were not recalled are
    /// zero. Without an executor one thread at a time calls it. May be empty, for none, where whole
    /// units come.
    std::function<void(const SlotPlacement& placement, std::span<std::byte> unit)> rewrite = {};
    /// Told of the units of a buffer, from `first` on, that match their checksums, before they are
    /// rewritten; from any thread. None when empty.
    std::function<void(size_t first, const Payload& units)> on_verified = {};
  };

  /// Begins. Nothing is written when it fails. DATA_LOSS for more units than placements, or for
  /// another number of checksums or codecs. INVALID_ARGUMENT for values without `rewrite`, and for
  /// encoded units where RecalledCodecs has none. Other errors are those of
  /// PageTable::CheckPlacement.
  static StatusOr<std::unique_ptr<StreamedPlacement>> Start(const Dependencies& with,
                                                            ArrivedUnits arrived);
  ~StreamedPlacement();
  StreamedPlacement(const StreamedPlacement&) = delete;
  StreamedPlacement& operator=(const StreamedPlacement&) = delete;

  /// Units that follow those that have come. DATA_LOSS when they are more than the placements.
  [[nodiscard]] Status Add(const Payload& units);
  /// Works along until every unit is in its slot, or the device has been given it, and records the
  /// placements. Called once, when all units have come: DATA_LOSS otherwise.
  [[nodiscard]] Status Finish();
  /// All units that did not match their checksums: the placement of each, and what its bytes have.
  /// Valid when Finish has returned.
  struct Mismatch {
    size_t placement = 0;
    uint32_t crc32c = 0;
  };
  std::vector<Mismatch> mismatches() const;

 private:
  class Stream;
  StreamedPlacement(const Dependencies& with, std::shared_ptr<Stream> stream);
  /// Bytes of all units, those in flight too. Errors as Start.
  static StatusOr<uint64_t> BytesOf(const Dependencies& with, const ArrivedUnits& arrived);
  /// Lets the executor place the units that have arrived.
  void StartBackgroundWork();

  BudgetCache* const cache_;
  Executor* const executor_;              ///< May be null.
  const std::shared_ptr<Stream> stream_;  ///< Shared with what the executor was given.
  bool finished_ = false;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_RECALL_STREAMED_PLACEMENT_H_
