// SPDX-License-Identifier: Apache-2.0
#include "client/data/pipe_dialers.h"

#include <array>

#include "common/base/net_address.h"
#include "transport/grpc/grpc_pipe.h"
#include "transport/shm/shm_pipe.h"
#include "transport/ucx/ucx.h"

namespace quire::internal {
namespace {

StatusOr<std::unique_ptr<FramePipe>> DialGrpc(const DialTarget& target) {
  return ConnectGrpcPipe({.address = target.address,
                          .max_message_bytes = target.max_message_bytes,
                          .connect_timeout = target.timeout,
                          .tenant = target.tenant,
                          .token = target.token});
}

StatusOr<std::unique_ptr<FramePipe>> DialShm(const DialTarget& target) {
  return ConnectShm(target.address, {.connect_timeout = target.timeout});
}

StatusOr<std::unique_ptr<FramePipe>> DialUcx(const DialTarget& target) {
  UcxOptions options{.direct_landings = target.direct_landings};
  options.max_frame_bytes = target.max_message_bytes + kMaxFrameHeadBytes;
  options.connect_timeout = target.timeout;
  return ConnectUcx(target.address, options);
}

constexpr std::array<PipeDialer, 3> kDialers = {
    {{"grpc", &DialGrpc}, {"shm", &DialShm}, {"ucx", &DialUcx}}};

}  // namespace

std::span<const PipeDialer> PipeDialers() {
  return std::span(kDialers).first(UcxAvailable() ? 3 : 2);
}

std::string ReachableAddress(const std::string& offered, const std::string& control) {
  if (offered.empty()) return control;
  const auto there = NetAddress::ParseServer(offered);
  const auto here = NetAddress::ParseServer(control);
  if (!there.ok() || !there->IsEveryAddress() || !here.ok() || here->is_unix()) return offered;
  return here->WithPort(there->port()).Text();
}

}  // namespace quire::internal
