// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_channel.h"

#include <utility>
#include <vector>

namespace quire::worker {
namespace {

class OwnRecall final : public ChannelRecall {
 public:
  OwnRecall(std::shared_ptr<SessionLanding> landing, std::unique_ptr<PendingRecall> recall)
      : landing_(std::move(landing)), recall_(std::move(recall)) {}
  TimePoint deadline() const override { return recall_->deadline(); }
  StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override {
    return recall_->Next(deadline);
  }

 private:
  const std::shared_ptr<SessionLanding> landing_;  ///< Outlives the recall.
  const std::unique_ptr<PendingRecall> recall_;
};

}  // namespace

StatusOr<std::unique_ptr<ChannelRecall>> SessionChannel::Start(LayerWant want,
                                                               const RecallOptions& options) {
  want.sequence = sequence_;
  std::vector<LayerWant> wants;
  wants.push_back(std::move(want));
  const std::shared_ptr<SessionLanding>& landing = staging_->landing();
  RecallOptions landed = options;
  landed.landing = landing.get();
  if (landing != nullptr) landed.piece_bytes = 0;  // Nothing of it is seen before all of it.
  QUIRE_ASSIGN_OR_RETURN(auto recall, session_->Start(std::move(wants), landed));
  return std::unique_ptr<ChannelRecall>(new OwnRecall(landing, std::move(recall)));
}

}  // namespace quire::worker
