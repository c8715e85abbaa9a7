// SPDX-License-Identifier: Apache-2.0
//
// The exchange between ucx_peer and its test.
#ifndef QUIRE_TESTS_INTEGRATION_UCX_LANE_H_
#define QUIRE_TESTS_INTEGRATION_UCX_LANE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quire/status.h"
#include "transport/ucx/ucx.h"

namespace quire::testing {

inline constexpr uint64_t kUcxLandingBytes = uint64_t{4} << 20;

/// - "tcp": TCP.
/// - "shm": shared memory; the client copies messages into a landing in plain memory.
/// - "direct": shared memory with a landing that the server's UCX writes.
inline UcxOptions UcxLaneOptions(const std::string& lane) {
  UcxOptions options;
  if (lane != "tcp") {
    options.peer_failure_detection = false;
    options.direct_landings = true;
    options.transports = "posix,tcp";
  }
  return options;
}

/// Zeroed memory for landing 1 of `pipe`. It may outlive the pipe.
inline StatusOr<OwnedMemory> UcxLandingMemory(FramePipe& pipe, const std::string& lane) {
  if (lane != "direct") {
    const auto plain = std::make_shared<std::vector<std::byte>>(kUcxLandingBytes);
    return OwnedMemory{*plain, plain};
  }
  QUIRE_ASSIGN_OR_RETURN(OwnedMemory memory, pipe.AllocateLandingMemory(kUcxLandingBytes));
  if (memory.owner == nullptr) return Internal("the pipe allocates no memory for landings");
  std::fill(memory.bytes.begin(), memory.bytes.end(), std::byte{0});
  return memory;
}

/// 64 units with places in landing 1.
inline constexpr uint64_t kUcxUnits = 64, kUcxUnitBytes = 16384;
inline constexpr std::byte kUcxUnitByte{7};
inline Frame UcxUnits() {
  Frame frame{.head = "units", .payload = {}, .landing = 1};
  for (uint64_t i = 0; i < kUcxUnits; ++i) {
    frame.payload.Append(std::vector<std::byte>(kUcxUnitBytes, kUcxUnitByte));
    frame.places.push_back(i * 2 * kUcxUnitBytes);
  }
  return frame;
}

/// How a frame of UcxUnits arrived: "landed", or "delivered" as payload.
inline std::string HowItCame(const Frame& frame) {
  return frame.landed_bytes == 0 ? "delivered" : "landed";
}
inline std::string HowTheyComeOver(const std::string& lane) {
  return lane == "tcp" ? "delivered" : "landed";
}

/// Checks that a frame of UcxUnits arrived whole, and, if it landed, lies in `memory`. REQUIRES: no
/// thread of this process writes other bytes there meanwhile; the peer may write the same again.
inline Status CheckUcxUnits(const Frame& frame, std::span<const std::byte> memory) {
  constexpr uint64_t kBytes = kUcxUnits * kUcxUnitBytes;
  if (frame.landed_bytes + frame.payload.size_bytes() != kBytes) {
    return DataLoss(frame.landed_bytes, " bytes have landed and ", frame.payload.size_bytes(),
                    " came as payload; there are ", kBytes);
  }
  const std::vector<std::byte> unit(kUcxUnitBytes, kUcxUnitByte), none(kUcxUnitBytes);
  for (uint64_t at = 0; at < memory.size(); at += kUcxUnitBytes) {
    const uint64_t number = at / kUcxUnitBytes;
    const bool has_unit = frame.landed_bytes > 0 && number % 2 == 0 && number / 2 < kUcxUnits;
    // Uses a function that sanitizers do not instrument per byte.
    if (std::memcmp(&memory[at], has_unit ? unit.data() : none.data(), kUcxUnitBytes) != 0) {
      return DataLoss("what lies at ", at, " of the landing is not what was sent there");
    }
  }
  return OkStatus();
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_UCX_LANE_H_
