// SPDX-License-Identifier: Apache-2.0
//
// Sequences of a model with latent attention: pages of latents in the store, selected by absorbed
// queries. A unit has no values apart from its keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/engine/reuse/reuse_run.h"
#include "gpuworker/engine/sequence.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/batch_fixture.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/reference_attention.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using quire::testing::TinyLatentModel;
using quire::testing::TinyModel;
using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;
using testing::ReferenceAttention;

constexpr std::string_view kPolicies[] = {"arkvale", "freekv",     "full",     "quest",
                                          "raas",    "specontext", "streaming"};

std::vector<TokenId> Joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A model of a random shape, with or without latents of queries.
TinyModel RandomLatentModel(Random& random) {
  TinyModel model = TinyLatentModel(random.Next());
  model.num_layers = static_cast<uint32_t>(1 + random.Below(3));
  model.num_query_heads = 1u << random.Below(4);
  model.latent = {.query_rank = static_cast<uint32_t>(8 * random.Below(3)),
                  .latent_dim = static_cast<uint32_t>(6 + 2 * random.Below(8)),
                  .rope_dim = static_cast<uint32_t>(2 + 2 * random.Below(3)),
                  .nope_dim = static_cast<uint32_t>(3 + random.Below(8)),
                  .value_dim = static_cast<uint32_t>(3 + random.Below(8))};
  return model;
}

/// Logits of every position of `question`, and what was moved for it.
struct Asked {
  std::vector<float> logits;
  SequenceStats stats;
};
Asked Ask(EngineFixture& fixture, const std::vector<TokenId>& question,
          const RetrievalOptions& retrieval) {
  Asked asked;
  SequenceOptions options;
  options.retrieval = retrieval;
  options.logits_observer = [&](uint64_t, std::span<const float> logits) {
    asked.logits.insert(asked.logits.end(), logits.begin(), logits.end());
  };
  const auto sequence = fixture.Open(options);
  EXPECT_EQ(sequence->Append(question), OkStatus());
  asked.stats = sequence->stats();
  return asked;
}

// Promise 5: with a budget that covers everything, every policy equals dense attention.
TEST(LatentSequenceTest, ACoveringBudgetEqualsDenseAttention) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SeededRandom random(seed + 900);
    EngineFixture fixture(RandomLatentModel(random));
    const std::vector<TokenId> document = RandomTokens(50 + random.Below(30), seed);
    const std::vector<TokenId> question = RandomTokens(21, seed + 100);
    fixture.Ingest(document);
    const auto dense = fixture.engine().DenseLogits(Joined(document, question), question.size());
    ASSERT_TRUE(dense.ok()) << dense.status();
    for (const std::string_view policy : kPolicies) {
      SCOPED_TRACE(::testing::Message() << policy << ", seed " << seed);
      RetrievalOptions retrieval = EngineFixture::Small().retrieval;
      retrieval.policy = policy;
      retrieval.budget_tokens = 128;
      const Asked asked = Ask(fixture, question, retrieval);
      EXPECT_LE(MaxDifference(asked.logits, *dense), 1e-3f);
      EXPECT_EQ(asked.stats.reopened, 0u);
    }
  }
}

TEST(LatentSequenceTest, SparseLogitsAreThoseOfTheDefinitionAndOnlySelectedLatentsMove) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed + 950);
    const TinyModel model = RandomLatentModel(random);
    EngineFixture fixture(model);
    const std::vector<TokenId> document = RandomTokens(50 + random.Below(20), seed);
    const std::vector<TokenId> question = RandomTokens(40, seed + 100);
    fixture.Ingest(document);
    const Asked asked = Ask(fixture, question, EngineFixture::Small().retrieval);
    const KvSpec& spec = fixture.engine().spec();
    ReferenceAttention reference(spec, {.sink_pages = 1, .window_pages = 2, .selectable_pages = 3});
    ASSERT_EQ(fixture.decoder().Forward(document, 0, reference, Decoder::Logits::kNone, nullptr),
              OkStatus());
    reference.set_sparse(true);
    std::vector<float> expected(question.size() * model.vocab_size);
    ASSERT_EQ(fixture.decoder().Forward(question, document.size(), reference, Decoder::Logits::kAll,
                                        expected.data()),
              OkStatus());
    EXPECT_LE(MaxDifference(asked.logits, expected), 2e-3f);
    const uint64_t row = model.latent.row_dim() * sizeof(float);
    EXPECT_EQ(UnitBytes(spec), spec.page_tokens * row);
    EXPECT_GT(asked.stats.units_missed, 0u);
    EXPECT_EQ(asked.stats.moved.units, asked.stats.units_missed * spec.page_tokens * row);
    EXPECT_LT(asked.stats.moved.units, asked.stats.moved.full);
    const uint64_t pages = document.size() / spec.page_tokens;
    EXPECT_EQ(asked.stats.moved.digests, pages * spec.num_layers * 2 * row);
    EXPECT_LE(asked.stats.resident_tokens, 24.0);
  }
}

TEST(LatentSequenceTest, APromptWithoutADocumentGoesOnWithinTheBudget) {
  EngineFixture fixture(TinyLatentModel());
  const std::vector<TokenId> prompt = RandomTokens(61, 1), next = RandomTokens(9, 2);
  fixture.Ingest(prompt);
  const std::vector<float> dense = *fixture.engine().DenseLogits(prompt, 1);
  for (const std::string_view policy : kPolicies) {
    SCOPED_TRACE(policy);
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = policy;
    auto prompted = fixture.engine().OpenSequence(std::nullopt, {.retrieval = retrieval});
    ASSERT_TRUE(prompted.ok()) << prompted.status();
    ASSERT_EQ((*prompted)->Append(prompt), OkStatus());
    EXPECT_LE(MaxDifference((*prompted)->logits(), dense), 1e-3f);
    const auto over_document = fixture.Open({.retrieval = retrieval});
    for (Sequence* sequence : {over_document.get(), prompted->get()}) {
      ASSERT_EQ(sequence->Append(next), OkStatus());
    }
    EXPECT_LE(MaxDifference((*prompted)->logits(), over_document->logits()), 1e-3f);
  }
}

class LatentBatchTest : public testing::BatchTest {
 protected:
  LatentBatchTest() : BatchTest(&CpuDevice(), EngineFixture::Small(), 61, TinyLatentModel()) {}
};

TEST_F(LatentBatchTest, EverySequenceGeneratesWhatItGeneratesAlone) {
  std::vector<BatchRequest> requests;
  uint64_t seed = 40;
  for (const std::string_view policy : kPolicies) {
    requests.push_back(Request(seed, 1 + seed * 7 % 23, 9, Retrieval(policy)));
    ++seed;
  }
  requests.push_back({.prompt = RandomTokens(9, seed), .params = {.max_new_tokens = 12}});
  const auto batch = Make({.max_running = 5, .step_tokens = 20});
  ExpectAsAlone(*batch, requests);
  EXPECT_EQ(Value(*batch, "batch_finished"), requests.size());
}

TEST(LatentSequenceTest, PoliciesThatReadHeadsAreRefusedWithThoseThatDoNot) {
  EngineFixture fixture(TinyLatentModel());
  fixture.Ingest(RandomTokens(20, 1));
  for (const std::string_view policy : AllPolicyNames()) {
    if (std::ranges::find(kPolicies, policy) != std::end(kPolicies)) continue;
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = policy;
    const auto sequence =
        fixture.engine().OpenSequence(DocumentName{.name = "doc"}, {.retrieval = retrieval});
    EXPECT_EQ(sequence.status().code(), StatusCode::kUnimplemented) << policy;
    EXPECT_THAT(std::string(sequence.status().message()),
                HasSubstr("use one of: arkvale, freekv, full, quest, raas, specontext, streaming"));
  }
}

TEST(LatentSequenceTest, WhatNeedsPartsOfPromptsIsRefused) {
  EngineFixture fixture(TinyLatentModel());
  fixture.Ingest(RandomTokens(40, 1));
  const std::vector<DocumentName> documents = {{.name = "doc"}};
  const std::vector<TokenId> question = RandomTokens(5, 2);
  const auto run = fixture.engine().OpenReuse(documents, question, {});
  EXPECT_EQ(run.status().code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("ask about one document"));
  EXPECT_EQ(fixture.decoder().SparsePrefill({}, nullptr, nullptr, {}, nullptr).status().code(),
            StatusCode::kUnimplemented);
  EngineOptions options = EngineFixture::Small();
  options.representatives = true;
  const auto engine = Engine::Create(&fixture.decoder(), &fixture.client(), &CpuDevice(), options);
  EXPECT_EQ(engine.status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace quire::worker
