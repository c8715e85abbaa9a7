// SPDX-License-Identifier: Apache-2.0
//
// Questions over several documents for many callers.
#include "gpuworker/engine/reuse/reuse_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuworker/testing/engine_fixture.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::RandomTokens;

class ReuseQueueTest : public ::testing::Test {
 protected:
  ReuseQueueTest() {
    for (const std::string name : {"a", "b"}) {
      const auto stored = fixture_.engine().Ingest(RandomTokens(30, name.front()), {.name = name});
      EXPECT_TRUE(stored.ok()) << stored.status();
    }
  }
  std::unique_ptr<ReuseQueue> Make(const ReuseLimits& limits) {
    auto queue = ReuseQueue::Create(&fixture_.engine(), limits);
    EXPECT_TRUE(queue.ok()) << queue.status();
    return *std::move(queue);
  }
  static ReuseRequest Ask(uint64_t seed = 1) {
    return {.documents = {{.name = "a"}, {.name = "b"}},
            .question = RandomTokens(5, seed),
            .options = {.method = ReuseMethod::kReuse},
            .params = {.max_new_tokens = 4}};
  }
  /// The engine's own answer.
  std::vector<TokenId> Alone(const ReuseRequest& request) {
    const auto run =
        fixture_.engine().OpenReuse(request.documents, request.question, request.options);
    EXPECT_TRUE(run.ok()) << run.status();
    return (*run)->Generate(request.params).value().tokens;
  }
  static StatusOr<std::vector<TokenId>> ReadAll(ReuseAnswer& answer) {
    std::vector<TokenId> tokens;
    for (;;) {
      QUIRE_ASSIGN_OR_RETURN(const std::optional<TokenId> token, answer.stream.Next());
      if (!token) return tokens;
      tokens.push_back(*token);
    }
  }

  EngineFixture fixture_;
};

TEST_F(ReuseQueueTest, EachCallerGetsItsOwnAnswer) {
  const auto queue = Make({.max_running = 2});
  std::vector<std::shared_ptr<ReuseAnswer>> answers;
  for (uint64_t seed = 0; seed < 5; ++seed) {
    auto answer = queue->Submit(Ask(seed));
    ASSERT_TRUE(answer.ok()) << answer.status();
    answers.push_back(*std::move(answer));
  }
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const auto tokens = ReadAll(*answers[seed]);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    EXPECT_EQ(*tokens, Alone(Ask(seed)));
    EXPECT_EQ(answers[seed]->stream.result().num_new_tokens, tokens->size());
    EXPECT_EQ(answers[seed]->stats().question_tokens, 5u);
  }
}

TEST_F(ReuseQueueTest, AQuestionThatFailsEndsAlone) {
  const auto queue = Make({});
  ReuseRequest bad = Ask();
  bad.documents.push_back({.name = "gone"});
  const auto failed = queue->Submit(bad).value();
  const auto next = queue->Submit(Ask()).value();
  const auto tokens = ReadAll(*failed);
  EXPECT_EQ(tokens.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(tokens.status().message()), HasSubstr("default/gone"));
  EXPECT_TRUE(ReadAll(*next).ok());
}

TEST_F(ReuseQueueTest, AFullQueueRefusesAndACancelledQuestionMakesRoom) {
  fixture_.store().Hold("Session/Recall");  // The first one cannot end.
  const auto queue = Make({.max_running = 1, .max_waiting = 1});
  const auto first = queue->Submit(Ask()).value();
  fixture_.store().AwaitCalls("Session/Recall", 1);
  const auto second = queue->Submit(Ask()).value();
  const auto third = queue->Submit(Ask());
  EXPECT_EQ(third.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("several documents"));
  first->stream.Cancel();
  fixture_.store().Hold("");
  EXPECT_EQ(ReadAll(*first).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(ReadAll(*second).ok());
}

TEST_F(ReuseQueueTest, AQuestionWithMoreInDramPassesAnother) {
  fixture_.store().Hold("Session/Recall");  // The first one cannot end.
  const auto queue = Make({.max_running = 1, .window = 1});
  std::vector<std::shared_ptr<ReuseAnswer>> answers = {queue->Submit(Ask()).value()};
  fixture_.store().AwaitCalls("Session/Recall", 1);
  ReuseRequest full = Ask(2);
  full.options.method = ReuseMethod::kFull;
  for (const ReuseRequest& request : {full, Ask(3), Ask(4)}) {
    answers.push_back(queue->Submit(request).value());
  }
  fixture_.store().Release();
  for (const auto& answer : answers) EXPECT_TRUE(ReadAll(*answer).ok());
  EXPECT_EQ(MetricValuesOf(*queue)["reuse_passed_over"], 1u) << "full prefill, once";
}

TEST_F(ReuseQueueTest, AnAnswerEndsBeforeItsDocumentsAreKept) {
  const auto queue = Make({});
  ReuseRequest request = Ask();
  request.options = {.method = ReuseMethod::kFull, .variants = 1};
  fixture_.store().Hold("Store/Seal");  // Nothing can be kept yet.
  const auto answer = queue->Submit(request).value();
  fixture_.store().AwaitCalls("Store/Seal", 3);  // Two documents were sealed before.
  EXPECT_TRUE(answer->stream.WaitFor(Duration::zero()));
  EXPECT_EQ(ReadAll(*answer)->size(), 4u);
  EXPECT_TRUE(answer->stream.WaitFor(Duration::zero())) << "the end is there, too";
  EXPECT_EQ(answer->stats().variants_kept, 1u);
  EXPECT_EQ(MetricValuesOf(*queue)["reuse_variants_kept"], 0u);
  fixture_.store().Release();
  EXPECT_TRUE(ReadAll(*queue->Submit(Ask(2)).value()).ok());  // It starts after the first one.
  EXPECT_EQ(MetricValuesOf(*queue)["reuse_variants_kept"], 1u);
}

TEST_F(ReuseQueueTest, WhatIsLeftEndsWithTheQueue) {
  auto queue = Make({});
  std::vector<std::shared_ptr<ReuseAnswer>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(queue->Submit(Ask()).value());
  queue.reset();
  EXPECT_TRUE(answers.front()->stream.WaitFor(Duration::zero()));
  const auto last = ReadAll(*answers.back());
  EXPECT_EQ(last.status().code(), StatusCode::kUnavailable);
}

TEST_F(ReuseQueueTest, LimitsOutOfRangeAreNamed) {
  EXPECT_EQ(ReuseQueue::Create(&fixture_.engine(), {.max_running = 0}).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::worker
