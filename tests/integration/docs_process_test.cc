// SPDX-License-Identifier: Apache-2.0
//
// quire docs: files to documents and back, with a tiny model, in this process and at a worker.
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gpuworker/text/tokenizer.h"
#include "tests/integration/quire_fixture.h"
#include "tests/kit/paths.h"
#include "tests/kit/tiny_model.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::ChildResult;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint32_t kContext = 2048;
/// Tokens of a segment, as `quire` divides documents.
constexpr uint64_t kSegmentTokens = 256;

class DocsTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    const std::string file = QUIRE_SOURCE_DIR "/tests/data/golden/text/llama3.json";
    const auto tokenizer = worker::Tokenizer::Load(file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    testing::WriteTinyModel(
        model_.path(),
        {.vocab_size = static_cast<uint32_t>(tokenizer->vocab_size()), .max_positions = kContext});
    std::filesystem::copy_file(file, model_ / "tokenizer.json");
    StartServer();
  }
  void Write(const std::string& path, const std::string& bytes) {
    const std::filesystem::path file(dir_ / path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  /// `count` paragraphs of words.
  static std::string Paragraphs(int count, const std::string& word) {
    std::string text;
    for (int i = 0; i < count; ++i) text += word + " " + std::to_string(i) + " goes on.\n\n";
    return text;
  }
  std::vector<std::string> AddArgs(const std::vector<std::string>& more) {
    std::vector<std::string> args = {"docs", "add", dir_ / "book", "--collection", "handbook"};
    if (worker_ == nullptr) args.insert(args.end(), {"--model", model_.path()});
    if (worker_ != nullptr) args.insert(args.end(), {"--worker", worker_address_});
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  json Add(const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = AddArgs(more);
    args.insert(args.begin(), {"--server", address_});
    args.push_back("--json");
    const ChildResult result = testing::RunChild(Binary("quire"), args);
    return json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  }
  void StartWorker() {
    worker_ = std::make_unique<testing::ChildProcess>(
        Binary("quire"),
        std::vector<std::string>{"--server", address_, "worker", "--model", model_.path(),
                                 "--listen", "127.0.0.1:0", "--json"},
        dir_ / "worker.err");
    std::string line;
    ASSERT_TRUE(worker_->ReadLine(&line)) << worker_->Stderr();
    worker_address_ = json::parse(line)["listening"];
  }
  void WriteBook() {
    Write("book/intro.md", "# Intro\n\n" + Paragraphs(100, "Intro"));
    Write("book/pumps/red.html", "<h1>Red</h1><script>x</script><p>A red pump &amp; more.");
    Write("book/notes.txt", Paragraphs(5, "Note"));
  }
  static std::vector<std::string> Names(const json& documents) {
    std::vector<std::string> names;
    for (const json& document : documents) names.push_back(document["document"]);
    return names;
  }

  testing::TempDir model_;
  std::unique_ptr<testing::ChildProcess> worker_;
  std::string worker_address_;
};

class DocsAddTest : public DocsTest, public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    DocsTest::SetUp();
    if (GetParam()) StartWorker();
  }
};
INSTANTIATE_TEST_SUITE_P(Places, DocsAddTest, ::testing::Bool(),
                         [](const auto& place) { return place.param ? "AtAWorker" : "Here"; });

TEST_P(DocsAddTest, ASecondRunComputesNothingAndAChangedFileOnlyItsEnd) {
  WriteBook();
  const json first =
      Add({"--tag", "team=ops", "--tag", "year=2026", "--ttl", "30d", "--jobs", "1"});
  EXPECT_THAT(Names(first["added"]), ElementsAre("handbook/intro.md@1", "handbook/notes.txt@1",
                                                 "handbook/pumps:red.html@1"))
      << first;
  EXPECT_THAT(first["refused"], IsEmpty());
  const json second = Add({"--tag", "team=ops", "--tag", "year=2026", "--ttl", "30d"});
  EXPECT_THAT(second["added"], IsEmpty()) << second;
  EXPECT_EQ(second["unchanged"].size(), 3u);
  Write("book/intro.md", "# Intro\n\n" + Paragraphs(100, "Intro") + "One more.\n");
  const json third = Add();
  ASSERT_THAT(Names(third["added"]), ElementsAre("handbook/intro.md@2")) << third;
  EXPECT_EQ(third["unchanged"].size(), 2u);
  const uint64_t whole = first["added"][0]["tokens"].get<uint64_t>() / kSegmentTokens;
  EXPECT_GT(whole, 0u);
  EXPECT_EQ(third["added"][0]["reused_tokens"], whole * kSegmentTokens);
}

TEST_P(DocsAddTest, BadFilesAreRefusedAndTheOthersAdded) {
  WriteBook();
  Write("book/picture.png", "\x89PNG\r\n\x1A\n");
  Write("book/latin.txt", "caf\xE9");
  Write("book/empty.txt", "");
  Write("book/long.txt", Paragraphs(1000, "Long"));
  const json report = Add();
  EXPECT_EQ(report["added"].size(), 3u) << report;
  std::string refused;
  for (const json& file : report["refused"]) {
    refused += file["path"].get<std::string>() + ": " + file["message"].get<std::string>() + "\n";
  }
  EXPECT_EQ(report["refused"].size(), 4u) << refused;
  EXPECT_THAT(refused, HasSubstr("a PNG image"));
  EXPECT_THAT(refused, HasSubstr("latin.txt: not UTF-8 at byte 3 (0xE9)"));
  EXPECT_THAT(refused, HasSubstr("empty.txt: empty"));
  EXPECT_THAT(refused, HasSubstr("more than the model's context of 2048; --split makes parts"));
  EXPECT_EQ(QuireJson({"docs", "ls"})["documents"].size(), 3u);
  EXPECT_THAT(QuireJson({"docs", "search", "--where", "state!=ready"})["documents"], IsEmpty())
      << "nothing is half stored";
}

TEST_P(DocsAddTest, ALongDocumentBecomesPartsThatAreKnownAgain) {
  Write("book/long.txt", Paragraphs(600, "Long"));
  const json first = Add({"--split"});
  const auto names = Names(first["added"]);
  ASSERT_GE(names.size(), 2u) << first;
  EXPECT_EQ(names[0], "handbook/long.txt#1@1");
  EXPECT_EQ(first["added"][1]["tags"]["split.part"], 2);
  EXPECT_EQ(first["added"][1]["tags"]["split.parts"], names.size());
  EXPECT_EQ(Add({"--split"})["unchanged"].size(), names.size());
  Write("book/long.txt", Paragraphs(5, "Short"));
  EXPECT_THAT(Names(Add({"--split"})["added"]), ElementsAre("handbook/long.txt@1"));
  EXPECT_THAT(Names(QuireJson({"docs", "ls"})["documents"]), ElementsAre("handbook/long.txt@1"));
}

TEST_F(DocsTest, DocumentsAreFoundShownTaggedAndFollowed) {
  WriteBook();
  Add({"--tag", "team=ops"});
  EXPECT_EQ(QuireJson({"docs", "tag", "handbook/intro.md", "--tag", "level=3", "--remove",
                       "team"})["documents"][0]["tags"],
            json({{"level", 3}}));
  EXPECT_THAT(Names(QuireJson({"docs", "search", "--where", "team=ops and tokens>0"})["documents"]),
              ElementsAre("handbook/notes.txt@1", "handbook/pumps:red.html@1"));
  EXPECT_THAT(Names(QuireJson({"docs", "search", "--where", "level>=2", "--newest", "--limit",
                               "1"})["documents"]),
              ElementsAre("handbook/intro.md@1"));
  const ChildResult unknown = Quire({"docs", "search", "--where", "colour=red"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("colour"));

  const json shown = QuireJson({"docs", "show", "handbook/pumps:red.html"});
  EXPECT_EQ(shown["ingest"]["reader"], "html") << shown;
  EXPECT_EQ(shown["ingest"]["tokens"], shown["tokens"]);
  EXPECT_EQ(shown["source"], std::filesystem::canonical(dir_ / "book/pumps/red.html").string());
  EXPECT_THAT(Quire({"docs", "warm", "handbook/intro.md"}).out, HasSubstr("segments in DRAM"));

  Write("book/notes.txt", "Other notes.\n");
  Add();
  EXPECT_EQ(QuireJson({"docs", "latest", "handbook/notes.txt@1"})["documents"][0]["latest"], true);
  EXPECT_EQ(QuireJson({"docs", "get", "handbook/notes.txt"})["version"], 1);
  const json history = QuireJson({"docs", "history", "handbook/notes.txt"});
  EXPECT_EQ(history["documents"].size(), 2u) << history;
  EXPECT_GE(history["events"].size(), 4u) << history;
  const ChildResult watched = Quire({"docs", "watch", "--from", "0", "--count", "3", "--json"});
  EXPECT_EQ(std::count(watched.out.begin(), watched.out.end(), '\n'), 3) << watched.out;
  EXPECT_THAT(watched.err, HasSubstr("--from 3"));
  EXPECT_EQ(QuireJson({"docs", "rm", "handbook/notes.txt"})["documents"], 2);
  EXPECT_EQ(QuireJson({"docs", "invalidate", "handbook/intro.md"})["documents"], 1);
}

TEST_F(DocsTest, AWorkerTakesMoreIngestsThanItHasRoomFor) {
  StartWorker();
  for (int i = 0; i < 50; ++i) {
    Write("book/" + std::to_string(100 + i) + ".txt", Paragraphs(3, std::to_string(i)));
  }
  const json report = Add({"--jobs", "50"});
  EXPECT_EQ(report["added"].size(), 50u) << report;
  EXPECT_EQ(Add({"--jobs", "50"})["unchanged"].size(), 50u);
}

TEST_F(DocsTest, FilesThatAreGoneStayUntilTheyArePruned) {
  WriteBook();
  Add();
  std::filesystem::remove(dir_ / "book/notes.txt");
  EXPECT_THAT(Add()["pruned"], IsEmpty());
  EXPECT_EQ(QuireJson({"docs", "ls"})["documents"].size(), 3u);
  EXPECT_EQ(Add({"--prune", "--include", "*.md"})["pruned"].size(), 1u);
  EXPECT_THAT(Names(QuireJson({"docs", "ls"})["documents"]),
              ElementsAre("handbook/intro.md@1", "handbook/pumps:red.html@1"));
}

TEST_F(DocsTest, AStoppedRunGoesOnWhereItWas) {
  for (int i = 0; i < 40; ++i) {
    Write("book/" + std::to_string(100 + i) + ".txt", Paragraphs(100, std::to_string(i)));
  }
  std::vector<std::string> args = AddArgs({"--json"});
  args.insert(args.begin(), {"--server", address_});
  testing::ChildProcess add(Binary("quire"), args, dir_ / "add.err");
  while (QuireJson({"docs", "ls"})["documents"].size() < 3) {
  }
  add.Signal(SIGINT);
  const json stopped = json::parse(add.ReadAll(), nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(add.Wait(), 1);
  EXPECT_THAT(add.Stderr(), HasSubstr("the same command goes on from here"));
  EXPECT_EQ(stopped["error"]["code"], "CANCELLED") << stopped;
  EXPECT_GT(stopped["left"], 0);
  const json rest = Add();
  EXPECT_EQ(rest["unchanged"].size(), stopped["added"].size()) << rest;
  EXPECT_EQ(rest["added"].size() + rest["unchanged"].size(), 40u);
}

}  // namespace
}  // namespace quire
