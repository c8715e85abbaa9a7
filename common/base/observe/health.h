// SPDX-License-Identifier: Apache-2.0
//
// Health: the board on which components post troubles for the operator. The reasons are a fixed
// set. Each trouble is counted by its reason and gets a log line. A lasting trouble is also listed
// as a degradation of the server (/readyz, the Admin service).
//
// A component raises a lasting trouble as often as it meets it, and clears it once the cause is
// gone. A momentary trouble is noted.
//
// Each reason gets one log line per interval. The next line gives the number of lines left out.
// Thread-safety: all methods may be called concurrently. The log is called without a lock.
#ifndef QUIRE_COMMON_BASE_OBSERVE_HEALTH_H_
#define QUIRE_COMMON_BASE_OBSERVE_HEALTH_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/observe/counters.h"
#include "common/base/observe/metrics.h"
#include "common/base/threads/mutex.h"
#include "quire/clock.h"

namespace quire {

enum class Trouble : uint8_t {
  // Lasting troubles: the server is degraded until they are cleared.
  kDataDamaged,     ///< Stored segments are lost or damaged, and count as missing.
  kRecordsDamaged,  ///< Records of tenants, documents or collections are damaged.
  kDiskFull,        ///< A put found no room on SSD.
  kDeviceFailed,    ///< A put could not be written.
  kDeviceStalled,   ///< I/O has been in flight for too long.
  kSyncFailed,      ///< Nothing can be made durable any more. Only a restart helps.
  kStoreUnreached,  ///< A worker's store cannot be reached.
  kReadFailed,      ///< The device failed a read.
  kCleanupFailed,   ///< Expired or unreferenced data could not be deleted.
  kPinsWaiting,     ///< Pinned documents could not be brought to DRAM after a restart.
  kClusterFrozen,   ///< The view of the cluster may be old: etcd is away or lost its data.
  kNotAMember,      ///< The node's cluster refuses it.
  // Momentary troubles: over when they are reported.
  kDataTorn,         ///< A put without a sync was not whole at the start.
  kMemoryDamaged,    ///< Bytes in DRAM did not match their checksum.
  kDamagedOnTheWay,  ///< A client received other bytes than it was sent.
  kOverQuota,        ///< A tenant was refused room on SSD by its quota.
  kCallRefused,      ///< A call was refused for a limit of its tenant or of the server.
  kCallerUnproven,   ///< A call did not prove its tenant, or named one that there is not.
};
inline constexpr size_t kNumTroubles = 18;

/// Name in logs, metrics and on the wire: "disk_full".
std::string_view Name(Trouble trouble);

class Health {
 public:
  /// A line for the log.
  struct Line {
    Trouble trouble = Trouble::kDataDamaged;
    bool is_over = false;  ///< The trouble was cleared.
    /// Message: the event and the remedy. One line of ASCII, at most 1024 bytes.
    std::string detail = {};
    uint64_t left_out = 0;  ///< Lines of this reason since the last one written.
  };
  using Log = std::function<void(const Line&)>;
  static constexpr Duration kLineInterval = std::chrono::seconds(10);

  /// `clock` outlives the board. Null `log`: no log lines.
  explicit Health(const Clock* clock, Log log = nullptr) : clock_(*clock), log_(std::move(log)) {}

  /// Counts and logs.
  void Note(Trouble trouble, std::string_view detail) { Report(trouble, detail, /*lasts=*/false); }
  /// Counts and logs; the server is degraded until Clear.
  void Raise(Trouble trouble, std::string_view detail) { Report(trouble, detail, /*lasts=*/true); }
  /// Clears a raised trouble. Costs nothing otherwise.
  void Clear(Trouble trouble);
  bool IsRaised(Trouble trouble) const;

  struct Degradation {
    Trouble trouble = Trouble::kDataDamaged;
    std::string detail = {};  ///< Detail of the last Raise.
    int64_t since_unix_micros = 0;
  };
  /// Returns the raised troubles, in order of Trouble.
  std::vector<Degradation> Degradations() const;

  /// Visits troubles and degraded, by reason.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct State {
    Counter count;
    std::atomic<bool> is_raised{false};
    std::string detail = {};        ///< Guarded by mutex_, like every field below.
    int64_t since_unix_micros = 0;  ///< Start of the raised trouble.
    std::optional<TimePoint> last_line = {};
    bool is_told = false;  ///< The last line reported the trouble, not its end.
    uint64_t left_out = 0;
  };
  State& Of(Trouble trouble) { return states_[static_cast<size_t>(trouble)]; }
  const State& Of(Trouble trouble) const { return states_[static_cast<size_t>(trouble)]; }
  void Report(Trouble trouble, std::string_view detail, bool lasts);
  /// Returns the line to write now; nullopt when the interval forbids one.
  std::optional<Line> NextLine(Trouble trouble, bool is_over, std::string_view detail)
      QUIRE_REQUIRES(mutex_);

  const Clock& clock_;
  const Log log_;
  mutable Mutex mutex_;
  std::array<State, kNumTroubles> states_;
};

/// A trouble that shows now and then: a disk with few bad places, or work retried at intervals.
/// Every failure raises it. A success clears it once `quiet` has passed since the last failure.
/// Thread-safety: all methods may be called concurrently.
class RecurringTrouble {
 public:
  /// `health` may be null; it and `clock` outlive the object.
  RecurringTrouble(Health* health, Trouble trouble, const Clock* clock, Duration quiet)
      : health_(health), trouble_(trouble), clock_(*clock), quiet_(quiet) {}

  void Failed(std::string_view detail) QUIRE_EXCLUDES(mutex_);
  /// Costs nothing when no failure was reported.
  void Succeeded() QUIRE_EXCLUDES(mutex_) {
    if (is_raised_.load(std::memory_order_relaxed)) ClearWhenQuiet();
  }

 private:
  void ClearWhenQuiet() QUIRE_EXCLUDES(mutex_);

  Health* const health_;
  const Trouble trouble_;
  const Clock& clock_;
  const Duration quiet_;
  std::atomic<bool> is_raised_{false};
  Mutex mutex_;
  TimePoint last_failure_ QUIRE_GUARDED_BY(mutex_) = {};
};

/// Notes on a board that may be null.
inline void NoteTo(Health* health, Trouble trouble, std::string_view detail) {
  if (health != nullptr) health->Note(trouble, detail);
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_OBSERVE_HEALTH_H_
