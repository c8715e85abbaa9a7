// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/private_system.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bench/torture/network/system_tool.h"

namespace quire::torture {
namespace {

/// As shells have them. The signal's number comes on top.
constexpr int kExitOfSignal = 128;
constexpr int kExitWithoutProgram = 127;

constexpr const char* kProbe =
    "ip link add probe type bridge && tc -Version && mkfs.ext4 -V && test -e /dev/loop-control";

/// Words with which this program was started.
std::vector<std::string> OwnArguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

[[noreturn]] void EndLike(pid_t child) {
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  _exit(WIFEXITED(state) ? WEXITSTATUS(state) : kExitOfSignal + WTERMSIG(state));
}

/// Makes mounts stay inside, and /proc show the processes inside. Runs `arguments` then.
/// Returns only when that fails; between fork and exec only system calls are allowed.
void RunInside(char* const* arguments) {
  const bool settled = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                       mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       mount("proc", "/proc", "proc", 0, nullptr) == 0;
  if (settled) execv("/proc/self/exe", arguments);
}

}  // namespace

Status MayEnterPrivateSystem() {
  const Status probed =
      RunTool({"unshare", "--net", "--mount", "--pid", "--fork", "/bin/sh", "-c", kProbe});
  if (probed.ok()) return OkStatus();
  return FailedPrecondition(
      "network namespaces need root, a kernel with bridges and loop devices, and the programs of "
      "the Debian packages iproute2 and e2fsprogs: ",
      Message(probed));
}

Status EnterPrivateSystem(const std::string& mark) {
  std::vector<std::string> words = OwnArguments();
  words.push_back(mark);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  if (unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWPID) != 0) {
    return FailedPrecondition("cannot make namespaces: ", std::strerror(errno));
  }
  const pid_t child = fork();
  if (child < 0) return FailedPrecondition("cannot start a process: ", std::strerror(errno));
  if (child > 0) EndLike(child);
  RunInside(arguments.data());
  _exit(kExitWithoutProgram);
}

}  // namespace quire::torture
