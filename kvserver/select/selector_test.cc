// SPDX-License-Identifier: Apache-2.0
#include "kvserver/select/selector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/base/random.h"
#include "common/page/rope_rotation.h"
#include "kernels/cpu/cpu_kernels.h"
#include "quire/page_name.h"

namespace quire::kvserver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

KvSpec Spec(uint32_t n_q, uint32_t n_kv, uint32_t d, uint32_t g) {
  KvSpec spec;
  spec.dtype = DType::kF32;
  spec.num_layers = 1;
  spec.num_query_heads = n_q;
  spec.num_kv_heads = n_kv;
  spec.head_dim = d;
  spec.segment_pages = g;
  return spec;
}

/// Digests of `pages` pages of random keys, as one array [pages][n_kv][2][d] of floats.
std::vector<float> RandomDigests(const KvSpec& spec, uint32_t pages, Random& random) {
  std::vector<float> digests(size_t{pages} * spec.num_kv_heads * 2 * spec.key_dim());
  const uint32_t d = spec.key_dim();
  for (size_t row = 0; row < digests.size(); row += 2 * d) {
    for (uint32_t c = 0; c < d; ++c) {
      const float a = random.Normal(), b = random.Normal();
      digests[row + c] = std::min(a, b);
      digests[row + d + c] = std::max(a, b);
    }
  }
  return digests;
}

/// The same array as blocks of g pages, from the segment of `first_page` on, without a copy.
DigestBlocks Blocks(const KvSpec& spec, const std::vector<float>& digests, uint32_t first_page) {
  const auto bytes = std::as_bytes(std::span(digests));
  const uint64_t block = spec.segment_pages * PageDigestBytes(spec);
  const uint32_t segment = first_page / spec.segment_pages;
  DigestBlocks blocks(spec, segment * spec.segment_pages);
  for (uint64_t at = segment * block; at < bytes.size(); at += block) {
    blocks.Append({bytes.subspan(at, std::min(block, bytes.size() - at)), nullptr});
  }
  return blocks;
}

PageQuery RandomQuery(const KvSpec& spec, uint32_t first, uint32_t end, uint32_t k,
                      Random& random) {
  PageQuery query;
  query.query.resize(size_t{spec.num_query_heads} * spec.key_dim());
  for (float& value : query.query) value = random.Normal();
  query.ranges = {{.first_page = first, .end_page = end}};
  query.num_pages = k;
  return query;
}

/// Selects over one context.
PageLists Selected(Selector& selector, const KvSpec& spec, const PageQuery& query,
                   const DigestBlocks& digests) {
  PageLists selected;
  const Status status = selector.Select(spec, query, std::span(&digests, 1), &selected);
  EXPECT_TRUE(status.ok()) << status;
  return selected;
}
auto Head(const PageLists& lists, uint32_t head) {
  return std::vector<uint32_t>(lists.Head(head).begin(), lists.Head(head).end());
}

/// FreeKV's selection written out: bound, softmax per query head, mean over the group, best k.
std::vector<uint32_t> ByHand(const KvSpec& spec, const PageQuery& query,
                             const std::vector<float>& digests, uint32_t head) {
  const uint32_t d = spec.key_dim(), group = spec.group_size();
  const uint32_t n = query.ranges[0].num_pages(), first = query.ranges[0].first_page;
  std::vector<double> weight(n, 0.0);
  for (uint32_t a = head * group; a < (head + 1) * group; ++a) {
    std::vector<double> score(n, 0.0);
    for (uint32_t j = 0; j < n; ++j) {
      const float* lo = &digests[((first + j) * spec.num_kv_heads + head) * 2 * d];
      for (uint32_t c = 0; c < d; ++c) {
        const double q = query.query[a * d + c];
        score[j] += std::max(q * lo[c], q * lo[d + c]);
      }
    }
    const double top = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double& s : score) sum += s = std::exp(s - top);
    for (uint32_t j = 0; j < n; ++j) weight[j] += score[j] / sum / group;
  }
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t x, uint32_t y) { return weight[x] > weight[y]; });
  order.resize(query.num_pages);
  for (uint32_t& page : order) page += first;
  std::sort(order.begin(), order.end());
  return order;
}

TEST(SelectorTest, SelectsWhatTheFormulaSaysForEveryShape) {
  SeededRandom random(21);
  Selector selector(kernels::CpuReference());
  for (const auto& [n_q, n_kv] : {std::pair{1u, 1u}, {4u, 4u}, {8u, 2u}, {8u, 1u}}) {
    const KvSpec spec = Spec(n_q, n_kv, 16, 8);
    for (const uint32_t pages : {1u, 7u, 8u, 9u, 40u}) {
      const std::vector<float> digests = RandomDigests(spec, pages, random);
      for (uint32_t first : {0u, 3u, 17u}) {
        first = std::min(first, pages - 1);
        const uint32_t k = std::min(5u, pages - first);
        const PageQuery query = RandomQuery(spec, first, pages, k, random);
        ASSERT_TRUE(Selector::Check(spec, query, std::span(&pages, 1)).ok());
        const PageLists selected = Selected(selector, spec, query, Blocks(spec, digests, first));
        ASSERT_EQ(selected.num_heads(), n_kv);
        for (uint32_t head = 0; head < n_kv; ++head) {
          EXPECT_EQ(Head(selected, head), ByHand(spec, query, digests, head));
        }
      }
    }
  }
}

TEST(SelectorTest, BlocksAndOneArrayGiveTheSameWithEveryPooling) {
  SeededRandom random(22);
  const KvSpec spec = Spec(8, 2, 16, 4), whole = Spec(8, 2, 16, 64);
  const std::vector<float> digests = RandomDigests(spec, 30, random);
  for (const kernels::KernelTable* ops : {&kernels::CpuReference(), &kernels::CpuKernels()}) {
    Selector selector(*ops);
    for (int pooling = 1; pooling <= 7; ++pooling) {
      PageQuery query = RandomQuery(spec, 5, 29, 6, random);
      query.pooling = static_cast<kernels::Pooling>(pooling);
      const PageLists in_blocks = Selected(selector, spec, query, Blocks(spec, digests, 5));
      EXPECT_EQ(in_blocks, Selected(selector, whole, query, Blocks(whole, digests, 5)));
      for (uint32_t head = 0; head < 2; ++head) {
        EXPECT_EQ(in_blocks.Head(head).size(), 6u);
        EXPECT_TRUE(std::ranges::is_sorted(in_blocks.Head(head)));
      }
    }
  }
}

TEST(SelectorTest, AllCandidatesNoneAndTies) {
  const KvSpec spec = Spec(2, 1, 4, 4);
  SeededRandom random(23);
  Selector selector(kernels::CpuReference());
  const std::vector<float> zeros(8 * 2 * 4, 0.0f);
  PageQuery query = RandomQuery(spec, 2, 8, 3, random);
  EXPECT_THAT(Selected(selector, spec, query, Blocks(spec, zeros, 2)).Head(0),
              ElementsAre(2, 3, 4));
  query.num_pages = 6;
  EXPECT_THAT(Selected(selector, spec, query, DigestBlocks(spec, 0)).Head(0),
              ElementsAre(2, 3, 4, 5, 6, 7));
  query.num_pages = 0;
  EXPECT_THAT(Selected(selector, spec, query, DigestBlocks(spec, 0)).Head(0), ElementsAre());
  query.ranges[0].end_page = 2;
  query.num_pages = 5;
  EXPECT_THAT(Selected(selector, spec, query, DigestBlocks(spec, 0)).Head(0), ElementsAre());
}

TEST(SelectorTest, PagesThatScoreNaNComeLastAndAreCounted) {
  const KvSpec spec = Spec(1, 1, 4, 4);
  SeededRandom random(24);
  std::vector<float> digests = RandomDigests(spec, 4, random);
  digests[0] = digests[4] = std::numeric_limits<float>::quiet_NaN();  // Page 0, channel 0.
  Selector selector(kernels::CpuReference());
  const PageQuery query = RandomQuery(spec, 0, 4, 3, random);
  EXPECT_THAT(Selected(selector, spec, query, Blocks(spec, digests, 0)).Head(0),
              ElementsAre(1, 2, 3));
  EXPECT_EQ(MetricValuesOf(selector).at("select_nan_scores"), 1u);
}

/// A sequence over several contexts of random digests, and one array with all their candidates.
struct Members {
  KvSpec spec;
  std::vector<std::vector<float>> digests;
  PageQuery query;
  std::vector<DigestBlocks> blocks;
  std::vector<float> joined;
  std::vector<uint32_t> names;  ///< Names of the pages of `joined`.
};
Members RandomMembers(const KvSpec& spec, uint32_t k, Random& random) {
  Members members;
  members.spec = spec;
  members.query = RandomQuery(spec, 0, 0, k, random);
  members.query.ranges = {{0, 3, 21}, {2, 0, 9}, {3, 4, 4}, {5, 1, 12}};
  const size_t page = PageDigestBytes(spec) / sizeof(float);
  for (const CandidatePages& range : members.query.ranges) {
    members.digests.push_back(RandomDigests(spec, range.end_page, random));
    const std::vector<float>& digests = members.digests.back();
    members.blocks.push_back(Blocks(spec, digests, range.first_page));
    members.joined.insert(members.joined.end(), digests.begin() + range.first_page * page,
                          digests.end());
    for (uint32_t p = range.first_page; p < range.end_page; ++p) {
      members.names.push_back(PageName(range.member, p));
    }
  }
  return members;
}

TEST(SelectorTest, MembersCompeteAsIfTheirPagesWereOfOneContext) {
  SeededRandom random(26);
  Selector selector(kernels::CpuKernels());
  for (int pooling = 1; pooling <= 7; ++pooling) {
    Members members = RandomMembers(Spec(8, 2, 16, 4), 7, random);
    members.query.pooling = static_cast<kernels::Pooling>(pooling);
    PageLists selected;
    ASSERT_TRUE(selector.Select(members.spec, members.query, members.blocks, &selected).ok());
    PageQuery one = members.query;
    one.ranges = {{.end_page = static_cast<uint32_t>(members.names.size())}};
    const PageLists joined =
        Selected(selector, members.spec, one, Blocks(members.spec, members.joined, 0));
    for (uint32_t head = 0; head < 2; ++head) {
      std::vector<uint32_t> want;
      for (const uint32_t page : joined.Head(head)) want.push_back(members.names[page]);
      EXPECT_EQ(Head(selected, head), want);
    }
  }
}

TEST(SelectorTest, TiesBetweenMembersGoToTheLowerName) {
  const KvSpec spec = Spec(2, 1, 4, 4);
  SeededRandom random(27);
  const std::vector<float> zeros(8 * 2 * 4, 0.0f);
  PageQuery query = RandomQuery(spec, 0, 0, 4, random);
  query.ranges = {{1, 6, 8}, {4, 0, 8}};
  const std::vector<DigestBlocks> digests = {Blocks(spec, zeros, 6), Blocks(spec, zeros, 0)};
  Selector selector(kernels::CpuKernels());
  PageLists selected;
  ASSERT_TRUE(selector.Select(spec, query, digests, &selected).ok());
  EXPECT_THAT(selected.Head(0),
              ElementsAre(PageName(1, 6), PageName(1, 7), PageName(4, 0), PageName(4, 1)));
  query.num_pages = 10;
  ASSERT_TRUE(selector.Select(spec, query, {}, &selected).ok());
  EXPECT_EQ(selected.Head(0).size(), 10u);
  EXPECT_EQ(selected.Head(0)[2], PageName(4, 0));
}

/// `rows` rows of the key dimension, rotated by `delta` positions.
std::vector<float> Moved(const KvSpec& spec, std::vector<float> rows, int64_t delta) {
  std::vector<float> cosines(spec.rope.rotary_dim / 2), sines(cosines);
  RopeRotation(spec.rope).FillMove(delta, cosines.data(), sines.data());
  const int32_t position = 0;
  for (size_t row = 0; row < rows.size(); row += spec.key_dim()) {
    EXPECT_EQ(kernels::CpuKernels().rope({.rows = rows.data() + row,
                                          .positions = &position,
                                          .cos_table = cosines.data(),
                                          .sin_table = sines.data(),
                                          .t = 1,
                                          .heads = 1,
                                          .head_dim = spec.key_dim(),
                                          .rotary_dim = spec.rope.rotary_dim,
                                          .n_positions = 1,
                                          .interleaved = spec.rope.interleaved}),
              kernels::OpStatus::kOk);
  }
  return rows;
}

TEST(SelectorTest, MovedContextsAreScoredByQueriesThatAWorkerTurnedBack) {
  SeededRandom random(28);
  KvSpec spec = Spec(8, 2, 16, 4);
  spec.rope.rotary_dim = 12;
  Selector selector(kernels::CpuKernels());
  for (const kernels::Pooling pooling : {kernels::Pooling::kAvgSM, kernels::Pooling::kMaxQ}) {
    Members members = RandomMembers(spec, 7, random);
    members.query.pooling = pooling;
    int64_t offset = 0;
    for (CandidatePages& range : members.query.ranges) range.position_offset = offset += 700;
    PageLists selected;
    ASSERT_TRUE(selector.Select(spec, members.query, members.blocks, &selected).ok());

    // The worker: its own rotated queries for each member, one row of scores, the same ops.
    const kernels::KernelTable& ops = kernels::CpuKernels();
    const auto n = static_cast<int64_t>(members.names.size());
    const int64_t rows = kernels::PoolsQuery(pooling) ? 2 : 8;
    std::vector<float> scores(rows * n), weights(2 * n);
    const float* digests = members.joined.data();
    float* out = scores.data();
    for (const CandidatePages& range : members.query.ranges) {
      std::vector<float> q = Moved(spec, members.query.query, -range.position_offset);
      if (rows == 2) {
        std::vector<float> pooled(2 * 16);
        ASSERT_EQ(ops.pool_query({.q = q.data(),
                                  .pooled = pooled.data(),
                                  .n_q = 8,
                                  .n_kv = 2,
                                  .head_dim = 16,
                                  .pooling = pooling}),
                  kernels::OpStatus::kOk);
        q = pooled;
      }
      ASSERT_EQ(ops.score({.q = q.data(),
                           .digests = digests,
                           .scores = out,
                           .score_stride = n,
                           .n_pages = range.num_pages(),
                           .n_q = rows,
                           .n_kv = 2,
                           .head_dim = 16,
                           .dtype = DType::kF32}),
                kernels::OpStatus::kOk);
      digests += range.num_pages() * 2 * 2 * 16;
      out += range.num_pages();
    }
    ASSERT_EQ(ops.pool({.scores = scores.data(),
                        .pooled = weights.data(),
                        .n_q = rows,
                        .n_kv = 2,
                        .n_pages = n,
                        .pooling = pooling}),
              kernels::OpStatus::kOk);
    std::vector<int32_t> best(2 * 7);
    ASSERT_EQ(
        ops.topk(
            {.scores = weights.data(), .indices = best.data(), .n_rows = 2, .n_pages = n, .k = 7}),
        kernels::OpStatus::kOk);
    for (uint32_t head = 0; head < 2; ++head) {
      for (uint32_t i = 0; i < 7; ++i) {
        EXPECT_EQ(selected.Head(head)[i], members.names[best[head * 7 + i]]);
      }
    }
  }
}

/// A sequence over several contexts of random keys, each with an offset: the worker's and the
/// server's data.
struct KeyMembers {
  PageQuery query;
  std::vector<std::vector<std::byte>> digests;  ///< The server's digests of whole contexts.
  std::vector<DigestBlocks> blocks;             ///< Blocks of `digests`.
  std::vector<std::vector<std::byte>> keys;     ///< Keys of the candidates, [pages][n_kv][p][d].
  std::vector<uint32_t> names;                  ///< Names of the candidates.
};
KeyMembers RandomKeys(const KvSpec& spec, kernels::DigestKind kind, Random& random) {
  KeyMembers members;
  members.query = RandomQuery(spec, 0, 0, 7, random);
  members.query.digest = kind;
  members.query.ranges = {{0, 3, 21, 0}, {2, 0, 9, 700}, {5, 1, 12, -31}};
  const size_t page = size_t{spec.num_kv_heads} * spec.page_tokens * spec.key_dim();
  for (const CandidatePages& range : members.query.ranges) {
    std::vector<std::byte> keys(range.end_page * page * ElementBytes(spec.dtype));
    for (size_t i = 0; i < range.end_page * page; ++i) {
      StoreElement(keys.data(), static_cast<int64_t>(i), spec.dtype, random.Normal());
    }
    const uint64_t digest_bytes = PageDigestBytes(spec, kind);
    auto& digests = members.digests.emplace_back(range.end_page * digest_bytes);
    kernels::DigestArgs args = kernels::PageDigestArgs(spec, kind);
    args.units = keys.data();
    args.unit_stride = int64_t{spec.page_tokens} * spec.key_dim();  // Bare keys.
    args.digests = digests.data();
    args.n_units = int64_t{range.end_page} * spec.num_kv_heads;
    EXPECT_EQ(kernels::CpuKernels().digest(args), kernels::OpStatus::kOk);
    DigestBlocks blocks(spec, 0, kind);
    const uint64_t block = spec.segment_pages * digest_bytes;
    for (uint64_t at = 0; at < digests.size(); at += block) {
      const std::span<const std::byte> bytes(digests);
      blocks.Append({bytes.subspan(at, std::min(block, bytes.size() - at)), nullptr});
    }
    members.blocks.push_back(std::move(blocks));
    keys.erase(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(range.first_page * page *
                                                                   ElementBytes(spec.dtype)));
    members.keys.push_back(std::move(keys));
    for (uint32_t p = range.first_page; p < range.end_page; ++p) {
      members.names.push_back(PageName(range.member, p));
    }
  }
  return members;
}

/// A worker's selection: its own digests of the keys, one array of scores, every op by itself.
std::vector<std::vector<uint32_t>> SelectedByWorker(const kernels::KernelTable& ops,
                                                    const KvSpec& spec, const KeyMembers& members) {
  const PageQuery& query = members.query;
  const auto n = static_cast<int64_t>(members.names.size());
  const int64_t rows =
      kernels::PoolsQuery(query.pooling) ? spec.num_kv_heads : spec.num_query_heads;
  std::vector<float> scores(static_cast<size_t>(rows * n));
  std::vector<float> weights(static_cast<size_t>(spec.num_kv_heads * n));
  float* out = scores.data();
  for (size_t m = 0; m < query.ranges.size(); ++m) {
    const CandidatePages& range = query.ranges[m];
    std::vector<std::byte> digests(range.num_pages() * PageDigestBytes(spec, query.digest));
    kernels::DigestArgs digest = kernels::PageDigestArgs(spec, query.digest);
    digest.units = members.keys[m].data();
    digest.unit_stride = int64_t{spec.page_tokens} * spec.key_dim();
    digest.digests = digests.data();
    digest.n_units = int64_t{range.num_pages()} * spec.num_kv_heads;
    EXPECT_EQ(ops.digest(digest), kernels::OpStatus::kOk);
    std::vector<float> q = query.query;
    if (range.position_offset != 0) q = Moved(spec, q, -range.position_offset);
    if (kernels::PoolsQuery(query.pooling)) {
      std::vector<float> pooled(size_t{spec.num_kv_heads} * spec.key_dim());
      EXPECT_EQ(ops.pool_query({.q = q.data(),
                                .pooled = pooled.data(),
                                .n_q = spec.num_query_heads,
                                .n_kv = spec.num_kv_heads,
                                .head_dim = spec.key_dim(),
                                .pooling = query.pooling}),
                kernels::OpStatus::kOk);
      q = pooled;
    }
    kernels::ScoreArgs score = kernels::PageScoreArgs(spec, query.digest);
    score.q = q.data();
    score.digests = digests.data();
    score.scores = out;
    score.score_stride = n;
    score.n_pages = range.num_pages();
    score.n_q = rows;
    EXPECT_EQ(ops.score(score), kernels::OpStatus::kOk);
    out += range.num_pages();
  }
  EXPECT_EQ(ops.pool({.scores = scores.data(),
                      .pooled = weights.data(),
                      .n_q = rows,
                      .n_kv = spec.num_kv_heads,
                      .n_pages = n,
                      .head_dim = spec.key_dim(),
                      .pooling = query.pooling}),
            kernels::OpStatus::kOk);
  std::vector<int32_t> best(size_t{spec.num_kv_heads} * query.num_pages);
  EXPECT_EQ(ops.topk({.scores = weights.data(),
                      .indices = best.data(),
                      .n_rows = spec.num_kv_heads,
                      .n_pages = n,
                      .k = query.num_pages}),
            kernels::OpStatus::kOk);
  std::vector<std::vector<uint32_t>> selected(spec.num_kv_heads);
  for (size_t i = 0; i < best.size(); ++i) {
    selected[i / query.num_pages].push_back(members.names[static_cast<size_t>(best[i])]);
  }
  return selected;
}

TEST(SelectorTest, EveryKindOfDigestSelectsWhatAWorkerSelectsFromTheKeys) {
  constexpr uint64_t kSeed = 31;
  SeededRandom random(kSeed);
  for (const kernels::KernelTable* ops : {&kernels::CpuReference(), &kernels::CpuKernels()}) {
    Selector selector(*ops);
    for (const auto& [n_q, n_kv] : {std::pair{4u, 4u}, {8u, 2u}, {6u, 1u}}) {
      for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        KvSpec spec = Spec(n_q, n_kv, 16, 4);
        spec.dtype = dtype;
        spec.page_tokens = 8;
        spec.rope.rotary_dim = 12;
        for (const kernels::DigestKind kind : kSelectingKinds) {
          KeyMembers members = RandomKeys(spec, kind, random);
          for (int pooling = 1; pooling <= 7; ++pooling) {
            SCOPED_TRACE(::testing::Message()
                         << "seed " << kSeed << " kernels " << ops->name << " heads " << n_q << "/"
                         << n_kv << " " << Name(dtype) << " kind " << static_cast<int>(kind)
                         << " pooling " << pooling);
            members.query.pooling = static_cast<kernels::Pooling>(pooling);
            PageLists selected;
            ASSERT_TRUE(selector.Select(spec, members.query, members.blocks, &selected).ok());
            const auto want = SelectedByWorker(*ops, spec, members);
            for (uint32_t head = 0; head < n_kv; ++head) {
              EXPECT_EQ(Head(selected, head), want[head]);
            }
          }
        }
      }
    }
  }
}

TEST(SelectorTest, TurningTheQueryBackIsMovingTheKeys) {
  // Pages of one token: their boxes are points, which commute with rotation.
  SeededRandom random(29);
  for (const bool interleaved : {false, true}) {
    KvSpec spec = Spec(4, 1, 8, 8);
    spec.rope.rotary_dim = 8;
    spec.rope.interleaved = interleaved;
    std::vector<float> here, there;
    constexpr int64_t kOffset = 12345;
    for (int page = 0; page < 24; ++page) {
      std::vector<float> key(8);
      for (float& value : key) value = random.Normal();
      const std::vector<float> moved = Moved(spec, key, kOffset);
      for (int corner = 0; corner < 2; ++corner) {
        here.insert(here.end(), key.begin(), key.end());
        there.insert(there.end(), moved.begin(), moved.end());
      }
    }
    Selector selector(kernels::CpuKernels());
    PageQuery query = RandomQuery(spec, 0, 24, 6, random);
    const PageLists want = Selected(selector, spec, query, Blocks(spec, there, 0));
    EXPECT_NE(Selected(selector, spec, query, Blocks(spec, here, 0)), want);
    query.ranges[0].position_offset = kOffset;
    EXPECT_EQ(Selected(selector, spec, query, Blocks(spec, here, 0)), want);
  }
}

TEST(SelectorTest, ChecksShapesBeforeAnythingIsRead) {
  const KvSpec spec = Spec(4, 2, 8, 4);
  SeededRandom random(25);
  const PageQuery good = RandomQuery(spec, 0, 10, 3, random);
  const std::vector<uint32_t> members = {10, 1u << 24, 1u << 24, 1u << 24};
  const auto problem = [&](const auto& change) {
    PageQuery bad = good;
    change(bad);
    const Status status = Selector::Check(spec, bad, members);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    return std::string(Message(status));
  };
  EXPECT_TRUE(Selector::Check(spec, good, members).ok());
  EXPECT_THAT(problem([](auto& q) { q.query.push_back(0); }), HasSubstr("33 numbers"));
  EXPECT_THAT(problem([](auto& q) { q.ranges[0].end_page = 11; }), HasSubstr("[0, 11)"));
  EXPECT_THAT(problem([](auto& q) { q.ranges[0].first_page = 11; }), HasSubstr("[11, 10)"));
  EXPECT_THAT(problem([](auto& q) { q.ranges[0].member = 4; }), HasSubstr("4 members"));
  EXPECT_THAT(problem([](auto& q) { q.ranges.push_back({0, 9, 10}); }), HasSubstr("ascend"));
  EXPECT_THAT(problem([](auto& q) { q.ranges = {{1, 0, 5}, {0, 6, 7}}; }), HasSubstr("ascend"));
  EXPECT_THAT(problem([](auto& q) {
                q.ranges = {{1, 0, 1u << 24}, {2, 0, 1u << 24}, {3, 0, 1u << 24}};
              }),
              HasSubstr("at most 33554432"));
  EXPECT_THAT(problem([](auto& q) { q.ranges[0].position_offset = INT64_MIN; }),
              HasSubstr("within"));
  for (const float scale : {0.0f, -1.0f, std::numeric_limits<float>::infinity()}) {
    EXPECT_THAT(problem([&](auto& q) { q.scale = scale; }), HasSubstr("scale"));
  }
  EXPECT_THAT(problem([](auto& q) { q.pooling = static_cast<kernels::Pooling>(0); }),
              HasSubstr("pooling 0"));
  EXPECT_THAT(problem([](auto& q) { q.digest = static_cast<kernels::DigestKind>(7); }),
              HasSubstr("digest kind 7"));
  PageQuery discs = good;
  discs.digest = kernels::DigestKind::kDisc;
  EXPECT_TRUE(Selector::Check(spec, discs, members).ok());
  const KvSpec odd = Spec(4, 2, 7, 4);
  discs.query.resize(28);
  EXPECT_THAT(std::string(Message(Selector::Check(odd, discs, members))), HasSubstr("7 of them"));
}

TEST(SelectorTest, RefusesToMoveWhatCannotBeRotated) {
  KvSpec spec = Spec(4, 2, 8, 4);
  spec.rope.scaling = RopeScaling::kDynamic;
  SeededRandom random(30);
  PageQuery query = RandomQuery(spec, 0, 10, 3, random);
  const std::vector<uint32_t> members = {10};
  EXPECT_TRUE(Selector::Check(spec, query, members).ok());
  query.ranges[0].position_offset = 1;
  EXPECT_THAT(std::string(Message(Selector::Check(spec, query, members))),
              HasSubstr("cannot be moved"));
}

}  // namespace
}  // namespace quire::kvserver
