// SPDX-License-Identifier: Apache-2.0
//
// ServerHistory: the expected content of a store and its registry after a power failure or a crash,
// by their acknowledgements, and the differences found. No I/O.
// Thread-safety: all methods may be called concurrently; events of one chain and its document come
// from one thread, in order.
//
//   segment   put, acknowledged as persisted   whole until a delete of it starts, with all that it
//                                              continues
//             put, acknowledged as memory      whole while the power is on; then whole or missing
//             delete, acknowledged             missing while the power is on; then whole or missing
//             failed, or never ended           whole or missing
//             in no case                       there and not readable, or other bytes
//   document  registered, acknowledged         there until a delete of it starts, and until it
//                                              expires. Its segments are whole while the power is
//                                              on; then each is as durable as its put was
//             deleted, or expired              not there
//   pin       acknowledged                     there as long as its document, until its removal
//                                              starts
//             removed, or a new document       not there
//
// A crash of the process loses nothing (Options::keeps_everything). Data acknowledged as memory
// then counts as persisted, and a delete as durable. A store with a limit evicts (Options::evicts).
// Only segments that a document names must then be there.
#ifndef QUIRE_BENCH_TORTURE_SERVER_SERVER_HISTORY_H_
#define QUIRE_BENCH_TORTURE_SERVER_SERVER_HISTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/torture/server/server_event.h"
#include "bench/torture/store/corpus.h"
#include "bench/torture/store/history.h"
#include "common/base/threads/mutex.h"

namespace quire::torture {

class ServerHistory {
 public:
  struct Options {
    bool keeps_everything = false;
    bool evicts = false;
    uint32_t segments = 4;  ///< Segments of each chain; a document names all of them.
  };
  struct Totals {
    uint64_t acknowledged = 0;
    uint64_t persisted = 0;  ///< Acknowledged segments that must survive.
    uint64_t failed = 0;     ///< Operations that ended with an error.
    /// Acknowledged items that are gone or unreadable although they must exist.
    uint64_t lost = 0;
    uint64_t half = 0;       ///< Items that exist although they need not, and are unreadable.
    uint64_t appeared = 0;   ///< Items that exist although they must be gone.
    uint64_t corrupt = 0;    ///< Items with other bytes than were put.
    uint64_t pins_kept = 0;  ///< Pins found where they must be.
    uint64_t expired = 0;    ///< Expired documents found gone.
    bool sound() const { return lost + half + appeared + corrupt == 0; }
  };

  ServerHistory() : ServerHistory(Options()) {}
  explicit ServerHistory(const Options& options) : options_(options) {}

  void Apply(const ServerEvent& event);
  /// The time of the last kTimeIs; 0 before the first.
  int64_t now_micros() const;

  /// Compares the state after power returned with the expected one: documents and their pins first,
  /// then segments. Continues from the found state. `expires_micros` belongs to a document that was
  /// found.
  void CompareDocument(uint32_t chain, bool found, int64_t expires_micros, std::string_view answer);
  void ComparePin(uint32_t chain, bool found);
  void Compare(SegmentId segment, Found found, std::string_view answer);
  /// Counts segments found outside the corpus.
  void CountStrangers(uint64_t segments);
  /// Drops all expectations, for a store that cannot be opened or for another, empty one in its
  /// place.
  void StartAfresh(const Options& options);

  Totals totals() const;
  /// Returns the first problems since the previous call, in words.
  std::vector<std::string> TakeProblems();

 private:
  enum class State : uint8_t { kMissing, kThere, kEither };
  struct Entry {
    State now = State::kMissing;    ///< While the power is on.
    State after = State::kMissing;  ///< After the power fails.
    std::string last_steps;         ///< The last few changes, in words.
  };
  struct Document {
    State state = State::kMissing;
    State pin = State::kMissing;
    /// Earliest and latest time of its expiry.
    int64_t expires_least = ServerEvent::kNever;
    int64_t expires_most = ServerEvent::kNever;
    /// Expired and possibly not removed yet, so that its segments may still be removed.
    bool is_going = false;
    std::string last_steps;
  };

  static void Keep(std::string& last_steps, std::string_view step);
  /// Marks `state` as one that may exist or not from now on.
  static void MayCome(State& state);
  static void MayGo(State& state);
  void SegmentsMayGo(uint32_t chain, std::string_view step) QUIRE_REQUIRES(mutex_);
  /// The first `count` segments of the chain are stored now, or also `after` a failure.
  void AreThere(uint32_t chain, uint32_t count, bool after) QUIRE_REQUIRES(mutex_);

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

#endif  // QUIRE_BENCH_TORTURE_SERVER_SERVER_HISTORY_H_
