// SPDX-License-Identifier: Apache-2.0
//
// Value: what an expression of a template stands for, with the meaning that Python gives it. Lists
// and dictionaries are shared by copies and never change; a namespace does. Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_JINJA_VALUE_H_
#define QUIRE_GPUWORKER_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/status.h"

namespace quire::worker::jinja {

class Value;
using List = std::vector<Value>;

/// What a call was given.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument called `name`, which is also the one at `index`; `absent` when neither is given.
  Value Get(size_t index, std::string_view name, const Value& absent) const;
};
using Function = std::function<StatusOr<Value>(const Arguments&)>;

/// Entries in the order in which they came. Keys are text.
class Dictionary {
 public:
  void Set(const std::string& key, Value value);
  const Value* Find(std::string_view key) const;
  const std::vector<std::pair<std::string, Value>>& entries() const { return entries_; }

 private:
  std::vector<std::pair<std::string, Value>> entries_;
};

class Value {
 public:
  /// What a name without a value stands for.
  Value() = default;
  static Value None() { return Value(Data(std::nullptr_t())); }
  static Value Of(bool value) { return Value(Data(value)); }
  static Value Of(int64_t value) { return Value(Data(value)); }
  static Value Of(double value) { return Value(Data(value)); }
  static Value Of(std::string value) { return Value(Data(std::move(value))); }
  static Value Of(List value);
  static Value Of(Dictionary value);
  static Value Of(Function value);
  /// A namespace(): attributes of it can be set.
  static Value NewNamespace(Dictionary value);
  static Value FromJson(const nlohmann::ordered_json& json);

  bool IsUndefined() const { return Has<std::monostate>(); }
  bool IsNone() const { return Has<std::nullptr_t>(); }
  const bool* AsBool() const { return std::get_if<bool>(&data_); }
  const int64_t* AsInt() const { return std::get_if<int64_t>(&data_); }
  const std::string* AsText() const { return std::get_if<std::string>(&data_); }
  /// Null for what is no list, dictionary, namespace or function.
  const List* AsList() const;
  const Dictionary* AsDictionary() const;
  Dictionary* AsNamespace() const;
  const Function* AsFunction() const;
  /// Bool, integer or float.
  bool IsNumber() const { return Has<bool>() || Has<int64_t>() || Has<double>(); }
  bool IsFloat() const { return Has<double>(); }
  double ToDouble() const;  ///< Of a number.

  bool IsTrue() const;
  /// What `{{ value }}` prints.
  std::string ToText() const;
  /// Python's repr(): text in quotes.
  std::string ToRepr() const;
  /// "a list", for messages.
  const char* Kind() const;
  bool Equals(const Value& other) const;
  /// INVALID_ARGUMENT for what has no order.
  StatusOr<bool> IsLess(const Value& other) const;

 private:
  struct Namespace {
    Dictionary attributes;
  };
  using Data = std::variant<std::monostate, std::nullptr_t, bool, int64_t, double, std::string,
                            std::shared_ptr<const List>, std::shared_ptr<const Dictionary>,
                            std::shared_ptr<const Function>, std::shared_ptr<Namespace>>;

  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  bool Has() const {
    return std::holds_alternative<T>(data_);
  }

  Data data_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_JINJA_VALUE_H_
