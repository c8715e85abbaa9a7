// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/engine/reuse/assembled_prompt.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/page/rope_rotation.h"
#include "kernels/api/place_units.h"
#include "quire/layout.h"
#include "quire/page_name.h"

namespace quire::worker {
namespace {

/// Times that a layer is asked for again, after lent units that the server needed for others.
constexpr int kMostDamaged = 3;

/// A cell whose row is stored.
struct StoredCell {
  uint64_t position;
  uint64_t cell;
};

std::vector<StoredCell> StoredCells(const ViewCells& cells) {
  std::vector<StoredCell> stored;
  for (size_t i = 0; i < cells.visible.size(); ++i) {
    if (cells.cached[i]) stored.push_back({cells.visible[i], i});
  }
  for (size_t i = 0; i < cells.hidden.size(); ++i) {
    stored.push_back({cells.hidden[i], cells.HiddenCell(i)});
  }
  return stored;
}

/// Finds the page and the row that hold a position of a prompt.
class StoredRows {
 public:
  StoredRows(std::span<const AssembledDocument> documents, uint32_t page_tokens)
      : documents_(documents), page_tokens_(page_tokens) {}

  /// The page that has the row. REQUIRES: a document is there.
  StagedPage Page(uint64_t position) const { return Find(position).first; }
  /// The row in staging pools that hold `pages`, ascending.
  uint64_t StagedRow(uint64_t position, std::span<const StagedPage> pages) const {
    const auto [page, row] = Find(position);
    const auto slot = std::ranges::lower_bound(pages, page) - pages.begin();
    return static_cast<uint64_t>(slot) * page_tokens_ + row;
  }

 private:
  /// The page, and the row within it.
  std::pair<StagedPage, uint64_t> Find(uint64_t position) const {
    const auto after = std::ranges::upper_bound(
        documents_, position, {}, [](const AssembledDocument& d) { return d.placed.first; });
    const auto piece = static_cast<uint32_t>(after - documents_.begin() - 1);
    const AssembledDocument& document = documents_[piece];
    const uint64_t token = position - document.placed.first + document.placed.skipped;
    const auto page = static_cast<uint32_t>(token / page_tokens_);
    return {{PageName(document.member, page), piece}, token % page_tokens_};
  }

  const std::span<const AssembledDocument> documents_;
  const uint32_t page_tokens_;
};

/// Each page once.
std::vector<uint32_t> NamesOf(std::span<const StagedPage> pages) {
  std::vector<uint32_t> names;
  for (const StagedPage& page : pages) {
    if (names.empty() || names.back() != page.page) names.push_back(page.page);
  }
  return names;
}

}  // namespace

void AssembledPrompt::Append(uint64_t row, uint64_t cell, std::vector<RowRun>* runs) {
  if (!runs->empty() && runs->back().row + runs->back().count == row &&
      runs->back().cell + runs->back().count == cell) {
    ++runs->back().count;
  } else {
    runs->push_back({row, cell, 1});
  }
}

AssembledPrompt::AssembledPrompt(const EngineParts& parts,
                                 std::span<const AssembledDocument> documents,
                                 std::vector<ViewCells> cells, const Shape& shape,
                                 std::unique_ptr<AssembledPrompt> before,
                                 std::function<bool()> keep_going)
    : parts_(parts),
      documents_(documents.begin(), documents.end()),
      cells_(std::move(cells)),
      shape_(shape),
      before_(std::move(before)),
      keep_going_(std::move(keep_going)),
      layers_(parts.spec->num_layers) {
  const size_t half = parts.spec->rope.rotary_dim / 2;
  cosines_.resize(documents_.size() * half);
  sines_.resize(documents_.size() * half);
  const RopeRotation rotation(parts.spec->rope);
  for (size_t i = 0; i < documents_.size(); ++i) {
    rotation.FillMove(documents_[i].placed.move, cosines_.data() + i * half,
                      sines_.data() + i * half);
  }
  for (uint32_t layer = 0; layer < layers_.size(); ++layer) pages_.push_back(PagesOf(layer));
}

AssembledPrompt::~AssembledPrompt() {
  if (loading_) loading_->wait();
}

std::vector<StagedPage> AssembledPrompt::PagesOf(uint32_t layer) const {
  const StoredRows rows(documents_, parts_.spec->page_tokens);
  std::vector<StagedPage> pages;
  for (const auto& [position, cell] : StoredCells(CellsOf(layer))) {
    if (before_ != nullptr && before_->CellOf(layer, position)) continue;
    const StagedPage page = rows.Page(position);
    if (pages.empty() || pages.back() != page) pages.push_back(page);
  }
  std::ranges::sort(pages);
  pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
  return pages;
}

uint32_t AssembledPrompt::MostPages() const {
  size_t most = 0;
  for (const std::vector<StagedPage>& pages : pages_) most = std::max(most, pages.size());
  return static_cast<uint32_t>(most);
}

Status AssembledPrompt::Ask(DocumentReader* reader) {
  reader_ = reader;
  std::vector<std::vector<uint32_t>> names;
  for (const std::vector<StagedPage>& pages : pages_) names.push_back(NamesOf(pages));
  return reader_->Ask(names);
}

Status AssembledPrompt::Choose(uint32_t layer, ViewCells cells, DocumentReader* reader) {
  chooses_ = true;
  reader_ = reader;
  cells_[layer] = std::move(cells);
  pages_[layer] = PagesOf(layer);
  std::vector<std::vector<uint32_t>> names(layers_.size());
  names[layer] = NamesOf(pages_[layer]);
  return reader_->Ask(names);
}

SourceTier AssembledPrompt::TierOf(uint32_t layer) const {
  const bool from_ssd = std::ranges::any_of(pages_[layer], [&](const StagedPage& page) {
    return documents_[page.piece].tier == SourceTier::kSsd;
  });
  return from_ssd ? SourceTier::kSsd : SourceTier::kDram;
}

std::optional<uint64_t> AssembledPrompt::CellOf(uint32_t layer, uint64_t position) const {
  const ViewCells& cells = CellsOf(layer);
  const auto at = std::ranges::lower_bound(cells.visible, position);
  if (at == cells.visible.end() || *at != position) return std::nullopt;
  const auto cell = static_cast<uint64_t>(at - cells.visible.begin());
  return cells.cached[cell] ? std::optional(cell) : std::nullopt;
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
  const bool is_last = layer + 1 == layers_.size();
  if (is_last) before_.reset();
  if (!is_last && !chooses_) {
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

uint64_t AssembledPrompt::PoolRows(uint32_t layer) const {
  const uint64_t p = parts_.spec->page_tokens;
  return (CellsOf(layer).Capacity() + shape_.new_tokens + p - 1) / p * p;
}

Status AssembledPrompt::Load(uint32_t layer) {
  const size_t bytes = PoolRows(layer) * RowBytes();
  QUIRE_ASSIGN_OR_RETURN(layers_[layer].keys, parts_.device->Allocate(bytes));
  QUIRE_ASSIGN_OR_RETURN(layers_[layer].values, parts_.device->Allocate(bytes));
  const TimePoint start = parts_.clock->Now();
  QUIRE_RETURN_IF_ERROR(Annotate(ReadUnits(layer), "layer ", layer, " of the documents"));
  QUIRE_RETURN_IF_ERROR(FillCells(layer));
  QUIRE_RETURN_IF_ERROR(parts_.device->Synchronize());  // The next layer reuses the staging pools.
  TierLoad& load = loads_[TierOf(layer)];
  load.bytes += NamesOf(pages_[layer]).size() * ExtentBytes(*parts_.spec, 1);
  load.seconds += SecondsSince(*parts_.clock, start);
  return OkStatus();
}

Status AssembledPrompt::ReadUnits(uint32_t layer) {
  size_t units = NamesOf(pages_[layer]).size() * parts_.spec->num_kv_heads;
  int damaged = 0;
  while (units > 0) {
    QUIRE_ASSIGN_OR_RETURN(const DocumentUnits some, reader_->Read(layer));
    if (some.placements.empty()) return Internal("not all of its units came");
    QUIRE_RETURN_IF_ERROR(Place(some, pages_[layer]));
    bytes_read_ += some.units.size_bytes();
    if (some.units.IsValid()) {
      units -= some.placements.size();
    } else {
      if (++damaged > kMostDamaged) return DataLoss("lent units did not stay valid");
      QUIRE_RETURN_IF_ERROR(reader_->ReadAgain());
    }
  }
  return OkStatus();
}

Status AssembledPrompt::FillCells(uint32_t layer) {
  std::vector<RowRun> staged;
  std::vector<RowRun> kept;
  const StoredRows rows(documents_, parts_.spec->page_tokens);
  for (const auto& [position, cell] : StoredCells(CellsOf(layer))) {
    const auto earlier = before_ == nullptr ? std::nullopt : before_->CellOf(layer, position);
    if (earlier) {
      Append(*earlier, cell, &kept);
    } else {
      Append(rows.StagedRow(position, pages_[layer]), cell, &staged);
    }
  }
  for (const RowRun& run : staged) {
    QUIRE_RETURN_IF_ERROR(CopyRows(staged_keys_, staged_values_, run, layer));
  }
  for (const RowRun& run : kept) {
    const Layer& from = before_->layers_[layer];
    QUIRE_RETURN_IF_ERROR(CopyRows(from.keys, from.values, run, layer));
  }
  return OkStatus();
}

Status AssembledPrompt::GrowStaging(size_t pages) {
  const size_t bytes = pages * parts_.spec->page_tokens * RowBytes();
  if (staged_keys_.size_bytes() >= bytes) return OkStatus();
  QUIRE_ASSIGN_OR_RETURN(staged_keys_, parts_.device->Allocate(bytes));
  QUIRE_ASSIGN_OR_RETURN(staged_values_, parts_.device->Allocate(bytes));
  return OkStatus();
}

void AssembledPrompt::ListUnits(const DocumentUnits& units, UnitCodec codec,
                                std::span<const StagedPage> pages) {
  PlacedUnits& list = placed_;
  const size_t first = list.places.size();
  for (size_t i = 0; i < units.placements.size(); ++i) {
    if (units.codecs[i] != codec) continue;
    const Placement& unit = units.placements[i];
    auto page = std::ranges::lower_bound(pages, unit.page, {}, &StagedPage::page);
    for (; page != pages.end() && page->page == unit.page; ++page) {
      list.units.push_back(i);
      list.places.push_back({.slot = static_cast<int32_t>(page - pages.begin()),
                             .kv_head = static_cast<int32_t>(unit.head)});
      const bool stays = documents_[page->piece].placed.move == 0;
      list.turns.push_back(stays ? -1 : static_cast<int32_t>(page->piece));
      list.rows.push_back(static_cast<int32_t>(reader_->RowsOf(unit.page)));
    }
  }
  if (list.places.size() > first) list.runs.push_back({codec, first, list.places.size() - first});
}

Status AssembledPrompt::Place(const DocumentUnits& units, std::span<const StagedPage> pages) {
  QUIRE_RETURN_IF_ERROR(GrowStaging(pages.size()));
  placed_ = {};
  for (const UnitCodec codec :
       {UnitCodec::kRaw, UnitCodec::kFp8E4M3, UnitCodec::kInt8, UnitCodec::kInt4}) {
    ListUnits(units, codec, pages);
  }
  Device& device = *parts_.device;
  QUIRE_ASSIGN_OR_RETURN(const void* const* const addresses,
                         units_.Put(device, units.units, units.unit_bytes, placed_.units));
  QUIRE_ASSIGN_OR_RETURN(const kernels::UnitPlacement* const places,
                         placements_.Put(device, placed_.places));
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const turns, turns_.Put(device, placed_.turns));
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const rows, rows_.Put(device, placed_.rows));
  QUIRE_ASSIGN_OR_RETURN(const float* const cosines, cosines_on_device_.Put(device, cosines_));
  QUIRE_ASSIGN_OR_RETURN(const float* const sines, sines_on_device_.Put(device, sines_));
  kernels::PlaceUnitsArgs args{.cos_table = cosines,
                               .sin_table = sines,
                               .k_pool = staged_keys_.data(),
                               .v_pool = staged_values_.data(),
                               .num_slots = static_cast<int64_t>(pages.size()),
                               .n_kv = parts_.spec->num_kv_heads,
                               .n_rotations = static_cast<int64_t>(documents_.size()),
                               .rotary_dim = parts_.spec->rope.rotary_dim,
                               .interleaved = parts_.spec->rope.interleaved,
                               .shape = ShapeOf(*parts_.spec),
                               .stream = device.stream()};
  for (const auto& [codec, first, count] : placed_.runs) {
    args.unit_ptrs = addresses + first;
    args.placements = places + first;
    args.valid_rows = rows + first;
    args.rotations = turns + first;
    args.n_units = static_cast<int64_t>(count);
    args.codec = codec;
    QUIRE_RETURN_IF_ERROR(ToStatus(device.kernels().place_units(args), "place_units"));
  }
  return device.Synchronize();  // The lists and units on the host go away.
}

Status AssembledPrompt::CopyRows(const DeviceBuffer& keys, const DeviceBuffer& values,
                                 const RowRun& run, uint32_t layer) {
  const size_t bytes = RowBytes();
  for (const auto& [from, to] :
       {std::pair(&keys, &layers_[layer].keys), std::pair(&values, &layers_[layer].values)}) {
    QUIRE_RETURN_IF_ERROR(parts_.device->CopyOnDevice(to->as<std::byte>() + run.cell * bytes,
                                                      from->as<std::byte>() + run.row * bytes,
                                                      run.count * bytes));
  }
  return OkStatus();
}

Status AssembledPrompt::ExportPage(uint32_t layer, uint32_t page, uint32_t rows,
                                   void* units) const {
  const KvSpec& spec = *parts_.spec;
  const auto slot = static_cast<int32_t>(page);
  DeviceList<int32_t> slots;
  QUIRE_ASSIGN_OR_RETURN(const int32_t* const listed,
                         slots.Put(*parts_.device, std::span<const int32_t>(&slot, 1)));
  const kernels::OpStatus exported = parts_.device->kernels().nhd_to_hnd(
      {.k_pool = layers_[layer].keys.data(),
       .v_pool = layers_[layer].values.data(),
       .slots = listed,
       .units = units,
       .num_slots = static_cast<int64_t>(PoolRows(layer) / spec.page_tokens),
       .n_pages = 1,
       .page_tokens = spec.page_tokens,
       .n_kv = spec.num_kv_heads,
       .head_dim = spec.head_dim,
       .last_page_rows = rows,
       .dtype = spec.dtype,
       .stream = parts_.device->stream()});
  QUIRE_RETURN_IF_ERROR(ToStatus(exported, "nhd_to_hnd"));
  return parts_.device->Synchronize();  // The list on the host goes away.
}

Status AssembledPrompt::Attend(const LayerStep& step) {
  Layer& layer = layers_[step.layer];
  if (step.first_position != shape_.first_new + layer.tokens) {
    return FailedPrecondition("the step begins at position ", step.first_position,
                              ", but the prompt and what follows end at ",
                              shape_.first_new + layer.tokens);
  }
  if (layer.tokens + step.num_tokens > shape_.new_tokens) {
    return ResourceExhausted("the prompt has room for ", shape_.new_tokens, " new tokens");
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
  for (uint32_t token = 0; retrieval_ != nullptr && token < step.num_tokens; ++token) {
    QUIRE_RETURN_IF_ERROR(AttendToken(step, token, cells + token + 1));
  }
  if (retrieval_ == nullptr) QUIRE_RETURN_IF_ERROR(AttendDense(step, cells + step.num_tokens));
  layer.tokens += step.num_tokens;
  return OkStatus();
}

Status AssembledPrompt::AttendToken(const LayerStep& step, uint32_t token, uint64_t cells) {
  const Layer& layer = layers_[step.layer];
  const size_t row = size_t{parts_.spec->num_query_heads} * parts_.spec->head_dim;
  const CellPools pools{.keys = layer.keys.data(),
                        .values = layer.values.data(),
                        .cells = cells,
                        .slots = PoolRows(step.layer) / parts_.spec->page_tokens};
  return retrieval_->Attend(step.layer, pools, step.q + token * row, step.out + token * row);
}

Status AssembledPrompt::AttendDense(const LayerStep& step, uint64_t cells) {
  const KvSpec& spec = *parts_.spec;
  return ToStatus(parts_.device->kernels().dense_attention(
                      {.q = step.q,
                       .k = layers_[step.layer].keys.data(),
                       .v = layers_[step.layer].values.data(),
                       .out = step.out,
                       .t = step.num_tokens,
                       .n = static_cast<int64_t>(cells),
                       .n_q = spec.num_query_heads,
                       .n_kv = spec.num_kv_heads,
                       .head_dim = spec.head_dim,
                       .scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim)),
                       .dtype = spec.dtype,
                       .stream = parts_.device->stream()}),
                  "dense_attention");
}

}  // namespace quire::worker
