// SPDX-License-Identifier: Apache-2.0
//
// What ucx_peer and its test agree on.
#ifndef QUIRE_TESTS_INTEGRATION_UCX_LANE_H_
#define QUIRE_TESTS_INTEGRATION_UCX_LANE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/ucx.h"

namespace quire::testing {

inline constexpr uint64_t kUcxLandingBytes = uint64_t{4} << 20;

/// "tcp", or "shm": shared memory, written directly.
inline UcxOptions UcxLaneOptions(const std::string& lane) {
  UcxOptions options;
  if (lane == "shm") {
    options.peer_failure_detection = false;
    options.direct_landings = true;
    options.transports = "posix,cma,tcp,self";
  }
  return options;
}

/// 64 units with places in landing 1.
inline Frame UcxUnits() {
  constexpr uint64_t kUnit = 16384;
  Frame frame{.head = "units", .payload = {}, .landing = 1};
  for (uint64_t i = 0; i < 64; ++i) {
    frame.payload.Append(std::vector<std::byte>(kUnit, std::byte{7}));
    frame.places.push_back(i * 2 * kUnit);
  }
  return frame;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_UCX_LANE_H_
