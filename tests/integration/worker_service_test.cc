// SPDX-License-Identifier: Apache-2.0
//
// quire.v1.Worker over gRPC, on a real server: the same tokens as the engine, bounded, cancellable.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/utf8.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/service/documents_call.h"
#include "gpuworker/service/worker_server.h"
#include "gpuworker/text/tokenizer.h"
#include "quire/v1/worker.grpc.pb.h"
#include "tests/integration/worker_fixture.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using ::testing::HasSubstr;
using testing::WorkerFixture;

const std::vector<TokenId> kDocument(150, 7);
const std::vector<TokenId> kPrompt = {1, 2, 3, 4, 5};

class WorkerServiceTest : public ::testing::Test {
 protected:
  explicit WorkerServiceTest(uint32_t max_calls = 4,
                             Duration stall_timeout = std::chrono::seconds(10)) {
    fixture_.Ingest(kDocument);
    auto server = worker::WorkerServer::Start(
        {.max_calls = max_calls, .stall_timeout = stall_timeout}, &fixture_.engine());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
    stub_ = v1::Worker::NewStub(
        grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  }

  static v1::GenerateRequest Request(uint32_t new_tokens) {
    v1::GenerateRequest request;
    request.mutable_document()->set_collection("default");
    request.mutable_document()->set_name("doc");
    for (TokenId token : kPrompt) request.mutable_token_ids()->add_ids(token);
    request.set_max_new_tokens(new_tokens);
    return request;
  }

  /// Runs a call to its end.
  grpc::Status Run(const v1::GenerateRequest& request, std::vector<v1::GenerateReply>* replies) {
    grpc::ClientContext context;
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateReply reply;
    while (reader->Read(&reply)) replies->push_back(reply);
    return reader->Finish();
  }

  WorkerFixture fixture_;
  std::unique_ptr<worker::WorkerServer> server_;
  std::unique_ptr<v1::Worker::Stub> stub_;
};

TEST_F(WorkerServiceTest, StreamsTheEnginesTokensAndThenTheTotals) {
  std::vector<v1::GenerateReply> replies;
  const grpc::Status status = Run(Request(6), &replies);
  ASSERT_TRUE(status.ok()) << status.error_message();
  const auto sequence = fixture_.Open();
  ASSERT_EQ(sequence->Append(kPrompt), OkStatus());
  const auto expected = sequence->Generate({.max_new_tokens = 6});
  ASSERT_EQ(replies.size(), 7u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(replies[i].token_id(), expected->tokens[i]);
    EXPECT_FALSE(replies[i].done());
  }
  EXPECT_TRUE(replies.back().done());
  EXPECT_EQ(replies.back().num_prompt_tokens(), kPrompt.size());
  EXPECT_EQ(replies.back().num_new_tokens(), 6u);
  const worker::SequenceStats stats = sequence->stats();
  EXPECT_EQ(replies.back().bytes_moved(), stats.moved.total());
  EXPECT_EQ(replies.back().bytes_digests(), stats.moved.digests);
  EXPECT_GT(replies.back().bytes_digests(), 0u);
  EXPECT_EQ(replies.back().bytes_at_open(), stats.moved.at_open);
  EXPECT_GT(replies.back().bytes_at_open(), 0u);
  EXPECT_EQ(replies.back().bytes_full(), stats.moved.full);
  EXPECT_EQ(replies.back().budget_ratio(), stats.budget_ratio());
  EXPECT_EQ(replies.back().policy(), "quest");
}

class TogetherTest : public WorkerServiceTest, public ::testing::WithParamInterface<bool> {
 protected:
  /// True if the server writes recalled units into the worker's memory.
  static bool lands() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Ways, TogetherTest, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Landing" : "Messages"; });

TEST_P(TogetherTest, EachCallGetsTheTokensThatItGetsAlone) {
  fixture_.transport().LandDirectly(lands());
  constexpr size_t kCalls = 4;
  const char* const policies[kCalls] = {"quest", "freekv", "quest", "streaming"};
  std::vector<v1::GenerateReply> replies[kCalls];
  grpc::Status status[kCalls];
  std::vector<std::thread> callers;
  for (size_t i = 0; i < kCalls; ++i) {
    callers.emplace_back([&, i] {
      v1::GenerateRequest request = Request(static_cast<uint32_t>(20 + 5 * i));
      request.set_policy(policies[i]);
      request.mutable_token_ids()->add_ids(static_cast<int>(10 + i));
      status[i] = Run(request, &replies[i]);
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (size_t i = 0; i < kCalls; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(status[i].ok()) << status[i].error_message();
    worker::SequenceOptions options;
    options.retrieval =
        worker::WithPolicy(fixture_.engine().options().retrieval, policies[i]).value();
    const auto sequence = fixture_.Open(options);
    std::vector<TokenId> prompt = kPrompt;
    prompt.push_back(static_cast<TokenId>(10 + i));
    ASSERT_EQ(sequence->Append(prompt), OkStatus());
    const auto expected = sequence->Generate({.max_new_tokens = static_cast<uint32_t>(20 + 5 * i)});
    std::vector<TokenId> tokens;
    for (const v1::GenerateReply& reply : replies[i]) {
      if (!reply.done()) tokens.push_back(reply.token_id());
    }
    EXPECT_EQ(tokens, expected->tokens);
    EXPECT_EQ(replies[i].back().units_landed(), lands() ? replies[i].back().units_recalled() : 0);
    EXPECT_EQ(replies[i].back().units_recalled() > 0, i < 3) << policies[i];
  }
  EXPECT_EQ(MetricValuesOf(*server_).at("batch_finished"), kCalls);
}

class SeveralDocumentsTest : public WorkerServiceTest {
 protected:
  SeveralDocumentsTest() : WorkerServiceTest(8) {
    const auto stored = fixture_.engine().Ingest(std::vector<TokenId>(60, 9), {.name = "other"});
    EXPECT_TRUE(stored.ok()) << stored.status();
  }
  static v1::GenerateRequest RequestOver(const std::vector<std::string>& names,
                                         worker::ReuseOptions options = {}) {
    v1::GenerateRequest request = Request(6);
    request.clear_document();
    worker::DocumentsToProto(Names(names), options, request.mutable_documents());
    return request;
  }
  static std::vector<DocumentName> Names(const std::vector<std::string>& names) {
    std::vector<DocumentName> documents;
    for (const std::string& name : names) documents.push_back({.name = name});
    return documents;
  }
};

TEST_F(SeveralDocumentsTest, ManyCallersGetTheEnginesTokensBesideTheBatch) {
  const std::vector<std::string> methods = {"full", "reuse_strict", "cacheblend", "samkv"};
  std::vector<v1::GenerateReply> replies[5];
  grpc::Status status[5];
  std::vector<std::thread> callers;
  for (size_t i = 0; i < methods.size(); ++i) {
    callers.emplace_back([&, i] {
      v1::GenerateRequest request = RequestOver({"doc", "other"});
      request.mutable_documents()->set_method(methods[i]);
      status[i] = Run(request, &replies[i]);
    });
  }
  callers.emplace_back([&] { status[4] = Run(Request(6), &replies[4]); });
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(status[4].ok()) << status[4].error_message();
  for (size_t i = 0; i < methods.size(); ++i) {
    SCOPED_TRACE(methods[i]);
    ASSERT_TRUE(status[i].ok()) << status[i].error_message();
    const auto run =
        fixture_.engine().OpenReuse(Names({"doc", "other"}), kPrompt,
                                    {.method = *worker::ParseReuseMethod(methods[i]),
                                     .retrieval = fixture_.engine().options().retrieval});
    const auto expected = (*run)->Generate({.max_new_tokens = 6});
    ASSERT_EQ(replies[i].size(), expected->tokens.size() + 1);
    for (size_t at = 0; at < expected->tokens.size(); ++at) {
      EXPECT_EQ(replies[i][at].token_id(), expected->tokens[at]);
    }
    const v1::DocumentsTotals& totals = replies[i].back().documents();
    EXPECT_EQ(totals.method(), methods[i]);
    EXPECT_EQ(totals.prompt_tokens(), 215u);
    EXPECT_EQ(totals.recompute_ratio(), (*run)->stats().recompute_ratio);
  }
}

TEST_F(SeveralDocumentsTest, VariantsServeTheNextCallAndGoWithTheirDocument) {
  const auto ask = [&](worker::ReuseMethod method) {
    std::vector<v1::GenerateReply> replies;
    const grpc::Status status =
        Run(RequestOver({"doc", "other"}, {.method = method, .variants = 5}), &replies);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return replies;
  };
  const auto full = ask(worker::ReuseMethod::kFull);
  const auto crafted = ask(worker::ReuseMethod::kCacheCraft);
  ASSERT_EQ(full.size(), 7u);
  ASSERT_EQ(crafted.size(), 7u);
  EXPECT_EQ(full.back().documents().variants_kept(), 1u);
  EXPECT_EQ(crafted.back().documents().variants_used(), 1u);
  EXPECT_EQ(crafted.back().documents().recompute_ratio(), 0);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(crafted[i].token_id(), full[i].token_id());

  Client& client = fixture_.client();
  std::vector<TokenId> both = kDocument;
  both.insert(both.end(), 60, 9);
  EXPECT_EQ(client.Lookup(fixture_.engine().spec(), both)->num_tokens, both.size());
  ASSERT_TRUE(client.DeleteDocument({.name = "other"}).ok());
  EXPECT_LE(client.Lookup(fixture_.engine().spec(), both)->num_tokens, kDocument.size());
  EXPECT_TRUE(client.Stat(DocumentName{.name = "doc"}).ok());
}

TEST_F(SeveralDocumentsTest, MissingOnesAreAllNamedOrSkipped) {
  std::vector<v1::GenerateReply> replies;
  const grpc::Status missing = Run(RequestOver({"gone", "doc", "away"}), &replies);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(missing.error_message(), HasSubstr("default/gone, default/away"));
  const grpc::Status skipped =
      Run(RequestOver({"gone", "doc", "away"}, {.skip_missing = true}), &replies);
  ASSERT_TRUE(skipped.ok()) << skipped.error_message();
  const v1::DocumentsTotals& totals = replies.back().documents();
  ASSERT_EQ(totals.missing_size(), 2);
  EXPECT_EQ(totals.missing(0).name(), "gone");
  EXPECT_EQ(totals.missing(1).name(), "away");
  const auto metrics = MetricValuesOf(*server_);
  EXPECT_EQ(metrics.at("reuse_questions"), 2u);
  EXPECT_EQ(metrics.at("reuse_failed"), 1u);
}

TEST_F(SeveralDocumentsTest, TooManyTokensTogetherSayByHowMuch) {
  std::vector<v1::GenerateReply> replies;
  const grpc::Status status = Run(RequestOver({"doc", "doc", "doc", "doc"}), &replies);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("93 more than the model's context"));
}

TEST_F(WorkerServiceTest, BadRequestsNameTheFault) {
  const auto refused = [&](const v1::GenerateRequest& request, grpc::StatusCode code,
                           const std::string& message) {
    std::vector<v1::GenerateReply> replies;
    const grpc::Status status = Run(request, &replies);
    EXPECT_EQ(status.error_code(), code);
    EXPECT_THAT(status.error_message(), HasSubstr(message));
    EXPECT_TRUE(replies.empty());
  };
  v1::GenerateRequest request = Request(1);
  request.mutable_document()->set_name("other");
  refused(request, grpc::StatusCode::NOT_FOUND, "other");
  request = Request(1);
  request.set_policy("best");
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "full, infllm, quest");
  request = Request(1);
  request.set_budget_tokens(23);
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "budget_tokens is 23");
  request = Request(1);
  request.set_tenant("others");
  refused(request, grpc::StatusCode::PERMISSION_DENIED, "as tenant 'default', not as 'others'");
  request = Request(1);
  request.set_sink_tokens(3);
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "sink_tokens is 3");
  request = Request(1);
  request.mutable_uncompressed_layers()->add_layers(9);
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "layer 9");
  request = Request(1);
  for (int i = 0; i < 600; ++i) request.mutable_token_ids()->add_ids(1);
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "model's context of 512");
  request = Request(1);
  request.mutable_token_ids()->add_ids(64);
  refused(request, grpc::StatusCode::INVALID_ARGUMENT, "id 64");
}

/// A worker whose model knows bytes only. Nearly every token is a part of a character, or of none.
class BytesTest : public ::testing::Test {
 protected:
  BytesTest() {
    auto tokenizer =
        worker::Tokenizer::Load(QUIRE_SOURCE_DIR "/models/recall-small/tokenizer.json");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_.emplace(*std::move(tokenizer));
    auto server = worker::WorkerServer::Start({.tokenizer = &*tokenizer_}, &fixture_.engine());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = std::move(server).value();
  }

  WorkerFixture fixture_{WorkerFixture::Small(), {.vocab_size = 258}};
  std::optional<worker::Tokenizer> tokenizer_;
  std::unique_ptr<worker::WorkerServer> server_;
};

TEST_F(BytesTest, TextComesInWholeCharactersWhateverTheTokensAre) {
  const auto stub = v1::Worker::NewStub(
      grpc::CreateChannel(server_->address(), grpc::InsecureChannelCredentials()));
  v1::GenerateRequest request;
  request.set_text("Café déjà vu 中文 🙂");
  request.set_max_new_tokens(120);
  request.mutable_sampling()->set_temperature(2);
  size_t tokens = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    request.mutable_sampling()->set_seed(seed);
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, request);
    std::string text, bytes;
    v1::GenerateReply reply;
    while (reader->Read(&reply)) {
      EXPECT_EQ(FirstInvalidUtf8(reply.text()), std::nullopt);
      text += reply.text();
      if (reply.done()) break;
      const TokenId token = reply.token_id();
      bytes += tokenizer_->Decode({&token, 1}).value();
      ++tokens;
    }
    EXPECT_TRUE(reply.done()) << "a reply did not parse";
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(text, ReplaceInvalidUtf8(bytes));
  }
  EXPECT_GT(tokens, 100u);
}

class OneCallTest : public WorkerServiceTest {
 protected:
  OneCallTest() : WorkerServiceTest(1) {}
};

TEST_F(OneCallTest, FurtherCallsAreRefusedAndACancelledOneMakesRoom) {
  grpc::ClientContext context;
  const auto reader = stub_->Generate(&context, Request(350));
  v1::GenerateReply reply;
  ASSERT_TRUE(reader->Read(&reply));  // It runs.
  std::vector<v1::GenerateReply> replies;
  const grpc::Status second = Run(Request(1), &replies);
  if (second.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) {
    // The first call finished before the cancel; then it must have ended itself.
    while (reader->Read(&reply)) {
    }
    ASSERT_TRUE(reader->Finish().ok());
    GTEST_SKIP() << "the first call ended before the second began";
  }
  context.TryCancel();
  while (reader->Read(&reply)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  grpc::Status third;
  do {  // The worker notices within a step.
    replies.clear();
    third = Run(Request(1), &replies);
  } while (third.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(third.ok()) << third.error_message();
}

class StalledCallTest : public WorkerServiceTest {
 protected:
  StalledCallTest() : WorkerServiceTest(1, std::chrono::milliseconds(200)) {}
};

// A caller that reads no answers does not occupy the worker's places.
TEST_F(StalledCallTest, AnAnswerThatNobodyTakesIsGivenUp) {
  grpc::ChannelArguments narrow;
  narrow.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  narrow.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto greedy = v1::Worker::NewStub(
      grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), narrow));
  grpc::ClientContext context;
  const auto unread = greedy->Generate(&context, Request(4));
  unread->WaitForInitialMetadata();
  grpc::Status status;
  std::vector<v1::GenerateReply> replies;
  do {
    replies.clear();
    status = Run(Request(1), &replies);
  } while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(MetricValuesOf(*server_).at("worker_calls_stalled"), 1u);
  context.TryCancel();
  v1::GenerateReply reply;
  while (unread->Read(&reply)) {
  }
  (void)unread->Finish();
}

TEST(WorkerServerTest, AnAddressThatCannotBeListenedOnIsNamed) {
  WorkerFixture fixture;
  const auto first = worker::WorkerServer::Start({}, &fixture.engine());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      worker::WorkerServer::Start({.address = (*first)->address()}, &fixture.engine());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr((*first)->address()));
  EXPECT_EQ(worker::WorkerServer::Start({.max_calls = 0}, &fixture.engine()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      worker::WorkerServer::Start({.batch = {.max_running = 0}}, &fixture.engine()).status().code(),
      StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire
