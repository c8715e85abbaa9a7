// SPDX-License-Identifier: Apache-2.0
//
// DocumentFilter: comparisons of a document's fields and tags, joined by and, or, not and
// parentheses. `not` binds closest, then `and`, then `or`. Parsing takes untrusted text in time
// linear in its length. Thread-safety: immutable.
//
//   filter := term { "or" term }
//   term := factor { "and" factor }
//   factor := "not" factor | "(" filter ")" | field operator value
#ifndef QUIRE_KVSERVER_REGISTRY_FILTER_DOCUMENT_FILTER_H_
#define QUIRE_KVSERVER_REGISTRY_FILTER_DOCUMENT_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "kvserver/registry/filter/filter_comparison.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

class DocumentFilter {
 public:
  /// A filter that every document matches.
  DocumentFilter() = default;
  /// INVALID_ARGUMENT with the position, and what may stand there. Blank text is the filter that
  /// every document matches.
  [[nodiscard]] static StatusOr<DocumentFilter> Parse(std::string_view text);

  bool Matches(const Document& document) const {
    return nodes_.empty() || Matches(root_, document);
  }
  /// False when no document with this name matches. Spares reading the others.
  bool MayMatch(const DocumentName& name) const {
    return nodes_.empty() || MatchesName(root_, name).value_or(true);
  }
  /// True when a comparison is about the state.
  bool names_state() const;
  /// Comparisons of tags.
  std::vector<const FilterComparison*> Tags() const;

 private:
  friend class FilterParser;
  struct Node {
    enum class Kind : uint8_t { kComparison, kNot, kAnd, kOr };
    Kind kind = Kind::kComparison;
    size_t left = 0;   ///< Index of a node, or of a comparison.
    size_t right = 0;  ///< Index of a node; only for kAnd and kOr.
  };
  bool Matches(size_t node, const Document& document) const;
  /// nullopt where more than the name decides.
  std::optional<bool> MatchesName(size_t node, const DocumentName& name) const;

  std::vector<Node> nodes_;
  std::vector<FilterComparison> comparisons_;
  size_t root_ = 0;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_FILTER_DOCUMENT_FILTER_H_
