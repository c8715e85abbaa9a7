// SPDX-License-Identifier: Apache-2.0
//
// The worker over every kind of connection to a real server. One message brings what a retrieval
// head selects for all layers and sequences of a step. The tokens are the same everywhere.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/observe/metrics.h"
#include "common/base/random.h"
#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/testing/random_draft.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "quire/client.h"
#include "quire/connect.h"
#include "tests/integration/worker_fixture.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"
#include "transport/local/loopback_transport.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using testing::WorkerFixture;
using worker::Batch;
using worker::BatchRequest;
using worker::BatchStream;
using worker::Decoder;
using worker::Engine;
using worker::EngineOptions;

constexpr uint32_t kSequences = 3, kNewTokens = 18, kVocabulary = 64;

std::vector<TokenId> TokensOf(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(kVocabulary));
  return tokens;
}

/// The parameter names the connection.
class WorkerTransportsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (kind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    testing::WriteTinyModel(model_.path(), {});
    auto decoder = Decoder::Load(model_.path(), &worker::CpuDevice());
    ASSERT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = *std::move(decoder);
    const worker::ModelConfig& config = decoder_->config();
    head_ = std::make_unique<testing::RandomHead>(
        testing::DraftShape{config.hidden_size, config.num_query_heads, config.num_kv_heads,
                            config.head_dim, config.vocab_size});
    StartServer();
    near_ = MakeWorker(
        std::make_shared<LoopbackTransport>(server_->handler(), LoopbackTransport::Options{}),
        /*data=*/nullptr);
    const auto read = near_.engine->Ingest(TokensOf(61, 1), {.name = "doc"});
    ASSERT_TRUE(read.ok()) << read.status();
    far_ = kind() == "loopback" ? near_ : MakeWorker(control_, Connect());
  }

  struct Worker {
    std::shared_ptr<Client> client;
    std::shared_ptr<Engine> engine;
  };

  static std::string_view kind() { return GetParam(); }

  void StartServer() {
    kvserver::ServerOptions options;
    options.data_dir = dir_ / "data";
    options.dram_bytes = uint64_t{16} << 20;
    auto server = kvserver::Server::Open(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    if (kind() == "loopback") return;
    auto listener = kvserver::NetworkServer::Start(
        *server_, options,
        {.listeners = {.transports = {std::string(kind())}, .shm_socket = dir_ / "socket"}});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    control_ = *ConnectGrpc(listener_->address());
  }

  std::shared_ptr<Transport> Connect() {
    const auto data = ConnectData(control_, {.transport = std::string(kind()),
                                             .ucx_within_host = true,
                                             .control_address = listener_->address()});
    EXPECT_TRUE(data.ok()) << data.status();
    return data.ok() ? data->transport : nullptr;
  }

  Worker MakeWorker(std::shared_ptr<Transport> control, std::shared_ptr<Transport> data) {
    auto client = Client::Create({.transport = std::move(control), .data_transport = data});
    EXPECT_TRUE(client.ok()) << client.status();
    EngineOptions options = WorkerFixture::Small();
    options.retrieval.policy = "specontext";
    options.head = {head_, &head_->weights()};
    Worker worker{.client = *std::move(client), .engine = nullptr};
    auto engine = Engine::Create(decoder_.get(), worker.client.get(), &worker::CpuDevice(),
                                 std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status();
    worker.engine = *std::move(engine);
    return worker;
  }

  static BatchRequest Request(uint32_t sequence) {
    return {.document = DocumentName{.name = "doc"},
            .prompt = TokensOf(1 + sequence, 10 + sequence),
            .params = {.max_new_tokens = kNewTokens}};
  }
  /// Tokens that the sequence generates by itself, near the server.
  std::vector<TokenId> Alone(const BatchRequest& request) {
    const auto sequence = near_.engine->OpenSequence(request.document, {});
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ((*sequence)->Append(request.prompt), OkStatus());
    return (*sequence)->Generate(request.params)->tokens;
  }

  const testing::TempDir model_, dir_;
  std::unique_ptr<Decoder> decoder_;
  std::shared_ptr<testing::RandomHead> head_;
  std::unique_ptr<kvserver::Server> server_;
  std::unique_ptr<kvserver::NetworkServer> listener_;
  std::shared_ptr<Transport> control_;
  Worker near_, far_;  ///< Over loopback, and over the connection.
};

TEST_P(WorkerTransportsTest, AStepOfSpeContextIsOneMessageAndTheTokensAreTheSame) {
  auto batch = *Batch::Create(far_.engine.get(), {});
  std::vector<std::shared_ptr<BatchStream>> streams;
  for (uint32_t i = 0; i < kSequences; ++i) streams.push_back(*batch->Submit(Request(i)));
  ASSERT_GT(far_.engine->spec().num_layers, 1u);
  ASSERT_TRUE(batch->Step());  // They have come, and generate.
  const auto messages = [&] { return MetricValuesOf(*batch).at("batch_recall_messages"); };
  const uint64_t before = messages();
  for (uint64_t last = before; batch->Step(); last = messages()) {
    EXPECT_LE(messages() - last, 1u);
  }
  EXPECT_GT(messages(), before);
  for (uint32_t i = 0; i < kSequences; ++i) {
    std::vector<TokenId> tokens;
    for (auto token = streams[i]->Next(); token.ok() && *token; token = streams[i]->Next()) {
      tokens.push_back(**token);
    }
    EXPECT_EQ(streams[i]->result().stats.reopened, 0u);
    EXPECT_EQ(tokens, Alone(Request(i))) << "sequence " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, WorkerTransportsTest,
                         ::testing::Values("loopback", "shm", "grpc", "ucx"));

}  // namespace
}  // namespace quire
