// SPDX-License-Identifier: Apache-2.0
//
// What a session is asked and what it answers: recalls, acknowledgements and maps as values, and
// the sink that takes the parts of a reply.
#ifndef QUIRE_KVSERVER_SESSION_RECALL_H_
#define QUIRE_KVSERVER_SESSION_RECALL_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/base/payload.h"
#include "common/base/priority.h"
#include "common/base/status.h"
#include "common/page/page_lists.h"
#include "kvserver/select/page_query.h"
#include "kvserver/session/resident_map.h"

namespace quire::kvserver {

/// Consecutive layers of one sequence, and the last exchange that the worker applied in each.
struct AppliedLanes {
  uint32_t sequence = 0;
  uint32_t first_layer = 0;
  std::vector<uint64_t> applied = {};  ///< One entry a layer, at least one.

  uint32_t num_layers() const { return static_cast<uint32_t>(applied.size()); }
};

/// Selection by the server, layer by layer.
struct QueryWant {
  std::vector<float> queries;  ///< [layers of the want][n_q][key_dim]
  /// What every layer asks besides: its `query` and the position offsets are the session's to fill.
  PageQuery shape;
  /// Heads, ascending, for which nothing is placed: they are only told what was selected.
  std::vector<uint32_t> kept_heads = {};

  bool Keeps(uint32_t head) const { return std::ranges::binary_search(kept_heads, head); }
};

/// What consecutive layers of one sequence want.
struct LayerWant {
  AppliedLanes lanes;
  PageLists units = {};  ///< [n_kv] ascending and distinct, for every layer; unused with a query.
  std::optional<QueryWant> query = {};
  PageLists held =
      {};  ///< [n_kv] ascending: units that are placed but not sent; may have no heads.

  bool Holds(uint32_t head, uint32_t page) const {
    return held.num_heads() > 0 && std::ranges::binary_search(held.Head(head), page);
  }
};

/// A unit that did not match its checksum when it came to the worker.
struct MismatchedUnit {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint32_t head = 0;
  uint32_t page = 0;    ///< As the sequence names it.
  uint32_t crc32c = 0;  ///< Of what came.
};

struct RecallArgs {
  uint64_t epoch = 0;
  uint64_t exchange = 0;
  std::vector<LayerWant> wants = {};      ///< Each lane at most once.
  bool place = false;                     ///< Name the place of every unit in the landing.
  Priority priority = Priority::kNormal;  ///< Among the tenant's calls that wait for the SSD.
  /// Units of earlier recalls that did not match their checksums. They are verified, and mended
  /// where they are damaged, before anything is read.
  std::vector<MismatchedUnit> mismatched = {};
};

/// What was placed in one lane.
struct LanePlacement {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t first_slot = 0;  ///< Where its slots begin in the landing, in units.
  const LayerWant* want = nullptr;
  size_t num_sent = 0;  ///< Of the units placed, those that the worker does not hold.
  PlacedUnits placed;
  PageLists selected;  ///< What the server selected; no heads when it did not.
};

/// Some lanes of a reply, in the order asked.
struct RecallPart {
  std::span<const LanePlacement> lanes;
  Payload payload;               ///< What is sent of their units: lane, head, page.
  std::vector<uint64_t> places;  ///< Of the units in the landing, in bytes; empty unless asked for.
};

/// How a reply may be cut.
struct ReplyShape {
  uint32_t max_parts = 1;
  uint64_t part_bytes = UINT64_MAX;  ///< A part that has so many payload bytes takes no more lanes.
  TimePoint deadline = TimePoint::max();  ///< On SystemClock().
};

/// Takes the parts of a reply.
class RecallSink {
 public:
  virtual ~RecallSink() = default;
  /// Whether somebody still waits for the reply; what to end with when not.
  [[nodiscard]] virtual Status CheckWanted() const = 0;
  /// The lanes are valid during the call. When it has returned, no byte of the part can arrive
  /// after one that is written to the same place later. An error ends the recall.
  [[nodiscard]] virtual Status Write(RecallPart part) = 0;
};

/// The worker's own slots of one lane, [n_kv][slots_per_head of the sequence] each.
struct LaneMap {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t applied = 0;               ///< The last exchange that the worker applied there.
  std::vector<int32_t> pages;         ///< -1: empty
  std::vector<uint32_t> generations;  ///< Placements so far.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RECALL_H_
