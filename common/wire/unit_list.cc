// SPDX-License-Identifier: Apache-2.0
#include "common/wire/unit_list.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

#include "common/wire/limits.h"

namespace quire::wire {
namespace {

/// Encoding of a head's pages, in the two low bits of its first number.
enum Form : uint32_t { kDeltas = 0, kBitmap = 1, kRepeat = 2 };
constexpr uint32_t kFormBits = 2;
constexpr uint32_t kFormMask = (1u << kFormBits) - 1;
constexpr size_t kMaxVarintBytes = 5;

size_t VarintBytes(uint32_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1u)) + 6) / 7;
}

/// Writes to `out`, which has room for kMaxVarintBytes. Returns the end.
char* PutVarint(uint32_t value, char* out) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

/// Bytes of the pages after the first, as deltas.
size_t DeltaBytes(std::span<const uint32_t> pages) {
  size_t bytes = pages.size() - 1;
  for (size_t i = 1; i < pages.size(); ++i) {
    const uint32_t gap = pages[i] - pages[i - 1] - 1;
    bytes += (gap >= 1u << 7) + (gap >= 1u << 14) + (gap >= 1u << 21) + (gap >= 1u << 28);
  }
  return bytes;
}

char* PutDeltas(std::span<const uint32_t> pages, char* out) {
  for (size_t i = 1; i < pages.size(); ++i) out = PutVarint(pages[i] - pages[i - 1] - 1, out);
  return out;
}

/// Writes a bitmap. Bit i stands for page first + 1 + i.
char* PutBitmap(std::span<const uint32_t> pages, size_t bytes, char* out) {
  std::memset(out, 0, bytes);
  for (const uint32_t page : pages.subspan(1)) {
    const uint32_t bit = page - pages[0] - 1;
    out[bit / 8] = static_cast<char>(out[bit / 8] | (1 << (bit % 8)));
  }
  return out + bytes;
}

bool SamePages(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

/// Appends one list. `previous` is the list before it; null for the first.
void EncodeHead(std::span<const uint32_t> pages, const std::span<const uint32_t>* previous,
                std::string* out) {
  if (previous != nullptr && SamePages(pages, *previous)) {
    out->push_back(static_cast<char>(kRepeat));
    return;
  }
  if (pages.empty()) {
    out->push_back(static_cast<char>(kDeltas));
    return;
  }
  const size_t bitmap = (size_t{pages.back() - pages.front()} + 7) / 8;
  const size_t deltas = DeltaBytes(pages);
  const bool by_bitmap = VarintBytes(static_cast<uint32_t>(bitmap)) + bitmap < deltas;
  const size_t start = out->size();
  out->resize(start + 3 * kMaxVarintBytes + (by_bitmap ? bitmap : deltas));
  char* at = out->data() + start;
  at = PutVarint(static_cast<uint32_t>(pages.size()) << kFormBits | (by_bitmap ? kBitmap : kDeltas),
                 at);
  at = PutVarint(pages.front(), at);
  if (by_bitmap) {
    at = PutVarint(static_cast<uint32_t>(bitmap), at);
    at = PutBitmap(pages, bitmap, at);
  } else {
    at = PutDeltas(pages, at);
  }
  out->resize(static_cast<size_t>(at - out->data()));
}

/// Reads `bytes` from the front. Every method returns false for invalid bytes.
class Reader {
 public:
  explicit Reader(std::string_view bytes)
      : at_(reinterpret_cast<const uint8_t*>(bytes.data())), end_(at_ + bytes.size()) {}

  bool AtEnd() const { return at_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  /// Reads a number in its shortest form.
  bool ReadVarint(uint32_t* value) {
    if (at_ == end_) return false;
    uint32_t byte = *at_++;
    *value = byte & 0x7f;
    for (uint32_t shift = 7; byte >= 0x80; shift += 7) {
      if (at_ == end_ || shift > 28) return false;
      byte = *at_++;
      if (byte == 0 || (shift == 28 && byte > 0xf)) return false;
      *value |= (byte & 0x7f) << shift;
    }
    return true;
  }

  /// Reads the pages after pages[0].
  bool ReadDeltas(std::span<uint32_t> pages) {
    for (size_t i = 1; i < pages.size(); ++i) {
      uint32_t gap = 0;
      if (!ReadVarint(&gap) || gap >= kEndOfUnitPages - 1 - pages[i - 1]) return false;
      pages[i] = pages[i - 1] + 1 + gap;
    }
    return true;
  }

  /// Reads the pages after pages[0], one for each set bit.
  bool ReadBitmap(std::span<uint32_t> pages) {
    uint32_t bytes = 0;
    if (!ReadVarint(&bytes) || bytes == 0 || bytes > left()) return false;
    const uint8_t last = at_[bytes - 1];
    const uint64_t highest = uint64_t{bytes - 1} * 8 + static_cast<uint64_t>(std::bit_width(last));
    if (last == 0 || pages[0] + highest >= kEndOfUnitPages) return false;
    size_t found = 1;
    for (uint32_t done = 0; done < bytes; done += 8) {
      uint64_t word = LoadWord(std::min<size_t>(8, bytes - done));
      const auto set = static_cast<size_t>(std::popcount(word));
      if (found + set > pages.size()) return false;
      for (const uint32_t base = pages[0] + 1 + done * 8; word != 0; word &= word - 1) {
        pages[found++] = base + static_cast<uint32_t>(std::countr_zero(word));
      }
    }
    return found == pages.size();
  }

 private:
  /// Loads the next `size` bytes, little endian.
  uint64_t LoadWord(size_t size) {
    uint64_t word = 0;
    if constexpr (std::endian::native == std::endian::little) {
      std::memcpy(&word, at_, size);
    } else {
      for (size_t i = 0; i < size; ++i) word |= uint64_t{at_[i]} << (8 * i);
    }
    at_ += size;
    return word;
  }

  const uint8_t* at_;
  const uint8_t* const end_;
};

Status DecodeHead(Reader* reader, uint32_t max_pages, PageLists* lists) {
  uint32_t header = 0;
  if (!reader->ReadVarint(&header)) return InvalidArgument("the list ends early");
  const uint32_t count = header >> kFormBits;
  const uint32_t form = header & kFormMask;
  if (form == kRepeat && count == 0 && lists->num_heads() > 0) {
    lists->RepeatHead();
    return OkStatus();
  }
  if (form > kBitmap || (form == kBitmap && count == 0)) {
    return InvalidArgument("form ", form, " with ", count, " pages");
  }
  if (count > max_pages) return InvalidArgument(count, " pages: must be at most ", max_pages);
  // Every page after the first takes at least a bit.
  if (count > 1 + reader->left() * 8) return InvalidArgument("the list ends early");
  const std::span<uint32_t> pages = lists->AddHead(count);
  if (count == 0) return OkStatus();
  if (!reader->ReadVarint(&pages[0]) || pages[0] >= kEndOfUnitPages ||
      !(form == kBitmap ? reader->ReadBitmap(pages) : reader->ReadDeltas(pages))) {
    return InvalidArgument("its ", count, " pages are not whole, ascending and below ",
                           kEndOfUnitPages);
  }
  return OkStatus();
}

Status DecodeHeads(std::string_view bytes, uint32_t num_heads, uint32_t max_pages,
                   PageLists* lists) {
  Reader reader(bytes);
  for (uint32_t head = 0; head < num_heads; ++head) {
    QUIRE_RETURN_IF_ERROR(
        Annotate(DecodeHead(&reader, max_pages, lists), "unit list, head ", head));
  }
  if (reader.AtEnd()) return OkStatus();
  return InvalidArgument("unit list: ", reader.left(), " bytes after the ", num_heads, " heads");
}

}  // namespace

void EncodeUnitList(const PageLists& lists, std::string* out) {
  out->clear();
  std::span<const uint32_t> previous;
  for (uint32_t head = 0; head < lists.num_heads(); ++head) {
    const std::span<const uint32_t> pages = lists.Head(head);
    EncodeHead(pages, head > 0 ? &previous : nullptr, out);
    previous = pages;
  }
}

Status DecodeUnitList(std::string_view bytes, uint32_t num_heads, uint32_t max_pages_per_head,
                      PageLists* lists) {
  lists->Clear();
  Status status = DecodeHeads(bytes, num_heads, max_pages_per_head, lists);
  if (!status.ok()) lists->Clear();
  return status;
}

}  // namespace quire::wire
