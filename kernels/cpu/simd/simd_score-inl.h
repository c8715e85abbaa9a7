// SPDX-License-Identifier: Apache-2.0
//
// Scores: digests are read from memory once for all query heads of their group. A turn handles some
// pages while the digests of the next turn are fetched. simd_highway.cc includes it once per
// instruction set.
//
// The 8 partial sums of a score are lanes of a vector. A vector of 16 lanes holds those of two
// heads, a vector of 8 those of one. Two vectors of 4 are summed one after the other, so that a
// tile's sums stay in registers. Up to four heads of a group, memory is the limit. Beyond that the
// products are, as a head multiplies every element once.
#if defined(QUIRE_KERNELS_CPU_SIMD_SIMD_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_SIMD_SIMD_SCORE_INL_H_
#undef QUIRE_KERNELS_CPU_SIMD_SIMD_SCORE_INL_H_
#else
#define QUIRE_KERNELS_CPU_SIMD_SIMD_SCORE_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/reference/plain_scores.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/simd_convert-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::kernels::simd {
namespace HWY_NAMESPACE {

// Set with vectors of a known size, and a multiply-add that rounds once.
#undef QUIRE_SCORES_IN_VECTORS
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_TARGET == HWY_NEON
#define QUIRE_SCORES_IN_VECTORS 1
#else
#define QUIRE_SCORES_IN_VECTORS 0
#endif

#if QUIRE_SCORES_IN_VECTORS

using ScoreTag = hn::CappedTag<float, kHeadsTogether * kPartialSums>;
using ScoreVec = hn::Vec<ScoreTag>;
/// Lanes of a vector that belong to one head: its partial sums, or half of them.
using HeadTag = hn::CappedTag<float, kPartialSums>;
constexpr int64_t kHeadLanes = hn::MaxLanes(HeadTag());
constexpr int kVectorHeads = hn::MaxLanes(ScoreTag()) / kHeadLanes;
/// Pages of a tile. Their sums for four vectors of heads, the digests and a query fit in the
/// registers.
constexpr int kTilePages = HWY_TARGET == HWY_AVX2 ? 2 : 4;
/// Vectors of sums that Totals takes.
constexpr int kTotalsAtOnce = HWY_TARGET == HWY_NEON ? 4 : 8;

/// Pages of a turn. Many pages share one read of the queries. The pages fetched during a turn must
/// fit the second-level cache until the next.
HWY_INLINE int64_t TurnPages(const ScoreRun& run, int64_t page_bytes) {
  const int64_t part_pages = ScorePartPages(run);
  if (part_pages < kScorePartPages) return part_pages;
  constexpr int64_t kTurnBytes = int64_t{64} << 10;
  constexpr int64_t kManyQueries = 8;  // Heads of a group whose queries take long to read.
  if (run.dtype == DType::kF32) return 4 * kTurnBytes / page_bytes;
  return (run.group >= kManyQueries ? 2 : 1) * kTurnBytes / page_bytes;
}

/// Returns the vector in a register. The compiler would otherwise reload it for each
/// multiplication, and a cycle has fewer loads than multiplications.
HWY_INLINE ScoreVec InRegister(ScoreVec v) {
#if HWY_ARCH_X86 && !HWY_COMPILER_MSVC
  asm("" : "+v"(v.raw));
#endif
  return v;
}

/// Kinds of digest rows. A radius after the terms is added by AddRadii.
enum class Row { kCorners, kTerms };

/// Loads kHeadLanes elements of a digest, repeated for each head of a vector.
template <typename T>
HWY_INLINE ScoreVec LoadRow(const T* from) {
  return LoadWide(ScoreTag(), from);
}
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE ScoreVec LoadRow(const float* from) {
  return ScoreVec{_mm512_broadcast_f32x8(_mm256_loadu_ps(from))};
}
/// Repeats the row behind its conversion. A load that repeats is slow where it crosses lines.
HWY_INLINE ScoreVec LoadRow(const hwy::float16_t* from) {
  const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return ScoreVec{_mm512_broadcast_f32x8(_mm256_cvtph_ps(row))};
}
/// Uses one shuffle; widening integers and shifting them would take two.
HWY_INLINE ScoreVec LoadRow(const hwy::bfloat16_t* from) {
  const __m512i row =
      _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  alignas(64) static constexpr uint16_t kElements[] = {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0,
                                                       5, 0, 6, 0, 7, 0, 0, 0, 1, 0, 2,
                                                       0, 3, 0, 4, 0, 5, 0, 6, 0, 7};
  constexpr __mmask32 kUpperHalves = 0xaaaaaaaa;
  return ScoreVec{_mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(kUpperHalves, _mm512_load_si512(kElements), row))};
}
#elif HWY_ARCH_X86
/// Uses one shuffle; widening integers and shifting them would take two.
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
/// Repeats a row's elements for each head of a vector.
HWY_INLINE ScoreVec ForEachHead(hn::Vec<HeadTag> row) {
#if HWY_TARGET <= HWY_AVX3
  return hn::Combine(ScoreTag(), row, row);
#else
  return row;
#endif
}
/// Digests of the pages of a tile, for one KV head.
template <typename T>
struct DigestRows {
  const T* first;
  int64_t stride;  ///< Elements between pages.
  int64_t terms;
};

/// Prefetches the digests of the next turn, a few lines at a time between multiplications. Many
/// prefetches at once would delay each other and the loads after them. Prefetches name the
/// first-level cache, whose overflow moves to the second. Naming the second is slower (AMD Zen 5),
/// or is dropped on a TLB miss (AMD Zen 4).
class Fetcher {
 public:
  HWY_INLINE Fetcher(const ScorePages* parts, int64_t n_parts, int64_t page_bytes)
      : part_(parts), end_part_(parts + n_parts), page_bytes_(page_bytes) {}
  /// Prefetches the next kBytes.
  template <int64_t kBytes>
  HWY_INLINE void Step() {
    if (next_ >= end_) {
      if (part_ == end_part_) return;
      next_ = static_cast<const char*>(part_->digests);
      end_ = next_ + part_->pages * page_bytes_;
      ++part_;
      page_end_ = next_;
    }
    if (next_ >= page_end_) TouchPage();
    for (int64_t at = 0; at < kBytes; at += kLine) {
      __builtin_prefetch(next_ + at, /*rw=*/0, /*locality=*/3);
    }
    next_ += kBytes;
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr uintptr_t kPageBytes = 4096;

  /// Makes the processor translate the page after the one being fetched.
  HWY_INLINE void TouchPage() {
    page_end_ =
        reinterpret_cast<const char*>((reinterpret_cast<uintptr_t>(next_) | (kPageBytes - 1)) + 1);
    if (page_end_ < end_) __builtin_prefetch(page_end_, /*rw=*/0, /*locality=*/3);
  }

  const ScorePages* part_;  ///< First part not begun.
  const ScorePages* end_part_;
  int64_t page_bytes_;
  const char* next_ = nullptr;  ///< Position in the part before `part_`.
  const char* end_ = nullptr;
  const char* page_end_ = nullptr;  ///< End of the page that contains next_.
};

/// Index of the sum of a page and a vector of heads in a tile of kPages pages. In this order Totals
/// returns scores by head.
template <int kPages>
constexpr int SumAt(int page, int vector) {
  if (kVectorHeads == 1) return vector * kPages + page;
  return vector / 2 * kTotalsAtOnce + page * 2 + vector % 2;
}

/// Adds the terms of one vector of channels, loaded by `load`, to the sums of a tile. `at`: their
/// elements of the first page; `upper`: the same of its upper corner.
template <Row kRow, typename T, class Load, int... kPage, int... kVector>
HWY_INLINE void AddTerms(const float* q, const T* at, const T* upper, int64_t stride,
                         const Load& load, ScoreVec* HWY_RESTRICT sums,
                         std::integer_sequence<int, kPage...>,
                         std::integer_sequence<int, kVector...>) {
  const ScoreTag tag;
  constexpr int kPages = sizeof...(kPage);
  const ScoreVec low[] = {InRegister(load(at + kPage * stride))...};
  [[maybe_unused]] ScoreVec high[] = {low[kPage]...};
  if constexpr (kRow == Row::kCorners) {
    ((high[kPage] = InRegister(load(upper + kPage * stride))), ...);
  }
  const auto add_vector = [&](auto vector) HWY_ATTR {
    constexpr int kAt = decltype(vector)::value;
    const ScoreVec query = InRegister(hn::Load(tag, q + kAt * kVectorHeads * kPartialSums));
    const auto add = [&](ScoreVec digest, ScoreVec& sum)
                         HWY_ATTR { sum = hn::MulAdd(query, digest, sum); };
    if constexpr (kRow == Row::kCorners) {
      const auto is_upper = hn::Ge(query, hn::Zero(tag));
      (add(hn::IfThenElse(is_upper, high[kPage], low[kPage]), sums[SumAt<kPages>(kPage, kAt)]),
       ...);
    } else {
      (add(low[kPage], sums[SumAt<kPages>(kPage, kAt)]), ...);
    }
  };
  (add_vector(std::integral_constant<int, kVector>()), ...);
}

/// Adds the terms of partial sums `part` to `part` + kHeadLanes to the sums of a tile. It covers
/// the digests of one KV head and some heads of its group. `q_stride` separates blocks of a head's
/// terms.
template <Row kRow, int kPages, int kVectors, typename T>
HWY_INLINE void AddPart(const float* q, int64_t q_stride, const DigestRows<T>& rows, int64_t part,
                        Fetcher& fetcher, ScoreVec* HWY_RESTRICT sums) {
  constexpr std::make_integer_sequence<int, kPages> pages;
  constexpr std::make_integer_sequence<int, kVectors> vectors;
  // Bytes that a step reads of this tile.
  constexpr int64_t kStepBytes =
      kPages * (kRow == Row::kCorners ? 2 : 1) * kHeadLanes * int64_t{sizeof(T)};
  const int64_t stride = rows.stride;
  q += part;
  const T* at = rows.first + part;
  const T* upper = at + rows.terms;
  const T* const end = rows.first + rows.terms;
  for (; at + kHeadLanes <= end; at += kPartialSums, upper += kPartialSums, q += q_stride) {
    fetcher.template Step<kStepBytes>();
    AddTerms<kRow>(
        q, at, upper, stride, [](const T* from) HWY_ATTR { return LoadRow(from); }, sums, pages,
        vectors);
  }
  if (at >= end) return;
  const size_t rest = static_cast<size_t>(end - at);
  const auto load = [rest](const T* from)
                        HWY_ATTR { return ForEachHead(LoadTail(HeadTag(), from, rest)); };
  AddTerms<kRow>(q, at, upper, stride, load, sums, pages, vectors);
}

#if HWY_TARGET == HWY_NEON

/// Totals of four scores; sums[i] holds the sums of partial sums j and j + 4.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const ScoreTag tag;
  const ScoreVec ab = hn::Add(hn::InterleaveLower(tag, sums[0], sums[1]),
                              hn::InterleaveUpper(tag, sums[0], sums[1]));
  const ScoreVec cd = hn::Add(hn::InterleaveLower(tag, sums[2], sums[3]),
                              hn::InterleaveUpper(tag, sums[2], sums[3]));
  return hn::Add(hn::ConcatLowerLower(tag, cd, ab), hn::ConcatUpperUpper(tag, cd, ab));
}

#else

/// Adds neighbouring blocks of four lanes. The first of two result blocks is a's, the second b's.
HWY_INLINE ScoreVec AddHalves(ScoreVec a, ScoreVec b) {
  return hn::Add(hn::OddEvenBlocks(b, a), hn::SwapAdjacentBlocks(hn::OddEvenBlocks(a, b)));
}
/// Adds neighbouring pairs within every four lanes.
HWY_INLINE ScoreVec AddPairs(ScoreVec a, ScoreVec b) {
  const ScoreTag tag;
  const hn::Repartition<uint64_t, ScoreTag> pairs;
  const auto straight = hn::OddEven(hn::BitCast(pairs, b), hn::BitCast(pairs, a));
  return hn::Add(hn::BitCast(tag, straight), hn::CombineShiftRightBytes<8>(tag, b, a));
}
/// Adds neighbouring lanes.
HWY_INLINE ScoreVec AddLanes(ScoreVec a, ScoreVec b) {
  const ScoreTag tag;
  return hn::Add(hn::OddEven(b, a), hn::Reverse2(tag, hn::OddEven(a, b)));
}
#if HWY_TARGET <= HWY_AVX3
/// Adds the halves of each head, for vectors of two heads: a's heads first, then b's.
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
/// Totals of four pages and four heads; sums[2 * page] holds the partial sums of the first two
/// heads. The result has all pages of a head, then those of the next.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const __m512 a = AddHalves(sums[0].raw, sums[1].raw), b = AddHalves(sums[2].raw, sums[3].raw);
  const __m512 c = AddHalves(sums[4].raw, sums[5].raw), d = AddHalves(sums[6].raw, sums[7].raw);
  return ScoreVec{AddLanes(AddPairs(a, b), AddPairs(c, d))};
}
#else
/// Totals of eight scores; sums[i] holds the partial sums of one.
HWY_INLINE ScoreVec Totals(const ScoreVec* sums) {
  const ScoreVec ae = AddHalves(sums[0], sums[4]), bf = AddHalves(sums[1], sums[5]);
  const ScoreVec cg = AddHalves(sums[2], sums[6]), dh = AddHalves(sums[3], sums[7]);
  return AddLanes(AddPairs(ae, cg), AddPairs(bf, dh));
}
#endif

#endif

/// Scores kPages pages for the heads of kVectors vectors, of which the first `heads` exist. It is
/// not inlined, so that its sums have all registers.
template <Row kRow, int kPages, int kVectors, typename T>
HWY_NOINLINE void ScoreTile(const ScoreRun& run, const float* q, int64_t heads,
                            const DigestRows<T>& rows, Fetcher& shared_fetcher, float* out) {
  Fetcher fetcher = shared_fetcher;  // A copy in registers.
  const ScoreTag tag;
  const int64_t q_stride = PairedHeads(run.group) * kPartialSums;
  constexpr int kSums = SumAt<kPages>(kPages - 1, kVectors - 1) + 1;
  constexpr int kRounded = (kSums + kTotalsAtOnce - 1) / kTotalsAtOnce * kTotalsAtOnce;
  ScoreVec sums[kRounded];
  for (ScoreVec& sum : sums) sum = hn::Zero(tag);
  AddPart<kRow, kPages, kVectors>(q, q_stride, rows, 0, fetcher, sums);
  if constexpr (kHeadLanes < kPartialSums) {
    ScoreVec others[kRounded];
    for (ScoreVec& sum : others) sum = hn::Zero(tag);
    AddPart<kRow, kPages, kVectors>(q, q_stride, rows, kHeadLanes, fetcher, others);
    for (int i = 0; i < kSums; ++i) sums[i] = hn::Add(sums[i], others[i]);
  }
  shared_fetcher = fetcher;
  // Adjacent totals of a head.
  constexpr int kHeadTotals = kVectorHeads == 1 ? kPages : kTilePages;
  HWY_ALIGN float totals[kRounded * kVectorHeads];
  for (int i = 0; i < kRounded; i += kTotalsAtOnce) {
    hn::Store(hn::Mul(hn::Set(tag, run.scale), Totals(sums + i)), tag, totals + i * kVectorHeads);
  }
  const auto copy = [out, stride = run.score_stride, &totals](int head) {
    memcpy(out + head * stride, totals + head * kHeadTotals, kPages * sizeof(float));
  };
  constexpr int kHeads = kVectors * kVectorHeads;
  if (heads == kHeads) {  // A known number, for code without a loop.
    for (int head = 0; head < kHeads; ++head) copy(head);
  } else {
    for (int head = 0; head < heads; ++head) copy(head);
  }
}

/// Scores a whole group over kPages pages.
template <Row kRow, int kPages, typename T>
HWY_INLINE void ScoreGroup(const ScoreRun& run, const float* q, const DigestRows<T>& rows,
                           Fetcher& fetcher, float* out) {
  for (int64_t head = 0; head < run.group;) {
    const int64_t left = run.group - head;
    const auto score = [&](auto vectors) HWY_ATTR {
      constexpr int kVectors = decltype(vectors)::value;
      ScoreTile<kRow, kPages, kVectors>(run, q + head * kPartialSums,
                                        std::min<int64_t>(left, kVectors * kVectorHeads), rows,
                                        fetcher, out + head * run.score_stride);
      head += kVectors * kVectorHeads;
    };
    const int64_t vectors = (left + kVectorHeads - 1) / kVectorHeads;
    if (vectors >= 4) {
      score(std::integral_constant<int, 4>());
    } else if (vectors >= 2) {
      score(std::integral_constant<int, 2>());
    } else {
      score(std::integral_constant<int, 1>());
    }
  }
}

/// Scores one KV head over `pages` adjacent pages.
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

/// Number of leading parts to score in one turn; at least one if there is one.
HWY_INLINE int64_t TurnParts(const ScorePages* parts, int64_t n_parts, int64_t turn_pages) {
  int64_t n = 0;
  for (int64_t pages = 0; n < n_parts; ++n) {
    pages += parts[n].pages;
    if (n > 0 && pages > turn_pages) break;
  }
  return n;
}

/// Adds the terms of the radii to the sums of one KV head, and multiplies by the scale. `first` is
/// the first radius of each part, `out` the row of the group's first head.
template <typename T>
HWY_INLINE void AddRadii(const ScoreRun& run, const float* factors, const ScorePages* parts,
                         int64_t n_parts, int64_t first, int64_t stride, Fetcher& fetcher,
                         float* out) {
  constexpr int64_t kMost = 64;
  HWY_ALIGN T radii[kMost];
  int64_t count = 0;
  const auto add = [&]() HWY_ATTR {
    for (int64_t head = 0; head < run.group; ++head) {
      float* const row = out + head * run.score_stride;
      const Tag tag;
      const Vec factor = hn::Set(tag, factors[head]), scale = hn::Set(tag, run.scale);
      ForVectors(count, [&](int64_t i, const auto& load, const auto& store) HWY_ATTR {
        store(hn::Mul(scale, hn::MulAdd(factor, load(radii + i), load(row + i))), row + i);
      });
    }
    out += count;
    count = 0;
  };
  for (const ScorePages* part = parts; part != parts + n_parts; ++part) {
    const T* radius = static_cast<const T*>(part->digests) + first;
    for (int64_t j = 0; j < part->pages; ++j, radius += stride) {
      fetcher.template Step<int64_t{sizeof(T)}>();
      radii[count++] = *radius;
      if (count == kMost) add();
    }
  }
  if (count > 0) add();
}

template <Row kRow, typename T>
HWY_INLINE void ScorePartsTyped(const ScoreRun& run, const ScorePages* parts, int64_t n_parts,
                                float* out) {
  const int64_t elements = run.elements();
  const int64_t page_elements = run.n_kv * elements;
  const int64_t page_bytes = page_elements * static_cast<int64_t>(sizeof(T));
  const int64_t turn_pages = TurnPages(run, page_bytes);
  const int64_t group_terms =
      (run.terms + kPartialSums - 1) / kPartialSums * kPartialSums * PairedHeads(run.group);
  ScoreRun sums = run;
  if (run.radius != nullptr) sums.scale = 1;  // AddRadii multiplies.
  int64_t now = TurnParts(parts, n_parts, turn_pages);
  while (n_parts > 0) {
    const int64_t next = TurnParts(parts + now, n_parts - now, turn_pages);
    Fetcher fetcher(parts + now, next, page_bytes);
    int64_t pages = 0;
    for (int64_t g = 0; g < run.n_kv; ++g) {
      float* const row = out + g * run.group * run.score_stride;
      pages = 0;
      for (const ScorePages* part = parts; part != parts + now; ++part) {
        const T* first = static_cast<const T*>(part->digests) + g * elements;
        ScoreHead<kRow>(sums, run.q + g * group_terms,
                        DigestRows<T>{first, page_elements, run.terms}, part->pages, fetcher,
                        row + pages);
        pages += part->pages;
      }
      if (run.radius != nullptr) {
        AddRadii<T>(run, run.radius + g * run.group, parts, now, g * elements + run.terms,
                    page_elements, fetcher, row);
      }
    }
    out += pages;
    parts += now;
    n_parts -= now;
    now = next;
  }
}

HWY_NOINLINE void ScoresImpl(const ScoreRun& run, const ScorePages* parts, int64_t n_parts,
                             float* out) {
  WithElements(static_cast<const void*>(nullptr), run.dtype, [&](const auto* none) HWY_ATTR {
    using T = std::remove_cv_t<std::remove_pointer_t<decltype(none)>>;
    if (run.corners) return ScorePartsTyped<Row::kCorners, T>(run, parts, n_parts, out);
    return ScorePartsTyped<Row::kTerms, T>(run, parts, n_parts, out);
  });
}

#else  // !QUIRE_SCORES_IN_VECTORS

HWY_NOINLINE void ScoresImpl(const ScoreRun& run, const ScorePages* parts, int64_t n_parts,
                             float* out) {
  PlainScores(run, parts, n_parts, out);
}

#endif  // QUIRE_SCORES_IN_VECTORS

}  // namespace HWY_NAMESPACE
}  // namespace quire::kernels::simd
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_SIMD_SIMD_SCORE_INL_H_
