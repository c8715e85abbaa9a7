// SPDX-License-Identifier: Apache-2.0
//
// DocumentIngest: texts to registered documents. A text that is stored already is found by its hash
// before it is sent anywhere. A text longer than the model's context becomes several documents,
// NAME#1 and so on, where the caller allows it.
//
// Each document is reserved by BeginIngest while it is read, and FAILED if reading ends early.
// Beside it stands the extra kSummaryExtra, a JSON object about the reading.
//
// Thread-safety: all methods may be called concurrently. Ownership: engine and tokenizer outlive
// it.
#ifndef QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_INGEST_H_
#define QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_INGEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpuworker/engine/engine.h"
#include "gpuworker/text/text_of_model.h"
#include "quire/client.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::worker {

inline constexpr std::string_view kSummaryExtra = "ingest";
inline constexpr uint32_t kSummaryVersion = 1;
/// Tags of parts: their number from 1 on, and how many there are.
inline constexpr std::string_view kPartTag = "split.part";
inline constexpr std::string_view kPartsTag = "split.parts";

/// A text to come, and how it is to be kept.
struct DocumentToIngest {
  DocumentName name;            ///< Version 0.
  std::string text_hash;        ///< HashText of the text.
  std::string reader = "text";  ///< Kind of the file that the text was read from.
  std::string source = {};      ///< As Document::source.
  Tags tags = {};
  std::optional<uint64_t> ttl_seconds = {};
  bool split = false;  ///< A text that is too long becomes parts.
};

struct IngestedDocument {
  Document document;
  bool unchanged = false;  ///< It was there: nothing was computed or sent.
  uint64_t reused_tokens = 0;
  uint64_t bytes_sent = 0;
  std::string warning = {};  ///< Names data that could not be stored beside the pages; else empty.
};

class DocumentIngest {
 public:
  /// `text` may be without a tokenizer: then Store is FAILED_PRECONDITION.
  DocumentIngest(const Engine* engine, const TextOfModel& text);

  /// Documents that have this text already, with their tags and time to live as asked for now. None
  /// when the text is to be stored.
  StatusOr<std::vector<IngestedDocument>> FindUnchanged(const DocumentToIngest& what) const;

  /// Stores the text, of which FindUnchanged found nothing. `observer` is told of all parts
  /// together.
  /// - INVALID_ARGUMENT: a text longer than the model's context without `split`, saying by how
  /// much.
  /// - CANCELLED: the observer ended it. Storing it again computes nothing that is stored.
  StatusOr<std::vector<IngestedDocument>> Store(const DocumentToIngest& what, std::string_view text,
                                                const IngestObserver& observer) const;

 private:
  struct Part {
    uint32_t number = 0;  ///< 0 for a whole text.
    uint32_t count = 0;
    std::string_view text;
    std::vector<TokenId> tokens;
  };
  /// The latest version of a document or part, if its hash is that of `what`.
  StatusOr<std::optional<IngestedDocument>> FindPart(const DocumentToIngest& what,
                                                     uint32_t number) const;
  StatusOr<IngestedDocument> Refresh(const DocumentToIngest& what, Document document) const;
  StatusOr<std::vector<Part>> Parts(const DocumentToIngest& what, std::string_view text) const;
  StatusOr<std::vector<Part>> SplitParts(std::string_view text) const;
  StatusOr<IngestedDocument> StorePart(const DocumentToIngest& what, const Part& part,
                                       const IngestObserver& observer) const;
  Status PutSummary(const DocumentToIngest& what, const Part& part, const Document& document) const;
  /// Invalidates what an earlier, longer text left: parts from `first` on.
  Status DropParts(const DocumentToIngest& what, uint32_t first) const;

  const Engine* const engine_;
  const TextOfModel text_;
  /// A short message in the chat template; empty without one. Other templates make other documents.
  const std::string form_;
};

}  // namespace quire::worker

#endif  // QUIRE_GPUWORKER_DOCUMENTS_DOCUMENT_INGEST_H_
