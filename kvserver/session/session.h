// SPDX-License-Identifier: Apache-2.0
//
// Session: one worker reading one context. It keeps the resident map and answers recalls with the
// units that are missing, each placed into a named slot. The order of exchanges is ExchangeState's,
// the map's bookkeeping ResidentMap's; this class selects, reads, and keeps the two in step.
// Thread-safety: safe for concurrent use; requests of one session run one after another, and at
// most one waits for its turn (RESOURCE_EXHAUSTED with a retry hint for more).
// Ownership: shared with the requests that use it; store and selector outlive it.
// Errors: NOT_FOUND and DATA_LOSS from reading leave the map as it was before the recall.
#ifndef QUIRE_KVSERVER_SESSION_SESSION_H_
#define QUIRE_KVSERVER_SESSION_SESSION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/counters.h"
#include "common/base/mutex.h"
#include "common/base/payload.h"
#include "common/base/status.h"
#include "kvserver/select/selector.h"
#include "kvserver/session/context_resolver.h"
#include "kvserver/session/exchange_state.h"
#include "kvserver/session/resident_map.h"
#include "kvserver/session/turn_limit.h"
#include "kvserver/store/page_store.h"

namespace quire::kvserver {

/// What a recall wants at one layer: pages per KV head, or a query to select them with.
struct LayerWant {
  uint32_t layer = 0;
  std::vector<std::vector<uint32_t>> pages;  ///< [n_kv] ascending; unused with a query
  std::optional<PageQuery> query;
  friend bool operator==(const LayerWant&, const LayerWant&) = default;
};

struct RecallArgs {
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t acked_sequence = 0;
  std::vector<LayerWant> layers;  ///< Each layer at most once.
};

struct LayerPlacement {
  uint32_t layer = 0;
  std::vector<std::vector<Placement>> heads;    ///< [n_kv]
  std::vector<std::vector<uint32_t>> selected;  ///< [n_kv] with a query, otherwise empty
};

struct RecallAnswer {
  std::vector<LayerPlacement> layers;  ///< In the order asked.
  std::vector<UnitBytes> units;        ///< One per placement: layer, head, placement.
};

/// A worker's own slots at one layer: [n_kv][slots_per_head] each.
struct LayerSlots {
  uint32_t layer = 0;
  std::vector<std::vector<int32_t>> pages;  ///< -1: empty
  std::vector<std::vector<uint32_t>> generations;
};

/// What sessions of one server share and count. Thread-safe.
struct SessionShared {
  PageStore* store = nullptr;
  Selector* selector = nullptr;
  uint64_t max_reply_bytes = 0;  ///< Payload of one recall or one digests reply.
  Counter recalls;
  Counter units_wanted;
  Counter units_sent;
  Counter resyncs;
};

class Session {
 public:
  struct Options {
    std::string tenant;
    uint32_t slots_per_head = 0;
    std::vector<uint32_t> managed_layers;  ///< Distinct layers of the context, at least one.
  };
  Session(SessionShared* shared, ReadableContext context, Options options);

  /// The context as it is now.
  ContextViewPtr view() const { return context_.view(); }
  uint64_t epoch() const QUIRE_EXCLUDES(mutex_);

  [[nodiscard]] StatusOr<RecallAnswer> Recall(const RecallArgs& args) QUIRE_EXCLUDES(mutex_);
  [[nodiscard]] Status Ack(uint64_t epoch, uint64_t sequence) QUIRE_EXCLUDES(mutex_);
  /// `layers` holds every managed layer once. INVALID_ARGUMENT when it does not fit the session.
  [[nodiscard]] Status Resync(uint64_t epoch, uint64_t sequence, std::span<const LayerSlots> layers)
      QUIRE_EXCLUDES(mutex_);
  /// Digests [layers][pages][n_kv][2][key_dim] of pages [first_page, end_page), in place.
  [[nodiscard]] StatusOr<Payload> Digests(std::span<const uint32_t> layers, uint32_t first_page,
                                          uint32_t end_page) const;

 private:
  Status Check(const ContextView& view, const RecallArgs& args) const;
  Status CheckWant(const ContextView& view, const LayerWant& want) const;
  Status CheckSlots(const LayerSlots& layer, uint32_t num_pages) const;
  StatusOr<RecallAnswer> Answer(const ContextViewPtr& view, const RecallArgs& args)
      QUIRE_REQUIRES(mutex_);
  /// The pages that `want` means, [n_kv].
  StatusOr<std::vector<std::vector<uint32_t>>> SelectPages(const ContextView& view,
                                                           const LayerWant& want) const;
  void Settle(ExchangeState::Previous previous) QUIRE_REQUIRES(mutex_);

  SessionShared& shared_;
  const ReadableContext context_;
  const Options options_;
  std::vector<int32_t> layer_index_;  ///< Layer -> index in managed_layers, -1 when not managed.

  /// One call that works and one that waits for it: the worker's next, or its last once more.
  TurnLimit turns_{2, "the session"};
  mutable Mutex mutex_;
  ExchangeState exchanges_ QUIRE_GUARDED_BY(mutex_);
  std::vector<LayerWant> last_wants_ QUIRE_GUARDED_BY(mutex_);  ///< Of the last recall taken.
  ResidentMap map_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SESSION_SESSION_H_
