// SPDX-License-Identifier: Apache-2.0
//
// Promise 8: a miss, a timeout or a dead server costs the worker a recompute, never a wrong answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/followed_run.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using testing::FollowedRun;
using testing::FollowedStep;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() {
    fixture_.Ingest(document_);
    const auto undisturbed = fixture_.Open();
    EXPECT_EQ(undisturbed->Append(question_), OkStatus());
    sparse_.assign(undisturbed->logits().begin(), undisturbed->logits().end());
    std::vector<TokenId> text = document_;
    text.insert(text.end(), question_.begin(), question_.end());
    dense_ = *fixture_.engine().DenseLogits(text, 1);
  }

  /// Appends the question in two halves with `disturb` between them.
  template <typename Disturb>
  std::unique_ptr<Sequence> AskDisturbed(const SequenceOptions& options, Disturb disturb) {
    auto sequence = fixture_.Open(options);
    EXPECT_EQ(sequence->Append(std::span(question_).first(15)), OkStatus());
    disturb(fixture_.store());
    EXPECT_EQ(sequence->Append(std::span(question_).subspan(15)), OkStatus());
    return sequence;
  }

  EngineFixture fixture_;
  const std::vector<TokenId> document_ = RandomTokens(61, 1);
  const std::vector<TokenId> question_ = RandomTokens(30, 2);
  std::vector<float> sparse_;
  std::vector<float> dense_;
};

TEST_F(RecoveryTest, ARestartedServerCostsARecomputeOfTheSequencesOwnTokens) {
  std::vector<uint64_t> positions;
  SequenceOptions options;
  options.logits_observer = [&](uint64_t position, auto) { positions.push_back(position); };
  const auto sequence = AskDisturbed(options, [](auto& store) { store.Restart(); });
  EXPECT_LE(MaxDifference(sequence->logits(), sparse_), 1e-4f);
  EXPECT_EQ(sequence->stats().reopened, 1u);
  EXPECT_FALSE(sequence->stats().local);
  // Every position was shown once, in order.
  ASSERT_EQ(positions.size(), question_.size());
  for (size_t i = 0; i < positions.size(); ++i) EXPECT_EQ(positions[i], document_.size() + i);
}

TEST_F(RecoveryTest, AFailedRecallOfAnyKindNeverChangesTheAnswer) {
  for (const Status& failure : {NotFound("session"), DataLoss("unit"), DeadlineExceeded("late"),
                                FailedPrecondition("stale"), Unavailable("away")}) {
    for (uint64_t after : {0u, 1u, 9u}) {
      SCOPED_TRACE(failure.ToString());
      const auto sequence =
          AskDisturbed({}, [&](auto& store) { store.FailOnce("Session/Recall", after, failure); });
      EXPECT_LE(MaxDifference(sequence->logits(), sparse_), 1e-4f);
    }
  }
}

TEST_F(RecoveryTest, AFailedAppendOfAPageNeverChangesTheAnswer) {
  const auto sequence = AskDisturbed({}, [&](auto& store) {
    store.FailOnce("Store/AppendPages", 1, NotFound("the context idled too long"));
  });
  EXPECT_LE(MaxDifference(sequence->logits(), sparse_), 1e-4f);
  EXPECT_EQ(sequence->stats().reopened, 1u);
}

TEST_F(RecoveryTest, WithTheDocumentsTokensADeadServerIsSurvived) {
  SequenceOptions options;
  options.document_tokens = document_;
  const auto sequence = AskDisturbed(options, [](auto& store) { store.FailAllCalls(); });
  EXPECT_TRUE(sequence->stats().local);
  EXPECT_LE(MaxDifference(sequence->logits(), dense_), 1e-3f);
  EXPECT_EQ(sequence->Generate({.max_new_tokens = 5})->tokens.size(), 5u);
}

TEST_F(RecoveryTest, WithTheDocumentsTokensALostDocumentIsSurvived) {
  SequenceOptions options;
  options.document_tokens = document_;
  const auto sequence = AskDisturbed(options, [](auto& store) {
    store.Restart();
    store.LoseSegments();
  });
  EXPECT_TRUE(sequence->stats().local);
  EXPECT_LE(MaxDifference(sequence->logits(), dense_), 1e-3f);
}

TEST_F(RecoveryTest, ASequenceCanBeOpenedWithoutTheServer) {
  fixture_.store().FailAllCalls();
  SequenceOptions options;
  options.document_tokens = document_;
  uint64_t recomputed = 0;
  options.recompute_observer = [&](uint64_t tokens) { recomputed += tokens; };
  const auto sequence = fixture_.Open(options);
  EXPECT_EQ(recomputed, document_.size());
  ASSERT_EQ(sequence->Append(question_), OkStatus());
  EXPECT_LE(MaxDifference(sequence->logits(), dense_), 1e-3f);
}

TEST_F(RecoveryTest, WithoutTheTokensTheErrorNamesTheRemedyAndStays) {
  const auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(std::span(question_).first(15)), OkStatus());
  fixture_.store().FailAllCalls();
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Status status = sequence->Append(std::span(question_).subspan(15));
    EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("give the document's token ids"));
  }
}

TEST_F(RecoveryTest, ARecallThatNeverComesBackCostsARecompute) {
  SequenceOptions options;
  options.document_tokens = document_;
  const auto sequence = AskDisturbed(options, [&](auto&) { fixture_.HoldRecalls(true); });
  EXPECT_TRUE(sequence->stats().local);
  EXPECT_LE(MaxDifference(sequence->logits(), dense_), 1e-3f);
}

TEST_F(RecoveryTest, ARecallThatNeverComesBackIsAnErrorWithTheRemedyWithoutTheTokens) {
  const auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(std::span(question_).first(15)), OkStatus());
  fixture_.HoldRecalls(true);
  const Status status = sequence->Append(std::span(question_).subspan(15));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("give the document's token ids"));
}

TEST_F(RecoveryTest, WithADeadlineLateRecallsLeaveStalePages) {
  SequenceOptions options;
  options.document_tokens = document_;
  options.retrieval = fixture_.engine().options().retrieval;
  options.retrieval->policy = "freekv";
  options.retrieval->recall_deadline = std::chrono::milliseconds(1);
  const auto sequence =
      AskDisturbed(options, [&](auto&) { fixture_.DelayRecalls(std::chrono::milliseconds(10)); });
  EXPECT_FALSE(sequence->stats().local);
  EXPECT_GT(sequence->stats().late_recalls, 0u);
  fixture_.DelayRecalls({});
  EXPECT_EQ(sequence->Append(std::span(question_).first(8)), OkStatus());
  EXPECT_FALSE(sequence->stats().local);
}

// The first layer's queries do not depend on what is attended to.
TEST_F(RecoveryTest, ALateRecallLeavesOlderPagesForOneStep) {
  RetrievalOptions retrieval = fixture_.engine().options().retrieval;
  retrieval.policy = "freekv";
  retrieval.correction_threshold = -1.5f;
  retrieval.recall_deadline = std::chrono::milliseconds(1);
  const std::vector<FollowedStep> expected = FollowedRun(fixture_, retrieval).Steps(question_);
  FollowedRun run(fixture_, retrieval);
  std::vector<FollowedStep> steps;
  for (size_t i = 0; i < question_.size(); ++i) {
    fixture_.DelayRecalls(std::chrono::milliseconds(i >= 10 && i < 20 ? 10 : 0));
    steps.push_back(run.Next(question_[i]));
  }
  EXPECT_GT(run.recalls().late_prefetches, 0u);
  const auto pages = [](const FollowedStep& step) { return step.pages[0]; };
  EXPECT_NE(pages(expected[19]), pages(expected[10]));
  // At the latest the second step after one that was late is as if nothing had happened.
  for (size_t i = 23; i < steps.size(); ++i) EXPECT_EQ(pages(steps[i]), pages(expected[i])) << i;
}

TEST_F(RecoveryTest, ARecallThatNeverComesBackLeavesStalePagesAndThenCostsARecompute) {
  uint64_t recomputed = 0;
  SequenceOptions options;
  options.document_tokens = document_;
  options.recompute_observer = [&](uint64_t tokens) { recomputed += tokens; };
  options.retrieval = fixture_.engine().options().retrieval;
  options.retrieval->policy = "freekv";
  options.retrieval->correction_threshold = -1.5f;
  options.retrieval->recall_deadline = std::chrono::seconds(5);
  const auto sequence = fixture_.Open(options);
  ASSERT_EQ(sequence->Append(std::span(question_).first(15)), OkStatus());
  fixture_.HoldRecalls(true);
  // One step waits no longer than the deadline. The next one waits until the time of the recall is
  // up, the client's 60 s.
  ASSERT_EQ(sequence->Append(std::span(question_).subspan(15, 1)), OkStatus());
  EXPECT_GT(sequence->stats().late_recalls, 0u);
  EXPECT_FALSE(sequence->stats().local);
  ASSERT_EQ(sequence->Append(std::span(question_).subspan(16)), OkStatus());
  EXPECT_TRUE(sequence->stats().local);
  EXPECT_EQ(recomputed, document_.size());
  EXPECT_LE(MaxDifference(sequence->logits(), dense_), 1e-3f);
}

TEST_F(RecoveryTest, ASequenceWithoutADocumentNeedsNoTokensGiven) {
  auto sequence = fixture_.engine().OpenSequence(std::nullopt);
  ASSERT_EQ((*sequence)->Append(std::span(question_).first(15)), OkStatus());
  fixture_.store().FailAllCalls();
  ASSERT_EQ((*sequence)->Append(std::span(question_).subspan(15)), OkStatus());
  EXPECT_TRUE((*sequence)->stats().local);
  EXPECT_LE(MaxDifference((*sequence)->logits(), *fixture_.engine().DenseLogits(question_, 1)),
            1e-3f);
}

}  // namespace
}  // namespace quire::worker
