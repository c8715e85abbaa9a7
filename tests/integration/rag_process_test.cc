// SPDX-License-Identifier: Apache-2.0
//
// The example as its README runs it: a server, a worker and the service, with the bundled model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/quire_fixture.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using ::testing::HasSubstr;

class RagProcessTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    StartServer();
    worker_ = std::make_unique<testing::ChildProcess>(
        Binary("quire"),
        std::vector<std::string>{"--server", address_, "worker", "--model", QUIRE_BUNDLED_MODEL,
                                 "--listen", "127.0.0.1:0", "--json"},
        dir_ / "worker.err");
    std::string line;
    ASSERT_TRUE(worker_->ReadLine(&line)) << worker_->Stderr();
    const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(ready.is_object()) << line;
    worker_address_ = ready.value("listening", "");
  }
  void TearDown() override {
    worker_->Signal(SIGTERM);
    EXPECT_EQ(worker_->Wait(), 0) << worker_->Stderr();
  }
  /// Lines that the service answers `commands` with.
  std::vector<std::string> Serve(const std::vector<std::string>& commands) {
    std::ofstream file(dir_ / "commands");
    for (const std::string& command : commands) file << command << "\n";
    file.close();
    const testing::ChildResult result =
        testing::RunChild("/bin/sh", {"-c", Binary("rag") + " " + address_ + " " + worker_address_ +
                                                " < " + std::string(dir_ / "commands")});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    std::vector<std::string> lines;
    std::istringstream out(result.out);
    for (std::string line; std::getline(out, line);) lines.push_back(line);
    return lines;
  }
  std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / name) << text;
    return dir_ / name;
  }

  std::unique_ptr<testing::ChildProcess> worker_;
  std::string worker_address_;
};

TEST_F(RagProcessTest, DocumentsAreAddedAndAQuestionGoesOverAllOfThem) {
  const std::string nash = Write(
      "nash.txt",
      "Document 1: Reports from Walbury\nThe path of Crayfield opened the lonely road. Hector Nash "
      "has instrument zither. A table was beyond the narrow church and the wooden ship.\n");
  const std::string yates =
      Write("yates.txt",
            "Document 2: Ledger from Greengate\nIn Elmford the loud shop left a dusty village. "
            "Freda Yates has office Bromford. The familiar kettle faced the narrow crowd.\n");
  const auto lines =
      Serve({"ask who?", "add " + nash, "add " + yates, "add " + nash, "list",
             "ask Hector Nash has instrument", "method full", "ask Freda Yates has office",
             "method blend", "remove nash.txt", "list", "sing"});
  ASSERT_EQ(lines.size(), 12u) << ::testing::PrintToString(lines);
  EXPECT_THAT(lines[0], HasSubstr("error: there are no documents"));
  EXPECT_EQ(lines[1], "added nash.txt");
  EXPECT_EQ(lines[2], "added yates.txt");
  EXPECT_EQ(lines[3], "unchanged nash.txt");
  EXPECT_EQ(lines[4], "nash.txt yates.txt");
  EXPECT_THAT(lines[5], HasSubstr("zither"));
  EXPECT_EQ(lines[6], "using full");
  EXPECT_THAT(lines[7], HasSubstr("Bromford"));
  EXPECT_THAT(lines[8], HasSubstr("error: no method 'blend'"));
  EXPECT_EQ(lines[9], "removed nash.txt");
  EXPECT_EQ(lines[10], "yates.txt");
  EXPECT_THAT(lines[11], HasSubstr("error: commands are"));
}

}  // namespace
}  // namespace quire
