// SPDX-License-Identifier: Apache-2.0
//
// ChildProcess: a program run by a test. Its standard output is a pipe that the test reads. Its
// standard error goes to a file, so that neither can block the other. The destructor kills a child
// that still runs. Thread-safety: none.
#ifndef QUIRE_TESTS_KIT_CHILD_PROCESS_H_
#define QUIRE_TESTS_KIT_CHILD_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/kit/temp_dir.h"

extern char** environ;

namespace quire::testing {

class ChildProcess {
 public:
  /// Starts the program at `path` with `args`; its standard error goes to the file `stderr_path`.
  ChildProcess(std::string path, std::vector<std::string> args, std::string stderr_path)
      : stderr_path_(std::move(stderr_path)) {
    int fds[2];
    // Keeps children that other threads start meanwhile from holding it open.
    if (pipe2(fds, O_CLOEXEC) != 0) throw std::runtime_error("cannot make a pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_path_.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<char*> argv = {path.data()};
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    const int failed = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    stdout_ = fdopen(fds[0], "r");
    if (failed != 0) throw std::runtime_error("cannot start " + path);
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      Signal(SIGKILL);
      Wait();
    }
    fclose(stdout_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The next line of standard output without its end; blocks for it. False at the end.
  bool ReadLine(std::string* line) {
    line->clear();
    int c = fgetc(stdout_);
    if (c == EOF) return false;
    for (; c != EOF && c != '\n'; c = fgetc(stdout_)) line->push_back(static_cast<char>(c));
    return true;
  }
  /// Reads the rest of standard output.
  std::string ReadAll() {
    std::string text;
    for (int c = fgetc(stdout_); c != EOF; c = fgetc(stdout_)) text += static_cast<char>(c);
    return text;
  }
  void Signal(int signal) { kill(pid_, signal); }
  pid_t pid() const { return pid_; }
  /// Stops it until SIGCONT. Returns once none of its threads runs: after a mere signal it could
  /// still answer.
  void Stop() {
    Signal(SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  /// Waits for its end. Returns the exit code, or minus the signal that ended it.
  int Wait() {
    int state = 0;
    waitpid(pid_, &state, 0);
    pid_ = -1;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }
  /// Returns its standard error so far.
  std::string Stderr() const {
    std::ifstream file(stderr_path_);
    return std::string((std::istreambuf_iterator<char>(file)), {});
  }

 private:
  const std::string stderr_path_;
  pid_t pid_ = -1;
  FILE* stdout_ = nullptr;
};

/// Result of a child that ran to its end.
struct ChildResult {
  int exit_code = 0;
  std::string out;
  std::string err;
};
inline ChildResult RunChild(std::string path, std::vector<std::string> args) {
  const TempDir directory;
  ChildProcess child(std::move(path), std::move(args), directory / "stderr");
  ChildResult result;
  result.out = child.ReadAll();
  result.exit_code = child.Wait();
  result.err = child.Stderr();
  return result;
}

}  // namespace quire::testing

#endif  // QUIRE_TESTS_KIT_CHILD_PROCESS_H_
