// SPDX-License-Identifier: Apache-2.0
//
// NetNamespace: a network namespace without a name. It lasts as long as this object, and as long as
// processes in it. Thread-safety: all methods may be called concurrently.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_NET_NAMESPACE_H_
#define QUIRE_BENCH_TORTURE_NETWORK_NET_NAMESPACE_H_

#include <functional>
#include <string>

#include "common/base/unique_fd.h"
#include "quire/status.h"

namespace quire::torture {

class NetNamespace {
 public:
  /// UNAVAILABLE without the right to make one.
  static StatusOr<NetNamespace> Make();

  /// Runs `work` on a thread of its own inside. Sockets that it makes belong here, and threads and
  /// processes that it starts. Returns what it returns.
  [[nodiscard]] Status Run(const std::function<Status()>& work) const;
  /// For the argument `netns` of `ip`.
  std::string path() const;

 private:
  explicit NetNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_NET_NAMESPACE_H_
