// SPDX-License-Identifier: Apache-2.0
//
// The server of a crash round: a process that opens a store, puts it under load, and reports each
// operation on standard output. It ends only on a fault in its own work. If given a fault point, it
// kills itself there.
#ifndef QUIRE_BENCH_TORTURE_CRASH_CHILD_H_
#define QUIRE_BENCH_TORTURE_CRASH_CHILD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/torture/store/corpus.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/payload/fault_points.h"
#include "quire/status.h"

namespace quire::torture {

/// All points at which a server can be killed, by name.
inline constexpr std::array<std::pair<std::string_view, kvserver::FaultPoint>, 6> kKillPoints = {{
    {"volume_made", kvserver::FaultPoint::kVolumeMade},
    {"data_written", kvserver::FaultPoint::kDataWritten},
    {"before_commit", kvserver::FaultPoint::kBeforeCommit},
    {"committed", kvserver::FaultPoint::kCommitted},
    {"releasing", kvserver::FaultPoint::kReleasing},
    {"recovering", kvserver::FaultPoint::kRecovering},
}};

struct CrashChildOptions {
  std::string directory;
  uint64_t corpus_seed = 1;  ///< Seed of the corpus.
  uint64_t load_seed = 1;    ///< Seed of the order of operations.
  uint32_t threads = 3;
  std::string kill_point;  ///< A name of kKillPoints; empty: the parent kills it.
  uint64_t kill_skip = 0;  ///< Passes of the point before the kill.
  /// True: puts, documents, pins and open contexts (ServerLoad), reported as ServerEvents. False:
  /// puts alone (Load), reported as Events.
  bool has_documents = false;
  bool has_limit = false;   ///< With documents: the store evicts segments that no document names.
  int64_t unix_micros = 0;  ///< With documents: the time at its start.
  /// Puts this many bytes in large segments, then waits; 0 for a load instead.
  uint64_t fill_bytes = 0;

  /// Arguments of the hidden command that runs RunCrashChild.
  std::vector<std::string> ToArguments() const;
};

/// The corpus of a child with `fill_bytes`.
Corpus FillCorpus(uint64_t fill_bytes);

/// Options of a store with documents, and the limits of its content.
kvserver::PageStore::Options StoreWithDocuments(const std::string& directory, bool has_limit);
Corpus CorpusOfDocuments(uint64_t seed);

/// Returns only if the store cannot be opened or the kill point is unknown.
Status RunCrashChild(const CrashChildOptions& options);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CRASH_CHILD_H_
