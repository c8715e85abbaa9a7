// SPDX-License-Identifier: Apache-2.0
//
// Rules for what is said of a document: tags, source, extras. Client and server check the same.
// Pure functions; INVALID_ARGUMENT says what is allowed.
#ifndef QUIRE_COMMON_DOCUMENTS_DOCUMENT_RULES_H_
#define QUIRE_COMMON_DOCUMENTS_DOCUMENT_RULES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quire/documents.h"
#include "quire/status.h"

namespace quire {

inline constexpr size_t kMaxTags = 32;  ///< Tags of one document.
inline constexpr size_t kMaxTagKeyBytes = 64;
inline constexpr size_t kMaxTagTextBytes = 256;
inline constexpr size_t kMaxSourceBytes = 1024;
inline constexpr size_t kMaxFailureBytes = 1024;
inline constexpr size_t kMaxExtraBytes = size_t{4} << 20;
inline constexpr size_t kMaxExtraNameBytes = 64;

/// The version after the highest one of a name. RESOURCE_EXHAUSTED after 2^64 - 1.
[[nodiscard]] StatusOr<uint64_t> VersionAfter(uint64_t highest);
/// A tag's key: 1..64 bytes of [a-z0-9_.-], the first a letter.
[[nodiscard]] Status CheckTagKey(std::string_view key);
/// At most 32 tags with valid keys. Texts are short and printable, numbers are finite.
[[nodiscard]] Status CheckTags(const Tags& tags);
/// At most 1024 bytes of UTF-8 without control characters.
[[nodiscard]] Status CheckSource(std::string_view source);
/// The same for the reason of a failure, which is not empty.
[[nodiscard]] Status CheckFailure(std::string_view reason);
/// An extra's name: 1..64 bytes of [a-z0-9_.-].
[[nodiscard]] Status CheckExtraName(std::string_view name);

}  // namespace quire

#endif  // QUIRE_COMMON_DOCUMENTS_DOCUMENT_RULES_H_
