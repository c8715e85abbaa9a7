// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

extern char** environ;

namespace quire::bench {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(5);
constexpr Duration kTimeToEnd = std::chrono::seconds(5);
constexpr size_t kShownBytes = 2000;  ///< Bytes of the output in an error.

/// Pointers into `strings` with a final null, as exec takes them.
std::vector<char*> PointersTo(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// `environment`, followed by this program's own.
std::vector<std::string> WithOwnEnvironment(std::vector<std::string> environment) {
  const size_t given = environment.size();
  for (char** own = environ; *own != nullptr; ++own) {
    const std::string_view variable(*own);
    const std::string_view name = variable.substr(0, variable.find('=') + 1);
    const bool replaced = std::any_of(environment.begin(), environment.begin() + given,
                                      [&](const std::string& it) { return it.starts_with(name); });
    if (!replaced) environment.emplace_back(variable);
  }
  return environment;
}

}  // namespace

StatusOr<std::unique_ptr<Process>> Process::Start(std::vector<std::string> command,
                                                  const std::string& log,
                                                  std::vector<std::string> environment) {
  const std::vector<char*> arguments = PointersTo(command);
  environment = WithOwnEnvironment(std::move(environment));
  const std::vector<char*> variables = PointersTo(environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return Unavailable("cannot start ", command[0], ": ", std::strerror(error));
  return std::unique_ptr<Process>(new Process(pid, command[0], log));
}

Process::~Process() {
  if (HasEnded()) return;
  kill(pid_, SIGTERM);
  if (!WaitForEnd(kTimeToEnd).ok() && !HasEnded()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &state_, 0);
  }
}

bool Process::HasEnded() {
  if (pid_ > 0 && waitpid(pid_, &state_, WNOHANG) == pid_) pid_ = -1;
  return pid_ < 0;
}

Status Process::WaitUntil(const std::function<bool()>& ready, Duration timeout) {
  const TimePoint deadline = SystemClock().Now() + timeout;
  while (!ready()) {
    if (HasEnded()) return Failed("ended before it was ready");
    if (SystemClock().Now() >= deadline) return Failed("was not ready in time");
    std::this_thread::sleep_for(kPoll);
  }
  return OkStatus();
}

Status Process::WaitForEnd(Duration timeout) {
  const TimePoint deadline = SystemClock().Now() + timeout;
  while (!HasEnded()) {
    if (SystemClock().Now() >= deadline) return Failed("did not end in time");
    std::this_thread::sleep_for(kPoll);
  }
  const bool good = WIFEXITED(state_) && WEXITSTATUS(state_) == 0;
  return good ? OkStatus() : Failed("failed");
}

std::string Process::Output() const {
  std::ifstream file(log_);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Status Process::Failed(std::string_view what) const {
  const std::string output = Output();
  return Unavailable(name_, " ", what, "; it said: ",
                     output.substr(output.size() - std::min(output.size(), kShownBytes)));
}

}  // namespace quire::bench
