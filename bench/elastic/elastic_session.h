// SPDX-License-Identifier: Apache-2.0
//
// ElasticSession: a recall session that follows given selections, step by step, and waits a tenth
// of a second for each recall. The benchmark uses ClientSession only through it.
// Thread-safety: none.
// Ownership: the client outlives it.
#ifndef QUIRE_BENCH_ELASTIC_ELASTIC_SESSION_H_
#define QUIRE_BENCH_ELASTIC_ELASTIC_SESSION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/stream/paged_context.h"
#include "bench/stream/slot_cache.h"
#include "client/client.h"
#include "client/session.h"
#include "client/session_landing.h"
#include "common/base/status.h"
#include "common/page/key.h"

namespace quire::bench {

/// Stores the units of `context`, in whole segments, under token ids made from `seed`. Returns the
/// tip. Reports progress on stderr.
StatusOr<SegmentKey> PutContext(Client& client, const PagedContext& context, uint64_t seed);

class ElasticSession {
 public:
  /// Opens a session over the chain that ends with `tip`.
  static StatusOr<ElasticSession> Open(Client& client, const SegmentKey& tip, const KvSpec& spec,
                                       uint32_t slots_per_head);

  /// Lets the server write units into memory of the session, if the transport permits.
  Status Land();

  struct Moved {
    uint64_t units = 0;
    uint64_t bytes = 0;
  };
  /// Recalls all layers of a step in one message and puts the units into `slots`. A recall whose
  /// reply is late or mismatched is repeated.
  StatusOr<Moved> Step(const StepSelection& selection, SlotCache* slots);

  uint64_t failed_recalls() const { return failed_recalls_; }

 private:
  /// Makes a step's recall once. Parts that arrive before an error are in `slots`.
  Status RecallParts(const std::vector<LayerWant>& wants, SlotCache* slots, Moved* moved);
  void Take(const RecallPart& part, SlotCache* slots);

  explicit ElasticSession(std::unique_ptr<ClientSession> session) : session_(std::move(session)) {}

  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<SessionLanding> landing_;  ///< Null: units come in messages.
  uint64_t failed_recalls_ = 0;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_ELASTIC_ELASTIC_SESSION_H_
