// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/random_model.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <span>
#include <system_error>
#include <vector>

#include "apps/kit/output/json_output.h"
#include "apps/kit/output/progress.h"
#include "common/base/random.h"
#include "gpuworker/head/head_weights.h"
#include "gpuworker/model/checkpoint/random_checkpoint.h"
#include "quire/dtype.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kWeightsSeed = 11;
constexpr uint64_t kHeadSeed = 12;
constexpr double kRopeTheta = 500000.0;
/// Number of values that pages consist of; a prime, so that no two pages begin alike.
constexpr uint64_t kPoolValues = 4194301;

/// The tensors of an EAGLE-3 draft that a head of mode embed_only reads.
Status WriteRandomHead(const std::string& directory, const RandomModel& m) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::ofstream config(directory + "/config.json");
  config << cli::Json{{"hidden_size", m.hidden_size()},
                      {"num_attention_heads", m.num_query_heads},
                      {"num_key_value_heads", m.num_kv_heads},
                      {"head_dim", m.head_dim},
                      {"vocab_size", m.vocab_size},
                      {"max_position_embeddings", m.max_positions},
                      {"rope_theta", kRopeTheta},
                      {"retrieval_head_mode", "embed_only"}}
                .dump();
  config.close();
  if (!config) return Unavailable("cannot write ", directory, "/config.json");
  const uint64_t h = m.hidden_size(), q = uint64_t{m.num_query_heads} * m.head_dim;
  const uint64_t k = uint64_t{m.num_kv_heads} * m.head_dim;
  const float deviation = m.gain / std::sqrt(static_cast<float>(h));
  return worker::WriteRandomTensors(
      directory + "/model.safetensors",
      {{"midlayer.input_layernorm.weight", {h}, 1, 0.1f},
       {"midlayer.self_attn.q_proj.weight", {q, 2 * h}, 0, deviation},
       {"midlayer.self_attn.k_proj.weight", {k, 2 * h}, 0, deviation}},
      kHeadSeed);
}

}  // namespace

Status WriteRandomModel(const std::string& directory, const RandomModel& m) {
  if (m.head) {
    QUIRE_RETURN_IF_ERROR(WriteRandomHead(directory + "/" + worker::kHeadFolder, m));
  }
  return worker::WriteRandomCheckpoint(directory, {.num_layers = m.num_layers,
                                                   .num_query_heads = m.num_query_heads,
                                                   .num_kv_heads = m.num_kv_heads,
                                                   .head_dim = m.head_dim,
                                                   .intermediate_size = m.intermediate_size,
                                                   .vocab_size = m.vocab_size,
                                                   .max_positions = m.max_positions,
                                                   .rope_theta = kRopeTheta,
                                                   .gain = m.gain,
                                                   .own_share = m.own_share,
                                                   .seed = kWeightsSeed});
}

Status VisitRandomDocument(const KvSpec& spec, uint32_t pages, const SegmentVisitor& visit) {
  SeededRandom random(kWeightsSeed);
  const uint64_t element = ElementBytes(spec.dtype);
  const uint64_t segment_bytes = SegmentBytes(spec, spec.segment_pages);
  std::vector<std::byte> pool(kPoolValues * element + segment_bytes);
  for (uint64_t i = 0; i < pool.size() / element; ++i) {
    StoreElement(pool.data(), static_cast<int64_t>(i), spec.dtype,
                 static_cast<float>(random.Normal()));
  }
  std::vector<TokenId> tokens(spec.segment_tokens());
  for (uint32_t first = 0; first < pages; first += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(256));
    QUIRE_RETURN_IF_ERROR(
        visit(tokens, std::span(pool).subspan(random.Below(kPoolValues) * element, segment_bytes)));
  }
  return OkStatus();
}

Status PutRandomDocument(Client& client, const KvSpec& spec, uint32_t pages,
                         const DocumentName& name) {
  cli::ProgressBar progress("storing pages", pages);
  SegmentKey tip = kRootKey;
  QUIRE_RETURN_IF_ERROR(VisitRandomDocument(
      spec, pages,
      [&](std::span<const TokenId> tokens, std::span<const std::byte> bytes) -> Status {
        Payload payload;
        payload.Append(Slice{bytes, nullptr});
        QUIRE_ASSIGN_OR_RETURN(tip, client.PutSegment(spec, tip, tokens, payload));
        progress.Advance(spec.segment_pages);
        return OkStatus();
      }));
  return client.RegisterDocument(name, tip).status();
}

}  // namespace quire::bench
