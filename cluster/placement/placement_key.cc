// SPDX-License-Identifier: Apache-2.0
#include "cluster/placement/placement_key.h"

#include <openssl/sha.h>

#include <array>
#include <initializer_list>
#include <span>
#include <string>

namespace quire::cluster {
namespace {

uint64_t FirstEightBytes(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < 8; ++i) value |= uint64_t{bytes[i]} << (8 * i);
  return value;
}

uint64_t HashParts(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    for (size_t shift = 0; shift < 32; shift += 8) {
      text.push_back(static_cast<char>(part.size() >> shift & 0xff));
    }
    text.append(part);
  }
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const uint8_t*>(text.data()), text.size(), digest.data());
  return FirstEightBytes(digest);
}

}  // namespace

PlacementKey KeyOfDocument(std::string_view tenant, std::string_view collection,
                           std::string_view name) {
  return {HashParts({"quire.placement.v1", tenant, collection, name})};
}

PlacementKey KeyOfChain(const SegmentKey& first_segment) {
  return {FirstEightBytes(first_segment.bytes)};
}

uint64_t HashOfNode(std::string_view node_id) { return HashParts({"quire.placement.v1", node_id}); }

}  // namespace quire::cluster
