// SPDX-License-Identifier: Apache-2.0
//
// The worker over a real server: ingest, sparse answers, both sides of selection, lost replies, and
// restarts of the server. Promises 4, 5 and 8.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "common/base/random.h"
#include "common/page/rope_rotation.h"
#include "gpuworker/context/samkv/samkv_selection.h"
#include "gpuworker/context/statistics/layer_statistics.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/followed_run.h"
#include "gpuworker/testing/reference_attention.h"
#include "tests/integration/worker_fixture.h"

namespace quire {
namespace {

using testing::DisturbedTransport;
using testing::TinyModel;
using testing::WorkerFixture;
using worker::RetrievalOptions;
using worker::SelectionSide;
using worker::Sequence;
using worker::SequenceOptions;

std::vector<TokenId> RandomTokens(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(64));
  return tokens;
}

float MaxDifference(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return 1e9f;
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

/// A counter or gauge of the server.
uint64_t Counted(WorkerFixture& fixture, std::string_view name) {
  const auto stats = fixture.client().Stats();
  EXPECT_TRUE(stats.ok()) << stats.status();
  const auto found = std::ranges::find(stats->counters, name,
                                       [](const auto& c) { return std::string_view(c.first); });
  EXPECT_NE(found, stats->counters.end()) << name;
  return found->second;
}
/// Number of segments that the server has stored.
uint64_t Segments(WorkerFixture& fixture) { return Counted(fixture, "segments"); }

/// Logits of every position of `question`, asked over document "doc".
std::vector<float> Ask(WorkerFixture& fixture, const RetrievalOptions& retrieval,
                       const std::vector<TokenId>& question,
                       worker::SequenceStats* stats = nullptr) {
  std::vector<float> logits;
  SequenceOptions options;
  options.retrieval = retrieval;
  options.logits_observer = [&](uint64_t, std::span<const float> values) {
    logits.insert(logits.end(), values.begin(), values.end());
  };
  const auto sequence = fixture.Open(options);
  EXPECT_EQ(sequence->Append(question), OkStatus());
  EXPECT_EQ(sequence->stats().reopened, 0u);
  EXPECT_FALSE(sequence->stats().local);
  if (stats != nullptr) *stats = sequence->stats();
  return logits;
}

/// Compares logits of a question under each policy, with a budget that covers everything, with
/// those of dense attention. The pages are of `dtype`.
void ExpectEqualsDense(DType dtype, float tolerance) {
  worker::EngineOptions options = WorkerFixture::Small();
  options.dtype = dtype;
  options.retrieval.budget_tokens = 256;
  WorkerFixture fixture(options);
  std::vector<TokenId> text = RandomTokens(150, 1);
  const std::vector<TokenId> question = RandomTokens(30, 2);
  fixture.Ingest(text);
  text.insert(text.end(), question.begin(), question.end());
  const auto dense = fixture.engine().DenseLogits(text, question.size());
  std::vector<float> full;
  for (const std::string_view policy : worker::PolicyNames()) {
    SCOPED_TRACE(policy);
    RetrievalOptions retrieval = options.retrieval;
    retrieval.policy = policy;
    const std::vector<float> logits = Ask(fixture, retrieval, question);
    EXPECT_LE(MaxDifference(logits, *dense), tolerance);
    if (full.empty()) full = logits;
    EXPECT_LE(MaxDifference(logits, full), 1e-3f);
  }
}

TEST(WorkerSequenceTest, AQuestionCountsForItsDocument) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(60, 31));
  const auto questions = [&] {
    return fixture.client().GetDocument({.name = "doc"})->statistics.questions;
  };
  EXPECT_EQ(questions(), 0u);
  Ask(fixture, WorkerFixture::Small().retrieval, RandomTokens(5, 32));
  EXPECT_EQ(questions(), 1u);
  Ask(fixture, WorkerFixture::Small().retrieval, RandomTokens(5, 33));
  EXPECT_EQ(questions(), 2u);
}

/// Documents whose statistics a question by SamKV has to compute, of those that `engine` reads.
uint32_t StatisticsComputed(WorkerFixture& fixture, const worker::EngineOptions& options) {
  const auto engine = fixture.MakeEngine(&fixture.client(), options);
  const std::string prefix = options.statistics ? "with" : "without";
  std::vector<DocumentName> names;
  for (const size_t length : {250, 230}) {
    names.push_back({.name = prefix + std::to_string(length)});
    const auto put = engine->Ingest(RandomTokens(length, length + prefix.size()), names.back());
    EXPECT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(put->statistics, OkStatus());
  }
  const std::vector<TokenId> question = RandomTokens(7, 99);
  const auto run = engine->OpenReuse(names, question, {.method = worker::ReuseMethod::kSamKv});
  EXPECT_TRUE(run.ok()) << run.status();
  return (*run)->stats().statistics_computed;
}

/// Means of the keys of each block without rotation, [blocks][n_kv][d], of layer 1 of "doc".
std::vector<float> MeansOfBlocks(WorkerFixture& fixture, const worker::BlockSplit& split) {
  const KvSpec& spec = fixture.engine().spec();
  const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
  std::vector<uint32_t> pages(PageCount(spec, split.tokens));
  std::iota(pages.begin(), pages.end(), 0);
  const UnitRange range{.layer = 1, .pages = pages};
  const auto fetched = fixture.client().Fetch(DocumentName{.name = "doc"}, {&range, 1});
  EXPECT_TRUE(fetched.ok()) << fetched.status();
  const Slice units = fetched->Flatten();
  const RopeRotation rotation(spec.rope);
  std::vector<float> means(split.blocks() * row);
  for (uint32_t token = 0; token < split.tokens; ++token) {
    const uint32_t block = split.BlockOf(token);
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      const uint64_t unit = uint64_t{token / spec.page_tokens} * spec.num_kv_heads + head;
      const std::byte* const rows = units.bytes.data() + unit * UnitBytes(spec);
      std::vector<float> key;
      for (uint32_t c = 0; c < spec.head_dim; ++c) {
        const int64_t at = int64_t{token % spec.page_tokens} * spec.head_dim + c;
        key.push_back(LoadElement(rows, at, spec.dtype));
      }
      worker::Unrotate(key.data(), 1, 1, spec.head_dim, token, spec.rope.interleaved, rotation);
      const auto in_block = static_cast<float>(split.End(block) - split.Begin(block));
      for (uint32_t c = 0; c < spec.head_dim; ++c) {
        means[block * row + head * spec.head_dim + c] += key[c] / in_block;
      }
    }
  }
  return means;
}

TEST(WorkerSequenceTest, TheServersScoresOfBlocksAreThoseOfTheMeansOfTheirKeys) {
  worker::EngineOptions options = WorkerFixture::Small();
  options.dtype = DType::kF32;
  WorkerFixture fixture(options);
  const worker::BlockSplit split{.tokens = 331, .block_tokens = 32};
  fixture.Ingest(RandomTokens(split.tokens, 3));
  const KvSpec& spec = fixture.engine().spec();
  const size_t row = size_t{spec.num_kv_heads} * spec.head_dim;
  const std::vector<float> means = MeansOfBlocks(fixture, split);
  const SequenceSpec sequence{.members = {{.context = DocumentName{.name = "doc"}}}};
  const auto session =
      fixture.client().OpenSession({&sequence, 1}, {.spec = spec, .slots_per_head = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  worker::DocumentStatistics document{.split = split, .layers = {{}}};
  document.layers[0].most = 2;
  document.layers[0].least = 5;
  const worker::DocumentStatistics* const documents[] = {&document};
  const worker::SamKvShape shape{.num_layers = 1};
  SeededRandom random(9);
  size_t selected = 0;
  for (int round = 0; round < 20; ++round) {
    ContentScoring wanted{.layers = {1}, .candidates = {{.end_page = PageCount(spec, 331)}}};
    for (size_t c = 0; c < row; ++c) wanted.queries.push_back(random.Normal());
    const auto pages = (*session)->ScorePages(wanted);
    ASSERT_TRUE(pages.ok()) << pages.status();
    const std::vector<double> there = worker::ScoresOfBlocks(split, spec.page_tokens, *pages);
    std::vector<double> here;
    for (uint32_t block = 0; block < split.blocks(); ++block) {
      here.push_back(std::inner_product(wanted.queries.begin(), wanted.queries.end(),
                                        means.begin() + block * row, 0.0));
      EXPECT_NEAR(there[block], here[block], 1e-4);
    }
    const auto of_server = worker::SelectBlocks(documents, {{there}}, shape);
    EXPECT_EQ(of_server, worker::SelectBlocks(documents, {{here}}, shape));
    selected += of_server[0][0].size();
  }
  EXPECT_GT(selected, 10u);
}

TEST(WorkerSequenceTest, StatisticsAreStoredWhileADocumentIsRead) {
  WorkerFixture fixture;
  worker::EngineOptions options = WorkerFixture::Small();
  EXPECT_EQ(StatisticsComputed(fixture, options), 0u);
  options.statistics = false;
  EXPECT_EQ(StatisticsComputed(fixture, options), 2u);
}

TEST(WorkerSequenceTest, EveryPolicyEqualsDenseAttentionWhenTheBudgetCoversEverything) {
  ExpectEqualsDense(DType::kF32, 1e-3f);
}

// Half-precision keys and values round; this model's logits reach 40.
TEST(WorkerSequenceTest, HalfPrecisionPagesChangeLogitsByTheirRoundingOnly) {
  ExpectEqualsDense(DType::kF16, 0.4f);
}

TEST(WorkerSequenceTest, SparseAnswersAreThoseOfTheDefinitionOnBothSides) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    const TinyModel model{.num_layers = 3, .num_query_heads = 6, .seed = seed};
    WorkerFixture fixture(WorkerFixture::Small(), model);
    const std::vector<TokenId> document = RandomTokens(150 + seed, seed);
    const std::vector<TokenId> question = RandomTokens(40, seed + 10);
    fixture.Ingest(document);
    worker::testing::ReferenceAttention reference(
        fixture.engine().spec(), {.sink_pages = 1, .window_pages = 2, .selectable_pages = 3});
    using Logits = worker::Decoder::Logits;
    ASSERT_EQ(fixture.decoder().Forward(document, 0, reference, Logits::kNone, nullptr),
              OkStatus());
    reference.set_sparse(true);
    std::vector<float> expected(question.size() * model.vocab_size);
    ASSERT_EQ(fixture.decoder().Forward(question, document.size(), reference, Logits::kAll,
                                        expected.data()),
              OkStatus());
    for (const SelectionSide side : {SelectionSide::kWorker, SelectionSide::kServer}) {
      RetrievalOptions retrieval = fixture.engine().options().retrieval;
      retrieval.side = side;
      EXPECT_LE(MaxDifference(Ask(fixture, retrieval, question), expected), 2e-3f);
    }
  }
}

// Query heads with infinite scores of both signs: they have no mean.
TEST(WorkerSequenceTest, ScoresThatAreNoNumberAreCountedWherePagesAreSelected) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(150, 4));
  const std::vector<TokenId> question = RandomTokens(40, 5);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  retrieval.digest = kernels::DigestKind::kMean;
  retrieval.pooling = kernels::Pooling::kAvgS;
  worker::SequenceStats usual, at_worker, at_server;
  Ask(fixture, retrieval, question, &usual);
  EXPECT_EQ(usual.nan_scores, 0u);
  retrieval.score_scale = 3e38f;
  const std::vector<float> expected = Ask(fixture, retrieval, question, &at_worker);
  EXPECT_GT(at_worker.nan_scores, 0u);
  EXPECT_EQ(Counted(fixture, "select_nan_scores"), 0u);
  retrieval.side = SelectionSide::kServer;
  EXPECT_EQ(Ask(fixture, retrieval, question, &at_server), expected);
  EXPECT_EQ(at_server.nan_scores, 0u);
  EXPECT_EQ(Counted(fixture, "select_nan_scores"), at_worker.nan_scores);
}

TEST(WorkerSequenceTest, EveryKindOfDigestAnswersTheSameOnBothSides) {
  worker::EngineOptions options = WorkerFixture::Small();
  options.representatives = true;
  WorkerFixture fixture(options, {.num_layers = 3, .num_query_heads = 6});
  fixture.Ingest(RandomTokens(150, 4));
  const std::vector<TokenId> question = RandomTokens(40, 5);
  std::map<kernels::DigestKind, std::vector<float>> by_kind;
  for (const kernels::DigestKind kind : kSelectingKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    RetrievalOptions retrieval = fixture.engine().options().retrieval;
    retrieval.digest = kind;
    retrieval.side = SelectionSide::kWorker;
    const std::vector<float> here = Ask(fixture, retrieval, question);
    retrieval.side = SelectionSide::kServer;
    EXPECT_LE(MaxDifference(Ask(fixture, retrieval, question), here), 1e-4f);
    by_kind[kind] = here;
  }
  using enum kernels::DigestKind;
  EXPECT_GT(MaxDifference(by_kind[kMinMax], by_kind[kMean]), 1e-2f) << "it selects other pages";
  EXPECT_GT(MaxDifference(by_kind[kMean], by_kind[kRepresentatives]), 1e-2f)
      << "those that were found, and not the means";
}

/// `queries`, [n_q][d], rotated by `positions` more.
std::vector<float> Moved(const KvSpec& spec, std::vector<float> queries, int64_t positions) {
  std::vector<float> cosines(spec.rope.rotary_dim / 2), sines(spec.rope.rotary_dim / 2);
  RopeRotation(spec.rope).FillMove(positions, cosines.data(), sines.data());
  constexpr int32_t kOnlyPosition = 0;
  EXPECT_EQ(worker::CpuDevice().kernels().rope({.rows = queries.data(),
                                                .positions = &kOnlyPosition,
                                                .cos_table = cosines.data(),
                                                .sin_table = sines.data(),
                                                .t = 1,
                                                .heads = spec.num_query_heads,
                                                .head_dim = spec.head_dim,
                                                .rotary_dim = spec.rope.rotary_dim,
                                                .n_positions = 1,
                                                .interleaved = spec.rope.interleaved}),
            kernels::OpStatus::kOk);
  return queries;
}

// A sequence has a context at another position than it was computed for. The server turns the query
// back. It must find the same pages as the worker's own selection, which turns the query.
TEST(WorkerSequenceTest, AMovedContextIsSelectedFromAlikeOnBothSides) {
  WorkerFixture fixture(WorkerFixture::Small(), {.num_layers = 2, .num_query_heads = 6});
  fixture.Ingest(RandomTokens(240, 6));
  const KvSpec& spec = fixture.engine().spec();
  constexpr uint32_t kPages = 60;
  constexpr uint32_t kSelected = 7;
  SeededRandom random(7);
  std::vector<float> q(size_t{spec.num_query_heads} * spec.head_dim);
  uint64_t changed = 0;
  for (const int32_t offset : {-37, 5, 4096}) {
    const std::vector<SequenceSpec> sequences = {
        {.members = {{.context = DocumentName{.name = "doc"}, .position_offset = offset}}}};
    const auto session =
        fixture.client().OpenSession(sequences, {.spec = spec, .slots_per_head = kSelected});
    ASSERT_TRUE(session.ok()) << session.status();
    for (const kernels::DigestKind kind : kSelectingKinds) {
      SCOPED_TRACE(::testing::Message() << "offset " << offset << ", kind " << int(kind));
      for (float& value : q) value = random.Normal();
      const LayerWant want{.layer = 1,
                           .query = q,
                           .candidates = {{.end_page = kPages}},
                           .num_pages = kSelected,
                           .digest = kind};
      const auto recalled = (*session)->Recall({&want, 1});
      ASSERT_TRUE(recalled.ok()) << recalled.status();
      (*session)->Applied(*recalled);

      worker::PolicyContext context{.spec = spec,
                                    .device = &worker::CpuDevice(),
                                    .max_context_tokens = 512,
                                    .options = fixture.engine().options().retrieval};
      context.options.digest = kind;
      const auto policy = worker::MakePolicy(context);
      ASSERT_TRUE(policy.ok()) << policy.status();
      const auto digests = (*session)->Digests(std::array{1u}, 0, kPages, 0, 0, kind);
      ASSERT_TRUE(digests.ok()) << digests.status();
      const auto stored =
          worker::StoredDigests::Make(spec, kind, context.device, kPages, digests->Flatten().bytes);
      ASSERT_TRUE(stored.ok()) << stored.status();
      ASSERT_EQ((*policy)->page_observer()->OnPrefillLayer(1, kPages, *stored), OkStatus());
      const auto select = [&](const std::vector<float>& query) {
        return (*policy)
            ->Select(
                {.layer = 1, .q = query.data(), .candidates = {0, kPages}, .max_pages = kSelected})
            .value()
            .pages;
      };
      const auto here = select(Moved(spec, q, -int64_t{offset}));
      const auto unmoved = select(q);
      for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
        const auto there = recalled->lanes.at(0).selected.Head(head);
        EXPECT_EQ(std::vector<uint32_t>(there.begin(), there.end()), here[head]);
        changed += here[head] != unmoved[head];
      }
    }
  }
  EXPECT_GT(changed, 0u) << "where a context is makes no difference to these queries";
}

/// [steps][num_layers][n_kv] pages attended to by a run over document "doc"
using Pages = std::vector<std::vector<std::vector<std::vector<uint32_t>>>>;

Pages Follow(WorkerFixture& fixture, const RetrievalOptions& retrieval,
             const std::vector<TokenId>& question) {
  Pages pages;
  worker::testing::FollowedRun run(fixture, retrieval);
  for (auto& step : run.Steps(question)) pages.push_back(std::move(step.pages));
  return pages;
}

/// The selections of both sides; empty if they differ.
Pages FollowOnBothSides(WorkerFixture& fixture, RetrievalOptions retrieval,
                        const std::vector<TokenId>& question) {
  retrieval.side = SelectionSide::kWorker;
  Pages at_worker = Follow(fixture, retrieval, question);
  retrieval.side = SelectionSide::kServer;
  const Pages at_server = Follow(fixture, retrieval, question);
  EXPECT_EQ(at_server.size(), at_worker.size());
  for (size_t i = 0; i < at_worker.size(); ++i) {
    EXPECT_EQ(at_server[i], at_worker[i]) << "step " << i;
    if (at_server[i] != at_worker[i]) return {};
  }
  return at_worker;
}

// Query heads in groups of three, so that poolings differ.
TEST(WorkerSequenceTest, EveryDigestAndPoolingSelectsTheSamePagesOnBothSidesAtEveryStep) {
  WorkerFixture fixture(WorkerFixture::Small(), {.num_layers = 3, .num_query_heads = 6, .seed = 4});
  fixture.Ingest(RandomTokens(151, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  retrieval.correction_threshold = 0.4f;  // Corrects some heads, and not always all of a layer.
  std::set<Pages> different;
  for (const char* policy : {"quest", "freekv"}) {
    for (const kernels::DigestKind kind : kSelectingKinds) {
      for (int pooling = 1; kernels::IsKnown(kernels::Pooling(pooling)); ++pooling) {
        SCOPED_TRACE(::testing::Message()
                     << policy << " digest " << static_cast<int>(kind) << " pooling " << pooling);
        retrieval.policy = policy;
        retrieval.digest = kind;
        retrieval.pooling = kernels::Pooling(pooling);
        different.insert(FollowOnBothSides(fixture, retrieval, question));
      }
    }
  }
  EXPECT_FALSE(different.contains({}));
  EXPECT_GE(different.size(), 60u) << "of 70: digests, poolings and policies select other pages";
}

TEST(WorkerSequenceTest, EveryThresholdSelectsTheSamePagesOnBothSidesAtEveryStep) {
  WorkerFixture fixture(WorkerFixture::Small(), {.num_layers = 3, .num_query_heads = 6, .seed = 4});
  fixture.Ingest(RandomTokens(20, 1));  // Exceeds the budget on the way.
  const std::vector<TokenId> question = RandomTokens(80, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  retrieval.policy = "freekv";
  std::set<Pages> different;
  const std::vector<float> thresholds = {-1.5f, 0.0f, 0.2f, 0.6f, 1.5f};
  for (const float threshold : thresholds) {
    SCOPED_TRACE(threshold);
    retrieval.correction_threshold = threshold;
    different.insert(FollowOnBothSides(fixture, retrieval, question));
  }
  EXPECT_FALSE(different.contains({}));
  EXPECT_EQ(different.size(), thresholds.size());
}

TEST(WorkerSequenceTest, SlotsBeyondTheSelectionKeepPagesThatComeBack) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(151, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  const uint32_t p = fixture.engine().spec().page_tokens;
  retrieval.budget_tokens = retrieval.sink_tokens + retrieval.window_tokens + 4 * p;
  for (const char* policy : {"quest", "freekv", "arkvale"}) {
    SCOPED_TRACE(policy);
    retrieval.policy = policy;
    RetrievalOptions more = retrieval;
    more.budget_tokens += 8 * p;
    more.select_tokens = 4 * p;
    worker::SequenceStats few_slots, more_slots;
    const std::vector<float> expected = Ask(fixture, retrieval, question, &few_slots);
    EXPECT_LE(MaxDifference(Ask(fixture, more, question, &more_slots), expected), 1e-4f);
    EXPECT_EQ(more_slots.resident_tokens, few_slots.resident_tokens);  // Attended to.
    EXPECT_LT(more_slots.units_missed, few_slots.units_missed);
  }
}

TEST(WorkerSequenceTest, FreeKvSelectsTheSamePagesOnBothSides) {
  const TinyModel model{.num_layers = 3, .num_query_heads = 6, .seed = 4};
  WorkerFixture fixture(WorkerFixture::Small(), model);
  fixture.Ingest(RandomTokens(151, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  const std::vector<float> blocking = Ask(fixture, retrieval, question);
  retrieval.policy = "freekv";
  for (const float threshold : {1.01f, -1.01f}) {
    retrieval.correction_threshold = threshold;
    retrieval.side = SelectionSide::kWorker;
    const std::vector<float> at_worker = Ask(fixture, retrieval, question);
    retrieval.side = SelectionSide::kServer;
    EXPECT_LE(MaxDifference(Ask(fixture, retrieval, question), at_worker), 1e-5f);
    EXPECT_EQ(at_worker == blocking, threshold > 1);
  }
}

TEST(WorkerSequenceTest, FreeKvCorrectsTheSameHeadsInTheSameStepsOnBothSides) {
  const TinyModel model{.num_layers = 3, .num_query_heads = 6, .seed = 4};
  WorkerFixture fixture(WorkerFixture::Small(), model);
  fixture.Ingest(RandomTokens(151, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  retrieval.policy = "freekv";
  bool one_of_two = false;
  for (const float threshold : {0.0f, 0.2f, 0.4f, 0.6f}) {
    SCOPED_TRACE(threshold);
    worker::SequenceStats at_worker, at_server;
    retrieval.correction_threshold = threshold;
    retrieval.side = SelectionSide::kWorker;
    const std::vector<float> expected = Ask(fixture, retrieval, question, &at_worker);
    retrieval.side = SelectionSide::kServer;
    EXPECT_EQ(Ask(fixture, retrieval, question, &at_server), expected);
    EXPECT_EQ(at_server.blocking_heads, at_worker.blocking_heads);
    EXPECT_EQ(at_server.units_missed, at_worker.units_missed);
    EXPECT_EQ(at_server.moved.units, at_worker.moved.units);
    ASSERT_EQ(fixture.engine().spec().num_kv_heads, 2u);
    one_of_two = one_of_two || at_worker.blocking_heads % 2 == 1;
  }
  EXPECT_TRUE(one_of_two) << "a head is corrected, and the layer's other one is not";
}

TEST(WorkerSequenceTest, UnitsThatComeInPiecesGiveTheSameAnswerAlsoWhenTheyBreakOff) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(150, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  RetrievalOptions retrieval = fixture.engine().options().retrieval;
  for (const std::string_view policy : {"quest", "freekv"}) {
    SCOPED_TRACE(policy);
    retrieval.policy = policy;
    retrieval.units_per_buffer = 0;
    const std::vector<float> expected = Ask(fixture, retrieval, question);
    retrieval.units_per_buffer = 1;  // Pieces are lost too.
    EXPECT_EQ(Ask(fixture, retrieval, question), expected);
    fixture.transport().BreakEvery(5);  // Pages get other slots, so sums are rounded differently.
    EXPECT_LE(MaxDifference(Ask(fixture, retrieval, question), expected), 1e-4f);
    fixture.transport().BreakEvery(0);
    EXPECT_GT(fixture.transport().broken(), 0u);
  }
}

// Within a budget for everything no key is approximated.
TEST(WorkerSequenceTest, ShadowKvRecallsHalfTheBytesAndAnswersTheSame) {
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    worker::EngineOptions options = WorkerFixture::Small();
    options.dtype = dtype;
    WorkerFixture fixture(options);
    fixture.Ingest(RandomTokens(150, 1));
    const std::vector<TokenId> question = RandomTokens(60, 2);
    RetrievalOptions retrieval = options.retrieval;
    retrieval.budget_tokens = 256;
    worker::SequenceStats whole, values;
    retrieval.policy = "quest";
    const std::vector<float> expected = Ask(fixture, retrieval, question, &whole);
    retrieval.policy = "shadowkv";
    EXPECT_LE(MaxDifference(Ask(fixture, retrieval, question, &values), expected), 1e-4f);
    EXPECT_GT(values.moved.units, 0u);
    EXPECT_EQ(2 * values.moved.units, whole.moved.units);
  }
}

TEST(WorkerSequenceTest, UnitsThatTheServerWritesHereGiveTheSameAnswer) {
  const std::vector<TokenId> question = RandomTokens(40, 5);
  for (const std::string_view policy : {"quest", "freekv", "shadowkv"}) {
    for (const uint64_t host_cache_bytes : {0, 1 << 20}) {
      SCOPED_TRACE(::testing::Message() << policy << ", host tier of " << host_cache_bytes);
      const auto ask = [&](bool lands, worker::SequenceStats* stats) {
        worker::EngineOptions options = WorkerFixture::Small();
        options.host_cache_bytes = host_cache_bytes;
        options.retrieval.policy = policy;
        WorkerFixture fixture(options);
        fixture.transport().LandDirectly(lands);
        fixture.Ingest(RandomTokens(150, 4));
        return Ask(fixture, options.retrieval, question, stats);
      };
      worker::SequenceStats in_messages, landed;
      const std::vector<float> expected = ask(false, &in_messages);
      EXPECT_EQ(ask(true, &landed), expected);
      EXPECT_EQ(in_messages.units_landed, 0u);
      EXPECT_GT(landed.units_landed, 0u);
      EXPECT_EQ(landed.units_landed, landed.units_missed);
      EXPECT_EQ(landed.units_missed, in_messages.units_missed);
      EXPECT_EQ(landed.units_from_host, in_messages.units_from_host);
    }
  }
}

TEST(WorkerSequenceTest, OnlyTheDiffMovesAndTheBudgetHolds) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(200, 1));
  const auto sequence = fixture.Open();
  ASSERT_EQ(sequence->Append(RandomTokens(20, 2)), OkStatus());
  ASSERT_TRUE(sequence->Generate({.max_new_tokens = 20}).ok());
  const worker::SequenceStats stats = sequence->stats();
  EXPECT_LT(stats.moved.units, stats.moved.full);
  EXPECT_GT(stats.moved.units, 0u);
  EXPECT_LE(stats.resident_tokens, 24.0);
  EXPECT_LE(stats.budget_ratio(), 24.0 / 200);
}

// Promise 4: lost replies are retried, and never leave the two maps different.
TEST(WorkerSequenceTest, LostRepliesDoNotChangeTheAnswer) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(150, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  for (const SelectionSide side : {SelectionSide::kWorker, SelectionSide::kServer}) {
    for (const bool lands : {false, true}) {
      RetrievalOptions retrieval = fixture.engine().options().retrieval;
      retrieval.side = side;
      retrieval.policy = side == SelectionSide::kWorker ? "quest" : "freekv";
      SequenceOptions options;
      options.retrieval = retrieval;
      fixture.transport().LandDirectly(lands);
      const auto undisturbed = fixture.Open(options);
      ASSERT_EQ(undisturbed->Append(question), OkStatus());
      const auto disturbed = fixture.Open(options);
      const uint64_t lost = fixture.transport().lost();
      fixture.transport().LoseEvery(3);
      ASSERT_EQ(disturbed->Append(question), OkStatus());
      fixture.transport().LoseEvery(0);
      EXPECT_GT(fixture.transport().lost(), lost + 5);
      EXPECT_LE(MaxDifference(undisturbed->logits(), disturbed->logits()), 1e-4f);
      EXPECT_EQ(disturbed->stats().reopened, 0u);
    }
  }
}

// Promise 8, with the documents on SSD: the sequence continues after a restart.
TEST(WorkerSequenceTest, ARestartOfTheServerDoesNotChangeTheAnswer) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(150, 1));
  const std::vector<TokenId> question = RandomTokens(40, 2);
  const auto undisturbed = fixture.Open();
  ASSERT_EQ(undisturbed->Append(question), OkStatus());
  const std::vector<float> logits(undisturbed->logits().begin(), undisturbed->logits().end());
  const auto expected = undisturbed->Generate({.max_new_tokens = 8});
  const auto disturbed = fixture.Open();
  ASSERT_EQ(disturbed->Append(std::span(question).first(20)), OkStatus());
  fixture.StartServer();
  ASSERT_EQ(disturbed->Append(std::span(question).subspan(20)), OkStatus());
  EXPECT_LE(MaxDifference(logits, disturbed->logits()), 1e-4f);
  fixture.StartServer();
  EXPECT_EQ(disturbed->Generate({.max_new_tokens = 8})->tokens, expected->tokens);
  EXPECT_FALSE(disturbed->stats().local);
}

TEST(WorkerSequenceTest, SequencesOfOneEngineRunConcurrently) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(150, 1));
  const std::vector<TokenId> question = RandomTokens(20, 2);
  const auto alone = fixture.Open();
  ASSERT_EQ(alone->Append(question), OkStatus());
  const std::vector<TokenId> expected = alone->Generate({.max_new_tokens = 8})->tokens;
  std::vector<std::vector<TokenId>> answers(4);
  std::vector<std::thread> threads;
  for (std::vector<TokenId>& answer : answers) {
    threads.emplace_back([&] {
      const auto sequence = fixture.Open();
      EXPECT_EQ(sequence->Append(question), OkStatus());
      answer = sequence->Generate({.max_new_tokens = 8})->tokens;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<TokenId>& answer : answers) EXPECT_EQ(answer, expected);
}

TEST(WorkerSequenceTest, PrefixesAreSharedBetweenDocuments) {
  WorkerFixture fixture;
  std::vector<TokenId> tokens = RandomTokens(100, 1);
  fixture.Ingest(tokens);
  tokens.resize(90);
  tokens.push_back(1);
  const auto second = fixture.engine().Ingest(tokens, {.name = "second"});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->reused_tokens, 88u);
  const auto again = fixture.engine().Ingest(tokens, {.name = "second"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->bytes_sent, 0u);
}

TEST(WorkerSequenceTest, WhatAStoppedIngestStoredIsNotComputedAgain) {
  worker::EngineOptions options = WorkerFixture::Small();
  options.prefill_chunk_tokens = 16;
  WorkerFixture fixture(options);
  const std::vector<TokenId> tokens = RandomTokens(100, 1);
  const auto stopped = fixture.engine().Ingest(
      tokens, {.name = "doc"},
      [](const worker::IngestProgress& progress) { return progress.done_tokens < 48; });
  EXPECT_EQ(stopped.status().code(), StatusCode::kCancelled);
  const auto again = fixture.engine().Ingest(tokens, {.name = "doc"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->reused_tokens, 48u);
}

/// Units of `tokens` as another model might compute them.
Payload OtherPages(const KvSpec& spec, std::span<const TokenId> tokens, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> values(SegmentBytes(spec, PageCount(spec, tokens.size())) / sizeof(float));
  const size_t unit = UnitBytes(spec) / sizeof(float), dim = spec.head_dim;
  const size_t rows = tokens.size() % spec.page_tokens;
  for (float& value : values) value = random.Normal();
  // Rows past the last token are zero.
  const size_t heads = spec.num_kv_heads, pages = PageCount(spec, tokens.size());
  for (size_t at = 0; rows != 0 && at < values.size(); ++at) {
    const bool last_page = at / unit % (pages * heads) / heads == pages - 1;
    if (last_page && at % (unit / 2) / dim >= rows) values[at] = 0;
  }
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  Payload payload;
  payload.Append(std::move(bytes));
  return payload;
}

/// Puts every segment of `tokens` with other bytes, and registers them as "doc". Returns the number
/// stored.
uint32_t PutOther(WorkerFixture& fixture, std::span<const TokenId> tokens) {
  const KvSpec& spec = fixture.engine().spec();
  SegmentKey parent = kRootKey;
  uint32_t stored = 0;
  for (size_t at = 0; at < tokens.size(); at += spec.segment_tokens()) {
    const auto segment =
        tokens.subspan(at, std::min<size_t>(spec.segment_tokens(), tokens.size() - at));
    const auto put = fixture.client().PutSegment(spec, parent, segment,
                                                 OtherPages(spec, segment, at), PutOptions{});
    EXPECT_TRUE(put.ok()) << put.status();
    if (!put.ok()) return stored;
    stored += put->existed ? 0 : 1;
    parent = put->key;
  }
  EXPECT_TRUE(fixture.client().RegisterDocument({.name = "doc"}, parent).ok());
  return stored;
}

// Promise 1: units kept by a worker are not mistaken for those stored under the same tokens after a
// delete.
TEST(WorkerSequenceTest, OtherBytesUnderTheSameTokensAreRecalledAnew) {
  for (const SelectionSide side : {SelectionSide::kWorker, SelectionSide::kServer}) {
    worker::EngineOptions options = WorkerFixture::Small();
    options.host_cache_bytes = 1 << 20;
    options.retrieval.side = side;
    WorkerFixture fixture(options);
    const std::vector<TokenId> text = RandomTokens(150, 1), question = RandomTokens(40, 2);
    fixture.Ingest(text);
    worker::SequenceStats warm, first, second;
    const std::vector<float> before = Ask(fixture, options.retrieval, question);
    EXPECT_EQ(Ask(fixture, options.retrieval, question, &warm), before);
    // A recall by query does not name the worker's own units.
    const bool names = side == SelectionSide::kWorker;
    EXPECT_EQ(warm.units_from_host > 0, names);
    ASSERT_TRUE(fixture.client().DeleteDocument({.name = "doc"}).ok());
    ASSERT_EQ(Segments(fixture), 0u);
    EXPECT_EQ(PutOther(fixture, text), 19u);
    const std::vector<float> after = Ask(fixture, options.retrieval, question, &first);
    EXPECT_GT(MaxDifference(after, before), 0.1f);
    options.host_cache_bytes = 0;
    const auto without = fixture.MakeEngine(&fixture.client(), options);
    SequenceOptions sequence_options;
    std::vector<float> expected;
    sequence_options.logits_observer = [&](uint64_t, std::span<const float> values) {
      expected.insert(expected.end(), values.begin(), values.end());
    };
    auto sequence = without->OpenSequence(DocumentName{.name = "doc"}, sequence_options);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    ASSERT_EQ((*sequence)->Append(question), OkStatus());
    EXPECT_LE(MaxDifference(after, expected), 1e-4f);
    EXPECT_EQ(Ask(fixture, options.retrieval, question, &second), after);
    EXPECT_EQ(second.units_from_host > first.units_from_host, names) << "the new bytes are kept";
  }
}

/// Changes every block of the payload on SSD.
void DamagePayload(const WorkerFixture& fixture) {
  constexpr uint64_t kHeaderBytes = 4096, kMostBytes = 1 << 20;
  for (const auto& file :
       std::filesystem::directory_iterator(fixture.data_directory().path() + "/payload")) {
    std::fstream volume(file.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (uint64_t at = kHeaderBytes; at < std::min(file.file_size(), kMostBytes); at += 256) {
      volume.seekp(static_cast<std::streamoff>(at));
      volume.put('\x5a');
    }
    volume.close();
    // The server bypasses the page cache. Dirty pages of the same places would be an error at its
    // next sync.
    const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    EXPECT_EQ(::fsync(fd), 0);
    ::close(fd);
  }
}

// Promises 1 and 8: damaged segments are replaced by other bytes while a sequence uses them. The
// sequence starts over instead of mixing both.
TEST(WorkerSequenceTest, ASequenceGoesOnOverSegmentsThatWereReplacedAsANewOneDoes) {
  for (const SelectionSide side : {SelectionSide::kWorker, SelectionSide::kServer}) {
    worker::EngineOptions options = WorkerFixture::Small();
    options.host_cache_bytes = 1 << 20;
    options.retrieval.side = side;
    WorkerFixture fixture(options);
    const std::vector<TokenId> text = RandomTokens(150, 1), question = RandomTokens(60, 2);
    fixture.Ingest(text);
    fixture.StartServer();  // DRAM is empty.
    const auto sequence = fixture.Open();
    ASSERT_EQ(sequence->Append(std::span(question).first(20)), OkStatus());
    DamagePayload(fixture);
    const KvSpec& spec = fixture.engine().spec();
    for (uint32_t page = 0; page < PageCount(spec, text.size()); ++page) {
      for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
        const UnitRange range{.layer = layer, .pages = {page}};
        (void)fixture.client().Fetch(ContextRef(DocumentName{.name = "doc"}), {&range, 1});
      }
    }
    // Bytes read into DRAM before are intact, and stay.
    const uint64_t damaged = Counted(fixture, "segments_damaged");
    EXPECT_GT(damaged, 0u);
    EXPECT_EQ(PutOther(fixture, text), damaged);
    ASSERT_EQ(sequence->Append(std::span(question).subspan(20)), OkStatus());
    EXPECT_EQ(sequence->stats().reopened, 1u);
    const auto fresh = fixture.Open();
    ASSERT_EQ(fresh->Append(question), OkStatus());
    EXPECT_LE(MaxDifference(sequence->logits(), fresh->logits()), 1e-4f);
  }
}

// Promise 1, between workers on different hardware. Their results for the same tokens differ in the
// last bits, and the first bytes stored serve both.
TEST(WorkerSequenceTest, TwoWorkersWhosePagesDifferInTheirLastBitsShareAStore) {
  WorkerFixture fixture;
  struct Worker {
    std::shared_ptr<DisturbedTransport> transport = std::make_shared<DisturbedTransport>();
    testing::FakeClock clock;
    std::unique_ptr<Client> client;
    std::unique_ptr<worker::Engine> engine;
  };
  std::array<Worker, 2> workers;
  for (Worker& worker : workers) {
    worker.transport->ConnectTo(fixture.Connect());
    worker.transport->AddNoise(static_cast<uint64_t>(&worker - workers.data()) + 1);
    worker.client = *Client::Create({.transport = worker.transport, .clock = &worker.clock});
    worker.engine = fixture.MakeEngine(worker.client.get(), WorkerFixture::Small());
  }
  const std::vector<TokenId> question = RandomTokens(40, 2);
  std::vector<std::vector<TokenId>> texts;  // Each begins as the one before it.
  for (const size_t tokens : {90, 150, 161}) texts.push_back(RandomTokens(tokens, 1));
  std::vector<std::vector<float>> dense;
  for (std::vector<TokenId> text : texts) {
    text.insert(text.end(), question.begin(), question.end());
    auto logits = *fixture.engine().DenseLogits(text, 1);
    dense.push_back(std::move(logits));
  }
  const auto name_of = [](size_t worker, size_t text) {
    return DocumentName{.name = std::to_string(worker) + "-" + std::to_string(text)};
  };
  // Covers everything, so that the answer equals dense attention up to the noise.
  const auto ask = [&](Worker& worker, const DocumentName& name, size_t text,
                       std::string_view policy) {
    SequenceOptions options;
    options.retrieval = WorkerFixture::Small().retrieval;
    options.retrieval->policy = policy;
    options.retrieval->budget_tokens = 256;
    auto sequence = worker.engine->OpenSequence(name, options);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    ASSERT_EQ((*sequence)->Append(question), OkStatus());
    EXPECT_LE(MaxDifference((*sequence)->logits(), dense[text]), 1e-2f) << policy;
    EXPECT_EQ((*sequence)->stats().reopened, 0u);
  };
  std::barrier together(2);
  const auto work = [&](size_t number) {
    Worker& worker = workers[number];
    for (size_t text = 0; text < texts.size(); ++text) {
      together.arrive_and_wait();
      const auto ingested = worker.engine->Ingest(texts[text], name_of(number, text));
      EXPECT_TRUE(ingested.ok()) << ingested.status();
      together.arrive_and_wait();
      // "full" continues the document in a context that others share; both append to it now.
      ask(worker, name_of(number, text), text, "full");
      ask(worker, name_of(1 - number, text), text, "quest");
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_GT(Counted(fixture, "puts_differed"), 0u) << "the workers never met";
  for (size_t number = 0; number < workers.size(); ++number) {
    for (size_t text = 0; text < texts.size(); ++text) {
      EXPECT_TRUE(fixture.client().DeleteDocument(name_of(number, text)).ok());
    }
  }
}

// A question and its answer, put as a document later, are computed exactly. Pages that a sequence
// appended under sparse attention are not reused for them.
TEST(WorkerSequenceTest, PagesOfSparseAttentionAreNobodyElses) {
  const std::vector<TokenId> text = RandomTokens(96, 1);
  const std::vector<TokenId> question = RandomTokens(64, 2);
  std::vector<TokenId> both = text;
  both.insert(both.end(), question.begin(), question.end());
  for (const std::string policy : {"quest", "full"}) {
    SCOPED_TRACE(policy);
    WorkerFixture fixture;
    fixture.Ingest(text);
    const auto before = Segments(fixture);
    {
      SequenceOptions options;
      options.retrieval = WorkerFixture::Small().retrieval;
      options.retrieval->policy = policy;
      const auto sequence = fixture.Open(options);
      ASSERT_EQ(sequence->Append(question), OkStatus());
      EXPECT_GT(sequence->stats().bytes_appended, 0u);
      if (policy == "quest") {  // The step that moved them out of the window waited for them.
        EXPECT_GT(Segments(fixture), before) << "appended pages are stored";
      }
    }
    const auto put = fixture.engine().Ingest(both, {.name = "both"});
    ASSERT_TRUE(put.ok()) << put.status();
    // Attention over everything depends on the tokens alone, and is shared.
    EXPECT_EQ(put->reused_tokens, policy == "full" ? both.size() : text.size());
    if (policy == "quest") {
      const auto exact = (both.size() - text.size()) / 8;
      EXPECT_EQ(Segments(fixture), before + exact) << "its own pages went with it";
    }
  }
}

// Attention within a sliding window is that of the model, so it is shared like attention over
// everything, under any policy.
TEST(WorkerSequenceTest, PagesOfSlidingWindowsAreEverybodys) {
  const std::vector<TokenId> text = RandomTokens(96, 1);
  std::vector<TokenId> both = RandomTokens(64, 2);
  both.insert(both.begin(), text.begin(), text.end());
  for (const auto architecture : {worker::Architecture::kMistral, worker::Architecture::kQwen2}) {
    const bool all_slide = architecture == worker::Architecture::kMistral;
    SCOPED_TRACE(all_slide);
    WorkerFixture fixture(WorkerFixture::Small(),
                          {.architecture = architecture, .sliding_window = 10, .full_layers = 1});
    fixture.Ingest(text);
    std::vector<float> logits;
    {
      const auto sequence = fixture.Open();
      ASSERT_EQ(sequence->Append(std::span(both).subspan(text.size())), OkStatus());
      logits.assign(sequence->logits().begin(), sequence->logits().end());
    }
    if (all_slide) {
      EXPECT_LE(MaxDifference(logits, *fixture.engine().DenseLogits(both, 1)), 1e-3f);
    }
    const auto put = fixture.engine().Ingest(both, {.name = "both"});
    ASSERT_TRUE(put.ok()) << put.status();
    EXPECT_EQ(put->reused_tokens, all_slide ? both.size() : text.size());
  }
}

TEST(WorkerSequenceTest, AnotherModelsDocumentIsRefusedByName) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(60, 1));
  worker::EngineOptions other = WorkerFixture::Small();
  other.segment_pages = 4;
  const auto engine =
      worker::Engine::Create(&fixture.decoder(), &fixture.client(), &worker::CpuDevice(), other);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Status status = (*engine)->OpenSequence(DocumentName{.name = "doc"}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("segment_pages"));
}

TEST(WorkerSequenceTest, APageSizeThatTheStoredDocumentDoesNotHaveIsRefusedByName) {
  WorkerFixture fixture;
  fixture.Ingest(RandomTokens(60, 1));
  worker::EngineOptions other = WorkerFixture::Small();
  other.page_tokens = 8;
  other.retrieval.sink_tokens = 8;
  other.retrieval.window_tokens = 16;
  other.retrieval.budget_tokens = 48;
  const auto engine =
      worker::Engine::Create(&fixture.decoder(), &fixture.client(), &worker::CpuDevice(), other);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const Status status = (*engine)->OpenSequence(DocumentName{.name = "doc"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("page_tokens"));
  EXPECT_EQ(fixture.Open()->num_tokens(), 60u);  // Everything was removed.
}

}  // namespace
}  // namespace quire
