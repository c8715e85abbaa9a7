// SPDX-License-Identifier: Apache-2.0
//
// Documents: named contexts of a tenant, in collections that share settings. Value types.
#ifndef QUIRE_DOCUMENTS_H_
#define QUIRE_DOCUMENTS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "quire/key.h"

namespace quire {

/// Names a registered document. Version 0: the latest (get), the next (register), all (delete).
struct DocumentName {
  std::string collection = "default";
  std::string name = {};
  uint64_t version = 0;

  friend bool operator==(const DocumentName&, const DocumentName&) = default;
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
