// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes packets of shared-memory connections, as a client and as a server read them. The first
// bytes choose the sizes of the pieces. Accepted packets must keep to the limits, and their sizes
// must add up.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "transport/shm/shm_frame.h"
#include "transport/shm/shm_packet_reader.h"

namespace {

using namespace quire;

constexpr uint64_t kFuzzFrameBytes = 1 << 16;

class Checker final : public ShmPacketReader::Sink {
 public:
  explicit Checker(bool from_server) : from_server_(from_server) {}
  Status OnPacket(ShmPacket& packet) override {
    const ShmHeader header = packet.header;
    if (header.type != ShmPacketType::kFrame) {
      if (!from_server_ && header.type != ShmPacketType::kRegion) std::abort();
      return OkStatus();
    }
    if (packet.slices.size() != header.num_slices) std::abort();
    if (!packet.places.empty() && packet.places.size() != packet.slices.size()) std::abort();
    // As at the server: every slice is inline, or the frame is refused.
    const StatusOr<Frame> frame = TakeShmFrame(packet, nullptr);
    if (!frame.ok()) return frame.status();
    if (frame->payload.size_bytes() != header.bytes) std::abort();
    if (frame->head.size() + frame->payload.size_bytes() > kFuzzFrameBytes) std::abort();
    if (CheckShmFrame(*frame, kFuzzFrameBytes) != OkStatus()) std::abort();
    return OkStatus();
  }

 private:
  const bool from_server_;
};

void Feed(std::span<const std::byte> bytes, size_t step, bool from_server) {
  ShmPacketReader reader({.max_frame_bytes = kFuzzFrameBytes, .from_server = from_server});
  Checker checker(from_server);
  while (!bytes.empty()) {
    size_t taken = 0;
    for (const std::span<std::byte> room : reader.Room()) {
      const size_t count = std::min({room.size(), bytes.size(), step - taken});
      if (count > 0) std::memcpy(room.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      taken += count;
    }
    if (!reader.Take(taken, checker).ok()) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  Feed(bytes, 1 + data[1] * size_t{16}, data[0] % 2 == 0);
  return 0;
}
