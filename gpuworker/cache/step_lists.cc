// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/step_lists.h"

#include <algorithm>

namespace quire::worker {

StatusOr<StepLists> StepLists::Create(std::span<const CacheLayout> layouts, const KvSpec& spec,
                                      Device* device) {
  StepLists lists(spec, device);
  for (const CacheLayout& layout : layouts) lists.AddLayer(layout);
  QUIRE_ASSIGN_OR_RETURN(lists.memory_, device->Allocate(lists.host_.size() * sizeof(int32_t)));
  return lists;
}

void StepLists::AddLayer(const CacheLayout& layout) {
  const auto layer = static_cast<uint32_t>(part_of_.size());
  const auto same = std::ranges::find(parts_, layout, &Part::layout);
  part_of_.push_back(static_cast<size_t>(same - parts_.begin()));
  if (same != parts_.end()) return;
  const size_t n_slots = layout.everything ? 0 : layout.num_slots();
  parts_.push_back(
      {.layout = layout, .first_layer = layer, .begin = host_.size(), .n_slots = n_slots});
  const size_t lists = 1 + spec_.num_kv_heads + (layout.window_tokens > 0 ? 1 : 0);
  host_.resize(host_.size() + 1 + n_slots * lists);
}

void StepLists::Set(uint32_t layer, const PageTable& table, TokenPlace place) {
  const Part& part = parts_[part_of_[layer]];
  if (part.first_layer != layer) return;
  auto to = host_.begin() + static_cast<ptrdiff_t>(part.begin);
  *to++ = static_cast<int32_t>(place.slot * spec_.page_tokens + place.row);
  if (part.layout.everything) return;
  table.ListAttended(&attended_);
  const size_t listed = attended_.slots.size();
  const auto put = [&](const int32_t* from) {
    std::fill(std::copy_n(from, listed, to), to + static_cast<ptrdiff_t>(part.n_slots), 0);
    to += static_cast<ptrdiff_t>(part.n_slots);
  };
  put(attended_.slots.data());
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    put(attended_.valid_tokens.data() + head * listed);
  }
  if (part.layout.window_tokens > 0) put(attended_.first_tokens.data());
}

Status StepLists::Send() {
  return device_->CopyToDevice(memory_.data(), host_.data(), host_.size() * sizeof(int32_t));
}

StepLists::Lists StepLists::Of(uint32_t layer) const {
  const Part& part = parts_[part_of_[layer]];
  const int32_t* const place = memory_.as<const int32_t>() + part.begin;
  if (part.layout.everything) return {.place = place};
  const int32_t* const slots = place + 1;
  const int32_t* const valid_tokens = slots + part.n_slots;
  const int32_t* const behind = valid_tokens + part.n_slots * spec_.num_kv_heads;
  return {.place = place,
          .slots = slots,
          .valid_tokens = valid_tokens,
          .first_tokens = part.layout.window_tokens > 0 ? behind : nullptr,
          .n_slots = static_cast<int64_t>(part.n_slots)};
}

}  // namespace quire::worker
