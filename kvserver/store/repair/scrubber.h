// SPDX-License-Identifier: Apache-2.0
//
// Scrubber: verifies one kind of stored bytes (scrub.h) round after round, at a limited rate and in
// its own thread. Damage is then found while another copy exists or the documents can still be put
// again. It counts, and reports findings to an observer.
//
// Ownership: owns its work; everything else outlives the scrubber, which stops its thread at
// destruction. Thread-safety: all methods may be called concurrently, RunRound by one thread.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_SCRUBBER_H_
#define QUIRE_KVSERVER_STORE_REPAIR_SCRUBBER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>

#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "kvserver/store/policy/scrub_pace.h"
#include "kvserver/store/repair/scrub.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

class Scrubber {
 public:
  struct Options {
    uint64_t bytes_per_second = 0;  ///< 0: unlimited.
    Clock* clock = nullptr;
    ScrubObserver* observer = nullptr;  ///< May be null.
  };
  Scrubber(std::unique_ptr<ScrubWork> work, const Options& options)
      : options_(options), work_(std::move(work)), pace_(options.bytes_per_second) {}
  ~Scrubber();
  Scrubber(const Scrubber&) = delete;
  Scrubber& operator=(const Scrubber&) = delete;

  std::string_view kind() const { return work_->kind(); }
  /// Starts a thread that runs round after round. REQUIRES: called once.
  void Start();
  /// Ends the thread, and a running round, soon. No round starts afterwards.
  void Stop();
  /// Verifies everything once. An error of the work ends the round and is counted.
  Status RunRound();

  /// By `kind`: scrub_rounds, scrub_bytes, scrub_checked, scrub_damaged, scrub_mended,
  /// scrub_skipped, scrub_errors, scrub_round_ms (of the last complete round).
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  void Loop();
  /// Waits. Returns true when the thread must stop.
  bool WaitOrStop(Duration duration);
  bool stopping() const;
  /// Runs steps to the end of the round. Returns false when it was stopped.
  StatusOr<bool> Run(ScrubCounts* counts);
  void Count(const ScrubStep& step, ScrubCounts* round);

  const Options options_;
  const std::unique_ptr<ScrubWork> work_;  // used by the thread that runs rounds, except kind()
  ScrubPace pace_;                         // used by the thread that runs rounds
  std::thread thread_;
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  Counter rounds_, bytes_, checked_, damaged_, mended_, skipped_, errors_;
  std::atomic<uint64_t> round_ms_{0};
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_SCRUBBER_H_
