// SPDX-License-Identifier: Apache-2.0
//
// Value: the value of an expression in a template, with Python's meaning. Copies share text, lists
// and dictionaries, which never change. A namespace changes, and belongs to the frame that made it.
// Thread-safety: none.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_VALUE_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_VALUE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "quire/status.h"

namespace quire::worker::jinja {

class Value;
using List = std::vector<Value>;

/// Arguments of a call.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;

  /// The argument at `index`, or else the one called `name`. Undefined when neither is given.
  Value Get(size_t index, std::string_view name) const;
  Value Get(std::string_view name) const;
};
using Function = std::function<StatusOr<Value>(const Arguments&)>;

/// Entries in the order of their first Set. Keys are text.
class Dictionary {
 public:
  using Entries = std::vector<std::pair<std::string, Value>>;

  void Set(std::string_view key, Value value);
  /// Null for an unknown key.
  const Value* Find(std::string_view key) const;
  const Entries& entries() const { return entries_; }

 private:
  Entries entries_;
};

class Value {
 public:
  /// The value of a name that was never set.
  Value() = default;
  static Value None() { return Value(Data(nullptr), 1); }
  static Value Of(bool value) { return Value(Data(value), 1); }
  static Value Of(int64_t value) { return Value(Data(value), 1); }
  static Value Of(std::string value);
  static Value Of(List value);
  static Value Of(Dictionary value);
  static Value Of(Function value);
  /// A namespace, which outlives the value.
  static Value Of(Dictionary* value) { return Value(Data(value), 1); }

  bool IsUndefined() const { return std::holds_alternative<std::monostate>(data_); }
  bool IsNone() const { return std::holds_alternative<std::nullptr_t>(data_); }
  /// Null for a value of another kind; likewise below.
  const bool* AsBool() const { return std::get_if<bool>(&data_); }
  const int64_t* AsInteger() const { return std::get_if<int64_t>(&data_); }
  const std::string* AsText() const { return Shared<std::string>(); }
  const List* AsList() const { return Shared<List>(); }
  const Dictionary* AsDictionary() const { return Shared<Dictionary>(); }
  const Function* AsFunction() const { return Shared<Function>(); }
  Dictionary* AsNamespace() const;

  bool IsTrue() const;
  /// Text of `{{ value }}`.
  std::string ToText() const;
  /// Python's repr(): text in quotes.
  std::string ToRepr() const;
  /// "a list", for messages.
  const char* Kind() const;
  bool Equals(const Value& other) const;
  /// INVALID_ARGUMENT for kinds without an order.
  StatusOr<bool> IsLess(const Value& other) const;

  /// Bytes of text and number of values in it, counted anew for each place that shares them.
  uint64_t weight() const { return weight_; }
  /// Lists within lists.
  uint32_t depth() const { return depth_; }

 private:
  using Data =
      std::variant<std::monostate, std::nullptr_t, bool, int64_t,
                   std::shared_ptr<const std::string>, std::shared_ptr<const List>,
                   std::shared_ptr<const Dictionary>, std::shared_ptr<const Function>, Dictionary*>;

  explicit Value(Data data, uint64_t weight) : data_(std::move(data)), weight_(weight) {}
  template <typename T>
  const T* Shared() const {
    const auto* const held = std::get_if<std::shared_ptr<const T>>(&data_);
    return held != nullptr ? held->get() : nullptr;
  }
  /// Adds a part of a list or a dictionary.
  void Weigh(const Value& part);

  Data data_;
  uint64_t weight_ = 1;
  uint32_t depth_ = 0;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_VALUE_H_
