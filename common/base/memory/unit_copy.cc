// SPDX-License-Identifier: Apache-2.0
#include "common/base/memory/unit_copy.h"

#include <algorithm>
#include <cstring>

#include "common/base/memory/checksum.h"
#include "common/base/memory/folded_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {
namespace {

/// Bytes checksummed and copied at a time; they stay in the first-level cache in between.
constexpr size_t kChunkBytes = 1024;
constexpr size_t kLineBytes = 64;
/// Prefetch distance, also across the end of a unit. The processor itself fetches ahead only within
/// a page, once it has seen its beginning.
constexpr size_t kAheadBytes = 8 << 10;
constexpr size_t kPageBytes = 4 << 10;
constexpr size_t kFetchedBytes = 1 << 10;  ///< Bytes prefetched of each page.

using StreamFn = void (*)(const std::byte* from, size_t bytes, std::byte* to);

#if defined(__x86_64__)

/// REQUIRES: `bytes` and `to` are multiples of a line.
__attribute__((target("avx512f"))) void Stream512(const std::byte* from, size_t bytes,
                                                  std::byte* to) {
  for (size_t i = 0; i < bytes; i += kLineBytes) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
}

void Stream128(const std::byte* from, size_t bytes, std::byte* to) {
  for (size_t i = 0; i < bytes; i += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
}

StreamFn BestStream() { return __builtin_cpu_supports("avx512f") ? Stream512 : Stream128; }
/// Orders streaming stores before later ones.
void EndStream() { _mm_sfence(); }

#else

StreamFn BestStream() {
  return [](const std::byte* from, size_t bytes, std::byte* to) { std::memcpy(to, from, bytes); };
}
void EndStream() {}

#endif

const StreamFn kStream = BestStream();

bool StartsALine(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address) % kLineBytes == 0;
}

/// Prefetches the beginning of the page at kAheadBytes after `done` in `from`, or in `next` beyond
/// its end if that is known. The processor then fetches the rest of the page itself, faster than on
/// request. Lines go to the second-level cache, as the first is too small for a use so much later.
/// One line goes to the first level, so that processors that drop other fetches find the page.
/// Bytes beyond a unit need not exist. Inline, because GCC drops calls of functions that only
/// prefetch.
[[gnu::always_inline]] inline void FetchAhead(std::span<const std::byte> from, size_t done,
                                              const std::byte* next) {
  constexpr int kRead = 0;
  constexpr int kFirstLevel = 3, kSecondLevel = 2;
  const size_t wanted = done + std::min(kAheadBytes, from.size());
  if (done % kPageBytes != 0 || (wanted >= from.size() && next == nullptr)) return;
  const std::byte* const page =
      wanted < from.size() ? from.data() + wanted : next + (wanted - from.size());
  __builtin_prefetch(page, kRead, kFirstLevel);
  for (size_t i = 0; i < kFetchedBytes; i += kLineBytes) {
    __builtin_prefetch(page + i, kRead, kSecondLevel);
  }
}

/// Copies `from` to `to` around the cache, where `to` allows it. Calls `read` with every piece in
/// order, next to its copy, so each is read from memory once.
template <typename Read>
void StreamPieces(std::span<const std::byte> from, std::byte* to, const std::byte* next,
                  const Read& read) {
  size_t done = 0;
  if (StartsALine(to)) {
    for (; from.size() - done >= kChunkBytes; done += kChunkBytes) {
      const auto chunk = from.subspan(done, kChunkBytes);
      FetchAhead(from, done, next);
      read(chunk);
      kStream(chunk.data(), kChunkBytes, to + done);
    }
    EndStream();
  }
  const auto rest = from.subspan(done);
  if (rest.empty()) return;
  std::memcpy(to + done, rest.data(), rest.size());
  read(rest);
}

/// Number of bytes of `from` that FoldedCopy can copy to `to`.
size_t FoldedBytes(std::span<const std::byte> from, const std::byte* to) {
  return HasFoldedCopy() && StartsALine(to) ? from.size() / kFoldedBlockBytes * kFoldedBlockBytes
                                            : 0;
}

/// Copies the rest after bytes with the checksum `crc32c`. Returns the checksum of both.
uint32_t CopyRest(std::span<const std::byte> rest, std::byte* to, uint32_t crc32c) {
  if (rest.empty()) return crc32c;
  std::memcpy(to, rest.data(), rest.size());
  return Crc32c(rest, crc32c);
}

}  // namespace

void CopyFetchingAhead(std::span<const std::byte> from, std::byte* to, const std::byte* next) {
  for (size_t done = 0; done < from.size(); done += kPageBytes) {
    FetchAhead(from, done, next);
    // GCC inlines a memcpy of at most this size, several times slower than the library's.
    std::memmove(to + done, from.data() + done, std::min(kPageBytes, from.size() - done));
  }
}

uint32_t CopyWithCrc32c(std::span<const std::byte> from, std::byte* to, const std::byte* next) {
  if (const size_t folded = FoldedBytes(from, to); folded > 0) {
    const uint32_t crc32c = FoldedCopy(from.first(folded), to, next, CopyChecksum::kCrc32c);
    return CopyRest(from.subspan(folded), to + folded, crc32c);
  }
  uint32_t crc32c = 0;
  StreamPieces(from, to, next,
               [&](std::span<const std::byte> piece) { crc32c = Crc32c(piece, crc32c); });
  return crc32c;
}

void CopyAroundCache(std::span<const std::byte> from, std::byte* to, const std::byte* next) {
  if (const size_t folded = FoldedBytes(from, to); folded > 0) {
    FoldedCopy(from.first(folded), to, next, CopyChecksum::kNone);
    std::memcpy(to + folded, from.data() + folded, from.size() - folded);
    return;
  }
  StreamPieces(from, to, next, [](std::span<const std::byte>) {});
}

Status CheckPlace(size_t index, uint64_t place, uint64_t bytes, uint64_t landing_bytes) {
  if (place <= landing_bytes && bytes <= landing_bytes - place) return OkStatus();
  return InvalidArgument("slice ", index, " of ", bytes, " bytes at ", place,
                         " is outside the landing of ", landing_bytes, " bytes");
}

Status CheckPlaces(const Payload& payload, const std::vector<uint64_t>& places,
                   uint64_t landing_bytes) {
  const std::vector<Slice>& slices = payload.slices();
  if (places.size() != slices.size()) {
    return InvalidArgument("the part has ", places.size(), " places for ", slices.size(),
                           " slices: each slice needs one");
  }
  for (size_t i = 0; i < slices.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(CheckPlace(i, places[i], slices[i].bytes.size(), landing_bytes));
  }
  return OkStatus();
}

}  // namespace quire
