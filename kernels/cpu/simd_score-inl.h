// SPDX-License-Identifier: Apache-2.0
//
// Scores: digests come from memory once for all query heads of their group, a block of pages at a
// time, while the next block is fetched. Included once per instruction set by simd_highway.cc.
//
// The 8 partial sums of a score are lanes of a vector: one of 16 has those of two pages, one of 8
// those of a page, and two of 4 are summed one after the other so that a tile's sums stay in
// registers. Up to four heads of a group memory is the limit. Beyond, the products are: a head
// multiplies every element once.
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

using ScoreTag = hn::CappedTag<float, 2 * kPartialSums>;
using ScoreVec = hn::Vec<ScoreTag>;
/// Lanes of a vector that one page has: its partial sums, or half of them.
using PageTag = hn::CappedTag<float, kPartialSums>;
constexpr int64_t kPageLanes = hn::MaxLanes(PageTag());
constexpr int kVectorPages = hn::MaxLanes(ScoreTag()) / kPageLanes;
/// Pages and query heads of a tile: their sums, the digests and a query fit in the registers.
constexpr int kTilePages = HWY_TARGET == HWY_AVX2 ? 2 : 4;
constexpr int kTileHeads = kVectorPages == 2 ? 8 : 4;

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

#if HWY_TARGET <= HWY_AVX3
constexpr __mmask16 kUpperPage = 0xff00;
#endif

/// A vector of the same lanes for each of its pages. Queries that lie there twice are slower.
HWY_INLINE ScoreVec LoadQuery(const float* from) {
#if HWY_TARGET <= HWY_AVX3
  return ScoreVec{_mm512_broadcast_f32x8(_mm256_load_ps(from))};
#else
  return hn::Load(ScoreTag(), from);
#endif
}

/// A vector of the lanes of its pages, of which each is loaded by `load`.
template <class Load>
HWY_INLINE ScoreVec LoadPages(const Load& load) {
#if HWY_TARGET <= HWY_AVX3
  return hn::Combine(ScoreTag(), load(1), load(0));
#else
  return load(0);
#endif
}

/// kPageLanes elements of each page of a vector; `stride` is between its pages.
template <typename T>
HWY_INLINE ScoreVec LoadRow(const T* from, int64_t stride) {
  return LoadPages([=](int page) HWY_ATTR { return LoadWide(PageTag(), from + page * stride); });
}
#if HWY_ARCH_X86
/// One shuffle; widening integers and shifting them are two.
HWY_INLINE ScoreVec LoadRow(const hwy::bfloat16_t* from, [[maybe_unused]] int64_t stride) {
  constexpr uint8_t kZero = 0x80;
  alignas(32) static constexpr uint8_t kUpperHalves[] = {
      kZero, kZero, 0, 1, kZero, kZero, 2,  3,  kZero, kZero, 4,  5,  kZero, kZero, 6,  7,
      kZero, kZero, 8, 9, kZero, kZero, 10, 11, kZero, kZero, 12, 13, kZero, kZero, 14, 15};
#if HWY_TARGET <= HWY_AVX3
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + stride));
  const __m512i twice = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(low), kUpperPage, high);
  const __m512i upper_halves =
      _mm512_broadcast_i64x4(_mm256_load_si256(reinterpret_cast<const __m256i*>(kUpperHalves)));
  return ScoreVec{_mm512_castsi512_ps(_mm512_shuffle_epi8(twice, upper_halves))};
#else
  const hn::Repartition<uint8_t, ScoreTag> bytes;
  const auto twice = hn::LoadDup128(bytes, reinterpret_cast<const uint8_t*>(from));
  return hn::BitCast(ScoreTag(), hn::TableLookupBytesOr0(twice, hn::Load(bytes, kUpperHalves)));
#endif
}
#endif
#if HWY_TARGET <= HWY_AVX3
/// Both pages are widened at once.
HWY_INLINE ScoreVec LoadRow(const hwy::float16_t* from, int64_t stride) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + stride));
  return ScoreVec{_mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1))};
}
#endif
/// The first lane from memory, zeros above. LoadTail goes by way of the stack, and waits there.
template <typename T>
HWY_INLINE hn::Vec<PageTag> LoadFirst(const T* from) {
  const PageTag tag;
#if QUIRE_HAS_F16C
  if constexpr (sizeof(T) == sizeof(uint16_t)) {
    uint16_t bits;
    memcpy(&bits, from, sizeof(bits));
    const hn::Rebind<uint16_t, PageTag> bits16;
    return hn::PromoteTo(
        tag, hn::BitCast(hn::Rebind<T, PageTag>(), hn::InsertLane(hn::Zero(bits16), 0, bits)));
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

/// Adds the terms of one vector of channels, loaded by `load`, to the sums [heads][vectors of
/// pages]. `at`: the first page's elements for them; `upper`: the same of its upper corner.
template <Row kRow, typename T, class Load, int... kHead, int... kVector>
HWY_INLINE void AddTerms(const float* q, const T* at, const T* upper, int64_t stride,
                         const Load& load, ScoreVec* HWY_RESTRICT sums,
                         std::integer_sequence<int, kHead...>,
                         std::integer_sequence<int, kVector...>) {
  const ScoreTag tag;
  constexpr int kVectors = sizeof...(kVector);
  const ScoreVec low[] = {InRegister(load(at + kVector * kVectorPages * stride))...};
  [[maybe_unused]] ScoreVec high[] = {low[kVector]...};
  if constexpr (kRow == Row::kCorners) {
    ((high[kVector] = InRegister(load(upper + kVector * kVectorPages * stride))), ...);
  }
  const auto add_head = [&](auto head) HWY_ATTR {
    constexpr int kAt = decltype(head)::value;
    ScoreVec* const of_head = sums + kAt * kVectors;
    const ScoreVec query = InRegister(LoadQuery(q + kAt * kPartialSums));
    if constexpr (kRow == Row::kCorners) {
      const auto is_upper = hn::Ge(query, hn::Zero(tag));
      ((of_head[kVector] = hn::MulAdd(query, hn::IfThenElse(is_upper, high[kVector], low[kVector]),
                                      of_head[kVector])),
       ...);
    } else {
      ((of_head[kVector] = hn::MulAdd(query, low[kVector], of_head[kVector])), ...);
    }
  };
  (add_head(std::integral_constant<int, kHead>()), ...);
}

/// Adds the terms of partial sums `part` to `part` + kPageLanes to sums[head * kVectors + vector],
/// for one KV head's digests and some heads of its group; q_stride is between blocks of a head's
/// terms.
template <Row kRow, int kHeads, int kVectors, typename T>
HWY_INLINE void AddPart(const float* q, int64_t q_stride, const DigestRows<T>& rows, int64_t part,
                        Fetcher& fetcher, ScoreVec* HWY_RESTRICT sums) {
  constexpr std::make_integer_sequence<int, kHeads> heads;
  constexpr std::make_integer_sequence<int, kVectors> vectors;
  // As much as a step reads of this tile.
  constexpr int64_t kStepPages = kVectors * kVectorPages;
  constexpr int64_t kStepBytes =
      kStepPages * (kRow == Row::kCorners ? 2 : 1) * kPageLanes * int64_t{sizeof(T)};
  const int64_t stride = rows.stride;
  q += part;
  const T* at = rows.first + part;
  const T* upper = at + rows.terms;
  const T* const end = rows.first + rows.terms;
  for (; at + kPageLanes <= end; at += kPartialSums, upper += kPartialSums, q += q_stride) {
    fetcher.template Step<kStepBytes>();
    AddTerms<kRow>(
        q, at, upper, stride, [stride](const T* from) HWY_ATTR { return LoadRow(from, stride); },
        sums, heads, vectors);
  }
  if (at >= end) return;
  if constexpr (kRow == Row::kTermsAndOne) {
    fetcher.template Step<kStepPages * int64_t{sizeof(T)}>();
    const auto load = [stride](const T* from) HWY_ATTR {
      return LoadPages([=](int page) HWY_ATTR { return LoadFirst(from + page * stride); });
    };
    AddTerms<kRow>(q, at, upper, stride, load, sums, heads, vectors);
  } else {
    const size_t rest = static_cast<size_t>(end - at);
    const auto load = [stride, rest](const T* from) HWY_ATTR {
      return LoadPages([=](int page)
                           HWY_ATTR { return LoadTail(PageTag(), from + page * stride, rest); });
    };
    AddTerms<kRow>(q, at, upper, stride, load, sums, heads, vectors);
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

/// Adds neighbouring blocks of four lanes. The sum of a's two is the first of two blocks, the sum
/// of b's the second.
HWY_INLINE ScoreVec AddHalves(ScoreVec a, ScoreVec b) {
  return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
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
#if HWY_TARGET <= HWY_AVX3
/// Adds the halves of each page of a vector of two pages: a's pages come first, then b's.
HWY_INLINE __m512 AddHalves(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}
HWY_INLINE __m512 AddPairs(__m512 a, __m512 b) {
  const __m512d x = _mm512_castps_pd(a), y = _mm512_castps_pd(b);
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
}
HWY_INLINE __m512 AddLanes(__m512 a, __m512 b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
/// Totals of eight scores of both pages of a vector, of which sums[i] has the partial sums; the
/// pages of a score lie beside each other.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const __m512 a = AddHalves(sums[0].raw, sums[1].raw), b = AddHalves(sums[2].raw, sums[3].raw);
  const __m512 c = AddHalves(sums[4].raw, sums[5].raw), d = AddHalves(sums[6].raw, sums[7].raw);
  const __m512i turned = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  return ScoreVec{_mm512_permutexvar_ps(turned, AddLanes(AddPairs(a, b), AddPairs(c, d)))};
}
#else
/// Totals of eight scores of which sums[i] has the partial sums.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const ScoreVec ae = AddHalves(sums[0], sums[4]), bf = AddHalves(sums[1], sums[5]);
  const ScoreVec cg = AddHalves(sums[2], sums[6]), dh = AddHalves(sums[3], sums[7]);
  return AddLanes(AddPairs(ae, cg), AddPairs(bf, dh));
}
#endif

#endif

/// Scores of kHeads query rows over the pages of kVectors vectors, of which the first `pages` are
/// there to be scored.
template <Row kRow, int kHeads, int kVectors, typename T>
HWY_INLINE void ScoreTile(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                          int64_t pages, Fetcher& fetcher, float* out) {
  const ScoreTag tag;
  const int64_t q_stride = run.group * kPartialSums;
  constexpr int kPages = kVectors * kVectorPages;
  constexpr int kSums = kHeads * kVectors;
  constexpr int kRounded = (kSums + kTotalsAtOnce - 1) / kTotalsAtOnce * kTotalsAtOnce;
  ScoreVec sums[kRounded];
  for (ScoreVec& sum : sums) sum = hn::Zero(tag);
  AddPart<kRow, kHeads, kVectors>(q, q_stride, rows, 0, fetcher, sums);
  if constexpr (kPageLanes < kPartialSums) {
    ScoreVec others[kSums];
    for (ScoreVec& sum : others) sum = hn::Zero(tag);
    AddPart<kRow, kHeads, kVectors>(q, q_stride, rows, kPageLanes, fetcher, others);
    for (int i = 0; i < kSums; ++i) sums[i] = hn::Add(sums[i], others[i]);
  }
  HWY_ALIGN float totals[kRounded * kVectorPages];
  for (int i = 0; i < kRounded; i += kTotalsAtOnce) {
    hn::Store(hn::Mul(hn::Set(tag, run.scale), Totals(sums + i)), tag, totals + i * kVectorPages);
  }
  const int64_t score_stride = run.score_stride;
  for (int head = 0; head < kHeads; ++head) {
    float* const to = out + head * score_stride;
    if (pages == kPages) {
      memcpy(to, totals + head * kPages, kPages * sizeof(float));
    } else {
      memcpy(to, totals + head * kPages, static_cast<size_t>(pages) * sizeof(float));
    }
  }
}

/// Scores of a whole group over the first `pages` pages of kVectors vectors. Heads that are left
/// and would take two tiles are scored with heads before them, once more.
template <Row kRow, int kVectors, typename T>
HWY_INLINE void ScoreGroup(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                           int64_t pages, Fetcher& fetcher, float* out) {
  const auto score = [&](auto heads, int64_t head) HWY_ATTR {
    ScoreTile<kRow, decltype(heads)::value, kVectors>(run, q + head * kPartialSums, rows, pages,
                                                      fetcher, out + head * run.score_stride);
  };
  for (int64_t head = 0; head < run.group;) {
    const int64_t left = run.group - head;
    if (kTileHeads == 8 && (left >= 8 || (left > 4 && run.group >= 8))) {
      score(std::integral_constant<int, kTileHeads>(), std::min(head, run.group - 8));
      head += 8;
    } else if (left >= 4 || (left == 3 && run.group >= 4)) {
      score(std::integral_constant<int, 4>(), std::min(head, run.group - 4));
      head += 4;
    } else if (left >= 2) {
      score(std::integral_constant<int, 2>(), head);
      head += 2;
    } else {
      score(std::integral_constant<int, 1>(), head);
      head += 1;
    }
  }
}

/// One KV head's scores over `pages` pages that lie together.
template <Row kRow, typename T>
HWY_INLINE void ScoreHead(const ScoreRun& run, const float* q, DigestRows<T> rows, int64_t pages,
                          Fetcher& fetcher, float* out) {
  int64_t j = 0;
  for (; j + kTilePages <= pages; j += kTilePages) {
    ScoreGroup<kRow, kTilePages / kVectorPages>(run, q, rows, kTilePages, fetcher, out + j);
    rows.first += kTilePages * rows.stride;
  }
  for (; j < pages; j += kVectorPages) {
    const int64_t there = std::min<int64_t>(kVectorPages, pages - j);
    DigestRows<T> last = rows;
    if (there == 1) last.stride = 0;  // A second page is the first once more.
    ScoreGroup<kRow, 1>(run, q, last, there, fetcher, out + j);
    rows.first += kVectorPages * rows.stride;
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
