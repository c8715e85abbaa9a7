// SPDX-License-Identifier: Apache-2.0
//
// StepRecalls: a session whose recalls have the size of a decode step's. Each recalls a few units
// of one layer, all missing and scattered over the document, one layer after the other. Units are
// copied into slots and verified.
// Thread-safety: none.
// Ownership: the client outlives it.
#ifndef QUIRE_BENCH_TRANSPORT_STEP_RECALLS_H_
#define QUIRE_BENCH_TRANSPORT_STEP_RECALLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "bench/transport/recall_rounds.h"
#include "common/base/memory/large_pages.h"
#include "common/base/random.h"
#include "quire/key.h"
#include "quire/layout.h"
#include "quire/session_landing.h"
#include "quire/status.h"

namespace quire::bench {

class StepRecalls {
 public:
  /// `units` per recall, at most half of the document's pages.
  static StatusOr<std::unique_ptr<StepRecalls>> Open(Client* client, const SegmentKey& document,
                                                     const RecallShape& shape, uint32_t units);

  /// Chooses what the next recall wants. Not timed.
  void Prepare();
  Status Run();
  /// Checks that every slot holds the unit of the session's map, by the beginning of the unit.
  Status Check() const { return slots_.Check(*session_); }

 private:
  StepRecalls(const RecallShape& shape, uint32_t units)
      : shape_(shape),
        units_(units),
        memory_(uint64_t{shape.spec.num_layers} * units * quire::UnitBytes(shape.spec)),
        slots_(shape, units, memory_.bytes()),
        resident_(shape.spec.num_layers) {}

  const RecallShape shape_;
  const uint32_t units_;
  const LargePages memory_;
  UnitSlots slots_;
  std::unique_ptr<ClientSession> session_;
  std::unique_ptr<SessionLanding> landing_;  ///< Null if the server writes into none.
  SeededRandom random_{1};
  std::vector<std::vector<uint32_t>> resident_;  ///< By layer, ascending.
  uint32_t layer_ = 0;                           ///< Layer of the next recall.
  std::vector<LayerWant> wants_;                 ///< Its wants.
};

}  // namespace quire::bench

#endif  // QUIRE_BENCH_TRANSPORT_STEP_RECALLS_H_
