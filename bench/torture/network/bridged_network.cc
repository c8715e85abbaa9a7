// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/bridged_network.h"

#include <utility>

#include "bench/torture/network/system_tool.h"

namespace quire::torture {
namespace {

constexpr const char* kSubnet = "10.99.0.";
constexpr const char* kOwnAddress = "10.99.0.254";
constexpr uint32_t kMostHosts = 200;
/// Hardware address that no host has. Packets to it are lost.
constexpr const char* kNowhere = "02:00:00:00:00:ff";

/// The switch's end of a host's cable; eth0 is the other one.
std::string PortOf(uint32_t host) { return "host" + std::to_string(host); }

std::string Limit(uint64_t bytes_per_second) {
  return " root tbf rate " + std::to_string(bytes_per_second * 8) + "bit burst 16kb latency 200ms";
}

}  // namespace

StatusOr<std::unique_ptr<BridgedNetwork>> BridgedNetwork::Make() {
  const std::string own = kOwnAddress;
  for (const std::string& line :
       {std::string("ip link set lo up"), std::string("ip link add quire type bridge"),
        "ip addr add " + own + "/24 dev quire", std::string("ip link set quire up")}) {
    QUIRE_RETURN_IF_ERROR(RunToolLine(line));
  }
  return std::unique_ptr<BridgedNetwork>(new BridgedNetwork());
}

std::string BridgedNetwork::AddressOf(uint32_t host) { return kSubnet + std::to_string(host + 1); }

StatusOr<uint32_t> BridgedNetwork::AddHost() {
  const auto host = static_cast<uint32_t>(hosts_.size());
  if (host == kMostHosts) return Unavailable("a switch takes ", kMostHosts, " hosts");
  QUIRE_ASSIGN_OR_RETURN(NetNamespace made, NetNamespace::Make());
  hosts_.push_back(std::move(made));
  const std::string port = PortOf(host);
  QUIRE_RETURN_IF_ERROR(RunToolLine("ip link add " + port + " type veth peer name eth0 netns " +
                                    hosts_.back().path()));
  QUIRE_RETURN_IF_ERROR(RunToolLine("ip link set " + port + " master quire up"));
  QUIRE_RETURN_IF_ERROR(ToolAt(host, "ip link set lo up"));
  QUIRE_RETURN_IF_ERROR(ToolAt(host, "ip addr add " + AddressOf(host) + "/24 dev eth0"));
  QUIRE_RETURN_IF_ERROR(ToolAt(host, "ip link set eth0 up"));
  return host;
}

Status BridgedNetwork::RunAt(uint32_t host, const std::function<Status()>& work) const {
  return hosts_[host].Run(work);
}

Status BridgedNetwork::ToolAt(uint32_t host, const std::string& line) const {
  return RunAt(host, [&line] { return RunToolLine(line); });
}

Status BridgedNetwork::Unplug(uint32_t host) const {
  return RunToolLine("ip link set " + PortOf(host) + " down");
}

Status BridgedNetwork::Plug(uint32_t host) const {
  return RunToolLine("ip link set " + PortOf(host) + " up");
}

Status BridgedNetwork::Lose(uint32_t from, uint32_t to) const {
  return ToolAt(from, "ip neigh replace " + AddressOf(to) + " lladdr " + kNowhere +
                          " nud permanent dev eth0");
}

Status BridgedNetwork::Deliver(uint32_t from, uint32_t to) const {
  return ToolAt(from, "ip neigh del " + AddressOf(to) + " dev eth0");
}

Status BridgedNetwork::Throttle(uint32_t host, uint64_t bytes_per_second) const {
  const std::string limit = Limit(bytes_per_second);
  QUIRE_RETURN_IF_ERROR(RunToolLine("tc qdisc add dev " + PortOf(host) + limit));
  return ToolAt(host, "tc qdisc add dev eth0" + limit);
}

Status BridgedNetwork::Unthrottle(uint32_t host) const {
  QUIRE_RETURN_IF_ERROR(RunToolLine("tc qdisc del dev " + PortOf(host) + " root"));
  return ToolAt(host, "tc qdisc del dev eth0 root");
}

}  // namespace quire::torture
