// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/scale_cluster.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "common/base/random.h"

namespace quire::scale {
namespace {

constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint32_t kSegmentTokens = 256;

/// 32 hexadecimal digits, as node ids have.
std::string IdOf(uint64_t number) {
  static constexpr char kDigits[] = "0123456789abcdef";
  SeededRandom random(number);
  std::string id;
  for (int i = 0; i < 32; ++i) id.push_back(kDigits[random.Below(16)]);
  return id;
}

/// A number of six digits, so that names sort by it.
std::string SixDigits(uint64_t number) { return std::to_string(100'000 + number); }

}  // namespace

cluster::ClusterView ViewOfNodes(const ScaleOptions& options, uint32_t first, uint32_t count) {
  cluster::ClusterView view{.name = "scale", .id = IdOf(0), .epoch = 1};
  view.settings.replicas = options.replicas;
  for (uint32_t i = first; i < first + count; ++i) {
    const uint32_t weight = kScaleWeights[i % std::size(kScaleWeights)];
    view.members.push_back({.name = "node-" + SixDigits(i),
                            .node_id = IdOf(i + 1),
                            .zone = "zone-" + std::to_string(i % options.zones),
                            .weight = weight,
                            .address = "node-" + SixDigits(i) + ".quire.example:7410",
                            .version = "0.1.0",
                            .incarnation = i + 1,
                            .dram_bytes = weight * kTiB / 4,
                            .ssd_bytes = weight * 16 * kTiB});
  }
  return view;
}

Document DocumentOf(const ScaleOptions& options, uint64_t number) {
  SeededRandom random(number);
  Document document{.name = {.collection = "handbooks",
                             .name = "department-team-document-" + SixDigits(number) + ".md",
                             .version = 1}};
  random.Fill(document.chain_tip.bytes);
  document.num_tokens = uint64_t{options.segments_per_document} * kSegmentTokens;
  document.bytes = options.segments_per_document * options.segment_bytes;
  document.model = "meta-llama/Llama-3.1-8B-Instruct";
  document.created_unix_micros = 1'700'000'000'000'000 + static_cast<int64_t>(number);
  std::array<uint8_t, 32> hash;
  random.Fill(hash);
  document.content_hash.assign(hash.begin(), hash.end());
  document.tags = {{"language", std::string("en")}, {"team", std::string("operations")}};
  document.source = "https://files.example/" + document.name.name;
  document.is_latest = true;
  return document;
}

std::vector<cluster::PlacementKey> SampledKeys(const ScaleOptions& options) {
  const uint64_t count = std::min<uint64_t>(options.sampled_documents, options.documents());
  std::vector<cluster::PlacementKey> keys;
  keys.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const DocumentName name = DocumentOf(options, i).name;
    keys.push_back(cluster::KeyOfDocument("default", name.collection, name.name));
  }
  return keys;
}

}  // namespace quire::scale
