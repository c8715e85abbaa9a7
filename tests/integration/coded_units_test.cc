// SPDX-License-Identifier: Apache-2.0
//
// Answers over encoded documents: a worker that decodes units as it places them gives those of one
// that gets them decoded, and reads fewer bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gpuworker/engine/batch/batch.h"
#include "gpuworker/engine/reuse/reuse_run.h"
#include "quire/layout.h"
#include "tests/integration/worker_fixture.h"

namespace quire::testing {
namespace {

struct Coded {
  const char* name;
  UnitCodec codec;
};

class CodedUnitsTest : public ::testing::TestWithParam<Coded> {
 protected:
  CodedUnitsTest() {
    EXPECT_TRUE(fixture_.client().SetCollection("default", {.codec = GetParam().name}).ok());
  }

  /// A window that holds all new pages: a page that leaves it is raw until its segment is stored.
  static worker::EngineOptions Options() {
    worker::EngineOptions options = WorkerFixture::Small();
    options.retrieval.window_tokens = 40;
    options.retrieval.budget_tokens = 60;
    return options;
  }
  static std::vector<TokenId> Tokens(size_t count, uint64_t seed) {
    SeededRandom random(seed);
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(64));
    return tokens;
  }
  double Ratio() const {
    const KvSpec& spec = fixture_.engine().spec();
    return static_cast<double>(UnitBytes(spec, GetParam().codec)) /
           static_cast<double>(UnitBytes(spec));
  }
  /// A question over several documents.
  std::unique_ptr<worker::ReuseRun> Reuse(const worker::ReuseOptions& options) {
    auto run = fixture_.engine().OpenReuse(names_, Tokens(7, 99), options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? std::move(*run) : nullptr;
  }
  void StoreDocuments(const std::vector<size_t>& lengths) {
    for (const size_t length : lengths) {
      names_.push_back({.name = "doc" + std::to_string(names_.size())});
      ASSERT_TRUE(fixture_.engine().Ingest(Tokens(length, names_.size()), names_.back()).ok());
    }
  }
  static constexpr uint32_t kNewTokens = 24;
  struct Answer {
    std::vector<TokenId> tokens;
    std::vector<float> logits;
    worker::SequenceStats stats;
  };
  /// A conversation over one document of many pages.
  Answer Decode(const worker::RetrievalOptions& retrieval) {
    return Decode(fixture_.engine(), retrieval);
  }
  static Answer Decode(const worker::Engine& engine, const worker::RetrievalOptions& retrieval) {
    Answer answer;
    const auto opened = engine.OpenSequence(DocumentName{.name = "doc"}, {.retrieval = retrieval});
    EXPECT_TRUE(opened.ok()) << opened.status();
    if (!opened.ok()) return answer;
    const auto& sequence = *opened;
    EXPECT_TRUE(sequence->Append(Tokens(5, 7)).ok());
    const auto generated = sequence->Generate({.max_new_tokens = kNewTokens});
    EXPECT_TRUE(generated.ok()) << generated.status();
    answer.tokens = generated->tokens;
    answer.logits.assign(sequence->logits().begin(), sequence->logits().end());
    answer.stats = sequence->stats();
    return answer;
  }

  WorkerFixture fixture_{Options()};
  std::vector<DocumentName> names_;
};

TEST_P(CodedUnitsTest, AQuestionOverSeveralDocumentsHasTheSameAnswerForFewerBytes) {
  StoreDocuments({21, 30, 17});
  for (const worker::ReuseMethod method :
       {worker::ReuseMethod::kReuse, worker::ReuseMethod::kCacheBlend,
        worker::ReuseMethod::kSamKv}) {
    fixture_.transport().AcceptCodecs(false);
    const auto decoded = Reuse({.method = method});
    fixture_.transport().AcceptCodecs(true);
    const auto coded = Reuse({.method = method});
    ASSERT_TRUE(decoded != nullptr && coded != nullptr);
    EXPECT_TRUE(std::ranges::equal(coded->logits(), decoded->logits()));
    EXPECT_DOUBLE_EQ(static_cast<double>(coded->stats().bytes_read),
                     Ratio() * static_cast<double>(decoded->stats().bytes_read));
  }
}

TEST_P(CodedUnitsTest, DocumentsOfSeveralCodecsAreReadTogether) {
  StoreDocuments({21, 30});
  ASSERT_TRUE(fixture_.client().SetCollection("default", {.codec = "raw"}).ok());
  StoreDocuments({25});
  fixture_.transport().AcceptCodecs(false);
  const auto decoded = Reuse({.method = worker::ReuseMethod::kReuse});
  fixture_.transport().AcceptCodecs(true);
  const auto coded = Reuse({.method = worker::ReuseMethod::kReuse});
  EXPECT_TRUE(std::ranges::equal(coded->logits(), decoded->logits()));
  EXPECT_LT(coded->stats().bytes_read, decoded->stats().bytes_read);
}

TEST_P(CodedUnitsTest, DecodingOverOneDocumentHasTheSameAnswerForFewerBytes) {
  fixture_.Ingest(Tokens(150, 1));
  worker::RetrievalOptions retrieval = Options().retrieval;
  for (const bool lands : {false, true}) {
    for (const char* policy : {"quest", "freekv", "shadowkv"}) {
      SCOPED_TRACE(policy);
      retrieval.policy = policy;
      fixture_.transport().LandDirectly(lands);
      fixture_.transport().AcceptCodecs(false);
      const Answer decoded = Decode(retrieval);
      fixture_.transport().AcceptCodecs(true);
      const Answer coded = Decode(retrieval);
      EXPECT_EQ(coded.tokens, decoded.tokens);
      EXPECT_EQ(coded.logits, decoded.logits);
      EXPECT_EQ(coded.stats.units_missed, decoded.stats.units_missed);
      if (std::string(policy) == "shadowkv") {
        EXPECT_EQ(coded.stats.moved.units, decoded.stats.moved.units);  // Values come as elements.
      } else {
        EXPECT_GT(decoded.stats.moved.units, 0u);
        EXPECT_LT(coded.stats.moved.units, decoded.stats.moved.units);
      }
    }
  }
}

TEST_P(CodedUnitsTest, TheHostTierKeepsUnitsAsTheyCame) {
  fixture_.Ingest(Tokens(150, 1));
  worker::EngineOptions options = Options();
  const Answer expected = Decode(options.retrieval);
  options.host_cache_bytes = 1 << 20;
  const auto engine = fixture_.MakeEngine(&fixture_.client(), options);
  (void)Decode(*engine, options.retrieval);
  const Answer warm = Decode(*engine, options.retrieval);
  EXPECT_EQ(warm.tokens, expected.tokens);
  EXPECT_EQ(warm.logits, expected.logits);
  EXPECT_GT(warm.stats.units_from_host, 0u);
  const worker::HostTier::Stats kept = engine->host_cache_stats();
  EXPECT_LT(kept.bytes, kept.units * UnitBytes(engine->spec()));
}

TEST_P(CodedUnitsTest, SequencesOfABatchHaveTheSameAnswersForFewerBytes) {
  fixture_.Ingest(Tokens(150, 1));
  const std::vector<TokenId> expected = Decode(Options().retrieval).tokens;
  uint64_t bytes[2] = {};
  for (const bool accepts : {false, true}) {
    fixture_.transport().AcceptCodecs(accepts);
    const auto batch = worker::Batch::Create(&fixture_.engine(), {});
    ASSERT_TRUE(batch.ok()) << batch.status();
    std::vector<std::shared_ptr<worker::BatchStream>> streams;
    for (int i = 0; i < 3; ++i) {
      const auto stream = (*batch)->Submit({.document = DocumentName{.name = "doc"},
                                            .prompt = Tokens(5, 7),
                                            .params = {.max_new_tokens = kNewTokens}});
      ASSERT_TRUE(stream.ok()) << stream.status();
      streams.push_back(*stream);
    }
    while ((*batch)->Step()) continue;
    for (const auto& stream : streams) {
      std::vector<TokenId> tokens;
      for (auto next = stream->Next(); next.ok() && *next; next = stream->Next()) {
        tokens.push_back(**next);
      }
      EXPECT_EQ(tokens, expected);
      bytes[accepts] += stream->result().stats.moved.units;
    }
  }
  EXPECT_LT(bytes[true], bytes[false]);
}

INSTANTIATE_TEST_SUITE_P(Codecs, CodedUnitsTest,
                         ::testing::Values(Coded{"fp8", UnitCodec::kFp8E4M3},
                                           Coded{"int8", UnitCodec::kInt8},
                                           Coded{"int4+zstd", UnitCodec::kInt4}),
                         [](const auto& info) {
                           return std::string(info.param.name).substr(0, 4);
                         });

}  // namespace
}  // namespace quire::testing
