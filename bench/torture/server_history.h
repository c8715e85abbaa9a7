// SPDX-License-Identifier: Apache-2.0
//
// ServerHistory: what a store and its registry must hold after a power failure or a crash, by what
// they had acknowledged, and what is wrong when they hold something else. No I/O. Thread-safety:
// all methods may be called concurrently; what is told of one chain and its document comes from one
// thread, in order.
//
//   segment   put, acknowledged as persisted   whole until somebody starts to delete it
//             put, acknowledged as memory      whole while the power is on; then whole or missing
//             delete, acknowledged             missing while the power is on; then whole or missing
//             failed, or never ended           whole or missing
//             in no case                       there and not readable, or other bytes
//   document  registered, acknowledged         there until somebody starts to delete it, and until
//                                              it expires
//             deleted, or expired              not there
//   pin       acknowledged                     there as long as its document, until somebody starts
//                                              to take it back
//             taken back, or a new document    not there
//
// A crash of the process takes nothing along (Options::keeps_everything): then what is acknowledged
// as memory counts as persisted, and a delete as durable. A store with a limit evicts
// (Options::evicts): then only those segments must be there that a document names.
#ifndef QUIRE_BENCH_TORTURE_SERVER_HISTORY_H_
#define QUIRE_BENCH_TORTURE_SERVER_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/history.h"
#include "bench/torture/server_event.h"
#include "common/base/mutex.h"

namespace quire::torture {

class ServerHistory {
 public:
  struct Options {
    bool keeps_everything = false;
    bool evicts = false;
    uint32_t segments = 4;  ///< Of each chain; a document names all of them.
  };
  struct Totals {
    uint64_t acknowledged = 0;
    uint64_t persisted = 0;  ///< Of those, what has to survive.
    uint64_t failed = 0;     ///< Operations that ended with an error.
    uint64_t lost = 0;       ///< Acknowledged, and gone or unreadable when it had to be there.
    uint64_t half = 0;       ///< There without having to be, and not readable.
    uint64_t appeared = 0;   ///< There although it had to be gone.
    uint64_t corrupt = 0;    ///< Other bytes than were put.
    uint64_t pins_kept = 0;  ///< Found, as they had to be.
    uint64_t expired = 0;    ///< Documents found gone whose time was over.
    bool sound() const { return lost + half + appeared + corrupt == 0; }
  };

  ServerHistory() : ServerHistory(Options()) {}
  explicit ServerHistory(const Options& options) : options_(options) {}

  void Apply(const ServerEvent& event);
  /// The time of the last kTimeIs; 0 before the first.
  int64_t now_micros() const;

  /// Compares what was found after the power came back with what must be there: documents and their
  /// pins first, then segments. The history goes on from what was found.
  /// `expires_micros`: of a document that was found.
  void CompareDocument(uint32_t chain, bool found, int64_t expires_micros, std::string_view answer);
  void ComparePin(uint32_t chain, bool found);
  void Compare(SegmentId segment, Found found, std::string_view answer);
  /// Segments outside the corpus were found.
  void CountStrangers(uint64_t segments);
  /// Expects nothing any more, of a store that cannot be opened or of another, empty one in its
  /// place.
  void StartAfresh(const Options& options);

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
  struct Document {
    State state = State::kMissing;
    State pin = State::kMissing;
    /// When it expires: one of these moments, or one between them.
    int64_t expires_least = ServerEvent::kNever;
    int64_t expires_most = ServerEvent::kNever;
    /// It has expired and may not be removed yet, so that its segments may still go.
    bool is_going = false;
    std::string last_steps;
  };

  static void Keep(std::string& last_steps, std::string_view step);
  /// Mark `state` as one that may be there, or may be gone, from now on.
  static void MayCome(State& state);
  static void MayGo(State& state);
  void SegmentsMayGo(uint32_t chain, std::string_view step) QUIRE_REQUIRES(mutex_);

  void PutStarts(SegmentId segment) QUIRE_REQUIRES(mutex_);
  void PutEnds(SegmentId segment, bool ok, bool persisted) QUIRE_REQUIRES(mutex_);
  void DeleteStarts(SegmentId segment) QUIRE_REQUIRES(mutex_);
  void DeleteEnds(SegmentId segment, bool ok, bool held) QUIRE_REQUIRES(mutex_);
  void WasRead(SegmentId segment, Found found) QUIRE_REQUIRES(mutex_);
  void RegisterStarts(uint32_t chain, int64_t expires) QUIRE_REQUIRES(mutex_);
  void RegisterEnds(uint32_t chain, bool ok, bool existed, int64_t expires) QUIRE_REQUIRES(mutex_);
  void UnregisterStarts(uint32_t chain, bool keeps_segments) QUIRE_REQUIRES(mutex_);
  void UnregisterEnds(uint32_t chain, bool ok) QUIRE_REQUIRES(mutex_);
  void PinStarts(uint32_t chain, bool on) QUIRE_REQUIRES(mutex_);
  void PinEnds(uint32_t chain, bool on, bool ok) QUIRE_REQUIRES(mutex_);
  void TimeIs(int64_t micros) QUIRE_REQUIRES(mutex_);
  void ExpiredRemoved() QUIRE_REQUIRES(mutex_);

  /// The promise of a segment's state. A segment that may have been evicted promises nothing.
  State Promised(State state, uint32_t chain) const QUIRE_REQUIRES(mutex_);
  bool IsNamed(uint32_t chain) const QUIRE_REQUIRES(mutex_);
  void Wrong(uint64_t Totals::*kind, std::string_view what, std::string_view last_steps,
             std::string_view answer) QUIRE_REQUIRES(mutex_);
  void Check(State expected, Found found, std::string_view what, std::string_view last_steps,
             std::string_view answer) QUIRE_REQUIRES(mutex_);
  void End(bool ok, bool persisted) QUIRE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Options options_ QUIRE_GUARDED_BY(mutex_);
  std::map<SegmentId, Entry> segments_ QUIRE_GUARDED_BY(mutex_);
  std::map<uint32_t, Document> documents_ QUIRE_GUARDED_BY(mutex_);
  int64_t now_micros_ QUIRE_GUARDED_BY(mutex_) = 0;
  Totals totals_ QUIRE_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_HISTORY_H_
