// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/document_reader.h"

#include <algorithm>
#include <utility>

#include "kernels/api/page_digest.h"
#include "quire/layout.h"
#include "quire/page_name.h"

namespace quire::worker {
namespace {

/// Every head of `pages`.
PageLists OfAllHeads(uint32_t heads, std::span<const uint32_t> pages) {
  PageLists lists;
  for (uint32_t head = 0; head < heads; ++head) lists.AppendHead(pages);
  return lists;
}

}  // namespace

StatusOr<std::unique_ptr<DocumentReader>> DocumentReader::Open(
    const EngineParts& parts, std::span<const ContextRef> documents, uint32_t most_pages,
    bool scores) {
  SequenceSpec sequence;
  for (const ContextRef& document : documents) sequence.members.push_back({.context = document});
  SessionOptions options{
      .spec = *parts.spec, .slots_per_head = most_pages, .codecs = CodecSet::All()};
  if (scores) options.hold_digests = HeldDigests{.kind = DigestKind::kContent};
  QUIRE_ASSIGN_OR_RETURN(auto session, parts.client->OpenSession({&sequence, 1}, options));
  return std::unique_ptr<DocumentReader>(new DocumentReader(parts, std::move(session)));
}

Status DocumentReader::Ask(const std::vector<std::vector<uint32_t>>& pages) {
  to_come_.clear();
  const size_t most = PagesPerBatch(parts_, ExtentBytes(*parts_.spec, 1));
  for (uint32_t layer = 0; layer < pages.size(); ++layer) {
    for (auto at = pages[layer].begin(); at != pages[layer].end();) {
      const auto end = at + static_cast<ptrdiff_t>(std::min<size_t>(
                                most, static_cast<size_t>(pages[layer].end() - at)));
      to_come_.push_back({layer, {at, end}});
      at = end;
    }
  }
  return to_come_.empty() ? OkStatus() : Start();
}

Status DocumentReader::Start() {
  std::vector<LayerWant> wants;
  for (const Lane& lane : to_come_) {
    if (!wants.empty() && wants.back().layer == lane.layer) break;  // A lane is asked for once.
    wants.push_back(
        {.layer = lane.layer, .pages = OfAllHeads(parts_.spec->num_kv_heads, lane.pages)});
  }
  cutter_.reset();
  part_.reset();
  recall_.reset();  // Before its lanes are asked for again.
  QUIRE_ASSIGN_OR_RETURN(recall_, session_->Start(std::move(wants)));
  ++requests_;
  return OkStatus();
}

StatusOr<std::vector<std::byte>> DocumentReader::Bounds(uint32_t document,
                                                        std::span<const uint32_t> layers,
                                                        uint32_t pages) {
  const uint64_t page_bytes = kernels::PageDigestBytes(*parts_.spec);
  const uint32_t batch = PagesPerBatch(parts_, page_bytes);
  std::vector<std::byte> bounds(layers.size() * pages * page_bytes);
  std::byte* to = bounds.data();
  for (const uint32_t layer : layers) {
    for (uint32_t first = 0; first < pages;) {
      const uint32_t end = first + std::min(batch, pages - first);
      QUIRE_ASSIGN_OR_RETURN(const Payload some,
                             session_->Digests({&layer, 1}, first, end, 0, document));
      ++requests_;
      some.CopyTo(to);
      to += some.size_bytes();
      first = end;
    }
  }
  return bounds;
}

StatusOr<DocumentUnits> DocumentReader::Read(uint32_t layer) {
  if (to_come_.empty() || to_come_.front().layer != layer) return DocumentUnits{};
  if (!part_ || next_lane_ == part_->lanes.size()) QUIRE_RETURN_IF_ERROR(Receive());
  return Take();
}

Status DocumentReader::ReadAgain() {
  to_come_.push_front(last_);
  return Start();
}

uint32_t DocumentReader::RowsOf(uint32_t page) const {
  const ContextInfo& document = session_->context(0, MemberOf(page));
  return TokensInPage(*parts_.spec, document.num_tokens, PageOf(page));
}

Status DocumentReader::Receive() {
  cutter_.reset();
  QUIRE_ASSIGN_OR_RETURN(part_, recall_->Next());
  if (!part_) {  // All that it asked for has come.
    QUIRE_RETURN_IF_ERROR(Start());
    QUIRE_ASSIGN_OR_RETURN(part_, recall_->Next());
  }
  if (!part_ || part_->lanes.empty()) return Internal("a recall of documents came without a lane");
  cutter_.emplace(part_->payload);
  next_lane_ = 0;
  return OkStatus();
}

StatusOr<DocumentUnits> DocumentReader::Take() {
  const RecalledLane& lane = part_->lanes[next_lane_++];
  const size_t units = to_come_.front().pages.size() * parts_.spec->num_kv_heads;
  if (lane.layer != to_come_.front().layer || lane.end_placement - lane.first_placement != units) {
    return Internal("a recall of layer ", to_come_.front().layer, " came with other units");
  }
  last_ = std::move(to_come_.front());
  to_come_.pop_front();
  DocumentUnits taken{.placements = part_->PlacementsOf(lane)};
  uint64_t bytes = 0;
  for (size_t i = lane.first_placement; i < lane.end_placement; ++i) {
    taken.codecs.push_back(part_->CodecOf(i));
    taken.unit_bytes.push_back(session_->unit_bytes(taken.codecs.back()));
    bytes += taken.unit_bytes.back();
  }
  taken.units = cutter_->Cut(bytes);
  taken.units.AddLeases(part_->payload);
  return taken;
}

}  // namespace quire::worker
