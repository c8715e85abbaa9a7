// SPDX-License-Identifier: Apache-2.0
//
// Scores: digests come from memory once for all query heads of their group, a block of pages at a
// time, while the next block is fetched. Included once per instruction set by simd_highway.cc.
//
// The 8 partial sums of a score are the lanes of one vector of 8, or of two of 4, summed one after
// the other so that a tile's sums stay in registers. Up to four heads of a group memory is the
// limit. Beyond, the products are: a head multiplies every element once, and AMD Zen 4 multiplies
// as many lanes a cycle in vectors of 8 as in vectors of 16, whose sums take longer to fold.
#if defined(QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/plain_scores.h"
#include "kernels/cpu/score_terms.h"
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

/// Pages of a block: all KV heads go over its digests before the next block is begun, so that the
/// queries of a group are read once for many pages. Larger blocks are fetched too far ahead.
HWY_INLINE int64_t BlockPages(int64_t page_bytes) {
  constexpr int64_t kBlockBytes = int64_t{32} << 10;
  return std::max<int64_t>(1, kBlockBytes / page_bytes / kTilePages) * kTilePages;
}

/// The same vector, in a register: the compiler would load it anew for each multiplication, and
/// there are fewer loads than multiplications a cycle.
HWY_INLINE ScoreVec InRegister(ScoreVec v) {
#if HWY_ARCH_X86 && !HWY_COMPILER_MSVC
  asm("" : "+v"(v.raw));
#endif
  return v;
}

/// What a digest's row is. One term after whole vectors, a radius, has code of its own, which would
/// cost the others registers.
enum class Row { kCorners, kTerms, kTermsAndOne };

/// Whole vectors of a digest.
template <typename T>
HWY_INLINE ScoreVec LoadRow(const T* from) {
  return LoadWide(ScoreTag(), from);
}
#if HWY_ARCH_X86
/// One shuffle; widening integers and shifting them are two.
HWY_INLINE ScoreVec LoadRow(const hwy::bfloat16_t* from) {
  constexpr uint8_t kZero = 0x80;
  alignas(32) static constexpr uint8_t kUpperHalves[] = {
      kZero, kZero, 0, 1, kZero, kZero, 2,  3,  kZero, kZero, 4,  5,  kZero, kZero, 6,  7,
      kZero, kZero, 8, 9, kZero, kZero, 10, 11, kZero, kZero, 12, 13, kZero, kZero, 14, 15};
  const hn::Repartition<uint8_t, ScoreTag> bytes;
  const auto twice = hn::LoadDup128(bytes, reinterpret_cast<const uint8_t*>(from));
  return hn::BitCast(ScoreTag(), hn::TableLookupBytesOr0(twice, hn::Load(bytes, kUpperHalves)));
}
#endif
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
  } else {
    return hn::MaskedLoad(hn::FirstN(tag, 1), tag, from);
  }
#else
  return LoadTail(tag, from, 1);
#endif
}

/// Digests of the pages of a tile, for one KV head.
template <typename T>
struct DigestRows {
  const T* first;
  int64_t stride;  ///< between pages
  int64_t terms;
};

/// Bytes of the next block, fetched into the second-level cache a few at a time between
/// multiplications: many lines at once would wait for each other, and loads behind them. A line of
/// each page goes to the first level, a page ahead: some processors (AMD Zen 4) look up a page for
/// such a fetch, and drop one to the second level whose page they do not know.
class Fetcher {
 public:
  HWY_INLINE Fetcher(const void* from, int64_t bytes)
      : next_(reinterpret_cast<uintptr_t>(from)), end_(next_ + static_cast<uintptr_t>(bytes)) {
    Touch(next_);
    page_ = next_;
  }
  /// The next kBytes of it.
  template <int64_t kBytes>
  HWY_INLINE void Step() {
    if (next_ >= end_) return;
    if (next_ >= page_) {
      page_ = (next_ | (kPage - 1)) + 1;
      Touch(page_);
    }
    for (uintptr_t at = 0; at < kBytes; at += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(next_ + at), /*rw=*/0, /*locality=*/2);
    }
    next_ += kBytes;
  }

 private:
  static constexpr uintptr_t kLine = 64;
  static constexpr uintptr_t kPage = 4096;

  HWY_INLINE void Touch(uintptr_t at) const {
    if (at < end_) __builtin_prefetch(reinterpret_cast<const void*>(at), /*rw=*/0, /*locality=*/3);
  }

  uintptr_t next_;
  uintptr_t end_;
  uintptr_t page_;  ///< The first page that is not begun.
};

/// Adds the terms of one vector of channels, loaded by `load`, to the sums [heads][pages]. `at`:
/// the first page's elements for them; `upper`: the same of its upper corner.
template <Row kRow, typename T, class Load, int... kHead, int... kPage>
HWY_INLINE void AddTerms(const float* q, const T* at, const T* upper, int64_t stride,
                         const Load& load, ScoreVec* HWY_RESTRICT sums,
                         std::integer_sequence<int, kHead...>,
                         std::integer_sequence<int, kPage...>) {
  const ScoreTag tag;
  constexpr int kPages = sizeof...(kPage);
  const ScoreVec low[] = {InRegister(load(at + kPage * stride))...};
  [[maybe_unused]] ScoreVec high[] = {low[kPage]...};
  if constexpr (kRow == Row::kCorners) {
    ((high[kPage] = InRegister(load(upper + kPage * stride))), ...);
  }
  const auto add_head = [&](auto head) HWY_ATTR {
    constexpr int kAt = decltype(head)::value;
    const ScoreVec query = InRegister(hn::Load(tag, q + kAt * kPartialSums));
    if constexpr (kRow == Row::kCorners) {
      const auto is_upper = hn::Ge(query, hn::Zero(tag));
      ((sums[kAt * kPages + kPage] = hn::MulAdd(
            query, hn::IfThenElse(is_upper, high[kPage], low[kPage]), sums[kAt * kPages + kPage])),
       ...);
    } else {
      ((sums[kAt * kPages + kPage] = hn::MulAdd(query, low[kPage], sums[kAt * kPages + kPage])),
       ...);
    }
  };
  (add_head(std::integral_constant<int, kHead>()), ...);
}

/// Adds the terms of partial sums `part` to `part` + kScoreLanes to sums[head * pages + page], for
/// one KV head's digests and some heads of its group; q_stride is between blocks of a head's terms.
template <Row kRow, int kHeads, int kPages, typename T>
HWY_INLINE void AddPart(const float* q, int64_t q_stride, const DigestRows<T>& rows, int64_t part,
                        Fetcher& fetcher, ScoreVec* HWY_RESTRICT sums) {
  const ScoreTag tag;
  constexpr std::make_integer_sequence<int, kHeads> heads;
  constexpr std::make_integer_sequence<int, kPages> pages;
  // As much as a step reads of this tile.
  constexpr int64_t kStepBytes =
      kPages * (kRow == Row::kCorners ? 2 : 1) * kScoreLanes * int64_t{sizeof(T)};
  q += part;
  const T* at = rows.first + part;
  const T* upper = at + rows.terms;
  const T* const end = rows.first + rows.terms;
  for (; at + kScoreLanes <= end; at += kPartialSums, upper += kPartialSums, q += q_stride) {
    fetcher.template Step<kStepBytes>();
    AddTerms<kRow>(
        q, at, upper, rows.stride, [](const T* from) HWY_ATTR { return LoadRow(from); }, sums,
        heads, pages);
  }
  if constexpr (kRow == Row::kTermsAndOne) {
    if (at < end) {
      fetcher.template Step<kPages * int64_t{sizeof(T)}>();
      AddTerms<kRow>(
          q, at, upper, rows.stride, [](const T* from) HWY_ATTR { return LoadFirst(from); }, sums,
          heads, pages);
    }
  } else if (at < end) {
    const size_t rest = static_cast<size_t>(end - at);
    AddTerms<kRow>(
        q, at, upper, rows.stride,
        [tag, rest](const T* from) HWY_ATTR { return LoadTail(tag, from, rest); }, sums, heads,
        pages);
  }
}

#if HWY_TARGET == HWY_NEON

constexpr int kTotalsAtOnce = 4;

/// Totals of four scores of which sums[i] has the sums of partial sums j and j + 4.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const ScoreTag tag;
  const ScoreVec ab = hn::Add(hn::InterleaveLower(tag, sums[0], sums[1]),
                              hn::InterleaveUpper(tag, sums[0], sums[1]));
  const ScoreVec cd = hn::Add(hn::InterleaveLower(tag, sums[2], sums[3]),
                              hn::InterleaveUpper(tag, sums[2], sums[3]));
  return hn::Add(hn::ConcatLowerLower(tag, cd, ab), hn::ConcatUpperUpper(tag, cd, ab));
}

#else

constexpr int kTotalsAtOnce = 8;

/// Each half of the result is the sum of the halves of a vector: of a below, of b above.
HWY_INLINE ScoreVec AddHalves(ScoreVec a, ScoreVec b) {
  const ScoreTag tag;
  return hn::Add(hn::ConcatUpperLower(tag, b, a), hn::ConcatLowerUpper(tag, b, a));
}
/// The same with the pairs of every four lanes.
HWY_INLINE ScoreVec AddPairs(ScoreVec a, ScoreVec b) {
  const ScoreTag tag;
  const hn::Repartition<uint64_t, ScoreTag> pairs;
  const auto straight = hn::OddEven(hn::BitCast(pairs, b), hn::BitCast(pairs, a));
  return hn::Add(hn::BitCast(tag, straight), hn::CombineShiftRightBytes<8>(tag, b, a));
}
/// The same with single lanes.
HWY_INLINE ScoreVec AddLanes(ScoreVec a, ScoreVec b) {
  const ScoreTag tag;
  return hn::Add(hn::OddEven(b, a), hn::Reverse2(tag, hn::OddEven(a, b)));
}
/// Totals of eight scores of which sums[i] has the partial sums.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const ScoreVec ae = AddHalves(sums[0], sums[4]), bf = AddHalves(sums[1], sums[5]);
  const ScoreVec cg = AddHalves(sums[2], sums[6]), dh = AddHalves(sums[3], sums[7]);
  return AddLanes(AddPairs(ae, cg), AddPairs(bf, dh));
}

#endif

/// Scores of kHeads query rows over kPages pages.
template <Row kRow, int kHeads, int kPages, typename T>
HWY_INLINE void ScoreTile(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                          Fetcher& fetcher, float* out) {
  const ScoreTag tag;
  const int64_t q_stride = run.group * kPartialSums;
  constexpr int kSums = kHeads * kPages;
  constexpr int kRounded = (kSums + kTotalsAtOnce - 1) / kTotalsAtOnce * kTotalsAtOnce;
  ScoreVec sums[kRounded];
  for (ScoreVec& sum : sums) sum = hn::Zero(tag);
  AddPart<kRow, kHeads, kPages>(q, q_stride, rows, 0, fetcher, sums);
  if constexpr (kScoreLanes < kPartialSums) {
    ScoreVec others[kSums];
    for (ScoreVec& sum : others) sum = hn::Zero(tag);
    AddPart<kRow, kHeads, kPages>(q, q_stride, rows, kScoreLanes, fetcher, others);
    for (int i = 0; i < kSums; ++i) sums[i] = hn::Add(sums[i], others[i]);
  }
  HWY_ALIGN float totals[kRounded];
  for (int i = 0; i < kRounded; i += kTotalsAtOnce) {
    hn::Store(hn::Mul(hn::Set(tag, run.scale), Totals(sums + i)), tag, totals + i);
  }
  for (int head = 0; head < kHeads; ++head) {
    memcpy(out + head * run.score_stride, totals + head * kPages, kPages * sizeof(float));
  }
}

/// Scores of kHeads heads of a group, from `head` on.
template <Row kRow, int kHeads, int kPages, typename T>
HWY_INLINE void ScoreHeads(const ScoreRun& run, int64_t head, const float* q,
                           const DigestRows<T>& rows, Fetcher& fetcher, float* out) {
  ScoreTile<kRow, kHeads, kPages>(run, q + head * kPartialSums, rows, fetcher,
                                  out + head * run.score_stride);
}

/// Scores of a whole group over kPages pages. Three heads that are left are scored together with
/// the one before them, once more.
template <Row kRow, int kPages, typename T>
HWY_INLINE void ScoreGroup(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                           Fetcher& fetcher, float* out) {
  int64_t head = 0;
  int64_t left = run.group;
  while (left >= 3 && run.group >= kTileHeads) {
    head = std::min(head, run.group - kTileHeads);
    ScoreHeads<kRow, kTileHeads, kPages>(run, head, q, rows, fetcher, out);
    head += kTileHeads;
    left = run.group - head;
  }
  if (left >= 2) {
    ScoreHeads<kRow, 2, kPages>(run, head, q, rows, fetcher, out);
    head += 2;
  }
  if (head < run.group) ScoreHeads<kRow, 1, kPages>(run, head, q, rows, fetcher, out);
}

/// One KV head's scores over `pages` pages that lie together.
template <Row kRow, typename T>
HWY_INLINE void ScoreHead(const ScoreRun& run, const float* q, DigestRows<T> rows, int64_t pages,
                          Fetcher& fetcher, float* out) {
  int64_t j = 0;
  for (; j + kTilePages <= pages; j += kTilePages) {
    ScoreGroup<kRow, kTilePages>(run, q, rows, fetcher, out + j);
    rows.first += kTilePages * rows.stride;
  }
  for (; j < pages; ++j) {
    ScoreGroup<kRow, 1>(run, q, rows, fetcher, out + j);
    rows.first += rows.stride;
  }
}

template <Row kRow, typename T>
HWY_INLINE void ScoreRunTyped(const ScoreRun& run, const T* digests, const ScorePages& now,
                              const ScorePages& next, float* out) {
  const int64_t elements = (kRow == Row::kCorners ? 2 : 1) * run.terms;
  const int64_t page_elements = run.n_kv * elements;
  const int64_t page_bytes = page_elements * static_cast<int64_t>(sizeof(T));
  const int64_t block = BlockPages(page_bytes);
  const int64_t group_terms =
      (run.terms + kPartialSums - 1) / kPartialSums * kPartialSums * run.group;
  for (int64_t j = 0; j < now.pages; j += block) {
    const int64_t pages = std::min(block, now.pages - j);
    const int64_t after = now.pages - j - pages;
    const T* first = digests + j * page_elements;
    const void* ahead = after > 0 ? first + pages * page_elements : next.digests;
    Fetcher fetcher(ahead, std::min(pages, after > 0 ? after : next.pages) * page_bytes);
    for (int64_t g = 0; g < run.n_kv; ++g) {
      ScoreHead<kRow>(run, run.q + g * group_terms,
                      DigestRows<T>{first + g * elements, page_elements, run.terms}, pages, fetcher,
                      out + g * run.group * run.score_stride + j);
    }
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
