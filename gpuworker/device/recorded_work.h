// SPDX-License-Identifier: Apache-2.0
//
// RecordedWork: stretches of kernels that are the same whenever they run. On a device that records,
// the first run of a stretch loads what it needs. The second run records it. Later runs are one
// launch. Elsewhere it always runs as it is, and so does a stretch that the device could not
// record. Ownership: borrows the device; what a stretch points to is there whenever it runs.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_
#define QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "gpuworker/device/device.h"
#include "quire/status.h"

namespace quire::worker {

template <typename Key>
class RecordedWork {
 public:
  using Work = std::function<Status()>;
  /// Keeps the `most` stretches, at least one, that ran last.
  explicit RecordedWork(Device* device, size_t most = std::numeric_limits<size_t>::max())
      : device_(device), most_(most) {}

  /// Gives the device the stretch `key`: `work` as Device::Record wants it, with the same kernels
  /// and arguments at every call with this key. An error of the work forgets the stretch. An error
  /// of the recording alone is ignored: the stretch then runs unrecorded at every call.
  [[nodiscard]] Status Run(const Key& key, const Work& work) { return Run(key, work, work); }
  /// The first time `first` runs in its place, which may give the device the same in other ways.
  [[nodiscard]] Status Run(const Key& key, const Work& work, const Work& first);
  /// Forgets all stretches.
  void Clear() { stretches_.clear(); }

 private:
  struct Stretch {
    std::unique_ptr<DeviceGraph> graph;  ///< Null when it ran once, or is not recorded.
    bool cannot_be_recorded = false;
    uint64_t ran = 0;  ///< In which of all runs it did last.
  };
  void MakeRoom();

  Device* const device_;
  const size_t most_;
  uint64_t runs_ = 0;
  std::map<Key, Stretch> stretches_;
};

template <typename Key>
Status RecordedWork<Key>::Run(const Key& key, const Work& work, const Work& first) {
  const auto found = stretches_.find(key);
  if (found == stretches_.end()) {
    QUIRE_RETURN_IF_ERROR(first());
    MakeRoom();
    stretches_.emplace(key, Stretch{.graph = nullptr, .ran = ++runs_});
    return OkStatus();
  }
  Stretch& stretch = found->second;
  stretch.ran = ++runs_;
  if (stretch.graph == nullptr && !stretch.cannot_be_recorded) {
    auto graph = device_->Record(work);
    stretch.cannot_be_recorded = !graph.ok();  // Where the work is at fault, it fails below, too.
    if (graph.ok()) stretch.graph = *std::move(graph);
  }
  if (stretch.graph != nullptr) return stretch.graph->Launch();
  const Status status = stretch.cannot_be_recorded ? first() : work();
  if (!status.ok()) stretches_.erase(found);
  return status;
}

template <typename Key>
void RecordedWork<Key>::MakeRoom() {
  if (stretches_.size() < most_) return;
  stretches_.erase(std::ranges::min_element(
      stretches_, {}, [](const auto& stretch) { return stretch.second.ran; }));
}

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DEVICE_RECORDED_WORK_H_
