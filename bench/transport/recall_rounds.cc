// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/recall_rounds.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "apps/kit/output/progress.h"
#include "bench/transport/unit_copier.h"
#include "quire/layout.h"

namespace quire::bench {
namespace {

constexpr uint32_t kLayers = 32;
constexpr uint32_t kHeadDim = 128;
constexpr uint64_t kSmallUnitBytes = 16 << 10;
constexpr uint32_t kSmallUnitTokens = 32;
constexpr uint32_t kGroups = 8;  ///< Groups in which pages are used before a scattered round.

/// The first bytes of a unit.
uint64_t StampOf(uint32_t layer, uint32_t page) { return uint64_t{layer} << 32 | page; }

}  // namespace

uint64_t RecallShape::bytes_per_round() const { return units_per_round() * quire::UnitBytes(spec); }

RecallShape ShapeOf(uint64_t unit_bytes, uint64_t document_bytes) {
  RecallShape shape;
  KvSpec& spec = shape.spec;
  spec.model = "bench-transport";
  spec.attention = AttentionKind::kMqa;
  spec.num_layers = kLayers;
  spec.num_query_heads = 4;
  spec.num_kv_heads = 1;
  spec.head_dim = kHeadDim;
  spec.page_tokens = static_cast<uint32_t>(kSmallUnitTokens * (unit_bytes / kSmallUnitBytes));
  spec.rope.rotary_dim = kHeadDim;
  shape.pages = static_cast<uint32_t>(document_bytes / (unit_bytes * kLayers));
  return shape;
}

StatusOr<SegmentKey> PutDocument(Client& client, const RecallShape& shape) {
  const KvSpec& spec = shape.spec;
  std::vector<TokenId> tokens(spec.segment_tokens());
  std::vector<std::byte> bytes(SegmentBytes(spec, spec.segment_pages));
  SeededRandom random(2);
  cli::ProgressBar progress("storing pages", shape.pages);
  SegmentKey tip = kRootKey;
  for (uint32_t first = 0; first < shape.pages; first += spec.segment_pages) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.Below(32000));
    for (uint32_t layer = 0; layer < spec.num_layers; ++layer) {
      for (uint32_t page = 0; page < spec.segment_pages; ++page) {
        const uint64_t stamp = StampOf(layer, first + page);
        const uint64_t unit = uint64_t{layer} * spec.segment_pages + page;
        std::memcpy(bytes.data() + unit * quire::UnitBytes(spec), &stamp, sizeof stamp);
      }
    }
    Payload payload;
    payload.Append(Slice{bytes, nullptr});
    QUIRE_ASSIGN_OR_RETURN(tip, client.PutSegment(spec, tip, tokens, payload));
    progress.Advance(spec.segment_pages);
  }
  return tip;
}

StatusOr<std::unique_ptr<RecallRounds>> RecallRounds::Open(Client* client,
                                                           const SegmentKey& document,
                                                           const RecallShape& shape,
                                                           Delivery delivery,
                                                           std::span<std::byte> slots) {
  std::unique_ptr<RecallRounds> self(new RecallRounds(shape, delivery, slots));
  QUIRE_ASSIGN_OR_RETURN(
      self->session_,
      client->OpenSession(document, {.spec = shape.spec, .slots_per_head = shape.slots()}));
  if (self->session_->LandsDirectly()) {
    QUIRE_ASSIGN_OR_RETURN(self->landing_, self->session_->MakeLanding());
  }
  for (uint32_t layer = 0; layer < shape.spec.num_layers; ++layer) {
    self->resident_half_[layer].resize(shape.pages);
    self->wants_.push_back({.layer = layer});
  }
  return self;
}

Status RecallRounds::Prepare(Pattern pattern) {
  if (pattern == Pattern::kScattered) QUIRE_RETURN_IF_ERROR(ShuffleSlots());
  for (uint32_t layer = 0; layer < shape_.spec.num_layers; ++layer) {
    std::vector<bool>& resident = resident_half_[layer];
    const auto count = static_cast<uint32_t>(std::count(resident.begin(), resident.end(), true));
    std::vector<uint32_t> candidates;
    for (uint32_t page = 0; page < shape_.pages; ++page) {
      if (count == 0 || !resident[page]) candidates.push_back(page);
    }
    // The first round chooses among all pages; every other one takes exactly the other half.
    if (pattern == Pattern::kScattered) {
      for (size_t i = candidates.size(); i > 1; --i) {
        std::swap(candidates[i - 1], candidates[random_.Below(i)]);
      }
    }
    candidates.resize(shape_.slots());
    std::ranges::sort(candidates);
    std::fill(resident.begin(), resident.end(), false);
    for (const uint32_t page : candidates) resident[page] = true;
    wants_[layer].pages = PageLists();
    wants_[layer].pages.AppendHead(candidates);
  }
  return OkStatus();
}

Status RecallRounds::ShuffleSlots() {
  for (uint32_t group = 0; group < kGroups; ++group) {
    for (uint32_t layer = 0; layer < shape_.spec.num_layers; ++layer) {
      std::vector<uint32_t> pages;
      for (uint32_t page = 0; page < shape_.pages; ++page) {
        if (resident_half_[layer][page] && random_.Below(kGroups) == 0) pages.push_back(page);
      }
      wants_[layer].pages = PageLists();
      wants_[layer].pages.AppendHead(pages);
    }
    QUIRE_RETURN_IF_ERROR(Run(0));
  }
  return OkStatus();
}

Status RecallRounds::Run(uint64_t expected_units, bool verify,
                         const std::function<Status(const RecallPart&)>& visit) {
  RecallOptions options{.landing = landing_.get()};
  options.verify = verify;
  QUIRE_ASSIGN_OR_RETURN(const auto recall, session_->Start(wants_, options));
  uint64_t units = 0;
  while (true) {
    QUIRE_ASSIGN_OR_RETURN(const std::optional<RecallPart> part, recall->Next());
    if (!part) break;
    QUIRE_RETURN_IF_ERROR(visit(*part));
    session_->Applied(*part);
    units += part->placements.size();
  }
  if (units == expected_units) return OkStatus();
  return Internal("a recall moved ", units, " units instead of ", expected_units);
}

Status RecallRounds::Run(uint64_t expected_units) {
  return Run(expected_units, /*verify=*/false, [&](const RecallPart& part) {
    return delivery_ == Delivery::kSlots ? slots_.Fill(part) : OkStatus();
  });
}

Status RecallRounds::RunVerified() {
  QUIRE_RETURN_IF_ERROR(Prepare(Pattern::kScattered));
  const uint64_t unit_bytes = quire::UnitBytes(shape_.spec);
  return Run(shape_.units_per_round(), /*verify=*/true, [&](const RecallPart& part) -> Status {
    if (part.payload.size_bytes() != part.placements.size() * unit_bytes) {
      return Internal("a part has ", part.payload.size_bytes(), " bytes for ",
                      part.placements.size(), " units");
    }
    const Slice units = part.payload.Flatten();
    for (size_t i = 0; i < part.placements.size(); ++i) {
      const Placement& placement = part.placements[i];
      uint64_t stamp = 0;
      std::memcpy(&stamp, units.bytes.data() + i * unit_bytes, sizeof stamp);
      if (stamp == StampOf(placement.layer, placement.page)) continue;
      return DataLoss("what came for page ", placement.page, " of layer ", placement.layer,
                      " is another unit");
    }
    return OkStatus();
  });
}

std::byte* UnitSlots::Unit(uint32_t layer, uint32_t slot) const {
  return memory_.data() + (uint64_t{layer} * slots_ + slot) * quire::UnitBytes(shape_.spec);
}

Status UnitSlots::Fill(const RecallPart& part) {
  UnitCopier copier(part.payload, quire::UnitBytes(shape_.spec));
  for (size_t i = 0; i < part.placements.size(); ++i) {
    const Placement& at = part.placements[i];
    if (copier.CopyNext(Unit(at.layer, at.slot)) == part.checksums[i]) continue;
    return DataLoss("page ", at.page, " of layer ", at.layer, " does not match its checksum");
  }
  return part.IsValid() ? OkStatus() : DataLoss("the units were not lent for long enough");
}

Status UnitSlots::Check(const ClientSession& session) const {
  for (uint32_t layer = 0; layer < shape_.spec.num_layers; ++layer) {
    const auto pages = session.ResidentPages(0, layer);
    for (uint32_t slot = 0; slot < pages.size(); ++slot) {
      if (pages[slot] < 0) continue;  // Never filled.
      uint64_t stamp = 0;
      std::memcpy(&stamp, Unit(layer, slot), sizeof stamp);
      if (stamp == StampOf(layer, static_cast<uint32_t>(pages[slot]))) continue;
      return DataLoss("slot ", slot, " of layer ", layer, " does not hold page ", pages[slot]);
    }
  }
  return OkStatus();
}

Status RecallRounds::RunEmpty() {
  QUIRE_ASSIGN_OR_RETURN(const RecallResult result, session_->Recall({wants_.data(), 1}));
  session_->Applied(result);
  return result.placements.empty() ? OkStatus() : Internal("an empty recall moved units");
}

}  // namespace quire::bench
