// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the heads of frames, and parts with their payload. Accepted input must have one encoding,
// and a part's slices must lie at its places. The first two bytes give the size of the head, and
// the split of the payload.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "transport/frames/frame.h"
#include "transport/frames/frame_parts.h"

namespace {

using namespace quire;

void CheckPart(const FrameHead& head, std::string_view bytes, size_t cut) {
  Frame frame;
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  for (size_t at = 0; at < bytes.size(); at += cut) {
    frame.payload.Append(Slice{{data + at, std::min(cut, bytes.size() - at)}, nullptr});
  }
  const auto part = PartOf(head, std::move(frame));
  if (!part.ok()) return;
  if (part->payload.size_bytes() != bytes.size()) std::abort();
  if (part->places.size() != head.places.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const size_t behind = std::min<size_t>(data[0], bytes.size());
  const std::string_view head_bytes = bytes.substr(0, bytes.size() - behind);
  const auto head = DecodeFrameHead(head_bytes);
  if (!head.ok()) return 0;
  if (EncodeFrameHead(*head) != head_bytes) std::abort();
  if (head->kind == FrameKind::kPart) {
    CheckPart(*head, bytes.substr(head_bytes.size()), size_t{data[1]} + 1);
  }
  return 0;
}
