// SPDX-License-Identifier: Apache-2.0
//
// AskWorker against a worker whose answers are scripted.
#include "apps/kit/worker/remote_worker.h"

#include <gmock/gmock.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/retry_hint.h"
#include "common/base/threads/mutex.h"
#include "quire/v1/worker.grpc.pb.h"
#include "tests/kit/fake_clock.h"
#include "transport/grpc/grpc_auth.h"
#include "transport/grpc/grpc_convert.h"

namespace quire::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Behaviour of a worker. It refuses the first `refusals` calls, then answers with tokens 4 and 9,
/// and with the totals or the error `end`.
struct Script {
  uint32_t refusals = 0;
  Status refusal =
      WithRetryAfter(ResourceExhausted("1 calls at a time"), std::chrono::milliseconds(100));
  grpc::Status end = grpc::Status::OK;
  bool with_totals = true;
  std::string last_text = {};     ///< Comes with the totals.
  bool half_a_character = false;  ///< In place of all that: such text, and silence.
};

class ScriptedWorker final : public v1::Worker::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest*,
                        grpc::ServerWriter<v1::GenerateReply>* writer) override {
    const Script script = Current();
    with_token = context->client_metadata().contains(kAuthorizationMetadata);
    if (++calls <= script.refusals) return EndCall(script.refusal, context);
    v1::GenerateReply reply;
    if (script.half_a_character) {
      reply.set_text("\xc3");
      writer->Write(reply);
      while (!context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::CANCELLED;
    }
    for (const int token : {4, 9}) {
      reply.set_token_id(token);
      reply.set_text("t" + std::to_string(token));
      writer->Write(reply);
    }
    if (!script.end.ok()) return script.end;
    v1::GenerateReply totals;
    totals.set_done(true);
    totals.set_num_prompt_tokens(3);
    totals.set_bytes_moved(100);
    totals.set_bytes_digests(20);
    totals.set_bytes_at_open(30);
    totals.set_bytes_full(200);
    totals.set_policy("quest");
    totals.set_text(script.last_text);
    if (script.with_totals) writer->Write(totals);
    return grpc::Status::OK;
  }
  void Follow(const Script& script) {
    MutexLock lock(mutex_);
    script_ = script;
  }
  std::atomic<uint32_t> calls = 0;
  std::atomic<bool> with_token = false;  ///< The last one.

 private:
  Script Current() {
    MutexLock lock(mutex_);
    return script_;
  }
  Mutex mutex_;
  Script script_ QUIRE_GUARDED_BY(mutex_);
};

class RemoteWorkerTest : public ::testing::Test {
 protected:
  RemoteWorkerTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&worker_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  StatusOr<WorkerAnswer> Ask(const BearerToken& token = {}) {
    return AskWorker(
        address_, {},
        {.timeout = std::chrono::seconds(60),
         .unreachable_for = std::chrono::seconds(5),
         .token = token,
         .on_token = [this](std::optional<TokenId>, const std::string& text) { text_ += text; },
         .clock = &clock_});
  }

  quire::testing::FakeClock clock_;
  ScriptedWorker worker_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::string text_;
};

TEST_F(RemoteWorkerTest, TokensComeAsTheyAreGeneratedAndThenTheTotals) {
  const auto answer = Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->tokens, ElementsAre(4, 9));
  EXPECT_EQ(text_, "t4t9");
  EXPECT_EQ(answer->moved.units, 50u);
  EXPECT_EQ(answer->moved.total(), 100u);
  EXPECT_EQ(answer->moved.ratio(), 0.5);
  EXPECT_EQ(answer->policy, "quest");
}

TEST_F(RemoteWorkerTest, ATokenIsSentWhereThereIsOne) {
  EXPECT_TRUE(Ask().ok());
  EXPECT_FALSE(worker_.with_token);
  EXPECT_TRUE(Ask(*BearerToken::Make(std::string(40, 'x'))).ok());
  EXPECT_TRUE(worker_.with_token);
}

TEST_F(RemoteWorkerTest, ABusyWorkerIsAskedAgainWithGrowingWaits) {
  worker_.Follow({.refusals = 12});
  const TimePoint start = clock_.Now();
  const auto answer = Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->tokens, ElementsAre(4, 9));
  EXPECT_EQ(worker_.calls, 13u);
  EXPECT_GT(clock_.Now() - start, std::chrono::seconds(5));  // It did not hammer on the door.
}

TEST_F(RemoteWorkerTest, AWorkerThatStaysBusyIsGivenUpWithinTheDeadline) {
  worker_.Follow({.refusals = 1'000'000});
  const TimePoint start = clock_.Now();
  const auto answer = Ask();
  EXPECT_EQ(answer.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("1 calls at a time"));
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr(address_));
  EXPECT_LE(clock_.Now() - start, std::chrono::seconds(60));
}

TEST_F(RemoteWorkerTest, AnUnreachableWorkerIsGivenUpAfterTheTimeGivenWithTheRemedy) {
  server_->Shutdown();
  const TimePoint start = clock_.Now();
  const auto answer = Ask();
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_GT(clock_.Now() - start, std::chrono::seconds(4));
  EXPECT_LE(clock_.Now() - start, std::chrono::seconds(5));
  EXPECT_THAT(std::string(answer.status().message()),
              HasSubstr("Start one with: quire worker --listen " + address_));
}

// The worker is there; what has to be looked at is what it says it cannot reach.
TEST_F(RemoteWorkerTest, AWorkersOwnErrorIsNotTakenForItsAbsence) {
  worker_.Follow({.refusals = 1'000'000, .refusal = Unavailable("the server at S is gone")});
  const auto answer = Ask();
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_GT(worker_.calls, 4u) << "it may be back";
  const std::string message(answer.status().message());
  EXPECT_THAT(message, HasSubstr("the worker at " + address_ + ": the server at S is gone"));
  EXPECT_THAT(message, Not(HasSubstr("quire worker")));
}

TEST_F(RemoteWorkerTest, AnAnswerThatHasBegunIsNotRepeated) {
  worker_.Follow({.end = {grpc::StatusCode::UNAVAILABLE, "going away"}});
  EXPECT_EQ(Ask().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(worker_.calls, 1u);
  EXPECT_EQ(text_, "t4t9");
}

TEST_F(RemoteWorkerTest, TextThatIsHeldBackComesWithTheTotals) {
  worker_.Follow({.last_text = "\xEF\xBF\xBD"});
  const auto answer = Ask();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->tokens, ElementsAre(4, 9));
  EXPECT_EQ(text_, "t4t9\xEF\xBF\xBD");
}

TEST_F(RemoteWorkerTest, AReplyThatDoesNotParseIsInternalAtOnce) {
  worker_.Follow({.half_a_character = true});
  const TimePoint start = clock_.Now();
  const auto answer = Ask();
  EXPECT_EQ(answer.status().code(), StatusCode::kInternal) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("the worker at " + address_));
  EXPECT_EQ(worker_.calls, 1u);
  EXPECT_EQ(clock_.Now(), start);
}

TEST_F(RemoteWorkerTest, ARequestThatIsNotTextIsNotSent) {
  v1::GenerateRequest request;
  request.set_text("Caf\xc3");
  const auto answer = AskWorker(address_, request, {.clock = &clock_});
  EXPECT_EQ(answer.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("text is not UTF-8 at byte 3"));
  EXPECT_EQ(worker_.calls, 0u);
}

TEST_F(RemoteWorkerTest, OtherErrorsAndMissingTotalsAreToldAtOnce) {
  worker_.Follow({.with_totals = false});
  EXPECT_EQ(Ask().status().code(), StatusCode::kDataLoss);
  worker_.Follow({.end = {grpc::StatusCode::INVALID_ARGUMENT, "no"}});
  EXPECT_EQ(Ask().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(worker_.calls, 2u);
}

}  // namespace
}  // namespace quire::cli
