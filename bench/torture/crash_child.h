// SPDX-License-Identifier: Apache-2.0
//
// The server of a crash round: a process that opens a store, puts it under load, tells each
// operation on standard output, and never ends by itself unless something is wrong. It kills itself
// at a fault point when it was told one.
#ifndef QUIRE_BENCH_TORTURE_CRASH_CHILD_H_
#define QUIRE_BENCH_TORTURE_CRASH_CHILD_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/torture/corpus.h"
#include "kvserver/store/page_store.h"
#include "kvserver/store/payload/fault_points.h"
#include "quire/status.h"

namespace quire::torture {

/// Where a server is killed; all of them by name.
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
  uint64_t corpus_seed = 1;  ///< What may be put.
  uint64_t load_seed = 1;    ///< In which order.
  uint32_t threads = 3;
  std::string kill_point;  ///< A name of kKillPoints; empty: somebody else kills it.
  uint64_t kill_skip = 0;  ///< Times that the point is passed before.
  /// Puts, documents, pins and open contexts (ServerLoad), told as ServerEvents; false: puts alone
  /// (Load), told as Events.
  bool has_documents = false;
  bool has_limit = false;   ///< With documents: the store evicts what no document names.
  int64_t unix_micros = 0;  ///< With documents: the time when it starts.
  uint64_t fill_bytes = 0;  ///< Not 0: puts so many bytes in large segments, then waits.

  /// As arguments of the hidden command that runs RunCrashChild.
  std::vector<std::string> ToArguments() const;
};

/// What a child with `fill_bytes` puts.
Corpus FillCorpus(uint64_t fill_bytes);

/// How a server with documents opens its store, and what may be put in it.
kvserver::PageStore::Options StoreWithDocuments(const std::string& directory, bool has_limit);
Corpus CorpusOfDocuments(uint64_t seed);

/// Returns only when the store cannot be opened or the point has no such name.
Status RunCrashChild(const CrashChildOptions& options);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_CRASH_CHILD_H_
