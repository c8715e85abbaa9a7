// SPDX-License-Identifier: Apache-2.0
#include "apps/quired/peer_clocks.h"

#include <optional>

#include "quire/clock.h"
#include "quire/v1/cluster.pb.h"
#include "transport/grpc/grpc_transport.h"

namespace quire::kvserver {
namespace {

constexpr size_t kMostClocks = 3;
constexpr Duration kClockTimeout = std::chrono::seconds(1);

/// Nullopt when the member does not answer.
std::optional<int64_t> OffsetTo(const std::string& address, const std::string& tenant,
                                const BearerToken& token) {
  const auto transport = GrpcTransport::Create({.address = address, .token = token});
  if (!transport.ok()) return std::nullopt;
  CallMessage answer;
  const int64_t before = SystemClock().UnixMicros();
  const Status status = (*transport)
                            ->Call("quire.v1.Cluster/View", {}, &answer,
                                   {.tenant = tenant, .timeout = kClockTimeout});
  const int64_t after = SystemClock().UnixMicros();
  v1::ClusterViewReply reply;
  if (!status.ok() || !reply.ParseFromString(answer.control)) return std::nullopt;
  return before + (after - before) / 2 - reply.unix_micros();
}

}  // namespace

std::vector<int64_t> ClockOffsets(const cluster::ClusterView& view, const std::string& self,
                                  const std::string& tenant, const BearerToken& token) {
  std::vector<int64_t> offsets;
  for (const cluster::Member& member : view.members) {
    if (offsets.size() == kMostClocks) break;
    if (!member.Serves() || member.name == self) continue;
    if (const auto offset = OffsetTo(member.address, tenant, token)) offsets.push_back(*offset);
  }
  return offsets;
}

}  // namespace quire::kvserver
