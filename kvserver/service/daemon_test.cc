// SPDX-License-Identifier: Apache-2.0
//
// quired as a process: starting, serving over gRPC, failing to start, stopping on signals.
#include "kvserver/service/daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "common/transport/grpc_transport.h"
#include "common/wire/convert.h"
#include "kvserver/service/log.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/store.pb.h"
#include "tests/kit/temp_dir.h"

extern char** environ;

namespace quire::kvserver {
namespace {

using ::testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A quired process; killed at destruction if it still runs.
class Quired {
 public:
  Quired(std::vector<std::string> args, const std::string& stderr_path)
      : stderr_path_(stderr_path) {
    int pipe_fds[2];
    EXPECT_EQ(pipe(pipe_fds), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, stderr_path.c_str(),
                                     O_WRONLY | O_CREAT | O_TRUNC, 0600);
    args.insert(args.begin(), "quired");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, QUIRED_PATH, &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    stdout_ = fdopen(pipe_fds[0], "r");
  }
  ~Quired() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    fclose(stdout_);
  }
  /// Blocks until the process says where it listens, or ends; empty then.
  std::string Address() {
    char line[512] = "";
    if (fgets(line, sizeof line, stdout_) == nullptr) return "";
    const std::string text(line);
    const std::string prefix = "quired listening on ";
    return text.rfind(prefix, 0) == 0 ? text.substr(prefix.size(), text.size() - prefix.size() - 1)
                                      : "";
  }
  void Signal(int signal) { kill(pid_, signal); }
  /// The exit code, or minus the signal that ended it.
  int Wait() {
    int state = 0;
    waitpid(pid_, &state, 0);
    pid_ = 0;
    return WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
  }
  std::string Stderr() const { return ReadFile(stderr_path_); }

 private:
  const std::string stderr_path_;
  pid_t pid_ = 0;
  FILE* stdout_ = nullptr;
};

class QuiredTest : public ::testing::Test {
 protected:
  std::unique_ptr<Quired> Run(std::vector<std::string> args) {
    return std::make_unique<Quired>(std::move(args), dir_ / "stderr");
  }
  std::vector<std::string> Args(const std::string& listen = "127.0.0.1:0") {
    return {"--data-dir", dir_ / "data", "--dram-bytes", "8MiB", "--listen", listen};
  }
  Status Call(const std::string& address, std::string_view method, CallMessage* reply) {
    auto transport = GrpcTransport::Create({.address = address});
    EXPECT_TRUE(transport.ok());
    return (*transport)->Call(method, {}, reply, {.timeout = std::chrono::seconds(60)});
  }
  /// Ends with a code other than 0 and says `words` on standard error.
  void ExpectFailure(std::vector<std::string> args, const std::string& words) {
    const auto quired = Run(std::move(args));
    EXPECT_EQ(quired->Address(), "");
    EXPECT_GT(quired->Wait(), 0);
    EXPECT_THAT(quired->Stderr(), HasSubstr(words));
  }

  quire::testing::TempDir dir_;
};

TEST_F(QuiredTest, ServesUntilASignalAndExitsCleanly) {
  for (const int signal : {SIGTERM, SIGINT}) {
    auto args = Args();
    args.insert(args.end(), {"--port-file", dir_ / "port"});
    const auto quired = Run(args);
    const std::string address = quired->Address();
    ASSERT_NE(address, "") << quired->Stderr();
    EXPECT_EQ("127.0.0.1:" + ReadFile(dir_ / "port"), address + "\n");
    CallMessage reply;
    ASSERT_TRUE(Call(address, "grpc.health.v1.Health/Check", &reply).ok());
    EXPECT_EQ(reply.control, "\x08\x01");
    ASSERT_TRUE(Call(address, "quire.v1.Admin/Stats", &reply).ok());
    v1::StatsReply stats;
    ASSERT_TRUE(stats.ParseFromString(reply.control));
    EXPECT_GT(stats.counters_size(), 0);
    EXPECT_EQ(Call(address, "quire.v1.Store/Fetch", &reply).code(), StatusCode::kInvalidArgument);
    quired->Signal(signal);
    EXPECT_EQ(quired->Wait(), 0);
    EXPECT_THAT(quired->Stderr(), HasSubstr("info stopped"));
  }
}

TEST_F(QuiredTest, ReadsAConfigFile) {
  const std::string config = dir_ / "quired.ini";
  std::ofstream(config) << "data-dir = \"" << (dir_ / "data") << "\"\n"
                        << "listen = \"127.0.0.1:0\"\ndram-bytes = 8MiB\n"
                        << "tenants = [\"default\", \"team-b\"]\ndurability = \"memory\"\n";
  const auto quired = Run({"--config", config});
  ASSERT_NE(quired->Address(), "") << quired->Stderr();
  quired->Signal(SIGTERM);
  EXPECT_EQ(quired->Wait(), 0);
}

TEST_F(QuiredTest, FailsToStartWithAReason) {
  const std::string config = dir_ / "bad.ini";
  std::ofstream(config) << "data-dir = \"x\"\nno-such-key = 3\n";
  ExpectFailure({"--config", config}, "no-such-key");
  ExpectFailure({"--config", dir_ / "missing.ini"}, "missing.ini");
  ExpectFailure({}, "--data-dir");
  ExpectFailure({"--data-dir", dir_ / "d", "--dram-bytes", "lots"}, "--dram-bytes");
  ExpectFailure({"--data-dir", dir_ / "d", "--idle-seconds", "0"}, "--idle-seconds");
  ExpectFailure({"--data-dir", dir_ / "d", "--tenants", "a/b"}, "a/b");
  std::ofstream(dir_ / "file") << "not a directory";
  ExpectFailure({"--data-dir", dir_ / "file", "--listen", "127.0.0.1:0"}, dir_ / "file");
  ExpectFailure({"--data-dir", "/proc/quire", "--listen", "127.0.0.1:0"}, "/proc/quire");
}

TEST_F(QuiredTest, ATakenPortIsNamed) {
  const auto first = Run(Args());
  const std::string address = first->Address();
  ASSERT_NE(address, "") << first->Stderr();
  Quired second({"--data-dir", dir_ / "other", "--dram-bytes", "8MiB", "--listen", address},
                dir_ / "stderr2");
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Stderr(), HasSubstr("cannot listen on " + address));
}

TEST(LogTest, LinesAreOneLineAndQuoted) {
  EXPECT_EQ(LogLine(1'700'000'000'000'042, "info", "listening",
                    {{"address", "127.0.0.1:1"}, {"dir", "a b\n\"c\""}, {"none", ""}}),
            "2023-11-14T22:13:20.000042Z info listening address=127.0.0.1:1 "
            "dir=\"a b \\\"c\\\"\" none=\"\"");
}

}  // namespace
}  // namespace quire::kvserver
