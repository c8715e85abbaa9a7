// SPDX-License-Identifier: Apache-2.0
//
// BridgedNetwork: hosts on one switch, each a network namespace of its own, and what can go wrong
// with their cables. The namespace of the calling thread has the switch, and an address there. It
// takes part as one more host. Call it in a private system only: links are not removed one by one.
//
// The kernel does all of it: lost packets are lost. Thread-safety: none.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_BRIDGED_NETWORK_H_
#define QUIRE_BENCH_TORTURE_NETWORK_BRIDGED_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/torture/network/net_namespace.h"
#include "quire/status.h"

namespace quire::torture {

class BridgedNetwork {
 public:
  /// Makes the switch. Errors of all methods are UNAVAILABLE with what `ip` or `tc` says.
  static StatusOr<std::unique_ptr<BridgedNetwork>> Make();

  /// Adds a host. Returns its number: 0, 1, ...
  StatusOr<uint32_t> AddHost();
  static std::string AddressOf(uint32_t host);
  /// Runs `work` inside a host, as NetNamespace::Run.
  [[nodiscard]] Status RunAt(uint32_t host, const std::function<Status()>& work) const;

  /// Takes the host's cable out: nothing comes or goes.
  [[nodiscard]] Status Unplug(uint32_t host) const;
  [[nodiscard]] Status Plug(uint32_t host) const;
  /// Loses what `from` sends to `to`. The other direction goes on.
  [[nodiscard]] Status Lose(uint32_t from, uint32_t to) const;
  [[nodiscard]] Status Deliver(uint32_t from, uint32_t to) const;
  /// Limits the bytes a second in each direction of a host's cable. Packets that would wait longer
  /// than a fifth of a second are lost.
  [[nodiscard]] Status Throttle(uint32_t host, uint64_t bytes_per_second) const;
  [[nodiscard]] Status Unthrottle(uint32_t host) const;

 private:
  BridgedNetwork() = default;
  /// Runs a command line of `ip` or `tc` inside a host.
  Status ToolAt(uint32_t host, const std::string& line) const;

  std::vector<NetNamespace> hosts_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_BRIDGED_NETWORK_H_
