// SPDX-License-Identifier: Apache-2.0
//
// EngineFixture: a random tiny model with a retrieval head, a FakeStore behind the loopback
// transport and an engine on both. Waiting costs no time. Nothing that ships includes this.
#ifndef QUIRE_GPUWORKER_TESTING_ENGINE_FIXTURE_H_
#define QUIRE_GPUWORKER_TESTING_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/engine/engine.h"
#include "gpuworker/testing/fake_store.h"
#include "gpuworker/testing/held_transport.h"
#include "gpuworker/testing/random_draft.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"
#include "tests/kit/tiny_model.h"
#include "transport/local/loopback_transport.h"

namespace quire::worker::testing {

/// `count` token ids below `vocab`; the same seed gives the same ones.
inline std::vector<TokenId> RandomTokens(size_t count, uint64_t seed, uint32_t vocab = 64) {
  SeededRandom random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(vocab));
  return tokens;
}

/// Largest absolute difference; 1e9 for different sizes.
inline float MaxDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return 1e9f;
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

class EngineFixture {
 public:
  explicit EngineFixture(const quire::testing::TinyModel& model = {},
                         EngineOptions options = Small(), Device* device = &CpuDevice(),
                         HeadMode mode = HeadMode::kTrained) {
    quire::testing::WriteTinyModel(directory_.path(), model);
    auto decoder = Decoder::Load(directory_.path(), device);
    EXPECT_TRUE(decoder.ok()) << decoder.status();
    decoder_ = std::move(decoder).value();
    transport_ = std::make_shared<HeldTransport>(
        std::make_shared<LoopbackTransport>(&store_, LoopbackTransport::Options{.clock = &clock_}),
        &clock_);
    auto client = Client::Create({.transport = transport_, .clock = &clock_});
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = std::move(client).value();
    options.clock = &clock_;  // The client's: deadlines of recalls are on it.
    const ModelConfig& config = decoder_->config();
    const auto head = std::make_shared<const quire::testing::RandomHead>(
        quire::testing::DraftShape{config.hidden_size, config.num_query_heads, config.num_kv_heads,
                                   config.head_dim, config.vocab_size},
        /*seed=*/1, mode, config.num_layers);
    options.head = {head, &head->weights()};
    auto engine = Engine::Create(decoder_.get(), client_.get(), device, std::move(options));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = std::move(engine).value();
  }

  /// Pages of four tokens, and segments of two pages. The budget of every layer is one sink page,
  /// two window pages and three selected pages.
  static EngineOptions Small() {
    EngineOptions options;
    options.page_tokens = 4;
    options.segment_pages = 2;
    options.retrieval.budget_tokens = 24;
    options.retrieval.sink_tokens = 4;
    options.retrieval.window_tokens = 8;
    options.retrieval.uncompressed_layers = {};
    return options;
  }

  FakeStore& store() { return store_; }
  /// From now on recalls are not answered, or they are again.
  void HoldRecalls(bool held) { transport_->held = held; }
  /// Recalls that are made from now on are answered after `latency`, prefetches `more` later.
  void DelayRecalls(Duration latency, Duration more = {}) {
    transport_->latency = latency;
    transport_->prefetch_latency = more;
  }
  /// `watch` is told of every recall from now on (HeldTransport::watch).
  void WatchRecalls(HeldTransport::Watch watch) { transport_->watch = std::move(watch); }
  /// Clock that waiting code reads.
  quire::testing::FakeClock& clock() { return clock_; }
  /// From now on the server counts as writing units into staging areas by itself.
  void LandDirectly() { transport_->lands_directly = true; }
  const Decoder& decoder() const { return *decoder_; }
  const Engine& engine() const { return *engine_; }
  Client& client() { return *client_; }

  /// Ingests `tokens` as document "doc".
  void Ingest(const std::vector<TokenId>& tokens) {
    const auto result = engine_->Ingest(tokens, {.name = "doc"});
    ASSERT_TRUE(result.ok()) << result.status();
  }
  /// Opens over document "doc".
  std::unique_ptr<Sequence> Open(const SequenceOptions& options = {}) {
    auto sequence = engine_->OpenSequence(DocumentName{.name = "doc"}, options);
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return sequence.ok() ? std::move(sequence).value() : nullptr;
  }

 private:
  quire::testing::TempDir directory_;
  quire::testing::FakeClock clock_;
  FakeStore store_;
  std::shared_ptr<HeldTransport> transport_;
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace quire::worker::testing

#endif  // QUIRE_GPUWORKER_TESTING_ENGINE_FIXTURE_H_
