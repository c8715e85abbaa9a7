// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/sequence.h"

#include <algorithm>
#include <utility>

#include "gpuworker/engine/loss.h"
#include "gpuworker/engine/request_checks.h"
#include "gpuworker/engine/sequence_impl.h"
#include "gpuworker/model/sampler.h"

namespace quire::worker {
namespace {

/// Tokens of one forward pass while an observer wants the logits of each.
constexpr uint32_t kObservedStepTokens = 16;

}  // namespace

uint64_t Sequence::Impl::document_tokens() const {
  return document_ ? document_->num_tokens : options_.document_tokens.size();
}

Status Sequence::Impl::Open(const std::optional<DocumentName>& document) {
  const TimePoint start = parts_.clock->Now();
  Status status = document ? FindDocument(*document) : OkStatus();
  // Without a document there is nothing to read before the prompt has come.
  if (status.ok()) status = document ? OpenRun() : CheckRetrieval();
  // A server that stops meanwhile takes the session along, and another one may have the document.
  if (IsNotFound(status) && document_) status = OpenRun();
  if (IsLoss(status) && !options_.document_tokens.empty()) status = GoLocal();
  stats_.seconds_open = SecondsSince(*parts_.clock, start);
  return status;
}

Status Sequence::Impl::FindDocument(const DocumentName& name) {
  QUIRE_ASSIGN_OR_RETURN(Document found, worker::FindDocument(parts_, name));
  const size_t given = options_.document_tokens.size();
  if (given != 0 && given != found.num_tokens) {
    return InvalidArgument("document '", name.name, "' has ", found.num_tokens, " tokens, but ",
                           given, " were given as its own");
  }
  document_ = std::move(found);
  return OkStatus();
}

Status Sequence::Impl::CheckRetrieval() const {
  return MakeSequencePolicy(parts_, *options_.retrieval).status();
}

Status Sequence::Impl::OpenRun() {
  run_.reset();
  ran_ = 0;
  if (!document_ && NextPart().dense) {
    auto dense = PagedRun::OpenDense(parts_, *options_.retrieval, nullptr, &run_stats_);
    room_for_chunks_ = !IsOutOfDeviceMemory(dense.status());
    if (room_for_chunks_) {
      QUIRE_ASSIGN_OR_RETURN(run_, std::move(dense));
      return OkStatus();
    }
  }
  QUIRE_ASSIGN_OR_RETURN(
      run_, PagedRun::Open(parts_, *options_.retrieval, document_ ? &*document_ : nullptr,
                           Sessions(), &run_stats_));
  return OkStatus();
}

Status Sequence::Impl::NoteChunk(size_t first) {
  if (!document_ && first > 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const auto policy, MakeSequencePolicy(parts_, *options_.retrieval));
  if (PagedRun::MayBeDense(parts_, *policy, document_.has_value(), own_.size() - first)) {
    chunks_.push_back({first, own_.size()});
  }
  return OkStatus();
}

Sequence::Impl::Part Sequence::Impl::NextPart() const {
  const auto chunk = std::ranges::upper_bound(chunks_, ran_, {}, &Chunk::end);
  const bool none = chunk == chunks_.end() || !room_for_chunks_ || local_ != nullptr;
  if (none) return {own_.size(), false};
  return ran_ < chunk->first ? Part{chunk->first, false} : Part{chunk->end, true};
}

Status Sequence::Impl::GoLocal() {
  run_.reset();
  ran_ = 0;
  stats_.local = true;
  const ModelConfig& model = parts_.decoder->config();
  local_ = std::make_unique<DenseCache>(model, parts_.device, model.max_positions);
  const std::span<const TokenId> document = options_.document_tokens;
  for (size_t at = 0; at < document.size();) {
    const size_t count = std::min<size_t>(parts_.prefill_chunk_tokens, document.size() - at);
    QUIRE_RETURN_IF_ERROR(parts_.decoder->Forward(document.subspan(at, count), at, *local_,
                                                  Decoder::Logits::kNone, nullptr));
    if (options_.recompute_observer) options_.recompute_observer(count);
    at += count;
  }
  return OkStatus();
}

Status Sequence::Impl::Recover(const Status& loss) {
  Status status = OpenRun();
  if (status.ok()) status = RunPending();
  if (status.ok()) {
    ++stats_.reopened;
    return OkStatus();
  }
  if (document_ && options_.document_tokens.empty()) {
    return Annotate(
        loss, "the server lost this sequence and could not open it again (", Message(status),
        "); give the document's token ids to recompute it here, or open a new sequence");
  }
  QUIRE_RETURN_IF_ERROR(GoLocal());
  return RunPending();
}

Status Sequence::Impl::Advance() {
  QUIRE_RETURN_IF_ERROR(broken_);
  Status status = RunPending();
  if (IsLoss(status) && local_ == nullptr) status = Recover(status);
  if (!status.ok()) broken_ = Annotate(status, "this sequence cannot go on");
  return broken_;
}

Status Sequence::Impl::Forward(std::span<const TokenId> tokens, Decoder::Logits what,
                               float* logits) {
  stats_.steps += tokens.size();
  if (run_ != nullptr) return run_->Forward(tokens, what, logits);
  return parts_.decoder->Forward(tokens, local_->length(), *local_, what, logits);
}

Status Sequence::Impl::RunObserved(std::span<const TokenId> tokens) {
  const size_t vocab = parts_.decoder->config().vocab_size;
  std::vector<float> all(tokens.size() * vocab);
  QUIRE_RETURN_IF_ERROR(Forward(tokens, Decoder::Logits::kAll, all.data()));
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (ran_ + i < observed_) continue;  // Shown before the sequence was opened again.
    options_.logits_observer(document_tokens() + ran_ + i,
                             std::span(all).subspan(i * vocab, vocab));
  }
  observed_ = std::max(observed_, ran_ + tokens.size());
  logits_.assign(all.end() - static_cast<ptrdiff_t>(vocab), all.end());
  return OkStatus();
}

Status Sequence::Impl::RunStep(std::span<const TokenId> tokens, bool last) {
  if (options_.logits_observer) return RunObserved(tokens);
  if (!last) return Forward(tokens, Decoder::Logits::kNone, nullptr);
  logits_.resize(parts_.decoder->config().vocab_size);
  return Forward(tokens, Decoder::Logits::kLast, logits_.data());
}

Status Sequence::Impl::RunPending() {
  if (run_ == nullptr && local_ == nullptr) QUIRE_RETURN_IF_ERROR(OpenRun());
  while (ran_ < own_.size()) {
    const Part part = NextPart();
    QUIRE_RETURN_IF_ERROR(part.dense ? RunChunk(part.end) : RunUntil(part.end));
  }
  return OkStatus();
}

Status Sequence::Impl::RunChunk(size_t end) {
  const auto run = [&]() -> Status {
    if (!run_->is_dense()) {
      QUIRE_ASSIGN_OR_RETURN(run_, PagedRun::Densely(std::move(run_)));
    }
    return RunUntil(end);
  };
  const Status status = run();
  if (IsOutOfDeviceMemory(status)) {
    room_for_chunks_ = false;
    return OpenRun();
  }
  QUIRE_RETURN_IF_ERROR(status);
  QUIRE_ASSIGN_OR_RETURN(run_, PagedRun::WithinBudget(std::move(run_), Sessions()));
  return OkStatus();
}

Status Sequence::Impl::RunUntil(size_t end) {
  uint32_t step = run_ != nullptr ? run_->max_step_tokens() : Decoder::kBlockTokens;
  if (options_.logits_observer) step = std::min(step, kObservedStepTokens);
  while (ran_ < end) {
    const size_t count = std::min<size_t>(step, end - ran_);
    QUIRE_RETURN_IF_ERROR(
        RunStep(std::span(own_).subspan(ran_, count), ran_ + count == own_.size()));
    ran_ += count;
  }
  return OkStatus();
}

Status Sequence::Impl::CheckRoom(size_t tokens) const {
  return worker::CheckRoom(parts_.decoder->config(), num_tokens(), tokens);
}

Status Sequence::Impl::Append(std::span<const TokenId> tokens) {
  QUIRE_RETURN_IF_ERROR(broken_);
  QUIRE_RETURN_IF_ERROR(CheckRoom(tokens.size()));
  QUIRE_RETURN_IF_ERROR(CheckVocabulary(parts_.decoder->config(), tokens));
  const TimePoint start = parts_.clock->Now();
  const size_t first = own_.size();
  own_.insert(own_.end(), tokens.begin(), tokens.end());
  QUIRE_RETURN_IF_ERROR(NoteChunk(first));
  const Status status = Advance();
  stats_.seconds_append += SecondsSince(*parts_.clock, start);
  return status;
}

StatusOr<Generation> Sequence::Impl::Generate(const GenerateParams& params) {
  QUIRE_RETURN_IF_ERROR(broken_);
  if (own_.empty()) {
    return FailedPrecondition("there is nothing to go on from; append a prompt first");
  }
  const TimePoint start = parts_.clock->Now();
  auto generation = Sample(params);
  stats_.seconds_generate += SecondsSince(*parts_.clock, start);
  return generation;
}

StatusOr<Generation> Sequence::Impl::Sample(const GenerateParams& params) {
  QUIRE_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({.temperature = params.temperature,
                                                           .top_p = params.top_p,
                                                           .seed = params.seed}));
  Generation generation;
  // The last token is run only when something follows it.
  while (generation.tokens.size() < params.max_new_tokens &&
         num_tokens() < parts_.decoder->config().max_positions) {
    QUIRE_RETURN_IF_ERROR(Advance());
    QUIRE_ASSIGN_OR_RETURN(const TokenId token, sampler.Sample(logits_));
    generation.stopped = std::find(params.stop_tokens.begin(), params.stop_tokens.end(), token) !=
                         params.stop_tokens.end();
    if (generation.stopped) break;
    own_.push_back(token);
    generation.tokens.push_back(token);
    ++stats_.generated_tokens;
    if (params.on_token && !params.on_token(token)) break;
  }
  return generation;
}

SequenceStats Sequence::Impl::stats() const {
  SequenceStats stats = stats_;
  AddRunStats(run_stats_, *options_.retrieval, *parts_.spec, &stats);
  stats.context_tokens = document_tokens() + ran_;
  stats.resident_tokens =
      run_ != nullptr ? run_->ResidentTokens() : static_cast<double>(stats.context_tokens);
  return stats;
}

Sequence::Sequence(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Sequence::~Sequence() = default;

Status Sequence::CheckRoom(size_t tokens) const { return impl_->CheckRoom(tokens); }
Status Sequence::Append(std::span<const TokenId> tokens) { return impl_->Append(tokens); }
StatusOr<Generation> Sequence::Generate(const GenerateParams& params) {
  return impl_->Generate(params);
}
std::span<const float> Sequence::logits() const { return impl_->logits(); }
uint64_t Sequence::num_tokens() const { return impl_->num_tokens(); }
SequenceStats Sequence::stats() const { return impl_->stats(); }

}  // namespace quire::worker
