// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/filter/document_filter.h"

#include <algorithm>

#include "kvserver/registry/filter/filter_token.h"

namespace quire::kvserver {

/// Recursive descent over the tokens of one filter. Its depth bounds that of Matches too.
class FilterParser {
 public:
  explicit FilterParser(std::vector<FilterToken> tokens) : tokens_(std::move(tokens)) {}

  StatusOr<DocumentFilter> Parse() {
    if (Here().kind == Kind::kEnd) return DocumentFilter();
    QUIRE_ASSIGN_OR_RETURN(filter_.root_, Any());
    if (Here().kind != Kind::kEnd) return Expected("and, or, or the end");
    return std::move(filter_);
  }

 private:
  using Kind = FilterToken::Kind;
  using Node = DocumentFilter::Node;
  static constexpr size_t kMaxDepth = 64;

  const FilterToken& Here() const { return tokens_[at_]; }
  bool IsWord(std::string_view word) const {
    return Here().kind == Kind::kWord && std::ranges::equal(Here().text, word, {}, [](char c) {
             return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
           });
  }
  Status Expected(std::string_view what) const {
    const std::string found = Here().kind == Kind::kEnd ? "the end" : "'" + Here().text + "'";
    return FilterError(Here().position, "expected ", what, ", found ", found);
  }
  size_t Add(Node node) {
    filter_.nodes_.push_back(node);
    return filter_.nodes_.size() - 1;
  }

  StatusOr<size_t> Any() { return Joined("or", Node::Kind::kOr, &FilterParser::All); }
  StatusOr<size_t> All() { return Joined("and", Node::Kind::kAnd, &FilterParser::Factor); }
  StatusOr<size_t> Joined(std::string_view word, Node::Kind kind,
                          StatusOr<size_t> (FilterParser::*operand)()) {
    QUIRE_ASSIGN_OR_RETURN(size_t left, (this->*operand)());
    std::vector<size_t> operands = {left};
    while (IsWord(word)) {
      ++at_;
      QUIRE_ASSIGN_OR_RETURN(operands.emplace_back(), (this->*operand)());
    }
    return Balanced(kind, operands);
  }
  /// Joins operands to a tree of logarithmic depth.
  size_t Balanced(Node::Kind kind, std::vector<size_t> operands) {
    while (operands.size() > 1) {
      std::vector<size_t> pairs;
      for (size_t i = 0; i + 1 < operands.size(); i += 2) {
        pairs.push_back(Add({kind, operands[i], operands[i + 1]}));
      }
      if (operands.size() % 2 == 1) pairs.push_back(operands.back());
      operands = std::move(pairs);
    }
    return operands.front();
  }

  StatusOr<size_t> Factor() {
    if (++depth_ > kMaxDepth) {
      return FilterError(Here().position, "more than ", kMaxDepth, " parentheses and nots");
    }
    StatusOr<size_t> node = Nested();
    --depth_;
    return node;
  }
  StatusOr<size_t> Nested() {
    if (IsWord("not") && tokens_[at_ + 1].kind != Kind::kOperator) {
      ++at_;
      QUIRE_ASSIGN_OR_RETURN(const size_t operand, Factor());
      return Add({Node::Kind::kNot, operand});
    }
    if (Here().kind != Kind::kOpen) return Comparison();
    ++at_;
    QUIRE_ASSIGN_OR_RETURN(const size_t inner, Any());
    if (Here().kind != Kind::kClose) return Expected("and, or, or ')'");
    ++at_;
    return inner;
  }
  StatusOr<size_t> Comparison() {
    if (Here().kind != Kind::kWord) return Expected("a field, not, or '('");
    const FilterToken& field = tokens_[at_++];
    if (Here().kind != Kind::kOperator) return Expected("= != < <= > >= or ~");
    const FilterToken& op = tokens_[at_++];
    if (Here().kind != Kind::kWord && Here().kind != Kind::kQuoted) return Expected("a value");
    const FilterToken& value = tokens_[at_++];
    QUIRE_ASSIGN_OR_RETURN(auto comparison, FilterComparison::Make(field, op, value));
    filter_.comparisons_.push_back(std::move(comparison));
    return Add({Node::Kind::kComparison, filter_.comparisons_.size() - 1});
  }

  const std::vector<FilterToken> tokens_;  ///< The last one is kEnd.
  size_t at_ = 0;
  size_t depth_ = 0;
  DocumentFilter filter_;
};

StatusOr<DocumentFilter> DocumentFilter::Parse(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<FilterToken> tokens, TokensOfFilter(text));
  return FilterParser(std::move(tokens)).Parse();
}

bool DocumentFilter::Matches(size_t node, const Document& document) const {
  const Node& n = nodes_[node];
  switch (n.kind) {
    case Node::Kind::kComparison:
      return comparisons_[n.left].Matches(document);
    case Node::Kind::kNot:
      return !Matches(n.left, document);
    case Node::Kind::kAnd:
      return Matches(n.left, document) && Matches(n.right, document);
    case Node::Kind::kOr:
      return Matches(n.left, document) || Matches(n.right, document);
  }
  return false;
}

std::optional<bool> DocumentFilter::MatchesName(size_t node, const DocumentName& name) const {
  const Node& n = nodes_[node];
  if (n.kind == Node::Kind::kComparison) return comparisons_[n.left].MatchesName(name);
  const std::optional<bool> left = MatchesName(n.left, name);
  if (n.kind == Node::Kind::kNot) return left ? std::optional(!*left) : std::nullopt;
  // The value of one side that decides alone.
  const bool decides = n.kind == Node::Kind::kOr;
  if (left == decides) return decides;
  const std::optional<bool> right = MatchesName(n.right, name);
  if (right == decides) return decides;
  return left && right ? std::optional(!decides) : std::nullopt;
}

bool DocumentFilter::names_state() const {
  return std::ranges::any_of(comparisons_, &FilterComparison::is_state);
}

std::vector<const FilterComparison*> DocumentFilter::Tags() const {
  std::vector<const FilterComparison*> tags;
  for (const FilterComparison& comparison : comparisons_) {
    if (comparison.is_tag()) tags.push_back(&comparison);
  }
  return tags;
}

}  // namespace quire::kvserver
