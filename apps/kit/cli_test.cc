// SPDX-License-Identifier: Apache-2.0
//
// The frame of the program: tables, progress, names, parsing and exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/kit/cluster_counts.h"
#include "apps/kit/command.h"
#include "apps/kit/duration_flag.h"
#include "apps/kit/output/answer_line.h"
#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "apps/kit/output/table.h"
#include "apps/kit/read_file.h"
#include "apps/kit/target.h"
#include "apps/kit/token_ids.h"
#include "common/flags/given.h"
#include "common/metrics/testing/metrics_page.h"
#include "common/wire/limits.h"
#include "tests/kit/caller_tokens.h"
#include "tests/kit/fake_clock.h"
#include "tests/kit/temp_dir.h"

namespace quire::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST(ClusterCountsTest, ReportsAndMetricsHaveThem) {
  const auto of_client =
      ClusterCounts::Of(ClusterClient::Counters{.node_changes = 1, .calls_failed = 2});
  EXPECT_EQ(of_client.ToJson(), (Json{{"node_changes", 1}, {"calls_failed", 2}}));
  ClusterConnection::Counters counters{.node_changes = 1, .calls_failed = 2, .reads = 9};
  counters.hedged = 4;
  counters.hedges_won = 3;
  counters.spread = 5;
  EXPECT_EQ(ClusterCounts::Of(counters).ToJson(), (Json{{"node_changes", 1},
                                                        {"calls_failed", 2},
                                                        {"reads", 9},
                                                        {"reads_hedged", 4},
                                                        {"hedges_won", 3},
                                                        {"reads_spread", 5}}));
  quire::testing::ExpectSectionLists("Worker of a cluster", of_client, 2);
}

TEST(TableTest, ColumnsArePaddedToTheWidestCellWithoutTrailingSpaces) {
  Table table({{"NAME"}, {"TOKENS", Table::kRight}, {"NOTE"}});
  table.AddRow({"a", "4,096", "x"});
  table.AddRow({"größer", "7"});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(),
            "NAME    TOKENS  NOTE\n"
            "a        4,096  x\n"
            "größer       7\n");
}

TEST(FormatTest, NumbersForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(FormatBytes(UINT64_MAX), "16.0 EiB");
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatDuration(Duration(850)), "850 ns");
  EXPECT_EQ(FormatDuration(Duration(12'340)), "12.3 us");
  EXPECT_EQ(FormatDuration(Duration(999'900)), "1 ms");
  EXPECT_EQ(FormatDuration(milliseconds(7890)), "7.89 s");
  EXPECT_EQ(FormatDuration(seconds(125)), "2 min 5 s");
  EXPECT_EQ(FormatTime(1'715'953'509'000'000), "2024-05-17 13:45:09");
  EXPECT_EQ(FormatTime(0), "-");
  EXPECT_EQ(FormatRatio(0.12345), "0.123");
}

class ProgressTest : public ::testing::Test {
 protected:
  ProgressBar::Options Options(bool is_terminal) {
    return {.out = &out_, .is_terminal = is_terminal, .clock = &clock_};
  }
  std::ostringstream out_;
  quire::testing::FakeClock clock_;
};

TEST_F(ProgressTest, WorkOfLessThanASecondShowsNothing) {
  ProgressBar bar("reading", 3, Options(true));
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(milliseconds(300));
    bar.Advance();
  }
  bar.Finish();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, LogsGetAPlainLineEveryFiveSecondsAndASummary) {
  {
    ProgressBar bar("reading", 10, Options(false));
    for (int i = 0; i < 10; ++i) {
      clock_.Advance(seconds(1));
      bar.Advance(1, "file " + std::to_string(i));
    }
  }
  EXPECT_EQ(out_.str(),
            "reading 1/10, 1 s, file 0\n"
            "reading 6/10, 6 s, file 5\n"
            "reading 10/10, 10 s\n");
}

TEST_F(ProgressTest, ATerminalLineIsRedrawnAtMostTenTimesASecond) {
  ProgressBar bar("asking", 4000, Options(true));
  for (int i = 0; i < 4000; ++i) {
    clock_.Advance(milliseconds(1));
    bar.Advance();
  }
  bar.Finish();
  const std::string text = out_.str();
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 32);
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 30);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_THAT(text, HasSubstr("[########################] 4000/4000"));
}

TEST(TargetTest, DocumentsAreNamedWithOrWithoutCollectionAndVersion) {
  const auto parse = [](std::string_view text) {
    return FormatName(ParseDocumentName(text, "default")->first);
  };
  EXPECT_EQ(parse("a.txt"), "default/a.txt");
  EXPECT_EQ(parse("manuals/a.txt"), "manuals/a.txt");
  EXPECT_EQ(parse("manuals/a.txt@12"), "manuals/a.txt@12");
  EXPECT_EQ(parse("me@home"), "default/me@home");
  EXPECT_EQ(parse("a@3@0"), "default/a@3@0");
  for (const char* bad : {"", "/a", "c/", "a/b/c", "a\n@3"}) {
    EXPECT_TRUE(IsInvalidArgument(ParseDocumentName(bad, "default").status())) << bad;
  }
}

// Texts that look like a name and a version, and others that only nearly do.
TEST(TargetTest, ANameMayEndLikeAVersion) {
  const auto ambiguous = ParseDocumentName("manuals/report@2026", "default");
  ASSERT_TRUE(ambiguous.ok()) << ambiguous.status();
  EXPECT_EQ(ambiguous->first.name, "report");
  EXPECT_EQ(ambiguous->first.version, 2026u);
  ASSERT_TRUE(ambiguous->second.has_value());
  EXPECT_EQ(ambiguous->second->name, "report@2026");
  EXPECT_EQ(ambiguous->second->collection, "manuals");
  EXPECT_EQ(ambiguous->second->version, 0u);
  for (const char* name : {"@3", "a@", "a@01", "a@+1", "a@-1", "a@99999999999999999999", "a@3b"}) {
    const auto plain = ParseDocumentName(name, "default");
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(plain->first.name, name);
    EXPECT_EQ(plain->first.version, 0u);
    EXPECT_FALSE(plain->second.has_value()) << name;
  }
}

TEST(TargetTest, WhatIsPrintedReadsBackAsTheSameDocumentForEveryName) {
  SegmentKey key;
  key.bytes.fill(0xab);
  const std::string longest(wire::kMaxNameBytes, 'x');
  for (const std::string& name :
       {std::string("report.txt"), std::string("report@2026"), std::string("report@2026@1"),
        std::string("@"), std::string("@7"), std::string("a@0"), std::string("-x"),
        std::string("[a,b]"), std::string(" a "), std::string("\"q\""), std::string("中文@12"),
        key.Hex(), longest, std::string(wire::kMaxNameBytes - 3, 'y') + "@12"}) {
    for (const uint64_t version : {uint64_t{1}, uint64_t{2026}, UINT64_MAX}) {
      const DocumentName document{.collection = "c@1", .name = name, .version = version};
      const auto target = ParseTarget(FormatName(document), "default");
      ASSERT_TRUE(target.ok()) << target.status();
      const auto& read = std::get<DocumentName>(target->first);
      EXPECT_EQ(read.collection, document.collection);
      EXPECT_EQ(read.name, document.name);
      EXPECT_EQ(read.version, document.version);
    }
    const DocumentName latest{.name = name};
    const auto read = ParseDocumentName(FormatName(latest), "other");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->first.name, name);
    EXPECT_EQ(read->first.version, 0u);
  }
}

TEST(TargetTest, TheStoreDecidesBetweenTwoReadings) {
  const auto readings = *ParseDocumentName("report@2026", "default");
  const auto has = [](std::vector<std::string> names) {
    return [names](const DocumentName& name) -> StatusOr<std::string> {
      const std::string text = FormatName(name);
      if (std::ranges::find(names, text) != names.end()) return text;
      return NotFound(text, " is not there");
    };
  };
  const std::string version = "default/report@2026";
  const std::string whole = "default/report@2026@0";
  EXPECT_EQ(*FirstFound(readings, has({version})), version);
  EXPECT_EQ(*FirstFound(readings, has({whole})), whole);
  EXPECT_EQ(*FirstFound(readings, has({version, whole})), version);
  EXPECT_THAT(std::string(Message(FirstFound(readings, has({})).status())), HasSubstr(version));
  const auto fails = [](const DocumentName&) { return Unavailable("down"); };
  EXPECT_TRUE(IsUnavailable(FirstFound(readings, fails)));
}

TEST(TargetTest, SixtyFourHexDigitsAreAKey) {
  SegmentKey key;
  key.bytes.fill(0xab);
  const auto target = ParseTarget(key.Hex(), "default");
  EXPECT_EQ(std::get<SegmentKey>(target->first), key);
  EXPECT_EQ(std::get<DocumentName>(*target->second).name, key.Hex());
  const auto shorter = ParseTarget(key.Hex().substr(1), "default");
  EXPECT_TRUE(std::holds_alternative<DocumentName>(shorter->first));
}

TEST(TokenIdsTest, NumbersAreSeparatedByCommasSpacesAndLines) {
  EXPECT_EQ(*ParseTokenIds("3,5, 8\n13\t 2147483647"),
            (std::vector<TokenId>{3, 5, 8, 13, 2147483647}));
  EXPECT_EQ(FormatTokenIds(*ParseTokenIds("3,5")), "3 5");
  for (const char* bad : {"", " ,", "3;5", "-1", "2147483648", "0x10", "1.5", "five"}) {
    EXPECT_TRUE(IsInvalidArgument(ParseTokenIds(bad).status())) << bad;
  }
}

TEST(TokenIdsTest, AtNamesAFile) {
  const quire::testing::TempDir dir;
  std::ofstream(dir / "ids") << "1 2\n3\n";
  EXPECT_EQ(*ReadTokenIds("@" + (dir / "ids")), (std::vector<TokenId>{1, 2, 3}));
  std::ofstream(dir / "bad") << "1 two";
  EXPECT_THAT(std::string(ReadTokenIds("@" + (dir / "bad")).status().message()),
              ::testing::AllOf(HasSubstr(dir / "bad"), HasSubstr("'two'")));
}

TEST(ReadFileTest, AFileComesWholeAndEverythingElseIsNamed) {
  const quire::testing::TempDir dir;
  const std::string bytes("a\0b\n", 4);
  std::ofstream(dir / "f", std::ios::binary) << bytes;
  EXPECT_EQ(*ReadTextFile(dir / "f"), bytes);
  std::ofstream(dir / "empty").flush();
  EXPECT_EQ(*ReadTextFile(dir / "empty"), "");
  EXPECT_EQ(*ReadDocumentFile(dir / "f"), bytes);
  EXPECT_THAT(std::string(ReadDocumentFile(dir / "empty").status().message()),
              HasSubstr("empty is empty; name a file with text in it"));
  EXPECT_EQ(ReadTextFile(dir / "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadTextFile(dir.path()).status().code(), StatusCode::kInvalidArgument);
  std::ofstream(dir / "huge").flush();
  std::filesystem::resize_file(dir / "huge", (64u << 20) + 1);
  EXPECT_THAT(std::string(ReadTextFile(dir / "huge").status().message()), HasSubstr(dir / "huge"));
}

TEST(AnswerLineTest, IsShownAsItGrowsAndEndsWithTheLine) {
  std::ostringstream live;
  AnswerLine line(&live);
  line.Add(" ");
  EXPECT_EQ(live.str(), "");
  line.Add("  zither");
  EXPECT_EQ(live.str(), "zither");
  line.Add(" and lute.\nQuestion");
  EXPECT_EQ(live.str(), "zither and lute.");
  line.Add(" more");
  EXPECT_EQ(line.text(), "zither and lute.");
  EXPECT_EQ(live.str(), line.text());
  AnswerLine lines(nullptr);
  lines.KeepLines();
  lines.Add("  one\n");
  lines.Add(" two");
  EXPECT_EQ(lines.text(), "one\n two");
  AnswerLine silent(nullptr);
  silent.Add(" a");
  EXPECT_EQ(silent.text(), "a");
}

class CommandsTest : public ::testing::Test {
 protected:
  int Run(std::vector<const char*> args) {
    args.insert(args.begin(), "quire");
    return commands_.Run(static_cast<int>(args.size()), args.data());
  }
  void Add(Status result) {
    commands_.Add({.name = "act", .summary = "Acts", .examples = "  quire act"},
                  [this, result](const CommandContext& context) {
                    seen_ = context.options;
                    return result;
                  });
  }
  std::ostringstream out_, err_;
  Commands commands_{out_, err_};
  GlobalOptions seen_;
};

TEST_F(CommandsTest, DurationsHaveUnitsAndBadOnesAreWrongUsage) {
  std::optional<uint64_t> ttl, or_none;
  CLI::App& command = commands_.Add({.name = "act", .summary = "", .examples = ""},
                                    [](const CommandContext&) { return OkStatus(); });
  AddDurationFlag(command, "--ttl", "", &ttl);
  AddDurationOrNoneFlag(command, "--or-none", "", &or_none);
  EXPECT_EQ(Run({"act", "--ttl", "7d", "--or-none", "none"}), 0);
  EXPECT_EQ(ttl, 604800u);
  EXPECT_EQ(or_none, 0u);
  EXPECT_EQ(FormatTtl(ttl), "7d");
  EXPECT_EQ(FormatTtl({}), "none");
  EXPECT_EQ(Run({"act", "--ttl", "none"}), 2);
  EXPECT_EQ(Run({"act", "--or-none", "0"}), 1);
  EXPECT_EQ(Run({"act", "--ttl", "soon"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--ttl: 'soon' is no duration"));
}

TEST_F(CommandsTest, NamesInBracketsStayWhatTheyAre) {
  std::vector<std::string> names;
  std::string collection;
  CLI::App& command = commands_.Add({.name = "act", .summary = "", .examples = ""},
                                    [](const CommandContext&) { return OkStatus(); });
  command.add_option("NAME", names);
  command.add_option("--collection", collection);
  EXPECT_EQ(Run({"act", "[a,b]", "plain", "[", "--collection", "[c,d]"}), 0);
  EXPECT_EQ(names, (std::vector<std::string>{"[a,b]", "plain", "["}));
  EXPECT_EQ(collection, "[c,d]");
}

TEST_F(CommandsTest, GlobalOptionsStandBeforeOrAfterTheCommand) {
  Add(OkStatus());
  EXPECT_EQ(Run({"--server", "h:1", "act", "--tenant", "t", "--json"}), 0);
  EXPECT_EQ(seen_.server, "h:1");
  EXPECT_EQ(seen_.tenant, "t");
  EXPECT_EQ(seen_.tenant_name(), "t");
  EXPECT_TRUE(seen_.json);
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CommandsTest, ATenantThatIsNotGivenIsTheDefaultOne) {
  Add(OkStatus());
  EXPECT_EQ(Run({"act"}), 0);
  EXPECT_FALSE(seen_.tenant.has_value());
  EXPECT_EQ(seen_.tenant_name(), "default");
}

TEST_F(CommandsTest, ATokenIsOfTheFileOrElseOfTheEnvironment) {
  const quire::testing::TempDir dir;
  const std::string of_file(40, 'f'), of_environment(40, 'e');
  const auto file = quire::testing::WriteSecretFile(dir / "token", of_file + "\n");
  const auto token = [&](const std::string& environment, const std::string& path) {
    const GlobalOptions options{.token_file = path};
    const CommandContext context{
        .options = options, .out = out_, .err = err_, .environment_token = environment};
    return context.Token();
  };
  EXPECT_EQ(token("", "")->secret(), "");
  EXPECT_EQ(token(of_environment, "")->secret(), of_environment);
  EXPECT_EQ(token(of_environment, file)->secret(), of_file);
  EXPECT_EQ(token(of_environment, dir / "none").status().code(), StatusCode::kNotFound);
  const Status bad = token("sesame", "").status();
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bad.message()), HasSubstr("QUIRE_TOKEN"));
  EXPECT_THAT(std::string(bad.message()), ::testing::Not(HasSubstr("sesame")));
}

TEST_F(CommandsTest, OfACommandAndItsSubcommandTheOneNamedRuns) {
  std::string ran;
  const auto body = [&ran](const char* name) {
    return [&ran, name](const CommandContext&) {
      ran = name;
      return OkStatus();
    };
  };
  CLI::App& parent = commands_.Add({.name = "docs", .summary = "", .examples = ""}, body("docs"));
  commands_.Add({.name = "get", .summary = "", .examples = ""}, body("get"), &parent);
  EXPECT_EQ(Run({"docs"}), 0);
  EXPECT_EQ(ran, "docs");
  EXPECT_EQ(Run({"docs", "get"}), 0);
  EXPECT_EQ(ran, "get");
}

TEST_F(CommandsTest, AnOptionThatACommandWouldIgnoreIsWrongUsage) {
  commands_.Add({.name = "check", .summary = "", .examples = "", .calls_no_server = true},
                [](const CommandContext&) { return OkStatus(); });
  EXPECT_EQ(Run({"check", "--json"}), 0);
  for (const char* option : {"--server", "--tenant", "--token-file", "--timeout"}) {
    EXPECT_EQ(Run({option, "1", "check"}), 2) << option;
    EXPECT_THAT(err_.str(), HasSubstr(option));
  }
}

TEST_F(CommandsTest, WrongUsageIsExitCodeTwoAndPointsToTheHelp) {
  Add(OkStatus());
  EXPECT_EQ(Run({}), 2);
  EXPECT_EQ(Run({"dance"}), 2);
  EXPECT_EQ(Run({"act", "--no-such-option"}), 2);
  EXPECT_EQ(Run({"act", "--timeout", "-1"}), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--help"));
  EXPECT_EQ(out_.str(), "");
}

// One rule for every option and argument, so that no command has to think of it.
TEST_F(CommandsTest, WhatIsGivenAndSaysNothingIsAFailureThatNamesIt) {
  std::string name, prefix;
  std::vector<std::string> files;
  uint32_t rounds = 1;
  double seconds = 1;
  std::optional<uint64_t> ttl;
  bool ran = false;
  CLI::App& command =
      commands_.Add({.name = "act", .summary = "", .examples = ""}, [&ran](const CommandContext&) {
        ran = true;
        return OkStatus();
      });
  command.add_option("--name", name, "Name of the thing");
  commands_.MayBeEmpty(command.add_option("--prefix", prefix, ""));
  command.add_option("FILE", files, "Text files");
  command.add_option("--rounds", rounds, "")->check(CLI::Range(1, 10));
  command.add_option("--seconds", seconds, "")->check(CLI::Range(0.5, 10.0));
  AddDurationFlag(command, "--ttl", "", &ttl);
  struct Given {
    std::vector<const char*> args;
    const char* message;
  };
  const std::vector<Given> nothing = {
      {{"--name", ""}, "--name is empty; give it what it is for, or leave it away: Name of the"},
      {{"--name", " \n"}, "--name is empty"},
      {{""}, "FILE is empty"},
      {{"a", ""}, "FILE is empty"},
      {{"--rounds", ""}, "--rounds is empty"},
      {{"--rounds", "0"}, "--rounds: Value 0 not in range 1 to 10"},
      {{"--seconds", "0.0"}, "--seconds: Value 0"},
      {{"--ttl", "0s"}, "--ttl: '0s' is nothing"},
      {{"--server", ""}, "--server is empty"},
      {{"--tenant", ""}, "--tenant is empty"},
      {{"--timeout", "0"}, "--timeout: Value 0 not in range"},
  };
  for (Given given : nothing) {
    given.args.insert(given.args.begin(), {"act", "--json"});
    out_.str("");
    err_.str("");
    EXPECT_EQ(Run(given.args), 1) << given.message;
    EXPECT_THAT(err_.str(), HasSubstr(given.message));
    const Json json = Json::parse(out_.str());
    EXPECT_EQ(json["error"]["code"], "INVALID_ARGUMENT") << given.message;
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(Run({"act", "--prefix", "", "--name", "0", "a"}), 0);
  EXPECT_TRUE(ran);
  EXPECT_EQ(Run({"act", "--rounds", "11"}), 2) << "that is something, and too much";
}

TEST(CheckIsTextTest, TheByteThatIsNoTextIsNamed) {
  EXPECT_EQ(CheckIsText("--question", "Café déjà"), OkStatus());
  const Status bad = CheckIsText("--question", "Caf\xe9");
  EXPECT_EQ(bad.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(bad)), HasSubstr("--question is not UTF-8 at byte 3"));
  EXPECT_THAT(std::string(Message(ParseDocumentName("a\xff", "default").status())),
              HasSubstr("name is not UTF-8 at byte 1"));
}

TEST_F(CommandsTest, HelpIsOnStdoutWithExamples) {
  Add(OkStatus());
  EXPECT_EQ(Run({"act", "--help"}), 0);
  EXPECT_THAT(out_.str(), HasSubstr("Examples:\n  quire act"));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(CommandsTest, FailureIsExitCodeOneWithTheMessageOnStderr) {
  Add(NotFound("no document a"));
  EXPECT_EQ(Run({"act"}), 1);
  EXPECT_EQ(err_.str(), "quire: no document a\n");
  EXPECT_EQ(out_.str(), "");
}

TEST_F(CommandsTest, WithJsonAFailureIsOneObjectOnStdout) {
  Add(NotFound("no document \xff"));
  EXPECT_EQ(Run({"act", "--json"}), 1);
  const Json json = Json::parse(out_.str());
  EXPECT_EQ(json["error"]["code"], "NOT_FOUND");
  EXPECT_EQ(json["error"]["message"], "no document \xEF\xBF\xBD");
}

TEST_F(CommandsTest, AnUnreachableServerComesWithTheRemedy) {
  commands_.Add({.name = "count", .summary = "", .examples = ""},
                [](const CommandContext& context) -> Status {
                  QUIRE_ASSIGN_OR_RETURN(const auto client, context.Connect());
                  return client->Stats().status();
                });
  EXPECT_EQ(Run({"--server", "unix:/nonexistent/quire.sock", "count"}), 1);
  EXPECT_THAT(err_.str(), HasSubstr("unix:/nonexistent/quire.sock"));
  EXPECT_THAT(err_.str(), HasSubstr("Is quired running? Start it with: quire serve"));
}

}  // namespace
}  // namespace quire::cli
