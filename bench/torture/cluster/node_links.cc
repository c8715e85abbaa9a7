// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/cluster/node_links.h"

#include <chrono>

#include "common/base/net_address.h"

namespace quire::torture {
namespace {

constexpr Duration kDelay = std::chrono::milliseconds(100);
constexpr double kLoss = 0.1;
constexpr uint64_t kThrottledBytesPerSecond = uint64_t{128} << 10;

}  // namespace

StatusOr<std::unique_ptr<NodeLinks>> NodeLinks::Make(Options options) {
  std::unique_ptr<NodeLinks> links(new NodeLinks(std::move(options)));
  const BridgedNetwork* const network = links->options_.network;
  const auto make = [&links] { return links->MakeProxies(); };
  QUIRE_RETURN_IF_ERROR(network != nullptr ? network->RunAt(links->options_.host, make) : make());
  return links;
}

Status NodeLinks::MakeProxies() {
  TcpProxy::Options front = {.seed = options_.seed};
  if (options_.network != nullptr) front.listen = BridgedNetwork::AddressOf(options_.host);
  QUIRE_ASSIGN_OR_RETURN(front_, TcpProxy::Start(front));
  if (options_.network != nullptr) return OkStatus();
  for (const std::string& member : options_.etcd) {
    QUIRE_ASSIGN_OR_RETURN(const NetAddress address, NetAddress::ParseServer(member));
    QUIRE_ASSIGN_OR_RETURN(etcd_.emplace_back(), TcpProxy::Start({.seed = options_.seed}));
    etcd_.back()->SetTarget(address.port());
  }
  return OkStatus();
}

std::vector<std::string> NodeLinks::etcd() const {
  if (etcd_.empty()) return options_.etcd;
  std::vector<std::string> addresses;
  for (const auto& proxy : etcd_) addresses.push_back(proxy->address());
  return addresses;
}

void NodeLinks::SetEtcdWeather(const Weather& weather) {
  for (const auto& proxy : etcd_) proxy->Set(weather);
}

Status NodeLinks::Change(bool loses, const std::vector<uint32_t>& others, Way way) const {
  const BridgedNetwork& network = *options_.network;
  const uint32_t host = options_.host;
  for (const uint32_t other : others) {
    QUIRE_RETURN_IF_ERROR(loses ? network.Lose(host, other) : network.Deliver(host, other));
    if (way == Way::kOut) continue;
    QUIRE_RETURN_IF_ERROR(loses ? network.Lose(other, host) : network.Deliver(other, host));
  }
  return OkStatus();
}

Status NodeLinks::Begin(ClusterFault fault) {
  switch (fault) {
    case ClusterFault::kCut:
      front_->Set({.cuts = true});
      return OkStatus();
    case ClusterFault::kDelay:
      front_->Set({.delay = kDelay});
      return OkStatus();
    case ClusterFault::kLoss:
      front_->Set({.loss = kLoss});
      return OkStatus();
    default:
      return options_.network != nullptr ? BeginInKernel(fault) : BeginHere(fault);
  }
}

Status NodeLinks::BeginHere(ClusterFault fault) {
  if (fault == ClusterFault::kThrottle) {
    front_->Set({.bytes_per_second = kThrottledBytesPerSecond});
  }
  if (fault == ClusterFault::kPartition) front_->Set({.holds = true});
  if (fault == ClusterFault::kPartition || fault == ClusterFault::kEtcdCut) {
    SetEtcdWeather({.holds = true});
  }
  return OkStatus();
}

Status NodeLinks::BeginInKernel(ClusterFault fault) {
  switch (fault) {
    case ClusterFault::kPartition:
      return options_.network->Unplug(options_.host);
    case ClusterFault::kThrottle:
      return options_.network->Throttle(options_.host, kThrottledBytesPerSecond);
    case ClusterFault::kEtcdCut:
      return Change(/*loses=*/true, options_.etcd_hosts, Way::kBoth);
    case ClusterFault::kPeersCut:
      return Change(/*loses=*/true, options_.peers, Way::kBoth);
    case ClusterFault::kOneWay:
      QUIRE_RETURN_IF_ERROR(Change(/*loses=*/true, options_.etcd_hosts, Way::kOut));
      return Change(/*loses=*/true, options_.peers, Way::kOut);
    default:
      return OkStatus();
  }
}

Status NodeLinks::End(ClusterFault fault) {
  front_->Set({});
  SetEtcdWeather({});
  return options_.network != nullptr ? EndInKernel(fault) : OkStatus();
}

Status NodeLinks::EndInKernel(ClusterFault fault) {
  switch (fault) {
    case ClusterFault::kPartition:
      return options_.network->Plug(options_.host);
    case ClusterFault::kThrottle:
      return options_.network->Unthrottle(options_.host);
    case ClusterFault::kEtcdCut:
      return Change(/*loses=*/false, options_.etcd_hosts, Way::kBoth);
    case ClusterFault::kPeersCut:
      return Change(/*loses=*/false, options_.peers, Way::kBoth);
    case ClusterFault::kOneWay:
      QUIRE_RETURN_IF_ERROR(Change(/*loses=*/false, options_.etcd_hosts, Way::kOut));
      return Change(/*loses=*/false, options_.peers, Way::kOut);
    default:
      return OkStatus();
  }
}

}  // namespace quire::torture
