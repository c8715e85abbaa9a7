// SPDX-License-Identifier: Apache-2.0
//
// FollowedRun: what a sequence runs its tokens through (paged_run.h), token by token, with the
// pages that every layer attended to. Nothing that ships includes this. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TESTING_FOLLOWED_RUN_H_
#define QUIRE_GPUWORKER_TESTING_FOLLOWED_RUN_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/threads/executor.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/engine/offload/unit_buffers.h"
#include "gpuworker/engine/paged_run.h"
#include "quire/client.h"
#include "quire/layout.h"

namespace quire::worker::testing {

/// One token's.
struct FollowedStep {
  std::vector<float> logits;
  /// [num_layers][n_kv] pages attended to besides sinks and window, ascending.
  std::vector<std::vector<std::vector<uint32_t>>> pages;
};

class FollowedRun {
 public:
  /// Opens over document "doc" of a fixture (its engine, decoder and client, on the CPU), which
  /// outlives this. Pages are sent by `offload_executor`; null: by a thread, as an engine does it.
  template <typename Fixture>
  FollowedRun(Fixture& fixture, RetrievalOptions retrieval, Executor* offload_executor = nullptr)
      : retrieval_(std::move(retrieval)),
        unit_buffers_(&CpuDevice(), SegmentBytes(fixture.engine().spec(), 1)),
        parts_{
            .decoder = &fixture.decoder(),
            .client = &fixture.client(),
            .device = &CpuDevice(),
            .spec = &fixture.engine().spec(),
            .clock = fixture.engine().options().clock,
            .prefill_chunk_tokens = fixture.engine().options().prefill_chunk_tokens,
            .max_batch_bytes = fixture.engine().options().max_batch_bytes,
            .recall_executor = &recall_thread_,
            .offload_executor = offload_executor != nullptr ? offload_executor : &offload_thread_,
            .unit_buffers = &unit_buffers_},
        sessions_(parts_.client, parts_.spec) {
    const auto document = parts_.client->GetDocument({.name = "doc"});
    EXPECT_TRUE(document.ok()) << document.status();
    auto run = PagedRun::Open(parts_, retrieval_, &*document, &sessions_, &stats_);
    EXPECT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
  }

  /// Before the first token: pages are selected by what `wrap` makes of the policy.
  void Wrap(const std::function<std::unique_ptr<RetrievalPolicy>(std::unique_ptr<RetrievalPolicy>)>&
                wrap) {
    auto suspended = PagedRun::Suspend(std::move(run_));
    EXPECT_TRUE(suspended.ok()) << suspended.status();
    suspended->policy = wrap(std::move(suspended->policy));
    auto run = PagedRun::Resume(parts_, retrieval_, *std::move(suspended), &sessions_, &stats_);
    EXPECT_TRUE(run.ok()) << run.status();
    run_ = *std::move(run);
  }

  FollowedStep Next(TokenId token) {
    FollowedStep step;
    step.logits.resize(parts_.decoder->config().vocab_size);
    EXPECT_EQ(run_->Forward({&token, 1}, Decoder::Logits::kLast, step.logits.data()), OkStatus());
    for (uint32_t layer = 0; layer < parts_.spec->num_layers; ++layer) {
      auto& heads = step.pages.emplace_back();
      for (uint32_t head = 0; head < parts_.spec->num_kv_heads; ++head) {
        heads.push_back(run_->cache().table(layer).ActivePages(head));
      }
    }
    return step;
  }
  std::vector<FollowedStep> Steps(std::span<const TokenId> tokens) {
    std::vector<FollowedStep> steps;
    for (const TokenId token : tokens) steps.push_back(Next(token));
    return steps;
  }
  const RecallStats& recalls() const { return stats_.recall; }

 private:
  const RetrievalOptions retrieval_;
  ThreadPool recall_thread_{{.threads = 1}};   ///< As in an engine.
  ThreadPool offload_thread_{{.threads = 1}};  ///< As in an engine.
  UnitBuffers unit_buffers_;
  const EngineParts parts_;
  RunStats stats_;
  OwnSessions sessions_;
  std::unique_ptr<PagedRun> run_;  ///< Last: goes first.
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_FOLLOWED_RUN_H_
