// SPDX-License-Identifier: Apache-2.0
//
// Event: a report of a load on one operation, at its start and at its end. Events of one segment
// come from one thread, in order. Plain values; a pipe carries them unchanged between processes of
// one program.
#ifndef QUIRE_BENCH_TORTURE_STORE_EVENT_H_
#define QUIRE_BENCH_TORTURE_STORE_EVENT_H_

#include <cstdint>
#include <type_traits>

#include "bench/torture/store/corpus.h"

namespace quire::torture {

struct Event {
  enum class Operation : uint8_t { kPut, kDelete, kRead };
  enum class Outcome : uint8_t {
    kStarted,
    kDone,        ///< Acknowledged.
    kExisted,     ///< A put is acknowledged: the segment was there.
    kMissing,     ///< A delete, or a read of a segment that this load put: it is missing.
    kRefused,     ///< An error that means that nothing changed.
    kFailed,      ///< An error after which the change may have happened.
    kWrongBytes,  ///< Bytes were served, or found stored, that are not those of the segment.
  };

  SegmentId segment;
  Operation operation = Operation::kPut;
  Outcome outcome = Outcome::kStarted;
  uint16_t unused = 0;
};
static_assert(std::is_trivially_copyable_v<Event> && sizeof(Event) == 12);

/// Receives events. Thread-safety: every implementation may be called concurrently.
class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Emit(const Event& event) = 0;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_EVENT_H_
