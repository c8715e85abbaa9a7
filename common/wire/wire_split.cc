// SPDX-License-Identifier: Apache-2.0
#include "common/wire/wire_split.h"

#include <algorithm>
#include <utility>

namespace quire::wire {
namespace {

enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kLengthDelimited = 2, kFixed32 = 5 };

/// Reads a list of slices as one run of bytes.
class Cursor {
 public:
  explicit Cursor(const Payload& message)
      : slices_(message.slices()), left_(message.size_bytes()) {}

  uint64_t left() const { return left_; }

  /// False at the end, and for a varint longer than 10 bytes or the remaining bytes.
  bool ReadVarint(uint64_t* value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && left_ > 0; shift += 7) {
      const auto byte = static_cast<uint64_t>(slices_[index_].bytes[offset_]);
      Advance(1);
      if (shift == 63 && byte > 1) return false;
      result |= (byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) {
        *value = result;
        return true;
      }
    }
    return false;
  }

  /// Calls `use(slice, bytes)` for the next `size` bytes, piece by piece. REQUIRES: size <= left().
  template <typename Use>
  void Consume(uint64_t size, const Use& use) {
    while (size > 0) {
      const auto rest = slices_[index_].bytes.subspan(offset_);
      const auto piece = rest.first(std::min<uint64_t>(rest.size(), size));
      use(slices_[index_], piece);
      size -= piece.size();
      Advance(piece.size());
    }
  }

 private:
  void Advance(uint64_t size) {
    offset_ += size;
    left_ -= size;
    if (offset_ == slices_[index_].bytes.size()) {
      ++index_;
      offset_ = 0;
    }
  }

  const std::vector<Slice>& slices_;
  size_t index_ = 0;
  size_t offset_ = 0;
  uint64_t left_;
};

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

/// One top-level field: its re-encoded head (tag and length or varint), and the size of the rest.
struct Field {
  uint64_t number = 0;
  std::string head;
  uint64_t body_bytes = 0;
};

/// Reads a field up to its body. Returns an error text; empty when there is none.
std::string_view ReadField(Cursor& cursor, Field* field) {
  uint64_t tag = 0;
  if (!cursor.ReadVarint(&tag) || tag > UINT32_MAX || (tag >> 3) == 0) return "a bad field tag";
  field->number = tag >> 3;
  const auto wire_type = static_cast<uint32_t>(tag & 7);
  if (field->number == kPayloadField && wire_type != kLengthDelimited) {
    return "a payload field that is not bytes";
  }
  AppendVarint(tag, &field->head);
  uint64_t value = 0;
  switch (wire_type) {
    case kVarint:
      if (!cursor.ReadVarint(&value)) return "a bad varint";
      AppendVarint(value, &field->head);
      break;
    case kFixed64:
      field->body_bytes = 8;
      break;
    case kFixed32:
      field->body_bytes = 4;
      break;
    case kLengthDelimited:
      if (!cursor.ReadVarint(&field->body_bytes)) return "a bad length";
      AppendVarint(field->body_bytes, &field->head);
      break;
    default:
      return "an unknown wire type";
  }
  return field->body_bytes > cursor.left() ? "a field longer than the message" : "";
}

}  // namespace

Status SplitMessage(const Payload& message, std::string* control, Payload* payload) {
  Cursor cursor(message);
  std::string rest;
  Payload found;
  while (cursor.left() > 0) {
    Field field;
    const uint64_t start = message.size_bytes() - cursor.left();
    if (const std::string_view problem = ReadField(cursor, &field); !problem.empty()) {
      return InvalidArgument("malformed message: ", problem, " in the field at byte ", start,
                             " of ", message.size_bytes());
    }
    if (field.number == kPayloadField) {
      found = Payload();
      cursor.Consume(field.body_bytes, [&](const Slice& slice, std::span<const std::byte> piece) {
        found.Append(Slice{piece, slice.owner});
      });
      continue;
    }
    rest += field.head;
    cursor.Consume(field.body_bytes, [&](const Slice&, std::span<const std::byte> piece) {
      rest.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
  }
  *control = std::move(rest);
  *payload = std::move(found);
  return OkStatus();
}

std::string PayloadHeader(uint64_t payload_bytes) {
  std::string header;
  if (payload_bytes == 0) return header;
  header.push_back(kPayloadTag);
  AppendVarint(payload_bytes, &header);
  return header;
}

}  // namespace quire::wire
