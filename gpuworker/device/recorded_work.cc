// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/recorded_work.h"

#include <utility>

namespace quire::worker {

Status RecordedWork::Run(uint64_t key, const std::function<Status()>& work) {
  const auto found = stretches_.find(key);
  if (found == stretches_.end()) {
    QUIRE_RETURN_IF_ERROR(work());
    stretches_.emplace(key, nullptr);
    return OkStatus();
  }
  if (found->second == nullptr) {
    auto graph = device_->Record(work);
    if (!graph.ok()) stretches_.erase(found);
    QUIRE_RETURN_IF_ERROR(graph.status());
    if (*graph == nullptr) return work();
    found->second = *std::move(graph);
  }
  return found->second->Launch();
}

}  // namespace quire::worker
