// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

extern char** environ;

namespace quire::torture {
namespace {

constexpr int kNobodyListens = 3;

/// Starts the program with its standard output at `output`. Returns an errno value.
int Spawn(std::vector<std::string>& command, int output, pid_t* pid) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  const int error = posix_spawn(pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

StatusOr<std::unique_ptr<Child>> Child::Start(std::vector<std::string> command) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Unavailable("cannot make a pipe: ", std::strerror(errno));
  }
  pid_t pid = -1;
  const int error = Spawn(command, ends[1], &pid);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return Unavailable("cannot start ", command[0], ": ", std::strerror(error));
  }
  return std::unique_ptr<Child>(new Child(pid, ends[0]));
}

Child::~Child() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
  close(events_);
}

bool Child::ReadBytes(std::span<std::byte> bytes) {
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = read(events_, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    have += static_cast<size_t>(got);
  }
  return true;
}

bool Child::ReadLine(std::string* line) {
  line->clear();
  for (;;) {
    char c = 0;
    const ssize_t got = read(events_, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    if (c == '\n') return true;
    line->push_back(c);
  }
}

void Child::Kill() { kill(pid_, SIGKILL); }

void Child::Stop() { kill(pid_, SIGSTOP); }

void Child::Continue() { kill(pid_, SIGCONT); }

int Child::Wait() {
  int state = 0;
  while (waitpid(pid_, &state, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return state;
}

Status Child::AwaitKilled() {
  const int state = Wait();
  if (WIFSIGNALED(state) && WTERMSIG(state) == SIGKILL) return OkStatus();
  if (WIFSIGNALED(state)) return Internal("the server died of signal ", WTERMSIG(state));
  return Internal("the server ended by itself with exit code ", WEXITSTATUS(state),
                  "; see its messages above");
}

Status Child::AwaitSuccess() {
  const int state = Wait();
  if (WIFSIGNALED(state)) return Internal("the program died of signal ", WTERMSIG(state));
  if (WEXITSTATUS(state) == 0) return OkStatus();
  return Internal("the program ended with exit code ", WEXITSTATUS(state));
}

void WriteEvent(int descriptor, std::span<const std::byte> event) {
  if (write(descriptor, event.data(), event.size()) != static_cast<ssize_t>(event.size())) {
    _exit(kNobodyListens);
  }
}

}  // namespace quire::torture
