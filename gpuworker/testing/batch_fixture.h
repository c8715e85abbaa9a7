// SPDX-License-Identifier: Apache-2.0
//
// BatchTest: batches over an EngineFixture with a document "doc", what is asked of them, and what
// each request brings alone. Nothing that ships includes this.
#ifndef QUIRE_GPUWORKER_TESTING_BATCH_FIXTURE_H_
#define QUIRE_GPUWORKER_TESTING_BATCH_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker::testing {

using Stream = std::shared_ptr<BatchStream>;

class BatchTest : public ::testing::Test {
 protected:
  explicit BatchTest(Device* device = &CpuDevice(),
                     const EngineOptions& options = EngineFixture::Small(),
                     size_t document_tokens = 61, const quire::testing::TinyModel& model = {},
                     HeadMode mode = HeadMode::kTrained)
      : fixture_(model, options, device, mode) {
    fixture_.Ingest(RandomTokens(document_tokens, 1));
  }

  std::unique_ptr<Batch> Make(const BatchLimits& limits = {}) {
    auto batch = Batch::Create(&fixture_.engine(), limits);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return *std::move(batch);
  }
  static Stream Submit(Batch& batch, BatchRequest request) {
    auto stream = batch.Submit(std::move(request));
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? *stream : nullptr;
  }
  static void RunToTheEnd(Batch& batch) {
    while (batch.Step()) {
    }
  }
  /// Tokens of a stream, once it has ended.
  static std::vector<TokenId> Read(BatchStream& stream) {
    std::vector<TokenId> tokens;
    for (;;) {
      const auto token = stream.Next();
      EXPECT_TRUE(token.ok()) << token.status();
      if (!token.ok() || !token->has_value()) return tokens;
      tokens.push_back(**token);
    }
  }
  static uint64_t Value(const Batch& batch, const std::string& metric) {
    return MetricValuesOf(batch).at(metric);
  }

  RetrievalOptions Retrieval(std::string_view policy = "quest") {
    RetrievalOptions retrieval = fixture_.engine().options().retrieval;
    retrieval.policy = policy;
    return retrieval;
  }
  RetrievalOptions WithBudget(uint32_t tokens) {
    RetrievalOptions retrieval = Retrieval();
    retrieval.budget_tokens = tokens;
    return retrieval;
  }
  BatchRequest Request(uint64_t seed, size_t prompt, uint32_t new_tokens,
                       std::optional<RetrievalOptions> retrieval = {}) {
    return {.document = DocumentName{.name = "doc"},
            .prompt = RandomTokens(prompt, seed),
            .retrieval = std::move(retrieval),
            .params = {.max_new_tokens = new_tokens}};
  }
  std::vector<TokenId> Alone(const BatchRequest& request) {
    auto sequence =
        fixture_.engine().OpenSequence(request.document, {.retrieval = request.retrieval});
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ((*sequence)->Append(request.prompt), OkStatus());
    return (*sequence)->Generate(request.params)->tokens;
  }
  /// Runs all of `requests` in a batch; each brings what it brings alone.
  void ExpectAsAlone(Batch& batch, const std::vector<BatchRequest>& requests) {
    std::vector<Stream> streams;
    for (const BatchRequest& request : requests) streams.push_back(Submit(batch, request));
    RunToTheEnd(batch);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
    }
  }

  EngineFixture fixture_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_BATCH_FIXTURE_H_
