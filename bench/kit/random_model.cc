// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/random_model.h"

#include <span>
#include <vector>

#include "apps/kit/output/progress.h"
#include "common/base/random.h"
#include "gpuworker/model/checkpoint/random_checkpoint.h"
#include "quire/dtype.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint64_t kWeightsSeed = 11;
constexpr double kRopeTheta = 500000.0;
/// Number of values that pages consist of; a prime, so that no two pages begin alike.
constexpr uint64_t kPoolValues = 4194301;

}  // namespace

Status WriteRandomModel(const std::string& directory, const RandomModel& m) {
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
