// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/layer_recall.h"

#include <algorithm>

#include "common/base/memory/payload_cutter.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Default size of the pieces of a recall. One buffer is placed while the next one is in flight.
constexpr uint32_t kPieceBytes = 256 << 10;
/// Attempts after a recall that came damaged. The server learns of the damage each time and
/// repairs it, so more than one is for damage in the meantime.
constexpr int kMaxRetries = 3;

}  // namespace

LayerRecall::LayerRecall(const Dependencies* with, uint32_t layer)
    : with_(with), layer_(layer), held_(with->cache->spec().num_kv_heads, 0) {}

bool LayerRecall::KeepsHeads() const {
  return pages_.num_heads() == 0 && std::ranges::find(heads_, false) != heads_.end();
}

bool LayerRecall::BringsNoneOf(std::span<const std::vector<uint32_t>> pages) const {
  if (pages_.num_heads() == 0) return false;
  const PageTable& table = with_->cache->table(layer_);
  for (uint32_t head = 0; head < pages_.num_heads(); ++head) {
    for (const uint32_t page : pages_.Head(head)) {
      if (table.IsResident(head, page)) continue;
      if (std::ranges::binary_search(pages[head], page)) return false;
    }
  }
  return true;
}

std::vector<uint64_t> LayerRecall::ExpectedHeld() const {
  std::vector<uint64_t> expected = held_;
  if (!in_flight()) return expected;
  for (size_t head = 0; head < expected.size(); ++head) {
    if (heads_[head]) expected[head] = position_;
  }
  return expected;
}

Status LayerRecall::Start(PlannedRecall plan, Priority priority) {
  position_ = plan.position;
  heads_ = std::move(plan.heads);
  follow_up_.reset();
  LayerWant& want = plan.want;
  if (want.query.empty() && IsResident(want.pages)) return Activate(want.pages, heads_);
  pages_ = want.pages;
  host_units_ = HostUnits(with_->host, with_->cache->table(layer_), CodecsRecalled(), &want);
  QUIRE_ASSIGN_OR_RETURN(
      recall_,
      with_->channel->Start(std::move(want),
                            {.priority = priority, .verify = false, .piece_bytes = PieceBytes()}));
  ++with_->stats->recalls;
  return OkStatus();
}

StatusOr<bool> LayerRecall::Wait(Deadline deadline) {
  const TimePoint start = with_->clock->Now();
  StatusOr<bool> ready = true;
  if (!IsReady()) ready = Receive(deadline);
  if (ready.ok() && *ready) {
    if (const Status finished = Finish(deadline); !finished.ok()) ready = finished;
  }
  with_->stats->stalled += with_->clock->Now() - start;
  return ready;
}

Status LayerRecall::Retry(const PlannedRecall& plan) {
  Status status;
  for (int retries = 0; retries < kMaxRetries; ++retries) {
    failed_ = false;
    QUIRE_RETURN_IF_ERROR(Start(plan, Priority::kCorrection));
    if (!in_flight()) return OkStatus();
    status = Wait({}).status();
    if (!IsDataLoss(status)) break;
  }
  return status;
}

StatusOr<bool> LayerRecall::Receive(Deadline deadline) {
  while (!IsReady()) {
    auto part = deadline ? recall_->Next(*deadline) : recall_->Next();
    const TimePoint now = with_->clock->Now();
    const bool goes_on = deadline && now >= *deadline && now < recall_->deadline();
    if (goes_on && IsDeadlineExceeded(part.status())) return false;
    failed_ = !part.ok();
    Status status = part.status();
    if (status.ok() && !part->has_value()) {
      status = Internal("a recall of layer ", layer_, " came without its lane");
    }
    if (status.ok()) status = Take(**std::move(part));
    if (status.ok()) continue;
    Drop();
    return status;
  }
  return true;
}

Status LayerRecall::Take(RecallPart part) {
  if (part.lanes.empty()) {
    if (placing_ == nullptr) {
      return Internal("a recall of layer ", layer_, " came without its lane");
    }
    bytes_to_come_ = part.bytes_to_come;
    return placing_->Add(part.payload);
  }
  placing_.reset();  // An attempt that broke off; its slots are empty from now on.
  bytes_to_come_ = part.bytes_to_come;
  part_ = std::move(part);
  return StartPlacing();
}

void LayerRecall::Drop() {
  recall_.reset();
  if (placing_ != nullptr) {
    placing_.reset();
    with_->channel->Invalidate(*part_);
  }
  part_.reset();
  bytes_to_come_ = 0;
}

UnitPart LayerRecall::PartRecalled() const {
  return with_->keys == nullptr ? UnitPart::kWhole : UnitPart::kValues;
}

CodecSet LayerRecall::CodecsRecalled() const {
  return RecalledCodecs(with_->options->recall_layout, PartRecalled());
}

UnitSizes LayerRecall::SizesRecalled() const {
  return {with_->cache->spec(), PartRecalled(), CodecsRecalled()};
}

uint32_t LayerRecall::PieceBytes() const {
  const RetrievalOptions& options = *with_->options;
  // Wait for the whole reply in three cases. Units already being placed cannot be late. Units of
  // the host tier lie between those that arrive. Heads that keep pages would lose them if the reply
  // broke off.
  const bool streams = with_->executor != nullptr && options.recall_buffers > 1 &&
                       options.recall_deadline == Duration::zero() && host_units_.empty() &&
                       !KeepsHeads() && with_->keys == nullptr;
  if (!streams) return 0;
  const uint64_t bytes = options.units_per_buffer * SizesRecalled().raw();
  return bytes == 0 ? kPieceBytes : static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

std::function<void(size_t, const Payload&)> LayerRecall::KeepInHost(
    const ArrivedUnits& arrived) const {
  return [host = &with_->host, sizes = SizesRecalled(),
          all = ArrivedUnits{.layer = arrived.layer,
                             .placements = arrived.placements,
                             .checksums = arrived.checksums,
                             .codecs = arrived.codecs}](size_t first, const Payload& units) {
    PayloadCutter cutter(units);
    uint64_t left = units.size_bytes();
    for (size_t i = first; left > 0; ++i) {
      const uint64_t bytes = sizes.Of(all.CodecOf(i));
      host->Put(
          all.layer, all.placements[i].head, all.placements[i].page, cutter.Cut(bytes),
          all.checksums[i], [&units] { return units.IsValid(); }, all.CodecOf(i));
      left -= bytes;
    }
  };
}

Status LayerRecall::StartPlacing() {
  QUIRE_ASSIGN_OR_RETURN(ArrivedUnits arrived, host_units_.Merge(layer_, *part_, SizesRecalled()));
  StreamedPlacement::Dependencies with{
      .cache = with_->cache,
      .executor = with_->executor,
      .options = {.units_per_buffer = with_->options->units_per_buffer,
                  .buffers = with_->options->recall_buffers,
                  .layout = with_->options->recall_layout,
                  .part = PartRecalled()}};
  if (with_->keys != nullptr) {
    with.executor = nullptr;  // Keys belong to the thread of their policy.
    with.rewrite = [keys = with_->keys, layer = layer_](const SlotPlacement& at,
                                                        std::span<std::byte> unit) {
      keys->FillKeys(layer, at.head, at.page, unit.first(unit.size() / 2));
    };
  }
  if (with_->host.enabled()) with.on_verified = KeepInHost(arrived);
  QUIRE_ASSIGN_OR_RETURN(placing_, StreamedPlacement::Start(with, std::move(arrived)));
  return OkStatus();
}

Status LayerRecall::Finish(Deadline deadline) {
  const std::unique_ptr<ChannelRecall> recall = std::move(recall_);
  const RecallPart part = *std::exchange(part_, std::nullopt);
  const std::unique_ptr<StreamedPlacement> placing = std::move(placing_);
  const Status placed = placing->Finish();
  if (!placed.ok()) {
    failed_ = IsDataLoss(placed);
    for (const StreamedPlacement::Mismatch& mismatch : placing->mismatches()) {
      ReportDamage(part, mismatch);
    }
    with_->channel->Invalidate(part);
    return placed;
  }
  with_->channel->Applied(part);
  Count(part);
  host_units_ = {};
  TouchEvicted(part);
  const PageLists& selected = part.lanes.at(0).selected;
  QUIRE_RETURN_IF_ERROR(Activate(selected.num_heads() == 0 ? pages_ : selected, heads_));
  if (KeepsHeads() && selected.num_heads() > 0) {
    follow_up_ = {.want = {}, .position = position_, .heads = std::vector(heads_.size(), true)};
    follow_up_->want.layer = layer_;
    follow_up_->want.pages = selected;
  }
  // Everything has come. The end of the reply matters only when it is an error, so it is not waited
  // for beyond the deadline.
  const Status end = recall->Next(deadline.value_or(recall->deadline())).status();
  return deadline && IsDeadlineExceeded(end) ? OkStatus() : end;
}

uint64_t LayerRecall::SentBytes(const RecallPart& part) const {
  const UnitSizes sizes = SizesRecalled();
  uint64_t bytes = 0;
  for (size_t i = 0; i < part.placements.size(); ++i) bytes += sizes.Of(part.CodecOf(i));
  return bytes - part.held.size() * sizes.raw();  // A held one counts as raw.
}

void LayerRecall::Count(const RecallPart& part) {
  const uint64_t units = part.placements.size() - part.held.size();
  RecallStats& stats = *with_->stats;
  stats.units_landed += part.landed_bytes > 0 ? units : 0;  // All of a part lands, or nothing.
  stats.bytes_moved += SentBytes(part);
  stats.units_missed += units;
  stats.units_from_host += part.held.size();
  stats.units_selected += part.lanes.at(0).selected.num_pages();
}

void LayerRecall::TouchEvicted(const RecallPart& part) const {
  if (!with_->host.enabled()) return;
  for (const Placement& at : part.placements) {
    if (at.replaced >= 0) with_->host.Touch(layer_, at.head, static_cast<uint32_t>(at.replaced));
  }
}

void LayerRecall::ReportDamage(const RecallPart& part,
                               const StreamedPlacement::Mismatch& mismatch) const {
  const Placement& at = part.placements.at(mismatch.placement);
  ++with_->stats->units_damaged;
  if (std::ranges::binary_search(part.held, mismatch.placement)) {
    with_->host.DropDamaged(layer_, at.head, at.page);
    return;
  }
  with_->channel->Mismatched(
      {.layer = layer_, .head = at.head, .page = at.page, .crc32c = mismatch.crc32c});
}

bool LayerRecall::IsResident(uint32_t head, std::span<const uint32_t> pages) const {
  const PageTable& table = with_->cache->table(layer_);
  return std::ranges::all_of(pages, [&](uint32_t page) { return table.IsResident(head, page); });
}

bool LayerRecall::IsResident(const PageLists& pages) const {
  for (uint32_t head = 0; head < pages.num_heads(); ++head) {
    if (!IsResident(head, pages.Head(head))) return false;
  }
  return true;
}

Status LayerRecall::ActivateResident() {
  std::vector<bool> resident = heads_;
  for (uint32_t head = 0; head < pages_.num_heads(); ++head) {
    if (!IsResident(head, pages_.Head(head))) resident[head] = false;
  }
  return Activate(pages_, resident);
}

Status LayerRecall::Activate(const PageLists& pages, const std::vector<bool>& heads) {
  PageTable& table = with_->cache->table(layer_);
  for (uint32_t head = 0; head < pages.num_heads(); ++head) {
    if (!heads[head]) continue;
    QUIRE_RETURN_IF_ERROR(Annotate(table.Activate(head, pages.Head(head)), "layer ", layer_));
    held_[head] = position_;
  }
  return OkStatus();
}

}  // namespace quire::worker
