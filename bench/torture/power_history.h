// SPDX-License-Identifier: Apache-2.0
//
// PowerHistory: what a store must hold after a power failure, by what it had acknowledged, and what
// is wrong when it holds something else. No I/O. Thread-safety: all methods may be called
// concurrently; what is told of one segment or document comes from one thread, in order.
//
//   segment   put, acknowledged as persisted   whole until somebody starts to delete it
//             put, acknowledged as memory      whole while the power is on; then whole or missing
//             delete, acknowledged             missing while the power is on; then whole or missing
//             failed, or never ended           whole or missing
//             in no case                       there and not readable, or other bytes
//   document  registered, acknowledged         there until somebody starts to delete it
//             deleted, acknowledged            not there
#ifndef QUIRE_BENCH_TORTURE_POWER_HISTORY_H_
#define QUIRE_BENCH_TORTURE_POWER_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/history.h"
#include "common/base/mutex.h"

namespace quire::torture {

class PowerHistory {
 public:
  struct Totals {
    uint64_t acknowledged = 0;
    uint64_t persisted = 0;  ///< Of those, what has to survive.
    uint64_t failed = 0;     ///< Operations that ended with an error.
    uint64_t lost = 0;       ///< Acknowledged, and gone or unreadable when it had to be there.
    uint64_t half = 0;       ///< There without having to be, and not readable.
    uint64_t appeared = 0;   ///< There although it had to be gone.
    uint64_t corrupt = 0;    ///< Other bytes than were put.
    bool sound() const { return lost + half + appeared + corrupt == 0; }
  };

  void PutStarts(SegmentId segment);
  void PutEnds(SegmentId segment, bool ok, bool persisted);
  void DeleteStarts(SegmentId segment);
  /// `missing`: the store says that there is no such segment.
  void DeleteEnds(SegmentId segment, bool ok, bool missing);
  /// A read while the power is on.
  void WasRead(SegmentId segment, Found found, std::string_view answer);
  void RegisterStarts(uint32_t chain);
  void RegisterEnds(uint32_t chain, bool ok);
  /// The segments of the chain may go with its document.
  void UnregisterStarts(uint32_t chain, uint32_t segments);
  void UnregisterEnds(uint32_t chain, bool ok);

  /// Compares what was found after the power came back with what the store must hold. The history
  /// goes on from what was found.
  void Compare(SegmentId segment, Found found, std::string_view answer);
  void CompareDocument(uint32_t chain, bool found, std::string_view answer);
  /// Expects nothing any more, of a store that cannot be opened or of another, empty one in its
  /// place.
  void Forget();

  Totals totals() const;
  /// The first problems found since the call before, in words.
  std::vector<std::string> TakeProblems();

 private:
  enum class State : uint8_t { kMissing, kThere, kEither };
  struct Entry {
    State now = State::kMissing;    ///< While the power is on.
    State after = State::kMissing;  ///< When it fails.
    std::string last_steps;         ///< The last few changes, in words.
  };

  static void Keep(Entry& entry, std::string_view step);
  void Wrong(uint64_t Totals::*kind, std::string_view what, const Entry& entry,
             std::string_view answer) QUIRE_REQUIRES(mutex_);
  void Check(State expected, Found found, std::string_view what, const Entry& entry,
             std::string_view answer) QUIRE_REQUIRES(mutex_);
  void End(bool ok, bool persisted) QUIRE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<SegmentId, Entry> segments_ QUIRE_GUARDED_BY(mutex_);
  std::map<uint32_t, Entry> documents_ QUIRE_GUARDED_BY(mutex_);
  Totals totals_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_POWER_HISTORY_H_
