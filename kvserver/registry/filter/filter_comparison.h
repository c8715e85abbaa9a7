// SPDX-License-Identifier: Apache-2.0
//
// FilterComparison: one field of a document against one value. A field that is not built in is a
// tag, and is compared in the type that the document gives it. Thread-safety: immutable.
#ifndef QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_COMPARISON_H_
#define QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_COMPARISON_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kvserver/registry/filter/filter_token.h"
#include "kvserver/registry/filter/filter_value.h"
#include "quire/documents.h"
#include "quire/status.h"

namespace quire::kvserver {

class FilterComparison {
 public:
  /// Checks `value` against the type of the field, and whether the operator suits it.
  /// INVALID_ARGUMENT with the position and what the field takes.
  [[nodiscard]] static StatusOr<FilterComparison> Make(const FilterToken& field,
                                                       const FilterToken& op,
                                                       const FilterToken& value);

  /// A document without the tag matches != only.
  bool Matches(const Document& document) const;

  /// The same by the name alone; nullopt where more than that decides.
  std::optional<bool> MatchesName(const DocumentName& name) const;

  bool is_tag() const { return field_ == Field::kTag; }
  bool is_state() const { return field_ == Field::kState; }
  const std::string& key() const { return key_; }  ///< Key of the tag.
  size_t position() const { return position_; }

  /// "name, collection, ...": the fields that are built in.
  static std::string KnownFields();

 private:
  enum class Field : uint8_t {
    kName,
    kCollection,
    kVersion,
    kModel,
    kState,
    kSource,
    kTokens,
    kBytes,
    kCreated,
    kExpires,
    kUsed,
    kPinned,
    kLatest,
    kTag
  };
  enum class Op : uint8_t { kEqual, kUnequal, kLess, kAtMost, kGreater, kAtLeast, kContains };
  using Value = std::variant<std::string, uint64_t, TimeSpan, DocumentState, bool>;
  struct KnownField;
  static const KnownField* FindField(std::string_view name);
  static Op OpOf(std::string_view text);
  [[nodiscard]] static StatusOr<Value> ValueOf(Field field, const FilterToken& value);

  /// Compares in the order of `T`.
  template <typename T>
  bool Compare(const T& mine, const T& other) const;
  bool MatchesText(std::string_view mine, std::string_view other) const;
  bool MatchesTime(int64_t mine) const;
  bool MatchesTag(const Document& document) const;

  Field field_ = Field::kName;
  Op op_ = Op::kEqual;
  std::string key_;
  Value value_;
  size_t position_ = 1;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_REGISTRY_FILTER_FILTER_COMPARISON_H_
