// SPDX-License-Identifier: Apache-2.0
//
// Hops: a question that follows references from document to document. Not published. The question
// runs over the documents with retrieval. In each layer that retrieves, the rows that ask find the
// pages whose keys may answer them best, and only those are read. Pages that they then attend to
// are computed anew in the next pass. Their rows ask in turn, and find pages of earlier documents.
//
//   pass 1   the question asks            reads the entry that it names
//   pass 2   and the entry's rows ask     reads the entry that it refers to
//   pass 3   likewise
//
// A page is scored by the bounds of its keys, per channel and KV head, as retrieval policies do.
// Scores of a query head are normalised over the pages before the row, so that every head has the
// same weight. A page is read whole. Keys are stored at positions of their document, so queries are
// turned by its move instead.
//
// Ownership: the layout is copied; digests too. Thread-safety: none. Units: positions of the
// prompt. Errors: none; shapes are the caller's.
#ifndef QUIRE_GPUWORKER_CONTEXT_HOPS_HOPS_H_
#define QUIRE_GPUWORKER_CONTEXT_HOPS_HOPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/page/rope_rotation.h"
#include "gpuworker/context/hops/cell_chooser.h"
#include "gpuworker/context/hops/prompt_pages.h"
#include "gpuworker/context/positions.h"
#include "gpuworker/context/prompt_layout.h"
#include "gpuworker/context/reuse_plan.h"
#include "quire/kv_spec.h"

namespace quire::worker {

struct HopOptions {
  uint32_t hops = 3;            ///< Passes, at least one.
  uint32_t pages = 48;          ///< Pages that a row finds in a layer.
  uint32_t question_rows = 4;   ///< Last tokens of the question, which ask in every pass.
  uint32_t attended_pages = 2;  ///< Pages that a pass makes rows of, at most.
  /// Attention that a token gets from some row, a mean over heads, for its page to count as
  /// attended to.
  double least_share = 0.3;
  /// Layers of the model that retrieve. Others read what was attended to. Empty: all.
  std::vector<uint32_t> layers;
  uint64_t most_digest_bytes = 512u << 20;  ///< Host memory for bounds of keys, for one question.
};

class Hops final : public CellChooser {
 public:
  Hops(const PromptLayout& layout, const KvSpec& spec, const HopOptions& options);

  /// Layers that retrieve, ascending.
  const std::vector<uint32_t>& layers() const { return layers_; }
  /// Bytes of the digests of all documents.
  uint64_t digest_bytes() const;
  /// Adds bounds of the keys of the next document, DigestKind::kMinMax of all its pages:
  /// [layers()][pages][n_kv][2][d] in the dtype of the KvSpec.
  void AddDigests(std::vector<std::byte> digests) { digests_.push_back(std::move(digests)); }

  /// The next pass. Computes the question and the rows found so far.
  ReusePlan Pass();
  /// Ends a pass. False when it attended to no further page: another pass would find no more.
  bool EndPass();

  ViewCells Cells(uint32_t layer) const override;
  bool ReadsKeys(uint32_t layer) const override { return IndexOf(layer).has_value(); }
  void ReadKeys(uint32_t layer, std::span<const float> keys) override;

 private:
  class AskingRows;
  /// A row that asks, with its queries in the layer at hand.
  struct Asking {
    uint64_t position;
    std::vector<float> query;  ///< [n_q][d], rotated
  };
  /// A page that rows attended to.
  struct Attended {
    double share;  ///< The most that a token of it got.
    size_t page;
    Positions tokens;  ///< Tokens that got enough.
  };

  std::optional<size_t> IndexOf(uint32_t layer) const;
  /// Takes the query of a row, and reads the pages that it finds.
  void Ask(uint32_t layer, uint64_t position, std::span<const float> query);
  /// Sums over query heads of normalised scores, of the pages before `position`.
  std::vector<double> Scores(size_t index, uint64_t position, std::span<const float> query) const;
  /// Scores of one document's pages, [n_q][pages].
  std::vector<float> DocumentScores(size_t index, size_t document,
                                    std::span<const float> query) const;
  /// Attention of `asking` to each of `cells`, a mean over heads.
  std::vector<double> Shares(const Asking& asking, const Positions& cells,
                             std::span<const float> keys) const;
  /// Pages with tokens whose share suffices, best first. Pages of rows are left out.
  std::vector<Attended> AttendedPages(const Positions& cells, std::span<const double> shares) const;
  /// Computes the tokens of a page from now on.
  void AddRows(size_t page);
  size_t PageOf(uint64_t position) const;
  void ReadEverywhere(size_t page);

  const PromptLayout layout_;
  const KvSpec spec_;
  const RopeRotation rotation_;
  const HopOptions options_;
  const std::vector<PromptPage> pages_;
  std::vector<uint32_t> layers_;
  std::vector<std::vector<std::byte>> digests_;  ///< One for each document.

  std::vector<std::vector<bool>> read_;     ///< [num_layers][pages]
  std::vector<bool> followed_;              ///< [pages] whose rows are computed, or need not be.
  Positions rows_;                          ///< Tokens of documents that are computed, ascending.
  Positions asking_;                        ///< Tokens that ask, ascending.
  std::vector<std::vector<Asking>> asked_;  ///< [num_layers] rows that asked in this pass.
  std::vector<Attended> attended_;          ///< In the pass at hand.
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_CONTEXT_HOPS_HOPS_H_
