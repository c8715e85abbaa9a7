// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/batch/batch.h"

#include <algorithm>
#include <utility>

#include "gpuworker/engine/request_checks.h"

namespace quire::worker {
namespace {

/// Tokens of one sequence that a pass may have: a page that fills up in it is still in the window
/// at its end.
uint32_t MaxStepTokens(const std::vector<CacheLayout>& layouts, const KvSpec& spec) {
  uint32_t most = Decoder::kBlockTokens;
  for (const CacheLayout& layout : layouts) {
    if (!layout.everything) most = std::min(most, (layout.window_pages - 1) * spec.page_tokens);
  }
  return most;
}

StatusOr<std::unique_ptr<JointStep>> MakeJointStep(const EngineParts& parts) {
  // Latents have kernels without lists of sequences.
  if (parts.device->reads_host_memory() || !parts.spec->has_values()) {
    return std::unique_ptr<JointStep>();
  }
  QUIRE_ASSIGN_OR_RETURN(auto staging, JointStaging::Create(*parts.spec, parts.device));
  return std::make_unique<JointStep>(*parts.spec, parts.device, SoftCapOf(parts),
                                     std::move(staging));
}

EngineParts Sharing(EngineParts parts, DocumentShares* shares, JointStep* joint,
                    const SlotMemory* slot_memory) {
  parts.shares = shares;
  parts.slot_memory = slot_memory;
  if (joint != nullptr) parts.staging = joint->staging.get();
  return parts;
}

/// `limits` with the slots that device_bytes leaves room for. Everything else has been allocated.
StatusOr<BatchLimits> WithSlots(BatchLimits limits, const Device& device) {
  if (limits.device_bytes == 0) return limits;
  const uint64_t used = device.allocated_bytes();
  if (limits.device_bytes <= used) {
    return ResourceExhausted("the model and what its steps work in take ", used,
                             " bytes of the device, which leaves no slots within ",
                             limits.device_bytes, "; allow more, or a smaller step");
  }
  limits.slot_bytes = limits.device_bytes - used;
  return limits;
}

}  // namespace

StatusOr<std::unique_ptr<Batch>> Batch::Create(const Engine* engine, const BatchLimits& limits,
                                               BatchSessions* sessions) {
  QUIRE_RETURN_IF_ERROR(Validate(limits));
  const EngineParts parts = engine->Parts();
  QUIRE_ASSIGN_OR_RETURN(Decoder::Scratch scratch,
                         parts.decoder->ReserveScratch(limits.step_tokens, limits.max_running));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<JointStep> joint, MakeJointStep(parts));
  QUIRE_ASSIGN_OR_RETURN(const BatchLimits measured, WithSlots(limits, *parts.device));
  return std::unique_ptr<Batch>(new Batch(parts, engine->options().retrieval, measured, sessions,
                                          std::move(scratch), std::move(joint)));
}

Batch::Batch(const EngineParts& parts, RetrievalOptions retrieval, const BatchLimits& limits,
             BatchSessions* sessions, Decoder::Scratch scratch, std::unique_ptr<JointStep> joint)
    : joint_(std::move(joint)),
      slot_memory_(limits.offload, parts.spec->num_layers, limits.slot_bytes),
      parts_(Sharing(parts, &shares_, joint_.get(), &slot_memory_)),
      retrieval_(std::move(retrieval)),
      scratch_(std::move(scratch)),
      own_sessions_(parts.client, parts.spec),
      sessions_(sessions != nullptr ? sessions : &own_sessions_),
      slot_bytes_(limits.slot_bytes),
      scheduler_(limits) {}

Batch::~Batch() {
  Stop();
  EndAll(Unavailable("the worker shuts down"));
}

StatusOr<BatchScheduler::Request> Batch::MakeRequest(const BatchRequest& request,
                                                     const RetrievalOptions& retrieval,
                                                     uint64_t document_tokens) const {
  const ModelConfig& model = parts_.decoder->config();
  QUIRE_ASSIGN_OR_RETURN(const auto policy, MakeSequencePolicy(parts_, retrieval));
  const std::vector<CacheLayout> layouts = LayoutsOf(*policy, parts_.spec->num_layers);
  const uint64_t prompt = request.prompt.size();
  BatchScheduler::Request asked{
      .priority = request.priority,
      .demand = SlotDemand::Of(layouts, *parts_.spec,
                               slot_memory_.may_keep() && MayBeWhole(*policy, retrieval)),
      .num_tokens = document_tokens,
      .pending = prompt,
      .most_tokens = std::min<uint64_t>(model.max_positions,
                                        document_tokens + prompt + request.params.max_new_tokens),
      .max_step_tokens =
          std::min(MaxStepTokens(layouts, *parts_.spec), policy->most_pass_tokens())};
  if (!PagedRun::MayBeDense(parts_, *policy, request.document.has_value(), prompt)) return asked;
  const std::vector<CacheLayout> everything(layouts.size(), {.everything = true});
  asked.dense = SlotDemand::Of(everything, *parts_.spec);
  if (asked.dense.Bytes(document_tokens + prompt) <= slot_bytes_) {
    asked.dense_tokens = document_tokens + prompt;
  }
  return asked;
}

StatusOr<std::shared_ptr<BatchStream>> Batch::Submit(BatchRequest request) {
  const ModelConfig& model = parts_.decoder->config();
  if (request.prompt.empty())
    return InvalidArgument("the prompt is empty; give it a token or more");
  if (request.params.on_token) return InvalidArgument("on_token is set; tokens go to the stream");
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(model, request.prompt));
  BatchSequence::Setup setup{.retrieval = request.retrieval.value_or(retrieval_),
                             .params = request.params};
  uint64_t document_tokens = 0;
  if (request.document) {
    QUIRE_ASSIGN_OR_RETURN(setup.document,
                           FindDocument(parts_, *request.document, request.find_by));
    document_tokens = setup.document->num_tokens;
  }
  QUIRE_RETURN_IF_ERROR(CheckRoom(model, document_tokens, request.prompt.size()));
  QUIRE_ASSIGN_OR_RETURN(const BatchScheduler::Request asked,
                         MakeRequest(request, setup.retrieval, document_tokens));
  setup.prompt = std::move(request.prompt);
  setup.dense_prompt = asked.dense_tokens > 0;
  QUIRE_ASSIGN_OR_RETURN(auto sequence, BatchSequence::Create(parts_, sessions_, std::move(setup)));
  auto stream = sequence->stream();

  MutexLock lock(mutex_);
  if (stopped_) return Unavailable("the worker shuts down; ask another one");
  const StatusOr<Id> id = scheduler_.Add(asked);
  if (IsResourceExhausted(id.status())) metrics_.refused.Add();
  QUIRE_RETURN_IF_ERROR(id.status());
  sequences_[*id] = std::move(sequence);
  metrics_.submitted.Add();
  changed_.NotifyAll();
  return stream;
}

BatchSequence* Batch::Find(Id id) const {
  MutexLock lock(mutex_);
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second.get();
}

bool Batch::Step() {
  EndCancelled();
  BatchScheduler::Plan plan;
  {
    MutexLock lock(mutex_);
    plan = scheduler_.Next();
    slot_memory_.BeforeStep(scheduler_.Loads(plan));
  }
  metrics_.CountOffloaded(slot_memory_.offloaded());
  for (const Id id : plan.preempt) Preempt(id);
  PlaceLayers(plan);
  for (const Id id : plan.start) Start(id);
  const std::vector<Member> members = Members(plan.run);
  if (!members.empty()) RunMembers(members);
  Count();
  return !plan.empty();
}

void Batch::Count() {
  const auto count = [](uint64_t total, Counter* counter) { counter->Add(total - counter->Get()); };
  count(sessions_->messages(), &metrics_.recall_messages);
  count(sessions_->lanes(), &metrics_.recall_lanes);
  count(shares_.digest_bytes_shared(), &metrics_.shared_digest_bytes);
  count(shares_.page_bytes_shared(), &metrics_.shared_page_bytes);
  const uint64_t held = shares_.digest_bytes_held(), was = metrics_.held_digest_bytes.Get();
  if (held > was) metrics_.held_digest_bytes.Add(held - was);
  if (held < was) metrics_.held_digest_bytes.Sub(was - held);
  MutexLock lock(mutex_);
  for (const auto& [id, sequence] : sequences_) metrics_.CountRecalls(sequence->TakeRecallStats());
}

void Batch::EndCancelled() {
  std::vector<Id> cancelled;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, sequence] : sequences_) {
      if (sequence->stream()->cancelled()) cancelled.push_back(id);
    }
  }
  for (const Id id : cancelled) {
    End(id, Status(StatusCode::kCancelled, "the sequence was cancelled"));
  }
}

void Batch::Preempt(Id id) {
  BatchSequence* const sequence = Find(id);
  metrics_.preempted.Add();
  if (const Status status = sequence->Suspend(); !status.ok()) Fail(id, sequence, status);
}

void Batch::PlaceLayers(const BatchScheduler::Plan& plan) {
  for (const Member& member : Members(plan.run)) {
    const Status status = member.sequence->PlaceLayers();
    if (!status.ok()) Fail(member.id, member.sequence, status);
  }
}

void Batch::Start(Id id) {
  BatchSequence* const sequence = Find(id);
  if (const Status status = sequence->Start(); !status.ok()) Fail(id, sequence, status);
}

std::vector<Batch::Member> Batch::Members(const std::vector<BatchScheduler::Share>& shares) const {
  std::vector<Member> members;
  for (const BatchScheduler::Share& share : shares) {
    BatchSequence* const sequence = Find(share.id);
    if (sequence == nullptr || !sequence->running()) continue;  // It could not start.
    members.push_back({.id = share.id, .tokens = share.tokens, .sequence = sequence});
  }
  return members;
}

const Span* Batch::SpanOf(const std::vector<Member>& members) const {
  for (const Member& member : members) {
    const BatchSequence* const sequence = Find(member.id);
    if (sequence != nullptr && sequence->span() != nullptr) return sequence->span();
  }
  return nullptr;
}

Status Batch::RunPass(const std::vector<Member>& members, std::span<const SequenceTokens> tokens,
                      BatchStep& step, const PassOutput& output) {
  const CurrentSpanScope current(SpanOf(members));
  return parts_.decoder->ForwardBatch(tokens, step, output, scratch_.get());
}

void Batch::SendAhead(const std::vector<Member>& members) {
  const CurrentSpanScope current(SpanOf(members));
  sessions_->Send();
}

void Batch::RunMembers(const std::vector<Member>& members) {
  std::vector<SequenceTokens> tokens;
  std::vector<CacheBackend*> backends;
  std::vector<kernels::SampleDraw> draws;
  uint64_t count = 0;
  for (const Member& member : members) {
    tokens.push_back(member.sequence->BeginStep(member.tokens));
    backends.push_back(&member.sequence->backend());
    if (tokens.back().wants_logits) draws.push_back(member.sequence->draw());
    count += member.tokens;
  }
  std::vector<TokenId> chosen(draws.size());
  BatchStep step(std::move(backends), sessions_, parts_.clock, joint_.get());
  const Status pass =
      RunPass(members, tokens, step, {.tokens = chosen.data(), .draws = draws.data()});
  metrics_.CountStep(members.size(), count);
  size_t row = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const TokenId own = tokens[i].wants_logits ? chosen[row++] : -1;
    Conclude(members[i], pass.ok() ? step.status(i) : pass, own);
  }
  SendAhead(members);
  for (const Member& member : members) {
    BatchSequence* const sequence = Find(member.id);
    if (sequence == nullptr || !sequence->HasRunPrompt()) continue;
    const Status within = sequence->ShrinkToBudget();
    if (!within.ok()) Fail(member.id, sequence, within);
  }
}

void Batch::Conclude(const Member& member, const Status& status, TokenId chosen) {
  if (!status.ok()) return Fail(member.id, member.sequence, status);
  const StatusOr<bool> ended = member.sequence->OnStepDone(member.tokens, chosen);
  metrics_.offload_waits.Record(member.sequence->TakeOffloadWaits());
  if (!ended.ok()) return Fail(member.id, member.sequence, ended.status());
  if (*ended) return End(member.id, OkStatus());
  MutexLock lock(mutex_);
  scheduler_.OnStepDone(member.id, member.tokens, member.sequence->pending());
}

void Batch::Fail(Id id, BatchSequence* sequence, const Status& status) {
  if (!sequence->CanRestart(status)) {
    return End(id, Annotate(status, "this sequence cannot go on"));
  }
  sequence->Lose(status);
  metrics_.restarted.Add();
  MutexLock lock(mutex_);
  scheduler_.Restart(id, sequence->num_tokens(), sequence->pending(), sequence->dense_tokens());
}

void Batch::End(Id id, Status status) {
  std::unique_ptr<BatchSequence> sequence;
  {
    MutexLock lock(mutex_);
    sequence = std::move(sequences_.extract(id).mapped());
    scheduler_.Remove(id);
  }
  (status.ok()           ? metrics_.finished
   : IsCancelled(status) ? metrics_.cancelled
                         : metrics_.failed)
      .Add();
  metrics_.CountRecalls(sequence->TakeRecallStats());
  sequence->Finish(std::move(status));
}

void Batch::EndAll(const Status& status) {
  std::vector<Id> ids;
  {
    MutexLock lock(mutex_);
    for (const auto& [id, sequence] : sequences_) ids.push_back(id);
  }
  for (const Id id : ids) End(id, status);
}

bool Batch::WaitForWork() {
  MutexLock lock(mutex_);
  while (!stopped_ && sequences_.empty()) changed_.Wait(mutex_);
  return !stopped_;
}

void Batch::Run() {
  while (WaitForWork()) Step();
  EndAll(Unavailable("the worker shuts down"));
}

void Batch::Stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

std::vector<SequenceStats> Batch::Stats() const {
  std::vector<SequenceStats> stats;
  MutexLock lock(mutex_);
  for (const auto& [id, sequence] : sequences_) stats.push_back(sequence->Stats());
  return stats;
}

void Batch::VisitMetrics(MetricsVisitor& visit) const {
  metrics_.VisitMetrics(visit);
  MutexLock lock(mutex_);
  visit.Gauge("batch_running", "Sequences that have slots.", scheduler_.running());
  visit.Gauge("batch_waiting", "Sequences that have not started yet.", scheduler_.waiting());
  visit.Gauge("batch_suspended", "Sequences that gave their slots back and wait for them.",
              scheduler_.preempted());
  visit.Gauge("batch_slot_bytes", "Memory of the slots in use.",
              scheduler_.slot_bytes(static_cast<uint32_t>(metrics_.offloaded_layers.Get())));
}

}  // namespace quire::worker
