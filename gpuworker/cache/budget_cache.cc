// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/cache/budget_cache.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/memory/payload_cutter.h"
#include "gpuworker/cache/spread_units.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// Most blocks that one head's slots or keys are split over for one token. With 8 KV heads the
/// largest devices run that many at a time.
constexpr size_t kAttentionSplits = 64;

}  // namespace

StatusOr<std::unique_ptr<BudgetCache>> BudgetCache::Create(const KvSpec& spec, Device* device,
                                                           std::span<const CacheLayout> layouts,
                                                           uint32_t staging_buffers,
                                                           float soft_cap) {
  if (!spec.has_values() && device->kernels().mla_attention == nullptr) {
    return Unimplemented("device ", device->name(),
                         " has no kernel mla_attention, which pages of latents need");
  }
  if (layouts.size() != spec.num_layers) {
    return InvalidArgument(layouts.size(), " cache layouts for ", spec.num_layers, " layers");
  }
  auto cache = std::unique_ptr<BudgetCache>(new BudgetCache(spec, device, soft_cap));
  if (device->memory_type() != MemoryType::kHost) {
    QUIRE_ASSIGN_OR_RETURN(
        cache->attention_workspace_,
        device->Allocate(kAttentionSplits * static_cast<size_t>(kernels::AttentionSplitBytes(
                                                spec.num_query_heads, spec.value_dim()))));
  }
  cache->layers_.reserve(layouts.size());
  for (const CacheLayout& layout : layouts) {
    cache->layers_.emplace_back(layout, spec);
    QUIRE_RETURN_IF_ERROR(cache->Reserve(cache->layers_.back()));
    QUIRE_RETURN_IF_ERROR(cache->MakeEvents(cache->layers_.back()));
  }
  QUIRE_RETURN_IF_ERROR(cache->MakeStaging(staging_buffers));
  if (!device->reads_host_memory() && std::ranges::none_of(layouts, &CacheLayout::selects)) {
    QUIRE_ASSIGN_OR_RETURN(cache->step_lists_, StepLists::Create(layouts, spec, device));
  }
  return cache;
}

BudgetCache::~BudgetCache() {
  if (joint_staging_ == nullptr) return;
  // Slots go away behind the compute stream. When the device has failed, nothing runs any more.
  (void)joint_staging_->Launch();
  (void)joint_staging_->written().Hold(DeviceStream::kCompute);
}

Status BudgetCache::HoldForUnits() {
  if (joint_staging_ == nullptr || !std::exchange(holds_for_units_, false)) return OkStatus();
  return placement_holds_->Hold(joint_staging_->written(), DeviceStream::kCompute);
}

Status BudgetCache::MakeEvents(Layer& layer) {
  QUIRE_ASSIGN_OR_RETURN(layer.attended, device_->MakeEvent());
  QUIRE_ASSIGN_OR_RETURN(layer.written, device_->MakeEvent());
  return layer.attended->Record(DeviceStream::kCompute);  // The pools are zeroed there.
}

Status BudgetCache::MakeStaging(uint32_t buffers) {
  if (device_->reads_host_memory()) return OkStatus();
  uint32_t units = 0;  // Most that one KV head recalls at a time.
  for (const Layer& layer : layers_) {
    units = std::max(units, layer.table.layout().selectable_pages);
  }
  if (units == 0) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(
      staging_, StagingBuffers::Create(spec_, {.buffers = buffers, .units = units}, device_));
  return OkStatus();
}

uint64_t BudgetCache::RowBytes() const { return RowFloats() * ElementBytes(spec_.dtype); }
uint64_t BudgetCache::SlotBytes() const { return spec_.page_tokens * RowBytes(); }

uint64_t BudgetCache::pool_bytes() const {
  uint64_t bytes = 0;
  for (const Layer& layer : layers_) bytes += layer.k.size_bytes() + layer.v.size_bytes();
  return bytes;
}

uint32_t BudgetCache::Capacity(const Layer& layer) const {
  const uint32_t slots = layer.table.num_slots();
  const CacheLayout& layout = layer.table.layout();
  if (!layout.has_all_pages()) return slots;
  const auto index = static_cast<uint32_t>(&layer - layers_.data());
  return static_cast<uint32_t>(layout.whole ? WholePages(slots, index) : PooledPages(slots));
}

Status BudgetCache::Reserve(Layer& layer) {
  if (layer.table.num_slots() <= layer.capacity) return OkStatus();
  const uint32_t capacity = Capacity(layer);
  for (DeviceBuffer* pool : {&layer.k, &layer.v}) {
    if (pool == &layer.v && !spec_.has_values()) continue;
    QUIRE_ASSIGN_OR_RETURN(DeviceBuffer grown, device_->Allocate(capacity * SlotBytes()));
    if (pool->size_bytes() > 0) {
      QUIRE_RETURN_IF_ERROR(device_->CopyOnDevice(grown.data(), pool->data(), pool->size_bytes()));
    }
    *pool = std::move(grown);  // The old pool goes away behind the copy.
  }
  layer.capacity = capacity;
  recording_key_ = std::make_shared<const char>();
  return OkStatus();
}

Status BudgetCache::WriteTokens(const Layer& layer, uint64_t row, const float* k, const float* v,
                                uint32_t count) {
  for (const auto& [pool, rows] : WithPools(layer, k, v)) {
    QUIRE_RETURN_IF_ERROR(
        ToStatus(device_->kernels().narrow({.x = rows,
                                            .y = pool->as<std::byte>() + row * RowBytes(),
                                            .n = static_cast<int64_t>(RowFloats()),
                                            .rows = count,
                                            .dtype = spec_.dtype,
                                            .stream = device_->stream()}),
                 "narrow"));
  }
  return OkStatus();
}

Status BudgetCache::AppendTokens(uint32_t layer_index, const float* k, const float* v,
                                 uint32_t count) {
  Layer& layer = layers_[layer_index];
  // Tokens with consecutive rows are written together. A ring breaks the row at its end.
  const size_t token = RowFloats();
  uint32_t first = 0;  // First token that is not written yet.
  uint64_t row = 0;    // Row of that token.
  const auto write_until = [&](uint32_t end) -> Status {
    if (first == end) return OkStatus();
    QUIRE_RETURN_IF_ERROR(Reserve(layer));
    const float* const values = spec_.has_values() ? v + first * token : nullptr;
    return WriteTokens(layer, row, k + first * token, values, end - first);
  };
  for (uint32_t i = 0; i < count; ++i) {
    const TokenPlace place = layer.table.AppendToken();
    const uint64_t next = uint64_t{place.slot} * spec_.page_tokens + place.row;
    if (next == row + (i - first)) continue;
    QUIRE_RETURN_IF_ERROR(write_until(i));
    first = i;
    row = next;
  }
  return write_until(count);
}

Status BudgetCache::AppendToken(uint32_t layer_index, const float* k, const float* v,
                                JointWork* work) {
  Layer& layer = layers_[layer_index];
  const TokenPlace place = layer.table.AppendToken();
  QUIRE_RETURN_IF_ERROR(Reserve(layer));
  const uint64_t at = (uint64_t{place.slot} * spec_.page_tokens + place.row) * RowBytes();
  const int64_t n = int64_t{spec_.num_kv_heads} * spec_.head_dim;
  work->Narrow(n, spec_.dtype, {k, layer.k.as<std::byte>() + at});
  work->Narrow(n, spec_.dtype, {v, layer.v.as<std::byte>() + at});
  return OkStatus();
}

Status BudgetCache::StartAt(uint64_t num_tokens) {
  for (Layer& layer : layers_) {
    layer.table.StartAt(num_tokens);
    QUIRE_RETURN_IF_ERROR(Reserve(layer));
  }
  return OkStatus();
}

Status BudgetCache::SetWhole(uint32_t layer_index, bool whole) {
  Layer& layer = layers_[layer_index];
  std::vector<std::pair<uint32_t, uint32_t>> kept;  // Pages, and their slots so far.
  for (const PageRange& range : {layer.table.sinks(), layer.table.window()}) {
    for (uint32_t page = range.first; page < range.end; ++page) {
      kept.emplace_back(page, *layer.table.FixedSlot(page));
    }
  }
  const Layer before = LayerOf(GiveSlots(layer_index));
  layer.table.SetWhole(whole);
  QUIRE_RETURN_IF_ERROR(Reserve(layer));
  for (const auto& [page, slot] : kept) {
    QUIRE_RETURN_IF_ERROR(CopySlots(before, slot, layer, *layer.table.FixedSlot(page), 1));
  }
  return layer.attended->Record(DeviceStream::kCompute);  // As in MakeEvents.
}

BudgetCache::Slots BudgetCache::GiveSlots(uint32_t layer_index) {
  Layer& layer = layers_[layer_index];
  return {.k = std::move(layer.k),
          .v = std::move(layer.v),
          .capacity = std::exchange(layer.capacity, 0)};
}

BudgetCache::Layer BudgetCache::LayerOf(Slots slots) const {
  Layer layer({}, spec_);
  layer.k = std::move(slots.k);
  layer.v = std::move(slots.v);
  layer.capacity = slots.capacity;
  return layer;
}

Status BudgetCache::TakeSlots(uint32_t layer_index, Slots slots, uint64_t num_tokens) {
  Layer& layer = layers_[layer_index];
  layer.table.StartAt(num_tokens);
  if (slots.capacity == Capacity(layer)) {
    layer.k = std::move(slots.k);
    layer.v = std::move(slots.v);
    layer.capacity = slots.capacity;
    return OkStatus();
  }
  const Layer before = LayerOf(std::move(slots));
  QUIRE_RETURN_IF_ERROR(Reserve(layer));
  QUIRE_RETURN_IF_ERROR(CopySlots(before, 0, layer, 0, layer.table.num_pages()));
  return layer.attended->Record(DeviceStream::kCompute);  // As in MakeEvents.
}

Status BudgetCache::ScatterUnits(const Layer& layer, const StagedUnits& staged, UnitCodec codec,
                                 std::span<const kernels::UnitPlacement> places) const {
  DeviceList<kernels::UnitPlacement> list;
  QUIRE_ASSIGN_OR_RETURN(const kernels::UnitPlacement* const placements,
                         list.Put(*device_, places));
  QUIRE_RETURN_IF_ERROR(SpreadUnits(spec_,
                                    {.addresses = staged.addresses(),
                                     .places = placements,
                                     .count = places.size(),
                                     .codec = codec,
                                     .k_pool = layer.k.data(),
                                     .v_pool = layer.v.data(),
                                     .num_slots = layer.capacity,
                                     .stream = device_->stream()},
                                    *device_));
  return device_->Synchronize();  // The staged bytes and the list go away.
}

Status BudgetCache::FillFixed(uint32_t layer_index, std::span<const uint32_t> pages,
                              const Payload& units, std::span<const UnitCodec> codecs) {
  Layer& layer = layers_[layer_index];
  std::vector<kernels::UnitPlacement> places;
  places.reserve(pages.size() * spec_.num_kv_heads);
  for (uint32_t page : pages) {
    const std::optional<uint32_t> slot = layer.table.FixedSlot(page);
    if (!slot) return InvalidArgument("page ", page, " has no fixed slot in layer ", layer_index);
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      places.push_back(
          {.slot = static_cast<int32_t>(*slot), .kv_head = static_cast<int32_t>(head)});
    }
  }
  return ScatterByCodec(layer, units, codecs, places);
}

Status BudgetCache::ScatterByCodec(const Layer& layer, const Payload& units,
                                   std::span<const UnitCodec> codecs,
                                   std::span<const kernels::UnitPlacement> places) const {
  const auto codec_of = [&](size_t i) { return codecs.empty() ? UnitCodec::kRaw : codecs[i]; };
  uint64_t bytes = 0;
  for (size_t i = 0; i < places.size(); ++i) bytes += UnitBytes(spec_, codec_of(i));
  if (units.size_bytes() != bytes) {
    return DataLoss("a payload of ", units.size_bytes(), " bytes for ", places.size(),
                    " units, which have ", bytes);
  }
  PayloadCutter cutter(units);
  for (size_t first = 0; first < places.size();) {
    const UnitCodec codec = codec_of(first);
    size_t end = first + 1;
    while (end < places.size() && codec_of(end) == codec) ++end;
    const auto run = places.subspan(first, end - first);
    const Payload part = cutter.Cut(run.size() * UnitBytes(spec_, codec));
    QUIRE_ASSIGN_OR_RETURN(StagedUnits staged,
                           StagedUnits::Stage(part, run.size(), spec_, codec, device_));
    QUIRE_RETURN_IF_ERROR(ScatterUnits(layer, staged, codec, run));
    first = end;
  }
  return OkStatus();
}

StatusOr<std::vector<uint32_t>> BudgetCache::CopyFixed(uint32_t layer_index,
                                                       std::span<const uint32_t> pages,
                                                       const BudgetCache& from) {
  const Layer& to = layers_[layer_index];
  const Layer& source = from.layers_[layer_index];
  std::vector<uint32_t> left;
  for (size_t i = 0; i < pages.size();) {
    const std::optional<uint32_t> here = to.table.FixedSlot(pages[i]);
    if (!here)
      return InvalidArgument("page ", pages[i], " has no fixed slot in layer ", layer_index);
    const std::optional<uint32_t> there = source.table.FixedSlot(pages[i]);
    if (!there) {
      left.push_back(pages[i++]);
      continue;
    }
    // Pages whose slots follow each other on both sides go together.
    uint32_t count = 1;
    while (i + count < pages.size() && to.table.FixedSlot(pages[i + count]) == *here + count &&
           source.table.FixedSlot(pages[i + count]) == *there + count) {
      ++count;
    }
    QUIRE_RETURN_IF_ERROR(CopySlots(source, *there, to, *here, count));
    i += count;
  }
  return left;
}

Status BudgetCache::CopySlots(const Layer& from, uint32_t from_slot, const Layer& to,
                              uint32_t to_slot, uint32_t count) {
  const uint64_t from_at = from_slot * SlotBytes(), to_at = to_slot * SlotBytes();
  const uint64_t bytes = count * SlotBytes();
  for (const auto& [target, source] : WithPools(to, &from.k, &from.v)) {
    QUIRE_RETURN_IF_ERROR(device_->CopyOnDevice(target->as<std::byte>() + to_at,
                                                source->as<std::byte>() + from_at, bytes));
  }
  return OkStatus();
}

Status BudgetCache::PlaceUnits(uint32_t layer, std::span<const SlotPlacement> placements,
                               const Payload& units) {
  QUIRE_RETURN_IF_ERROR(CheckPlacements(layer, placements));
  QUIRE_RETURN_IF_ERROR(WriteUnits(layer, placements, units));
  return RecordPlacements(layer, placements);
}

Status BudgetCache::CheckPlacements(uint32_t layer,
                                    std::span<const SlotPlacement> placements) const {
  for (const SlotPlacement& placement : placements) {
    QUIRE_RETURN_IF_ERROR(
        Annotate(layers_[layer].table.CheckPlacement(placement), "layer ", layer));
  }
  return OkStatus();
}

Status BudgetCache::RecordPlacements(uint32_t layer, std::span<const SlotPlacement> placements) {
  QUIRE_RETURN_IF_ERROR(placement_holds_->Hold(*layers_[layer].written, DeviceStream::kCompute));
  holds_for_units_ = true;
  for (const SlotPlacement& placement : placements) {
    QUIRE_RETURN_IF_ERROR(Annotate(layers_[layer].table.Place(placement), "layer ", layer));
  }
  return OkStatus();
}

Status BudgetCache::WriteUnits(uint32_t layer_index, std::span<const SlotPlacement> placements,
                               const Payload& units, UnitCodec codec) const {
  const Layer& layer = layers_[layer_index];
  if (joint_staging_ != nullptr && codec == UnitCodec::kRaw) {
    return joint_staging_->Write(units, AddressesOf(layer, placements), layer.attended.get());
  }
  std::vector<kernels::UnitPlacement> places;
  places.reserve(placements.size());
  for (const SlotPlacement& placement : placements) {
    places.push_back({.slot = static_cast<int32_t>(layer.table.SelectableSlot(placement.index)),
                      .kv_head = static_cast<int32_t>(placement.head)});
  }
  if (staging_ != nullptr) {
    return staging_->Write(units, codec, places,
                           {.k = layer.k.data(),
                            .v = layer.v.data(),
                            .num_slots = layer.capacity,
                            .unread = layer.attended.get(),
                            .written = layer.written.get()});
  }
  QUIRE_ASSIGN_OR_RETURN(StagedUnits staged,
                         StagedUnits::Stage(units, placements.size(), spec_, codec, device_));
  return ScatterUnits(layer, staged, codec, places);
}

std::vector<kernels::UnitAddress> BudgetCache::AddressesOf(
    const Layer& layer, std::span<const SlotPlacement> placements) const {
  std::vector<kernels::UnitAddress> addresses;
  addresses.reserve(placements.size());
  for (const SlotPlacement& placement : placements) {
    const uint64_t at = layer.table.SelectableSlot(placement.index) * SlotBytes() +
                        placement.head * (RowBytes() / spec_.num_kv_heads);
    addresses.push_back({layer.k.as<std::byte>() + at, layer.v.as<std::byte>() + at});
  }
  return addresses;
}

Status BudgetCache::WriteRows(uint32_t layer, std::span<const SlotPlacement> placements,
                              const Payload& units) const {
  const uint64_t unit_bytes = UnitBytes(spec_);
  if (units.size_bytes() != placements.size() * unit_bytes) {
    return DataLoss("a payload of ", units.size_bytes(), " bytes for ", placements.size(),
                    " units of ", unit_bytes, " bytes");
  }
  auto slice = units.slices().begin();
  size_t offset = 0;
  const auto copy_next = [&](std::byte* to, size_t bytes) -> Status {
    while (bytes > 0) {
      const size_t take = std::min(bytes, slice->bytes.size() - offset);
      QUIRE_RETURN_IF_ERROR(device_->CopyToDevice(to, slice->bytes.data() + offset, take));
      to += take;
      bytes -= take;
      offset += take;
      if (offset < slice->bytes.size()) continue;
      ++slice;
      offset = 0;
    }
    return OkStatus();
  };
  const uint64_t head_bytes = RowBytes() / spec_.num_kv_heads;
  for (const SlotPlacement& at : placements) {
    const uint64_t slot = layers_[layer].table.SelectableSlot(at.index) * SlotBytes();
    for (const DeviceBuffer* pool : {&layers_[layer].k, &layers_[layer].v}) {
      if (pool == &layers_[layer].v && !spec_.has_values()) continue;
      std::byte* to = pool->as<std::byte>() + slot + at.head * head_bytes;
      for (uint32_t row = 0; row < spec_.page_tokens; ++row, to += RowBytes()) {
        QUIRE_RETURN_IF_ERROR(copy_next(to, head_bytes));
      }
    }
  }
  return device_->Synchronize();
}

Status BudgetCache::Attend(uint32_t layer_index, const float* q, float* out) const {
  const Layer& layer = layers_[layer_index];
  layer.table.ListAttended(&attended_);
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const slots,
                         slot_list_.Put(*device_, std::span<const int32_t>(attended_.slots)));
  QUIRE_ASSIGN_OR_RETURN(
      const int32_t* const valid_tokens,
      valid_list_.Put(*device_, std::span<const int32_t>(attended_.valid_tokens)));
  const int32_t* first_tokens = nullptr;
  if (!attended_.first_tokens.empty()) {
    QUIRE_ASSIGN_OR_RETURN(
        first_tokens, first_list_.Put(*device_, std::span<const int32_t>(attended_.first_tokens)));
  }
  QUIRE_RETURN_IF_ERROR(AttendSlots(layer,
                                    {.slots = slots,
                                     .valid_tokens = valid_tokens,
                                     .first_tokens = first_tokens,
                                     .n_slots = static_cast<int64_t>(attended_.slots.size())},
                                    q, out));
  return layer.attended->Record(DeviceStream::kCompute);
}

void BudgetCache::AddAttention(uint32_t layer_index, const float* q, float* out,
                               JointAttention* attention) const {
  const Layer& layer = layers_[layer_index];
  JointAttention::Token token{
      .q = q, .out = out, .k = layer.k.data(), .v = layer.v.data(), .num_slots = layer.capacity};
  const CacheLayout& layout = layer.table.layout();
  if (layout.everything && layout.window_tokens == 0) {
    token.tokens = layer.table.num_tokens();
  } else {
    layer.table.ListAttended(&token.attended);
  }
  attention->Add(std::move(token));
}

Status BudgetCache::AttendSlots(const Layer& layer, const StepLists::Lists& lists, const float* q,
                                float* out) const {
  if (!spec_.has_values()) return AttendLatents(layer, lists, q, out);
  return ToStatus(device_->kernels().paged_attention(
                      {.q = q,
                       .k_pool = layer.k.data(),
                       .v_pool = layer.v.data(),
                       .slots = lists.slots,
                       .valid_tokens = lists.valid_tokens,
                       .first_tokens = lists.first_tokens,
                       .out = out,
                       .num_slots = layer.capacity,
                       .n_slots = lists.n_slots,
                       .page_tokens = spec_.page_tokens,
                       .n_q = spec_.num_query_heads,
                       .n_kv = spec_.num_kv_heads,
                       .head_dim = spec_.head_dim,
                       .scale = Scale(),
                       .soft_cap = soft_cap_,
                       .dtype = spec_.dtype,
                       .workspace = attention_workspace_.data(),
                       .workspace_bytes = static_cast<int64_t>(attention_workspace_.size_bytes()),
                       .stream = device_->stream()}),
                  "paged_attention");
}

Status BudgetCache::AttendLatents(const Layer& layer, const StepLists::Lists& lists, const float* q,
                                  float* out) const {
  return ToStatus(device_->kernels().mla_attention(
                      {.q = q,
                       .pool = layer.k.data(),
                       .slots = lists.slots,
                       .valid_tokens = lists.valid_tokens,
                       .out = out,
                       .num_slots = layer.capacity,
                       .n_slots = lists.n_slots,
                       .page_tokens = spec_.page_tokens,
                       .n_q = spec_.num_query_heads,
                       .latent_dim = spec_.latent_dim,
                       .rope_dim = spec_.latent_rope_dim,
                       .scale = Scale(),
                       .dtype = spec_.dtype,
                       .workspace = attention_workspace_.data(),
                       .workspace_bytes = static_cast<int64_t>(attention_workspace_.size_bytes()),
                       .stream = device_->stream()}),
                  "mla_attention");
}

float BudgetCache::Scale() const { return 1.0f / std::sqrt(static_cast<float>(spec_.key_dim())); }

Status BudgetCache::AttendDense(uint32_t layer_index, const float* q, uint32_t count,
                                float* out) const {
  const Layer& layer = layers_[layer_index];
  if (!layer.table.layout().everything) {
    return InvalidArgument("layer ", layer_index, " does not hold every page");
  }
  return AttendRows(layer, q, count, static_cast<int64_t>(layer.table.num_tokens()), nullptr, out);
}

Status BudgetCache::AttendRows(const Layer& layer, const float* q, int64_t count, int64_t n,
                               const int32_t* last_key, float* out) const {
  return ToStatus(device_->kernels().dense_attention(
                      {.q = q,
                       .k = layer.k.data(),
                       .v = spec_.has_values() ? layer.v.data() : nullptr,
                       .last_key = last_key,
                       .out = out,
                       .t = count,
                       .n = n,
                       .n_q = spec_.num_query_heads,
                       .n_kv = spec_.num_kv_heads,
                       .head_dim = spec_.key_dim(),
                       .value_dim = spec_.value_dim(),
                       .scale = Scale(),
                       .soft_cap = soft_cap_,
                       .window = layer.table.layout().window_tokens,
                       .dtype = spec_.dtype,
                       .workspace = attention_workspace_.data(),
                       .workspace_bytes = static_cast<int64_t>(attention_workspace_.size_bytes()),
                       .stream = device_->stream()}),
                  "dense_attention");
}

Status BudgetCache::PrepareToken() {
  for (uint32_t i = 0; i < layers_.size(); ++i) {
    Layer& layer = layers_[i];
    const TokenPlace place = layer.table.AppendToken();
    QUIRE_RETURN_IF_ERROR(Reserve(layer));
    step_lists_->Set(i, layer.table, place);
  }
  return step_lists_->Send();
}

Status BudgetCache::RunToken(uint32_t layer_index, const float* k, const float* v, const float* q,
                             float* out) const {
  const Layer& layer = layers_[layer_index];
  const StepLists::Lists lists = step_lists_->Of(layer_index);
  const int64_t pool_rows = int64_t{layer.capacity} * spec_.page_tokens;
  for (const auto& [pool, row] : WithPools(layer, k, v)) {
    QUIRE_RETURN_IF_ERROR(
        ToStatus(device_->kernels().narrow({.x = row,
                                            .places = lists.place,
                                            .y = pool->data(),
                                            .n = static_cast<int64_t>(RowFloats()),
                                            .y_rows = pool_rows,
                                            .dtype = spec_.dtype,
                                            .stream = device_->stream()}),
                 "narrow"));
  }
  // The token's position is the last that it attends to.
  if (layer.table.layout().everything) return AttendRows(layer, q, 1, pool_rows, lists.place, out);
  return AttendSlots(layer, lists, q, out);
}

Status BudgetCache::AddPage(uint32_t layer_index, uint32_t page, void* units,
                            JointWork* work) const {
  const Layer& layer = layers_[layer_index];
  const std::optional<uint32_t> slot = layer.table.FixedSlot(page);
  if (!slot) return InvalidArgument("page ", page, " has no fixed slot in layer ", layer_index);
  const uint64_t at = *slot * SlotBytes();
  work->Export(spec_, {layer.k.as<std::byte>() + at, layer.v.as<std::byte>() + at, units});
  return OkStatus();
}

Status BudgetCache::ExportPage(uint32_t layer_index, uint32_t page, uint32_t rows,
                               void* units) const {
  const Layer& layer = layers_[layer_index];
  const std::optional<uint32_t> slot = layer.table.FixedSlot(page);
  if (!slot) return InvalidArgument("page ", page, " has no fixed slot in layer ", layer_index);
  const int32_t listed[] = {static_cast<int32_t>(*slot)};
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const slots,
                         slot_list_.Put(*device_, std::span<const int32_t>(listed)));
  return ToStatus(device_->kernels().nhd_to_hnd({.k_pool = layer.k.data(),
                                                 .v_pool = layer.v.data(),
                                                 .slots = slots,
                                                 .units = units,
                                                 .num_slots = layer.capacity,
                                                 .n_pages = 1,
                                                 .page_tokens = spec_.page_tokens,
                                                 .n_kv = spec_.num_kv_heads,
                                                 .head_dim = spec_.key_dim(),
                                                 .last_page_rows = rows,
                                                 .has_values = spec_.has_values(),
                                                 .dtype = spec_.dtype,
                                                 .stream = device_->stream()}),
                  "nhd_to_hnd");
}

}  // namespace quire::worker
