// SPDX-License-Identifier: Apache-2.0
//
// How people name things on the command line.
//
//   document  [COLLECTION/]NAME[@VERSION]   without a version (or @0): the latest, for rm all
//   segment   its key, 64 hexadecimal digits
//
// A name may itself end in @digits, or be 64 hexadecimal digits. Such a text means the version, or
// the segment, where there is one, and the document of that whole name otherwise. Commands print
// names with collection and version (FormatName), which can only be read as that document.
#ifndef QUIRE_APPS_KIT_TARGET_H_
#define QUIRE_APPS_KIT_TARGET_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "quire/client.h"
#include "quire/status.h"

namespace quire::cli {

/// Possible meanings of a text. The store decides: the second is meant when it lacks the first.
template <typename Ref>
struct Readings {
  Ref first;
  std::optional<Ref> second = std::nullopt;
};

/// INVALID_ARGUMENT naming what is wrong, and for text that is not UTF-8 at which byte.
Status CheckDocumentName(const DocumentName& name);

/// `collection` is meant when the text names none. INVALID_ARGUMENT when the text is not of that
/// form.
StatusOr<Readings<DocumentName>> ParseDocumentName(std::string_view text,
                                                   std::string_view collection);

/// The same, and a key for 64 hexadecimal digits.
StatusOr<Readings<ContextRef>> ParseTarget(std::string_view text, std::string_view collection);

/// Answer of `use` to the first reading, or to the second when the first is NOT_FOUND. When both
/// are NOT_FOUND, the answer to the first.
template <typename Ref, typename Use>
auto FirstFound(const Readings<Ref>& readings, const Use& use) -> decltype(use(readings.first)) {
  auto result = use(readings.first);
  const auto is_missing = [](const auto& answer) {
    if constexpr (std::is_same_v<std::decay_t<decltype(answer)>, Status>) {
      return IsNotFound(answer);
    } else {
      return IsNotFound(answer.status());
    }
  };
  if (!readings.second || !is_missing(result)) return result;
  auto other = use(*readings.second);
  return is_missing(other) ? std::move(result) : std::move(other);
}

/// COLLECTION/NAME@VERSION; without "@VERSION" for version 0, unless the name would be read without
/// its end then.
std::string FormatName(const DocumentName& name);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_TARGET_H_
