// SPDX-License-Identifier: Apache-2.0
//
// Contexts: chains of segments, sealed or open for more pages; how they are named, described, kept
// and put. Value types.
#ifndef QUIRE_CONTEXTS_H_
#define QUIRE_CONTEXTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "quire/documents.h"
#include "quire/hints.h"
#include "quire/key.h"
#include "quire/kv_spec.h"

namespace quire {

/// Source of a request: a sealed chain by its last key, an open context by its id, or a document.
using ContextRef = std::variant<SegmentKey, uint64_t, DocumentName>;

struct ContextInfo {
  KvSpec spec;
  uint64_t num_tokens = 0;
  uint32_t num_pages = 0;
  std::vector<SegmentKey> segment_keys;
  SegmentKey chain_tip;  ///< Key of the last segment; kRootKey for an open context.
};

struct OpenedContext {
  uint64_t id = 0;
  /// Tokens it starts with: the complete pages of the chain it continues.
  uint64_t num_tokens = 0;
  /// Names the bytes of the continued chain, together with the chain's last key. A chain that is
  /// put again may have other bytes. Keep units and digests under both. 0 without a chain.
  uint64_t incarnation = 0;
  /// The server ends an idle context. The client renews the context while a copy of the lease and
  /// the client live. Without the lease, calls must come within `--idle-seconds` of each other.
  std::shared_ptr<const void> lease = nullptr;
};

struct LookupResult {
  std::vector<SegmentKey> segment_keys;
  uint64_t num_tokens = 0;
};

/// A context after its seal.
struct SealedContext : ContextInfo {
  /// Segments that were stored before with other bytes. The bytes stored first stand.
  uint32_t segments_differing = 0;
};

struct ContextStat {
  ContextInfo context;
  uint64_t bytes = 0;
  uint32_t segments_in_dram = 0;
  uint32_t segments_on_ssd = 0;
  uint32_t segments_lost = 0;       ///< Known to be lost or damaged; they count as missing.
  int64_t expires_unix_micros = 0;  ///< End of a context named by its document; 0: never.
};

/// When a put is done. kReplicated: as many nodes of the cluster have the chain as it has replicas,
/// at least min_replicas, though no document names it. UNAVAILABLE with fewer; UNIMPLEMENTED by a
/// server without replicas.
enum class PutDurability { kServerDefault, kMemory, kReplicated, kPersisted };

/// How the pages of a context are kept.
struct ContextOptions {
  std::string_view collection = {};  ///< Whose codec they are stored with; empty: the server's.
  /// Marks pages of approximate attention. No other context finds them. They end with the context,
  /// which cannot be sealed.
  bool private_pages = false;
  /// Refuses an append or a seal with ALREADY_EXISTS when other bytes are stored for its tokens.
  /// Otherwise the context takes the stored bytes. The bytes stored first always stand.
  bool strict = false;
  Hints hints = {};  ///< Hints of its segments, and of those that it continues.
  /// The document that a question is about, whose chain is continued. The question counts in its
  /// statistics. Nothing counts when the document has another chain by now, or is gone.
  std::optional<DocumentName> question_about = {};
};

/// How a segment is put.
struct PutOptions {
  PutDurability durability = PutDurability::kServerDefault;
  std::string_view collection = {};  ///< Whose codec it is stored with; empty: the server's.
  bool strict = false;               ///< Other stored bytes are ALREADY_EXISTS.
  Hints hints = {};                  ///< Hints of the segment; objects have none.
};

/// A segment that was put.
struct PutSegmentReply {
  SegmentKey key;
  bool existed = false;
  bool differs = false;  ///< Other bytes were stored before and stand: read them back.
};

}  // namespace quire

#endif  // QUIRE_CONTEXTS_H_
