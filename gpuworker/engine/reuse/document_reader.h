// SPDX-License-Identifier: Apache-2.0
//
// DocumentReader: pages of several stored documents, read through one session. One request names
// the pages of all documents and layers. The answer comes layer by layer while the model computes.
//
//   QUIRE_ASSIGN_OR_RETURN(auto reader,
//                          DocumentReader::Open(parts, documents, most_pages, /*scores=*/false));
//   QUIRE_RETURN_IF_ERROR(reader->Ask({pages_of_layer_0, pages_of_layer_1}));
//   QUIRE_ASSIGN_OR_RETURN(DocumentUnits units, reader->Read(0));
//
// A page is named by its document and its number there (page_name.h). Nothing is acknowledged to
// the server, so it sends everything that is asked for. Units come in the codec that they are
// stored in.
//
// Ownership: what `parts` names outlives it. Thread-safety: none.
// Errors: those of Client::OpenSession and ClientSession. The reader fails for good with them.
#ifndef QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_READER_H_
#define QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/base/memory/payload_cutter.h"
#include "gpuworker/engine/parts.h"
#include "quire/payload.h"
#include "quire/pending_recall.h"
#include "quire/session.h"
#include "quire/status.h"
#include "quire/unit_codec.h"

namespace quire::worker {

/// Units of one layer, verified.
struct DocumentUnits {
  std::span<const Placement> placements =
      {};                              ///< Head and page of each unit; valid until the next Read.
  std::vector<UnitCodec> codecs = {};  ///< Codec of each unit.
  std::vector<uint64_t> unit_bytes = {};  ///< Size of each unit.
  Payload units =
      {};  ///< In that order. Lent ones count when they are still valid after their use.
};

class DocumentReader {
 public:
  static constexpr size_t kMostDocuments = 64;

  /// A session over `documents`, 1 to kMostDocuments, of which a layer may ask for up to
  /// `most_pages` pages. With `scores` the server begins to read what Score needs.
  static StatusOr<std::unique_ptr<DocumentReader>> Open(const EngineParts& parts,
                                                        std::span<const ContextRef> documents,
                                                        uint32_t most_pages, bool scores);

  /// Asks for the pages of each layer, [num_layers] ascending. Earlier requests are given up.
  /// Layers without pages are not read.
  Status Ask(const std::vector<std::vector<uint32_t>>& pages);
  /// The next units of `layer`; none when all of its pages have come. Layers are read in order. A
  /// layer comes in several parts when it is larger than EngineParts::max_batch_bytes.
  StatusOr<DocumentUnits> Read(uint32_t layer);
  /// Asks again for what Read returned last, and all behind it: it is not valid any more.
  Status ReadAgain();

  /// Bounds of the keys of the first `pages` pages of document `document`, in these layers
  /// (ClientSession::Digests).
  StatusOr<std::vector<std::byte>> Bounds(uint32_t document, std::span<const uint32_t> layers,
                                          uint32_t pages);
  /// Scores of pages by content: `wanted` is of the documents, by number. Its sequence is the
  /// reader's.
  StatusOr<std::vector<float>> Score(const ContentScoring& wanted) {
    ++requests_;
    return session_->ScorePages(wanted);
  }
  /// Tokens of a page of the documents.
  uint32_t RowsOf(uint32_t page) const;
  /// Requests for pages, bounds and scores made so far.
  uint64_t requests() const { return requests_; }

 private:
  /// Pages of one layer that come together.
  struct Lane {
    uint32_t layer = 0;
    std::vector<uint32_t> pages;
  };
  DocumentReader(const EngineParts& parts, std::unique_ptr<ClientSession> session)
      : parts_(parts), session_(std::move(session)) {}

  /// Starts a recall of the first lanes to come, each of another layer.
  Status Start();
  /// Waits for the part that comes next.
  Status Receive();
  /// The lane that comes next, of the part at hand.
  StatusOr<DocumentUnits> Take();

  const EngineParts parts_;
  const std::unique_ptr<ClientSession> session_;
  std::deque<Lane> to_come_;
  Lane last_;                              ///< Lane that Read returned last.
  std::unique_ptr<PendingRecall> recall_;  ///< Brings some of them; null for none.
  std::optional<RecallPart> part_;         ///< The part that came last.
  size_t next_lane_ = 0;                   ///< Lane of it that Take returns.
  std::optional<PayloadCutter> cutter_;    ///< Behind the units that Take returned of it.
  uint64_t requests_ = 0;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_ENGINE_REUSE_DOCUMENT_READER_H_
