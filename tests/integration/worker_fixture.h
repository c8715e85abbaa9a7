// SPDX-License-Identifier: Apache-2.0
//
// WorkerFixture: a tiny random model and an engine over a real server in this process, on a
// connection that a test can disturb.
#ifndef QUIRE_TESTS_INTEGRATION_WORKER_FIXTURE_H_
#define QUIRE_TESTS_INTEGRATION_WORKER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/memory/checksum.h"
#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/testing/landing_by_copy.h"
#include "kvserver/embedded/embedded_store.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"

namespace quire::testing {

/// Forwards calls, drops replies on request, and can be connected to another server.
class DisturbedTransport final : public Transport {
 public:
  void ConnectTo(std::shared_ptr<Transport> transport) {
    MutexLock lock(mutex_);
    inner_ = std::move(transport);
  }
  /// Drops the reply to every `period`-th call from now on, after the server has done its work. 0:
  /// none.
  void LoseEvery(uint64_t period) { period_ = period; }
  uint64_t lost() const { return lost_; }
  /// Breaks off every `period`-th recall after the first message of its reply. 0: none.
  void BreakEvery(uint64_t period) { break_period_ = period; }
  uint64_t broken() const { return broken_; }

  /// Changes the last bits of the f32 pages sent from now on, as if another processor had computed
  /// them.
  void AddNoise(uint64_t seed) { noise_.emplace(seed); }

  /// False makes sessions ask for decoded units, as a worker does that cannot decode.
  void AcceptCodecs(bool accepts) { accepts_codecs_ = accepts; }

  /// True makes landed bytes count as written by the server.
  void LandDirectly(bool lands) { lands_directly_ = lands; }

  TransportCapabilities capabilities() const override {
    TransportCapabilities can = Inner()->capabilities();
    can.direct_landing = lands_directly_;
    return can;
  }
  StatusOr<std::unique_ptr<Landing>> AddLanding(std::span<std::byte> memory) override {
    return std::make_unique<worker::testing::CopiedLanding>(memory);
  }
  StatusOr<std::unique_ptr<PendingCall>> Start(std::string_view method, CallMessage request,
                                               const CallOptions& options) override {
    QUIRE_RETURN_IF_ERROR(Disturb(method, &request));
    CallOptions in_messages = options;
    in_messages.landing = nullptr;
    QUIRE_ASSIGN_OR_RETURN(auto call, Inner()->Start(method, std::move(request), in_messages));
    if (options.landing != nullptr) {
      call = std::make_unique<worker::testing::LandedCall>(std::move(call), options.landing);
    }
    if (LosesThisOne()) return std::make_unique<LostCall>();
    if (break_period_ == 0 || ++recalls_ % break_period_ != 0) return call;
    return std::make_unique<BrokenCall>(std::move(call), &broken_);
  }
  Status Call(std::string_view method, const CallMessage& request, CallMessage* reply,
              const CallOptions& options) override {
    CallMessage answer, sent = request;
    QUIRE_RETURN_IF_ERROR(Disturb(method, &sent));
    QUIRE_RETURN_IF_ERROR(Inner()->Call(method, sent, &answer, options));
    if (LosesThisOne()) return Lost();
    *reply = std::move(answer);
    return OkStatus();
  }

 private:
  std::shared_ptr<Transport> Inner() const {
    MutexLock lock(mutex_);
    return inner_;
  }
  static Status Lost() { return Unavailable("the reply was lost"); }
  /// Stands for a call whose reply was lost.
  class LostCall final : public PendingCall {
   public:
    StatusOr<std::optional<CallMessage>> Next(TimePoint) override { return Lost(); }
    void Cancel() override {}
  };
  /// A call that delivers one message, and breaks off before the next.
  class BrokenCall final : public PendingCall {
   public:
    BrokenCall(std::unique_ptr<PendingCall> call, std::atomic<uint64_t>* broken)
        : call_(std::move(call)), broken_(broken) {}
    StatusOr<std::optional<CallMessage>> Next(TimePoint deadline) override {
      QUIRE_ASSIGN_OR_RETURN(auto part, call_->Next(deadline));
      if (!part || std::exchange(first_, false)) return part;
      ++*broken_;
      return Lost();
    }
    void Cancel() override { call_->Cancel(); }

   private:
    const std::unique_ptr<PendingCall> call_;
    std::atomic<uint64_t>* const broken_;
    bool first_ = true;
  };
  Status Disturb(std::string_view method, CallMessage* request) {
    if (!accepts_codecs_ && method.ends_with("Session/Open")) return WithoutCodecs(request);
    if (!noise_) return OkStatus();
    if (method.ends_with("/AppendPages")) return Noisy<v1::AppendPagesRequest>(request);
    if (method.ends_with("/AppendLayers")) return Noisy<v1::AppendLayersRequest>(request);
    if (method.ends_with("/Seal")) return Noisy<v1::SealRequest>(request);
    return OkStatus();
  }
  static Status WithoutCodecs(CallMessage* request) {
    v1::OpenSessionRequest message;
    if (!message.ParseFromString(request->control)) return Internal("a malformed request");
    message.clear_codecs();
    request->control = message.SerializeAsString();
    return OkStatus();
  }
  template <typename Request>
  Status Noisy(CallMessage* request) {
    Request message;
    if (!message.ParseFromString(request->control)) return Internal("a malformed request");
    if (request->payload.size_bytes() == 0) return OkStatus();
    std::vector<std::byte> bytes(request->payload.size_bytes());
    request->payload.CopyTo(bytes.data());
    MutexLock lock(mutex_);
    for (size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      bytes[i] ^= static_cast<std::byte>(noise_->Below(4));
    }
    message.set_payload_crc32c(Crc32c(bytes));
    request->control = message.SerializeAsString();
    request->payload = {};
    request->payload.Append(std::move(bytes));
    return OkStatus();
  }
  bool LosesThisOne() {
    if (period_ == 0 || ++calls_ % period_ != 0) return false;
    ++lost_;
    return true;
  }

  // Calls come from several threads.
  mutable Mutex mutex_;
  std::shared_ptr<Transport> inner_;
  std::optional<SeededRandom> noise_;
  std::atomic<bool> accepts_codecs_{true}, lands_directly_{false};
  std::atomic<uint64_t> period_{0}, calls_{0}, lost_{0};
  std::atomic<uint64_t> break_period_{0}, recalls_{0}, broken_{0};
};

class WorkerFixture {
 public:
  explicit WorkerFixture(worker::EngineOptions options = Small(), const TinyModel& model = {}) {
    WriteTinyModel(model_directory_.path(), model);
    auto decoder = worker::Decoder::Load(model_directory_.path(), &worker::CpuDevice());
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = std::move(decoder).value();
    StartServer();
    auto client = Client::Create({.transport = transport_, .clock = &clock_});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = std::move(client).value();
    engine_ = MakeEngine(client_.get(), std::move(options));
  }

  /// Pages of four tokens, segments of two, a budget of 24 tokens at every layer.
  static worker::EngineOptions Small() {
    worker::EngineOptions options;
    options.page_tokens = 4;
    options.segment_pages = 2;
    options.retrieval.budget_tokens = 24;
    options.retrieval.sink_tokens = 4;
    options.retrieval.window_tokens = 8;
    options.retrieval.uncompressed_layers = {};
    return options;
  }

  /// Starts the server on the same data directory, after shutting down the previous one.
  void StartServer() {
    store_.reset();
    auto store =
        EmbeddedStore::Open({.data_dir = data_directory_.path(), .dram_bytes = uint64_t{4} << 20});
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = std::move(store).value();
    transport_->ConnectTo(store_->transport());
  }

  DisturbedTransport& transport() { return *transport_; }
  /// Another connection to the present server.
  std::shared_ptr<Transport> Connect() { return store_->transport(); }
  const TempDir& data_directory() const { return data_directory_; }
  /// A separate worker over `client`, with the fixture's model.
  std::unique_ptr<worker::Engine> MakeEngine(Client* client, worker::EngineOptions options) {
    auto engine =
        worker::Engine::Create(decoder_.get(), client, &worker::CpuDevice(), std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status();
    return engine.ok() ? std::move(engine).value() : nullptr;
  }
  const worker::Decoder& decoder() const { return *decoder_; }
  const worker::Engine& engine() const { return *engine_; }
  Client& client() { return *client_; }

  void Ingest(const std::vector<TokenId>& tokens) {
    const auto result = engine_->Ingest(tokens, {.name = "doc"});
    ASSERT_TRUE(result.ok()) << result.status();
  }
  std::unique_ptr<worker::Sequence> Open(const worker::SequenceOptions& options = {}) {
    auto sequence = engine_->OpenSequence(DocumentName{.name = "doc"}, options);
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return sequence.ok() ? std::move(sequence).value() : nullptr;
  }

 private:
  TempDir model_directory_;
  TempDir data_directory_;
  FakeClock clock_;  ///< Clock of the client: its waits take no time.
  std::unique_ptr<EmbeddedStore> store_;
  std::shared_ptr<DisturbedTransport> transport_ = std::make_shared<DisturbedTransport>();
  std::unique_ptr<worker::Decoder> decoder_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<worker::Engine> engine_;
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_WORKER_FIXTURE_H_
