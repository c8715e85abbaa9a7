// SPDX-License-Identifier: Apache-2.0
//
// Checks of a reopened server in torture runs: its content matches its history, and its accounts
// match the disk.
#ifndef QUIRE_BENCH_TORTURE_SERVER_SERVER_LOOK_H_
#define QUIRE_BENCH_TORTURE_SERVER_SERVER_LOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/server/server_history.h"
#include "bench/torture/server/server_load.h"
#include "bench/torture/store/corpus.h"
#include "kvserver/store/repair/fsck.h"
#include "quire/status.h"

namespace quire::torture {

/// Compares documents, their pins and the segments of the corpus with the history.
Status CompareServer(TorturedServer& server, const Corpus& corpus, ServerHistory* history);

/// A server's own count of what it stores.
struct SpaceAccount {
  uint64_t segments = 0;
  uint64_t bytes = 0;
  uint64_t cached_segments = 0;  ///< Segments that no document refers to; and their bytes.
  uint64_t cached_bytes = 0;
};
SpaceAccount AccountOf(const TorturedServer& server);

/// Problems of a directory whose server was closed cleanly: findings of fsck, and counts that
/// differ from the server's.
std::vector<std::string> ProblemsOfSpace(const SpaceAccount& account,
                                         const kvserver::FsckReport& checked);

/// Deletes everything that a server holds, documents and segments. Returns descriptions of what
/// remains; nothing may.
StatusOr<std::vector<std::string>> EmptyServer(TorturedServer& server, const Corpus& corpus);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_SERVER_LOOK_H_
