// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/pass_pool.h"

#include <algorithm>
#include <utility>

namespace quire::worker {

StatusOr<PassPool::Lease> PassPool::Take(uint32_t max_tokens) {
  std::unique_ptr<ForwardPass> pass;
  if (max_tokens <= kKeptTokens) {
    MutexLock lock(mutex_);
    const auto found = std::find_if(idle_.begin(), idle_.end(), [&](const auto& idle) {
      return idle->max_tokens() >= max_tokens;
    });
    if (found != idle_.end()) {
      pass = std::move(*found);
      idle_.erase(found);
    }
  }
  if (pass == nullptr) {
    pass = std::make_unique<ForwardPass>(model_);
    QUIRE_RETURN_IF_ERROR(pass->Allocate(max_tokens));
  }
  return Lease(pass.release(), [this](ForwardPass* returned) { Return(returned); });
}

void PassPool::Return(ForwardPass* pass) {
  std::unique_ptr<ForwardPass> owned(pass);
  if (owned->max_tokens() > kKeptTokens) return;
  MutexLock lock(mutex_);
  if (idle_.size() < kKeptPasses) idle_.push_back(std::move(owned));
}

}  // namespace quire::worker
