// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "gpuworker/model/checkpoint/safetensors_builder.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::HasSubstr;
using testing::Safetensors;
using testing::TempDir;
using testing::WriteFile;

/// A file with the one-byte tensors named by the characters of `names`, each holding its own name.
std::string FileOf(const std::string& names) {
  std::string header = "{";
  for (size_t i = 0; i < names.size(); ++i) {
    header += std::string(i == 0 ? "" : ",") + '"' + names[i] +
              R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
              std::to_string(i + 1) + "]}";
  }
  return Safetensors(header + "}", names);
}

void ExpectError(const StatusOr<Checkpoint>& checkpoint, StatusCode code, const std::string& part) {
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_EQ(checkpoint.status().code(), code);
  EXPECT_THAT(std::string(checkpoint.status().message()), HasSubstr(part));
}

/// A directory with two shards, "ab" in one and "cd" in the other, and the given index.
class Sharded : public ::testing::Test {
 protected:
  Sharded() {
    WriteFile(directory_ / "x.safetensors", FileOf("ab"));
    WriteFile(directory_ / "y.safetensors", FileOf("cd"));
  }
  StatusOr<Checkpoint> OpenWith(const std::string& weight_map) {
    WriteFile(directory_ / "model.safetensors.index.json", R"({"weight_map":)" + weight_map + "}");
    return Checkpoint::Open(directory_.path());
  }
  const TempDir directory_;
  const std::string x_ = R"("a":"x.safetensors","b":"x.safetensors")";
  const std::string y_ = R"("c":"y.safetensors","d":"y.safetensors")";
};

TEST(Checkpoint, OneFileIsRead) {
  const TempDir directory;
  WriteFile(directory / "model.safetensors", FileOf("ab"));
  auto checkpoint = Checkpoint::Open(directory.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->tensors().size(), 2u);
  EXPECT_EQ(checkpoint->path(), directory / "model.safetensors");
}

TEST(Checkpoint, ADirectoryWithoutOneIsNotFound) {
  const TempDir directory;
  ExpectError(Checkpoint::Open(directory.path()), StatusCode::kNotFound, directory.path());
}

TEST(Checkpoint, ADirectoryOrAnEmptyFileInItsPlaceIsRefused) {
  const TempDir directory;
  std::filesystem::create_directory(directory / "model.safetensors");
  ExpectError(Checkpoint::Open(directory.path()), StatusCode::kInvalidArgument, "regular file");
  std::filesystem::remove(directory / "model.safetensors");
  WriteFile(directory / "model.safetensors", "");
  ExpectError(Checkpoint::Open(directory.path()), StatusCode::kInvalidArgument, "too few");
}

TEST_F(Sharded, AllShardsAreRead) {
  auto checkpoint = OpenWith("{" + x_ + "," + y_ + "}");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ASSERT_EQ(checkpoint->tensors().size(), 4u);
  for (const auto& [name, view] : checkpoint->tensors()) {
    EXPECT_EQ(static_cast<char>(view.data[0]), name[0]);
  }
}

TEST_F(Sharded, TheHashDoesNotDependOnTheSplit) {
  auto sharded = OpenWith("{" + x_ + "," + y_ + "}");
  const TempDir other;
  WriteFile(other / "model.safetensors", FileOf("dcab"));
  auto single = Checkpoint::Open(other.path());
  ASSERT_TRUE(sharded.ok() && single.ok());
  EXPECT_EQ(sharded->Hash("s"), single->Hash("s"));
  EXPECT_NE(sharded->Hash("s"), single->Hash("t"));
}

TEST(Checkpoint, TheHashDependsOnNamesAndBytes) {
  const TempDir directory;
  std::vector<std::array<uint8_t, 32>> hashes;
  std::string changed = FileOf("ab");
  changed.back() = 'c';
  for (const std::string& bytes : {FileOf("ab"), FileOf("ac"), changed}) {
    WriteFile(directory / "model.safetensors", bytes);
    auto checkpoint = Checkpoint::Open(directory.path());
    ASSERT_TRUE(checkpoint.ok());
    hashes.push_back(checkpoint->Hash(""));
  }
  EXPECT_NE(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
  EXPECT_NE(hashes[1], hashes[2]);
}

TEST_F(Sharded, AMissingShardIsNamed) {
  std::filesystem::remove(directory_ / "y.safetensors");
  ExpectError(OpenWith("{" + x_ + "," + y_ + "}"), StatusCode::kNotFound, "y.safetensors");
}

TEST_F(Sharded, ATensorThatIsNotInItsShardIsNamed) {
  ExpectError(OpenWith("{" + x_ + "," + y_ + R"(,"e":"y.safetensors"})"),
              StatusCode::kInvalidArgument, "tensor e is not in y.safetensors");
}

TEST_F(Sharded, ATensorThatIsNotInTheIndexIsNamed) {
  ExpectError(OpenWith("{" + x_ + R"(,"c":"y.safetensors"})"), StatusCode::kInvalidArgument,
              "tensor d is in a shard but not in the index");
}

TEST_F(Sharded, ATensorThatIsInAnotherShardThanTheIndexSaysIsNamed) {
  ExpectError(OpenWith(R"({"a":"x.safetensors","b":"y.safetensors",)" + y_ + "}"),
              StatusCode::kInvalidArgument, "tensor b is in x.safetensors, not in y.safetensors");
}

TEST_F(Sharded, AnIndexBesideASingleFileMustNameThatFile) {
  WriteFile(directory_ / "model.safetensors", FileOf("ab"));
  ExpectError(OpenWith("{" + x_ + "," + y_ + "}"), StatusCode::kInvalidArgument,
              "index.json: model.safetensors is in the same directory and no part of it");
  std::filesystem::remove(directory_ / "x.safetensors");
  const auto single = OpenWith(R"({"a":"model.safetensors","b":"model.safetensors"})");
  EXPECT_TRUE(single.ok()) << single.status();
  ExpectError(OpenWith(R"({"a":"model.safetensors"})"), StatusCode::kInvalidArgument,
              "tensor b is in a shard but not in the index");
}

// Shards are left over from another split, of the same or of another model.
TEST_F(Sharded, AShardThatTheIndexDoesNotNameIsRefused) {
  const std::string index = "{" + x_ + "," + y_ + "}";
  WriteFile(directory_ / "consolidated.safetensors", FileOf("ab"));
  WriteFile(directory_ / "scales.safetensors", FileOf("ab"));
  EXPECT_TRUE(OpenWith(index).ok()) << "not named as shards";
  WriteFile(directory_ / "model-00003-of-00003.safetensors", FileOf("e"));
  ExpectError(OpenWith(index), StatusCode::kInvalidArgument,
              "model-00003-of-00003.safetensors is in the same directory and no part of it");
}

TEST(Checkpoint, AShardInTheDirectoryOfASingleFileIsRefused) {
  const TempDir directory;
  WriteFile(directory / "model.safetensors", FileOf("ab"));
  WriteFile(directory / "model-00001-of-00002.safetensors", FileOf("c"));
  ExpectError(Checkpoint::Open(directory.path()), StatusCode::kInvalidArgument,
              "model-00001-of-00002.safetensors is in the same directory");
}

TEST_F(Sharded, AnAdaptersDirectoryIsRefusedAlsoWhereItHoldsAModel) {
  WriteFile(directory_ / "adapter_config.json", "{}");
  ExpectError(OpenWith("{" + x_ + "," + y_ + "}"), StatusCode::kInvalidArgument,
              "adapter_config.json is that of an adapter");
  const TempDir alone;
  WriteFile(alone / "adapter_config.json", "{}");
  WriteFile(alone / "adapter_model.safetensors", FileOf("ab"));
  ExpectError(Checkpoint::Open(alone.path()), StatusCode::kInvalidArgument, "merge it into");
}

TEST_F(Sharded, AFieldOfTheIndexThatIsNotKnownIsNamed) {
  WriteFile(directory_ / "model.safetensors.index.json",
            R"({"metadata": {"total_size": 4}, "quantization": 4, "weight_map": {)" + x_ + "," +
                y_ + "}}");
  ExpectError(Checkpoint::Open(directory_.path()), StatusCode::kInvalidArgument, "quantization");
}

TEST_F(Sharded, ATensorInTwoShardsIsNamed) {
  WriteFile(directory_ / "y.safetensors", FileOf("bcd"));
  ExpectError(OpenWith("{" + x_ + "," + y_ + "}"), StatusCode::kInvalidArgument,
              "tensor b is in another shard too");
}

TEST_F(Sharded, AnIndexThatPointsElsewhereIsRefused) {
  for (const char* map : {R"({"a":"../x.safetensors"})", R"({"a":"/etc/passwd"})", R"({"a":".."})",
                          R"({"a":""})", R"({"a":7})", "{}", "[]", "null"}) {
    ExpectError(OpenWith(map), StatusCode::kInvalidArgument, "weight_map");
  }
}

TEST_F(Sharded, ADamagedIndexIsRefused) {
  WriteFile(directory_ / "model.safetensors.index.json", R"({"weight_map": {"a")");
  ExpectError(Checkpoint::Open(directory_.path()), StatusCode::kInvalidArgument, "index.json");
}

}  // namespace
}  // namespace quire::worker
