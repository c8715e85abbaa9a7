// SPDX-License-Identifier: Apache-2.0
//
// Ops over several sequences, one after the other. A CPU gains nothing from one launch for all.
#ifndef QUIRE_KERNELS_CPU_SEQUENCES_H_
#define QUIRE_KERNELS_CPU_SEQUENCES_H_

#include "kernels/api/table.h"

namespace quire::kernels {

/// The arguments of one job.
DigestArgs Alone(const DigestArgs& args, const DigestJob& job);
ScoreArgs Alone(const ScoreArgs& args, const ScoreJob& job);
PoolArgs Alone(const PoolArgs& args, const PoolJob& job);
TopKArgs Alone(const TopKArgs& args, const TopKJob& job);

/// Runs `op`, which was called with jobs, for each of them alone.
template <typename Args>
OpStatus RunJobs(const Args& args, OpStatus (*op)(const Args&)) {
  if (args.n_jobs < 0) return OpStatus::kBadShape;
  for (int64_t i = 0; i < args.n_jobs; ++i) {
    const OpStatus status = op(Alone(args, args.jobs[i]));
    if (status != OpStatus::kOk) return status;
  }
  return OpStatus::kOk;
}

/// Runs `op`, which was called with addresses, for each page or unit alone.
OpStatus RunPages(const NhdToHndArgs& args, NhdToHndFn op);
OpStatus RunUnits(const HndToNhdArgs& args, HndToNhdFn op);

/// True if each sequence has pools or tokens of its own.
inline bool HasOwnPools(const PagedAttentionArgs& args) {
  return args.pools != nullptr || args.tokens != nullptr;
}
/// Runs `op` for each sequence alone, with one pool and with lists. REQUIRES: HasOwnPools(args).
OpStatus RunSequences(const PagedAttentionArgs& args, PagedAttentionFn op);

}  // namespace quire::kernels

#endif  // QUIRE_KERNELS_CPU_SEQUENCES_H_
