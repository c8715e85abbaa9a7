// SPDX-License-Identifier: Apache-2.0
//
// The `quire` program as processes, as people and scripts use it, with and without a server.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>
#include <thread>

#include "quire/client.h"
#include "quire/clock.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "tests/integration/command_help.h"
#include "tests/integration/quire_fixture.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/paths.h"

namespace quire {
namespace {

using testing::ChildResult;
using testing::ExpectHelpWithExamples;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RunChild;

/// Commands against a server that holds one document, `example`, put by the client library's
/// example.
class CliTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    StartServer();
    const ChildResult example = RunChild(Binary("client_example"), {address_});
    ASSERT_EQ(example.exit_code, 0) << example.err;
    EXPECT_EQ(example.out,
              "page 1 to slot 0\npage 2 to slot 1\npage 1 to slot 0\npage 7 to slot 1\n"
              "4 units for layer 0\n4 units for layer 1\n");
  }
  /// Runs commands concurrently.
  static void Together(const std::vector<std::vector<std::string>>& commands,
                       const std::function<void(std::vector<std::string>)>& run) {
    std::vector<std::thread> threads;
    for (const auto& command : commands) threads.emplace_back(run, command);
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(CliTest, ListsAreTablesOrOneJsonObject) {
  const ChildResult table = Quire({"ls"});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_THAT(table.out, HasSubstr("DOCUMENT           TOKENS"));
  EXPECT_THAT(table.out, HasSubstr("default/example@1     256  256.0 KiB"));

  const auto json = QuireJson({"docs", "list"});
  ASSERT_EQ(json["documents"].size(), 1u);
  EXPECT_EQ(json["documents"][0]["name"], "example");
  EXPECT_EQ(json["documents"][0]["tokens"], 256);
  EXPECT_EQ(QuireJson({"docs", "get", "example"})["chain_tip"], json["documents"][0]["chain_tip"]);
  EXPECT_THAT(QuireJson({"ls", "--collection", "empty"})["documents"], IsEmpty());
}

TEST_F(CliTest, StatShowsADocumentItsChainAndTheServer) {
  const auto json = QuireJson({"stat", "example"});
  EXPECT_EQ(json["pages"], 8);
  EXPECT_EQ(json["segments_on_ssd"], 1);
  EXPECT_EQ(QuireJson({"stat", json["chain_tip"].get<std::string>()})["tokens"], 256);
  EXPECT_THAT(QuireJson({"stat", "--counters"})["counters"].size(), ::testing::Gt(5u));
  EXPECT_EQ(Quire({"stat"}).exit_code, 2);
  EXPECT_EQ(Quire({"stat", "example", "--counters"}).exit_code, 2);
}

// A document that cannot be read whole is reported, and another put of it repairs it.
TEST_F(CliTest, ADocumentWithLostSegmentsSaysSoUntilItIsPutAgain) {
  EXPECT_THAT(Quire({"ls"}).out, Not(HasSubstr("STATE")));
  EXPECT_EQ(StopServer(SIGTERM), 0);
  ASSERT_TRUE(std::filesystem::remove(dir_ / "data/payload/00000000.vol"));
  StartServer();
  EXPECT_THAT(Quire({"ls"}).out, HasSubstr("1 segments lost: put it again"));
  EXPECT_EQ(QuireJson({"ls"})["documents"][0]["segments_lost"], 1);
  EXPECT_THAT(Quire({"stat", "example"}).out, HasSubstr("1 segments; put the document again"));
  EXPECT_EQ(QuireJson({"stat", "example"})["segments_lost"], 1);
  EXPECT_THAT(Quire({"stat", "--counters"}).out, HasSubstr("data_damaged since "));
  EXPECT_EQ(QuireJson({"stat", "--counters"})["degradations"][0]["reason"], "data_damaged");
  EXPECT_EQ(RunChild(Binary("client_example"), {address_}).exit_code, 0);
  EXPECT_THAT(Quire({"ls"}).out, Not(HasSubstr("STATE")));
  EXPECT_EQ(QuireJson({"stat", "example"})["segments_lost"], 0);
  EXPECT_THAT(QuireJson({"stat", "--counters"})["degradations"], IsEmpty());
}

TEST_F(CliTest, RmDeletesTheDocumentAndItsSegments) {
  const auto key = QuireJson({"stat", "example"})["chain_tip"].get<std::string>();
  const ChildResult refused = Quire({"rm", key});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("example"));  // The document that uses it.
  const auto deleted = QuireJson({"rm", "example"});
  EXPECT_EQ(deleted["documents"], 1);
  EXPECT_EQ(deleted["segments"], 1);
  EXPECT_EQ(Quire({"stat", key}).exit_code, 1);
}

// The keys are segments of their own, which an extra ties to the document. They have no short one.
TEST_F(CliTest, KeysOfARetrievalHeadAreStoredBesideTheDocumentAndGoWithIt) {
  const std::string document = "dossier-01.txt";
  ASSERT_EQ(Quire({"put", QUIRE_SOURCE_DIR "/models/recall-small/documents/" + document}).exit_code,
            0);
  for (int i = 0; i < 2; ++i) {
    const ChildResult asked = Quire({"ask", "--document", document, "--question",
                                     "Hector Nash has instrument", "--policy", "specontext"});
    EXPECT_THAT(asked.out, HasSubstr("zither")) << asked.err;
  }
  std::vector<std::string> extras;
  const auto shown = QuireJson({"docs", "show", document});
  for (const auto& extra : shown["extras"]) extras.push_back(extra["name"]);
  EXPECT_THAT(extras, ::testing::Contains("specontext.keys"));
  const auto tokens = QuireJson({"stat", document})["tokens"].get<uint64_t>();
  const auto uses = shown["page_uses"].get<std::vector<uint32_t>>();
  EXPECT_EQ(uses.size(), DivideRoundUp(tokens, shown["page_tokens"].get<uint64_t>()));
  EXPECT_THAT(uses, ::testing::Contains(::testing::Gt(0u)));
  EXPECT_THAT(Quire({"docs", "show", document}).out, HasSubstr("█"));
  EXPECT_EQ(QuireJson({"rm", document})["segments"].get<uint64_t>(),
            DivideRoundUp(tokens, 256) + tokens / 256);
  const ChildResult missing = Quire({"ask", "--document", "example", "--question", "q", "--draft",
                                     "/nonexistent", "--policy", "specontext"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent/config.json"));
}

// Every command accepts the name of a document as `ls` and `docs` print it, even a name that
// resembles an option.
TEST_F(CliTest, WhatIsListedIsAcceptedByEveryCommand) {
  const auto tip = QuireJson({"docs", "get", "example"})["chain_tip"].get<std::string>();
  const auto transport = ConnectGrpc(address_);
  ASSERT_TRUE(transport.ok()) << transport.status();
  const auto client = Client::Create({.transport = *transport});
  ASSERT_TRUE(client.ok()) << client.status();
  const std::vector<std::string> names = {"report@2026", "example@2", "-x", tip, "[a,b]", "@7"};
  for (const std::string& name : names) {
    const auto made = (*client)->RegisterDocument({.name = name}, *SegmentKey::FromHex(tip));
    ASSERT_TRUE(made.ok()) << made.status();
  }
  EXPECT_EQ(QuireJson({"docs", "get", "report@2026"})["name"], "report@2026");
  EXPECT_EQ(QuireJson({"docs", "get", "example", "--collection", "other"})["error"]["code"],
            "NOT_FOUND");
  EXPECT_EQ(Quire({"pin", "report@2026"}).out, "default/report@2026@1 is pinned\n");
  const auto listed = QuireJson({"ls"});
  for (const auto& document : listed["documents"]) {
    const auto text = document["document"].get<std::string>();
    EXPECT_THAT(Quire({"ls"}).out, HasSubstr(text));
    EXPECT_EQ(QuireJson({"docs", "get", text})["name"], document["name"]) << text;
    EXPECT_EQ(QuireJson({"stat", text})["tokens"], 256) << text;
    EXPECT_EQ(QuireJson({"pin", text})["documents"][0]["name"], document["name"]) << text;
    EXPECT_EQ(QuireJson({"unpin", text})["documents"][0]["name"], document["name"]) << text;
  }
  for (const std::string& name : names) {
    EXPECT_EQ(QuireJson({"rm", "default/" + name + "@1"})["documents"], 1) << name;
  }
  EXPECT_EQ(QuireJson({"ls"})["documents"].size(), 1u);
  EXPECT_EQ(QuireJson({"rm", "report@2026"})["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(QuireJson({"rm", std::string(64, 'a')})["error"]["code"], "NOT_FOUND");
}

// The user's time limit covers the whole command: all steps, retries and ways to connect.
TEST_F(CliTest, ACommandEndsAtItsTimeoutAlthoughTheServerIsStopped) {
  server_->Signal(SIGSTOP);
  const TimePoint start = SystemClock().Now();
  const auto run = [&](std::vector<std::string> args) {
    SCOPED_TRACE(::testing::PrintToString(args));
    args.insert(args.end(), {"--timeout", "2"});
    const ChildResult result = Quire(args);
    const Duration took = SystemClock().Now() - start;
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(address_));
    EXPECT_GE(took, std::chrono::milliseconds(1500)) << result.err;
    EXPECT_LT(took, std::chrono::seconds(8)) << result.err;
  };
  std::ofstream(dir_ / "text.txt") << "Some words.\n";
  Together({{"ls"},
            {"put", dir_ / "text.txt"},
            {"rm", "a", "b", "c"},
            {"stat", "example"},
            {"pin", "example"},
            {"docs", "get", "example"},
            {"collection", "ls"},
            {"ask", "--document", "example", "--question", "q"},
            {"ask", "--document", "example", "--question", "q", "--transport", "grpc"},
            {"ask", "--document", "example", "--question", "q", "--transport", "shm"},
            {"ask", "--document", "example", "--question", "q", "--transport", "ucx"}},
           run);
  server_->Signal(SIGCONT);
}

// Commands wait for a server that restarts. This includes the first request, and requests that must
// not be repeated.
TEST_F(CliTest, AServerThatIsDownForASecondIsWaitedFor) {
  const auto tip = QuireJson({"docs", "get", "example"})["chain_tip"].get<std::string>();
  const auto client = *Client::Create({.transport = *ConnectGrpc(address_)});
  ASSERT_TRUE(client->RegisterDocument({.name = "other"}, *SegmentKey::FromHex(tip)).ok());
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const std::string address = address_;  // The thread sets address_ anew.
  std::thread restart([this, address] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    StartServer({}, address);
  });
  std::ofstream(dir_ / "text.txt") << "Some words.\n";
  const auto run = [&](std::vector<std::string> args) {
    SCOPED_TRACE(::testing::PrintToString(args));
    args.insert(args.begin(), {"--server", address, "--timeout", "30"});
    const ChildResult result = RunChild(Binary("quire"), args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  };
  Together({{"ls"},
            {"put", dir_ / "text.txt"},
            {"rm", "other"},
            {"pin", "example"},
            {"collection", "set", "books", "--ttl", "7d"}},
           run);
  restart.join();
  const auto listed = Quire({"ls"}).out;
  EXPECT_THAT(listed, HasSubstr("default/example@1"));
  EXPECT_THAT(listed, HasSubstr("default/text.txt@1"));
  EXPECT_THAT(listed, Not(HasSubstr("default/other@1")));
}

TEST_F(CliTest, ACollectionIsSetReadAndListedAndSurvivesARestart) {
  EXPECT_THAT(Quire({"collection", "get", "books"}).out, HasSubstr("raw (the server's default)"));
  EXPECT_THAT(QuireJson({"collection", "ls"})["collections"], IsEmpty());
  const auto set = QuireJson({"collection", "set", "books", "--codec", "int8", "--ttl", "7d"});
  EXPECT_EQ(set["codec"], "int8");
  EXPECT_EQ(set["codec_is_default"], false);
  EXPECT_EQ(set["ttl_seconds"], 7 * 86400);
  EXPECT_THAT(Quire({"collection", "ls"}).out, HasSubstr("books       int8   7d"));
  EXPECT_EQ(StopServer(SIGKILL), -SIGKILL);
  StartServer();
  EXPECT_EQ(QuireJson({"collection", "get", "books"}), set);
  EXPECT_EQ(QuireJson({"collection", "set", "books", "--ttl", "none"})["ttl_seconds"], nullptr);
  EXPECT_EQ(QuireJson({"collection", "set", "books", "--codec", "default"})["codec"], "raw");
  EXPECT_THAT(QuireJson({"collection", "ls"})["collections"], IsEmpty());
  const ChildResult unknown = Quire({"collection", "set", "books", "--codec", "int7"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("int8"));  // Lists the known codecs.
}

TEST_F(CliTest, ATimeToLiveIsShownSurvivesARestartAndThenTheDocumentIsGone) {
  EXPECT_EQ(QuireJson({"docs", "get", "example"})["expires_unix_micros"], nullptr);
  QuireJson({"collection", "set", "default", "--ttl", "2h"});
  const auto document = QuireJson({"docs", "get", "example"});
  const int64_t expiry = document["expires_unix_micros"];
  EXPECT_EQ(expiry, document["created_unix_micros"].get<int64_t>() + 7'200'000'000);
  EXPECT_EQ(StopServer(SIGKILL), -SIGKILL);
  StartServer();
  EXPECT_EQ(QuireJson({"ls"})["documents"][0]["expires_unix_micros"], expiry);
  EXPECT_EQ(QuireJson({"stat", "example"})["expires_unix_micros"], expiry);
  EXPECT_THAT(Quire({"docs", "get", "example"}).out, HasSubstr("expires (UTC)  20"));

  // More than a second passes before the removal is visible.
  QuireJson({"collection", "set", "default", "--ttl", "1s"});
  while (QuireJson({"stat", "--counters"})["counters"]["documents_expired"] == 0) continue;
  EXPECT_EQ(QuireJson({"docs", "get", "example"})["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(QuireJson({"stat", document["chain_tip"].get<std::string>()})["error"]["code"],
            "NOT_FOUND");
}

TEST_F(CliTest, AnObjectIsPutReadAndRemoved) {
  const std::string file = dir_ / "block";
  const std::string bytes = std::string("a\0b\n", 4) + std::string(100'000, 'x');
  std::ofstream(file, std::ios::binary) << bytes;
  EXPECT_EQ(Quire({"object", "put", "kv/1", file}).out, "stored kv/1\n");
  EXPECT_EQ(Quire({"object", "put", "kv/1", file, "--persisted"}).out,
            "was stored already: kv/1\n");
  EXPECT_EQ(Quire({"object", "get", "kv/1"}).out, bytes);
  EXPECT_EQ(Quire({"object", "get", "kv/1", "--offset", "2", "--bytes", "3"}).out, "b\nx");
  EXPECT_EQ(QuireJson({"object", "get", "kv/1", "--output", dir_ / "copy"})["bytes"], bytes.size());
  std::ofstream(file, std::ios::binary) << "other";
  EXPECT_EQ(QuireJson({"object", "put", "kv/1", file})["differs"], true);
  EXPECT_EQ(QuireJson({"object", "stat", "kv/1", "kv/2"})["objects"][0]["bytes"], bytes.size());
  EXPECT_EQ(Quire({"object", "rm", "kv/1", "kv/2"}).out, "deleted 1 of 2 objects\n");
  EXPECT_EQ(QuireJson({"object", "get", "kv/1"})["error"]["code"], "NOT_FOUND");
  std::ofstream(file, std::ios::binary | std::ios::trunc).flush();
  EXPECT_EQ(QuireJson({"object", "put", "kv/1", file})["error"]["code"], "INVALID_ARGUMENT");
}

TEST_F(CliTest, AConversationIsFollowedPrefetchedAndReleased) {
  const auto gap = nlohmann::json::parse(Quire({"events", "--since", "0", "--json"}).out);
  EXPECT_EQ(gap["kind"], "GAP");
  const std::string turn = dir_ / "turn.txt";
  std::ofstream(turn) << std::string(600, 'a');
  EXPECT_EQ(QuireJson({"put", turn, "--keep", "31d"})["error"]["code"], "INVALID_ARGUMENT");
  const auto put =
      QuireJson({"put", turn, "--conversation", "agent-7", "--priority", "high", "--keep", "10m"});
  const uint64_t tokens = put["documents"][0]["tokens"];
  const auto brought = QuireJson({"conversation", "prefetch", "agent-7"});
  EXPECT_EQ(brought["segments"], DivideRoundUp(tokens, 256));
  EXPECT_EQ(brought["segments_in_dram"], brought["segments"]);
  EXPECT_GT(QuireJson({"stat", "--counters"})["counters"]["dram_bytes_raised"], 0);
  const ChildResult events =
      Quire({"events", "--since", std::to_string(gap["position"].get<uint64_t>()), "--json"});
  std::istringstream lines(events.out);
  uint64_t stored = 0;
  for (std::string line; std::getline(lines, line);) {
    if (nlohmann::json::parse(line)["kind"] == "STORED") ++stored;
  }
  EXPECT_EQ(stored, brought["segments"]) << events.out;
  EXPECT_THAT(events.err, HasSubstr("--since"));
  EXPECT_THAT(Quire({"events", "--list"}).out, HasSubstr("DRAM"));
  EXPECT_THAT(Quire({"conversation", "release", "agent-7"}).out, HasSubstr("segments leave first"));
  EXPECT_EQ(QuireJson({"conversation", "release", "agent-7"})["error"]["code"], "NOT_FOUND");
}

TEST_F(CliTest, ADocumentIsPinnedAndUnpinned) {
  EXPECT_EQ(Quire({"pin", "example"}).out, "default/example@1 is pinned\n");
  EXPECT_EQ(Quire({"pin", "example@1"}).out, "default/example@1 was pinned already\n");
  EXPECT_EQ(QuireJson({"stat", "--counters"})["counters"]["documents_pinned"], 1);
  const auto unpinned = QuireJson({"unpin", "example"})["documents"][0];
  EXPECT_EQ(unpinned["version"], 1);
  EXPECT_EQ(unpinned["was_pinned"], true);
  EXPECT_EQ(Quire({"unpin", "example"}).out, "default/example@1 was not pinned already\n");
}

TEST_F(CliTest, NothingToDoIsAFailureInTheSameWayEverywhere) {
  const std::string model = QUIRE_BUNDLED_MODEL;
  const std::string empty = dir_ / "empty.txt", folder = dir_ / "folder";
  std::ofstream(empty).flush();
  std::filesystem::create_directory(folder);
  const std::vector<std::vector<std::string>> all = {
      {"put", ""},
      {"put", empty},
      {"put", empty, "--name", ""},
      {"put", empty, "--collection", ""},
      {"put", empty, "--ttl", "0s"},
      {"put", "--token-ids", "", "--name", "a"},
      {"put", "--token-ids", "@" + empty, "--name", "a", "--model", model},
      {"ask", "--document", "", "--question", "q"},
      {"ask", "--document", "example", "--question", ""},
      {"ask", "--document", "example", "--question", " "},
      {"ask", "--document", "example", "--token-ids", ""},
      {"ask", "--document", "example", "--token-ids", "@" + empty, "--worker", "127.0.0.1:1"},
      {"ask", "--document", "example", "--question", "q", "--max-new-tokens", "0"},
      {"ask", "--document", "example", "--question", "q", "--budget", "0"},
      {"ask", "--document", "example", "--question", "q", "--worker", ""},
      {"stat", ""},
      {"rm", ""},
      {"rm", "example", ""},
      {"pin", ""},
      {"unpin", ""},
      {"ls", "--collection", ""},
      {"docs", "list", "--collection", ""},
      {"docs", "get", ""},
      {"collection", "set", "", "--codec", "raw"},
      {"collection", "set", "c", "--codec", ""},
      {"collection", "get", ""},
      {"fsck", ""},
      {"fsck", folder},
      {"serve", "--data-dir", ""},
      {"worker", "--model", ""},
      {"worker", "--max-calls", "0"},
      {"demo", "--docs", ""},
      {"demo", "--docs", folder, "--model", model},
      {"demo", "--questions-per-document", "0"},
      {"torture", "crash", "--rounds", "0"},
      {"torture", "power", "--rounds", "0"},
      {"ls", "--tenant", ""},
      {"ls", "--timeout", "0"},
  };
  for (const auto& args : all) {
    SCOPED_TRACE(::testing::PrintToString(args));
    std::vector<std::string> with_json = args;
    with_json.push_back("--json");
    const ChildResult result = Quire(with_json);
    EXPECT_EQ(result.exit_code, 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr("quire: "));
    const auto json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(json.is_object() && json.contains("error")) << result.out;
  }
  EXPECT_EQ(QuireJson({"ls"})["documents"].size(), 1u) << "nothing of `rm example ''` was done";
}

TEST_F(CliTest, WhatWouldNotBeReadIsRefused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> all = {
      {{"ask", "--document", "example", "--question", "q", "--tau", "0.5"},
       "--tau is an option of"},
      {{"demo", "--key-rank", "5"}, "--key-rank is an option of the policy shadowkv"},
      {{"demo", "--questions-per-document", "3"}, "--questions-per-document is for texts without"},
      {{"demo", "--host-cache-bytes", "1000TiB"}, "--host-cache-bytes is 1099511627776000, more"},
      {{"ask", "--document", "example", "--question", "q", "--host-cache-bytes", "1000TiB"},
       "--host-cache-bytes is 1099511627776000, more than"},
      {{"worker", "--host-cache-bytes", "1000TiB"}, "--host-cache-bytes is 1099511627776000, more"},
      {{"worker", "--slot-bytes", "1000TiB"}, "--slot-bytes is 1099511627776000, more than"},
      {{"worker", "--device-memory", "1000TiB"}, "--device-memory is 1099511627776000, more than"},
      {{"worker", "--device-memory", "1KiB", "--listen", "127.0.0.1:0"},
       "leaves no slots within 1024"}};
  for (const auto& [args, words] : all) {
    const ChildResult result = Quire(args);
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr(words));
  }
  const auto key = QuireJson({"stat", "example"})["chain_tip"].get<std::string>();
  EXPECT_EQ(QuireJson({"docs", "get", "example"})["chain_tip"], key);
  const ChildResult kept = Quire({"rm", key, "--keep-segments"});
  EXPECT_EQ(kept.exit_code, 1);
  EXPECT_THAT(kept.err, HasSubstr("with --keep-segments only documents are deleted"));
}

TEST_F(CliTest, TextThatIsNoTextIsNamedWithItsByte) {
  EXPECT_THAT(Quire({"ask", "--document", "example", "--question", "Caf\xe9"}).err,
              HasSubstr("--question is not UTF-8 at byte 3"));
  EXPECT_THAT(Quire({"stat", "caf\xe9"}).err, HasSubstr("name is not UTF-8 at byte 3"));
  EXPECT_THAT(Quire({"rm", "c\xff/a"}).err, HasSubstr("collection is not UTF-8 at byte 1"));
  EXPECT_THAT(Quire({"ls", "--collection", "c\xff"}).err, HasSubstr("is not UTF-8 at byte 1"));
  std::ofstream(dir_ / "caf\xe9.txt") << "Some words.\n";
  const ChildResult put = Quire({"put", dir_ / "caf\xe9.txt"});
  EXPECT_EQ(put.exit_code, 1);
  EXPECT_THAT(put.err, HasSubstr("name is not UTF-8 at byte 3"));
}

// fsck and the server count the same unregistered segments of clients that died. They are no
// damage.
TEST_F(CliTest, FsckCountsWhatNoDocumentNamesAsTheServerDoes) {
  const auto client = *Client::Create({.transport = *ConnectGrpc(address_)});
  const auto stat = client->Stat(ContextRef(DocumentName{.name = "example"}));
  ASSERT_TRUE(stat.ok()) << stat.status();
  const KvSpec& spec = stat->context.spec;
  const std::vector<TokenId> tokens(spec.page_tokens, 5);
  Payload page;
  page.Append(std::vector<std::byte>(SegmentBytes(spec, 1)));
  ASSERT_TRUE(client->PutSegment(spec, kRootKey, tokens, page).ok());
  std::map<std::string, uint64_t> counters;
  const auto stats = client->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  for (const auto& [name, value] : stats->counters) counters[name] = value;
  EXPECT_EQ(counters["segments_cached"], 1u);
  EXPECT_EQ(counters["ssd_bytes_cached"], page.size_bytes());
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const ChildResult fsck = RunChild(Binary("quire"), {"fsck", dir_ / "data", "--json"});
  EXPECT_EQ(fsck.exit_code, 0) << fsck.err;
  const auto report = nlohmann::json::parse(fsck.out, nullptr, /*allow_exceptions=*/false);
  EXPECT_EQ(report["clean"], true);
  EXPECT_EQ(report["segments"], counters["segments"]);
  EXPECT_EQ(report["cached_segments"], counters["segments_cached"]);
  EXPECT_EQ(report["cached_bytes"], counters["ssd_bytes_cached"]);
  EXPECT_EQ(report["payload_bytes"], counters["ssd_bytes_used"]);
  // Only a need for room, or a delete, reclaims it.
  StartServer();
  EXPECT_EQ(Quire({"rm", "example"}).exit_code, 0);
  const auto left = QuireJson({"stat", "--counters"})["counters"];
  EXPECT_EQ(left["ssd_bytes_cached"], counters["ssd_bytes_cached"]);
  EXPECT_EQ(left["ssd_bytes_used"], counters["ssd_bytes_cached"]);
}

// Promise 3 for the registry: a pin belongs to the document, not to the process.
TEST_F(CliTest, APinIsKeptOverARestart) {
  EXPECT_EQ(Quire({"pin", "example"}).exit_code, 0);
  EXPECT_EQ(StopServer(SIGKILL), -SIGKILL);
  StartServer();
  EXPECT_EQ(Quire({"pin", "example"}).out, "default/example@1 was pinned already\n");
}

TEST_F(CliTest, AnUnknownDocumentIsNamed) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"stat", "nope"},
                                               {"docs", "get", "nope"},
                                               {"rm", "nope"},
                                               {"pin", "nope"}}) {
    const ChildResult result = Quire(args);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr("nope")) << args[0];
    EXPECT_THAT(result.out, IsEmpty());
  }
  EXPECT_EQ(QuireJson({"stat", "nope"})["error"]["code"], "NOT_FOUND");
}

TEST_F(CliTest, AnUnknownTenantIsNamed) {
  const ChildResult result = Quire({"ls", "--tenant", "nobody"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("nobody"));
}

TEST_F(CliTest, AServerEndsCleanlyAndThenItIsSaidHowToStartOne) {
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const ChildResult result = Quire({"ls", "--timeout", "1"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr(address_));
  EXPECT_THAT(result.err,
              HasSubstr("Is quired running? Start it with: quire serve --listen " + address_));
  EXPECT_EQ(QuireJson({"ls", "--timeout", "1"})["error"]["code"], "UNAVAILABLE");
}

TEST_F(CliTest, AServerThatCannotWriteIsNotTakenForOneThatIsNotThere) {
  ASSERT_TRUE(std::filesystem::remove(dir_ / "data/payload/00000000.vol"));
  std::ofstream(dir_ / "text.txt") << "Some words.\n";
  const ChildResult result = Quire({"put", dir_ / "text.txt", "--timeout", "2"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("restart the server"));
  EXPECT_THAT(result.err, Not(HasSubstr("Is quired running")));
}

TEST_F(CliTest, AWorkerThatCannotBeReachedIsNamedWithTheRemedy) {
  const ChildResult result = Quire(
      {"ask", "--document", "example", "--question", "q", "--worker", "unix:/nonexistent/worker"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err,
              HasSubstr("Start one with: quire worker --listen unix:/nonexistent/worker"));
}

TEST_F(CliTest, AnEmptyWorkerAddressIsNotThisProcess) {
  const ChildResult result =
      Quire({"ask", "--document", "example", "--question", "q", "--worker", ""});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("--worker is empty"));
}

TEST(CliServeTest, OptionsComeFromTheConfigFileUnlessTheyAreGiven) {
  const testing::TempDir dir;
  const std::string quire = std::string(QUIRE_BINARY_DIR) + "/bin/quire";
  std::ofstream(dir / "q.ini") << "listen = \"not an address\"\ndram-bytes = 64MiB\ndata-dir = \""
                               << dir / "data"
                               << "\"\ntenant-ssd-quota = [\"default=1GiB\"]\n";
  testing::ChildProcess server(
      quire, {"serve", "--config", dir / "q.ini", "--listen", "127.0.0.1:0"}, dir / "err");
  std::string line;
  ASSERT_TRUE(server.ReadLine(&line)) << server.Stderr();
  EXPECT_THAT(line, HasSubstr("quired listening on 127.0.0.1:"));
  server.Signal(SIGINT);
  EXPECT_EQ(server.Wait(), 0);
  EXPECT_TRUE(std::filesystem::is_directory(dir / "data"));

  testing::ChildProcess json(
      quire, {"serve", "--config", dir / "q.ini", "--listen", "127.0.0.1:0", "--json"},
      dir / "err");
  ASSERT_TRUE(json.ReadLine(&line)) << json.Stderr();
  const auto ready = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(ready.is_object()) << line;
  EXPECT_THAT(ready["listening"].get<std::string>(), ::testing::StartsWith("127.0.0.1:"));
  EXPECT_EQ(ready["data_dir"], dir / "data");
  json.Signal(SIGTERM);
  EXPECT_EQ(json.Wait(), 0);
  EXPECT_EQ(json.ReadAll(), "");

  std::ofstream(dir / "quota.ini") << "data-dir = x\ntenant-ssd-quota = [\"default\"]\n";
  const ChildResult quota = RunChild(quire, {"serve", "--config", dir / "quota.ini"});
  EXPECT_EQ(quota.exit_code, 2);
  EXPECT_THAT(quota.err, HasSubstr("write TENANT=SIZE"));

  std::ofstream(dir / "bad.ini") << "no-such-option = 1\n";
  const ChildResult bad = RunChild(quire, {"serve", "--config", dir / "bad.ini"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("no-such-option"));
}

TEST_F(CliTest, APortOrDirectoryThatIsTakenIsNamed) {
  const ChildResult port =
      RunChild(Binary("quire"), {"serve", "--data-dir", dir_ / "other", "--listen", address_});
  EXPECT_EQ(port.exit_code, 1);
  EXPECT_THAT(port.err, HasSubstr(address_));
  const ChildResult data =
      RunChild(Binary("quire"), {"serve", "--data-dir", dir_ / "data", "--listen", "127.0.0.1:0"});
  EXPECT_EQ(data.exit_code, 1);
  EXPECT_THAT(data.err, HasSubstr(dir_ / "data"));
}

// An empty store is an answer, not a failure, as the help states.
TEST_F(CliTest, AnEmptyStoreSaysSo) {
  EXPECT_THAT(Quire({"--help"}).out,
              HasSubstr("0 done, also where the answer is an empty list; 1 failed, also where what "
                        "was\ngiven is empty; 2 wrong usage"));
  EXPECT_EQ(Quire({"rm", "example"}).exit_code, 0);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"ls"}, {"docs"}, {"docs", "list", "--collection", "c"}}) {
    const ChildResult result = Quire(args);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr("no documents of tenant default"));
    EXPECT_THAT(QuireJson(args)["documents"], IsEmpty());
  }
  const ChildResult collections = Quire({"collection", "ls"});
  EXPECT_EQ(collections.exit_code, 0);
  EXPECT_EQ(collections.out, "");
  EXPECT_THAT(collections.err, HasSubstr("no collection has settings of its own"));
  EXPECT_EQ(Quire({"stat", "--counters"}).exit_code, 0);
  EXPECT_EQ(StopServer(SIGTERM), 0);
  const ChildResult fsck = RunChild(Binary("quire"), {"fsck", dir_ / "data"});
  EXPECT_EQ(fsck.exit_code, 0) << fsck.err;
  EXPECT_THAT(fsck.out, HasSubstr("0 segments"));
}

TEST(CliUsageTest, EveryCommandHasHelpWithExamples) {
  const std::vector<std::vector<std::string>> commands = {{"serve"},
                                                          {"put"},
                                                          {"ask"},
                                                          {"ls"},
                                                          {"stat"},
                                                          {"rm"},
                                                          {"docs"},
                                                          {"worker"},
                                                          {"demo"},
                                                          {"plan"},
                                                          {"docs", "list"},
                                                          {"docs", "get"},
                                                          {"docs", "add"},
                                                          {"docs", "ls"},
                                                          {"docs", "search"},
                                                          {"docs", "show"},
                                                          {"docs", "tag"},
                                                          {"docs", "rm"},
                                                          {"docs", "latest"},
                                                          {"docs", "invalidate"},
                                                          {"docs", "warm"},
                                                          {"docs", "history"},
                                                          {"docs", "watch"},
                                                          {"pin"},
                                                          {"unpin"},
                                                          {"object"},
                                                          {"object", "put"},
                                                          {"object", "get"},
                                                          {"object", "stat"},
                                                          {"object", "rm"},
                                                          {"collection"},
                                                          {"collection", "set"},
                                                          {"collection", "get"},
                                                          {"collection", "ls"}};
  for (const std::vector<std::string>& command : commands) ExpectHelpWithExamples(command);
}

TEST(CliPlanTest, AProgramReadsThresholdsAndWhatWouldFit) {
  const std::string quire = std::string(QUIRE_BINARY_DIR) + "/bin/quire";
  const ChildResult plan = RunChild(quire, {"plan", "--model", "llama-3.1-8b", "--gpu-mem", "80GiB",
                                            "--requests", "16", "--budget", "2048", "--json"});
  EXPECT_EQ(plan.exit_code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("\"s0\":26781,\"s1\":27468,"));
  EXPECT_THAT(plan.out, HasSubstr("\"s31\":154568,\"s32\":185072"));
  const ChildResult none = RunChild(quire, {"plan", "--gpu-mem", "16GiB"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("what would: --gpu-mem 20GiB"));
}

/// Commands against a server that requires proof of the caller.
class CliTokenTest : public testing::QuireFixture {
 protected:
  void SetUp() override {
    unsetenv("QUIRE_TOKEN");
    StartServer({"--tenants", "default,other", "--tenant-tokens",
                 testing::WriteSecretFile(dir_ / "tenant-tokens", testing::kTenantTokens)});
  }
  void TearDown() override { unsetenv("QUIRE_TOKEN"); }
  void ExpectRefused(const std::vector<std::string>& args, const std::string& words) {
    const ChildResult result = Quire(args);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.err, HasSubstr(words));
    for (const char* const secret : {testing::kDefaultToken, testing::kOtherToken}) {
      EXPECT_THAT(result.out + result.err, Not(HasSubstr(secret)));
    }
  }
};

TEST_F(CliTokenTest, ATokenComesFromAFileOrFromTheEnvironment) {
  const auto file = testing::WriteSecretFile(dir_ / "token", testing::kDefaultToken);
  const auto others =
      testing::WriteSecretFile(dir_ / "others", std::string(testing::kOtherToken) + "\n");
  ExpectRefused({"ls"}, "does not prove its tenant");
  ExpectRefused({"ls", "--token-file", others}, "does not prove its tenant");
  ExpectRefused({"ls", "--json", "--tenant", "other", "--token-file", file}, "does not prove");
  ExpectRefused({"ls", "--tenant", "nobody", "--token-file", file}, "does not prove its tenant");
  EXPECT_EQ(Quire({"ls", "--token-file", file}).exit_code, 0);
  EXPECT_EQ(Quire({"--token-file", others, "--tenant", "other", "ls"}).exit_code, 0);
  setenv("QUIRE_TOKEN", testing::kDefaultToken, 1);
  EXPECT_EQ(Quire({"ls"}).exit_code, 0);
  ExpectRefused({"ls", "--tenant", "other"}, "does not prove its tenant");
  EXPECT_EQ(Quire({"ls", "--tenant", "other", "--token-file", others}).exit_code, 0)
      << "the file comes before the environment";
  EXPECT_EQ(StopServer(SIGTERM), 0);
  std::ifstream log(dir_ / "serve.err");
  const std::string logged((std::istreambuf_iterator<char>(log)), {});
  EXPECT_THAT(logged, HasSubstr("info listening"));
  for (const char* const secret :
       {testing::kDefaultToken, testing::kOtherToken, testing::kDefaultTokenHash}) {
    EXPECT_THAT(logged, Not(HasSubstr(secret)));
  }
}

TEST_F(CliTokenTest, WhatIsNoTokenIsSaidBeforeAnythingIsSent) {
  const auto file = testing::WriteSecretFile(dir_ / "token", testing::kDefaultToken);
  ExpectRefused({"ls", "--token-file", dir_ / "none"}, "--token-file: cannot open");
  std::filesystem::permissions(file, std::filesystem::perms(0644));
  ExpectRefused({"ls", "--token-file", file}, "chmod 600 " + file);
  testing::WriteSecretFile(file, "");
  ExpectRefused({"ls", "--token-file", file}, "a token has 32 to 512 characters");
  setenv("QUIRE_TOKEN", "sesame", 1);
  ExpectRefused({"ls"}, "QUIRE_TOKEN: a token has 32 to 512 characters");
}

TEST_F(CliTokenTest, AWorkerWhoseTenantHasNoTokenDoesNotStart) {
  const auto tokens = testing::WriteSecretFile(dir_ / "tenant-tokens", testing::kTenantTokens);
  ExpectRefused({"worker", "--tenant", "team-c", "--tenant-tokens", tokens},
                "has no line for tenant 'team-c'");
  ExpectRefused({"worker", "--tenant-tokens", dir_ / "none"}, "--tenant-tokens: cannot open");
}

TEST(CliUsageTest, WrongUsageIsExitCodeTwo) {
  const std::string quire = std::string(QUIRE_BINARY_DIR) + "/bin/quire";
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"dance"},
      {"ls", "--no-such-option"},
      {"put"},
      {"put", "a", "b", "--name", "c"},
      {"put", "--token-ids", "1"},
      {"put", "a", "--ttl", "soon"},
      {"pin"},
      {"collection"},
      {"collection", "set", "c"},
      {"collection", "set", "c", "--ttl", "7y"},
      {"collection", "get"},
      {"put", "a", "--token-ids", "1", "--name", "c"},
      {"ask", "--document", "a", "--question", "q", "--token-ids", "1"},
      {"ask", "--document", "a", "--question", "q", "--uncompressed-layers", "first"},
      {"ask", "--document", "a", "--question", "q", "--select", "nowhere"},
      {"ask", "--document", "a"},
      {"ask", "--document", "a", "--question", "q", "--policy", "magic"},
      {"ask", "--document", "a", "--question", "q", "--top-p", "2"},
      {"ask", "--document", "a", "--question", "q", "--top-p", "0.5"},
      {"ask", "--document", "a", "--question", "q", "--worker", "unix:/w", "--max-message-bytes",
       "1MiB"},
      {"serve"},
      {"serve", "--dram-bytes", "much"},
      {"plan", "--gpu-mem", "much"},
      {"plan", "--prompts", "100"},
      {"plan", "--server", "127.0.0.1:1"},
  };
  for (const auto& args : wrong) {
    const ChildResult result = RunChild(quire, args);
    EXPECT_EQ(result.exit_code, 2) << ::testing::PrintToString(args);
    EXPECT_THAT(result.err, HasSubstr("--help")) << ::testing::PrintToString(args);
  }
}

}  // namespace
}  // namespace quire
