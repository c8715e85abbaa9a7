// SPDX-License-Identifier: Apache-2.0
//
// RecallRounds: a document and a session that reads it, half of its pages at a time. Every round
// wants the half that is not resident, so that all of it moves. Pages are wanted scattered or in
// order. Scattered halves are random, so that places in the server's memory and slots are in no
// order. Every unit names itself, so that every round can be checked. Thread-safety: none.
#ifndef QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_
#define QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "client/client.h"
#include "client/session.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/page/key.h"
#include "common/page/kv_spec.h"

namespace quire::bench {

/// A document of units of one size. It has one KV head, so that consecutive pages are adjacent.
struct RecallShape {
  KvSpec spec;
  uint32_t pages = 0;

  uint32_t slots() const { return pages / 2; }
  uint64_t units_per_round() const { return uint64_t{spec.num_layers} * slots(); }
  uint64_t bytes_per_round() const;
};

/// `unit_bytes` is 16 KiB or 128 KiB; `document_bytes` is a multiple of 32 MiB, so that both make
/// whole segments.
RecallShape ShapeOf(uint64_t unit_bytes, uint64_t document_bytes);

/// Puts the document. Returns its tip.
StatusOr<SegmentKey> PutDocument(Client& client, const RecallShape& shape);

/// A caller's slots in plain memory, [layers][slots] units of one KV head. Ownership: the memory
/// outlives it. Thread-safety: none.
class UnitSlots {
 public:
  UnitSlots(const RecallShape& shape, uint32_t slots, std::span<std::byte> memory)
      : shape_(shape), slots_(slots), memory_(memory) {}

  /// Copies the units of a part into their slots. DATA_LOSS for a unit with another checksum, or
  /// lent for too short a time.
  Status Fill(const RecallPart& part);
  /// Checks that every slot holds the unit of the session's map, by the beginning of the unit.
  Status Check(const ClientSession& session) const;

 private:
  std::byte* Unit(uint32_t layer, uint32_t slot) const;

  const RecallShape shape_;
  const uint32_t slots_;
  const std::span<std::byte> memory_;
};

class RecallRounds {
 public:
  enum class Pattern { kScattered, kContiguous };
  enum class Delivery {
    kSlots,    ///< Copied into the slots, verified.
    kInPlace,  ///< Pointers to the units in place, with the checksums to verify them.
  };

  /// `slots` has room for shape.bytes_per_round() and outlives this. Unused in place.
  static StatusOr<std::unique_ptr<RecallRounds>> Open(Client* client, const SegmentKey& document,
                                                      const RecallShape& shape, Delivery delivery,
                                                      std::span<std::byte> slots);

  /// Chooses what the next round wants. For scattered pages it also shuffles the order of last use
  /// of the slots, so that they are filled in no order. Not timed.
  Status Prepare(Pattern pattern);
  /// Recalls the round: all layers in one message.
  Status Run() { return Run(shape_.units_per_round()); }
  /// Runs a round that verifies every unit: its checksum, and the unit's own name. Not timed. It
  /// serves units in place, whose timed rounds touch no byte.
  Status RunVerified();
  /// Calls UnitSlots::Check; only for units in slots.
  Status Check() const { return slots_.Check(*session_); }
  /// Recalls what is resident: a round trip that moves nothing.
  Status RunEmpty();

 private:
  /// `visit` receives every part.
  Status Run(uint64_t expected_units, bool verify,
             const std::function<Status(const RecallPart&)>& visit);
  Status Run(uint64_t expected_units);
  /// Recalls parts of what is resident, in random groups of pages.
  Status ShuffleSlots();
  RecallRounds(const RecallShape& shape, Delivery delivery, std::span<std::byte> slots)
      : shape_(shape),
        delivery_(delivery),
        slots_(shape, shape.slots(), slots),
        resident_half_(shape.spec.num_layers) {}

  const RecallShape shape_;
  const Delivery delivery_;
  UnitSlots slots_;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<SessionLanding> landing_;  ///< Null if the server writes into none.
  SeededRandom random_{1};
  std::vector<LayerWant> wants_;  ///< One per layer.
  /// By layer: true for a page in the half that was wanted last.
  std::vector<std::vector<bool>> resident_half_;
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_RECALL_ROUNDS_H_
