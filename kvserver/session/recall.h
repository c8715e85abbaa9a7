// SPDX-License-Identifier: Apache-2.0
//
// Requests and replies of a session as values: recalls, acknowledgements and maps, and the sink for
// the parts of a reply.
#ifndef QUIRE_KVSERVER_SESSION_RECALL_H_
#define QUIRE_KVSERVER_SESSION_RECALL_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/page/slot_map.h"
#include "kvserver/select/page_query.h"
#include "kvserver/store/call_waits.h"
#include "quire/clock.h"
#include "quire/page_lists.h"
#include "quire/payload.h"
#include "quire/priority.h"
#include "quire/status.h"
#include "quire/unit_codec.h"
#include "quire/units.h"

namespace quire::kvserver {

/// Consecutive layers of one sequence, and the last exchange that the worker applied in each.
struct AppliedLanes {
  uint32_t sequence = 0;
  uint32_t first_layer = 0;
  std::vector<uint64_t> applied = {};  ///< One entry per layer, at least one.

  uint32_t num_layers() const { return static_cast<uint32_t>(applied.size()); }
};

/// Selection by the server, layer by layer.
struct QueryWant {
  std::vector<float> queries;  ///< [layers of the want][n_q][key_dim]
  /// Common query of all layers. The session fills in its `query` and the position offsets.
  PageQuery shape;
  /// Heads, ascending, that place nothing and only learn the selection.
  std::vector<uint32_t> kept_heads = {};

  bool Keeps(uint32_t head) const { return std::ranges::binary_search(kept_heads, head); }
};

/// A request for consecutive layers of one sequence.
struct WantedLayers {
  AppliedLanes lanes;
  PageLists units = {};  ///< [n_kv] ascending and distinct, for every layer; unused with a query.
  std::optional<QueryWant> query = {};
  PageLists held = {};  ///< [n_kv] ascending: units to place but not to send; may have no heads.

  bool Holds(uint32_t head, uint32_t page) const {
    return held.num_heads() > 0 && std::ranges::binary_search(held.Head(head), page);
  }
};

struct RecallArgs {
  uint64_t epoch = 0;
  uint64_t exchange = 0;
  std::vector<WantedLayers> wants = {};  ///< Each lane at most once.
  bool place = false;                    ///< Return the place of every unit in the landing.
  /// Priority among the tenant's calls that wait for the SSD.
  Priority priority = Priority::kNormal;
  CallWaits* waits = nullptr;  ///< As Caller's.
  /// Units of earlier recalls that did not match their checksums. They are verified, and repaired
  /// when damaged, before any read.
  std::vector<MismatchedUnit> mismatched = {};
};

/// The units placed in one lane.
struct LanePlacement {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t first_slot = 0;  ///< First slot of the lane in the landing, in units.
  const WantedLayers* want = nullptr;
  size_t num_sent = 0;  ///< Number of placed units that the worker does not hold.
  PlacedUnits placed;
  PageLists selected;  ///< The server's selection; no heads without one.
};

/// Consecutive units of one codec.
struct CodecRun {
  UnitCodec codec = UnitCodec::kRaw;
  uint32_t units = 0;
};

/// Some lanes of a reply, in the order asked.
struct ReplyPart {
  std::span<const LanePlacement> lanes;
  Payload payload;               ///< The sent units: lane, head, page.
  std::vector<CodecRun> codecs;  ///< Codecs of the sent units; empty: all are raw.
  std::vector<uint64_t>
      places;  ///< Byte places of the units in the landing; empty unless requested.
};

/// Limits on the parts of a reply.
struct ReplyShape {
  uint32_t max_parts = 1;
  uint64_t part_bytes = UINT64_MAX;  ///< A part with this many payload bytes takes no more lanes.
  TimePoint deadline = TimePoint::max();  ///< On SystemClock().
};

/// Takes the parts of a reply.
class RecallSink {
 public:
  virtual ~RecallSink() = default;
  /// OK while the reply is still wanted; otherwise the error to end with.
  [[nodiscard]] virtual Status CheckWanted() const = 0;
  /// Writes a part. Lanes are valid during the call. After it returns, no byte of the part arrives
  /// after a later write to the same place. An error ends the recall.
  [[nodiscard]] virtual Status Write(ReplyPart part) = 0;
};

/// The worker's own slots of one lane, [n_kv][slots_per_head of the sequence] each.
struct LaneMap {
  uint32_t sequence = 0;
  uint32_t layer = 0;
  uint64_t applied = 0;               ///< The last exchange that the worker applied there.
  std::vector<int32_t> pages;         ///< -1: empty
  std::vector<uint32_t> generations;  ///< Number of placements so far.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_RECALL_H_
