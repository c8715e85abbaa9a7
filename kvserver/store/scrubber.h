// SPDX-License-Identifier: Apache-2.0
//
// Scrubber: reads everything that is stored on SSD again, at a limited rate, and verifies every
// unit against its checksum, so that damage is found while the documents can still be put again. A
// segment that is damaged counts as missing from then on, as if a reader had found it, and the next
// put of it repairs it.
//
// It reads around DRAM, a few units at a time under the lock of their segment: a put or a delete
// waits for one such read at most, and a segment that somebody is changing is left to the next
// round.
//
// Ownership: everything given outlives the scrubber, which stops its thread at destruction.
// Thread-safety: all methods may be called concurrently, RunRound by one thread.
#ifndef QUIRE_KVSERVER_STORE_SCRUBBER_H_
#define QUIRE_KVSERVER_STORE_SCRUBBER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <thread>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "kvserver/store/database.h"
#include "kvserver/store/keyed_lock.h"
#include "kvserver/store/policy/scrub_pace.h"
#include "kvserver/store/segment_catalog.h"
#include "kvserver/store/ssd_tier.h"

namespace quire::kvserver {

class Scrubber {
 public:
  struct Parts {
    Database* database = nullptr;
    SegmentCatalog* catalog = nullptr;
    SsdTier* ssd = nullptr;
    KeyedLock* writers = nullptr;
    Clock* clock = nullptr;
  };
  /// `bytes_per_second` 0: as fast as can be.
  Scrubber(const Parts& parts, uint64_t bytes_per_second)
      : parts_(parts), pace_(bytes_per_second) {}
  ~Scrubber();
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  /// Runs round after round in a thread of its own. REQUIRES: called once.
  void Start();
  /// Ends the thread, and a round that runs, soon. No round starts afterwards.
  void Stop();
  /// Verifies everything that is stored once. An error of the database ends it.
  Status RunRound();

  /// scrub_rounds, scrub_bytes, scrub_units, scrub_damaged (segments), scrub_skipped (segments that
  /// were being changed), scrub_errors (reads that the device failed), scrub_round_ms (the last
  /// one's).
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  /// A segment that is read.
  struct Segment {
    SegmentKey key;
    std::string encoded;  ///< Its record, to see whether it is still the same.
    SegmentRecord record;
  };
  /// What came of reading a few units.
  enum class Verdict : uint8_t { kGoOn, kLeaveSegment };

  void Loop();
  /// Waits; true when it is to stop.
  bool WaitOrStop(Duration duration);
  bool stopping() const;
  /// The first row after `cursor`, which it replaces; false when there is none.
  StatusOr<bool> Next(std::string* cursor, std::string* value) const;
  void ScrubSegment(const std::string& key, std::string value);
  Verdict ScrubUnits(const Segment& segment, uint32_t layer, uint32_t first, uint32_t count);
  /// Whether the segment is stored as it was read. REQUIRES: its lock is held.
  bool IsSame(const Segment& segment) const;
  void FoundDamage(const SegmentKey& key);

  const Parts parts_;
  ScrubPace pace_;  // of the thread that runs rounds
  std::thread thread_;
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  Counter rounds_, bytes_, units_, damaged_, skipped_, errors_;
  std::atomic<uint64_t> round_ms_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_SCRUBBER_H_
