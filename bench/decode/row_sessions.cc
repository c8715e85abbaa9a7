// SPDX-License-Identifier: Apache-2.0
#include "bench/decode/row_sessions.h"

#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "apps/kit/output/progress.h"
#include "bench/kit/random_model.h"
#include "common/base/memory/checksum.h"
#include "quire/layout.h"
#include "quire/payload.h"

namespace quire::bench {
namespace {

/// The spec of the same tokens in pages of one.
KvSpec RowSpec(const KvSpec& spec) {
  KvSpec rows = spec;
  rows.page_tokens = 1;
  rows.segment_pages = spec.segment_tokens();
  return rows;
}

/// Converts a segment of `spec` from [layers][g][n_kv][2][p][d] to [layers][g * p][n_kv][2][1][d].
std::vector<std::byte> ToRows(const KvSpec& spec, std::span<const std::byte> segment) {
  std::vector<std::byte> rows(segment.size());
  const uint64_t row = spec.key_dim() * ElementBytes(spec.dtype);
  const uint32_t p = spec.page_tokens, n_kv = spec.num_kv_heads;
  const std::byte* from = segment.data();
  for (uint64_t page = 0; page < uint64_t{spec.num_layers} * spec.segment_pages; ++page) {
    for (uint32_t head = 0; head < n_kv; ++head) {
      for (uint32_t which = 0; which < 2; ++which) {  // Keys, then values.
        for (uint32_t t = 0; t < p; ++t, from += row) {
          std::memcpy(rows.data() + (((page * p + t) * n_kv + head) * 2 + which) * row, from, row);
        }
      }
    }
  }
  return rows;
}

/// Splits the payload into the rows' units, one slice each.
std::vector<Slice> RowSlices(const Payload& payload, uint64_t unit_bytes) {
  Payload rows = payload;
  for (const Slice& slice : payload.slices()) {
    if (slice.bytes.size() % unit_bytes == 0) continue;
    rows = {};
    rows.Append(payload.Flatten());  // The transport has split a row.
    break;
  }
  std::vector<Slice> slices;
  slices.reserve(rows.size_bytes() / unit_bytes);
  for (const Slice& slice : rows.slices()) {
    for (size_t at = 0; at < slice.bytes.size(); at += unit_bytes) {
      slices.push_back({slice.bytes.subspan(at, unit_bytes), slice.owner});
    }
  }
  return slices;
}

/// Requests rows for wanted pages, and reports the pages that they form.
class RowChannel final : public worker::RecallChannel {
 public:
  /// `lane` recalls the rows.
  RowChannel(worker::RecallChannel* lane, const KvSpec* spec, const RowDocument* rows)
      : lane_(lane), spec_(*spec), rows_(*rows) {}

  StatusOr<std::unique_ptr<worker::ChannelRecall>> Start(LayerWant want,
                                                         const RecallOptions& options) override;
  void Applied(const RecallPart& part) override { lane_->Applied(Taken(part)); }
  void Invalidate(const RecallPart& part) override { lane_->Invalidate(Taken(part)); }
  void Forget(uint32_t layer) override { lane_->Forget(layer); }
  void Mismatched(MismatchedUnit unit) override { lane_->Mismatched(unit); }

 private:
  class RowRecall;
  RecallPart Taken(const RecallPart& part) {
    auto node = came_.extract(part.lanes.at(0).layer);
    return node.empty() ? RecallPart() : std::move(node.mapped());
  }
  /// Makes units of `rows`, one lane, without copying the rows.
  StatusOr<RecallPart> ToUnits(const RecallPart& rows) const;
  /// The placement of the unit that consists of the p rows of `run`.
  StatusOr<Placement> ToUnit(std::span<const Placement> run) const;

  worker::RecallChannel* const lane_;
  const KvSpec& spec_;
  const RowDocument& rows_;
  std::map<uint32_t, RecallPart> came_;  ///< Parts returned as units, by layer.
};

class RowChannel::RowRecall final : public worker::ChannelRecall {
 public:
  RowRecall(RowChannel* channel, std::unique_ptr<worker::ChannelRecall> recall)
      : channel_(channel), recall_(std::move(recall)) {}
  TimePoint deadline() const override { return recall_->deadline(); }
  StatusOr<std::optional<RecallPart>> Next(TimePoint deadline) override {
    QUIRE_ASSIGN_OR_RETURN(auto rows, recall_->Next(deadline));
    if (!rows) return std::nullopt;
    QUIRE_ASSIGN_OR_RETURN(RecallPart units, channel_->ToUnits(*rows));
    const uint32_t layer = rows->lanes.at(0).layer;
    channel_->came_[layer] = *std::move(rows);
    return std::optional<RecallPart>(std::move(units));
  }

 private:
  RowChannel* const channel_;
  const std::unique_ptr<worker::ChannelRecall> recall_;
};

StatusOr<std::unique_ptr<worker::ChannelRecall>> RowChannel::Start(LayerWant want,
                                                                   const RecallOptions& options) {
  if (!want.query.empty() || want.held.num_pages() > 0) {
    return Unimplemented("rows are recalled for selections of the worker, without a host tier");
  }
  LayerWant rows;
  rows.layer = want.layer;
  const uint32_t p = spec_.page_tokens;
  for (uint32_t head = 0; head < want.pages.num_heads(); ++head) {
    rows.pages.AppendHead();
    for (const uint32_t page : want.pages.Head(head)) {
      for (uint32_t t = 0; t < p; ++t) rows.pages.Append(page * p + t);
    }
  }
  RecallOptions whole = options;
  whole.piece_bytes = 0;
  QUIRE_ASSIGN_OR_RETURN(auto recall, lane_->Start(std::move(rows), whole));
  return std::unique_ptr<worker::ChannelRecall>(new RowRecall(this, std::move(recall)));
}

StatusOr<Placement> RowChannel::ToUnit(std::span<const Placement> run) const {
  const uint32_t p = spec_.page_tokens;
  const Placement& first = run[0];
  bool whole = first.slot % p == 0 && first.page % p == 0 &&
               (first.replaced < 0 || static_cast<uint32_t>(first.replaced) % p == 0);
  for (uint32_t t = 0; t < run.size(); ++t) {
    const Placement& at = run[t];
    const int32_t replaced = first.replaced < 0 ? -1 : first.replaced + static_cast<int32_t>(t);
    whole = whole && at.head == first.head && at.slot == first.slot + t &&
            at.page == first.page + t && at.generation == first.generation &&
            at.replaced == replaced;
  }
  // The server takes the least recently selected slots, the lowest first. The rows of a page are
  // selected together.
  if (!whole) return Internal("the rows of page ", first.page / p, " are in slots of other pages");
  Placement unit = first;
  unit.slot /= p;
  unit.page /= p;
  if (unit.replaced >= 0) unit.replaced /= static_cast<int32_t>(p);
  return unit;
}

StatusOr<RecallPart> RowChannel::ToUnits(const RecallPart& rows) const {
  const uint32_t p = spec_.page_tokens;
  const std::vector<Slice> slices = RowSlices(rows.payload, UnitBytes(rows_.spec));
  if (rows.placements.size() % p != 0 || slices.size() != rows.placements.size()) {
    return Internal(slices.size(), " rows came for ", rows.placements.size(), " placements");
  }
  const uint64_t row = ValueOffsetBytes(rows_.spec);
  const uint64_t pages = rows_.unit_checksums.size() / spec_.num_layers / spec_.num_kv_heads;
  RecallPart units;
  units.lanes = rows.lanes;
  for (size_t first = 0; first < slices.size(); first += p) {
    QUIRE_ASSIGN_OR_RETURN(const Placement unit,
                           ToUnit(std::span(rows.placements).subspan(first, p)));
    units.placements.push_back(unit);
    units.checksums.push_back(
        rows_.unit_checksums.at((unit.layer * pages + unit.page) * spec_.num_kv_heads + unit.head));
    for (const uint64_t offset : {uint64_t{0}, row}) {  // Keys, then values.
      for (uint32_t t = 0; t < p; ++t) {
        const Slice& slice = slices[first + t];
        units.payload.Append(Slice{slice.bytes.subspan(offset, row), slice.owner});
      }
    }
  }
  units.lanes.at(0).first_placement = 0;
  units.lanes.at(0).end_placement = units.placements.size();
  return units;
}

class RowSeat final : public worker::SessionSeat {
 public:
  RowSeat(std::unique_ptr<worker::SessionSeat> pages, std::unique_ptr<worker::SessionSeat> lanes,
          const KvSpec* spec, const RowDocument* rows)
      : pages_(std::move(pages)),
        lanes_(std::move(lanes)),
        channel_(&lanes_->channel(), spec, rows) {}
  ClientSession& session() override { return pages_->session(); }
  uint32_t sequence() const override { return pages_->sequence(); }
  worker::RecallChannel& channel() override { return channel_; }
  void Lose() override {
    pages_->Lose();
    lanes_->Lose();
  }

 private:
  const std::unique_ptr<worker::SessionSeat> pages_;
  const std::unique_ptr<worker::SessionSeat> lanes_;
  RowChannel channel_;
};

/// Takes a seat among `pages` for digests, and one among `lanes` for recalls of rows.
StatusOr<std::unique_ptr<worker::SessionSeat>> TakeSeats(
    const ContextRef& context, const worker::LaneShape& shape, worker::SessionSource& pages,
    worker::SessionSource& lanes, const KvSpec* spec, const RowDocument* rows) {
  if (shape.part != UnitPart::kWhole) {
    return InvalidArgument("rows are of keys and values: recall whole units");
  }
  QUIRE_ASSIGN_OR_RETURN(auto of_pages, pages.Seat(context, shape));
  worker::LaneShape of_rows = shape;
  of_rows.slots_per_head *= spec->page_tokens;
  QUIRE_ASSIGN_OR_RETURN(auto of_lanes, lanes.Seat(ContextRef(rows->tip), of_rows));
  return std::unique_ptr<worker::SessionSeat>(
      new RowSeat(std::move(of_pages), std::move(of_lanes), spec, rows));
}

}  // namespace

StatusOr<RowDocument> PutRowDocument(Client& client, const KvSpec& spec, uint32_t pages) {
  RowDocument document{.spec = RowSpec(spec), .unit_checksums = {}};
  const uint64_t units_per_page = spec.num_kv_heads;
  document.unit_checksums.resize(uint64_t{spec.num_layers} * pages * units_per_page);
  cli::ProgressBar progress("storing rows", pages);
  uint64_t first_page = 0;
  QUIRE_RETURN_IF_ERROR(VisitRandomDocument(
      spec, pages,
      [&](std::span<const TokenId> tokens, std::span<const std::byte> bytes) -> Status {
        const uint64_t units = uint64_t{spec.segment_pages} * units_per_page;  // Units of a layer.
        for (uint64_t i = 0; i < spec.num_layers * units; ++i) {
          const uint64_t at = (i / units * pages + first_page) * units_per_page + i % units;
          document.unit_checksums[at] = Crc32c(bytes.subspan(i * UnitBytes(spec), UnitBytes(spec)));
        }
        first_page += spec.segment_pages;
        Payload payload;
        payload.Append(ToRows(spec, bytes));
        QUIRE_ASSIGN_OR_RETURN(document.tip,
                               client.PutSegment(document.spec, document.tip, tokens, payload));
        progress.Advance(spec.segment_pages);
        return OkStatus();
      }));
  return document;
}

StatusOr<std::unique_ptr<worker::SessionSeat>> RowSessions::Seat(const ContextRef& context,
                                                                 const worker::LaneShape& shape) {
  return TakeSeats(context, shape, pages_, lanes_, spec_, rows_);
}

StatusOr<std::unique_ptr<worker::SessionSeat>> SharedRowSessions::Seat(
    const ContextRef& context, const worker::LaneShape& shape) {
  return TakeSeats(context, shape, pages_, lanes_, spec_, rows_);
}

}  // namespace quire::bench
