// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/model/checkpoint/pytorch/pytorch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/pytorch/pytorch_builder.h"
#include "gpuworker/model/checkpoint/safetensors_builder.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::NamedBytes;
using testing::PickledDict;
using testing::PickledFloats;
using testing::PickledNumber;
using testing::PickledText;
using testing::PytorchFile;
using testing::StoredZip;
using testing::TempDir;
using testing::WriteFile;

constexpr char kByTorch[] = QUIRE_SOURCE_DIR "/tests/fuzz/corpus/pytorch_fuzz";

StatusOr<TensorMap> Parse(const std::string& text) {
  return ParsePytorchFile(std::as_bytes(std::span(text)), "file.bin");
}

std::vector<float> Floats(const TensorView& view) {
  std::vector<float> values(view.elements());
  EXPECT_EQ(ConvertToFloat(view, "tensor", values.data()), OkStatus());
  return values;
}

/// A file with the pickle and one storage of four floats.
std::string ArchiveOf(const std::string& pickle) {
  return StoredZip({{"archive/data.pkl", pickle}, {"archive/data/0", std::string(16, '\0')}});
}

/// A copy of a directory's file under the name of a model.
StatusOr<Checkpoint> OpenCopy(const TempDir& directory, const std::string& file) {
  std::filesystem::copy_file(file, directory / "pytorch_model.bin");
  return Checkpoint::Open(directory.path());
}

// torch.save of torch 2.15 wrote it: tensors, a view into a storage, a scalar and a parameter.
TEST(PytorchFileTest, TensorsThatTorchWroteAreRead) {
  const TempDir directory;
  const auto opened = OpenCopy(directory, std::string(kByTorch) + "/tensors");
  ASSERT_TRUE(opened.ok()) << opened.status();
  const TensorMap& tensors = opened->tensors();
  ASSERT_EQ(tensors.size(), 6u);
  EXPECT_THAT(tensors.at("a.weight").shape, ElementsAre(2, 3));
  EXPECT_THAT(Floats(tensors.at("a.weight")), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(tensors.at("b.half").type, TensorType::kBF16);
  EXPECT_THAT(Floats(tensors.at("b.half")), ElementsAre(1.5f, -2));
  EXPECT_EQ(tensors.at("c").type, TensorType::kI64);
  EXPECT_THAT(tensors.at("c").shape, IsEmpty());
  EXPECT_EQ(tensors.at("d.view").type, TensorType::kF16);
  EXPECT_THAT(Floats(tensors.at("d.view")), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(tensors.at("t2d").type, TensorType::kBool);
  EXPECT_THAT(Floats(tensors.at("p")), ElementsAre(1, 1));
}

// A state_dict has attributes of its dictionary besides.
TEST(PytorchFileTest, TheStateOfAModuleIsRead) {
  const TempDir directory;
  const auto opened = OpenCopy(directory, std::string(kByTorch) + "/module");
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_THAT(opened->tensors().at("weight").shape, ElementsAre(2, 2));
  EXPECT_THAT(opened->tensors().at("bias").shape, ElementsAre(2));
}

TEST(PytorchFileTest, SafetensorsComeFirst) {
  const TempDir directory;
  WriteFile(directory / "model.safetensors", "none");
  const auto opened = OpenCopy(directory, std::string(kByTorch) + "/tensors");
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("model.safetensors"));
}

TEST(PytorchFileTest, BuiltFilesAreRead) {
  const std::string file = PytorchFile({{"x", {{2, 2}, {1, 2, 3, 4}}}, {"y", {{1}, {5}}}});
  const auto tensors = Parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_THAT(Floats(tensors->at("x")), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Floats(tensors->at("y")), ElementsAre(5));
}

TEST(PytorchFileTest, WhatWouldRunOrCannotBeReadIsRefusedByName) {
  const std::string floats = PickledFloats({2, 2}, "0", 4);
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"names posix.system",
       PickledDict({{"x", "cposix\nsystem\n(" + PickledText("true") + "tR"}})},
      {"names torch.nn.modules.linear.Linear",
       "\x80\x02"
       "ctorch.nn.modules.linear\nLinear\n."},
      {"the instruction 93", PickledDict({{"x", "]"}})},
      {"protocol 4", "\x80\x04}."},
      {"the entry epoch", PickledDict({{"x", floats}, {"epoch", PickledNumber(3)}})},
      {"a dictionary of tensors", "\x80\x02" + PickledNumber(3) + "."},
      {"a dictionary of tensors", "\x80\x02" + floats + "."},
      {"no storage", PickledDict({{"x", PickledNumber(1) + "Q"}})},
      {"a storage of 4", PickledDict({{"x", PickledFloats({2, 2}, "0", 4, 1)}})},
      {"a storage of 4", PickledDict({{"x", PickledFloats({4, 4}, "0", 4)}})},
      {"not of 8 elements", PickledDict({{"x", PickledFloats({2, 2}, "0", 8)}})},
      {"storage 1", PickledDict({{"x", PickledFloats({2, 2}, "1", 4)}})},
      {"ends early", "\x80\x02}(X"},
      {"damaged", "\x80\x02}us."}};
  for (const auto& [part, pickle] : refused) {
    const auto tensors = Parse(ArchiveOf(pickle));
    ASSERT_FALSE(tensors.ok()) << part;
    EXPECT_EQ(tensors.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(tensors.status().message()), HasSubstr(part));
  }
}

TEST(PytorchFileTest, ATransposedTensorIsRefused) {
  std::string columns = PickledFloats({2, 2}, "0", 4);
  const std::string strides = PickledNumber(2) + PickledNumber(1) + "t";
  columns.replace(columns.rfind(strides), strides.size(),
                  PickledNumber(1) + PickledNumber(2) + "t");
  EXPECT_THAT(std::string(Parse(ArchiveOf(PickledDict({{"x", columns}}))).status().message()),
              HasSubstr(".contiguous()"));
}

TEST(PytorchFileTest, DamagedArchivesAreRefused) {
  const std::string whole = ArchiveOf(PickledDict({{"x", PickledFloats({2, 2}, "0", 4)}}));
  ASSERT_TRUE(Parse(whole).ok());
  EXPECT_FALSE(Parse("").ok());
  EXPECT_THAT(std::string(Parse(std::string(100, 'x')).status().message()),
              HasSubstr("wrote no archive"));
  for (size_t end = 0; end < whole.size(); ++end) EXPECT_FALSE(Parse(whole.substr(0, end)).ok());
  std::string packed = whole;
  packed[packed.find("PK\1\2") + 10] = 8;
  EXPECT_THAT(std::string(Parse(packed).status().message()), HasSubstr("is compressed"));
  EXPECT_THAT(std::string(Parse(StoredZip({{"archive/version", "3"}})).status().message()),
              HasSubstr("no data.pkl"));
  const NamedBytes big = {{"a/data.pkl", PickledDict({})}, {"a/byteorder", "big"}};
  EXPECT_THAT(std::string(Parse(StoredZip(big)).status().message()), HasSubstr("byte order"));
  const NamedBytes twice = {{"a/data.pkl", "x"}, {"a/data.pkl", "y"}};
  EXPECT_THAT(std::string(Parse(StoredZip(twice)).status().message()), HasSubstr("two entries"));
}

}  // namespace
}  // namespace quire::worker
