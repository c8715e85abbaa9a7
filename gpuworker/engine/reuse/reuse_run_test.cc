// SPDX-License-Identifier: Apache-2.0
//
// Questions over several stored documents, against the same tokens prefilled in one go.
#include "gpuworker/engine/reuse/reuse_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "gpuworker/model/dense_cache.h"
#include "gpuworker/testing/engine_fixture.h"
#include "kernels/api/page_digest.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

using testing::EngineFixture;
using ::testing::HasSubstr;
using testing::MaxDifference;
using testing::RandomTokens;

class ReuseRunTest : public ::testing::Test {
 protected:
  static constexpr float kSame = 1e-3f;

  /// Leaves statistics to the first question that needs them.
  static EngineOptions WithoutStatistics() {
    EngineOptions options = EngineFixture::Small();
    options.statistics = false;
    return options;
  }

  /// Stores documents of these lengths, of which none is a whole number of pages.
  void Store(const std::vector<size_t>& lengths) {
    for (const size_t length : lengths) {
      const std::vector<TokenId> tokens = RandomTokens(length, 10 + names_.size());
      const DocumentName name{.name = "doc" + std::to_string(names_.size())};
      ASSERT_TRUE(fixture_.engine().Ingest(tokens, name).ok());
      names_.push_back(name);
      all_.insert(all_.end(), tokens.begin(), tokens.end());
    }
    all_.insert(all_.end(), question_.begin(), question_.end());
  }
  std::unique_ptr<ReuseRun> Open(const ReuseOptions& options) {
    auto run = fixture_.engine().OpenReuse(names_, question_, options);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? std::move(*run) : nullptr;
  }
  std::vector<float> Dense(std::span<const TokenId> tokens) {
    auto logits = fixture_.engine().DenseLogits(tokens, 1);
    EXPECT_TRUE(logits.ok()) << logits.status();
    return *std::move(logits);
  }

  EngineFixture fixture_{{}, WithoutStatistics()};
  std::vector<DocumentName> names_;
  std::vector<TokenId> all_;  ///< Documents, then the question.
  const std::vector<TokenId> question_ = RandomTokens(7, 99);
};

TEST_F(ReuseRunTest, ComputingEverythingEqualsTheWholePromptInOneGo) {
  Store({21, 30, 17});
  const std::vector<float> dense = Dense(all_);
  EXPECT_LT(MaxDifference(Open({.method = ReuseMethod::kFull})->logits(), dense), kSame);
  EXPECT_LT(
      MaxDifference(Open({.method = ReuseMethod::kEpic, .epic_tokens = 100})->logits(), dense),
      kSame);
  EXPECT_LT(MaxDifference(Open({.cacheblend = {.ratio = 1}})->logits(), dense), kSame);
}

TEST_F(ReuseRunTest, OneDocumentIsReusedExactly) {
  Store({37});
  const auto run = Open({.method = ReuseMethod::kReuse});
  EXPECT_LT(MaxDifference(run->logits(), Dense(all_)), kSame);
  EXPECT_EQ(run->stats().recompute_ratio, 0);
  EXPECT_EQ(run->stats().bytes_read, run->stats().bytes_whole);
}

TEST_F(ReuseRunTest, SamKvReadsFirstAndLastBlocksAndTheSelectedOnes) {
  Store({21, 30, 17});  // Shorter than three blocks: everything is read.
  const auto run =
      Open({.method = ReuseMethod::kSamKv,
            .samkv = {.update = RowUpdate::kOverwrite, .rows = SamKvRows::kEverything}});
  EXPECT_LT(MaxDifference(run->logits(), Dense(all_)), kSame);
  EXPECT_EQ(run->stats().statistics_computed, 3u);
  EXPECT_EQ(run->stats().statistics_stored, 3u);
  EXPECT_EQ(run->stats().sequence_ratio, 1);
  EXPECT_EQ(fixture_.store().calls("Session/ScorePages"), 0u);
  EXPECT_EQ(Open({.method = ReuseMethod::kSamKv})->stats().statistics_computed, 0u);
}

TEST_F(ReuseRunTest, SamKvLeavesBlocksOfLongDocumentsOut) {
  Store({250, 240});
  const auto run = Open({.method = ReuseMethod::kSamKv});
  EXPECT_LT(run->stats().sequence_ratio, 0.9);
  EXPECT_LT(run->stats().recompute_ratio, 0.5);
  EXPECT_GT(run->stats().recompute_ratio, 0.1);
  EXPECT_LT(run->stats().bytes_read, 2 * run->stats().bytes_whole);
  EXPECT_EQ(run->stats().requests, fixture_.store().calls("Session/Recall") + 1);
  const KvSpec spec = fixture_.engine().spec();
  const uint64_t scores = (63 + 60) * spec.num_layers * sizeof(float);
  EXPECT_NE(scores % ExtentBytes(spec, 1), 0u);
  EXPECT_EQ((run->stats().bytes_read - scores) % ExtentBytes(spec, 1), 0u) << "and whole pages";
  EXPECT_EQ(fixture_.store().calls("Session/ScorePages"), 1u) << "for all documents and layers";
}

TEST_F(ReuseRunTest, SamKvSaysThatTheServerCannotScore) {
  Store({250, 240});
  fixture_.store().FailOnce("Session/ScorePages", 0,
                            Status(StatusCode::kUnimplemented, "no such method"));
  const auto run = fixture_.engine().OpenReuse(names_, question_, {.method = ReuseMethod::kSamKv});
  EXPECT_EQ(run.status().code(), StatusCode::kUnimplemented);
}

TEST_F(ReuseRunTest, AnotherQuestionIsAnsweredAsIfItHadBeenTheFirst) {
  Store({21, 30, 17});
  const std::vector<TokenId> other = RandomTokens(12, 98);
  for (const ReuseMethod method : {ReuseMethod::kReuse, ReuseMethod::kIsolated, ReuseMethod::kEpic,
                                   ReuseMethod::kCacheBlend}) {
    const auto run = Open({.method = method});
    const uint64_t read = run->stats().bytes_read;
    const Status asked = run->AskAgain(other);
    ASSERT_TRUE(asked.ok()) << Name(method) << ": " << asked;
    EXPECT_EQ(run->stats().bytes_read, read);
    const auto first = fixture_.engine().OpenReuse(names_, other, {.method = method});
    ASSERT_TRUE(first.ok()) << first.status();
    EXPECT_LT(MaxDifference(run->logits(), (*first)->logits()), kSame) << Name(method);
  }
  EXPECT_EQ(Open({.method = ReuseMethod::kHops})->AskAgain(other).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(ReuseRunTest, AnotherQuestionIsAnsweredThroughThePolicyToo) {
  Store({90, 80});
  const std::vector<TokenId> other = RandomTokens(12, 98);
  const ReuseOptions options{.method = ReuseMethod::kReuse,
                             .retrieval = fixture_.engine().options().retrieval};
  const auto run = Open(options);
  ASSERT_TRUE(run->Generate({.max_new_tokens = 9}).ok());
  ASSERT_TRUE(run->AskAgain(other).ok());
  const auto again = run->Generate({.max_new_tokens = 12});
  ASSERT_TRUE(again.ok()) << again.status();
  const auto first = fixture_.engine().OpenReuse(names_, other, options);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(again->tokens, (*first)->Generate({.max_new_tokens = 12})->tokens);
  EXPECT_LT(run->stats().attended_ratio, 0.2);
  EXPECT_EQ(run->stats().attended_ratio, (*first)->stats().attended_ratio);
}

TEST_F(ReuseRunTest, ALayerThatTheModelLacksCannotRetrieve) {
  Store({21, 30});
  const auto run = fixture_.engine().OpenReuse(
      names_, question_, {.method = ReuseMethod::kHops, .hops = {.layers = {0, 7}}});
  EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
  const std::string layers = std::to_string(fixture_.engine().spec().num_layers);
  EXPECT_THAT(std::string(run.status().message()),
              HasSubstr("layer 7 is to retrieve, and the model has " + layers + " layers"));
}

TEST_F(ReuseRunTest, HopsThatFindAndComputeEverythingEqualTheWholePromptInOneGo) {
  Store({21, 30, 17});
  const auto run = Open({.method = ReuseMethod::kHops,
                         .hops = {.hops = 3,
                                  .pages = 1000,
                                  .question_rows = 1000,
                                  .attended_pages = 1000,
                                  .least_share = 0}});
  EXPECT_LT(MaxDifference(run->logits(), Dense(all_)), kSame);
  EXPECT_EQ(run->stats().sequence_ratio, 1);
}

TEST_F(ReuseRunTest, HopsReadEachPageOnceAndTheBoundsOfAll) {
  Store({21, 30, 17});
  const auto run = Open({.method = ReuseMethod::kHops,
                         .hops = {.pages = 1000, .least_share = 2}});  // Nothing is attended to.
  const auto strict = Open({.method = ReuseMethod::kReuse});
  EXPECT_LT(MaxDifference(run->logits(), strict->logits()), kSame);
  EXPECT_EQ(run->stats().recompute_ratio, 0);
  const KvSpec spec = fixture_.engine().spec();
  const uint64_t bounds =
      run->stats().bytes_whole / spec.page_tokens;  // Two rows of a page's keys.
  EXPECT_EQ(run->stats().bytes_read, run->stats().bytes_whole + bounds);
  // The bounds of each document and layer, and the units of each layer.
  const uint64_t of_bounds = fixture_.store().calls("Session/Digests");
  EXPECT_EQ(of_bounds, 3 * spec.num_layers);
  EXPECT_EQ(run->stats().requests, of_bounds + spec.num_layers);
}

TEST_F(ReuseRunTest, HopsLeaveMostOfLongDocumentsOut) {
  Store({250, 240});
  const auto run = Open({.method = ReuseMethod::kHops, .hops = {.pages = 3, .layers = {1}}});
  EXPECT_LT(run->stats().sequence_ratio, 0.5);
  EXPECT_LT(run->stats().bytes_read, run->stats().bytes_whole / 2);
}

TEST_F(ReuseRunTest, HopsRefuseMoreBoundsThanTheyMayHold) {
  Store({21, 30, 17});
  const auto open = [&](uint64_t most, std::vector<uint32_t> layers) {
    return fixture_.engine()
        .OpenReuse(names_, question_,
                   {.method = ReuseMethod::kHops,
                    .hops = {.layers = std::move(layers), .most_digest_bytes = most}})
        .status();
  };
  const KvSpec spec = fixture_.engine().spec();
  const uint64_t pages = PageCount(spec, 21) + PageCount(spec, 30) + PageCount(spec, 17);
  const uint64_t of_layer = pages * kernels::PageDigestBytes(spec);
  EXPECT_TRUE(open(of_layer, {1}).ok());
  const Status refused = open(of_layer, {});
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("--hop-layers"));
}

TEST_F(ReuseRunTest, HopsReadNoMoreBoundsOnceCancelled) {
  Store({21, 30, 17});
  int asked = 0;
  const auto run = fixture_.engine().OpenReuse(
      names_, question_, {.method = ReuseMethod::kHops, .hops = {.layers = {1}}, .keep_going = [&] {
                            return ++asked < 3;
                          }});
  EXPECT_EQ(run.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(fixture_.store().calls("Session/Digests"), 2u);
}

TEST_F(ReuseRunTest, LogitsOfRowsAreKeptOnRequest) {
  Store({21, 30});
  const auto dense = fixture_.engine().DenseLogits(all_, all_.size());
  ASSERT_TRUE(dense.ok()) << dense.status();
  const auto full = Open({.method = ReuseMethod::kFull, .row_logits = true});
  const RowLogits& rows = full->row_logits();
  EXPECT_EQ(rows.positions.size(), 51u);
  const std::span<const float> of_documents = std::span(*dense).first(rows.logits.size());
  EXPECT_LT(MaxDifference(rows.logits, of_documents), kSame);
  EXPECT_LT(MaxDifference(full->logits(), Dense(all_)), kSame);
  const auto reuse = Open({.method = ReuseMethod::kReuse, .row_logits = true});
  EXPECT_TRUE(reuse->row_logits().positions.empty());
  const auto epic = Open({.method = ReuseMethod::kEpic, .epic_tokens = 4, .row_logits = true});
  EXPECT_EQ(epic->row_logits().positions, (std::vector<uint64_t>{21, 22, 23, 24}));
}

TEST_F(ReuseRunTest, OneRequestBringsAllDocumentsAndLayers) {
  Store({21, 30, 17});
  const auto run = Open({.method = ReuseMethod::kReuse});
  EXPECT_EQ(run->stats().requests, 1u);
  EXPECT_EQ(run->stats().bytes_read, run->stats().bytes_whole);
  EXPECT_EQ(fixture_.store().calls("Session/Recall"), 1u);
  EXPECT_EQ(fixture_.store().calls("Store/Fetch"), 0u);
}

TEST_F(ReuseRunTest, RowsOfTheFirstPassAreNotReadAgain) {
  Store({21, 30, 17});  // Both passes of SamKV read everything.
  const auto run = Open({.method = ReuseMethod::kSamKv});
  EXPECT_EQ(run->stats().sequence_ratio, 1);
  EXPECT_EQ(run->stats().requests, 1u);
  EXPECT_EQ(run->stats().bytes_read, run->stats().bytes_whole);
}

TEST_F(ReuseRunTest, ALayerLargerThanACallComesInParts) {
  Store({90, 80});
  EngineOptions options = EngineFixture::Small();
  options.max_batch_bytes = 1;  // A page at a time.
  const auto narrow =
      Engine::Create(&fixture_.decoder(), &fixture_.client(), &CpuDevice(), options);
  const auto run = (*narrow)->OpenReuse(names_, question_, {.method = ReuseMethod::kReuse});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_GT((*run)->stats().requests, 40u);
  const auto whole = Open({.method = ReuseMethod::kReuse});
  EXPECT_EQ(MaxDifference((*run)->logits(), whole->logits()), 0);
}

TEST_F(ReuseRunTest, ADamagedUnitIsAskedForAgain) {
  Store({21, 30});
  const auto whole = Open({.method = ReuseMethod::kReuse});
  fixture_.store().DamageUnit(3);
  const auto run = Open({.method = ReuseMethod::kReuse});
  EXPECT_EQ(MaxDifference(run->logits(), whole->logits()), 0);
  EXPECT_EQ(fixture_.store().calls("Session/Recall"), 3u);
}

TEST_F(ReuseRunTest, CacheBlendTakesItsRatioUntilLoadingIsMeasured) {
  Store({21, 30, 17});
  const ReuseOptions options{.cacheblend = {.ratio = 0.3}, .balances_loading = true};
  // Nothing takes time on the fixture's clock, so nothing is measured.
  const auto run = Open(options);
  EXPECT_EQ(run->stats().chosen_ratio, 0.3);
  EXPECT_FALSE(run->stats().chose_full_prefill);
}

TEST_F(ReuseRunTest, LayersThatTheModelLacksAreRefused) {
  Store({21, 30});
  const uint32_t layers = fixture_.engine().model().num_layers;
  const auto refused = [&](const ReuseOptions& options) {
    const Status status = fixture_.engine().OpenReuse(names_, question_, options).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refused({.cacheblend = {.check_layer = layers}}), HasSubstr("is to compare values"));
  EXPECT_THAT(refused({.method = ReuseMethod::kSamKv, .selection = {.stable_layers = {0, layers}}}),
              HasSubstr("is to decide how much is read"));
  EXPECT_NE(Open({.cacheblend = {.check_layer = layers - 1}}), nullptr);
  EXPECT_NE(Open({.method = ReuseMethod::kSamKv, .selection = {.stable_layers = {0}}}), nullptr);
}

TEST_F(ReuseRunTest, InfLlmReadsBlocksAndComputesTheQuestionAlone) {
  Store({250, 240});  // Four blocks each, of which one is a middle one.
  const auto none = Open({.method = ReuseMethod::kInfLlm, .infllm = {.blocks = 0}});
  EXPECT_LT(none->stats().sequence_ratio, 0.8);
  EXPECT_EQ(none->stats().recompute_ratio, 0);
  const auto everything = Open({.method = ReuseMethod::kInfLlm});
  EXPECT_EQ(everything->stats().sequence_ratio, 1);
  EXPECT_LT(MaxDifference(everything->logits(), Open({.method = ReuseMethod::kReuse})->logits()),
            kSame);
}

TEST_F(ReuseRunTest, WhatIsReadOfDocumentsThatAreTooLongTogetherMovesTogether) {
  Store({310, 300});
  for (const ReuseMethod method : {ReuseMethod::kSamKv, ReuseMethod::kInfLlm}) {
    const auto run = Open({.method = method, .infllm = {.blocks = 1}, .max_new_tokens = 3});
    ASSERT_NE(run, nullptr);
    EXPECT_TRUE(run->stats().compact);
    EXPECT_GT(run->stats().prompt_tokens, fixture_.engine().model().max_positions);
    EXPECT_EQ(run->Generate({.max_new_tokens = 3})->tokens.size(), 3u);
  }
}

TEST_F(ReuseRunTest, WithNothingLeftOutCompactPositionsAreTheSame) {
  Store({21, 30, 17});
  ReuseOptions options{.method = ReuseMethod::kSamKv};
  const auto gapped = Open(options);
  options.positions = PromptPositions::kCompact;
  const auto compact = Open(options);
  EXPECT_FALSE(gapped->stats().compact);
  EXPECT_TRUE(compact->stats().compact);
  EXPECT_LT(MaxDifference(gapped->logits(), compact->logits()), kSame);
}

TEST_F(ReuseRunTest, WhatIsStillTooLongSaysByHowMuch) {
  Store({310, 300, 290, 280});
  const auto run = fixture_.engine().OpenReuse(names_, question_, {.method = ReuseMethod::kSamKv});
  EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("more than the model's context"));
}

TEST_F(ReuseRunTest, SeveralDocumentsAreNotWhatTheyAreAlone) {
  Store({21, 30, 17});
  const std::vector<float> dense = Dense(all_);
  EXPECT_GT(MaxDifference(Open({.method = ReuseMethod::kReuse})->logits(), dense), kSame);
}

TEST_F(ReuseRunTest, TheAnswerGoesOnOverWhatThePrefillLeft) {
  Store({21, 30, 17});
  const auto run = Open({.method = ReuseMethod::kFull});
  const auto answer = run->Generate({.max_new_tokens = 6});
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->tokens.size(), 6u);
  std::vector<TokenId> longer = all_;
  for (const TokenId token : answer->tokens) {
    const std::vector<float> logits = Dense(longer);
    EXPECT_EQ(token, std::ranges::max_element(logits) - logits.begin());
    longer.push_back(token);
  }
}

TEST_F(ReuseRunTest, TheAnswerAttendsThroughAPolicyToALongPrompt) {
  Store({90, 80});
  const auto answer = [&](std::optional<RetrievalOptions> retrieval, double* attended) {
    const auto run = Open({.method = ReuseMethod::kReuse, .retrieval = std::move(retrieval)});
    const auto tokens = run->Generate({.max_new_tokens = 12})->tokens;
    *attended = run->stats().attended_ratio;
    return tokens;
  };
  double attended = 0;
  const std::vector<TokenId> dense = answer(std::nullopt, &attended);
  EXPECT_EQ(attended, 1);
  RetrievalOptions retrieval = fixture_.engine().options().retrieval;
  EXPECT_EQ(answer(retrieval, &attended).size(), dense.size());
  EXPECT_LT(attended, 0.2);
  retrieval.budget_tokens = 256;
  EXPECT_EQ(answer(retrieval, &attended), dense);
  EXPECT_EQ(attended, 1);
}

TEST_F(ReuseRunTest, TheAnswerEndsWithTheRoomThatWasMade) {
  Store({21});
  const auto answer =
      Open({.method = ReuseMethod::kReuse, .max_new_tokens = 3})->Generate({.max_new_tokens = 10});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->tokens.size(), 3u);
}

TEST_F(ReuseRunTest, ALaterBeginningTokenIsLeftOut) {
  Store({21, 30});
  // Both documents begin with the second one's first token.
  const std::vector<TokenId> second(all_.begin() + 21, all_.begin() + 51);
  std::vector<TokenId> first(all_.begin(), all_.begin() + 21);
  first.front() = second.front();
  ASSERT_TRUE(fixture_.engine().Ingest(first, {.name = "begins"}).ok());
  names_ = {{.name = "begins"}, {.name = "doc1"}};
  const auto run = Open({.method = ReuseMethod::kFull, .bos = second.front()});
  std::vector<TokenId> expected = first;
  expected.insert(expected.end(), second.begin() + 1, second.end());
  expected.insert(expected.end(), question_.begin(), question_.end());
  EXPECT_EQ(run->stats().prompt_tokens, expected.size());
  EXPECT_LT(MaxDifference(run->logits(), Dense(expected)), kSame);
}

TEST_F(ReuseRunTest, EveryDocumentThatIsNotThereIsNamed) {
  Store({21});
  names_.insert(names_.begin(), {.collection = "books", .name = "gone", .version = 2});
  names_.push_back({.name = "missing"});
  const auto run = fixture_.engine().OpenReuse(names_, question_, {});
  EXPECT_EQ(run.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("books/gone@2, default/missing"));
}

TEST_F(ReuseRunTest, DocumentsAreLookedUpSideBySide) {
  Store({21, 30, 17});
  testing::FakeStore& store = fixture_.store();
  const uint64_t before = store.calls("Store/Stat");
  store.Hold("Store/Stat");
  std::thread asks([&] { EXPECT_NE(Open({.method = ReuseMethod::kReuse}), nullptr); });
  store.AwaitCalls("Store/Stat", before + 3);  // One after the other, the second would not come.
  store.Release();
  asks.join();
}

TEST_F(ReuseRunTest, MissingDocumentsAreSkippedWhenAskedTo) {
  Store({21, 30});
  const auto alone = Open({.method = ReuseMethod::kFull});
  const DocumentName gone{.name = "gone"};
  names_.insert(names_.begin() + 1, gone);
  const auto run = Open({.method = ReuseMethod::kFull, .skip_missing = true});
  EXPECT_EQ(MaxDifference(run->logits(), alone->logits()), 0);
  EXPECT_EQ(run->stats().missing, std::vector<DocumentName>{gone});
  names_ = {gone};
  EXPECT_EQ(fixture_.engine().OpenReuse(names_, question_, {.skip_missing = true}).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ReuseRunTest, NoDocumentAndNoQuestionAreRefused) {
  Store({21});
  const auto message = [&](std::span<const DocumentName> names, std::span<const TokenId> question) {
    const Status status = fixture_.engine().OpenReuse(names, question, {}).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message({}, question_), HasSubstr("0 documents are named"));
  EXPECT_THAT(message(names_, {}), HasSubstr("the question is empty"));
}

TEST_F(ReuseRunTest, ADocumentInOtherPagesIsNamed) {
  Store({21});
  EngineOptions options = EngineFixture::Small();
  options.page_tokens = 8;
  options.retrieval = {.budget_tokens = 64, .sink_tokens = 8, .window_tokens = 16};
  const auto other = Engine::Create(&fixture_.decoder(), &fixture_.client(), &CpuDevice(), options);
  ASSERT_TRUE(other.ok()) << other.status();
  const Status status = (*other)->OpenReuse(names_, question_, {}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("default/doc0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("page_tokens"));
}

TEST_F(ReuseRunTest, APrefillEndsWithTheLayerThatItIsToldIn) {
  Store({21, 30});
  uint32_t asked = 0;
  const auto run = fixture_.engine().OpenReuse(
      names_, question_,
      {.method = ReuseMethod::kReuse, .keep_going = [&] { return ++asked < 2; }});
  EXPECT_EQ(run.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(asked, 2u);
}

TEST_F(ReuseRunTest, DocumentsThatAreTooLongTogetherSayByHowMuch) {
  const size_t most = fixture_.engine().model().max_positions;
  Store({most / 2, most / 2});
  const auto run = fixture_.engine().OpenReuse(names_, question_, {});
  EXPECT_EQ(run.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("7 more than the model's context"));
}

TEST_F(ReuseRunTest, AUnitThatTheServerCannotGiveIsAnError) {
  Store({21, 30});
  fixture_.store().DamageEveryUnit(true);
  const auto run = fixture_.engine().OpenReuse(names_, question_, {});
  EXPECT_EQ(run.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(run.status().message()), HasSubstr("layer 0 of the documents"));
}

TEST_F(ReuseRunTest, DocumentsWhoseServerIsLostMeanwhileAreReadAgain) {
  Store({21, 30, 17});
  const auto calm = Open({.method = ReuseMethod::kReuse});
  for (const Status& lost : {NotFound("no such session"), Unavailable("the node was killed")}) {
    for (const char* const method : {"quire.v1.Session/Recall", "quire.v1.Session/Open"}) {
      fixture_.store().FailOnce(method, 0, lost);
      const auto run =
          fixture_.engine().OpenReuse(names_, question_, {.method = ReuseMethod::kReuse});
      ASSERT_TRUE(run.ok()) << method << ": " << run.status();
      EXPECT_TRUE(std::ranges::equal((*run)->logits(), calm->logits()));
    }
  }
}

TEST(ReuseMethodNameTest, NamesReadBack) {
  for (const ReuseMethod method :
       {ReuseMethod::kFull, ReuseMethod::kReuse, ReuseMethod::kIsolated, ReuseMethod::kEpic,
        ReuseMethod::kCacheBlend, ReuseMethod::kSamKv, ReuseMethod::kInfLlm,
        ReuseMethod::kCacheCraft}) {
    EXPECT_EQ(*ParseReuseMethod(Name(method)), method);
  }
  EXPECT_THAT(std::string(ParseReuseMethod("blend").status().message()), HasSubstr("cacheblend"));
}

}  // namespace
}  // namespace quire::worker
