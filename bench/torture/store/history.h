// SPDX-License-Identifier: Apache-2.0
//
// History: the expected content of a store after the reported events, and the differences found. No
// I/O. Thread-safety: none.
//
//   acknowledged put              whole, with the bytes that were put
//   acknowledged delete           not there
//   started and never ended       whole or not there, nothing between
//   refused                       as it was before
//   failed                        whole or not there, until a later change is acknowledged: the
//                                 running store may miss what it finds after reopening
#ifndef QUIRE_BENCH_TORTURE_STORE_HISTORY_H_
#define QUIRE_BENCH_TORTURE_STORE_HISTORY_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/torture/store/event.h"

namespace quire::torture {

/// State of a segment found in a store.
enum class Found : uint8_t {
  kWhole,       ///< All of it can be read and equals the put.
  kMissing,     ///< There is no such segment.
  kUnreadable,  ///< It exists, and a part of it is refused.
  kWrong,       ///< Bytes were served that differ from the put.
};

class History {
 public:
  struct Totals {
    uint64_t acknowledged = 0;
    uint64_t refused = 0;
    uint64_t lost = 0;      ///< Acknowledged, and missing or unreadable.
    uint64_t half = 0;      ///< Never ended, and neither whole nor missing.
    uint64_t appeared = 0;  ///< There although deleted, or never put.
    uint64_t corrupt = 0;   ///< Wrong bytes.
    /// True if the store kept its promises.
    bool sound() const { return lost + half + appeared + corrupt == 0; }
  };

  void Apply(const Event& event);
  /// Compares with the state found in the store, counts differences, and continues from that state.
  /// `answer` is the store's answer.
  void Compare(SegmentId segment, Found found, std::string_view answer = "");
  /// Forgets the expected state, for another, empty store; keeps the totals.
  void ForgetStates() { entries_.clear(); }
  /// Counts segments found outside the corpus.
  void CountStrangers(uint64_t segments) { totals_.appeared += segments; }

  const Totals& totals() const { return totals_; }
  /// Returns the first problems since the previous call, in words: the segment, the store's answer,
  /// and its last changes.
  std::vector<std::string> TakeProblems();

 private:
  enum class State : uint8_t { kMissing, kThere, kEither };
  static constexpr size_t kStepsKept = 8;
  static constexpr size_t kMostProblems = 20;
  struct Step {
    Event::Operation operation;
    Event::Outcome outcome;
  };
  struct Entry {
    State state = State::kMissing;
    bool running = false;                          ///< A change of it is in flight.
    std::array<Step, kStepsKept> last_steps = {};  ///< Last changes, as a ring.
    uint64_t steps = 0;
    void Keep(const Event& change);
    std::string LastSteps() const;
  };
  void Acknowledge(const Event& event, Entry& entry);
  void Wrong(uint64_t Totals::*kind, SegmentId segment, std::string_view answer);

  std::map<SegmentId, Entry> entries_;
  Totals totals_;
  std::vector<std::string> problems_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_STORE_HISTORY_H_
