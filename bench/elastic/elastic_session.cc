// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic/elastic_session.h"

#include <chrono>
#include <utility>
#include <vector>

#include "apps/kit/output/progress.h"
#include "common/base/random.h"
#include "quire/clock.h"

namespace quire::bench {
namespace {

constexpr int kMaxAttempts = 16;
constexpr Duration kServerPatience = std::chrono::milliseconds(100);

/// True if the reply was lost or invalid, so that a retry helps.
bool CanAskAgain(const Status& status) {
  return IsUnavailable(status) || IsDeadlineExceeded(status) || IsDataLoss(status);
}

}  // namespace

StatusOr<SegmentKey> PutContext(Client& client, const PagedContext& context, uint64_t seed) {
  const KvSpec& spec = context.spec();
  SeededRandom random(seed);
  std::vector<TokenId> tokens(spec.segment_tokens());
  SegmentKey tip = kRootKey;
  cli::ProgressBar progress("storing pages", context.num_pages());
  for (uint32_t first = 0; first < context.num_pages(); first += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
    Payload payload;
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      for (uint32_t page = first; page < first + spec.segment_pages; ++page) {
        for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
          payload.Append(Slice{context.unit(layer, page, head), nullptr});
        }
      }
    }
    QUIRE_ASSIGN_OR_RETURN(tip, client.PutSegment(spec, tip, tokens, payload));
    progress.Advance(spec.segment_pages);
  }
  return tip;
}

StatusOr<ElasticSession> ElasticSession::Open(Client& client, const SegmentKey& tip,
                                              const KvSpec& spec, uint32_t slots_per_head) {
  QUIRE_ASSIGN_OR_RETURN(auto session,
                         client.OpenSession(tip, {.spec = spec, .slots_per_head = slots_per_head}));
  return ElasticSession(std::move(session));
}

Status ElasticSession::Land() {
  QUIRE_ASSIGN_OR_RETURN(landing_, session_->MakeLanding());
  return OkStatus();
}

StatusOr<ElasticSession::Moved> ElasticSession::Step(const StepSelection& selection,
                                                     SlotCache* slots) {
  std::vector<LayerWant> wants;
  for (uint32_t layer = 0; layer < selection.size(); ++layer) {
    LayerWant& want = wants.emplace_back();
    want.layer = layer;
    for (const std::vector<uint32_t>& pages : selection[layer]) want.pages.AppendHead(pages);
  }
  Moved moved;
  Status status = RecallParts(wants, slots, &moved);
  for (int attempt = 1; attempt < kMaxAttempts && CanAskAgain(status); ++attempt) {
    ++failed_recalls_;
    status = RecallParts(wants, slots, &moved);
  }
  QUIRE_RETURN_IF_ERROR(status);
  return moved;
}

Status ElasticSession::RecallParts(const std::vector<LayerWant>& wants, SlotCache* slots,
                                   Moved* moved) {
  QUIRE_ASSIGN_OR_RETURN(const auto recall, session_->Start(wants, {.timeout = kServerPatience,
                                                                    .landing = landing_.get()}));
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const auto part, recall->Next());
    if (!part) return OkStatus();
    Take(*part, slots);
    moved->units += part->placements.size();
    moved->bytes += part->payload.size_bytes();
  }
}

void ElasticSession::Take(const RecallPart& part, SlotCache* slots) {
  const Slice units = part.payload.Flatten();
  const uint64_t unit_bytes = session_->unit_bytes();
  uint64_t at = 0;
  for (const Placement& placement : part.placements) {
    slots->Place(placement.layer, placement.head, placement.slot, placement.page,
                 units.bytes.subspan(at, unit_bytes));
    at += unit_bytes;
  }
  session_->Applied(part);
}

}  // namespace quire::bench
