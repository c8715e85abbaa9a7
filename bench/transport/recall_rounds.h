// SPDX-License-Identifier: Apache-2.0
//
// RecallRounds: a document and a session that reads it, half of its pages at a time: every round
// wants the half that is not resident, so that all of it moves. Pages are wanted scattered (random
// halves, so that places in the server's memory and slots are in no order) or one after the other.
// Unit contents say which unit it is, and every round can be checked. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_
#define QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "client/session_landing.h"
#include "common/base/random.h"
#include "quire/client.h"
#include "quire/key.h"
#include "quire/kv_spec.h"
#include "quire/session.h"
#include "quire/status.h"

namespace quire::bench {

/// A document of units of one size: one KV head, so that consecutive pages lie side by side.
struct RecallShape {
  KvSpec spec;
  uint32_t pages = 0;

  uint32_t slots() const { return pages / 2; }
  uint64_t units_per_round() const { return uint64_t{spec.num_layers} * slots(); }
  uint64_t bytes_per_round() const;
};

/// `unit_bytes` 16 KiB or 128 KiB; `document_bytes` a multiple of 32 MiB, so that both
/// are cut into whole segments.
RecallShape ShapeOf(uint64_t unit_bytes, uint64_t document_bytes);

/// Puts the document; its tip.
StatusOr<SegmentKey> PutDocument(Client& client, const RecallShape& shape);

/// Whether every slot of a landing holds the unit that its session takes it to hold, as far as its
/// beginning tells.
Status CheckSlots(const ClientSession& session, const SessionLanding& landing,
                  const RecallShape& shape);

class RecallRounds {
 public:
  enum class Pattern { kScattered, kContiguous };
  enum class Delivery {
    kSlots,    ///< Into the slots, verified.
    kInPlace,  ///< Pointers to where the units are, with the checksums to verify them by.
  };

  /// `slots` has room for shape.bytes_per_round() and outlives this; when it is empty the session
  /// allocates its own. Unused in place.
  static StatusOr<std::unique_ptr<RecallRounds>> Open(Client* client, const SegmentKey& document,
                                                      const RecallShape& shape, Delivery delivery,
                                                      std::span<std::byte> slots);

  /// Chooses what the next round wants, and for scattered pages also shuffles which slots were used
  /// last, so that they are filled in no order. Not timed.
  Status Prepare(Pattern pattern);
  /// Recalls it: all layers in one message.
  Status Run() { return Run(shape_.units_per_round()); }
  /// A round, not to be timed, of which every unit is verified: its checksum, and that it says of
  /// itself that it is the one of its placement. For units in place, whose rounds touch no byte.
  Status RunVerified();
  /// CheckSlots. Only for units in slots.
  Status Check() const { return CheckSlots(*session_, *landing_, shape_); }
  /// Asks for what is resident: a round trip that moves nothing.
  Status RunEmpty();

 private:
  /// `visit` sees every part.
  Status Run(uint64_t expected_units, bool verify,
             const std::function<Status(const RecallPart&)>& visit);
  Status Run(uint64_t expected_units);
  /// Asks for parts of what is resident, in random groups of pages.
  Status ShuffleSlots();
  RecallRounds(const RecallShape& shape, Delivery delivery)
      : shape_(shape), delivery_(delivery), resident_half_(shape.spec.num_layers) {}

  const RecallShape shape_;
  const Delivery delivery_;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<SessionLanding> landing_;
  SeededRandom random_{1};
  std::vector<LayerWant> wants_;  ///< One a layer.
  /// By layer: whether a page is in the half that was wanted last.
  std::vector<std::vector<bool>> resident_half_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_
