// SPDX-License-Identifier: Apache-2.0
//
// DelayedPolicy: selects with the query of an earlier step, by another policy, and waits for the
// recall. Attention equals that of speculation without late recalls. Nothing that ships includes
// this. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TESTING_DELAYED_POLICY_H_
#define QUIRE_GPUWORKER_TESTING_DELAYED_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gpuworker/retrieval/policy.h"

namespace quire::worker::testing {

/// [n_kv] pages of one step of a layer, ascending.
using HeadPages = std::vector<std::vector<uint32_t>>;

class DelayedPolicy final : public RetrievalPolicy {
 public:
  /// `next` selects at the worker, and every head of it blocks.
  explicit DelayedPolicy(std::unique_ptr<RetrievalPolicy> next, size_t steps = 1)
      : next_(std::move(next)), steps_(steps) {}

  /// Selections of the other policy with each step's own query.
  const std::vector<HeadPages>& undelayed(uint32_t layer) { return lanes_[layer].undelayed; }
  /// Steps whose selection was an earlier one.
  uint64_t delayed(uint32_t layer) { return lanes_[layer].delayed; }

  std::string_view name() const override { return "delayed"; }
  CacheLayout Layout(uint32_t layer) const override { return next_->Layout(layer); }
  PageObserver* page_observer() override { return next_->page_observer(); }
  /// While all candidates fit there is nothing to delay; nor is there at the first steps that have
  /// to choose.
  StatusOr<Selection> Select(const SelectRequest& request) override {
    QUIRE_ASSIGN_OR_RETURN(Selection now, next_->Select(request));
    Lane& lane = lanes_[request.layer];
    const size_t chosen_before = lane.chosen;
    if (request.candidates.size() > request.max_pages) ++lane.chosen;
    lane.undelayed.push_back(now.pages);
    if (chosen_before < steps_) return now;
    ++lane.delayed;
    return Selection{.pages = lane.undelayed[lane.undelayed.size() - 1 - steps_]};
  }
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override {
    return next_->NeedsBlocking(request);
  }

 private:
  struct Lane {
    std::vector<HeadPages> undelayed;  ///< [steps]
    uint64_t delayed = 0;
    size_t chosen = 0;  ///< Steps that had a choice to make.
  };
  const std::unique_ptr<RetrievalPolicy> next_;
  const size_t steps_;
  std::map<uint32_t, Lane> lanes_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_DELAYED_POLICY_H_
