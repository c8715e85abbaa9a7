// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_pipeline.h"

#include <algorithm>
#include <utility>

#include "common/base/payload_cutter.h"
#include "common/page/layout.h"
#include "gpuworker/retrieval/key_source.h"

namespace quire::worker {
namespace {

/// A recall comes in pieces of this size: a buffer is put into its slots while the next one is on
/// its way.
constexpr uint32_t kPieceBytes = 256 << 10;
/// How often a recall that came damaged is asked for again. Each time the server hears what was
/// damaged and mends what it has, so more than once is for damage that comes meanwhile.
constexpr int kMostAskedAgain = 3;

/// The kernels' pooling and the client's name the same modes in the same order.
RecallPooling ToRecallPooling(kernels::Pooling pooling) {
  static_assert(static_cast<int>(kernels::Pooling::kMaxQ) ==
                static_cast<int>(RecallPooling::kMaxQ) + 1);
  static_assert(static_cast<int>(kernels::Pooling::kAvgSdM) ==
                static_cast<int>(RecallPooling::kAvgSdM) + 1);
  return static_cast<RecallPooling>(static_cast<int>(pooling) - 1);
}

bool Any(const std::vector<bool>& heads) {
  return std::find(heads.begin(), heads.end(), true) != heads.end();
}

bool All(const std::vector<bool>& heads) {
  return std::find(heads.begin(), heads.end(), false) == heads.end();
}

/// Adds `more` to `heads`; as many.
void AddTo(std::vector<bool>& heads, const std::vector<bool>& more) {
  for (size_t head = 0; head < heads.size(); ++head) {
    if (more[head]) heads[head] = true;
  }
}

uint64_t CountUnits(const std::vector<std::vector<uint32_t>>& pages) {
  uint64_t units = 0;
  for (const std::vector<uint32_t>& head : pages) units += head.size();
  return units;
}

}  // namespace

RecallStats RecallStats::operator-(const RecallStats& before) const {
  return {.recalls = recalls - before.recalls,
          .bytes_moved = bytes_moved - before.bytes_moved,
          .selections = selections - before.selections,
          .units_selected = units_selected - before.units_selected,
          .nan_scores = nan_scores - before.nan_scores,
          .units_missed = units_missed - before.units_missed,
          .units_landed = units_landed - before.units_landed,
          .units_from_host = units_from_host - before.units_from_host,
          .units_damaged = units_damaged - before.units_damaged,
          .blocking_layers = blocking_layers - before.blocking_layers,
          .blocking_heads = blocking_heads - before.blocking_heads,
          .late_prefetches = late_prefetches - before.late_prefetches,
          .late_corrections = late_corrections - before.late_corrections,
          .stalled = stalled - before.stalled};
}

RecallPipeline::RecallPipeline(const Dependencies& dependencies)
    : with_(dependencies), lanes_(dependencies.cache->num_layers()) {
  const uint32_t heads = with_.cache->spec().num_kv_heads;
  for (Lane& lane : lanes_) {
    lane.held.assign(heads, 0);
    lane.expected.assign(heads, 0);
    lane.late.assign(heads, false);
  }
}

bool RecallPipeline::Lane::keeps_heads() const { return pages.num_heads() == 0 && !All(heads); }

RecallPipeline::Patience RecallPipeline::PatienceOf(const SelectRequest& request,
                                                    TimePoint began) const {
  const Duration deadline = with_.options->recall_deadline;
  if (deadline == Duration::zero() || !with_.policy->MayBeLate(request)) return {};
  return began + deadline;
}

bool RecallPipeline::Selects(uint32_t layer) const {
  return with_.cache->table(layer).layout().selects();
}

Status RecallPipeline::BeforeAttention(uint32_t layer, const float* q) {
  QUIRE_RETURN_IF_ERROR(Ask(layer, q));
  return Await(layer);
}

Status RecallPipeline::Ask(uint32_t layer, const float* q, std::optional<TimePoint> began) {
  // A correction leaves before what was begun, which has until the next step: it need not queue
  // behind that reply. A layer that waits for an earlier prefetch lets others leave before.
  if (begun_ == layer || !HasCome(layer)) {
    QUIRE_RETURN_IF_ERROR(AskForBegun());
  } else if (begun_ && lanes_[*begun_].unselected) {
    QUIRE_RETURN_IF_ERROR(Speculate(*begun_));
  }
  if (Selects(layer))
    QUIRE_RETURN_IF_ERROR(AskForLayer(layer, q, began.value_or(with_.clock->Now())));
  return AskForBegun();
}

SelectRequest RecallPipeline::RequestFor(uint32_t layer, const float* q) const {
  const PageTable& table = with_.cache->table(layer);
  return {.layer = layer,
          .q = q,
          .candidates = table.candidates(),
          .max_pages = table.layout().most_selected(),
          .position = table.num_tokens(),
          .held = lanes_[layer].held};
}

void RecallPipeline::Expect(Lane& lane) {
  lane.expected = lane.held;
  if (lane.under_way == nullptr) return;
  for (size_t head = 0; head < lane.expected.size(); ++head) {
    if (lane.heads[head]) lane.expected[head] = lane.position;
  }
}

std::vector<bool> RecallPipeline::MustBlock(const Lane& lane, uint64_t position) const {
  std::vector<bool> blocking = lane.late;
  for (size_t head = 0; head < blocking.size(); ++head) {
    if (lane.failed || lane.expected[head] + 1 < position) blocking[head] = true;
  }
  return blocking;
}

Status RecallPipeline::AskForLayer(uint32_t layer, const float* q, TimePoint began) {
  Lane& lane = lanes_[layer];
  SelectRequest request = RequestFor(layer, q);
  ++with_.stats->selections;
  Expect(lane);
  const std::vector<bool> must_block = MustBlock(lane, request.position);
  Patience patience;
  if (!Any(must_block)) patience = PatienceOf(request, began);
  // A recall that is waited for as long as it takes will be held, so it is selected while that is
  // on its way. With a deadline only time tells which query there is to compare with.
  if (patience) {
    QUIRE_RETURN_IF_ERROR(TakePrefetched(layer, patience));
    if (lane.under_way != nullptr) QUIRE_RETURN_IF_ERROR(ActivateResident(layer));
  } else {
    request.held = lane.expected;
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<bool> blocking, with_.policy->NeedsBlocking(request));
  request.held = {};
  AddTo(blocking, must_block);
  if (patience && lane.under_way != nullptr) {
    GoOnWithout(lane, blocking);
    lane.unselected = request;
    return OkStatus();
  }
  std::optional<Selection> selection;
  if (Any(blocking)) {
    QUIRE_ASSIGN_OR_RETURN(selection, Select(request));
  }
  QUIRE_RETURN_IF_ERROR(TakePrefetched(layer, {}));
  lane.late.assign(lane.late.size(), false);
  if (std::exchange(lane.failed, false)) {
    blocking = AllHeads();
    patience = {};
  }
  if (!Any(blocking)) {
    lane.unselected = request;
    return OkStatus();
  }
  if (!selection) {
    QUIRE_ASSIGN_OR_RETURN(selection, Select(request));
  }
  return Correct(request, *std::move(selection), blocking, patience);
}

Status RecallPipeline::ActivateResident(uint32_t layer) {
  Lane& lane = lanes_[layer];
  std::vector<bool> resident = lane.heads;
  for (uint32_t head = 0; head < lane.pages.num_heads(); ++head) {
    if (!IsResident(layer, head, lane.pages.Head(head))) resident[head] = false;
  }
  return Activate(layer, lane.pages, lane.position, resident);
}

void RecallPipeline::GoOnWithout(Lane& lane, const std::vector<bool>& turned) {
  if (Any(turned)) ++with_.stats->late_corrections;
  lane.late = turned;
  for (size_t head = 0; head < lane.late.size(); ++head) {
    if (lane.held[head] < lane.expected[head]) lane.late[head] = true;
  }
}

StatusOr<Selection> RecallPipeline::Select(const SelectRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(Selection selection, with_.policy->Select(request));
  with_.stats->units_selected += CountUnits(selection.pages);
  with_.stats->nan_scores += selection.nan_scores;
  return selection;
}

Status RecallPipeline::TakePrefetched(uint32_t layer, Patience patience) {
  Lane& lane = lanes_[layer];
  if (lane.under_way == nullptr) return OkStatus();
  const StatusOr<bool> came = Wait(layer, patience);
  if (!came.ok()) return lane.failed ? OkStatus() : came.status();
  if (!*came) ++with_.stats->late_prefetches;
  return OkStatus();
}

Status RecallPipeline::Correct(const SelectRequest& request, Selection selection,
                               const std::vector<bool>& blocking, Patience patience) {
  Lane& lane = lanes_[request.layer];
  with_.stats->blocking_heads +=
      static_cast<size_t>(std::count(blocking.begin(), blocking.end(), true));
  ++with_.stats->blocking_layers;
  lane.deferred.reset();
  if (!All(blocking) && !selection.at_server) {  // At the server it comes with the recall (Settle).
    QUIRE_ASSIGN_OR_RETURN(lane.deferred, MakeWish(request, selection, AllHeads()));
  }
  QUIRE_ASSIGN_OR_RETURN(Wish wish, MakeWish(request, std::move(selection), blocking));
  lane.again = lane.deferred ? *lane.deferred : wish;
  lane.again->want.kept_heads.clear();  // What comes damaged empties the slots of all heads.
  lane.again->heads = AllHeads();
  QUIRE_RETURN_IF_ERROR(Start(std::move(wish), Purpose::kCorrection));
  if (lane.under_way == nullptr) return OkStatus();
  // The time is up before the correction has left where another sequence of the batch was waited
  // for without a deadline.
  const TimePoint now = with_.clock->Now();
  if (patience && *patience <= now) patience = now + with_.options->recall_deadline;
  lane.awaited = patience;
  return OkStatus();
}

Status RecallPipeline::Await(uint32_t layer) {
  Lane& lane = lanes_[layer];
  const std::optional<Patience> patience = std::exchange(lane.awaited, std::nullopt);
  if (!patience) return OkStatus();
  const uint64_t position = lane.position;
  std::optional<Wish> again = std::exchange(lane.again, std::nullopt);
  StatusOr<bool> arrived = Wait(layer, *patience);
  if (absl::IsDataLoss(arrived.status()) && again) {
    lane.deferred.reset();
    arrived = AskAgain(*again);
  }
  QUIRE_ASSIGN_OR_RETURN(const bool came, std::move(arrived));
  if (!came) {
    ++with_.stats->late_corrections;
    lane.late = lane.heads;
    return OkStatus();
  }
  if (lane.told.num_heads() > 0) {
    Wish next;
    next.want.layer = layer;
    next.want.pages = std::exchange(lane.told, {});
    next.position = position;
    next.heads = AllHeads();
    lane.deferred = std::move(next);
  }
  return OkStatus();
}

StatusOr<bool> RecallPipeline::AskAgain(const Wish& wish) {
  const uint32_t layer = wish.want.layer;
  StatusOr<bool> came = false;
  for (int times = 0; times < kMostAskedAgain; ++times) {
    lanes_[layer].failed = false;
    QUIRE_RETURN_IF_ERROR(Start(wish, Purpose::kCorrection));
    if (lanes_[layer].under_way == nullptr) return true;
    came = Wait(layer, {});
    if (!absl::IsDataLoss(came.status())) break;
  }
  return came;
}

StatusOr<std::vector<RecallPipeline::LaneState>> RecallPipeline::Drain() {
  QUIRE_RETURN_IF_ERROR(AskForBegun());
  std::vector<LaneState> states(lanes_.size());
  for (uint32_t layer = 0; layer < states.size(); ++layer) {
    if (!Selects(layer)) continue;
    QUIRE_RETURN_IF_ERROR(TakePrefetched(layer, {}));
    const PageTable& table = with_.cache->table(layer);
    for (uint32_t head = 0; head < with_.cache->spec().num_kv_heads; ++head) {
      states[layer].active.AppendHead(table.ActivePages(head));
    }
    states[layer].held = lanes_[layer].held;
    states[layer].late = lanes_[layer].late;
    states[layer].failed = lanes_[layer].failed;
  }
  return states;
}

RecallPipeline::Wish RecallPipeline::WishOf(uint32_t layer, const LaneState& lane) const {
  Wish wish{.want = {}, .position = 0, .heads = AllHeads()};
  wish.want.layer = layer;
  wish.want.pages = lane.active;
  return wish;
}

Status RecallPipeline::Restore(std::span<const LaneState> lanes) {
  for (uint32_t layer = 0; layer < lanes.size(); ++layer) {
    lanes_[layer].failed = lanes[layer].failed;
    if (lanes[layer].active.num_heads() == 0) continue;
    lanes_[layer].late = lanes[layer].late;
    QUIRE_RETURN_IF_ERROR(Start(WishOf(layer, lanes[layer]), Purpose::kCorrection));
  }
  for (uint32_t layer = 0; layer < lanes.size(); ++layer) {
    if (lanes_[layer].under_way != nullptr) {
      StatusOr<bool> came = Wait(layer, {});
      if (absl::IsDataLoss(came.status())) came = AskAgain(WishOf(layer, lanes[layer]));
      QUIRE_RETURN_IF_ERROR(came.status());
    }
    if (lanes[layer].active.num_heads() > 0) lanes_[layer].held = lanes[layer].held;
  }
  return OkStatus();
}

Status RecallPipeline::AfterAttention(uint32_t layer) {
  if (with_.executor != nullptr) QUIRE_RETURN_IF_ERROR(ReceiveArrived(layer));
  if (const std::optional<SelectRequest>& request = lanes_[layer].unselected) {
    QUIRE_ASSIGN_OR_RETURN(const bool begun, with_.policy->BeginSelect(*request));
    if (begun) {
      begun_ = layer;
      return OkStatus();
    }
  }
  return Prefetch(layer);
}

Status RecallPipeline::AskForBegun() {
  const std::optional<uint32_t> layer = std::exchange(begun_, std::nullopt);
  return layer ? Prefetch(*layer) : OkStatus();
}

Status RecallPipeline::Prefetch(uint32_t layer) {
  Lane& lane = lanes_[layer];
  if (lane.unselected) QUIRE_RETURN_IF_ERROR(Speculate(layer));
  // Behind a correction that is late it does not leave; its heads block at the next step.
  if (!lane.deferred || lane.under_way != nullptr) return OkStatus();
  Wish wish = *std::exchange(lane.deferred, std::nullopt);
  lane.failed = !Start(std::move(wish), Purpose::kPrefetch).ok();
  return OkStatus();
}

Status RecallPipeline::Speculate(uint32_t layer) {
  Lane& lane = lanes_[layer];
  const SelectRequest request = *std::exchange(lane.unselected, std::nullopt);
  QUIRE_ASSIGN_OR_RETURN(Selection selection, Select(request));
  if (lane.under_way != nullptr) {
    // What is late is most of what this step would ask for, since selections overlap: it is let
    // come, and what is missing then is asked for by the next step, which blocks.
    if (!IsUseless(lane, layer, selection)) return OkStatus();
    Drop(layer);
  }
  QUIRE_ASSIGN_OR_RETURN(lane.deferred, MakeWish(request, std::move(selection), AllHeads()));
  return OkStatus();
}

bool RecallPipeline::IsUseless(const Lane& lane, uint32_t layer, const Selection& newer) const {
  const bool known = lane.pages.num_heads() > 0 && !newer.at_server;
  if (!known) return false;
  const PageTable& table = with_.cache->table(layer);
  for (uint32_t head = 0; head < lane.pages.num_heads(); ++head) {
    for (const uint32_t page : lane.pages.Head(head)) {
      if (table.IsResident(head, page)) continue;
      if (std::ranges::binary_search(newer.pages[head], page)) return false;
    }
  }
  return true;
}

std::vector<bool> RecallPipeline::AllHeads() const {
  return std::vector<bool>(with_.cache->spec().num_kv_heads, true);
}

StatusOr<RecallPipeline::Wish> RecallPipeline::MakeWish(const SelectRequest& request,
                                                        Selection selection,
                                                        std::vector<bool> heads) const {
  Wish wish{.want = {}, .position = request.position, .heads = std::move(heads)};
  LayerWant& want = wish.want;
  want.layer = request.layer;
  if (!selection.at_server) {
    const PageTable& table = with_.cache->table(request.layer);
    for (uint32_t head = 0; head < selection.pages.size(); ++head) {
      if (wish.heads[head]) {
        want.pages.AppendHead(selection.pages[head]);
      } else {
        want.pages.AppendHead(table.ActivePages(head));
      }
    }
    return wish;
  }
  const KvSpec& spec = with_.cache->spec();
  want.query.resize(size_t{spec.num_query_heads} * spec.head_dim);
  QUIRE_RETURN_IF_ERROR(
      with_.device->CopyToHost(want.query.data(), request.q, want.query.size() * sizeof(float)));
  want.candidates = {{.first_page = request.candidates.first, .end_page = request.candidates.end}};
  want.num_pages = request.max_pages;
  want.pooling = ToRecallPooling(with_.options->pooling);
  want.scale = with_.options->score_scale;
  want.digest = with_.options->digest;
  for (uint32_t head = 0; head < wish.heads.size(); ++head) {
    if (!wish.heads[head]) want.kept_heads.push_back(head);
  }
  return wish;
}

Status RecallPipeline::Start(Wish wish, Purpose purpose) {
  LayerWant& want = wish.want;
  const uint32_t layer = want.layer;
  if (!wish.by_query() && IsResident(want)) {
    return Activate(layer, want.pages, wish.position, wish.heads);
  }
  Lane& lane = lanes_[layer];
  lane.pages = want.pages;
  lane.position = wish.position;
  lane.heads = std::move(wish.heads);
  lane.told.Clear();
  lane.held_units = TakeFromHost(&want);
  const Priority priority =
      purpose == Purpose::kCorrection ? Priority::kCorrection : Priority::kPrefetch;
  QUIRE_ASSIGN_OR_RETURN(lane.under_way,
                         with_.channel->Start(std::move(want), {.priority = priority,
                                                                .verify = false,
                                                                .piece_bytes = PieceBytes(layer)}));
  ++with_.stats->recalls;
  return OkStatus();
}

StatusOr<bool> RecallPipeline::Wait(uint32_t layer, Patience patience) {
  Lane& lane = lanes_[layer];
  const TimePoint start = with_.clock->Now();
  StatusOr<bool> came = true;
  if (!lane.came()) {
    came = Receive(layer, patience);
  }
  if (came.ok() && *came) {
    if (const Status settled = Settle(layer, patience); !settled.ok()) came = settled;
  }
  with_.stats->stalled += with_.clock->Now() - start;
  return came;
}

StatusOr<bool> RecallPipeline::Receive(uint32_t layer, Patience deadline) {
  Lane& lane = lanes_[layer];
  while (!lane.came()) {
    auto part = deadline ? lane.under_way->Next(*deadline) : lane.under_way->Next();
    const TimePoint now = with_.clock->Now();
    const bool goes_on = deadline && now >= *deadline && now < lane.under_way->deadline();
    if (goes_on && absl::IsDeadlineExceeded(part.status())) return false;
    lane.failed = !part.ok();
    Status status = part.status();
    if (status.ok() && !part->has_value()) {
      status = Internal("a recall of layer ", layer, " came without its lane");
    }
    if (status.ok()) status = Take(layer, **std::move(part));
    if (status.ok()) continue;
    Drop(layer);
    return status;
  }
  return true;
}

Status RecallPipeline::Take(uint32_t layer, RecallPart part) {
  Lane& lane = lanes_[layer];
  if (part.lanes.empty()) {
    if (lane.placing == nullptr) {
      return Internal("a recall of layer ", layer, " came without its lane");
    }
    lane.bytes_to_come = part.bytes_to_come;
    return lane.placing->Add(part.payload);
  }
  lane.placing.reset();  // Of an attempt that broke off; its slots are empty from now on.
  lane.bytes_to_come = part.bytes_to_come;
  lane.part = std::move(part);
  return StartPlacing(layer);
}

void RecallPipeline::Drop(uint32_t layer) {
  Lane& lane = lanes_[layer];
  lane.under_way.reset();
  if (lane.placing != nullptr) {
    lane.placing.reset();
    with_.channel->Spoiled(*lane.part);
  }
  lane.part.reset();
  lane.bytes_to_come = 0;
}

uint64_t RecallPipeline::UnitBytesRecalled() const {
  return UnitBytes(with_.cache->spec(), with_.policy->recalled_part());
}

uint32_t RecallPipeline::PieceBytes(uint32_t layer) const {
  const RetrievalOptions& options = *with_.options;
  // Units that are being put into slots cannot be late; what the host tier has lies between what
  // comes; and when a reply breaks off, heads that keep what they hold would lose it.
  const bool streams = with_.executor != nullptr && options.recall_buffers > 1 &&
                       options.recall_deadline == Duration::zero() &&
                       lanes_[layer].held_units.empty() && !lanes_[layer].keeps_heads() &&
                       with_.policy->key_source() == nullptr;
  if (!streams) return 0;
  const uint64_t bytes = options.units_per_buffer * UnitBytesRecalled();
  return bytes == 0 ? kPieceBytes : static_cast<uint32_t>(std::min<uint64_t>(bytes, UINT32_MAX));
}

Status RecallPipeline::ReceiveArrived(uint32_t layer) {
  for (size_t i = 1; i < lanes_.size(); ++i) {
    const auto next = static_cast<uint32_t>((layer + i) % lanes_.size());
    if (lanes_[next].under_way == nullptr || lanes_[next].came()) continue;
    const StatusOr<bool> came = Receive(next, with_.clock->Now());
    if (!came.ok() && !lanes_[next].failed) return came.status();
    if (!came.ok() || !*came) return OkStatus();
  }
  return OkStatus();
}

std::vector<HostPages::Unit> RecallPipeline::TakeFromHost(LayerWant* want) const {
  std::vector<HostPages::Unit> held;
  if (!with_.host.enabled()) return held;
  const PageTable& table = with_.cache->table(want->layer);
  for (uint32_t head = 0; head < want->pages.num_heads(); ++head) {
    want->held.AppendHead();
    for (const uint32_t page : want->pages.Head(head)) {
      if (table.IsResident(head, page)) continue;
      auto unit = with_.host.Get(want->layer, head, page);
      if (!unit) continue;
      want->held.Append(page);
      held.push_back(*std::move(unit));
    }
  }
  return held;
}

StatusOr<ArrivedUnits> RecallPipeline::Gather(uint32_t layer) const {
  const Lane& lane = lanes_[layer];
  const RecallPart& part = *lane.part;
  ArrivedUnits arrived{.layer = layer, .placements = {}, .checksums = part.checksums, .units = {}};
  if (part.held.empty()) {
    arrived.units = part.payload;  // All that has come of it.
  } else {
    arrived.units.AddLeases(part.payload);
  }
  arrived.placements.reserve(part.placements.size());
  PayloadCutter cutter(part.payload);
  const uint64_t unit_bytes = UnitBytesRecalled();
  auto held = part.held.begin();
  auto kept = lane.held_units.begin();  // Both ascend by head and page.
  for (size_t i = 0; i < part.placements.size(); ++i) {
    const Placement& at = part.placements[i];
    if (at.layer != layer) {
      return FailedPrecondition("a recall of layer ", layer, " places a unit of layer ", at.layer);
    }
    arrived.placements.push_back({.head = at.head,
                                  .index = at.slot,
                                  .generation = at.generation,
                                  .page = at.page,
                                  .replaced = at.replaced});
    if (part.held.empty()) continue;
    if (held == part.held.end() || *held != i) {
      const Payload unit = cutter.Cut(unit_bytes);
      for (const Slice& slice : unit.slices()) arrived.units.Append(slice);
      continue;
    }
    ++held;
    kept = std::find_if(kept, lane.held_units.end(), [&](const HostPages::Unit& unit) {
      return unit.head == at.head && unit.page == at.page;
    });
    if (kept == lane.held_units.end()) return Internal("page ", at.page, " is held, but not here");
    arrived.units.Append(kept->bytes);
    arrived.checksums[i] = kept->crc32c;
  }
  return arrived;
}

void RecallPipeline::KeepEvicted(uint32_t layer, const RecallPart& part) {
  if (!with_.host.enabled()) return;
  for (const Placement& at : part.placements) {
    if (at.replaced >= 0) with_.host.Touch(layer, at.head, static_cast<uint32_t>(at.replaced));
  }
}

Status RecallPipeline::StartPlacing(uint32_t layer) {
  Lane& lane = lanes_[layer];
  QUIRE_ASSIGN_OR_RETURN(ArrivedUnits arrived, Gather(layer));
  StreamedPlacement::Dependencies with{
      .cache = with_.cache,
      .executor = with_.executor,
      .options = {.units_per_buffer = with_.options->units_per_buffer,
                  .buffers = with_.options->recall_buffers,
                  .layout = with_.options->recall_layout,
                  .part = with_.policy->recalled_part()}};
  if (const KeySource* const keys = with_.policy->key_source()) {
    with.executor = nullptr;  // A policy belongs to one thread.
    with.rewrite = [keys, layer](const SlotPlacement& at, std::span<std::byte> unit) {
      keys->FillKeys(layer, at.head, at.page, unit.first(unit.size() / 2));
    };
  }
  if (with_.host.enabled()) {
    with.on_verified = [this, layer, placements = arrived.placements,
                        checksums = arrived.checksums](size_t first, const Payload& units) {
      PayloadCutter cutter(units);
      const uint64_t unit_bytes = UnitBytesRecalled();
      for (size_t i = first; i < first + units.size_bytes() / unit_bytes; ++i) {
        with_.host.Put(layer, placements[i].head, placements[i].page, cutter.Cut(unit_bytes),
                       checksums[i], [&units] { return units.StillGood(); });
      }
    };
  }
  QUIRE_ASSIGN_OR_RETURN(lane.placing, StreamedPlacement::Start(with, std::move(arrived)));
  return OkStatus();
}

Status RecallPipeline::Settle(uint32_t layer, Patience patience) {
  Lane& lane = lanes_[layer];
  const std::unique_ptr<LaneRecall> recall = std::move(lane.under_way);
  const RecallPart part = *std::exchange(lane.part, std::nullopt);
  const std::unique_ptr<StreamedPlacement> placing = std::move(lane.placing);
  const Status placed = placing->Finish();
  if (!placed.ok()) {
    lane.failed = absl::IsDataLoss(placed);
    for (const StreamedPlacement::Mismatch& mismatch : placing->mismatches()) {
      TellDamage(layer, part, mismatch);
    }
    with_.channel->Spoiled(part);
    return placed;
  }
  with_.channel->Applied(part);
  const uint64_t units = part.placements.size() - part.held.size();
  with_.stats->units_landed += part.landed_bytes / UnitBytesRecalled();
  with_.stats->bytes_moved += units * UnitBytesRecalled();
  with_.stats->units_missed += units;
  with_.stats->units_from_host += part.held.size();
  lane.held_units.clear();
  KeepEvicted(layer, part);
  const PageLists& selected = part.lanes.at(0).selected;
  with_.stats->units_selected += selected.num_pages();
  QUIRE_RETURN_IF_ERROR(Activate(layer, selected.num_heads() == 0 ? lane.pages : selected,
                                 lane.position, lane.heads));
  if (lane.keeps_heads()) lane.told = selected;
  // All is there: of the end that follows only a failure matters, and it is not waited for longer.
  const Status end = recall->Next(patience.value_or(recall->deadline())).status();
  return patience && absl::IsDeadlineExceeded(end) ? OkStatus() : end;
}

void RecallPipeline::TellDamage(uint32_t layer, const RecallPart& part,
                                const StreamedPlacement::Mismatch& mismatch) const {
  const Placement& at = part.placements.at(mismatch.placement);
  ++with_.stats->units_damaged;
  if (std::ranges::binary_search(part.held, mismatch.placement)) {
    with_.host.DropDamaged(layer, at.head, at.page);
    return;
  }
  with_.channel->Mismatched(
      {.layer = layer, .head = at.head, .page = at.page, .crc32c = mismatch.crc32c});
}

bool RecallPipeline::IsResident(const LayerWant& want) const {
  for (uint32_t head = 0; head < want.pages.num_heads(); ++head) {
    if (!IsResident(want.layer, head, want.pages.Head(head))) return false;
  }
  return true;
}

bool RecallPipeline::IsResident(uint32_t layer, uint32_t head,
                                std::span<const uint32_t> pages) const {
  const PageTable& table = with_.cache->table(layer);
  return std::ranges::all_of(pages, [&](uint32_t page) { return table.IsResident(head, page); });
}

Status RecallPipeline::Activate(uint32_t layer, const PageLists& pages, uint64_t position,
                                const std::vector<bool>& heads) {
  PageTable& table = with_.cache->table(layer);
  for (uint32_t head = 0; head < pages.num_heads(); ++head) {
    if (!heads[head]) continue;
    QUIRE_RETURN_IF_ERROR(Annotate(table.Activate(head, pages.Head(head)), "layer ", layer));
    lanes_[layer].held[head] = position;
  }
  return OkStatus();
}

}  // namespace quire::worker
