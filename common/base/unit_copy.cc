// SPDX-License-Identifier: Apache-2.0
#include "common/base/unit_copy.h"

#include <algorithm>
#include <cstring>

#include "common/base/checksum.h"
#include "common/base/folded_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire {
namespace {

/// Checksummed and copied at a time: stays in the first-level cache in between.
constexpr size_t kChunkBytes = 1024;
constexpr size_t kLineBytes = 64;
/// What is copied so much later is fetched now, also across the end of a unit: the processor itself
/// fetches ahead only within a page, and needs its beginning to notice.
constexpr size_t kAheadBytes = 8 << 10;
constexpr size_t kPageBytes = 4 << 10;
constexpr size_t kFetchedBytes = 1 << 10;  ///< Of a page.

using StreamFn = void (*)(const std::byte* from, size_t bytes, std::byte* to);

#if defined(__x86_64__)

/// `bytes` and `to` are multiples of a line.
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
/// Streaming stores are ordered after each other and before what follows only by this.
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

/// Fetches the beginning of the page that a copy of `from` gets to a while after the one at `done`:
/// of `from`, or behind it of what begins at `next`, if that is known. The processor fetches the
/// rest of a page itself once it sees the beginning being read, and faster than it is told to. Into
/// the second-level cache: the first has no room for what is used so much later; but one line, for
/// which also those processors look up the page that drop other fetches then. What lies behind a
/// unit is no harm: it does not have to be there. Inline, because GCC drops calls of a function
/// that does nothing but fetch.
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

/// Copies `from` to `to` around the cache, where `to` allows it. `read` is called with every piece
/// in order, next to its copy, so that it is read from memory once.
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

/// How much of `from` FoldedCopy can copy to `to`.
size_t FoldedBytes(std::span<const std::byte> from, const std::byte* to) {
  return HasFoldedCopy() && StartsALine(to) ? from.size() / kFoldedBlockBytes * kFoldedBlockBytes
                                            : 0;
}

/// Copies the end of something whose beginning has the checksum `crc32c`: that of both.
uint32_t CopyRest(std::span<const std::byte> rest, std::byte* to, uint32_t crc32c) {
  if (rest.empty()) return crc32c;
  std::memcpy(to, rest.data(), rest.size());
  return Crc32c(rest, crc32c);
}

}  // namespace

void CopyFetchingAhead(std::span<const std::byte> from, std::byte* to, const std::byte* next) {
  for (size_t done = 0; done < from.size(); done += kPageBytes) {
    FetchAhead(from, done, next);
    // A memcpy of at most so much is made inline, several times slower than the library's.
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
