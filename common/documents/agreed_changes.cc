// SPDX-License-Identifier: Apache-2.0
#include "common/documents/agreed_changes.h"

#include <algorithm>
#include <string>
#include <utility>

namespace quire {
namespace {

std::string TextOf(const DocumentName& name) {
  return name.collection + "/" + name.name + "@" + std::to_string(name.version);
}

Status NotAgreed(const DocumentName& name) {
  return NotFound("the cluster knows no document ", TextOf(name),
                  ": it was deleted, or another document took its version");
}

/// The fields of a document that are agreed. All else differs between servers.
Document Agreed(const Document& document) {
  return {.name = document.name,
          .chain_tip = document.chain_tip,
          .num_tokens = document.num_tokens,
          .bytes = document.bytes,
          .model = document.model,
          .created_unix_micros = document.created_unix_micros,
          .content_hash = document.content_hash,
          .ttl_seconds = document.ttl_seconds,
          .tags = document.tags,
          .source = document.source};
}

bool IsSameVersion(const Document& one, const Document& other) {
  return one.name.version == other.name.version && one.chain_tip == other.chain_tip &&
         one.created_unix_micros == other.created_unix_micros &&
         one.ttl_seconds == other.ttl_seconds && one.tags == other.tags;
}

/// The first version that is not below `version`.
auto Place(AgreedName& name, uint64_t version) {
  return std::ranges::lower_bound(name.versions, version, {},
                                  [](const Document& document) { return document.name.version; });
}

}  // namespace

bool SaysTheSame(const AgreedName& one, const AgreedName& other) {
  return one.latest == other.latest && one.highest == other.highest &&
         std::ranges::equal(one.versions, other.versions, IsSameVersion);
}

void MarkLatest(AgreedName* name) {
  for (Document& document : name->versions) {
    document.is_latest = document.name.version == name->latest;
  }
}

Collection WithChange(Collection collection, const CollectionChange& change) {
  if (change.codec) collection.codec = *change.codec;
  collection.codec_is_default = collection.codec.empty();
  if (change.ttl_seconds) collection.ttl_seconds = *change.ttl_seconds;
  if (collection.ttl_seconds == 0) collection.ttl_seconds.reset();
  return collection;
}

AgreedName WithReserved(AgreedName name) {
  ++name.highest;
  return name;
}

StatusOr<AgreedName> WithPublished(AgreedName name, const Document& document, bool keep_latest) {
  const uint64_t version = document.name.version;
  if (version == 0) return InvalidArgument("a document is published with a version, not with 0");
  if (const Document* stored = name.Find(version); stored != nullptr) {
    if (stored->chain_tip == document.chain_tip) return name;
    return AlreadyExists("document ", TextOf(document.name),
                         " names another chain; register a new version (0) or delete it first");
  }
  name.versions.insert(Place(name, version), Agreed(document));
  name.highest = std::max(name.highest, version);
  if (name.latest == 0 || (!keep_latest && version > name.latest)) name.latest = version;
  MarkLatest(&name);
  return name;
}

StatusOr<AgreedName> WithAmended(AgreedName name, const Document& document) {
  const auto stored = Place(name, document.name.version);
  if (stored == name.versions.end() || stored->name.version != document.name.version ||
      stored->chain_tip != document.chain_tip) {
    return NotAgreed(document.name);
  }
  stored->tags = document.tags;
  stored->ttl_seconds = document.ttl_seconds;
  return name;
}

StatusOr<AgreedName> WithLatest(AgreedName name, const DocumentName& latest) {
  if (name.Find(latest.version) == nullptr) return NotAgreed(latest);
  name.latest = latest.version;
  MarkLatest(&name);
  return name;
}

AgreedName Without(AgreedName name, std::span<const uint64_t> versions) {
  std::erase_if(name.versions, [&](const Document& document) {
    return std::ranges::find(versions, document.name.version) != versions.end();
  });
  if (name.versions.empty()) return {.revision = name.revision};
  if (name.Find(name.latest) == nullptr) name.latest = name.versions.back().name.version;
  MarkLatest(&name);
  return name;
}

}  // namespace quire
