// SPDX-License-Identifier: Apache-2.0
//
// Strict reading of JSON files that come from outside: checkpoint headers, configs, tokenizers.
// Errors name the file and the field. Thread-safety: values, no shared state.
#ifndef QUIRE_COMMON_JSON_JSON_H_
#define QUIRE_COMMON_JSON_JSON_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "quire/status.h"

namespace quire::worker {

/// Parses `text`. INVALID_ARGUMENT, starting with `name`, for a syntax error, a key that is given
/// twice in one object, or nesting deeper than 16; memory stays proportional to the text.
StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view name);

/// Reads the whole file at `path`. NOT_FOUND when it is not there, RESOURCE_EXHAUSTED when it is
/// larger than `max_bytes`.
StatusOr<std::string> ReadTextFile(const std::string& path, size_t max_bytes);

/// Typed, ranged access to the fields of one JSON object. It remembers which were read, and
/// CheckAllRead refuses what is left. A null field counts as absent. The object outlives the
/// reader. Thread-safety: none.
class JsonFields {
 public:
  /// `object` must be an object; `name` starts every error message.
  JsonFields(const nlohmann::json& object, std::string name)
      : object_(object), name_(std::move(name)) {}

  /// The field's value, or null when it is absent or null.
  const nlohmann::json* Find(const char* field) const;
  bool Has(const char* field) const { return Find(field) != nullptr; }
  /// True also for a field that is null.
  bool Given(const char* field) const;

  /// INVALID_ARGUMENT naming the field when it is absent without a default, of another type or
  /// outside [low, high].
  StatusOr<uint32_t> UInt(const char* field, uint32_t low, uint32_t high,
                          std::optional<uint32_t> absent = std::nullopt) const;
  /// Finite numbers within [low, high].
  StatusOr<double> Number(const char* field, double low, double high,
                          std::optional<double> absent = std::nullopt) const;
  StatusOr<bool> Bool(const char* field, bool absent) const;
  StatusOr<std::string> String(const char* field, std::string_view absent) const;

  /// INVALID_ARGUMENT naming a set field that no method read and that is not among `harmless`,
  /// since it would be ignored.
  Status CheckAllRead(std::span<const std::string_view> harmless = {}) const;

  /// INVALID_ARGUMENT: "<name>: <field> <what>".
  template <typename... Parts>
  Status Error(const char* field, const Parts&... what) const {
    return InvalidArgument(name_, ": ", field, " ", what...);
  }

 private:
  const nlohmann::json& object_;
  const std::string name_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace quire::worker

#endif  // QUIRE_COMMON_JSON_JSON_H_
