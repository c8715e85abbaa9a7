// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/engine_fixture.h"
#include "gpuworker/testing/followed_run.h"
#include "gpuworker/testing/reference_attention.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using quire::testing::TinyModel;
using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;
using testing::ReferenceAttention;

std::vector<TokenId> Concat(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Records the logits of every position.
struct Recorder {
  LogitsObserver observer() {
    return [this](uint64_t position, std::span<const float> logits) {
      positions.push_back(position);
      values.insert(values.end(), logits.begin(), logits.end());
    };
  }
  std::vector<uint64_t> positions;
  std::vector<float> values;
};

TinyModel RandomShape(Random& random) {
  const uint32_t kv = 1u << random.Below(3);
  return {.num_layers = static_cast<uint32_t>(1 + random.Below(3)),
          .num_query_heads = kv * static_cast<uint32_t>(1 + random.Below(3)),
          .num_kv_heads = kv,
          .head_dim = 4u << random.Below(3),
          .seed = random.Next()};
}

// Promise 5: with a budget that covers everything, every policy equals dense attention.
class CoveringBudgetTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(CoveringBudgetTest, LogitsEqualDenseAttentionOverRandomModels) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const TinyModel model = RandomShape(random);
    EngineOptions options;
    options.page_tokens = 4u << random.Below(2);
    options.segment_pages = static_cast<uint32_t>(1 + random.Below(3));
    const uint32_t p = options.page_tokens;
    options.retrieval = {.policy = std::string(GetParam()),
                         .budget_tokens = 128,
                         .sink_tokens = p * static_cast<uint32_t>(random.Below(3)),
                         .window_tokens = p * static_cast<uint32_t>(2 + random.Below(2)),
                         .uncompressed_layers = {}};
    EngineFixture fixture(model, options);
    const std::vector<TokenId> document = RandomTokens(40 + random.Below(40), seed);
    const std::vector<TokenId> question = RandomTokens(25, seed + 100);
    fixture.Ingest(document);
    Recorder recorder;
    SequenceOptions sequence_options;
    sequence_options.logits_observer = recorder.observer();
    const auto sequence = fixture.Open(sequence_options);
    ASSERT_EQ(sequence->Append(question), OkStatus());
    const auto dense = fixture.engine().DenseLogits(Concat(document, question), question.size());
    EXPECT_LE(MaxDifference(recorder.values, *dense), 1e-3f);
    EXPECT_EQ(sequence->stats().reopened, 0u);
    EXPECT_EQ(sequence->stats().budget_ratio(), 1.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, CoveringBudgetTest, ::testing::ValuesIn(AllPolicyNames()),
                         [](const auto& info) { return std::string(info.param); });

/// Logits of every position of a question after a document, under `retrieval`.
std::vector<float> AskAll(EngineFixture& fixture, const RetrievalOptions& retrieval,
                          const std::vector<TokenId>& question, SequenceStats* stats = nullptr) {
  Recorder recorder;
  SequenceOptions options;
  options.retrieval = retrieval;
  options.logits_observer = recorder.observer();
  const auto sequence = fixture.Open(options);
  EXPECT_EQ(sequence->Append(question), OkStatus());
  if (stats != nullptr) *stats = sequence->stats();
  return recorder.values;
}

TEST(FreeKvSequenceTest, CorrectingEveryHeadIsBlockingSelectionBitForBit) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed + 20);
    EngineFixture fixture(RandomShape(random));
    fixture.Ingest(RandomTokens(61, seed));
    const std::vector<TokenId> question = RandomTokens(40, seed + 100);
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    SequenceStats blocking;
    const std::vector<float> expected = AskAll(fixture, retrieval, question, &blocking);
    retrieval.policy = "freekv";
    retrieval.correction_threshold = 1.01f;
    SequenceStats corrected;
    EXPECT_EQ(AskAll(fixture, retrieval, question, &corrected), expected);
    EXPECT_EQ(corrected.moved.units, blocking.moved.units);
    const uint64_t heads = fixture.engine().spec().num_kv_heads;
    EXPECT_GT(blocking.selections, 0u);
    EXPECT_EQ(blocking.blocking_heads, blocking.selections * heads);
    EXPECT_EQ(corrected.selections, blocking.selections);
    EXPECT_EQ(corrected.blocking_heads, blocking.blocking_heads);
    retrieval.correction_threshold = -1.01f;
    SequenceStats speculating;
    EXPECT_NE(AskAll(fixture, retrieval, question, &speculating), expected);
    EXPECT_EQ(speculating.selections, blocking.selections);
    EXPECT_EQ(speculating.blocking_heads, blocking.blocking_heads / question.size())
        << "those of the first step";
  }
}

// The whole path (digests, scores, pooling, top-k, recall, slots, window, offload of new pages)
// against one that is written from the definition.
TEST(SequenceTest, SparseLogitsAreThoseOfTheDefinition) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed + 50);
    const TinyModel model = RandomShape(random);
    EngineFixture fixture(model);
    const std::vector<TokenId> document = RandomTokens(50 + random.Below(20), seed);
    const std::vector<TokenId> question = RandomTokens(40, seed + 100);
    fixture.Ingest(document);
    Recorder recorder;
    SequenceOptions options;
    options.logits_observer = recorder.observer();
    const auto sequence = fixture.Open(options);
    ASSERT_EQ(sequence->Append(question), OkStatus());

    ReferenceAttention reference(fixture.engine().spec(),
                                 {.sink_pages = 1, .window_pages = 2, .selectable_pages = 3});
    ASSERT_EQ(fixture.decoder().Forward(document, 0, reference, Decoder::Logits::kNone, nullptr),
              OkStatus());
    reference.set_sparse(true);
    std::vector<float> expected(question.size() * model.vocab_size);
    ASSERT_EQ(fixture.decoder().Forward(question, document.size(), reference, Decoder::Logits::kAll,
                                        expected.data()),
              OkStatus());
    EXPECT_LE(MaxDifference(recorder.values, expected), 2e-3f);
    const SequenceStats stats = sequence->stats();
    EXPECT_LE(stats.resident_tokens, 24.0);
    EXPECT_EQ(stats.reopened, 0u);
    EXPECT_GT(stats.units_hit, 0u);
    EXPECT_GT(stats.units_missed, 0u);
    EXPECT_LT(stats.moved.units, stats.moved.full);
    EXPECT_EQ(stats.moved.units, stats.units_missed * 2 * 4 * model.head_dim * sizeof(float));
    // Every part crosses the wire, so every part counts.
    const uint64_t unit = uint64_t{2} * 4 * model.head_dim * sizeof(float);
    const uint64_t layers_heads = uint64_t{model.num_layers} * model.num_kv_heads;
    const uint64_t pages = document.size() / 4;
    EXPECT_EQ(stats.moved.digests, pages * layers_heads * 2 * model.head_dim * sizeof(float));
    EXPECT_EQ(stats.moved.at_open % unit, 0u);
    EXPECT_GE(stats.moved.at_open, 2 * layers_heads * unit);  // The sink, and a page of the window.
    EXPECT_EQ(stats.moved.total(), stats.moved.at_open + stats.moved.digests + stats.moved.units);
  }
}

TEST(SequenceTest, AppendingInPartsEqualsAppendingAtOnce) {
  EngineFixture fixture;
  fixture.Ingest(RandomTokens(61, 1));
  const std::vector<TokenId> question = RandomTokens(30, 2);
  const auto whole = fixture.Open();
  ASSERT_EQ(whole->Append(question), OkStatus());
  const auto parts = fixture.Open();
  for (TokenId token : question) ASSERT_EQ(parts->Append({&token, 1}), OkStatus());
  EXPECT_LE(MaxDifference(whole->logits(), parts->logits()), 1e-4f);
  EXPECT_EQ(whole->stats().moved.units, parts->stats().moved.units);
}

TEST(SequenceTest, GeneratesWhatDenseAttentionWouldOverSeveralQuestions) {
  EngineOptions options = EngineFixture::Small();
  options.retrieval.budget_tokens = 256;
  EngineFixture fixture({}, options);
  std::vector<TokenId> text = RandomTokens(33, 1);
  fixture.Ingest(text);
  const auto sequence = fixture.Open();
  for (uint64_t turn = 0; turn < 3; ++turn) {
    const std::vector<TokenId> question = RandomTokens(5, 10 + turn);
    ASSERT_EQ(sequence->Append(question), OkStatus());
    const auto generation = sequence->Generate({.max_new_tokens = 6});
    ASSERT_TRUE(generation.ok()) << generation.status();
    text = Concat(text, question);
    for (TokenId token : generation->tokens) {
      const auto dense = fixture.engine().DenseLogits(text, 1);
      EXPECT_EQ(std::max_element(dense->begin(), dense->end()) - dense->begin(), token);
      text.push_back(token);
    }
  }
  EXPECT_EQ(sequence->num_tokens(), text.size());
  EXPECT_EQ(sequence->stats().generated_tokens, 18u);
}

TEST(SequenceTest, StopTokensEndTheAnswerAndAreNotPartOfIt) {
  EngineFixture fixture;
  fixture.Ingest(RandomTokens(33, 1));
  const std::vector<TokenId> question = RandomTokens(5, 2);
  const auto first = fixture.Open();
  ASSERT_EQ(first->Append(question), OkStatus());
  const auto free = first->Generate({.max_new_tokens = 8});
  ASSERT_EQ(free->tokens.size(), 8u);
  EXPECT_FALSE(free->stopped);
  const auto second = fixture.Open();
  ASSERT_EQ(second->Append(question), OkStatus());
  const auto stopped = second->Generate({.max_new_tokens = 8, .stop_tokens = {free->tokens[3]}});
  EXPECT_TRUE(stopped->stopped);
  const auto end = std::find(free->tokens.begin(), free->tokens.end(), free->tokens[3]);
  EXPECT_EQ(stopped->tokens, std::vector<TokenId>(free->tokens.begin(), end));
  EXPECT_EQ(second->num_tokens(), 33 + question.size() + stopped->tokens.size());
}

TEST(SequenceTest, TheCallerCanEndAGeneration) {
  EngineFixture fixture;
  fixture.Ingest(RandomTokens(20, 1));
  const auto sequence = fixture.Open();
  ASSERT_EQ(sequence->Append(RandomTokens(2, 2)), OkStatus());
  int seen = 0;
  const auto generation =
      sequence->Generate({.max_new_tokens = 50, .on_token = [&](TokenId) { return ++seen < 4; }});
  EXPECT_EQ(generation->tokens.size(), 4u);
}

TEST(SequenceTest, WorksWithoutADocument) {
  EngineFixture fixture;
  auto sequence = fixture.engine().OpenSequence(std::nullopt);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  EXPECT_EQ((*sequence)->Generate({}).status().code(), StatusCode::kFailedPrecondition);
  ASSERT_EQ((*sequence)->Append(RandomTokens(50, 1)), OkStatus());
  EXPECT_EQ((*sequence)->Generate({.max_new_tokens = 4})->tokens.size(), 4u);
  EXPECT_EQ((*sequence)->stats().bytes_appended, 13 * 4 * 2 * 2 * 2 * 8 * sizeof(float));
}

// A prompt attends to all of itself, and from then on the sequence is what it would be over a
// document of the same tokens.
TEST(SequenceTest, APromptWithoutADocumentAttendsDenselyAndGoesOnWithinTheBudget) {
  EngineFixture fixture({.num_layers = 4});
  for (const size_t length : {48u, 61u}) {
    const std::vector<TokenId> prompt = RandomTokens(length, length), next = RandomTokens(9, 3);
    fixture.Ingest(prompt);
    const std::vector<float> dense = *fixture.engine().DenseLogits(prompt, 1);
    for (const std::string_view policy : AllPolicyNames()) {
      SCOPED_TRACE(::testing::Message() << policy << " after " << length << " tokens");
      RetrievalOptions retrieval = EngineFixture::Small().retrieval;
      retrieval.policy = policy;
      const auto over_document = fixture.Open({.retrieval = retrieval});
      auto prompted = fixture.engine().OpenSequence(std::nullopt, {.retrieval = retrieval});
      ASSERT_TRUE(prompted.ok()) << prompted.status();
      ASSERT_EQ((*prompted)->Append(prompt), OkStatus());
      EXPECT_LE(MaxDifference((*prompted)->logits(), dense), 1e-3f);
      EXPECT_EQ((*prompted)->stats().selections, 0u);
      for (Sequence* sequence : {over_document.get(), prompted->get()}) {
        ASSERT_EQ(sequence->Append(next), OkStatus());
      }
      EXPECT_LE(MaxDifference((*prompted)->logits(), over_document->logits()), 1e-3f);
      EXPECT_EQ((*prompted)->stats().resident_tokens, over_document->stats().resident_tokens);
      EXPECT_EQ((*prompted)->stats().selections, over_document->stats().selections);
    }
  }
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
  EXPECT_EQ(fixture.store().open_sessions(), 0u);
}

// A long question attends to everything, and from then on the sequence is what it would be over a
// document that ends with the question.
TEST(SequenceTest, ALongQuestionAttendsToTheWholeDocument) {
  EngineOptions options = EngineFixture::Small();
  options.question_chunk_tokens = 30;
  EngineFixture fixture({.num_layers = 4}, options);
  const std::vector<TokenId> next = RandomTokens(9, 3);
  for (const auto& [document, question] : {std::pair(90u, 41u), {61u, 30u}}) {
    std::vector<TokenId> all = RandomTokens(document, document);
    const std::vector<TokenId> asked = RandomTokens(question, 5);
    fixture.Ingest(all);
    auto sequence = fixture.Open();
    all.insert(all.end(), asked.begin(), asked.end());
    fixture.Ingest(all);
    const auto over_both = fixture.Open();
    ASSERT_EQ(sequence->Append(asked), OkStatus());
    EXPECT_LE(MaxDifference(sequence->logits(), *fixture.engine().DenseLogits(all, 1)), 1e-3f);
    EXPECT_EQ(sequence->stats().selections, 0u);
    ASSERT_EQ(sequence->Append(next), OkStatus());
    ASSERT_EQ(over_both->Append(next), OkStatus());
    EXPECT_LE(MaxDifference(sequence->logits(), over_both->logits()), 1e-3f);
    EXPECT_EQ(sequence->stats().resident_tokens, over_both->stats().resident_tokens);
  }
}

TEST(SequenceTest, ALaterLongQuestionAttendsToEverythingBeforeIt) {
  EngineOptions options = EngineFixture::Small();
  options.question_chunk_tokens = 30;
  EngineFixture fixture({.num_layers = 4}, options);
  fixture.Ingest(RandomTokens(90, 1));
  const std::vector<TokenId> first = RandomTokens(5, 2), second = RandomTokens(30, 4);
  const auto sequence = fixture.Open();
  ASSERT_EQ(sequence->Append(first), OkStatus());
  const uint64_t selections = sequence->stats().selections;
  EXPECT_GT(selections, 0u);
  ASSERT_EQ(sequence->Append(second), OkStatus());
  EXPECT_EQ(sequence->stats().selections, selections);
  // After a restart the own tokens run again as they did.
  fixture.store().Restart();
  ASSERT_EQ(sequence->Append(RandomTokens(1, 6)), OkStatus());
  EXPECT_EQ(sequence->stats().reopened, 1u);
  EXPECT_GT(sequence->stats().selections, selections);
}

TEST(SequenceTest, EveryPolicyGoesOnPastItsBudget) {
  EngineFixture fixture({.num_layers = 4});
  fixture.Ingest(RandomTokens(90, 1));
  for (const std::string_view policy : AllPolicyNames()) {
    SCOPED_TRACE(policy);
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = policy;
    const auto sequence = fixture.Open({.retrieval = retrieval});
    ASSERT_NE(sequence, nullptr);
    ASSERT_EQ(sequence->Append(RandomTokens(40, 2)), OkStatus());
    EXPECT_EQ(sequence->Generate({.max_new_tokens = 20})->tokens.size(), 20u);
    EXPECT_FALSE(sequence->stats().local);
    EXPECT_EQ(sequence->stats().reopened, 0u);
  }
}

TEST(SequenceTest, TooLongAPromptIsRefusedAndGenerationEndsAtTheContext) {
  EngineFixture fixture({.max_positions = 64});
  fixture.Ingest(RandomTokens(50, 1));
  const auto sequence = fixture.Open();
  const Status status = sequence->Append(RandomTokens(15, 2));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("makes 65, more than the model's context of 64"));
  ASSERT_EQ(sequence->Append(RandomTokens(12, 2)), OkStatus());
  EXPECT_EQ(sequence->Generate({.max_new_tokens = 10})->tokens.size(), 2u);
}

TEST(SequenceTest, ADocumentOfALargerModelIsRefusedWithTheRemedy) {
  EngineFixture fixture({.max_positions = 64});
  fixture.Ingest(RandomTokens(60, 1));
  // The same weights with a shorter context: the pages fit, the positions do not.
  const quire::testing::TempDir directory;
  quire::testing::WriteTinyModel(directory.path(), {.max_positions = 32});
  const auto decoder = Decoder::Load(directory.path(), &CpuDevice());
  const auto engine =
      Engine::Create(decoder->get(), &fixture.client(), &CpuDevice(), EngineFixture::Small());
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Status status = (*engine)->OpenSequence(DocumentName{.name = "doc"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("'doc' has 60 tokens, more than the model's context of 32; store a shorter "
                        "text under that name, or use the model that read it"));
}

TEST(SequenceTest, AHostTierMovesLessAndChangesNoAnswer) {
  const std::vector<TokenId> question = RandomTokens(60, 2);
  const uint64_t unit_bytes = 4 * 2 * 8 * sizeof(float);
  const auto ask = [&](uint64_t host_cache_bytes, uint32_t times) {
    EngineOptions options = EngineFixture::Small();
    options.host_cache_bytes = host_cache_bytes;
    EngineFixture fixture({}, options);
    fixture.Ingest(RandomTokens(120, 1));
    std::vector<std::pair<std::vector<float>, SequenceStats>> answers;
    for (uint32_t i = 0; i < times; ++i) {
      const auto sequence = fixture.Open();
      EXPECT_EQ(sequence->Append(question), OkStatus());
      answers.emplace_back(std::vector<float>(sequence->logits().begin(), sequence->logits().end()),
                           sequence->stats());
    }
    EXPECT_LE(fixture.engine().host_cache_stats().bytes, host_cache_bytes);
    return answers;
  };
  const auto without = ask(0, 1);
  const auto large = ask(1 << 20, 2);
  const auto small = ask(20 * unit_bytes, 2);
  EXPECT_EQ(without[0].second.units_from_host, 0u);
  for (const auto* answers : {&large, &small}) {
    for (const auto& [logits, stats] : *answers) {
      EXPECT_EQ(logits, without[0].first);
      EXPECT_GT(stats.units_from_host, 0u);
      EXPECT_EQ(stats.units_from_host + stats.units_missed, without[0].second.units_missed);
      EXPECT_EQ(stats.units_hit, without[0].second.units_hit);
      EXPECT_LT(stats.moved.units, without[0].second.moved.units);
    }
  }
  // The second sequence over the document finds what the first one recalled of it.
  EXPECT_LT(large[1].second.units_missed, large[0].second.units_missed);
}

/// ShadowKV's selection over the keys that are stored: whole units are recalled.
class StoredKeysPolicy final : public RetrievalPolicy {
 public:
  explicit StoredKeysPolicy(std::unique_ptr<RetrievalPolicy> next) : next_(std::move(next)) {}
  std::string_view name() const override { return "stored keys"; }
  CacheLayout Layout(uint32_t layer) const override { return next_->Layout(layer); }
  PageObserver* page_observer() override { return next_->page_observer(); }
  StatusOr<Selection> Select(const SelectRequest& request) override {
    return next_->Select(request);
  }
  StatusOr<std::vector<bool>> NeedsBlocking(const SelectRequest& request) override {
    return next_->NeedsBlocking(request);
  }

 private:
  const std::unique_ptr<RetrievalPolicy> next_;
};

TEST(ShadowKvSequenceTest, KeysOfFullRankAnswerAsThoseThatAreStored) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed + 70);
    EngineFixture fixture(RandomShape(random), EngineFixture::Small());
    fixture.Ingest(RandomTokens(90, seed));
    const KvSpec& spec = fixture.engine().spec();
    // Long enough for pages of its own to leave the window and come back.
    const std::vector<TokenId> question = RandomTokens(60, seed + 100);
    RetrievalOptions retrieval = EngineFixture::Small().retrieval;
    retrieval.policy = "shadowkv";
    retrieval.key_rank = spec.num_kv_heads * spec.head_dim;
    testing::FollowedRun values(fixture, retrieval), whole(fixture, retrieval);
    whole.Wrap([](auto next) { return std::make_unique<StoredKeysPolicy>(std::move(next)); });
    const std::vector<float> answer = values.Steps(question).back().logits;
    EXPECT_LE(MaxDifference(answer, whole.Steps(question).back().logits), 1e-3f);
    EXPECT_GT(values.recalls().units_missed, 0u);
    EXPECT_EQ(values.recalls().bytes_moved, values.recalls().units_missed * UnitBytes(spec) / 2);
    EXPECT_EQ(whole.recalls().bytes_moved, whole.recalls().units_missed * UnitBytes(spec));
  }
}

TEST(ShadowKvSequenceTest, AHostTierThatHasWholeUnitsOfTheSamePagesChangesNoAnswer) {
  EngineOptions options = EngineFixture::Small();
  const std::vector<TokenId> question = RandomTokens(60, 100);
  RetrievalOptions retrieval = options.retrieval;
  std::vector<std::vector<float>> answers;
  for (const uint64_t host_cache_bytes : {0, 1 << 20}) {
    options.host_cache_bytes = host_cache_bytes;
    EngineFixture fixture({}, options);
    fixture.Ingest(RandomTokens(90, 1));
    SequenceStats stats;
    retrieval.policy = "quest";
    AskAll(fixture, retrieval, question, &stats);
    retrieval.policy = "shadowkv";
    answers.push_back(AskAll(fixture, retrieval, question, &stats));
    EXPECT_EQ(stats.moved.units, stats.units_missed * UnitBytes(fixture.engine().spec()) / 2);
    EXPECT_EQ(stats.reopened, 0u);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

// Rows are copied into the same slots, from what the store sent and from what the worker kept.
TEST(ArkValeSequenceTest, ThePublishedLayoutRecallsTheSameUnitsAndAnswersTheSame) {
  for (const uint64_t host_cache_bytes : {0, 1 << 20}) {
    SCOPED_TRACE(host_cache_bytes);
    EngineOptions options = EngineFixture::Small();
    options.host_cache_bytes = host_cache_bytes;
    const auto published = AsPublished({.policy = "arkvale"}, options.page_tokens);
    ASSERT_TRUE(published.ok()) << published.status();
    RetrievalOptions retrieval = *published;
    retrieval.sink_tokens = options.retrieval.sink_tokens;
    retrieval.window_tokens = options.retrieval.window_tokens;
    retrieval.budget_tokens = options.retrieval.budget_tokens;
    retrieval.select_tokens = 0;
    ASSERT_EQ(retrieval.recall_layout, RecallLayout::kRows);
    EngineFixture fixture({}, options);
    fixture.Ingest(RandomTokens(120, 1));
    const std::vector<TokenId> question = RandomTokens(40, 2);
    SequenceStats rows, units;
    const std::vector<float> expected = AskAll(fixture, retrieval, question, &rows);
    retrieval.recall_layout = RecallLayout::kUnits;
    EXPECT_EQ(AskAll(fixture, retrieval, question, &units), expected);
    EXPECT_GT(rows.units_missed, 0u);
    EXPECT_EQ(units.units_missed + units.units_from_host, rows.units_missed + rows.units_from_host);
    EXPECT_EQ(units.reopened, 0u);
  }
}

TEST(SequenceTest, ClosingLeavesNothingOnTheServer) {
  EngineFixture fixture;
  fixture.Ingest(RandomTokens(50, 1));
  auto sequence = fixture.Open();
  EXPECT_EQ(fixture.store().open_contexts(), 1u);
  EXPECT_EQ(fixture.store().open_sessions(), 1u);
  sequence.reset();
  EXPECT_EQ(fixture.store().open_contexts(), 0u);
  EXPECT_EQ(fixture.store().open_sessions(), 0u);
}

TEST(SequenceTest, ABudgetWithoutRoomForAPageIsRefusedByEveryPolicyThatHasOne) {
  EngineFixture fixture;
  fixture.Ingest(RandomTokens(50, 1));
  for (const std::string_view policy : AllPolicyNames()) {
    if (policy == "full") continue;
    SCOPED_TRACE(policy);
    EngineOptions options = EngineFixture::Small();
    options.retrieval.policy = policy;
    options.retrieval.budget_tokens =
        options.retrieval.sink_tokens + options.retrieval.window_tokens;
    for (const Status& status :
         {Engine::Create(&fixture.decoder(), &fixture.client(), &CpuDevice(), options).status(),
          fixture.engine()
              .OpenSequence(DocumentName{.name = "doc"}, {.retrieval = options.retrieval})
              .status()}) {
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("budget_tokens is 12, less than sinks, window and one page together "
                            "(16 tokens)"));
    }
    EXPECT_EQ(fixture.store().open_contexts(), 0u);
    EXPECT_EQ(fixture.store().open_sessions(), 0u);
  }
}

TEST(SequenceTest, BadRequestsAreRefused) {
  EngineFixture fixture;
  EXPECT_EQ(fixture.engine().OpenSequence(DocumentName{.name = "none"}).status().code(),
            StatusCode::kNotFound);
  fixture.Ingest(RandomTokens(50, 1));
  SequenceOptions unknown;
  unknown.retrieval = RetrievalOptions{.policy = "best"};
  EXPECT_EQ(fixture.engine().OpenSequence(std::nullopt, unknown).status().code(),
            StatusCode::kInvalidArgument);
  SequenceOptions others;
  others.document_tokens = RandomTokens(49, 1);
  EXPECT_EQ(fixture.engine().OpenSequence(DocumentName{.name = "doc"}, others).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(fixture.engine().OpenSequence(std::nullopt, others).status().code(),
            StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace quire::worker
