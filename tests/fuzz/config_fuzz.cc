// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the checkpoint's JSON files: config.json and its companions, the shard index, and the RoPE
// table of an accepted configuration. Also fuzzes the assembly of whole text.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/utf8.h"
#include "gpuworker/model/checkpoint/checkpoint.h"
#include "gpuworker/model/checkpoint/companions.h"
#include "gpuworker/model/checkpoint/config.h"
#include "gpuworker/model/rope_table.h"
#include "gpuworker/text/tokenizer.h"

namespace {

/// An accepted configuration must suffice for the table.
void CheckRope(const quire::RopeSpec& rope) {
  const quire::worker::RopeTable table(rope);
  std::vector<float> cosines(rope.rotary_dim / 2), sines(rope.rotary_dim / 2);
  table.Fill(0, 1, cosines.data(), sines.data());
  for (const double frequency : table.inverse_frequencies()) {
    if (!std::isfinite(frequency)) std::abort();
  }
}

/// Text must be whole however its bytes are split.
void CheckText(std::string_view text) {
  const std::string whole = quire::ReplaceInvalidUtf8(text);
  quire::Utf8Joiner joiner;
  std::string joined;
  for (const char byte : text) joined += joiner.Add({&byte, 1});
  joined += joiner.Finish();
  if (joined != whole || quire::FirstInvalidUtf8(whole)) std::abort();
  if (!quire::FirstInvalidUtf8(text) && whole != text) std::abort();
}

/// A tokenizer must make tokens that it knows of every text.
void CheckTokenizer(std::string_view text) {
  const auto tokenizer = quire::worker::Tokenizer::Parse(text, "fuzz");
  if (!tokenizer.ok()) return;
  const auto ids = tokenizer->Encode(text);
  if (ids.ok() && !tokenizer->Decode(*ids).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = quire::worker::ParseModelConfig(text, "fuzz");
  if (config.ok()) CheckRope(config->rope);
  if (config.ok() && config->gemma.local_rope) CheckRope(*config->gemma.local_rope);
  (void)quire::worker::ParseShardIndex(text, "fuzz");
  CheckTokenizer(text);
  quire::worker::ModelConfig known{.bos_id = 0, .eos_ids = {1}};
  (void)quire::worker::CheckGenerationConfig(text, "fuzz", &known);
  (void)quire::worker::CheckTokenizerConfig(text, "fuzz", known.eos_ids);
  (void)quire::worker::CheckTextSettings(text, "fuzz", /*begins_texts=*/true);
  CheckText(text);
  return 0;
}
