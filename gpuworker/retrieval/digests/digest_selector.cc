// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/digests/digest_selector.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/threads/mutex.h"
#include "kernels/api/page_digest.h"

namespace quire::worker {
namespace {

/// Grows `buffer` to at least `bytes`; contents are lost.
Status Grow(Device* device, size_t bytes, DeviceBuffer* buffer) {
  if (bytes <= buffer->size_bytes()) return OkStatus();
  // The old memory goes away behind the kernels that use it.
  QUIRE_ASSIGN_OR_RETURN(*buffer, device->Allocate(std::max(bytes, 2 * buffer->size_bytes())));
  return OkStatus();
}

}  // namespace

std::optional<Selection> SelectWithoutChoice(const SelectRequest& request, uint32_t num_kv_heads) {
  std::vector<uint32_t> pages;
  if (request.candidates.size() <= request.max_pages) {
    pages.resize(request.candidates.size());
    std::iota(pages.begin(), pages.end(), request.candidates.first);
  } else if (request.max_pages > 0) {
    return std::nullopt;
  }
  return Selection{.pages = std::vector<std::vector<uint32_t>>(num_kv_heads, pages)};
}

class DigestSelector::BackgroundSelection {
 public:
  void Set(StatusOr<Selection> result) {
    MutexLock lock(mutex_);
    result_ = std::move(result);
    set_.NotifyAll();
  }
  void Await() {
    MutexLock lock(mutex_);
    while (!result_) set_.Wait(mutex_);
  }
  StatusOr<Selection> Take() {
    Await();
    MutexLock lock(mutex_);
    return *std::move(result_);
  }

 private:
  Mutex mutex_;
  CondVar set_;
  std::optional<StatusOr<Selection>> result_ QUIRE_GUARDED_BY(mutex_);
};

DigestSelector::DigestSelector(const PolicyContext& context, const Options& options)
    : spec_(context.spec), device_(context.device), executor_(context.executor), options_(options) {
  digests_.reserve(spec_.num_layers);
  for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
    digests_.emplace_back(spec_, options_.kind, device_);
  }
}

DigestSelector::~DigestSelector() {
  AwaitBackground();
  // When the device has failed, nothing runs any more.
  if (begun_.copied != nullptr) (void)begun_.copied->Await();
}

Status DigestSelector::OnPrefillLayer(uint32_t layer, uint32_t num_pages,
                                      std::shared_ptr<const StoredDigests> digests) {
  const uint32_t pages = digests == nullptr ? 0 : digests->num_pages();
  if (pages != num_pages) {
    return DataLoss("layer ", layer, ": digests of ", pages, " pages came for ", num_pages);
  }
  return Annotate(digests_[layer].Start(std::move(digests)), "layer ", layer);
}

Status DigestSelector::CheckNext(uint32_t layer, uint32_t page) const {
  if (page == digests_[layer].num_pages()) return OkStatus();
  return FailedPrecondition("layer ", layer, ": page ", page, " is complete, but page ",
                            digests_[layer].num_pages(), " is the next to have a digest");
}

Status DigestSelector::OnPageComplete(uint32_t layer, uint32_t page, const void* units) {
  AwaitBackground();  // Digests may move.
  QUIRE_RETURN_IF_ERROR(CheckNext(layer, page));
  return digests_[layer].AppendPage(units);
}

Status DigestSelector::AddPage(uint32_t layer, uint32_t page, const void* units, JointWork* work) {
  QUIRE_RETURN_IF_ERROR(CheckNext(layer, page));
  return digests_[layer].AddPage(units, work);
}

Status DigestSelector::Reserve(uint32_t pages) {
  const size_t n_kv = spec_.num_kv_heads;
  QUIRE_RETURN_IF_ERROR(
      Grow(device_, size_t{spec_.num_query_heads} * pages * sizeof(float), &scores_));
  QUIRE_RETURN_IF_ERROR(Grow(device_, n_kv * pages * sizeof(float), &pooled_));
  return Grow(device_, n_kv * spec_.key_dim() * sizeof(float), &pooled_query_);
}

kernels::ScoreArgs DigestSelector::ScoreSettings() const {
  kernels::ScoreArgs args = kernels::PageScoreArgs(spec_, options_.kind);
  args.n_q = ScoreRows();
  args.scale = options_.scale;
  return args;
}

kernels::PoolArgs DigestSelector::PoolSettings() const {
  return {.n_q = ScoreRows(),
          .n_kv = spec_.num_kv_heads,
          .head_dim = spec_.key_dim(),
          .pooling = options_.pooling};
}

template <typename ScorePart>
Status DigestSelector::ForEachPart(const SelectRequest& request, const float* q, ScorePart score) {
  const PageRange& candidates = request.candidates;
  for (const LayerDigests::Part& part : digests_[request.layer].parts()) {
    const uint32_t first = std::max(candidates.first, part.first);
    const uint32_t end = std::min(candidates.end, part.end);
    if (first >= end) continue;
    QUIRE_RETURN_IF_ERROR(score({.q = q,
                                 .digests = part.data,
                                 .scores = scores_.as<float>() + (first - candidates.first),
                                 .score_stride = candidates.size(),
                                 .first_page = first - part.first,
                                 .n_pages = end - first}));
  }
  return OkStatus();
}

StatusOr<const float*> DigestSelector::ScoringQueries(const SelectRequest& request) {
  if (request.candidates.end > digests_[request.layer].num_pages()) {
    return FailedPrecondition("layer ", request.layer, ": candidates end at page ",
                              request.candidates.end, ", digests at page ",
                              digests_[request.layer].num_pages());
  }
  QUIRE_RETURN_IF_ERROR(Reserve(request.candidates.size()));
  if (!kernels::PoolsQuery(options_.pooling)) return request.q;
  QUIRE_RETURN_IF_ERROR(ToStatus(device_->kernels().pool_query({.q = request.q,
                                                                .pooled = pooled_query_.as<float>(),
                                                                .n_q = spec_.num_query_heads,
                                                                .n_kv = spec_.num_kv_heads,
                                                                .head_dim = spec_.key_dim(),
                                                                .pooling = options_.pooling,
                                                                .stream = device_->stream()}),
                                 "pool_query"));
  return pooled_query_.as<const float>();
}

Status DigestSelector::Score(const SelectRequest& request) {
  QUIRE_ASSIGN_OR_RETURN(const float* const q, ScoringQueries(request));
  return ForEachPart(request, q, [&](const kernels::ScoreJob& part) {
    kernels::ScoreArgs args = ScoreSettings();
    args.q = part.q;
    args.digests = part.digests;
    args.scores = part.scores;
    args.score_stride = part.score_stride;
    args.first_page = part.first_page;
    args.n_pages = part.n_pages;
    args.stream = device_->stream();
    return ToStatus(device_->kernels().score(args), "score");
  });
}

Status DigestSelector::Prepare(const SelectRequest& request, JointWork* work) {
  if (!at_worker() || SelectWithoutChoice(request, spec_.num_kv_heads)) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(const float* const q, ScoringQueries(request));
  QUIRE_RETURN_IF_ERROR(ForEachPart(request, q, [&](const kernels::ScoreJob& part) {
    work->Score(ScoreSettings(), part);
    return OkStatus();
  }));
  const int64_t pages = request.candidates.size();
  work->Pool(PoolSettings(),
             {.scores = scores_.as<float>(), .pooled = pooled_.as<float>(), .n_pages = pages});
  work_ = work;
  prepared_ = work->TopK(spec_.num_kv_heads,
                         {.scores = pooled_.as<float>(),
                          .n_pages = pages,
                          .k = request.max_pages,
                          .index_offset = static_cast<int32_t>(request.candidates.first)});
  return OkStatus();
}

int64_t DigestSelector::ScoreRows() const {
  return kernels::PoolsQuery(options_.pooling) ? spec_.num_kv_heads : spec_.num_query_heads;
}

Status DigestSelector::Weigh(const SelectRequest& request) {
  QUIRE_RETURN_IF_ERROR(Score(request));
  kernels::PoolArgs args = PoolSettings();
  args.scores = scores_.as<float>();
  args.pooled = pooled_.as<float>();
  args.n_pages = request.candidates.size();
  args.stream = device_->stream();
  return ToStatus(device_->kernels().pool(args), "pool");
}

StatusOr<std::vector<float>> DigestSelector::Scores(const SelectRequest& request) {
  std::vector<float> scores(size_t{spec_.num_query_heads} * request.candidates.size());
  if (scores.empty()) return scores;
  QUIRE_RETURN_IF_ERROR(Score(request));
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(scores.data(), scores_.data(), scores.size() * sizeof(float)));
  return scores;
}

size_t DigestSelector::FoundBytes(const SelectRequest& request) const {
  return size_t{spec_.num_kv_heads} * (request.max_pages + 1) * sizeof(int32_t);
}

Status DigestSelector::TopK(const SelectRequest& request) {
  QUIRE_RETURN_IF_ERROR(Grow(device_, FoundBytes(request), &found_));
  return ToStatus(
      device_->kernels().topk(
          {.scores = pooled_.as<float>(),
           .indices = found_.as<int32_t>(),
           .nan_counts = found_.as<int32_t>() + size_t{spec_.num_kv_heads} * request.max_pages,
           .n_rows = spec_.num_kv_heads,
           .n_pages = request.candidates.size(),
           .k = request.max_pages,
           .index_offset = static_cast<int32_t>(request.candidates.first),
           .stream = device_->stream()}),
      "topk");
}

Selection DigestSelector::ToSelection(const int32_t* found, uint32_t pages_per_head) const {
  const int32_t* const nan_counts = found + size_t{spec_.num_kv_heads} * pages_per_head;
  Selection selection;
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head, found += pages_per_head) {
    selection.pages.emplace_back(found, found + pages_per_head);
    selection.nan_scores += static_cast<uint64_t>(nan_counts[head]);
  }
  return selection;
}

StatusOr<bool> DigestSelector::Begin(const SelectRequest& request) {
  if (!at_worker() || SelectWithoutChoice(request, spec_.num_kv_heads)) return false;
  if (work_ != nullptr && work_->Has(prepared_)) return false;  // It was made before attention.
  return device_->reads_host_memory() ? BeginInBackground(request) : BeginOnDevice(request);
}

StatusOr<bool> DigestSelector::BeginInBackground(const SelectRequest& request) {
  if (executor_ == nullptr) return false;
  // Memory is the caller's business.
  QUIRE_RETURN_IF_ERROR(Reserve(request.candidates.size()));
  QUIRE_RETURN_IF_ERROR(Grow(device_, FoundBytes(request), &found_));
  query_.assign(request.q, request.q + size_t{spec_.num_query_heads} * spec_.key_dim());
  SelectRequest own = request;
  own.q = query_.data();
  const auto selection = std::make_shared<BackgroundSelection>();
  const Status taken =
      executor_->Submit([this, own, selection] { selection->Set(SelectNow(own)); });
  if (!taken.ok()) return false;  // It has enough to do.
  background_ = selection;
  return true;
}

void DigestSelector::AwaitBackground() const {
  if (background_ != nullptr) background_->Await();
}

StatusOr<bool> DigestSelector::BeginOnDevice(const SelectRequest& request) {
  const size_t bytes = FoundBytes(request);
  if (begun_.copied == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(begun_.copied, device_->MakeEvent());
  }
  if (begun_.size_bytes < bytes) {
    QUIRE_ASSIGN_OR_RETURN(begun_.found, device_->AllocatePinned(bytes));
    begun_.size_bytes = bytes;
  }
  QUIRE_RETURN_IF_ERROR(Weigh(request));
  QUIRE_RETURN_IF_ERROR(TopK(request));
  QUIRE_RETURN_IF_ERROR(device_->CopyToPinned(begun_.found.get(), found_.data(), bytes));
  QUIRE_RETURN_IF_ERROR(begun_.copied->Record(DeviceStream::kCompute));
  begun_.pending = true;
  return true;
}

StatusOr<Selection> DigestSelector::Select(const SelectRequest& request) {
  const JointWork::Ticket prepared = std::exchange(prepared_, {});
  if (work_ != nullptr && work_->Has(prepared)) {
    QUIRE_ASSIGN_OR_RETURN(const int32_t* const found, work_->Found(prepared));
    return ToSelection(found, request.max_pages);
  }
  if (std::exchange(begun_.pending, false)) {
    QUIRE_RETURN_IF_ERROR(begun_.copied->Await());
    return ToSelection(reinterpret_cast<const int32_t*>(begun_.found.get()), request.max_pages);
  }
  if (const auto selection = std::exchange(background_, nullptr)) return selection->Take();
  return SelectNow(request);
}

StatusOr<Selection> DigestSelector::SelectNow(const SelectRequest& request) {
  if (auto selection = SelectWithoutChoice(request, spec_.num_kv_heads)) return *selection;
  if (!at_worker()) return Selection{.at_server = true};
  QUIRE_RETURN_IF_ERROR(Weigh(request));
  QUIRE_RETURN_IF_ERROR(TopK(request));
  std::vector<int32_t> found(FoundBytes(request) / sizeof(int32_t));
  QUIRE_RETURN_IF_ERROR(
      device_->CopyToHost(found.data(), found_.data(), found.size() * sizeof(int32_t)));
  return ToSelection(found.data(), request.max_pages);
}

}  // namespace quire::worker
