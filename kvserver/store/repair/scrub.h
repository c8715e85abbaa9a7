// SPDX-License-Identifier: Apache-2.0
//
// Scrub: what is verified in the background, how fast, and who is told. A ScrubWork is one kind of
// stored bytes that is gone through in steps, round after round; a Scrubber (scrubber.h) runs it at
// its own rate. Values and seams.
#ifndef QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_
#define QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

/// Bytes a second of each kind; 0: that kind is not verified.
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
  uint64_t damaged = 0;  ///< Segments, extents, units, digests or records that were found damaged.
  uint64_t mended = 0;   ///< Those of them that are whole again.
  uint64_t skipped = 0;  ///< Segments that were being changed.
  uint64_t errors = 0;   ///< Reads that the device or the database failed.
};

struct ScrubStep {
  ScrubCounts counts;
  std::string found = {};  ///< Damage found, as text for people; empty when there is none.
};

class ScrubWork {
 public:
  virtual ~ScrubWork() = default;
  /// A value of the label `kind` of the scrub's metrics.
  virtual std::string_view kind() const = 0;
  /// A round begins with what comes first.
  virtual void Begin() = 0;
  /// Verifies a little more, of which damage is marked or mended when this returns; nullopt after
  /// the last of a round. An error ends the round. No lock is held between two steps.
  virtual StatusOr<std::optional<ScrubStep>> Next() = 0;
};

/// A round that went through everything, or that an error ended.
struct ScrubRound {
  std::string_view kind;
  ScrubCounts counts;
  Duration took = {};
  Status status = {};
};

/// Gets told. Thread-safety: calls of different kinds are concurrent.
class ScrubObserver {
 public:
  virtual ~ScrubObserver() = default;
  /// Damage was found. Told a bounded number of times in a round; the round counts all of it.
  virtual void OnDamage(std::string_view kind, const std::string& what) = 0;
  virtual void OnRound(const ScrubRound& round) = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_REPAIR_SCRUB_H_
