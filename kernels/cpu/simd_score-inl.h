// SPDX-License-Identifier: Apache-2.0
//
// Scores: digests are read once for all query heads of their group, a tile of pages at a time,
// while the next tile is fetched. Included once per instruction set by simd_highway.cc.
//
// The 8 partial sums of a score are the lanes of one vector of 8, or of two of 4, summed one after
// the other so that a tile's sums stay in registers. Wider vectors would not be faster: memory is
// the limit by then, and their sums take longer to fold.
#if defined(QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/plain_scores.h"
#include "kernels/cpu/simd.h"
#include "kernels/cpu/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

// Vectors of a known size, and a multiply-add that rounds once.
#undef QUIRE_SCORES_IN_VECTORS
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_TARGET == HWY_NEON
#define QUIRE_SCORES_IN_VECTORS 1
#else
#define QUIRE_SCORES_IN_VECTORS 0
#endif

#if QUIRE_SCORES_IN_VECTORS

using ScoreTag = hn::CappedTag<float, kPartialSums>;
using ScoreVec = hn::Vec<ScoreTag>;
constexpr int64_t kScoreLanes = hn::MaxLanes(ScoreTag());
/// Pages and query heads of a tile: their sums, the digests and a query fit in the registers.
constexpr int kTilePages = HWY_TARGET == HWY_AVX2 ? 2 : 4;
constexpr int kTileHeads = 4;
constexpr int kTileSums = kTilePages * kTileHeads;

/// What a digest's row is. One term after whole vectors, a radius, has code of its own, which would
/// cost the others registers.
enum class Row { kCorners, kTerms, kTermsAndOne };

/// The first lane from memory, zeros above. LoadTail goes by way of the stack, and waits there.
template <typename T>
HWY_INLINE ScoreVec LoadFirst(const T* from) {
  const ScoreTag tag;
#if QUIRE_HAS_F16C
  if constexpr (sizeof(T) == sizeof(uint16_t)) {
    uint16_t bits;
    memcpy(&bits, from, sizeof(bits));
    const hn::Rebind<uint16_t, ScoreTag> bits16;
    return hn::PromoteTo(
        tag, hn::BitCast(hn::Rebind<T, ScoreTag>(), hn::InsertLane(hn::Zero(bits16), 0, bits)));
  }
#endif
  return LoadTail(tag, from, 1);
}

/// Digests of the pages of a tile, for one KV head.
template <typename T>
struct DigestRows {
  const T* first;
  int64_t stride;  ///< between pages
  int64_t terms;
};

/// Bytes of a later tile, fetched into the second-level cache a few lines at a time between
/// multiplications: many at once would wait for each other, and loads behind them. The first line
/// goes to the first level: some processors (AMD Zen 4) look up a page for such a fetch, and drop
/// one to the second level whose page they do not know.
class Fetcher {
 public:
  HWY_INLINE Fetcher(const char* from, int64_t bytes) : next_(from), end_(from + bytes) {
    if (bytes > 0) __builtin_prefetch(from, /*rw=*/0, /*locality=*/3);
  }
  /// The next kBytes of it, or a line.
  template <int64_t kBytes>
  HWY_INLINE void Step() {
    if (next_ >= end_) return;
    for (int64_t at = 0; at < kBytes; at += kLine) {
      __builtin_prefetch(next_ + at, /*rw=*/0, /*locality=*/2);
    }
    next_ += kBytes > kLine ? kBytes : kLine;
  }

 private:
  static constexpr int64_t kLine = 64;
  const char* next_;
  const char* end_;
};

/// Adds the terms of one vector of channels, loaded by `load`, to the sums [heads][pages].
template <Row kRow, typename T, class Load, int... kHead, int... kPage>
HWY_INLINE void AddTerms(const float* q, int64_t q_stride, const DigestRows<T>& rows, int64_t c,
                         const Load& load, ScoreVec* HWY_RESTRICT sums,
                         std::integer_sequence<int, kHead...>,
                         std::integer_sequence<int, kPage...>) {
  const ScoreTag tag;
  constexpr int kPages = sizeof...(kPage);
  const ScoreVec low[] = {load(rows.first + kPage * rows.stride + c)...};
  ScoreVec high[] = {low[kPage]...};
  if constexpr (kRow == Row::kCorners) {
    ((high[kPage] = load(rows.first + kPage * rows.stride + rows.terms + c)), ...);
  }
  const auto add_head = [&](auto head) HWY_ATTR {
    constexpr int kAt = decltype(head)::value;
    const ScoreVec query = hn::LoadU(tag, q + kAt * q_stride + c);
    if constexpr (kRow == Row::kCorners) {
      const auto upper = hn::Ge(query, hn::Zero(tag));
      ((sums[kAt * kPages + kPage] = hn::MulAdd(
            query, hn::IfThenElse(upper, high[kPage], low[kPage]), sums[kAt * kPages + kPage])),
       ...);
    } else {
      ((sums[kAt * kPages + kPage] = hn::MulAdd(query, low[kPage], sums[kAt * kPages + kPage])),
       ...);
    }
  };
  (add_head(std::integral_constant<int, kHead>()), ...);
}

/// partials[head * pages + page][8], for one KV head's digests and some heads of its group.
template <Row kRow, int kHeads, int kPages, typename T>
HWY_INLINE void PartialSums(const float* q, int64_t q_stride, const DigestRows<T>& rows,
                            Fetcher& fetcher, float* HWY_RESTRICT partials) {
  const ScoreTag tag;
  constexpr std::make_integer_sequence<int, kHeads> heads;
  constexpr std::make_integer_sequence<int, kPages> pages;
  // As much as a step reads of this tile.
  constexpr int64_t kStepBytes =
      kPages * (kRow == Row::kCorners ? 2 : 1) * kScoreLanes * int64_t{sizeof(T)};
  for (int64_t part = 0; part < kPartialSums; part += kScoreLanes) {
    ScoreVec sums[kHeads * kPages];
    for (ScoreVec& sum : sums) sum = hn::Zero(tag);
    int64_t c = part;
    for (; c + kScoreLanes <= rows.terms; c += kPartialSums) {
      fetcher.template Step<kStepBytes>();
      AddTerms<kRow>(
          q, q_stride, rows, c, [tag](const T* from) HWY_ATTR { return LoadWide(tag, from); }, sums,
          heads, pages);
    }
    if constexpr (kRow == Row::kTermsAndOne) {
      if (c < rows.terms) {
        AddTerms<kRow>(
            q, q_stride, rows, c, [](const T* from) HWY_ATTR { return LoadFirst(from); }, sums,
            heads, pages);
      }
    } else if (c < rows.terms) {
      const size_t rest = static_cast<size_t>(rows.terms - c);
      AddTerms<kRow>(
          q, q_stride, rows, c,
          [tag, rest](const T* from) HWY_ATTR { return LoadTail(tag, from, rest); }, sums, heads,
          pages);
    }
    for (int i = 0; i < kHeads * kPages; ++i) {
      hn::Store(sums[i], tag, partials + i * kPartialSums + part);
    }
  }
}

using FourTag = hn::FixedTag<float, 4>;
using Four = hn::Vec<FourTag>;

/// Lane i: partial sums i and i + 4.
HWY_INLINE Four FoldTo4(const float* partials) {
  const FourTag tag;
  return hn::Add(hn::Load(tag, partials), hn::Load(tag, partials + 4));
}
/// Totals of four scores, from partials[4][8].
HWY_INLINE Four FoldFour(const float* partials) {
  const FourTag tag;
  const Four a = FoldTo4(partials), b = FoldTo4(partials + kPartialSums);
  const Four c = FoldTo4(partials + 2 * kPartialSums), d = FoldTo4(partials + 3 * kPartialSums);
  const Four ab = hn::Add(hn::InterleaveLower(tag, a, b), hn::InterleaveUpper(tag, a, b));
  const Four cd = hn::Add(hn::InterleaveLower(tag, c, d), hn::InterleaveUpper(tag, c, d));
  return hn::Add(hn::ConcatLowerLower(tag, cd, ab), hn::ConcatUpperUpper(tag, cd, ab));
}

/// Scores of kHeads query rows over kPages pages.
template <Row kRow, int kHeads, int kPages, typename T>
HWY_INLINE void ScoreTile(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                          Fetcher& fetcher, float* out) {
  const FourTag tag;
  constexpr int kSums = kHeads * kPages;
  constexpr int kRounded = (kSums + 3) / 4 * 4;
  HWY_ALIGN float partials[kRounded * kPartialSums];
  [[maybe_unused]] HWY_ALIGN float totals[kRounded];
  std::fill(partials + kSums * kPartialSums, partials + kRounded * kPartialSums, 0.0f);
  PartialSums<kRow, kHeads, kPages>(q, run.q_stride, rows, fetcher, partials);
  for (int i = 0; i < kSums; i += 4) {
    const Four four = hn::Mul(hn::Set(tag, run.scale), FoldFour(partials + i * kPartialSums));
    if constexpr (kPages == 4) {
      hn::StoreU(four, tag, out + i / 4 * run.score_stride);
    } else {
      hn::Store(four, tag, totals + i);
    }
  }
  if constexpr (kPages != 4) {
    for (int i = 0; i < kSums; ++i) out[i / kPages * run.score_stride + i % kPages] = totals[i];
  }
}

/// Scores of a whole group over kPages pages.
template <Row kRow, int kPages, typename T>
HWY_INLINE void ScoreGroup(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                           Fetcher fetcher, float* out) {
  int64_t head = 0;
  for (; head + kTileHeads <= run.group; head += kTileHeads) {
    ScoreTile<kRow, kTileHeads, kPages>(run, q + head * run.q_stride, rows, fetcher,
                                        out + head * run.score_stride);
  }
  q += head * run.q_stride;
  out += head * run.score_stride;
  switch (run.group - head) {
    case 3:
      return ScoreTile<kRow, 3, kPages>(run, q, rows, fetcher, out);
    case 2:
      return ScoreTile<kRow, 2, kPages>(run, q, rows, fetcher, out);
    case 1:
      return ScoreTile<kRow, 1, kPages>(run, q, rows, fetcher, out);
    default:
      return;
  }
}

template <Row kRow, typename T>
HWY_INLINE void ScoreRunTyped(const ScoreRun& run, const T* digests, const ScorePages& now,
                              const ScorePages& next, float* out) {
  const int64_t elements = (kRow == Row::kCorners ? 2 : 1) * run.terms;
  const int64_t page_elements = run.n_kv * elements;
  for (int64_t j = 0; j < now.pages;) {
    const int64_t pages = now.pages - j >= kTilePages ? kTilePages : 1;
    const T* tile = digests + j * page_elements;
    const int64_t after = now.pages - j - pages;
    const T* ahead = after > 0 ? tile + pages * page_elements : static_cast<const T*>(next.digests);
    const int64_t ahead_pages = std::min<int64_t>(pages, after > 0 ? after : next.pages);
    const int64_t ahead_bytes = ahead_pages * elements * static_cast<int64_t>(sizeof(T));
    for (int64_t g = 0; g < run.n_kv; ++g) {
      const DigestRows<T> rows{tile + g * elements, page_elements, run.terms};
      const float* q = run.q + g * run.group * run.q_stride;
      float* to = out + g * run.group * run.score_stride + j;
      const Fetcher fetcher(reinterpret_cast<const char*>(ahead) + g * ahead_bytes, ahead_bytes);
      if (pages == kTilePages) {
        ScoreGroup<kRow, kTilePages>(run, q, rows, fetcher, to);
      } else {
        ScoreGroup<kRow, 1>(run, q, rows, fetcher, to);
      }
    }
    j += pages;
  }
}

HWY_NOINLINE void ScoresImpl(const ScoreRun& run, const ScorePages& now, const ScorePages& next,
                             float* out) {
  WithElements(now.digests, run.dtype, [&](const auto* digests) HWY_ATTR {
    if (run.corners) return ScoreRunTyped<Row::kCorners>(run, digests, now, next, out);
    if (run.terms % kPartialSums == 1) {
      return ScoreRunTyped<Row::kTermsAndOne>(run, digests, now, next, out);
    }
    return ScoreRunTyped<Row::kTerms>(run, digests, now, next, out);
  });
}

#else  // !QUIRE_SCORES_IN_VECTORS

HWY_NOINLINE void ScoresImpl(const ScoreRun& run, const ScorePages& now, const ScorePages&,
                             float* out) {
  PlainScores(run, now, out);
}

#endif  // QUIRE_SCORES_IN_VECTORS

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
