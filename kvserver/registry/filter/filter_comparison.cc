// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/filter/filter_comparison.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "common/documents/document_rules.h"
#include "common/documents/document_state.h"

namespace quire::kvserver {

struct FilterComparison::KnownField {
  std::string_view name;
  Field field;
};

namespace {

template <typename T, typename V>
StatusOr<V> Known(const std::optional<T>& parsed, const FilterToken& value, std::string_view what) {
  if (parsed) return V(*parsed);
  return FilterError(value.position, "'", value.text, "' is not ", what);
}

}  // namespace

const FilterComparison::KnownField* FilterComparison::FindField(std::string_view name) {
  static constexpr std::array<KnownField, 13> kFields = {{{"name", Field::kName},
                                                          {"collection", Field::kCollection},
                                                          {"version", Field::kVersion},
                                                          {"model", Field::kModel},
                                                          {"state", Field::kState},
                                                          {"source", Field::kSource},
                                                          {"tokens", Field::kTokens},
                                                          {"bytes", Field::kBytes},
                                                          {"created", Field::kCreated},
                                                          {"expires", Field::kExpires},
                                                          {"used", Field::kUsed},
                                                          {"pinned", Field::kPinned},
                                                          {"latest", Field::kLatest}}};
  const auto it = std::ranges::find(kFields, name, &KnownField::name);
  return it == kFields.end() ? nullptr : &*it;
}

std::string FilterComparison::KnownFields() {
  return "name, collection, version, model, state, source, tokens, bytes, created, expires, used, "
         "pinned, latest";
}

FilterComparison::Op FilterComparison::OpOf(std::string_view text) {
  if (text == "=") return Op::kEqual;
  if (text == "!=") return Op::kUnequal;
  if (text == "<") return Op::kLess;
  if (text == "<=") return Op::kAtMost;
  if (text == ">") return Op::kGreater;
  if (text == ">=") return Op::kAtLeast;
  return Op::kContains;
}

StatusOr<FilterComparison::Value> FilterComparison::ValueOf(Field field, const FilterToken& value) {
  switch (field) {
    case Field::kVersion:
    case Field::kTokens:
      return Known<uint64_t, Value>(CountOf(value.text), value, "a whole number");
    case Field::kBytes:
      return Known<uint64_t, Value>(SizeOf(value.text), value, "a size, as 4096, 20MB or 1.5GiB");
    case Field::kCreated:
    case Field::kExpires:
    case Field::kUsed:
      return Known<TimeSpan, Value>(TimeOf(value.text), value,
                                    "a date, as 2026-01-01, or a time, as 2026-01-01T12:00:00Z");
    case Field::kState:
      return Known<DocumentState, Value>(StateNamed(value.text), value,
                                         "a state: ready, ingesting, failed or expired");
    case Field::kPinned:
    case Field::kLatest:
      return Known<bool, Value>(TruthOf(value.text), value, "true or false");
    default:
      return Value(value.text);
  }
}

StatusOr<FilterComparison> FilterComparison::Make(const FilterToken& field, const FilterToken& op,
                                                  const FilterToken& value) {
  FilterComparison made;
  const KnownField* const known = FindField(field.text);
  made.field_ = known != nullptr ? known->field : Field::kTag;
  made.op_ = OpOf(op.text);
  made.key_ = field.text;
  made.position_ = field.position;
  if (made.is_tag() && !CheckTagKey(field.text).ok()) {
    return FilterError(field.position, "'", field.text,
                       "' is no field and no key of a tag; fields: ", KnownFields());
  }
  QUIRE_ASSIGN_OR_RETURN(made.value_, ValueOf(made.field_, value));
  if (made.op_ == Op::kContains && !std::holds_alternative<std::string>(made.value_)) {
    return FilterError(op.position, "~ looks for a part of a text, and ", field.text,
                       " is none; use = != < <= > >=");
  }
  const bool ordered = made.op_ != Op::kEqual && made.op_ != Op::kUnequal;
  if (ordered && (std::holds_alternative<DocumentState>(made.value_) ||
                  std::holds_alternative<bool>(made.value_))) {
    return FilterError(op.position, field.text, " has no order; use = or !=");
  }
  return made;
}

template <typename T>
bool FilterComparison::Compare(const T& mine, const T& other) const {
  switch (op_) {
    case Op::kEqual:
      return mine == other;
    case Op::kUnequal:
      return mine != other;
    case Op::kLess:
      return mine < other;
    case Op::kAtMost:
      return mine <= other;
    case Op::kGreater:
      return mine > other;
    case Op::kAtLeast:
      return mine >= other;
    case Op::kContains:
      return false;
  }
  return false;
}

bool FilterComparison::MatchesText(std::string_view mine, std::string_view other) const {
  if (op_ == Op::kContains) return mine.find(other) != std::string_view::npos;
  return Compare(mine, other);
}

bool FilterComparison::MatchesTime(int64_t mine) const {
  const TimeSpan& span = std::get<TimeSpan>(value_);
  // Every instant of the span is equal to it.
  const int64_t other = std::clamp(mine, span.first, span.last);
  return Compare(mine, other);
}

bool FilterComparison::MatchesTag(const Document& document) const {
  const std::string& text = std::get<std::string>(value_);
  const auto tag = document.tags.find(key_);
  const bool unequal = op_ == Op::kUnequal;
  if (tag == document.tags.end()) return unequal;
  if (const auto* mine = std::get_if<std::string>(&tag->second)) return MatchesText(*mine, text);
  if (const auto* mine = std::get_if<bool>(&tag->second)) {
    const auto truth = TruthOf(text);
    return truth ? Compare(*mine, *truth) : unequal;
  }
  const auto number = NumberOf(text);
  if (!number) return unequal;
  if (const auto* mine = std::get_if<double>(&tag->second)) return Compare(*mine, *number);
  return Compare(static_cast<double>(std::get<int64_t>(tag->second)), *number);
}

std::optional<bool> FilterComparison::MatchesName(const DocumentName& name) const {
  switch (field_) {
    case Field::kName:
      return MatchesText(name.name, std::get<std::string>(value_));
    case Field::kCollection:
      return MatchesText(name.collection, std::get<std::string>(value_));
    case Field::kVersion:
      return Compare(name.version, std::get<uint64_t>(value_));
    default:
      return std::nullopt;
  }
}

bool FilterComparison::Matches(const Document& document) const {
  switch (field_) {
    case Field::kName:
      return MatchesText(document.name.name, std::get<std::string>(value_));
    case Field::kCollection:
      return MatchesText(document.name.collection, std::get<std::string>(value_));
    case Field::kModel:
      return MatchesText(document.model, std::get<std::string>(value_));
    case Field::kSource:
      return MatchesText(document.source, std::get<std::string>(value_));
    case Field::kVersion:
      return Compare(document.name.version, std::get<uint64_t>(value_));
    case Field::kTokens:
      return Compare(document.num_tokens, std::get<uint64_t>(value_));
    case Field::kBytes:
      return Compare(document.bytes, std::get<uint64_t>(value_));
    case Field::kCreated:
      return MatchesTime(document.created_unix_micros);
    case Field::kExpires:  // Never is later than any time.
      return MatchesTime(document.expires_unix_micros != 0 ? document.expires_unix_micros
                                                           : std::numeric_limits<int64_t>::max());
    case Field::kUsed:  // Never is earlier than any time.
      return MatchesTime(document.statistics.last_used_unix_micros);
    case Field::kState:
      return Compare(document.state, std::get<DocumentState>(value_));
    case Field::kPinned:
      return Compare(document.pinned, std::get<bool>(value_));
    case Field::kLatest:
      return Compare(document.is_latest, std::get<bool>(value_));
    case Field::kTag:
      return MatchesTag(document);
  }
  return false;
}

}  // namespace quire::kvserver
