// SPDX-License-Identifier: Apache-2.0
#include "bench/trace/mooncake_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/kit/temp_dir.h"

namespace quire::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kGood[] =
    R"({"timestamp": 0, "input_length": 1300, "output_length": 52, "hash_ids": [0, 14, 15]})"
    "\n"
    R"({"timestamp": 1500.5, "input_length": 512, "output_length": 0, "hash_ids": [9], "more": 1})"
    "\n\n"
    R"({"timestamp": 20, "input_length": 600, "output_length": 1, "hash_ids": [0]})"
    "\r\n";

TEST(MooncakeTraceTest, ReadsBlocksOf512TokensWithAShortLastOne) {
  const auto trace = ParseMooncakeTrace(kGood, "t");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->requests.size(), 3u);
  const TraceRequest& first = trace->requests[0];
  ASSERT_EQ(first.blocks.size(), 3u);
  EXPECT_EQ(first.blocks[1].id, 14u);
  EXPECT_EQ(first.blocks[1].tokens, 512u);
  EXPECT_EQ(first.blocks[1].bytes, 512 * kKvBytesPerToken);
  EXPECT_EQ(first.blocks[2].tokens, 1300u - 1024u);
  EXPECT_EQ(first.new_tokens, 0u);
}

TEST(MooncakeTraceTest, ARestThatIsNoBlockIsNew) {
  const auto trace = ParseMooncakeTrace(kGood, "t");
  ASSERT_TRUE(trace.ok()) << trace.status();
  const TraceRequest& request = trace->requests[1];
  ASSERT_EQ(request.blocks.size(), 1u);
  EXPECT_EQ(request.new_tokens, 600u - 512u);
}

TEST(MooncakeTraceTest, RequestsAreSortedByTime) {
  const auto trace = ParseMooncakeTrace(kGood, "t");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->requests[0].arrival_micros, 0);
  EXPECT_EQ(trace->requests[1].arrival_micros, 20000);
  EXPECT_EQ(trace->requests[2].arrival_micros, 1500500);
}

TEST(MooncakeTraceTest, EveryMalformedLineIsRefusedNamingFileLineAndField) {
  const auto error = [](const std::string& line) {
    const Status status = ParseMooncakeTrace(kGood + line, "trace.jsonl").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(Message(status)), StartsWith("trace.jsonl:5: ")) << line;
    return std::string(Message(status));
  };
  const std::string end = R"("output_length": 1, "hash_ids": [1]})";
  EXPECT_THAT(error("{"), HasSubstr("JSON"));
  EXPECT_THAT(error("[]"), HasSubstr("object"));
  EXPECT_THAT(error("\xff\xfe"), HasSubstr("JSON"));
  EXPECT_THAT(error(R"({"input_length": 9, )" + end), HasSubstr("timestamp is missing"));
  EXPECT_THAT(error(R"({"timestamp": -1, "input_length": 9, )" + end), HasSubstr("timestamp"));
  EXPECT_THAT(error(R"({"timestamp": 1e99, "input_length": 9, )" + end), HasSubstr("timestamp"));
  EXPECT_THAT(error(R"({"timestamp": "x", "input_length": 9, )" + end), HasSubstr("timestamp"));
  EXPECT_THAT(error(R"({"timestamp": 1, )" + end), HasSubstr("input_length"));
  EXPECT_THAT(error(R"({"timestamp": 1, "input_length": 0, )" + end), HasSubstr("input_length"));
  EXPECT_THAT(error(R"({"timestamp": 1, "input_length": 9.5, )" + end), HasSubstr("input_length"));
  EXPECT_THAT(error(R"({"timestamp": 1, "input_length": 99999999999, )" + end),
              HasSubstr("input_length"));
  const std::string begin = R"({"timestamp": 1, "input_length": 600, )";
  EXPECT_THAT(error(begin + R"("hash_ids": [1]})"), HasSubstr("output_length"));
  EXPECT_THAT(error(begin + R"("output_length": -1, "hash_ids": [1]})"),
              HasSubstr("output_length"));
  EXPECT_THAT(error(begin + R"("output_length": 1})"), HasSubstr("hash_ids is missing"));
  EXPECT_THAT(error(begin + R"("output_length": 1, "hash_ids": 7})"), HasSubstr("hash_ids"));
  EXPECT_THAT(error(begin + R"("output_length": 1, "hash_ids": [1, -2]})"), HasSubstr("index 1"));
  EXPECT_THAT(error(begin + R"("output_length": 1, "hash_ids": ["1", 2]})"), HasSubstr("index 0"));
  EXPECT_THAT(error(begin + R"("output_length": 1, "hash_ids": [1, 2, 3]})"),
              HasSubstr("has 3 blocks"));
  EXPECT_THAT(error(begin + R"("output_length": 1, "hash_ids": []})"), HasSubstr("has 0 blocks"));
}

TEST(MooncakeTraceTest, ATraceWithoutRequestsIsRefused) {
  EXPECT_EQ(ParseMooncakeTrace("", "t").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseMooncakeTrace("\n \n", "t").status().code(), StatusCode::kInvalidArgument);
}

TEST(MooncakeTraceTest, ReadsFilesAndNamesTheOneThatIsMissing) {
  const quire::testing::TempDir dir;
  const std::string path = dir / "trace.jsonl";
  EXPECT_EQ(ReadMooncakeTrace(path).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(std::string(Message(ReadMooncakeTrace(path).status())), HasSubstr(path));
  std::ofstream(path) << kGood;
  const auto trace = ReadMooncakeTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->requests.size(), 3u);
}

}  // namespace
}  // namespace quire::bench
