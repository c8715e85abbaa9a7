// SPDX-License-Identifier: Apache-2.0
#include "client/pipe_dialers.h"

#include <array>

#include "common/transport/grpc_pipe.h"

namespace quire {
namespace {

StatusOr<std::unique_ptr<FramePipe>> DialGrpc(const DialTarget& target) {
  return ConnectGrpcPipe({.address = target.address,
                          .max_message_bytes = target.max_message_bytes,
                          .connect_timeout = target.timeout});
}

constexpr std::array<PipeDialer, 1> kDialers = {{{"grpc", &DialGrpc}}};

}  // namespace

std::span<const PipeDialer> PipeDialers() { return kDialers; }

std::string ReachableAddress(const std::string& offered, const std::string& control) {
  if (offered.empty()) return control;
  const size_t colon = control.rfind(':');
  if (colon == std::string::npos || control.starts_with("unix:")) return offered;
  for (const std::string_view all : {"0.0.0.0:", "[::]:", "*:"}) {
    if (offered.starts_with(all)) return control.substr(0, colon + 1) + offered.substr(all.size());
  }
  return offered;
}

}  // namespace quire
