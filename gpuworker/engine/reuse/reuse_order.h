// SPDX-License-Identifier: Apache-2.0
//
// ReuseOrder: which waiting question starts next (RAGCache). The one with the most cached tokens
// for each token to compute is first. A question is passed over a bounded number of times.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_ORDER_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

namespace quire::worker {

/// Tokens of one question and its documents.
struct ReuseWork {
  uint64_t cached = 0;      ///< Reused from DRAM.
  uint64_t to_compute = 0;  ///< All others, at least one.

  /// OrderPriority
  double Priority() const {
    return static_cast<double>(cached) / static_cast<double>(std::max<uint64_t>(to_compute, 1));
  }
};

template <typename Question>
class ReuseOrder {
 public:
  /// A question is passed over at most `window` times. 0: questions start as they came.
  explicit ReuseOrder(uint32_t window) : window_(window) {}

  void Add(Question question, const ReuseWork& work) {
    waiting_.push_back({std::move(question), work.Priority()});
  }
  /// Removes and returns the next question. REQUIRES: one waits.
  Question Take() {
    const auto next = Next();
    for (auto before = waiting_.begin(); before != next; ++before, ++passed_) ++before->passed;
    Question question = std::move(next->question);
    waiting_.erase(next);
    return question;
  }
  /// Times that questions were passed over.
  uint64_t passed() const { return passed_; }

 private:
  struct Waiting {
    Question question;
    double priority;
    uint32_t passed = 0;
  };
  typename std::list<Waiting>::iterator Next() {
    // Those in front were passed over at least as often as those behind them.
    if (waiting_.front().passed >= window_) return waiting_.begin();
    return std::ranges::max_element(waiting_, {}, &Waiting::priority);
  }

  const uint32_t window_;
  std::list<Waiting> waiting_;  ///< As they came.
  uint64_t passed_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_REUSE_ORDER_H_
