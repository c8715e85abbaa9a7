// SPDX-License-Identifier: Apache-2.0
//
// PassPool: forward passes that are kept between calls. A decode step then allocates nothing, and
// what its pass has recorded on the device stays of use. Passes for long blocks are not kept.
// Ownership: owns the passes; borrows the model. Leases end before the pool. Thread-safety: safe.
#ifndef QUIRE_GPUWORKER_MODEL_PASS_POOL_H_
#define QUIRE_GPUWORKER_MODEL_PASS_POOL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/threads/mutex.h"
#include "gpuworker/model/forward_pass.h"
#include "quire/status.h"

namespace quire::worker {

class PassPool {
 public:
  explicit PassPool(const Model& model) : model_(model) {}

  /// A pass that is the holder's alone; it goes back to the pool with the lease.
  using Lease = std::unique_ptr<ForwardPass, std::function<void(ForwardPass*)>>;
  /// For blocks of up to `max_tokens`. RESOURCE_EXHAUSTED when the device has no memory for it.
  StatusOr<Lease> Take(uint32_t max_tokens) QUIRE_EXCLUDES(mutex_);

 private:
  static constexpr uint32_t kKeptTokens = 64;  ///< Passes for more are freed.
  static constexpr size_t kKeptPasses = 16;

  void Return(ForwardPass* pass) QUIRE_EXCLUDES(mutex_);

  const Model& model_;
  Mutex mutex_;
  std::vector<std::unique_ptr<ForwardPass>> idle_ QUIRE_GUARDED_BY(mutex_);
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_MODEL_PASS_POOL_H_
