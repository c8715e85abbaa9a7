// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/net_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace quire::torture {
namespace {

/// Runs `work` on a new thread and waits for it. A thread changes its namespace for itself only.
Status OnNewThread(const std::function<Status()>& work) {
  Status status;
  std::thread([&] { status = work(); }).join();
  return status;
}

}  // namespace

StatusOr<NetNamespace> NetNamespace::Make() {
  UniqueFd fd;
  QUIRE_RETURN_IF_ERROR(OnNewThread([&fd]() -> Status {
    if (unshare(CLONE_NEWNET) != 0) {
      return Unavailable("cannot make a network namespace: ", std::strerror(errno));
    }
    fd = UniqueFd(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (fd.valid()) return OkStatus();
    return Unavailable("cannot open a network namespace: ", std::strerror(errno));
  }));
  return NetNamespace(std::move(fd));
}

Status NetNamespace::Run(const std::function<Status()>& work) const {
  return OnNewThread([&]() -> Status {
    if (setns(fd_.get(), CLONE_NEWNET) == 0) return work();
    return Unavailable("cannot enter a network namespace: ", std::strerror(errno));
  });
}

std::string NetNamespace::path() const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace quire::torture
