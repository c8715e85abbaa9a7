// SPDX-License-Identifier: Apache-2.0
//
// AssembledPrompt: the keys and values that a prompt over several stored documents attends to. It
// reads the units that a plan's cells need, layer by layer, the next layer beside the model's work
// on this one. Keys are turned to their places in the prompt while units are decoded. After the
// prefill the model generates over it.
//
// Ownership: owns the device memory; what it is given outlives it.
// Thread-safety: none; one executor thread works for it inside.
// Errors: those of DocumentReader, and RESOURCE_EXHAUSTED when the device has no room.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpuworker/context/reuse_plan.h"
#include "gpuworker/device/device_list.h"
#include "gpuworker/engine/parts.h"
#include "gpuworker/engine/reuse/document_reader.h"
#include "gpuworker/engine/reuse/prompt_retrieval.h"
#include "gpuworker/engine/reuse/reuse_costs.h"
#include "gpuworker/engine/reuse/unit_addresses.h"
#include "gpuworker/model/decoder.h"
#include "gpuworker/model/layer_view.h"
#include "kernels/api/transpose.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// A stored document in the prompt, or a piece of one.
struct AssembledDocument {
  uint32_t member = 0;  ///< Its number for the reader.
  PlacedSource placed;
  SourceTier tier = SourceTier::kDram;  ///< The slowest tier of its pages.
};

/// A page that is staged for one piece of its document. Pieces that share a page are turned apart.
struct StagedPage {
  uint32_t page = 0;   ///< Named by its document's number (page_name.h).
  uint32_t piece = 0;  ///< Index into the documents of the prompt.
  friend auto operator<=>(const StagedPage&, const StagedPage&) = default;
};

class AssembledPrompt final : public LayerViews, public AttentionBackend {
 public:
  struct Shape {
    uint64_t first_new = 0;   ///< Position behind the prompt.
    uint32_t new_tokens = 0;  ///< As many may follow it.
  };
  /// `documents` are in the order of the prompt. `cells` has one entry, or one for each layer. Rows
  /// that `before` has, an earlier prompt over the same documents that computed none of theirs, are
  /// taken from there; it may be null. View is CANCELLED once `keep_going`, which may be empty, is
  /// false.
  AssembledPrompt(const EngineParts& parts, std::span<const AssembledDocument> documents,
                  std::vector<ViewCells> cells, const Shape& shape,
                  std::unique_ptr<AssembledPrompt> before, std::function<bool()> keep_going);
  ~AssembledPrompt() override;
  AssembledPrompt(const AssembledPrompt&) = delete;
  AssembledPrompt& operator=(const AssembledPrompt&) = delete;

  /// Most pages that a layer reads; 0: there is nothing to ask for.
  uint32_t MostPages() const;
  const std::vector<ViewCells>& cells() const { return cells_; }
  /// Asks for the units of all layers. Called once, before the first View, where there are any.
  /// `reader` is over the documents, and outlives the last View.
  Status Ask(DocumentReader* reader);
  /// Gives a layer its cells, and asks for their units alone. Called before the layer's View, for
  /// every layer or for none, in place of Ask.
  Status Choose(uint32_t layer, ViewCells cells, DocumentReader* reader);
  StatusOr<LayerView> View(uint32_t layer) override;
  /// Generated tokens attend to what `retrieval` selects from here on, in place of all cells.
  void Retrieve(std::unique_ptr<PromptRetrieval> retrieval) { retrieval_ = std::move(retrieval); }
  /// Null when generated tokens attend to all cells.
  const PromptRetrieval* retrieval() const { return retrieval_.get(); }
  /// One generated token, or several. FAILED_PRECONDITION when they do not follow what is there.
  Status Attend(const LayerStep& step) override;

  /// Writes the first `rows` tokens of a page of the prompt to `units` on the device, [n_kv] units.
  /// REQUIRES: every position up to there is visible in the layer, and computed or loaded.
  Status ExportPage(uint32_t layer, uint32_t page, uint32_t rows, void* units) const;

  /// Payload bytes of units read so far.
  uint64_t bytes_read() const { return bytes_read_; }
  /// Loads so far, each layer's with the slowest of its tiers. Seconds are those of the thread that
  /// loads.
  const OfTiers<TierLoad>& loads() const { return loads_; }
  /// Seconds that views have waited for their loads.
  double seconds_waited() const { return seconds_waited_; }

 private:
  struct Layer {
    DeviceBuffer keys;
    DeviceBuffer values;
    uint64_t tokens = 0;  ///< Generated ones behind the visible cells.
  };
  /// Rows that follow one another where they are and in their cells.
  struct RowRun {
    uint64_t row;
    uint64_t cell;
    uint64_t count;
  };
  /// Placements of some units, those of one codec together.
  struct PlacedUnits {
    /// Placements [first, first + count).
    struct Run {
      UnitCodec codec;
      size_t first;
      size_t count;
    };
    std::vector<size_t> units;  ///< Index of the unit of each placement.
    std::vector<kernels::UnitPlacement> places;
    std::vector<int32_t> turns;  ///< Piece whose move turns it; -1 for none.
    std::vector<int32_t> rows;   ///< Its tokens.
    std::vector<Run> runs;
  };
  static void Append(uint64_t row, uint64_t cell, std::vector<RowRun>* runs);
  const ViewCells& CellsOf(uint32_t layer) const {
    return cells_.size() == 1 ? cells_.front() : cells_[layer];
  }
  /// The cell of a layer that holds the stored row of a position, if one does.
  std::optional<uint64_t> CellOf(uint32_t layer, uint64_t position) const;
  /// Pages with the rows that `before_` does not have, ascending.
  std::vector<StagedPage> PagesOf(uint32_t layer) const;
  SourceTier TierOf(uint32_t layer) const;
  Status Load(uint32_t layer);
  Status ReadUnits(uint32_t layer);
  Status FillCells(uint32_t layer);
  /// Decodes and turns units into the staging pools: `pages[i]` of the layer to slot i.
  Status Place(const DocumentUnits& units, std::span<const StagedPage> pages);
  /// Adds the placements of those in `codec` to placed_.
  void ListUnits(const DocumentUnits& units, UnitCodec codec, std::span<const StagedPage> pages);
  Status GrowStaging(size_t pages);
  Status CopyRows(const DeviceBuffer& keys, const DeviceBuffer& values, const RowRun& run,
                  uint32_t layer);
  /// Rows that a layer's pools have, whole pages.
  uint64_t PoolRows(uint32_t layer) const;
  Status AttendToken(const LayerStep& step, uint32_t token, uint64_t cells);
  Status AttendDense(const LayerStep& step, uint64_t cells);
  size_t RowBytes() const;

  const EngineParts parts_;
  const std::vector<AssembledDocument> documents_;
  std::vector<ViewCells> cells_;
  bool chooses_ = false;  ///< Each layer's cells are known only when the layer is asked for.
  const Shape shape_;
  DocumentReader* reader_ = nullptr;
  std::unique_ptr<AssembledPrompt> before_;  ///< Until every layer is loaded.
  const std::function<bool()> keep_going_;

  std::unique_ptr<PromptRetrieval> retrieval_;
  std::vector<Layer> layers_;
  std::vector<std::vector<StagedPage>> pages_;  ///< [num_layers] what the reader is asked for.
  UnitAddresses units_;
  DeviceList<kernels::UnitPlacement> placements_;
  DeviceList<int32_t> turns_;
  DeviceList<int32_t> rows_;
  PlacedUnits placed_;        ///< Scratch of Place.
  DeviceBuffer staged_keys_;  ///< [pages][p][n_kv][d] of one layer
  DeviceBuffer staged_values_;
  std::vector<float> cosines_;  ///< [documents][rotary_dim/2]: each one's move.
  std::vector<float> sines_;
  DeviceList<float> cosines_on_device_;
  DeviceList<float> sines_on_device_;
  uint64_t bytes_read_ = 0;
  OfTiers<TierLoad> loads_;
  double seconds_waited_ = 0;
  std::optional<std::future<Status>> loading_;  ///< Load of the layer after the last view.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_ASSEMBLED_PROMPT_H_
