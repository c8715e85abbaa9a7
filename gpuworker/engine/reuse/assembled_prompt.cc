// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/assembled_prompt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/api/place_units.h"
#include "quire/layout.h"

namespace quire::worker {
namespace {

/// A run of tokens of a document that a layer reads into neighbouring cells.
struct CellRun {
  uint64_t token;  ///< Token of the stored document.
  uint64_t cell;
  uint64_t count;
};

/// Tokens of `placed` among the cached cells of a layer.
class DocumentCells {
 public:
  DocumentCells(const ViewCells& cells, const PlacedSource& placed) : placed_(placed) {
    const auto first = std::ranges::lower_bound(cells.visible, placed.first);
    for (auto at = first; at != cells.visible.end() && IsWithin(*at); ++at) {
      const auto cell = static_cast<uint64_t>(at - cells.visible.begin());
      if (cells.cached[cell]) Add(*at, cell);
    }
    for (size_t i = 0; i < cells.hidden.size(); ++i) {
      if (IsWithin(cells.hidden[i])) Add(cells.hidden[i], cells.HiddenCell(i));
    }
  }

  const std::vector<CellRun>& runs() const { return runs_; }

  /// Pages that hold the tokens, ascending.
  std::vector<uint32_t> Pages(uint32_t page_tokens) const {
    std::vector<uint32_t> pages;
    for (const CellRun& run : runs_) {
      const auto last = static_cast<uint32_t>((run.token + run.count - 1) / page_tokens);
      for (auto page = static_cast<uint32_t>(run.token / page_tokens); page <= last; ++page) {
        pages.push_back(page);
      }
    }
    std::ranges::sort(pages);
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    return pages;
  }

 private:
  bool IsWithin(uint64_t position) const {
    return position >= placed_.first && position < placed_.first + placed_.tokens;
  }
  void Add(uint64_t position, uint64_t cell) {
    const uint64_t token = position - placed_.first + placed_.skipped;
    if (!runs_.empty() && runs_.back().token + runs_.back().count == token &&
        runs_.back().cell + runs_.back().count == cell) {
      ++runs_.back().count;
    } else {
      runs_.push_back({token, cell, 1});
    }
  }

  const PlacedSource& placed_;
  std::vector<CellRun> runs_;
};

}  // namespace

AssembledPrompt::AssembledPrompt(const EngineParts& parts, std::vector<AssembledDocument> documents,
                                 std::vector<ViewCells> cells, uint64_t first_new,
                                 uint32_t new_tokens, std::function<bool()> keep_going)
    : parts_(parts),
      documents_(std::move(documents)),
      cells_(std::move(cells)),
      first_new_(first_new),
      new_tokens_(new_tokens),
      keep_going_(std::move(keep_going)),
      rotation_(parts.spec->rope),
      layers_(parts.spec->num_layers) {}

AssembledPrompt::~AssembledPrompt() {
  if (loading_) loading_->wait();
}

StatusOr<LayerView> AssembledPrompt::View(uint32_t layer) {
  if (keep_going_ && !keep_going_()) {
    return MakeStatus(StatusCode::kCancelled, "the question was cancelled");
  }
  const TimePoint start = parts_.clock->Now();
  const Status loaded = loading_ ? loading_->get() : Load(layer);
  loading_.reset();
  seconds_waited_ += SecondsSince(*parts_.clock, start);
  QUIRE_RETURN_IF_ERROR(loaded);
  if (layer + 1 < layers_.size()) {
    loading_ = std::async(std::launch::async, [this, next = layer + 1] { return Load(next); });
  }
  return LayerView{.cells = &CellsOf(layer),
                   .keys = layers_[layer].keys.data(),
                   .values = layers_[layer].values.data(),
                   .dtype = parts_.spec->dtype};
}

size_t AssembledPrompt::RowBytes() const {
  return size_t{parts_.spec->num_kv_heads} * parts_.spec->head_dim *
         ElementBytes(parts_.spec->dtype);
}

Status AssembledPrompt::Load(uint32_t layer) {
  const size_t bytes = (CellsOf(layer).Capacity() + new_tokens_) * RowBytes();
  QUIRE_ASSIGN_OR_RETURN(layers_[layer].keys, parts_.device->Allocate(bytes));
  QUIRE_ASSIGN_OR_RETURN(layers_[layer].values, parts_.device->Allocate(bytes));
  for (const AssembledDocument& document : documents_) {
    const TimePoint start = parts_.clock->Now();
    const uint64_t before = bytes_read_;
    QUIRE_RETURN_IF_ERROR(
        Annotate(LoadDocument(layer, document), document.name, ", layer ", layer));
    loads_[document.tier].bytes += bytes_read_ - before;
    loads_[document.tier].seconds += SecondsSince(*parts_.clock, start);
  }
  return OkStatus();
}

Status AssembledPrompt::LoadDocument(uint32_t layer, const AssembledDocument& document) {
  const uint64_t p = parts_.spec->page_tokens;
  const DocumentCells cells(CellsOf(layer), document.placed);
  const std::vector<uint32_t> pages = cells.Pages(static_cast<uint32_t>(p));
  if (pages.empty()) return OkStatus();
  QUIRE_RETURN_IF_ERROR(Stage(layer, document, pages));
  for (const CellRun& run : cells.runs()) {
    // A run may cross pages, which follow one another in the staging pools, too.
    const auto page = std::ranges::lower_bound(pages, static_cast<uint32_t>(run.token / p));
    const auto slot = static_cast<uint64_t>(page - pages.begin());
    QUIRE_RETURN_IF_ERROR(CopyCell(layer, slot * p + run.token % p, run.cell, run.count));
  }
  return OkStatus();
}

Status AssembledPrompt::Stage(uint32_t layer, const AssembledDocument& document,
                              std::span<const uint32_t> pages) {
  const size_t pool_bytes = pages.size() * parts_.spec->page_tokens * RowBytes();
  if (staged_keys_.size_bytes() < pool_bytes) {
    QUIRE_ASSIGN_OR_RETURN(staged_keys_, parts_.device->Allocate(pool_bytes));
    QUIRE_ASSIGN_OR_RETURN(staged_values_, parts_.device->Allocate(pool_bytes));
  }
  const uint32_t batch = PagesPerBatch(parts_, ExtentBytes(*parts_.spec, 1));
  for (size_t at = 0; at < pages.size(); at += batch) {
    const auto some = pages.subspan(at, std::min<size_t>(batch, pages.size() - at));
    const UnitRange range{.layer = layer, .pages = {some.begin(), some.end()}};
    QUIRE_ASSIGN_OR_RETURN(const Payload payload,
                           parts_.client->Fetch(document.context, {&range, 1}));
    bytes_read_ += payload.size_bytes();
    QUIRE_RETURN_IF_ERROR(Place(document, payload, at, some.size()));
  }
  return OkStatus();
}

Status AssembledPrompt::Place(const AssembledDocument& document, const Payload& payload,
                              size_t first_slot, size_t pages) {
  const KvSpec& spec = *parts_.spec;
  std::vector<std::byte> host(payload.size_bytes());
  payload.CopyTo(host.data());
  std::vector<kernels::UnitPlacement> placements;
  for (size_t page = 0; page < pages; ++page) {
    for (uint32_t head = 0; head < spec.num_kv_heads; ++head) {
      placements.push_back(
          {.slot = static_cast<int32_t>(first_slot + page), .kv_head = static_cast<int32_t>(head)});
    }
  }
  const std::vector<int32_t> turns(placements.size(), 0);
  const size_t half = spec.rope.rotary_dim / 2;
  std::vector<float> cosines(half);
  std::vector<float> sines(half);
  rotation_.FillMove(document.placed.move, cosines.data(), sines.data());
  QUIRE_ASSIGN_OR_RETURN(const std::byte* const units,
                         units_.Put(*parts_.device, std::span<const std::byte>(host)));
  QUIRE_ASSIGN_OR_RETURN(
      const kernels::UnitPlacement* const places,
      placements_.Put(*parts_.device, std::span<const kernels::UnitPlacement>(placements)));
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const rows,
                         turns_.Put(*parts_.device, std::span<const int32_t>(turns)));
  QUIRE_ASSIGN_OR_RETURN(const float* const cos_table,
                         cosines_.Put(*parts_.device, std::span<const float>(cosines)));
  QUIRE_ASSIGN_OR_RETURN(const float* const sin_table,
                         sines_.Put(*parts_.device, std::span<const float>(sines)));
  const auto slots =
      static_cast<int64_t>(staged_keys_.size_bytes() / RowBytes() / spec.page_tokens);
  const kernels::OpStatus placed = parts_.device->kernels().place_units(
      {.encoded = units,
       .placements = places,
       .rotations = document.placed.move == 0 ? nullptr : rows,
       .cos_table = cos_table,
       .sin_table = sin_table,
       .k_pool = staged_keys_.data(),
       .v_pool = staged_values_.data(),
       .num_slots = slots,
       .n_units = static_cast<int64_t>(placements.size()),
       .n_kv = spec.num_kv_heads,
       .n_rotations = 1,
       .rotary_dim = spec.rope.rotary_dim,
       .interleaved = spec.rope.interleaved,
       .shape = {.page_tokens = spec.page_tokens, .head_dim = spec.head_dim, .dtype = spec.dtype},
       .stream = parts_.device->stream()});
  QUIRE_RETURN_IF_ERROR(ToStatus(placed, "place_units"));
  return parts_.device->Synchronize();  // The host copies go away.
}

Status AssembledPrompt::CopyCell(uint32_t layer, uint64_t staged_row, uint64_t cell,
                                 uint64_t rows) {
  const size_t row = RowBytes();
  for (const auto& [from, to] : {std::pair(&staged_keys_, &layers_[layer].keys),
                                 std::pair(&staged_values_, &layers_[layer].values)}) {
    QUIRE_RETURN_IF_ERROR(parts_.device->CopyOnDevice(
        to->as<std::byte>() + cell * row, from->as<std::byte>() + staged_row * row, rows * row));
  }
  return parts_.device->Synchronize();  // The next document reuses the staging pools.
}

Status AssembledPrompt::Attend(const LayerStep& step) {
  Layer& layer = layers_[step.layer];
  if (step.first_position != first_new_ + layer.tokens) {
    return FailedPrecondition("the step begins at position ", step.first_position,
                              ", but the prompt and what follows end at ",
                              first_new_ + layer.tokens);
  }
  if (layer.tokens + step.num_tokens > new_tokens_) {
    return ResourceExhausted("the prompt has room for ", new_tokens_, " new tokens");
  }
  const KvSpec& spec = *parts_.spec;
  const uint64_t cells = CellsOf(step.layer).visible.size() + layer.tokens;
  const size_t at = cells * RowBytes();
  for (const auto& [row, pool] : {std::pair(step.k, &layer.keys), {step.v, &layer.values}}) {
    QUIRE_RETURN_IF_ERROR(
        ToStatus(parts_.device->kernels().narrow({.x = row,
                                                  .y = pool->as<std::byte>() + at,
                                                  .n = int64_t{spec.num_kv_heads} * spec.head_dim,
                                                  .rows = step.num_tokens,
                                                  .dtype = spec.dtype,
                                                  .stream = parts_.device->stream()}),
                 "narrow"));
  }
  QUIRE_RETURN_IF_ERROR(ToStatus(parts_.device->kernels().dense_attention(
                                     {.q = step.q,
                                      .k = layer.keys.data(),
                                      .v = layer.values.data(),
                                      .out = step.out,
                                      .t = step.num_tokens,
                                      .n = static_cast<int64_t>(cells + step.num_tokens),
                                      .n_q = spec.num_query_heads,
                                      .n_kv = spec.num_kv_heads,
                                      .head_dim = spec.head_dim,
                                      .scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim)),
                                      .dtype = spec.dtype,
                                      .stream = parts_.device->stream()}),
                                 "dense_attention"));
  layer.tokens += step.num_tokens;
  return OkStatus();
}

}  // namespace quire::worker
