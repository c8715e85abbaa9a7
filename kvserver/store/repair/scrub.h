// SPDX-License-Identifier: Apache-2.0
//
// Scrub: values and interfaces of background verification. A ScrubWork verifies one kind of stored
// bytes in steps, round after round. A Scrubber (scrubber.h) runs it at its own rate.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace quire::kvserver {

/// Bytes per second of each kind; 0: not verified.
struct ScrubRates {
  uint64_t payload = 0;  ///< Units on SSD.
  uint64_t dram = 0;     ///< Extents in DRAM, and the pages of open contexts.
  uint64_t digests = 0;  ///< Digests on SSD, and those held in memory for open sessions.
  uint64_t records = 0;  ///< Rows of the database that are no digests, and records in memory.
};

/// Counts of one step or one round of verification.
struct ScrubCounts {
  uint64_t bytes = 0;
  uint64_t checked = 0;  ///< Units, digests or records.
  uint64_t damaged = 0;  ///< Damaged segments, extents, units, digests or records.
  uint64_t mended = 0;   ///< Damaged ones that were repaired.
  uint64_t skipped = 0;  ///< Segments skipped because of concurrent changes.
  uint64_t errors = 0;   ///< Failed reads of the device or the database.
};

struct ScrubStep {
  ScrubCounts counts;
  std::string found = {};  ///< Damage found, for people. Empty when there is none.
};

class ScrubWork {
 public:
  virtual ~ScrubWork() = default;
  /// Value of the label `kind` of the scrub's metrics.
  virtual std::string_view kind() const = 0;
  /// Starts a round from the beginning.
  virtual void Begin() = 0;
  /// Verifies a little more. Its damage is marked or repaired on return. nullopt after the last
  /// step of a round. An error ends the round. No lock is held between two steps.
  virtual StatusOr<std::optional<ScrubStep>> Next() = 0;
};

/// A round that is complete, or that an error ended.
struct ScrubRound {
  std::string_view kind;
  ScrubCounts counts;
  Duration took = {};
  Status status = {};
};

/// Receives results. Thread-safety: calls of different kinds are concurrent.
class ScrubObserver {
 public:
  virtual ~ScrubObserver() = default;
  /// Called for damage, a bounded number of times in a round. The round counts all damage.
  virtual void OnDamage(std::string_view kind, const std::string& what) = 0;
  virtual void OnRound(const ScrubRound& round) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_
