// SPDX-License-Identifier: Apache-2.0
//
// Documents: named contexts of a tenant, in collections that share settings. Value types. The
// wire's registry.proto says what the fields mean and which limits they have.
#ifndef QUIRE_DOCUMENTS_H_
#define QUIRE_DOCUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "quire/key.h"

namespace quire {

/// Names a registered document. Version 0: the latest (get), the next (register), all (delete).
struct DocumentName {
  std::string collection = "default";
  std::string name = {};
  uint64_t version = 0;

  friend bool operator==(const DocumentName&, const DocumentName&) = default;
};

enum class DocumentState : uint8_t {
  kReady,      ///< Answers questions.
  kIngesting,  ///< Reserved by an ingest; no chain yet.
  kFailed,     ///< Its ingest ended before it was complete; no chain.
  kExpired,    ///< Its time to live has passed; about to be removed.
};

/// A typed value. Filters compare numbers as numbers.
using TagValue = std::variant<std::string, int64_t, double, bool>;
using Tags = std::map<std::string, TagValue, std::less<>>;

/// Use of a document. A crash of the server loses the last minute.
struct DocumentStatistics {
  uint64_t questions = 0;     ///< Sessions and reads that opened it.
  uint64_t hits = 0;          ///< Ingests that found a prefix of it stored.
  uint64_t tokens_saved = 0;  ///< Tokens that these did not compute.
  uint64_t bytes_served = 0;  ///< Payload bytes of fetches that named it.
  int64_t last_used_unix_micros = 0;

  friend bool operator==(const DocumentStatistics&, const DocumentStatistics&) = default;
};

struct Document {
  DocumentName name;
  SegmentKey chain_tip;
  uint64_t num_tokens = 0;
  uint64_t bytes = 0;
  std::string model;
  int64_t created_unix_micros = 0;
  std::string content_hash;                  ///< 0 or 32 bytes.
  std::optional<uint64_t> ttl_seconds = {};  ///< The document's own; unset: its collection's.
  int64_t expires_unix_micros = 0;           ///< By either time to live; 0: never.
  /// Segments known to be lost or damaged when the document was asked for. Put it again.
  uint32_t segments_lost = 0;
  DocumentState state = DocumentState::kReady;
  std::string failure = {};  ///< Reason, for a failed one.
  Tags tags = {};
  std::string source = {};  ///< Where its text came from, as a path or URL.
  bool is_latest = false;   ///< Version 0 means this one.
  bool pinned = false;
  DocumentStatistics statistics = {};
};

/// Bytes that a worker computed of a document, beside its pages.
struct Extra {
  std::string name;
  uint32_t version = 1;  ///< Version of its format.
  uint64_t size = 0;
  uint32_t crc32c = 0;
  int64_t created_unix_micros = 0;
  uint32_t num_segments = 0;  ///< Segments that were made from the document, and go with it.

  friend bool operator==(const Extra&, const Extra&) = default;
};

/// Settings of a collection, or the server's defaults.
struct Collection {
  std::string name;
  std::string codec;                         ///< Codec of new documents: "raw", "int8+zstd", ...
  bool codec_is_default = true;              ///< The codec is the server's.
  std::optional<uint64_t> ttl_seconds = {};  ///< For documents without a time of their own.
};

/// Changes of a collection's settings. Unset fields stay as they are.
struct CollectionChange {
  std::optional<std::string> codec = {};     ///< Empty: back to the server's default.
  std::optional<uint64_t> ttl_seconds = {};  ///< 0: none.
};

}  // namespace quire

#endif  // QUIRE_DOCUMENTS_H_
