// SPDX-License-Identifier: Apache-2.0
//
// Arguments and results of Client's calls on documents. Value types.
#ifndef QUIRE_DOCUMENT_CALLS_H_
#define QUIRE_DOCUMENT_CALLS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quire/clock.h"
#include "quire/documents.h"
#include "quire/payload.h"

namespace quire {

struct RegisterOptions {
  std::string content_hash = {};             ///< SHA-256 of the source text; 0 or 32 bytes.
  std::optional<uint64_t> ttl_seconds = {};  ///< Unset: the collection's.
  std::string source = {};
  Tags tags = {};
  bool keep_latest = false;  ///< Leave version 0 where it is, if it is anywhere.
  /// The ingest that ends with the call. The arguments of BeginIngest stand, and the options above
  /// but keep_latest are empty.
  uint64_t ingest_id = 0;
};

struct IngestOptions {
  std::string content_hash = {};
  std::string source = {};
  Tags tags = {};
  std::optional<uint64_t> ttl_seconds = {};
};

/// A version that is reserved. It fails soon after the last copy of `lease` has gone, unless it was
/// registered before.
struct Ingest {
  Document document;
  bool unchanged = false;  ///< The latest version has this content; nothing was reserved.
  uint64_t id = 0;         ///< 0 when unchanged.
  std::shared_ptr<const void> lease = nullptr;  ///< Renewed by the client while it lives.
};

enum class DocumentOrder : uint8_t { kName, kNewest };

struct ListOptions {
  std::string collection = {};  ///< Empty: all of them.
  std::string filter = {};      ///< As in registry.proto; empty: all ready documents.
  DocumentOrder order = DocumentOrder::kName;
  uint32_t page_size = 100;  ///< 1..1000
  std::string page_token = {};
};
/// A page, possibly short or empty before the end.
struct DocumentPage {
  std::vector<Document> documents;
  std::string next_page_token;  ///< Empty at the end.
};

struct DocumentChange {
  Tags set_tags = {};
  std::vector<std::string> remove_tags = {};
  std::optional<uint64_t> ttl_seconds = {};  ///< 0: the collection's. Unset: no change.
};

struct RemovedDocuments {
  uint32_t documents = 0;  ///< Versions.
  uint32_t segments = 0;
};

struct WarmProgress {
  Document document;
  uint32_t segments_done = 0;
  uint32_t num_segments = 0;
  uint64_t bytes_done = 0;
  uint32_t segments_not_fitting = 0;  ///< Total of the slices so far.
  uint32_t segments_in_dram = 0;      ///< Segments of the whole document, now.
};
/// Called after each slice; false ends the warming.
using WarmObserver = std::function<bool(const WarmProgress&)>;

struct WatchOptions {
  uint64_t after = 0;           ///< Position of the last known event; 0: from the oldest.
  bool from_now = false;        ///< Only events to come; `after` is 0 then.
  std::string collection = {};  ///< Empty: all of them.
  uint32_t max_events = 100;    ///< 1..1000
  /// Time to wait for a first event; at most 30 seconds.
  Duration wait = Duration::zero();
};

/// Use of a document's pages since its server started.
struct PageUses {
  uint32_t page_tokens = 0;    ///< Tokens of a page; the last one may have fewer.
  std::vector<uint32_t> uses;  ///< [pages] Units (a layer and KV head) that recalls placed.
};

/// An extra with its bytes.
struct ExtraBytes {
  Extra extra;
  Payload payload;  ///< Verified.
};

}  // namespace quire

#endif  // QUIRE_DOCUMENT_CALLS_H_
