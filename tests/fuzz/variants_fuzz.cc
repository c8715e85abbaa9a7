// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes variants of a document (extras.proto). The first byte is the number of its tokens, the
// rest the record. A record that decodes must have the shape that readers rely on, and encode and
// decode to the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "gpuworker/context/cachecraft/variants_record.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace quire::worker;
  if (size == 0) return 0;
  const uint64_t tokens = data[0];
  const auto variants = DecodeVariants({reinterpret_cast<const char*>(data + 1), size - 1}, tokens);
  if (!variants.ok()) return 0;
  for (const ChunkVariant& variant : *variants) {
    if (variant.tokens.size() + variant.skipped != tokens) std::abort();
    if (variant.prefix.empty() || variant.prefix.size() != variant.inter.size()) std::abort();
    const double overlap = PrefixOverlap(variant, variant.prefix);
    if (!(overlap >= 0 && overlap <= 1)) std::abort();
  }
  const std::string bytes = EncodeVariants(*variants);
  const auto again = DecodeVariants(bytes, tokens);
  if (!again.ok() || EncodeVariants(*again) != bytes) std::abort();
  return 0;
}
