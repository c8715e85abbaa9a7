// SPDX-License-Identifier: Apache-2.0
//
// Health: the one board on which components post what an operator has to know of. Each trouble is
// counted by its reason, gets a log line, and, while it lasts, is listed as a degradation of the
// server (/readyz, the Admin service). The reasons are a fixed set.
//
// A component raises a trouble that lasts where it meets it, as often as it meets it, and clears it
// where it sees that the cause is gone. What is over as soon as it was told is noted.
//
// Lines are limited: one for each reason and interval; the next one says how many were left out.
// Thread-safety: all methods may be called concurrently. The log is called without a lock.
#ifndef QUIRE_COMMON_BASE_HEALTH_H_
#define QUIRE_COMMON_BASE_HEALTH_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/counters.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "quire/clock.h"

namespace quire {

enum class Trouble : uint8_t {
  // They last: the server is degraded until they are cleared.
  kDataDamaged,     ///< Stored segments are lost or damaged, and count as missing.
  kRecordsDamaged,  ///< Records of tenants, documents or collections are damaged.
  kDiskFull,        ///< A put found no room on SSD.
  kDeviceFailed,    ///< A put could not be written.
  kDeviceStalled,   ///< I/O has been in flight for too long.
  kSyncFailed,      ///< Nothing can be made durable any more; only a restart helps.
  kStoreUnreached,  ///< A worker's store cannot be reached.
  kReadFailed,      ///< The device failed a read.
  kCleanupFailed,   ///< What has expired, or what nothing refers to, could not be deleted.
  kPinsWaiting,     ///< Pinned documents could not be brought to DRAM after a restart.
  // They are over when they are told.
  kDataTorn,         ///< What was put without a sync was not whole at the start.
  kMemoryDamaged,    ///< Bytes in DRAM did not match their checksum.
  kDamagedOnTheWay,  ///< A client received other bytes than it was sent.
  kOverQuota,        ///< A tenant was refused room on SSD by its quota.
  kCallRefused,      ///< A call was refused for a limit of its tenant or of the server.
  kCallerUnproven,   ///< A call did not prove its tenant, or named one that there is not.
};
inline constexpr size_t kNumTroubles = 16;

/// As logs, metrics and wire have it: "disk_full".
std::string_view Name(Trouble trouble);

class Health {
 public:
  /// A line for the log.
  struct Line {
    Trouble trouble = Trouble::kDataDamaged;
    bool is_over = false;  ///< It was cleared.
    std::string detail =
        {};  ///< What happened and what to do: one line of ASCII, 1024 bytes at most.
    uint64_t left_out = 0;  ///< Lines of this reason since the last one that was written.
  };
  using Log = std::function<void(const Line&)>;
  static constexpr Duration kLineInterval = std::chrono::seconds(10);

  /// `clock` outlives the board. Without a `log` there are no lines.
  explicit Health(const Clock* clock, Log log = nullptr) : clock_(*clock), log_(std::move(log)) {}

  /// Counts and logs.
  void Note(Trouble trouble, std::string_view detail) { Tell(trouble, detail, /*lasts=*/false); }
  /// Counts and logs; the server is degraded until Clear.
  void Raise(Trouble trouble, std::string_view detail) { Tell(trouble, detail, /*lasts=*/true); }
  /// Costs nothing unless it was raised.
  void Clear(Trouble trouble);
  bool IsRaised(Trouble trouble) const;

  struct Degradation {
    Trouble trouble = Trouble::kDataDamaged;
    std::string detail = {};  ///< As it was last raised.
    int64_t since_unix_micros = 0;
  };
  /// Troubles that are raised now, in order of Trouble.
  std::vector<Degradation> Degradations() const;

  /// troubles and degraded, by reason.
  void VisitMetrics(MetricsVisitor& visit) const;

 private:
  struct State {
    Counter count;
    std::atomic<bool> is_raised{false};
    std::string detail = {};        ///< Guarded by mutex_, as what follows.
    int64_t since_unix_micros = 0;  ///< While it is raised.
    std::optional<TimePoint> last_line = {};
    bool is_told = false;  ///< The last line said that it happened, not that it is over.
    uint64_t left_out = 0;
  };
  State& Of(Trouble trouble) { return states_[static_cast<size_t>(trouble)]; }
  const State& Of(Trouble trouble) const { return states_[static_cast<size_t>(trouble)]; }
  void Tell(Trouble trouble, std::string_view detail, bool lasts);
  /// The line to write now, if one may be.
  std::optional<Line> NextLine(Trouble trouble, bool is_over, std::string_view detail)
      QUIRE_REQUIRES(mutex_);

  const Clock& clock_;
  const Log log_;
  mutable Mutex mutex_;
  std::array<State, kNumTroubles> states_;
};

/// A trouble that shows only now and then, like a disk with a few bad places, or work that is tried
/// again at intervals. It is raised by each failure, and over when a success comes `quiet` or more
/// after the last of them. Thread-safety: all methods may be called concurrently.
class RecurringTrouble {
 public:
  /// `health` may be null; it and `clock` outlive the object.
  RecurringTrouble(Health* health, Trouble trouble, const Clock* clock, Duration quiet)
      : health_(health), trouble_(trouble), clock_(*clock), quiet_(quiet) {}

  void Failed(std::string_view detail) QUIRE_EXCLUDES(mutex_);
  /// Costs nothing unless something failed.
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

/// For components that may have no board.
inline void NoteTo(Health* health, Trouble trouble, std::string_view detail) {
  if (health != nullptr) health->Note(trouble, detail);
}

}  // namespace quire

#endif  // QUIRE_COMMON_BASE_HEALTH_H_
