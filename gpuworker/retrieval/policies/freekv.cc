// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/policies/freekv.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace quire::worker {
namespace {

std::vector<HeldQueries> MakeQueries(const PolicyContext& context) {
  std::vector<HeldQueries> queries;
  for (uint32_t layer = 0; layer < context.spec.num_layers; ++layer) {
    queries.emplace_back(context.spec, context.device);
  }
  return queries;
}

std::vector<bool> CorrectedHeads(const PolicyContext& context) {
  const RetrievalOptions& options = context.options;
  std::vector<bool> heads(size_t{context.spec.num_layers} * context.spec.num_kv_heads,
                          !options.correct_retrieval_heads);
  for (const uint32_t head : options.retrieval_heads) heads[head] = true;
  return heads;
}

}  // namespace

StatusOr<std::unique_ptr<RetrievalPolicy>> FreeKvPolicy::Make(const PolicyContext& context) {
  QUIRE_RETURN_IF_ERROR(Validate(context.options, context.spec));
  if (context.options.correct_retrieval_heads && context.options.retrieval_heads.empty()) {
    return InvalidArgument(
        "correct_retrieval_heads is set, and the model's retrieval heads are not known, as with "
        "latent attention; correct all heads (--correct-heads all)");
  }
  return std::unique_ptr<RetrievalPolicy>(new FreeKvPolicy(context));
}

RetrievalOptions FreeKvPolicy::Published(uint32_t page_tokens) {
  return Divide(std::string(kName), page_tokens,
                {.sinks = 128, .window = 128, .total = 2048, .uncompressed_layers = {0}});
}

FreeKvPolicy::FreeKvPolicy(const PolicyContext& context)
    : DigestPolicy(context, ScoringOf(context.options)),
      spec_(context.spec),
      device_(context.device),
      threshold_(context.options.correction_threshold),
      corrects_(CorrectedHeads(context)),
      queries_(MakeQueries(context)) {}

bool FreeKvPolicy::MayBeLate(const SelectRequest& request) const {
  const HeldQueries& queries = queries_[request.layer];
  return request.held.size() == spec_.num_kv_heads &&
         std::ranges::all_of(request.held,
                             [&](uint64_t position) { return queries.Has(position); });
}

kernels::CorrectHeadsArgs FreeKvPolicy::Comparison() const {
  return {.n_q = spec_.num_query_heads,
          .n_kv = spec_.num_kv_heads,
          .head_dim = spec_.key_dim(),
          .tau = threshold_};
}

Status FreeKvPolicy::Prepare(const SelectRequest& request, JointWork* work) {
  if (request.candidates.size() <= request.max_pages) return OkStatus();
  HeldQueries& queries = queries_[request.layer];
  const size_t group = size_t{spec_.num_query_heads} / spec_.num_kv_heads * spec_.key_dim();
  std::vector<kernels::HeadQueries> heads;
  for (size_t head = 0; head < spec_.num_kv_heads; ++head) {
    heads.push_back({.now = request.q + head * group,
                     .before = queries.Group(request.held[head], head),
                     .tau = threshold_});
  }
  work_ = work;
  compared_ = work->Compare(Comparison(), heads);
  QUIRE_ASSIGN_OR_RETURN(float* const kept, queries.MakeRoom(request.position, request.held));
  const int64_t row = int64_t{spec_.num_query_heads} * spec_.key_dim();
  work->Narrow(row, DType::kF32, {.from = request.q, .to = kept});
  return DigestPolicy::Prepare(request, work);
}

StatusOr<std::vector<bool>> FreeKvPolicy::TurnedHeads(const SelectRequest& request) {
  const uint32_t n_kv = spec_.num_kv_heads;
  HeldQueries& queries = queries_[request.layer];
  QUIRE_ASSIGN_OR_RETURN(const float* before, queries.Gather(request.held));
  std::vector<bool> heads(n_kv, true);
  if (before == nullptr) return heads;
  if (cosines_.data() == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(cosines_, device_->Allocate(n_kv * sizeof(float)));
    QUIRE_ASSIGN_OR_RETURN(turned_, device_->Allocate((1 + n_kv) * sizeof(int32_t)));
  }
  kernels::CorrectHeadsArgs args = Comparison();
  args.q = request.q;
  args.before = before;
  args.cosines = cosines_.as<float>();
  args.corrected = turned_.as<int32_t>() + 1;
  args.n_corrected = turned_.as<int32_t>();
  args.stream = device_->stream();
  QUIRE_RETURN_IF_ERROR(ToStatus(device_->kernels().correct_heads(args), "correct_heads"));
  std::vector<int32_t> turned(1 + n_kv);
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(turned.data(), turned_.data(), turned.size() * sizeof(int32_t)));
  for (uint32_t head = 0; head < n_kv; ++head) heads[head] = !queries.Has(request.held[head]);
  for (const int32_t head : std::span(turned).subspan(1, turned[0])) heads[head] = true;
  return heads;
}

void FreeKvPolicy::LetSpeculate(const SelectRequest& request, std::vector<bool>* blocking) const {
  const HeldQueries& queries = queries_[request.layer];
  for (size_t head = 0; head < blocking->size(); ++head) {
    if (corrects_[request.layer * blocking->size() + head]) continue;
    if (queries.Has(request.held[head])) (*blocking)[head] = false;
  }
}

StatusOr<std::vector<bool>> FreeKvPolicy::NeedsBlocking(const SelectRequest& request) {
  const bool over_budget = request.candidates.size() > request.max_pages;
  if (!over_budget) return std::vector<bool>(spec_.num_kv_heads, true);
  const JointWork::Ticket compared = std::exchange(compared_, {});
  std::vector<bool> blocking;
  if (work_ != nullptr && work_->Has(compared)) {
    QUIRE_ASSIGN_OR_RETURN(blocking, work_->Turned(compared));
  } else {
    QUIRE_ASSIGN_OR_RETURN(blocking, TurnedHeads(request));
    QUIRE_RETURN_IF_ERROR(queries_[request.layer].Keep(request.position, request.q, request.held));
  }
  LetSpeculate(request, &blocking);
  return blocking;
}

StatusOr<bool> FreeKvPolicy::BeginSelect(const SelectRequest& request) {
  return selector().Begin(request);
}

}  // namespace quire::worker
