// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/retrieval/keys/held_queries.h"

#include <algorithm>
#include <utility>

namespace quire::worker {
namespace {

/// The newest queries, whose pages a recall in flight may still bring.
constexpr size_t kNewest = 2;

}  // namespace

HeldQueries::HeldQueries(const KvSpec& spec, Device* device)
    : device_(device),
      row_floats_(size_t{spec.num_query_heads} / spec.num_kv_heads * spec.key_dim()),
      query_bytes_(size_t{spec.num_query_heads} * spec.key_dim() * sizeof(float)) {}

const HeldQueries::Query* HeldQueries::Find(uint64_t position) const {
  const auto at = std::ranges::find(queries_, position, &Query::position);
  return at == queries_.end() ? nullptr : &*at;
}

bool HeldQueries::Has(uint64_t position) const { return Find(position) != nullptr; }

void HeldQueries::Forget(std::span<const uint64_t> held) {
  for (size_t i = 0; i + kNewest < queries_.size();) {
    if (std::ranges::find(held, queries_[i].position) != held.end()) {
      ++i;
      continue;
    }
    spare_.push_back(std::move(queries_[i].values));
    queries_.erase(queries_.begin() + static_cast<ptrdiff_t>(i));
  }
}

StatusOr<float*> HeldQueries::MakeRoom(uint64_t position, std::span<const uint64_t> held) {
  Forget(held);
  Query query{.position = position, .values = {}};
  if (spare_.empty()) {
    QUIRE_ASSIGN_OR_RETURN(query.values, device_->Allocate(query_bytes_));
  } else {
    query.values = std::move(spare_.back());
    spare_.pop_back();
  }
  queries_.push_back(std::move(query));
  return queries_.back().values.as<float>();
}

Status HeldQueries::Keep(uint64_t position, const float* q, std::span<const uint64_t> held) {
  QUIRE_ASSIGN_OR_RETURN(float* const room, MakeRoom(position, held));
  return device_->CopyOnDevice(room, q, query_bytes_);
}

const float* HeldQueries::Group(uint64_t position, size_t head) const {
  const Query* const query = Find(position);
  return query == nullptr ? nullptr : query->values.as<const float>() + head * row_floats_;
}

StatusOr<const float*> HeldQueries::Gather(std::span<const uint64_t> held) {
  const Query* common = nullptr;
  bool mixed = false;
  for (const uint64_t position : held) {
    const Query* query = Find(position);
    if (query == nullptr) continue;
    mixed = mixed || (common != nullptr && query != common);
    common = query;
  }
  if (common == nullptr) return nullptr;
  if (!mixed) return common->values.as<const float>();
  if (gathered_.data() == nullptr) {
    QUIRE_ASSIGN_OR_RETURN(gathered_, device_->Allocate(query_bytes_));
  }
  for (size_t head = 0; head < held.size(); ++head) {
    const Query* query = Find(held[head]);
    const size_t row = head * row_floats_;
    QUIRE_RETURN_IF_ERROR(
        device_->CopyOnDevice(gathered_.as<float>() + row,
                              (query == nullptr ? common : query)->values.as<const float>() + row,
                              row_floats_ * sizeof(float)));
  }
  return gathered_.as<const float>();
}

}  // namespace quire::worker
