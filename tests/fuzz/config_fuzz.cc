// SPDX-License-Identifier: Apache-2.0
//
// The checkpoint's JSON files: config.json, the shard index, and the RoPE table of what is
// accepted.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpuworker/model/checkpoint.h"
#include "gpuworker/model/config.h"
#include "gpuworker/model/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)quire::worker::ParseModelConfig(text, "fuzz");
  (void)quire::worker::ParseShardIndex(text, "fuzz");
  (void)quire::worker::Tokenizer::Parse(text, "fuzz");
  return 0;
}
