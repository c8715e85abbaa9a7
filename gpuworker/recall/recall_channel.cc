// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_channel.h"

#include <utility>
#include <vector>

namespace quire::worker {
namespace {

class OwnRecall final : public LaneRecall {
 public:
  explicit OwnRecall(std::unique_ptr<PendingRecall> recall) : recall_(std::move(recall)) {}
  TimePoint deadline() const override { return recall_->deadline(); }
  StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override {
    return recall_->Next(deadline);
  }

 private:
  const std::unique_ptr<PendingRecall> recall_;
};

}  // namespace

StatusOr<std::unique_ptr<LaneRecall>> SessionChannel::Start(LayerWant want,
                                                            const RecallOptions& options) {
  want.sequence = sequence_;
  std::vector<LayerWant> wants;
  wants.push_back(std::move(want));
  QUIRE_ASSIGN_OR_RETURN(auto recall, session_->Start(std::move(wants), options));
  return std::unique_ptr<LaneRecall>(new OwnRecall(std::move(recall)));
}

}  // namespace quire::worker
