// SPDX-License-Identifier: Apache-2.0
//
// Folding (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ"). Bytes are
// a polynomial over GF(2). Let n bits follow a number of 128 bits. Its product with x^n modulo the
// checksum's polynomial, added to the last 128 of those bits, can replace it. Four registers of
// four such numbers each fold the bytes 256 earlier into those just loaded.
#include "common/base/memory/folded_copy.h"

#include <algorithm>
#include <atomic>
#include <iterator>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {

#if defined(__x86_64__)
namespace {

#define QUIRE_FOLDED_CODE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2")))
#define QUIRE_FOLDED_TARGET QUIRE_FOLDED_CODE __attribute__((always_inline))

/// x^n modulo the polynomial of CRC-32C, in the checksum's reflected bit order. It is one place up:
/// the product of two reflected numbers comes out one place down.
constexpr long long PowerOfX(int n) {  // NOLINT(google-runtime-int): as the intrinsics take it
  constexpr uint32_t kReflected = 0x82f63b78;
  uint32_t power = 1u << 31;  // x^0
  for (int i = 0; i < n; ++i) power = (power >> 1) ^ ((power & 1u) != 0 ? kReflected : 0u);
  return static_cast<long long>(
      uint64_t{power} << 1);  // NOLINT(google-runtime-int,bugprone-misplaced-widening-cast)
}

constexpr size_t kFoldedLineBytes = 64;
constexpr size_t kFoldedAheadBytes = 16 << 10;
/// Bytes folded and then stored. Memory is faster with separate reads and writes than with
/// alternating ones. The chunk stays in the first-level cache in between.
constexpr size_t kFoldedChunkBytes = 4 << 10;
constexpr size_t kFoldedPageBytes = 4 << 10;

/// Factors of a number that `bits` bits follow. Its first half, in the low half of a register, is
/// 64 bits farther away than its second. The product of reflected numbers is 32 nearer.
template <int bits>
struct Factors {
  static constexpr auto kFirstHalf = PowerOfX(bits + 32), kSecondHalf = PowerOfX(bits - 32);
  QUIRE_FOLDED_TARGET static __m128i Number() { return _mm_set_epi64x(kSecondHalf, kFirstHalf); }
  QUIRE_FOLDED_TARGET static __m512i Line() {
    return _mm512_set4_epi64(kSecondHalf, kFirstHalf, kSecondHalf, kFirstHalf);
  }
};

QUIRE_FOLDED_TARGET inline __m512i Fold(__m512i before, __m512i factors, __m512i into) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(before, factors, 0x00),
                                   _mm512_clmulepi64_epi128(before, factors, 0x11), into,
                                   kXorOfThree);
}
QUIRE_FOLDED_TARGET inline __m128i Fold(__m128i before, __m128i factors, __m128i into) {
  return _mm_xor_si128(into, _mm_xor_si128(_mm_clmulepi64_si128(before, factors, 0x00),
                                           _mm_clmulepi64_si128(before, factors, 0x11)));
}

/// A block. Members instead of an array: compilers keep those in registers.
struct Block {
  __m512i a, b, c, d;
};

QUIRE_FOLDED_TARGET inline Block Fold(const Block& before, __m512i factors, const Block& into) {
  return {Fold(before.a, factors, into.a), Fold(before.b, factors, into.b),
          Fold(before.c, factors, into.c), Fold(before.d, factors, into.d)};
}

/// Checksum of the bytes folded into `block`.
QUIRE_FOLDED_TARGET inline uint32_t Reduce(const Block& block) {
  const __m512i by_line = Factors<8 * kFoldedLineBytes>::Line();
  const __m512i line =
      Fold(Fold(Fold(block.a, by_line, block.b), by_line, block.c), by_line, block.d);
  const __m128i by_number = Factors<8 * sizeof(__m128i)>::Number();
  alignas(kFoldedLineBytes) __m128i numbers[kFoldedLineBytes / sizeof(__m128i)];
  _mm512_store_si512(numbers, line);
  __m128i last = numbers[0];
  for (size_t i = 1; i < std::size(numbers); ++i) last = Fold(last, by_number, numbers[i]);
  uint64_t crc = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_extract_epi64(last, 0)));
  crc = _mm_crc32_u64(crc, static_cast<uint64_t>(_mm_extract_epi64(last, 1)));
  return ~static_cast<uint32_t>(crc);
}

QUIRE_FOLDED_TARGET inline Block Load(const std::byte* from) {
  return {_mm512_loadu_si512(from), _mm512_loadu_si512(from + kFoldedLineBytes),
          _mm512_loadu_si512(from + 2 * kFoldedLineBytes),
          _mm512_loadu_si512(from + 3 * kFoldedLineBytes)};
}
QUIRE_FOLDED_TARGET inline void Stream(const Block& block, std::byte* to) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), block.a);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to + kFoldedLineBytes), block.b);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 2 * kFoldedLineBytes), block.c);
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to + 3 * kFoldedLineBytes), block.d);
}

/// Prefetches a block into the second-level cache. The first line of a page goes to the first
/// level. Some processors (AMD Zen 4) look up a page only for such a fetch. They drop a fetch to
/// the second level when its page is unknown.
QUIRE_FOLDED_TARGET inline void Fetch(const std::byte* block) {
  if (reinterpret_cast<uintptr_t>(block) % kFoldedPageBytes < kFoldedBlockBytes) {
    _mm_prefetch(block, _MM_HINT_T0);
  }
  for (size_t i = 0; i < kFoldedBlockBytes; i += kFoldedLineBytes)
    _mm_prefetch(block + i, _MM_HINT_T1);
}
/// Prefetches the block kFoldedAheadBytes after `at`.
QUIRE_FOLDED_TARGET inline void FetchBlockAhead(std::span<const std::byte> from, size_t at,
                                                const std::byte* next) {
  const size_t ahead = at + std::min(kFoldedAheadBytes, from.size());
  if (ahead < from.size()) {
    Fetch(from.data() + ahead);
  } else if (next != nullptr) {
    Fetch(next + (ahead - from.size()));
  }
}

template <CopyChecksum kChecksum>
QUIRE_FOLDED_CODE uint32_t Copy(std::span<const std::byte> from, std::byte* to,
                                const std::byte* next) {
  constexpr bool kFold = kChecksum == CopyChecksum::kCrc32c;
  const __m512i by_block = Factors<8 * kFoldedBlockBytes>::Line();
  const __m512i none = _mm512_setzero_si512();
  Block folded = {none, none, none, none};
  for (size_t chunk = 0; chunk < from.size(); chunk += kFoldedChunkBytes) {
    const size_t end = std::min(chunk + kFoldedChunkBytes, from.size());
    for (size_t at = chunk; kFold && at < end; at += kFoldedBlockBytes) {
      FetchBlockAhead(from, at, next);
      folded = Fold(folded, by_block, Load(from.data() + at));
      // A checksum begins with its first 32 bits inverted.
      const __m512i inverted = _mm512_zextsi128_si512(_mm_cvtsi32_si128(-1));
      if (at == 0) folded.a = _mm512_xor_si512(folded.a, inverted);
    }
    for (size_t at = chunk; at < end; at += kFoldedBlockBytes) {
      if (!kFold) FetchBlockAhead(from, at, next);
      Stream(Load(from.data() + at), to + at);
    }
  }
  _mm_sfence();  // Orders streaming stores before later ones.
  return kFold ? Reduce(folded) : 0;
}

}  // namespace

uint32_t FoldedCopy(std::span<const std::byte> from, std::byte* to, const std::byte* next,
                    CopyChecksum checksum) {
  return checksum == CopyChecksum::kCrc32c ? Copy<CopyChecksum::kCrc32c>(from, to, next)
                                           : Copy<CopyChecksum::kNone>(from, to, next);
}

#else

uint32_t FoldedCopy(std::span<const std::byte>, std::byte*, const std::byte*, CopyChecksum) {
  return 0;
}

#endif

namespace {

bool CanFold() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("pclmul") &&
         __builtin_cpu_supports("sse4.2");
#else
  return false;
#endif
}

std::atomic<bool> hidden{false};

}  // namespace

bool HasFoldedCopy() {
  static const bool can = CanFold();
  return can && !hidden.load(std::memory_order_relaxed);
}

void HideFoldedCopyForTesting(bool hide) { hidden.store(hide, std::memory_order_relaxed); }

}  // namespace quire
