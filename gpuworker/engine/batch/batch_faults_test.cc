// SPDX-License-Identifier: Apache-2.0
//
// Batch: what befalls one of its sequences on the device or on the way from the server, and what
// the others see of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "gpuworker/testing/batch_fixture.h"
#include "gpuworker/testing/limited_device.h"

namespace quire::worker {
namespace {

using testing::BatchTest;
using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::LimitedDevice;
using testing::Stream;

/// Tokens of a stream, and the status that it ended with.
struct Ending {
  std::vector<TokenId> tokens;
  Status status;
};
Ending ReadEnding(BatchStream& stream) {
  Ending ending;
  for (;;) {
    const auto token = stream.Next();
    ending.status = token.status();
    if (!token.ok() || !token->has_value()) return ending;
    ending.tokens.push_back(**token);
  }
}

/// Made before the fixture that uses it.
struct HasLimitedDevice {
  LimitedDevice device_;
};

class LimitedBatchTest : protected HasLimitedDevice, public BatchTest {
 protected:
  LimitedBatchTest() : BatchTest(&device_) {}

  /// One that keeps every page: with each few pages its pools are made anew, and larger.
  BatchRequest Growing(uint32_t new_tokens, size_t prompt = 301) {
    BatchRequest request = Request(7, prompt, new_tokens, Retrieval("full"));
    request.document.reset();
    return request;
  }
  std::vector<BatchRequest> Steady() {
    return {Request(1, 5, 40), Request(2, 5, 40, Retrieval("freekv")),
            Request(3, 5, 40, Retrieval("streaming"))};
  }
};

TEST_F(LimitedBatchTest, MemoryThatEndsInOneSequenceEndsItAloneAndComesBack) {
  const auto batch = Make();
  std::vector<BatchRequest> requests = Steady();
  requests.push_back(Growing(60));
  ExpectAsAlone(*batch, requests);
  const size_t before = device_.used();

  std::vector<Stream> streams;
  for (const BatchRequest& request : requests) streams.push_back(Submit(*batch, request));
  const Stream& growing = streams.back();
  while (batch->Stats().size() < 4 || batch->Stats().back().generated_tokens == 0) {
    ASSERT_TRUE(batch->Step());
  }
  const size_t held = device_.used();
  // A pool of its 75 pages is 19200 bytes; what the others still want is less.
  device_.set_limit(held + 12000);
  while (Value(*batch, "batch_failed") == 0) ASSERT_TRUE(batch->Step()) << "it had room";
  EXPECT_EQ(Value(*batch, "batch_running"), 3u);
  EXPECT_LT(device_.used() + 4 * 19200, held + 12000) << "it still has its pools";
  const Ending ended = ReadEnding(*growing);
  EXPECT_TRUE(IsOutOfDeviceMemory(ended.status)) << ended.status;
  EXPECT_THAT(std::string(Message(ended.status)), HasSubstr("this sequence cannot go on"));
  EXPECT_THAT(std::string(Message(ended.status)), HasSubstr("device limited has no "));
  EXPECT_LT(ended.tokens.size(), 60u);

  // A new sequence gets the freed slots: four pools of 38 pages, and one that grows.
  const Stream next = Submit(*batch, Growing(2, 150));
  RunToTheEnd(*batch);
  device_.set_limit(std::numeric_limits<size_t>::max());
  EXPECT_EQ(Read(*next), Alone(Growing(2, 150)));
  const std::vector<TokenId> whole = Alone(Growing(60));
  EXPECT_TRUE(std::ranges::equal(ended.tokens, std::span(whole).first(ended.tokens.size())));
  for (size_t i = 0; i + 1 < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
    EXPECT_EQ(streams[i]->result().stats.reopened, 0u);
  }
  EXPECT_EQ(Value(*batch, "batch_failed"), 1u);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 0u);  // The server lost nothing.
  EXPECT_EQ(device_.used(), before);
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

TEST_F(LimitedBatchTest, APromptThatTheDeviceCannotHoldRunsWithinItsBudget) {
  const auto batch = Make();
  BatchRequest bare = Request(9, 301, 8, Retrieval("quest"));
  bare.document.reset();
  const std::vector<TokenId> dense = Alone(bare);
  // 301 tokens take 76 pages of 1 KiB, and while they grow the pages before beside them.
  device_.set_limit(device_.used() + 80000);
  const Stream stream = Submit(*batch, bare);
  RunToTheEnd(*batch);
  const std::vector<TokenId> tokens = Read(*stream);
  EXPECT_EQ(tokens.size(), 8u);
  EXPECT_EQ(tokens, Alone(bare)) << "one alone has no more room";
  EXPECT_GT(stream->result().stats.selections, 300u);
  EXPECT_EQ(stream->result().stats.reopened, 0u) << "the server lost nothing";
  EXPECT_EQ(Value(*batch, "batch_failed"), 0u);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 1u);
}

TEST_F(LimitedBatchTest, ASequenceThatDoesNotFitBesideTheOthersIsRefusedAlone) {
  const auto batch = Make();
  std::vector<Stream> streams;
  for (const BatchRequest& request : Steady()) streams.push_back(Submit(*batch, request));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(batch->Step());
  device_.set_limit(device_.used() + 12000);
  const Stream refused = Submit(*batch, Growing(2));
  RunToTheEnd(*batch);
  const Ending ended = ReadEnding(*refused);
  EXPECT_TRUE(IsOutOfDeviceMemory(ended.status)) << ended.status;
  EXPECT_TRUE(ended.tokens.empty());
  device_.set_limit(std::numeric_limits<size_t>::max());
  for (size_t i = 0; i < streams.size(); ++i) {
    EXPECT_EQ(Read(*streams[i]), Alone(Steady()[i]));
  }
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

/// Holds back every reply that has a lane of one sequence. Waiting for one makes time leap, which
/// calls in flight on other threads must not see. In the first kQuietSteps steps no page fills up,
/// so none is being sent.
class LostRecallsTest : public BatchTest {
 protected:
  /// From now on those of the sequence with this number in the batch's session, and those of every
  /// session that is opened later: it is opened anew there.
  void Lose(uint32_t sequence) { lost_ = sequence; }
  void LoseNoMore() { lost_.reset(); }

  static constexpr uint32_t kPageTokens = 16;
  static constexpr uint32_t kQuietSteps = kPageTokens - 1;

  LostRecallsTest() : BatchTest(&CpuDevice(), LongPages(), size_t{16} * kPageTokens) {
    fixture_.WatchRecalls([this](const v1::RecallRequest& request, Priority) {
      if (!session_) session_ = request.session_id();
      if (!lost_) return false;
      if (request.session_id() != *session_) return true;
      return std::ranges::any_of(
          request.wants(), [&](const v1::LayerWant& want) { return want.sequence() == *lost_; });
    });
  }
  static EngineOptions LongPages() {
    EngineOptions options = EngineFixture::Small();
    options.page_tokens = kPageTokens;
    options.retrieval.budget_tokens = 6 * kPageTokens;
    options.retrieval.sink_tokens = kPageTokens;
    options.retrieval.window_tokens = 2 * kPageTokens;
    return options;
  }
  /// Runs steps until `batch` has counted something; fails when time leaps too late.
  static void RunUntil(Batch& batch, const std::string& metric, uint64_t steps_before) {
    for (uint64_t step = steps_before; Value(batch, metric) == 0; ++step) {
      ASSERT_LT(step, kQuietSteps);
      ASSERT_TRUE(batch.Step());
    }
  }
  RetrievalOptions Speculating(Duration recall_deadline) {
    RetrievalOptions retrieval = Retrieval("freekv");
    retrieval.correction_threshold = -1.5f;
    retrieval.recall_deadline = recall_deadline;
    return retrieval;
  }
  /// How long `run` takes on the clock that waits pass on.
  template <typename Run>
  Duration TimeOf(Run run) {
    const TimePoint start = fixture_.clock().Now();
    run();
    return fixture_.clock().Now() - start;
  }
  static constexpr Duration kTimeout = std::chrono::seconds(60);  ///< The client's, of a recall.

 private:
  std::optional<uint64_t> session_;  ///< The first.
  std::optional<uint32_t> lost_;
};

// The lost sequence shares messages with others; recalls of single lanes find out which sequence
// fails. The step waits for one timeout of the message and one of the lane. Reopening takes one
// more.
TEST_F(LostRecallsTest, ARecallThatNeverComesBackEndsItsSequenceAlone) {
  const auto batch = Make();
  const std::vector<BatchRequest> requests = {Request(1, 1, 30), Request(2, 1, 30),
                                              Request(3, 1, 30)};
  std::vector<Stream> streams;
  for (const BatchRequest& request : requests) streams.push_back(Submit(*batch, request));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(batch->Step());
  Lose(1);
  const Duration took = TimeOf([&] { RunUntil(*batch, "batch_failed", 4); });
  RunToTheEnd(*batch);
  EXPECT_GE(took, 2 * kTimeout);
  EXPECT_LE(took, 3 * kTimeout);
  const Ending ended = ReadEnding(*streams[1]);
  EXPECT_EQ(ended.status.code(), StatusCode::kDeadlineExceeded) << ended.status;
  EXPECT_THAT(std::string(Message(ended.status)), HasSubstr("this sequence cannot go on"));
  EXPECT_EQ(streams[1]->result().stats.reopened, 1u);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 1u);
  EXPECT_EQ(Value(*batch, "batch_failed"), 1u);
  LoseNoMore();
  for (const size_t other : {0u, 2u}) {
    SCOPED_TRACE(other);
    EXPECT_EQ(Read(*streams[other]), Alone(requests[other]));
    EXPECT_EQ(streams[other]->result().stats.reopened, 0u);
  }
  const std::vector<TokenId> whole = Alone(requests[1]);
  EXPECT_TRUE(std::ranges::equal(ended.tokens, std::span(whole).first(ended.tokens.size())));
  EXPECT_EQ(ended.tokens.size(), 4u);
  EXPECT_EQ(fixture_.store().open_contexts(), 0u);
  EXPECT_EQ(fixture_.store().open_sessions(), 0u);
}

// Opened anew, it runs its own tokens again and goes on as if nothing had happened.
TEST_F(LostRecallsTest, ASequenceWhoseRecallsComeBackAfterATimeoutGoesOn) {
  const auto batch = Make();
  const std::vector<BatchRequest> requests = {Request(1, 1, 30), Request(2, 1, 30),
                                              Request(3, 1, 30)};
  std::vector<Stream> streams;
  for (const BatchRequest& request : requests) streams.push_back(Submit(*batch, request));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(batch->Step());
  Lose(1);
  RunUntil(*batch, "batch_restarted", 4);
  LoseNoMore();
  RunToTheEnd(*batch);
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(Read(*streams[i]), Alone(requests[i]));
    EXPECT_EQ(streams[i]->result().stats.reopened, i == 1 ? 1u : 0u);
  }
}

// Late prefetches leave stale pages for a step. Their sequences wait until the deadline, then for
// the late units. Sequences with recalls in other messages are unaffected.
TEST_F(LostRecallsTest, WithADeadlineTheBatchGoesOnWithWhatItHas) {
  constexpr Duration kDeadline = std::chrono::milliseconds(1);
  constexpr uint64_t kSteps = 20;
  const auto batch = Make();
  const std::vector<BatchRequest> requests = {
      Request(1, 1, 30), Request(2, 1, 30, Speculating(kDeadline)), Request(3, 1, 30),
      Request(4, 1, 30, Speculating(kDeadline))};
  std::vector<Stream> streams;
  for (const BatchRequest& request : requests) streams.push_back(Submit(*batch, request));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(batch->Step());
  for (const SequenceStats& stats : batch->Stats()) EXPECT_EQ(stats.late_recalls, 0u);
  constexpr Duration kLate = std::chrono::milliseconds(9);
  fixture_.DelayRecalls({}, kLate);
  const Duration took = TimeOf([&] {
    for (uint64_t i = 0; i < kSteps; ++i) ASSERT_TRUE(batch->Step());
  });
  EXPECT_GT(took, Duration::zero());
  EXPECT_LE(took, kSteps * fixture_.engine().spec().num_layers * kLate);
  const std::vector<SequenceStats> stats = batch->Stats();
  ASSERT_EQ(stats.size(), 4u);
  for (size_t i = 0; i < stats.size(); ++i) {
    EXPECT_EQ(stats[i].generated_tokens, 8 + kSteps) << i;
    EXPECT_EQ(stats[i].late_recalls > 0, i == 1 || i == 3) << i;
  }
  RunToTheEnd(*batch);
  EXPECT_EQ(Value(*batch, "batch_finished"), 4u);
  EXPECT_EQ(Value(*batch, "batch_restarted"), 0u);
  fixture_.DelayRecalls({});
  for (const size_t other : {0u, 2u}) EXPECT_EQ(Read(*streams[other]), Alone(requests[other]));
  for (const size_t late : {1u, 3u}) EXPECT_EQ(Read(*streams[late]).size(), 30u);
}

// A deadline bounds a step, and not how long a recall may stay away.
TEST_F(LostRecallsTest, ALateRecallThatNeverComesEndsItsSequenceAloneOnceItsTimeIsUp) {
  constexpr Duration kDeadline = std::chrono::seconds(20);
  const auto batch = Make();
  const std::vector<BatchRequest> requests = {Request(1, 1, 40),
                                              Request(2, 1, 40, Speculating(kDeadline)),
                                              Request(3, 1, 40, Speculating(kDeadline))};
  std::vector<Stream> streams;
  for (const BatchRequest& request : requests) streams.push_back(Submit(*batch, request));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(batch->Step());
  Lose(1);
  RunUntil(*batch, "batch_failed", 4);
  RunToTheEnd(*batch);
  const Ending ended = ReadEnding(*streams[1]);
  EXPECT_EQ(ended.status.code(), StatusCode::kDeadlineExceeded) << ended.status;
  EXPECT_GT(ended.tokens.size(), 4u);  // It went on with what it had.
  EXPECT_GT(streams[1]->result().stats.late_recalls, 0u);
  EXPECT_EQ(Value(*batch, "batch_failed"), 1u);
  EXPECT_EQ(streams[0]->result().stats.reopened, 0u);
  EXPECT_EQ(streams[2]->result().stats.reopened, 0u);
  LoseNoMore();
  EXPECT_EQ(Read(*streams[0]), Alone(requests[0]));
  EXPECT_EQ(Read(*streams[2]).size(), 40u);
}

}  // namespace
}  // namespace quire::worker
