// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/device/joint_work.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "gpuworker/device/packed_lists.h"

namespace quire::worker {
namespace {

auto Settings(const kernels::NhdToHndArgs& args) {
  return std::tuple(args.page_tokens, args.n_kv, args.head_dim, args.has_values, args.dtype);
}
auto Settings(const kernels::DigestArgs& args) {
  return std::tuple(args.unit_stride, args.n_units, args.page_tokens, args.head_dim, args.dtype,
                    args.out_dtype, args.kind, args.rotary_dim, args.interleaved);
}
auto Settings(const kernels::ScoreArgs& args) {
  return std::tuple(args.n_q, args.n_kv, args.head_dim, args.scale, args.dtype, args.kind,
                    args.rotary_dim, args.interleaved);
}
auto Settings(const kernels::PoolArgs& args) {
  return std::tuple(args.n_q, args.n_kv, args.head_dim, args.pooling);
}
auto Settings(const kernels::TopKArgs& args) { return std::tuple(args.n_rows); }

/// The group of these settings, made where there is none.
template <typename Groups, typename Args>
auto& GroupOf(Groups& groups, const Args& like) {
  const auto same = std::ranges::find_if(
      groups, [&](const auto& group) { return Settings(group.args) == Settings(like); });
  if (same != groups.end()) return *same;
  groups.push_back({like, {}});
  return groups.back();
}

}  // namespace

/// Device addresses of the lists of a launch, in the order of the groups.
struct JointWork::Lists {
  std::vector<const kernels::NarrowRow*> rows;
  const kernels::HeadQueries* heads = nullptr;
  std::vector<const kernels::PageAddress*> pages;
  std::vector<const kernels::DigestJob*> digests;
  std::vector<const kernels::ScoreJob*> scores;
  std::vector<const kernels::PoolJob*> pools;
  std::vector<const kernels::TopKJob*> selections;
};

JointWork::~JointWork() {
  // When the device has failed, nothing runs any more.
  if (copied_ != nullptr) (void)copied_->Await();
}

void JointWork::Narrow(int64_t n, DType dtype, const kernels::NarrowRow& row) {
  const auto same = std::ranges::find_if(
      rows_, [&](const Rows& rows) { return rows.n == n && rows.dtype == dtype; });
  if (same != rows_.end()) return same->list.push_back(row);
  rows_.push_back({n, dtype, {row}});
}

JointWork::Ticket JointWork::Compare(const kernels::CorrectHeadsArgs& shape,
                                     std::span<const kernels::HeadQueries> heads) {
  comparison_ = shape;
  const size_t first = heads_.size();
  heads_.insert(heads_.end(), heads.begin(), heads.end());
  return {launched_ + 1, first};
}

void JointWork::Export(const KvSpec& spec, const kernels::PageAddress& page) {
  GroupOf(pages_, kernels::NhdToHndArgs{.num_slots = 1,
                                        .page_tokens = spec.page_tokens,
                                        .n_kv = spec.num_kv_heads,
                                        .head_dim = spec.head_dim,
                                        .last_page_rows = spec.page_tokens,
                                        .dtype = spec.dtype})
      .jobs.push_back(page);
}

void JointWork::Digest(const kernels::DigestArgs& like, const kernels::DigestJob& job) {
  GroupOf(digests_, like).jobs.push_back(job);
}

void JointWork::Score(const kernels::ScoreArgs& like, const kernels::ScoreJob& job) {
  auto& group = GroupOf(scores_, like);
  group.args.n_pages = std::max(group.args.n_pages, job.n_pages);
  group.jobs.push_back(job);
}

void JointWork::Pool(const kernels::PoolArgs& like, const kernels::PoolJob& job) {
  auto& group = GroupOf(pools_, like);
  group.args.n_pages = std::max(group.args.n_pages, job.n_pages);
  group.jobs.push_back(job);
}

JointWork::Ticket JointWork::TopK(int64_t rows, const kernels::TopKJob& job) {
  auto& group = GroupOf(selections_, kernels::TopKArgs{.n_rows = rows});
  group.jobs.push_back(job);
  places_.resize(selections_.size());
  const size_t at = found_words_;
  places_[static_cast<size_t>(&group - selections_.data())].push_back(at);
  found_words_ += static_cast<size_t>(rows * (job.k + 1));
  return {launched_ + 1, at};
}

Status JointWork::Launch() {
  ++launched_;
  if (empty()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(ReserveFound());
  PackedLists packed;
  Lists lists;
  for (const Rows& rows : rows_) packed.Add(std::span(rows.list));
  packed.Add(std::span(heads_));
  for (const auto& group : pages_) packed.Add(std::span(group.jobs));
  for (const auto& group : digests_) packed.Add(std::span(group.jobs));
  for (const auto& group : scores_) packed.Add(std::span(group.jobs));
  for (const auto& group : pools_) packed.Add(std::span(group.jobs));
  for (const auto& group : selections_) packed.Add(std::span(group.jobs));
  QUIRE_RETURN_IF_ERROR(packed.Send(*device_, &lists_));
  for (size_t i = 0; i < rows_.size(); ++i) {
    lists.rows.push_back(packed.Next<kernels::NarrowRow>());
  }
  lists.heads = packed.Next<kernels::HeadQueries>();
  for (size_t i = 0; i < pages_.size(); ++i) {
    lists.pages.push_back(packed.Next<kernels::PageAddress>());
  }
  for (size_t i = 0; i < digests_.size(); ++i) {
    lists.digests.push_back(packed.Next<kernels::DigestJob>());
  }
  for (size_t i = 0; i < scores_.size(); ++i) {
    lists.scores.push_back(packed.Next<kernels::ScoreJob>());
  }
  for (size_t i = 0; i < pools_.size(); ++i) {
    lists.pools.push_back(packed.Next<kernels::PoolJob>());
  }
  for (size_t i = 0; i < selections_.size(); ++i) {
    lists.selections.push_back(packed.Next<kernels::TopKJob>());
  }
  Status status = LaunchComparisons(lists);
  if (status.ok()) status = LaunchRows(lists);
  if (status.ok()) status = LaunchPages(lists);
  if (status.ok()) status = LaunchSelections(lists);
  if (status.ok()) status = CopyFound();
  Clear();
  return status;
}

Status JointWork::ReserveFound() {
  n_kv_ = static_cast<uint32_t>(comparison_.n_kv);
  turned_at_ = found_words_;
  const size_t bytes = (found_words_ + 1 + heads_.size()) * sizeof(int32_t);
  if (found_.size_bytes() < bytes) {
    QUIRE_ASSIGN_OR_RETURN(found_, device_->Allocate(2 * bytes));
  }
  if (found_here_bytes_ < bytes) {
    QUIRE_RETURN_IF_ERROR(Await());  // The memory goes away.
    QUIRE_ASSIGN_OR_RETURN(found_here_, device_->AllocatePinned(2 * bytes));
    found_here_bytes_ = 2 * bytes;
  }
  if (cosines_.size_bytes() < heads_.size() * sizeof(float)) {
    QUIRE_ASSIGN_OR_RETURN(cosines_, device_->Allocate(2 * heads_.size() * sizeof(float)));
  }
  // Jobs of a launch have their places now.
  for (size_t g = 0; g < selections_.size(); ++g) {
    for (size_t i = 0; i < selections_[g].jobs.size(); ++i) {
      kernels::TopKJob& job = selections_[g].jobs[i];
      job.indices = found_.as<int32_t>() + places_[g][i];
      job.nan_counts = job.indices + selections_[g].args.n_rows * job.k;
    }
  }
  return OkStatus();
}

Status JointWork::LaunchRows(const Lists& lists) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    QUIRE_RETURN_IF_ERROR(ToStatus(device_->kernels().narrow({.n = rows_[i].n,
                                                              .rows = std::ssize(rows_[i].list),
                                                              .list = lists.rows[i],
                                                              .dtype = rows_[i].dtype,
                                                              .stream = device_->stream()}),
                                   "narrow"));
  }
  return OkStatus();
}

Status JointWork::LaunchComparisons(const Lists& lists) {
  if (heads_.empty()) return OkStatus();
  kernels::CorrectHeadsArgs args = comparison_;
  args.heads = lists.heads;
  args.batch = std::ssize(heads_) / args.n_kv;
  args.cosines = cosines_.as<float>();
  args.n_corrected = found_.as<int32_t>() + turned_at_;
  args.corrected = args.n_corrected + 1;
  args.stream = device_->stream();
  return ToStatus(device_->kernels().correct_heads(args), "correct_heads");
}

Status JointWork::LaunchPages(const Lists& lists) {
  for (size_t i = 0; i < pages_.size(); ++i) {
    kernels::NhdToHndArgs args = pages_[i].args;
    args.pages = lists.pages[i];
    args.n_pages = std::ssize(pages_[i].jobs);
    args.stream = device_->stream();
    QUIRE_RETURN_IF_ERROR(ToStatus(device_->kernels().nhd_to_hnd(args), "nhd_to_hnd"));
  }
  return OkStatus();
}

Status JointWork::LaunchSelections(const Lists& lists) {
  const auto launch = [&](auto& groups, const auto& jobs, auto op, const char* name) -> Status {
    for (size_t i = 0; i < groups.size(); ++i) {
      auto args = groups[i].args;
      args.jobs = jobs[i];
      args.n_jobs = std::ssize(groups[i].jobs);
      args.stream = device_->stream();
      QUIRE_RETURN_IF_ERROR(ToStatus(op(args), name));
    }
    return OkStatus();
  };
  const kernels::KernelTable& ops = device_->kernels();
  QUIRE_RETURN_IF_ERROR(launch(digests_, lists.digests, ops.digest, "digest"));
  QUIRE_RETURN_IF_ERROR(launch(scores_, lists.scores, ops.score, "score"));
  QUIRE_RETURN_IF_ERROR(launch(pools_, lists.pools, ops.pool, "pool"));
  return launch(selections_, lists.selections, ops.topk, "topk");
}

Status JointWork::CopyFound() {
  const size_t turned = heads_.empty() ? 0 : 1 + heads_.size();
  if (found_words_ + turned == 0) return OkStatus();
  if (copied_ == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(copied_, device_->MakeEvent());
  }
  QUIRE_RETURN_IF_ERROR(device_->CopyToPinned(found_here_.get(), found_.data(),
                                              (found_words_ + turned) * sizeof(int32_t)));
  awaited_ = false;
  return copied_->Record(DeviceStream::kCompute);
}

void JointWork::Clear() {
  rows_.clear();
  heads_.clear();
  pages_.clear();
  digests_.clear();
  scores_.clear();
  pools_.clear();
  selections_.clear();
  places_.clear();
  found_words_ = 0;
}

Status JointWork::Await() {
  if (awaited_) return OkStatus();
  awaited_ = true;
  return copied_->Await();
}

StatusOr<const int32_t*> JointWork::Found(const Ticket& ticket) {
  QUIRE_RETURN_IF_ERROR(Await());
  return reinterpret_cast<const int32_t*>(found_here_.get()) + ticket.at;
}

StatusOr<std::vector<bool>> JointWork::Turned(const Ticket& ticket) {
  QUIRE_RETURN_IF_ERROR(Await());
  const int32_t* const turned = reinterpret_cast<const int32_t*>(found_here_.get()) + turned_at_;
  std::vector<bool> heads(n_kv_, false);
  const auto first = static_cast<int32_t>(ticket.at);
  for (const int32_t head : std::span(turned + 1, static_cast<size_t>(turned[0]))) {
    if (head >= first && head < first + std::ssize(heads)) heads[head - first] = true;
  }
  return heads;
}

}  // namespace quire::worker
