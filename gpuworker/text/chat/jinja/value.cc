// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/value.h"

#include <algorithm>
#include <array>
#include <optional>

namespace quire::worker::jinja {
namespace {

constexpr uint64_t kHeaviest = uint64_t{1} << 40;  ///< Sums stop there.

std::string Quoted(const std::string& text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (c == quote || c == '\\') out += '\\';
        out += c;
    }
  }
  return out + quote;
}

/// An integer, or a bool as one.
std::optional<int64_t> Number(const Value& value) {
  if (const bool* const flag = value.AsBool()) return *flag ? 1 : 0;
  if (const int64_t* const number = value.AsInteger()) return *number;
  return std::nullopt;
}

bool AllEqual(const Dictionary& some, const Dictionary& others) {
  return some.entries().size() == others.entries().size() &&
         std::ranges::all_of(some.entries(), [&](const auto& entry) {
           const Value* const found = others.Find(entry.first);
           return found != nullptr && entry.second.Equals(*found);
         });
}

}  // namespace

Value Arguments::Get(size_t index, std::string_view name) const {
  return index < positional.size() ? positional[index] : Get(name);
}

Value Arguments::Get(std::string_view name) const {
  const auto found = std::ranges::find(named, name, [](const auto& entry) { return entry.first; });
  return found != named.end() ? found->second : Value();
}

void Dictionary::Set(std::string_view key, Value value) {
  const auto found =
      std::ranges::find(entries_, key, [](const auto& entry) { return entry.first; });
  if (found != entries_.end()) {
    found->second = std::move(value);
  } else {
    entries_.emplace_back(key, std::move(value));
  }
}

const Value* Dictionary::Find(std::string_view key) const {
  const auto found =
      std::ranges::find(entries_, key, [](const auto& entry) { return entry.first; });
  return found != entries_.end() ? &found->second : nullptr;
}

Value Value::Of(std::string value) {
  const uint64_t weight = 1 + value.size();
  return Value(Data(std::make_shared<const std::string>(std::move(value))), weight);
}

Value Value::Of(List value) {
  Value made(Data(std::make_shared<const List>(std::move(value))), 1);
  for (const Value& item : *made.AsList()) made.Weigh(item);
  return made;
}

Value Value::Of(Dictionary value) {
  Value made(Data(std::make_shared<const Dictionary>(std::move(value))), 1);
  for (const auto& [key, item] : made.AsDictionary()->entries()) {
    made.Weigh(item);
    made.weight_ += key.size();
  }
  return made;
}

Value Value::Of(Function value) {
  return Value(Data(std::make_shared<const Function>(std::move(value))), 1);
}

void Value::Weigh(const Value& part) {
  weight_ = std::min(kHeaviest, weight_ + part.weight_);
  depth_ = std::max(depth_, part.depth_ + 1);
}

Dictionary* Value::AsNamespace() const {
  Dictionary* const* const space = std::get_if<Dictionary*>(&data_);
  return space != nullptr ? *space : nullptr;
}

bool Value::IsTrue() const {
  if (IsUndefined() || IsNone()) return false;
  if (const auto number = Number(*this)) return *number != 0;
  if (const std::string* const text = AsText()) return !text->empty();
  if (const List* const list = AsList()) return !list->empty();
  if (const Dictionary* const dictionary = AsDictionary()) return !dictionary->entries().empty();
  return true;
}

std::string Value::ToText() const {
  if (IsUndefined()) return "";
  if (const std::string* const text = AsText()) return *text;
  return ToRepr();
}

std::string Value::ToRepr() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "None";
  if (const bool* const flag = AsBool()) return *flag ? "True" : "False";
  if (const int64_t* const number = AsInteger()) return std::to_string(*number);
  if (const std::string* const text = AsText()) return Quoted(*text);
  std::string out;
  if (const List* const list = AsList()) {
    for (const Value& item : *list) out += (out.empty() ? "" : ", ") + item.ToRepr();
    return "[" + out + "]";
  }
  if (const Dictionary* const dictionary = AsDictionary()) {
    for (const auto& [key, value] : dictionary->entries()) {
      out += (out.empty() ? "" : ", ") + Quoted(key) + ": " + value.ToRepr();
    }
    return "{" + out + "}";
  }
  return std::string("<") + Kind() + ">";
}

const char* Value::Kind() const {
  static constexpr std::array kKinds = {"undefined",    "none",       "a bool",
                                        "an integer",   "text",       "a list",
                                        "a dictionary", "a function", "a namespace"};
  static_assert(std::variant_size_v<Data> == kKinds.size());
  return kKinds[data_.index()];
}

bool Value::Equals(const Value& other) const {
  if (const auto number = Number(*this)) return number == Number(other);
  if (data_ == other.data_) return true;
  if (AsText() != nullptr && other.AsText() != nullptr) return *AsText() == *other.AsText();
  if (AsList() != nullptr && other.AsList() != nullptr) {
    return std::ranges::equal(*AsList(), *other.AsList(),
                              [](const Value& a, const Value& b) { return a.Equals(b); });
  }
  if (AsDictionary() == nullptr || other.AsDictionary() == nullptr) return false;
  return AllEqual(*AsDictionary(), *other.AsDictionary());
}

StatusOr<bool> Value::IsLess(const Value& other) const {
  const auto number = Number(*this), others = Number(other);
  if (number && others) return *number < *others;
  if (AsText() != nullptr && other.AsText() != nullptr) return *AsText() < *other.AsText();
  return InvalidArgument("cannot compare ", Kind(), " with ", other.Kind());
}

}  // namespace quire::worker::jinja
