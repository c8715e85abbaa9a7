// SPDX-License-Identifier: Apache-2.0
//
// QuireFixture: the `quire` program as child processes: a server, and commands run against it.
#ifndef QUIRE_TESTS_INTEGRATION_QUIRE_FIXTURE_H_
#define QUIRE_TESTS_INTEGRATION_QUIRE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::testing {

class QuireFixture : public ::testing::Test {
 protected:
  static std::string Binary(const std::string& name) {
    return std::string(QUIRE_BINARY_DIR) + "/bin/" + name;
  }

  /// Starts it with `flags` in addition to those for paths.
  void StartServer(const std::vector<std::string>& flags = {},
                   const std::string& listen = "127.0.0.1:0") {
    std::vector<std::string> args = {"serve", "--data-dir",   dir_ / "data", "--listen",
                                     listen,  "--dram-bytes", "128MiB"};
    args.insert(args.end(), flags.begin(), flags.end());
    server_ = std::make_unique<ChildProcess>(Binary("quire"), args, dir_ / "serve.err");
    std::string line;
    const std::string prefix = "quired listening on ";
    ASSERT_TRUE(server_->ReadLine(&line) && line.starts_with(prefix)) << line << server_->Stderr();
    address_ = line.substr(prefix.size());
  }
  /// Ends the server with `signal`. Returns its exit code.
  int StopServer(int signal) {
    server_->Signal(signal);
    const int code = server_->Wait();
    server_.reset();
    return code;
  }
  /// Runs a command against the server.
  ChildResult Quire(std::vector<std::string> args) {
    static const std::set<std::string> kLocal = {"bench", "demo", "fsck",
                                                 "serve", "sim",  "torture"};
    // A worker has a separate store.
    const bool by_worker = std::ranges::find(args, "--worker") != args.end();
    if (!by_worker && !kLocal.contains(args.front())) {
      args.insert(args.begin(), {"--server", address_});
    }
    return RunChild(Binary("quire"), std::move(args));
  }
  /// The same with --json. Returns the parsed line, or null if it is not JSON.
  nlohmann::json QuireJson(std::vector<std::string> args) {
    args.push_back("--json");
    const ChildResult result = Quire(std::move(args));
    EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 1)
        << result.out << result.err;
    return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }

  TempDir dir_;
  std::string address_;
  std::unique_ptr<ChildProcess> server_;
};

}  // namespace quire::testing

#endif  // QUIRE_TESTS_INTEGRATION_QUIRE_FIXTURE_H_
