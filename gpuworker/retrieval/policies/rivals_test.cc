// SPDX-License-Identifier: Apache-2.0
//
// Policies that FreeKV is compared with, each by its own rule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "gpuworker/retrieval/key_source.h"
#include "gpuworker/retrieval/keys/key_clusters.h"
#include "gpuworker/retrieval/keys/low_rank_keys.h"
#include "gpuworker/retrieval/page_observer.h"
#include "gpuworker/retrieval/policy.h"
#include "gpuworker/testing/one_layer_policy.h"
#include "quire/dtype.h"

namespace quire::worker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;

/// One layer, one KV head of two query heads, four channels, pages of 8 tokens; one sink page, a
/// window of two, k_sel = `selectable`.
PolicyContext Context(const char* policy, uint32_t selectable) {
  PolicyContext context = testing::OneLayerContext(1, 4, 8,
                                                   {.policy = policy,
                                                    .budget_tokens = 8 * (3 + selectable),
                                                    .sink_tokens = 8,
                                                    .window_tokens = 16});
  context.spec.segment_pages = 16;
  return context;
}

/// A unit whose keys are `direction` with a little noise.
std::vector<float> Unit(std::vector<float> direction, uint64_t seed) {
  SeededRandom random(seed);
  std::vector<float> unit;
  for (int t = 0; t < 8; ++t) {
    for (float value : direction) unit.push_back(value + 0.01f * random.Normal());
  }
  unit.resize(64);
  return unit;
}

/// Page `page` points along channel page % 4.
std::vector<float> PageUnit(uint32_t page) {
  std::vector<float> direction(4);
  direction[page % 4] = 1;
  return Unit(direction, page);
}

std::vector<uint32_t> Select(RetrievalPolicy& policy, const std::vector<float>& q,
                             PageRange candidates) {
  auto selection = policy.Select(
      {.q = q.data(), .candidates = candidates, .max_pages = policy.Layout(0).selectable_pages});
  EXPECT_TRUE(selection.ok()) << selection.status();
  return selection->pages.at(0);
}

/// Both query heads look along `channel`.
std::vector<float> Along(uint32_t channel, float length = 10) {
  std::vector<float> q(8);
  q[channel] = q[4 + channel] = length;
  return q;
}

void Complete(RetrievalPolicy& policy, uint32_t pages) {
  for (uint32_t page = 0; page < pages; ++page) {
    ASSERT_EQ(policy.page_observer()->OnPageComplete(0, page, PageUnit(page).data()), OkStatus());
  }
}

TEST(RivalsTest, PoliciesFindThePagesThatTheQueryLooksAt) {
  for (const std::string name : {"arkvale", "clusterkv", "shadowkv"}) {
    SCOPED_TRACE(name);
    const auto policy = testing::MakeValid(Context(name.c_str(), 4));
    EXPECT_EQ(policy->page_observer()->WantsUnits(0), name != "arkvale")
        << "ArkVale has digests of stored pages";
    Complete(*policy, 64);
    EXPECT_THAT(Select(*policy, Along(2), {1, 17}), ElementsAre(2, 6, 10, 14));
    EXPECT_THAT(Select(*policy, Along(3), {1, 17}), ElementsAre(3, 7, 11, 15));
  }
}

TEST(RivalsTest, TheyAreNotAskedAtTheServer) {
  for (const char* name : {"arkvale", "clusterkv", "infllm", "raas", "shadowkv"}) {
    PolicyContext context = Context(name, 4);
    context.options.side = SelectionSide::kServer;
    const Status status = MakePolicy(context).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

// Spec 0.4. InfLLM scores blocks of pages, ClusterKV clusters of keys: page 6 may come for its
// other keys.
TEST(RivalsTest, ScoresThatAreNoNumberComeLastAndAreCounted) {
  for (const std::string name :
       {"arkvale", "clusterkv", "freekv", "infllm", "quest", "raas", "shadowkv"}) {
    SCOPED_TRACE(name);
    const auto policy = testing::MakeValid(Context(name.c_str(), 4));
    ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
    for (uint32_t page = 0; page < 20; ++page) {
      std::vector<float> unit = PageUnit(page);
      if (page == 6) unit[0] = NAN;
      ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, unit.data()), OkStatus());
    }
    std::vector<float> q = Along(2);
    const SelectRequest request{.q = q.data(), .candidates = {1, 17}, .max_pages = 4};
    auto selection = policy->Select(request);
    ASSERT_TRUE(selection.ok()) << selection.status();
    if (name != "clusterkv") {
      EXPECT_THAT(selection->pages.at(0), Not(Contains(6)));
    }
    EXPECT_EQ(selection->nan_scores, 1u);
    if (name != "clusterkv" && name != "infllm") {
      EXPECT_THAT(selection->pages.at(0), ::testing::IsSupersetOf({2, 10, 14}));
    }
    std::ranges::fill(q, NAN);
    selection = policy->Select(request);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(selection->pages.at(0).size(), 4u);
    EXPECT_GT(selection->nan_scores, name == "clusterkv" ? 0u : 1u);
  }
}

TEST(RivalsTest, PagesLeftOutAreAnError) {
  for (const char* name : {"arkvale", "infllm", "raas", "shadowkv"}) {
    SCOPED_TRACE(name);
    const auto policy = testing::MakeValid(Context(name, 4));
    Complete(*policy, 5);
    const std::vector<float> q = Along(0);
    EXPECT_EQ(
        policy->Select({.q = q.data(), .candidates = {1, 17}, .max_pages = 4}).status().code(),
        StatusCode::kFailedPrecondition);
  }
}

TEST(RazorPolicyTest, RetrievalHeadsKeepEverythingOthersTheMostRecentPages) {
  PolicyContext context = Context("razor", 3);
  context.spec.num_kv_heads = 2;
  context.options.retrieval_heads = {1};
  const auto policy = testing::MakeValid(context);
  EXPECT_EQ(policy->Layout(0).selectable_pages, 128u);
  const std::vector<float> q = Along(0);
  const auto selection = policy->Select({.q = q.data(), .candidates = {1, 9}, .max_pages = 128});
  EXPECT_THAT(selection->pages,
              ElementsAre(ElementsAre(6, 7, 8), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8)));
}

TEST(RaasPolicyTest, ThePageThatWasLookedAtLeastRecentlyGoesForGood) {
  const auto policy = testing::MakeValid(Context("raas", 3));
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
  Complete(*policy, 20);
  EXPECT_THAT(Select(*policy, Along(0), {1, 4}), ElementsAre(1, 2, 3));
  EXPECT_THAT(Select(*policy, Along(1, 40), {1, 4}), ElementsAre(1, 2, 3));  // Stamps page 1,
  EXPECT_THAT(Select(*policy, Along(3, 40), {1, 4}), ElementsAre(1, 2, 3));  // then page 3.
  EXPECT_THAT(Select(*policy, Along(3, 40), {1, 5}), ElementsAre(1, 3, 4));
  EXPECT_THAT(Select(*policy, Along(2, 40), {1, 5}), ElementsAre(1, 3, 4));  // Page 2 is gone.
}

TEST(RaasPolicyTest, PagesOfTheDocumentGoLast) {
  const auto policy = testing::MakeValid(Context("raas", 3));
  // Pages 0 to 2 are stored, [min, max] of each.
  std::vector<float> digests;
  for (uint32_t page = 0; page < 3; ++page) {
    const std::vector<float> unit = PageUnit(page);
    for (int copy = 0; copy < 2; ++copy)
      digests.insert(digests.end(), unit.begin(), unit.begin() + 4);
  }
  const auto stored = StoredDigests::Make(Context("raas", 3).spec, kernels::DigestKind::kMinMax,
                                          &CpuDevice(), 3, std::as_bytes(std::span(digests)));
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 3, *stored), OkStatus());
  for (uint32_t page = 3; page < 8; ++page) {
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, PageUnit(page).data()), OkStatus());
  }
  Select(*policy, Along(3, 40), {1, 4});
  EXPECT_THAT(Select(*policy, Along(0, 40), {1, 5}), ElementsAre(1, 2, 4));
  EXPECT_THAT(Select(*policy, Along(1, 40), {1, 6}), ElementsAre(1, 2, 5));
}

TEST(RaasPolicyTest, ADocumentThatIsTooLongKeepsWhatTheFirstQueryWeighsMost) {
  const auto policy = testing::MakeValid(Context("raas", 4));
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
  Complete(*policy, 20);
  EXPECT_THAT(Select(*policy, Along(2), {1, 17}), ElementsAre(2, 6, 10, 14));
  EXPECT_THAT(Select(*policy, Along(3), {1, 17}), ElementsAre(2, 6, 10, 14));
}

/// RaaS for one KV head of two query heads, no document and three pages, in double precision.
class RaasReference {
 public:
  /// The softmax of a query head is over kept pages, or over all candidates. In the second case the
  /// mean over heads is normalised to kept pages.
  explicit RaasReference(bool over_kept) : over_kept_(over_kept) {}

  std::vector<uint32_t> Select(const std::vector<float>& q, uint32_t end) {
    ++step_;
    for (; seen_ < end; ++seen_) kept_.push_back({seen_, step_});
    const auto is_kept = [&](uint32_t page) {
      return std::ranges::any_of(kept_, [&](const auto& k) { return k.first == page; });
    };
    std::vector<double> weights(end);
    for (size_t head = 0; head < 2; ++head) {
      double sum = 0;
      std::vector<double> e(end);
      for (uint32_t page = 1; page < end; ++page) {
        if (over_kept_ && !is_kept(page)) continue;
        e[page] = std::exp(Bound(std::span(q).subspan(4 * head, 4), page));
        sum += e[page];
      }
      for (uint32_t page = 1; page < end; ++page) weights[page] += e[page] / sum / 2;
    }
    double total = 0;
    for (const auto& [page, stamp] : kept_) total += weights[page];
    for (auto& [page, stamp] : kept_) {
      if (weights[page] > 1e-4 * total) stamp = step_;
    }
    while (kept_.size() > 3) {
      kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& k) { return k.second; }));
    }
    std::vector<uint32_t> pages;
    for (const auto& [page, stamp] : kept_) pages.push_back(page);
    return pages;
  }

 private:
  /// The highest q.k of a key within the lowest and highest of each channel.
  static double Bound(std::span<const float> q, uint32_t page) {
    const std::vector<float> unit = PageUnit(page);
    double bound = 0;
    for (size_t c = 0; c < 4; ++c) {
      double most = -1e30;
      for (size_t t = 0; t < 8; ++t) most = std::max(most, double{q[c]} * unit[4 * t + c]);
      bound += most;
    }
    return bound;
  }

  const bool over_kept_;
  uint64_t step_ = 0;
  uint32_t seen_ = 1;
  std::vector<std::pair<uint32_t, uint64_t>> kept_;  ///< Page and stamp, ascending pages.
};

TEST(RaasPolicyTest, QueryHeadsShareTheirWeightAmongThePagesThatAreKept) {
  const auto policy = testing::MakeValid(Context("raas", 3));
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
  Complete(*policy, 40);
  RaasReference kept(true), all(false);
  SeededRandom random(5);
  std::vector<float> q(8);
  bool differ = false;
  for (uint32_t step = 0; step < 70; ++step) {
    for (float& value : q) value = 25 * random.Normal();
    const uint32_t end = 4 + step / 2;
    const std::vector<uint32_t> expected = kept.Select(q, end);
    differ |= all.Select(q, end) != expected;
    ASSERT_EQ(Select(*policy, q, {1, end}), expected) << "step " << step;
  }
  EXPECT_TRUE(differ) << "these queries do not tell the two ways apart";
}

TEST(InfLlmPolicyTest, BlocksComeWholeAndForAllHeadsAlike) {
  PolicyContext context = Context("infllm", 16);
  const auto policy = testing::MakeValid(context);
  // Blocks of 16 pages; all pages of block b point along channel b.
  for (uint32_t page = 0; page < 64; ++page) {
    std::vector<float> direction(4);
    direction[page / 16] = 1;
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, Unit(direction, page).data()),
              OkStatus());
  }
  std::vector<uint32_t> block(16);
  std::iota(block.begin(), block.end(), 32);
  EXPECT_EQ(Select(*policy, Along(2), {1, 62}), block);
}

TEST(InfLlmPolicyTest, TokensThatTheWindowAttendsToRepresentTheirPage) {
  PolicyContext context = Context("infllm", 16);
  context.options.window_tokens = 64;
  context.options.budget_tokens = 8 * (1 + 8 + 16);
  const auto attended = testing::MakeValid(context);
  const auto unattended = testing::MakeValid(context);
  // Page 1 has one key along channel 0, the others along channel 1.
  std::vector<float> unit = Unit({0, 1, 0, 0}, 1);
  unit[0] = 1, unit[1] = 0;
  for (RetrievalPolicy* policy : {attended.get(), unattended.get()}) {
    for (uint32_t page = 0; page < 2; ++page) {
      ASSERT_EQ(policy->page_observer()->OnPageComplete(
                    0, page, page == 1 ? unit.data() : PageUnit(2).data()),
                OkStatus());
    }
  }
  // Queries along channel 0 pay for that key while the page is in the window.
  for (int step = 0; step < 3; ++step) Select(*attended, Along(0, 40), {1, 1});
  for (RetrievalPolicy* policy : {attended.get(), unattended.get()}) {
    for (uint32_t page = 2; page < 48; ++page) {
      const float along = page >= 16 && page < 32 ? 0.03f : 0.0f;
      ASSERT_EQ(
          policy->page_observer()->OnPageComplete(0, page, Unit({along, 0, 0, 1}, page).data()),
          OkStatus());
    }
  }
  // Along channel 0 the block of pages 1 to 15 has 1/15 with that representative, 1/120 without;
  // the next block has 0.03.
  EXPECT_THAT(Select(*attended, Along(0), {1, 33}), Contains(1));
  EXPECT_THAT(Select(*unattended, Along(0), {1, 33}), Not(Contains(1)));
}

// Two blocks of a document are scored by the means that came with it, whatever their keys are;
// pages of the sequence by what its own queries find.
TEST(InfLlmPolicyTest, StoredPagesAreScoredByTheirRepresentatives) {
  PolicyContext context = Context("infllm", 16);
  const auto policy = testing::MakeValid(context);
  ASSERT_EQ(policy->page_observer()->WantedDigests(0), kernels::DigestKind::kRepresentatives);
  EXPECT_FALSE(policy->page_observer()->WantsUnits(0));
  std::vector<float> means(32 * 4);
  for (uint32_t page = 0; page < 32; ++page) means[page * 4 + page / 16] = 1;
  auto digests = StoredDigests::Make(context.spec, kernels::DigestKind::kRepresentatives,
                                     context.device, 32, std::as_bytes(std::span(means)));
  ASSERT_TRUE(digests.ok()) << digests.status();
  EXPECT_EQ(policy->page_observer()->OnPrefillLayer(0, 31, *digests).code(), StatusCode::kDataLoss);
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 32, *digests), OkStatus());
  for (uint32_t page = 32; page < 64; ++page) {
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, Unit({0, 0, 1, 0}, page).data()),
              OkStatus());
  }
  std::vector<uint32_t> block(16);
  for (const uint32_t first : {16u, 32u}) {
    std::iota(block.begin(), block.end(), first);
    EXPECT_EQ(Select(*policy, Along(first / 16), {1, 48}), block);
  }
}

// All keys of a page are alike, so that a bound is a product. The two query heads score A 1 and
// -0.1, B 1 and 6, C 1.5 and -2.8. Means of raw scores choose A and B, means of softmaxes B and C.
TEST(ArkValePolicyTest, QueryHeadsAgreeByTheMeanOfTheirRawScores) {
  const auto policy = testing::MakeValid(Context("arkvale", 2));
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 0, {}), OkStatus());
  const std::vector<std::vector<float>> pages = {{0, 0}, {1, -.1f}, {1, 6}, {1.5f, -2.8f}};
  for (uint32_t page = 0; page < pages.size(); ++page) {
    std::vector<float> unit(64);
    for (size_t t = 0; t < 8; ++t) std::ranges::copy(pages[page], unit.begin() + t * 4);
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, unit.data()), OkStatus());
  }
  EXPECT_THAT(Select(*policy, {1, 0, 0, 0, 0, 1, 0, 0}, {1, 4}), ElementsAre(1, 2));
}

// The document is 504 tokens behind a sink page. Generated tokens wait, selected before all
// clusters, until there are 320.
TEST(ClusterKvPolicyTest, GeneratedTokensAreClusteredEvery320) {
  const auto policy = testing::MakeValid(Context("clusterkv", 4));
  Complete(*policy, 64);
  EXPECT_THAT(Select(*policy, Along(2), {1, 62}), ElementsAre(2, 6, 10, 14));
  for (uint32_t page = 64; page < 103; ++page) {
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, PageUnit(page).data()), OkStatus());
  }
  EXPECT_THAT(Select(*policy, Along(2), {1, 101}), ElementsAre(97, 98, 99, 100));
  ASSERT_EQ(policy->page_observer()->OnPageComplete(0, 103, PageUnit(103).data()), OkStatus());
  const std::vector<uint32_t> pages = Select(*policy, Along(2), {1, 102});
  EXPECT_EQ(pages.size(), 4u);
  for (const uint32_t page : pages) EXPECT_EQ(page % 4, 2u);
  // Four clusters of its own, where nothing of the document is a candidate.
  EXPECT_THAT(Select(*policy, Along(3), {64, 102}), ::testing::IsSupersetOf({67, 71}));
}

TEST(KeyClustersTest, SeparatesDirectionsAndListsPagesByTheirShare) {
  // Two pages of four keys; page 0 has three keys along x, page 1 one.
  const std::vector<float> keys = {1, 0, 2, 0, 0, 1, 3, 0, 0, 2, 0, 3, 1, 0, 0, 1};
  KeyClusters clusters(2);
  ASSERT_TRUE(clusters.Add(keys, 5, 4, 2, 20).ok());
  ASSERT_EQ(clusters.size(), 2u);
  const size_t x = clusters.centroid(0)[0] > 0.5f ? 0 : 1;
  EXPECT_THAT(clusters.pages(x), ElementsAre(5, 6));
  EXPECT_THAT(clusters.pages(1 - x), ElementsAre(6, 5));
  EXPECT_NEAR(clusters.centroid(x)[0], 1, 1e-6);
}

TEST(KeyClustersTest, KeysThatAreNoNumbersAreAClusterOfTheirOwn) {
  const std::vector<float> keys = {NAN, 0, 2, 0, 0, 1, 3, 0, 0, 2, 0, 3, INFINITY, 0, 0, 1};
  KeyClusters clusters(2);
  ASSERT_TRUE(clusters.Add(keys, 5, 4, 2, 20).ok());
  ASSERT_EQ(clusters.size(), 3u);
  const size_t x = clusters.centroid(0)[0] > 0.5f ? 0 : 1;
  EXPECT_THAT(clusters.pages(x), ElementsAre(5));
  EXPECT_THAT(clusters.pages(1 - x), ElementsAre(6, 5));
  EXPECT_TRUE(std::isnan(clusters.centroid(2)[0]));
  EXPECT_THAT(clusters.pages(2), ElementsAre(5, 6));

  KeyClusters none(2);
  ASSERT_TRUE(none.Add(std::vector<float>(8, NAN), 5, 4, 2, 20).ok());
  ASSERT_EQ(none.size(), 1u);
  EXPECT_THAT(none.pages(0), ElementsAre(5));
}

TEST(LowRankKeysTest, ARowThatIsNoNumberLeavesTheOthersAsTheyAre) {
  const std::vector<float> rows = {1, 2, 0, NAN, 0, 0, 2, 4, 0, INFINITY, 1, 1};
  const LowRankKeys keys(rows, /*width=*/3, /*rank=*/1);
  std::vector<float> rebuilt(3);
  keys.Rebuild(2, 0, 3, rebuilt);
  EXPECT_THAT(rebuilt, Pointwise(FloatNear(1e-4f), {2.0f, 4.0f, 0.0f}));
  keys.Rebuild(1, 0, 3, rebuilt);
  EXPECT_TRUE(std::isnan(rebuilt[0]));
}

TEST(LowRankKeysTest, RowsOfLowRankComeBackAndTheRestIsTheLeastThatCanBeLost) {
  constexpr uint32_t kWidth = 24, kRank = 3;
  SeededRandom random(1);
  std::vector<float> basis(kRank * kWidth);
  for (float& value : basis) value = random.Normal();
  std::vector<float> rows;
  for (int row = 0; row < 50; ++row) {
    std::vector<float> values(kWidth);
    for (uint32_t i = 0; i < kRank; ++i) {
      const float weight = random.Normal();
      for (uint32_t c = 0; c < kWidth; ++c) values[c] += weight * basis[i * kWidth + c];
    }
    rows.insert(rows.end(), values.begin(), values.end());
  }
  const LowRankKeys exact(rows, kWidth, kRank);
  const LowRankKeys lossy(rows, kWidth, kRank - 1);
  std::vector<float> several(3 * 5);
  exact.Rebuild(20, 7, 5, several);
  for (size_t i = 0; i < several.size(); ++i) {
    EXPECT_NEAR(several[i], rows[(20 + i / 5) * kWidth + 7 + i % 5], 1e-4);
  }
  double lost = 0, total = 0;
  for (size_t row = 0; row < 50; ++row) {
    std::vector<float> rebuilt(10);
    exact.Rebuild(row, 4, 10, rebuilt);
    for (size_t c = 0; c < 10; ++c) EXPECT_NEAR(rebuilt[c], rows[row * kWidth + 4 + c], 1e-4);
    lossy.Rebuild(row, 4, 10, rebuilt);
    for (size_t c = 0; c < 10; ++c) {
      lost += std::pow(rebuilt[c] - rows[row * kWidth + 4 + c], 2);
      total += std::pow(rows[row * kWidth + 4 + c], 2);
    }
  }
  EXPECT_GT(lost, 1e-3 * total);
  EXPECT_LT(lost, 0.5 * total);
}

// The first query head looks at A most and at B next, the second at C and at B.
TEST(ShadowKvSelectionTest, QueryHeadsAgreeByTheLargestOfTheirShares) {
  const auto policy = testing::MakeValid(Context("shadowkv", 2));
  const std::vector<std::vector<float>> pages = {
      {0, 0, 0, 0}, {1, 0, 0, 0}, {.95f, .95f, 0, 0}, {0, 1, 0, 0}};
  for (uint32_t page = 0; page < pages.size(); ++page) {
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, Unit(pages[page], page).data()),
              OkStatus());
  }
  const std::vector<float> q = {8, 0, 0, 0, 0, 8, 0, 0};  // By their mean B is the best.
  EXPECT_THAT(Select(*policy, q, {1, 4}), ElementsAre(1, 3));
}

TEST(ShadowKvSelectionTest, TheDocumentPageWithAKeyFarthestFromItsMeanIsAnOutlierAndStays) {
  const auto policy = testing::MakeValid(Context("shadowkv", 4));
  ASSERT_EQ(policy->page_observer()->OnPrefillLayer(0, 20, {}), OkStatus());
  const auto unit_of = [](uint32_t page) {
    std::vector<float> unit = PageUnit(page);
    if (page == 9) unit[1] = -1;  // A page along channel 1.
    return unit;
  };
  for (uint32_t page = 0; page < 20; ++page) {
    ASSERT_EQ(policy->page_observer()->OnPageComplete(0, page, unit_of(page).data()), OkStatus());
  }
  // With a budget of 56 tokens there is one outlier.
  for (const uint32_t channel : {2u, 3u}) {
    const std::vector<uint32_t> pages = Select(*policy, Along(channel), {1, 17});
    EXPECT_EQ(pages.size(), 4u);
    for (const uint32_t page : pages) EXPECT_TRUE(page == 9 || page % 4 == channel) << page;
    EXPECT_THAT(pages, Contains(9));
  }
}

/// Two KV heads of eight rotated channels; the document has pages 0 to 19, and the sequence itself
/// two more, all of random keys.
class ShadowKvPolicyTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kDocumentPages = 20, kPages = 22;
  static constexpr size_t kHalf = 8 * 8;  ///< Floats of the keys of a unit, and of its values.

  void Make(DType dtype = DType::kF32, uint32_t key_rank = 0) {
    PolicyContext context = Context("shadowkv", 4);
    context.spec.num_kv_heads = 2;
    context.spec.head_dim = 8;
    context.spec.rope.rotary_dim = 8;
    context.spec.dtype = dtype;
    context.options.key_rank = key_rank;
    dtype_ = dtype;
    policy_ = testing::MakeValid(context);
    ASSERT_EQ(policy_->page_observer()->OnPrefillLayer(0, kDocumentPages, {}), OkStatus());
    SeededRandom random(3);
    for (uint32_t page = 0; page < kPages; ++page) {
      units_.emplace_back(2 * 2 * kHalf * ElementBytes(dtype));
      for (size_t i = 0; i < 2 * 2 * kHalf; ++i) {
        StoreElement(units_.back().data(), static_cast<int64_t>(i), dtype, random.Normal());
      }
      ASSERT_EQ(policy_->page_observer()->OnPageComplete(0, page, units_.back().data()),
                OkStatus());
    }
  }
  /// More candidates than can be selected: the document's keys go to low rank.
  void Choose() {
    const std::vector<float> q(16, 1.0f);
    const auto selection = policy_->Select({.q = q.data(), .candidates = {1, 17}, .max_pages = 4});
    ASSERT_TRUE(selection.ok()) << selection.status();
  }
  /// The keys of page `page` of head 1 that the policy gives.
  std::vector<std::byte> Given(uint32_t page) const {
    std::vector<std::byte> keys(kHalf * ElementBytes(dtype_));
    policy_->key_source()->FillKeys(0, 1, page, keys);
    return keys;
  }
  /// The keys that are stored.
  std::vector<std::byte> Stored(uint32_t page) const {
    const auto half = static_cast<ptrdiff_t>(kHalf * ElementBytes(dtype_));
    return {units_[page].begin() + 2 * half, units_[page].begin() + 3 * half};
  }

  DType dtype_ = DType::kF32;
  std::vector<std::vector<std::byte>> units_;  ///< [pages][n_kv]
  std::unique_ptr<RetrievalPolicy> policy_;
};

TEST_F(ShadowKvPolicyTest, WhileEverythingFitsItGivesTheKeysThatWereStored) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    units_.clear();
    Make(dtype);
    EXPECT_EQ(policy_->recalled_part(), UnitPart::kValues);
    for (uint32_t page = 0; page < kPages; ++page) EXPECT_EQ(Given(page), Stored(page));
  }
}

TEST_F(ShadowKvPolicyTest, KeysOfTheDocumentAreRebuiltFromLowRankAndItsOwnAreExact) {
  Make();
  Choose();
  int rebuilt = 0;
  for (uint32_t page = 1; page < kPages; ++page) {
    const bool other = Given(page) != Stored(page);
    EXPECT_TRUE(!other || page < kDocumentPages) << "its own pages are exact";
    rebuilt += other;
  }
  // With a budget of 56 tokens one of the candidates is an outlier, and exact.
  EXPECT_EQ(rebuilt, 18);
}

TEST_F(ShadowKvPolicyTest, TheRankIsThePublishedShareOfTheWidthUnlessItIsNamed) {
  // Squared error of the keys of head 1.
  const auto lost = [&](uint32_t key_rank) {
    units_.clear();
    Make(DType::kF32, key_rank);
    Choose();
    double sum = 0;
    for (uint32_t page = 1; page < kDocumentPages; ++page) {
      const std::vector<std::byte> given = Given(page), stored = Stored(page);
      for (size_t i = 0; i < kHalf; ++i) {
        const auto at = static_cast<int64_t>(i);
        sum += std::pow(LoadElement(given.data(), at, DType::kF32) -
                            LoadElement(stored.data(), at, DType::kF32),
                        2);
      }
    }
    return sum;
  };
  const double published = lost(0);
  EXPECT_GT(published, 0);
  EXPECT_EQ(lost(2), published) << "160 of 1024 are two of 16";
  EXPECT_NE(lost(1), published);
  EXPECT_LT(lost(8), lost(1));
  EXPECT_LT(lost(16), 1e-6 * published) << "of all channels nothing is lost";
}

}  // namespace
}  // namespace quire::worker
