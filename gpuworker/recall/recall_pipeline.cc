// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/recall/recall_pipeline.h"

#include <algorithm>
#include <utility>

namespace quire::worker {
namespace {

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

RecallPipeline::RecallPipeline(const Dependencies& dependencies)
    : with_(dependencies),
      with_recall_({.channel = with_.channel,
                    .cache = with_.cache,
                    .keys = with_.policy->key_source(),
                    .clock = with_.clock,
                    .options = with_.options,
                    .stats = with_.stats,
                    .host = with_.host,
                    .executor = with_.executor}) {
  lanes_.reserve(with_.cache->num_layers());
  for (uint32_t layer = 0; layer < with_.cache->num_layers(); ++layer) {
    lanes_.push_back({.recall = LayerRecall(&with_recall_, layer),
                      .late = std::vector<bool>(with_.cache->spec().num_kv_heads, false)});
  }
}

RecallPipeline::Deadline RecallPipeline::DeadlineOf(const SelectRequest& request,
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

Status RecallPipeline::Prepare(uint32_t layer, const float* q, JointWork* work) {
  const Lane& lane = lanes_[layer];
  const bool has_deadline = with_.options->recall_deadline != Duration::zero();
  if (!Selects(layer) || lane.asked_ahead || has_deadline) return OkStatus();
  const std::vector<uint64_t> expected = lane.recall.ExpectedHeld();
  SelectRequest request = RequestFor(layer, q);
  request.held = expected;
  return with_.policy->Prepare(request, work);
}

Status RecallPipeline::Ask(uint32_t layer, const float* q, std::optional<TimePoint> began) {
  // A correction leaves before a deferred prefetch, which has until the next step: it need not
  // queue behind that reply. A layer that waits for an earlier prefetch lets others leave before.
  if (deferred_ == layer || !IsReady(layer)) {
    QUIRE_RETURN_IF_ERROR(FlushDeferred());
  } else if (deferred_ && lanes_[*deferred_].unselected) {
    QUIRE_RETURN_IF_ERROR(Speculate(*deferred_));
  }
  if (Selects(layer)) {
    QUIRE_RETURN_IF_ERROR(AskForLayer(layer, q, began.value_or(with_.clock->Now())));
  }
  return FlushDeferred();
}

SelectRequest RecallPipeline::RequestFor(uint32_t layer, const float* q) const {
  const PageTable& table = with_.cache->table(layer);
  return {.layer = layer,
          .q = q,
          .candidates = table.candidates(),
          .max_pages = table.layout().most_selected(),
          .position = table.num_tokens(),
          .held = lanes_[layer].recall.held()};
}

std::vector<bool> RecallPipeline::MustBlock(const Lane& lane, uint64_t position) const {
  std::vector<bool> blocking = lane.late;
  for (size_t head = 0; head < blocking.size(); ++head) {
    if (lane.recall.failed() || lane.expected[head] + 1 < position) blocking[head] = true;
  }
  return blocking;
}

Status RecallPipeline::AskAhead(uint32_t layer) {
  if (!with_.policy->selects_ahead() || !Selects(layer)) return OkStatus();
  SelectRequest request = RequestFor(layer, nullptr);
  request.held = {};
  for (request.layer = layer + 1; request.layer < lanes_.size(); ++request.layer) {
    Lane& lane = lanes_[request.layer];
    if (lane.asked_ahead || lane.recall.in_flight() || !Selects(request.layer)) continue;
    PageTable& table = with_.cache->table(request.layer);
    table.ExpectToken();
    if (table.candidates() != request.candidates) continue;
    ++with_.stats->selections;
    QUIRE_RETURN_IF_ERROR(AskForBlocking(request, AllHeads(), {}));
    lane.asked_ahead = true;
  }
  return OkStatus();
}

Status RecallPipeline::AskForLayer(uint32_t layer, const float* q, TimePoint began) {
  Lane& lane = lanes_[layer];
  if (std::exchange(lane.asked_ahead, false)) return OkStatus();
  SelectRequest request = RequestFor(layer, q);
  ++with_.stats->selections;
  lane.expected = lane.recall.ExpectedHeld();
  const std::vector<bool> must_block = MustBlock(lane, request.position);
  Deadline deadline;
  if (!Any(must_block)) deadline = DeadlineOf(request, began);
  // A recall without a deadline will be held, so it is compared with while it is on its way. With a
  // deadline only time tells which query there is to compare with.
  if (deadline) {
    QUIRE_RETURN_IF_ERROR(FinishPrefetch(layer, deadline));
    if (lane.recall.in_flight()) QUIRE_RETURN_IF_ERROR(lane.recall.ActivateResident());
  } else {
    request.held = lane.expected;
  }
  QUIRE_ASSIGN_OR_RETURN(std::vector<bool> blocking, with_.policy->NeedsBlocking(request));
  request.held = {};
  AddTo(blocking, must_block);
  if (deadline && lane.recall.in_flight()) {
    OnDeadlinePassed(lane, blocking);
    lane.unselected = request;
    return OkStatus();
  }
  return AskForBlocking(request, std::move(blocking), deadline);
}

Status RecallPipeline::AskForBlocking(const SelectRequest& request, std::vector<bool> blocking,
                                      Deadline deadline) {
  Lane& lane = lanes_[request.layer];
  std::optional<Selection> selection;
  if (Any(blocking)) {
    QUIRE_ASSIGN_OR_RETURN(selection, Select(request));
  }
  QUIRE_RETURN_IF_ERROR(FinishPrefetch(request.layer, {}));
  lane.late.assign(lane.late.size(), false);
  if (lane.recall.failed()) {
    lane.recall.set_failed(false);
    blocking = AllHeads();
    deadline = {};
  }
  if (!Any(blocking)) {
    lane.unselected = request;
    return OkStatus();
  }
  if (!selection) {
    QUIRE_ASSIGN_OR_RETURN(selection, Select(request));
  }
  return Correct(request, *std::move(selection), blocking, deadline);
}

void RecallPipeline::OnDeadlinePassed(Lane& lane, const std::vector<bool>& turned) {
  if (Any(turned)) ++with_.stats->late_corrections;
  lane.late = turned;
  for (size_t head = 0; head < lane.late.size(); ++head) {
    if (lane.recall.held()[head] < lane.expected[head]) lane.late[head] = true;
  }
}

StatusOr<Selection> RecallPipeline::Select(const SelectRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(Selection selection, with_.policy->Select(request));
  with_.stats->units_selected += CountUnits(selection.pages);
  with_.stats->nan_scores += selection.nan_scores;
  return selection;
}

Status RecallPipeline::FinishPrefetch(uint32_t layer, Deadline deadline) {
  LayerRecall& recall = lanes_[layer].recall;
  if (!recall.in_flight()) return OkStatus();
  const StatusOr<bool> came = recall.Wait(deadline);
  if (!came.ok()) return recall.failed() ? OkStatus() : came.status();
  if (!*came) ++with_.stats->late_prefetches;
  return OkStatus();
}

Status RecallPipeline::Correct(const SelectRequest& request, Selection selection,
                               const std::vector<bool>& blocking, Deadline deadline) {
  Lane& lane = lanes_[request.layer];
  with_.stats->blocking_heads +=
      static_cast<size_t>(std::count(blocking.begin(), blocking.end(), true));
  ++with_.stats->blocking_layers;
  lane.next.reset();
  // From the server the other heads' selection comes with the reply (LayerRecall::TakeFollowUp).
  if (!All(blocking) && !selection.at_server) {
    QUIRE_ASSIGN_OR_RETURN(lane.next, Plan(request, selection, AllHeads()));
  }
  QUIRE_ASSIGN_OR_RETURN(PlannedRecall plan, Plan(request, std::move(selection), blocking));
  lane.retry = lane.next ? *lane.next : plan;
  lane.retry->want.kept_heads.clear();  // Damaged units empty the slots of all heads.
  lane.retry->heads = AllHeads();
  QUIRE_RETURN_IF_ERROR(lane.recall.Start(std::move(plan), Priority::kCorrection));
  if (!lane.recall.in_flight()) return OkStatus();
  // The deadline may have passed before the correction leaves, where another sequence of the batch
  // was waited for without one.
  const TimePoint now = with_.clock->Now();
  if (deadline && *deadline <= now) deadline = now + with_.options->recall_deadline;
  lane.awaited = deadline;
  return OkStatus();
}

Status RecallPipeline::Await(uint32_t layer) {
  Lane& lane = lanes_[layer];
  const std::optional<Deadline> deadline = std::exchange(lane.awaited, std::nullopt);
  if (!deadline) return OkStatus();
  const std::optional<PlannedRecall> retry = std::exchange(lane.retry, std::nullopt);
  // Recalls that were asked for ahead may have failed while earlier layers ran.
  const bool lost = !lane.recall.in_flight() && lane.recall.failed();
  StatusOr<bool> came = DataLoss("units that were asked for ahead did not come");
  if (!lost) came = lane.recall.Wait(*deadline);
  if (IsDataLoss(came.status()) && retry) {
    lane.next.reset();
    QUIRE_RETURN_IF_ERROR(lane.recall.Retry(*retry));
    came = true;
  }
  QUIRE_RETURN_IF_ERROR(came.status());
  if (!*came) {
    ++with_.stats->late_corrections;
    lane.late = lane.recall.heads();
    return OkStatus();
  }
  if (auto follow_up = lane.recall.TakeFollowUp()) lane.next = std::move(follow_up);
  return OkStatus();
}

StatusOr<std::vector<RecallPipeline::LaneState>> RecallPipeline::Drain() {
  QUIRE_RETURN_IF_ERROR(FlushDeferred());
  std::vector<LaneState> states(lanes_.size());
  for (uint32_t layer = 0; layer < states.size(); ++layer) {
    if (!Selects(layer)) continue;
    QUIRE_RETURN_IF_ERROR(FinishPrefetch(layer, {}));
    states[layer] = StateOf(layer);
  }
  return states;
}

RecallPipeline::LaneState RecallPipeline::StateOf(uint32_t layer) const {
  const Lane& lane = lanes_[layer];
  LaneState state{.held = lane.recall.held(), .late = lane.late, .failed = lane.recall.failed()};
  for (uint32_t head = 0; head < with_.cache->spec().num_kv_heads; ++head) {
    state.active.AppendHead(with_.cache->table(layer).ActivePages(head));
  }
  return state;
}

PlannedRecall RecallPipeline::PlanOf(uint32_t layer, const LaneState& state) const {
  PlannedRecall plan{.want = {}, .position = 0, .heads = AllHeads()};
  plan.want.layer = layer;
  plan.want.pages = state.active;
  return plan;
}

Status RecallPipeline::Restore(std::span<const LaneState> states) {
  for (uint32_t layer = 0; layer < states.size(); ++layer) {
    QUIRE_RETURN_IF_ERROR(BeginRestore(layer, states[layer]));
  }
  for (uint32_t layer = 0; layer < states.size(); ++layer) {
    QUIRE_RETURN_IF_ERROR(EndRestore(layer, states[layer]));
  }
  return OkStatus();
}

Status RecallPipeline::BeginRestore(uint32_t layer, const LaneState& state) {
  Lane& lane = lanes_[layer];
  lane.recall.set_failed(state.failed);
  if (state.active.num_heads() == 0) return OkStatus();
  lane.late = state.late;
  return lane.recall.Start(PlanOf(layer, state), Priority::kCorrection);
}

Status RecallPipeline::EndRestore(uint32_t layer, const LaneState& state) {
  LayerRecall& recall = lanes_[layer].recall;
  if (recall.in_flight()) {
    Status status = recall.Wait({}).status();
    if (IsDataLoss(status)) status = recall.Retry(PlanOf(layer, state));
    QUIRE_RETURN_IF_ERROR(status);
  }
  if (state.active.num_heads() > 0) recall.set_held(state.held);
  return OkStatus();
}

Status RecallPipeline::LeaveDevice(uint32_t layer) {
  QUIRE_RETURN_IF_ERROR(FlushDeferred());
  const LaneState state = StateOf(layer);  // Nothing is recalled for a layer that is whole.
  QUIRE_RETURN_IF_ERROR(with_.cache->SetWhole(layer, false));
  QUIRE_RETURN_IF_ERROR(BeginRestore(layer, state));
  return EndRestore(layer, state);
}

Status RecallPipeline::MakeWhole(uint32_t layer) {
  QUIRE_RETURN_IF_ERROR(FlushDeferred());
  QUIRE_RETURN_IF_ERROR(FinishPrefetch(layer, {}));
  const LaneState state = StateOf(layer);
  QUIRE_RETURN_IF_ERROR(with_.cache->SetWhole(layer, true));
  with_.channel->Forget(layer);
  QUIRE_RETURN_IF_ERROR(BeginRestore(layer, state));  // All of it is resident.
  return EndRestore(layer, state);
}

Status RecallPipeline::AfterAttention(uint32_t layer) {
  if (with_.executor != nullptr) QUIRE_RETURN_IF_ERROR(ReceiveArrived(layer));
  if (const std::optional<SelectRequest>& request = lanes_[layer].unselected) {
    QUIRE_ASSIGN_OR_RETURN(const bool begun, with_.policy->BeginSelect(*request));
    if (begun) {
      deferred_ = layer;
      return OkStatus();
    }
  }
  return Prefetch(layer);
}

Status RecallPipeline::FlushDeferred() {
  const std::optional<uint32_t> layer = std::exchange(deferred_, std::nullopt);
  return layer ? Prefetch(*layer) : OkStatus();
}

Status RecallPipeline::Prefetch(uint32_t layer) {
  Lane& lane = lanes_[layer];
  if (lane.unselected) QUIRE_RETURN_IF_ERROR(Speculate(layer));
  // Behind a correction that is late it does not leave; its heads block at the next step.
  if (!lane.next || lane.recall.in_flight()) return OkStatus();
  PlannedRecall plan = *std::exchange(lane.next, std::nullopt);
  lane.recall.set_failed(!lane.recall.Start(std::move(plan), Priority::kPrefetch).ok());
  return OkStatus();
}

Status RecallPipeline::Speculate(uint32_t layer) {
  Lane& lane = lanes_[layer];
  const SelectRequest request = *std::exchange(lane.unselected, std::nullopt);
  QUIRE_ASSIGN_OR_RETURN(Selection selection, Select(request));
  if (lane.recall.in_flight()) {
    // Selections overlap, so a late recall has most of what this step would ask for. It goes on,
    // and the next step blocks for what is missing then.
    if (selection.at_server || !lane.recall.BringsNoneOf(selection.pages)) return OkStatus();
    lane.recall.Drop();
  }
  QUIRE_ASSIGN_OR_RETURN(lane.next, Plan(request, std::move(selection), AllHeads()));
  return OkStatus();
}

std::vector<bool> RecallPipeline::AllHeads() const {
  return std::vector<bool>(with_.cache->spec().num_kv_heads, true);
}

StatusOr<PlannedRecall> RecallPipeline::Plan(const SelectRequest& request, Selection selection,
                                             std::vector<bool> heads) const {
  PlannedRecall plan{.want = {}, .position = request.position, .heads = std::move(heads)};
  LayerWant& want = plan.want;
  want.layer = request.layer;
  if (!selection.at_server) {
    const PageTable& table = with_.cache->table(request.layer);
    for (uint32_t head = 0; head < selection.pages.size(); ++head) {
      if (plan.heads[head]) {
        want.pages.AppendHead(selection.pages[head]);
      } else {
        want.pages.AppendHead(table.ActivePages(head));
      }
    }
    return plan;
  }
  const KvSpec& spec = with_.cache->spec();
  want.query.resize(size_t{spec.num_query_heads} * spec.key_dim());
  QUIRE_RETURN_IF_ERROR(
      with_.device->CopyToHost(want.query.data(), request.q, want.query.size() * sizeof(float)));
  want.candidates = {{.first_page = request.candidates.first, .end_page = request.candidates.end}};
  want.num_pages = request.max_pages;
  want.pooling = ToRecallPooling(with_.options->pooling);
  want.scale = with_.options->score_scale;
  want.digest = with_.options->digest;
  for (uint32_t head = 0; head < plan.heads.size(); ++head) {
    if (!plan.heads[head]) want.kept_heads.push_back(head);
  }
  return plan;
}

Status RecallPipeline::ReceiveArrived(uint32_t layer) {
  for (size_t i = 1; i < lanes_.size(); ++i) {
    LayerRecall& recall = lanes_[(layer + i) % lanes_.size()].recall;
    if (!recall.in_flight() || recall.IsReady()) continue;
    const StatusOr<bool> came = recall.Receive(with_.clock->Now());
    if (!came.ok() && !recall.failed()) return came.status();
    if (!came.ok() || !*came) return OkStatus();
  }
  return OkStatus();
}

}  // namespace quire::worker
