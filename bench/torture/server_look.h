// SPDX-License-Identifier: Apache-2.0
//
// Checks of a server that torture runs opened again: it holds what its history says, and its
// accounts agree with what lies on the disk.
#ifndef QUIRE_BENCH_TORTURE_SERVER_LOOK_H_
#define QUIRE_BENCH_TORTURE_SERVER_LOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/torture/corpus.h"
#include "bench/torture/server_history.h"
#include "bench/torture/server_load.h"
#include "kvserver/store/repair/fsck.h"
#include "quire/status.h"

namespace quire::torture {

/// Compares documents, their pins and the segments of the corpus with the history.
Status CompareServer(TorturedServer& server, const Corpus& corpus, ServerHistory* history);

/// What a server says that it stores.
struct SpaceAccount {
  uint64_t segments = 0;
  uint64_t bytes = 0;
  uint64_t cached_segments = 0;  ///< That no document refers to; and their bytes.
  uint64_t cached_bytes = 0;
};
SpaceAccount AccountOf(const TorturedServer& server);

/// What is wrong with a directory whose server was closed in order, in words: what fsck finds, and
/// where it counts others than the server did.
std::vector<std::string> ProblemsOfSpace(const SpaceAccount& account,
                                         const kvserver::FsckReport& checked);

/// Deletes everything that a server holds, documents and segments. What is still there then, in
/// words: nothing may be.
StatusOr<std::vector<std::string>> EmptyServer(TorturedServer& server, const Corpus& corpus);

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_SERVER_LOOK_H_
