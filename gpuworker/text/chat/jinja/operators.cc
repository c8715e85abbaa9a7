// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/operators.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "gpuworker/text/chat/jinja/methods.h"
#include "gpuworker/text/hf/unicode.h"

namespace quire::worker::jinja {
namespace {

constexpr uint64_t kMostTextBytes = uint64_t{64} << 20;
constexpr size_t kMostCharacters = size_t{1} << 20;  ///< Longest text that is taken apart.

StatusOr<List> CharactersOf(std::string_view text) {
  if (text.size() > kMostCharacters)
    return ResourceExhausted("a text of ", text.size(), " bytes is taken apart");
  List characters;
  while (!text.empty()) {
    const size_t bytes = FirstCharacter(text).bytes;
    characters.push_back(Value::Of(std::string(text.substr(0, bytes))));
    text.remove_prefix(bytes);
  }
  return characters;
}

Status CannotCompute(std::string_view sign, const Value& left, const Value& right) {
  return InvalidArgument("cannot compute ", left.Kind(), " ", sign, " ", right.Kind());
}

StatusOr<Value> Joined(const Value& left, const Value& right) {
  if (left.AsText() != nullptr && right.AsText() != nullptr)
    return Value::Of(*left.AsText() + *right.AsText());
  if (left.AsList() == nullptr || right.AsList() == nullptr) return CannotCompute("+", left, right);
  List joined = *left.AsList();
  joined.insert(joined.end(), right.AsList()->begin(), right.AsList()->end());
  return Value::Of(std::move(joined));
}

/// Quotient or rest, rounded down as in Python.
StatusOr<Value> Divided(bool rest, int64_t left, int64_t right) {
  if (right == 0) return InvalidArgument("a division by 0");
  if (right == -1)
    return rest ? Value::Of(int64_t{0}) : Combine("-", Value::Of(int64_t{0}), Value::Of(left));
  const bool rounds = left % right != 0 && (left < 0) != (right < 0);
  const int64_t quotient = left / right - (rounds ? 1 : 0);
  return Value::Of(rest ? left - quotient * right : quotient);
}

}  // namespace

Status CheckTextBytes(uint64_t bytes) {
  if (bytes <= kMostTextBytes) return OkStatus();
  return ResourceExhausted("a text of the template grows past ", kMostTextBytes, " bytes");
}

StatusOr<Value> Combine(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "~") return Value::Of(left.ToText() + right.ToText());
  const int64_t *const a = left.AsInteger(), *const b = right.AsInteger();
  if (a == nullptr || b == nullptr)
    return sign == "+" ? Joined(left, right) : CannotCompute(sign, left, right);
  if (sign == "//" || sign == "%") return Divided(sign == "%", *a, *b);
  int64_t result = 0;
  const bool overflows = sign == "+"   ? __builtin_add_overflow(*a, *b, &result)
                         : sign == "-" ? __builtin_sub_overflow(*a, *b, &result)
                                       : __builtin_mul_overflow(*a, *b, &result);
  if (overflows) return InvalidArgument("a number grows past 64 bits");
  return Value::Of(result);
}

StatusOr<Value> Compare(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "==") return Value::Of(left.Equals(right));
  if (sign == "!=") return Value::Of(!left.Equals(right));
  const bool swapped = sign == ">" || sign == "<=";
  QUIRE_ASSIGN_OR_RETURN(const bool less, swapped ? right.IsLess(left) : left.IsLess(right));
  return Value::Of(sign.size() == 1 ? less : !less);
}

StatusOr<List> Items(const Value& value) {
  if (value.IsUndefined()) return List();
  if (const List* const list = value.AsList()) return *list;
  if (const std::string* const text = value.AsText()) return CharactersOf(*text);
  const Dictionary* const dictionary = value.AsDictionary();
  if (dictionary == nullptr) return InvalidArgument(value.Kind(), " has no items");
  List keys;
  for (const auto& [key, held] : dictionary->entries()) keys.push_back(Value::Of(key));
  return keys;
}

StatusOr<bool> Contains(const Value& value, const Value& item) {
  if (const std::string* const text = value.AsText()) {
    if (item.AsText() == nullptr) return InvalidArgument("text does not contain ", item.Kind());
    return text->find(*item.AsText()) != text->npos;
  }
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  return std::ranges::any_of(items, [&](const Value& held) { return held.Equals(item); });
}

StatusOr<Value> Item(const Value& value, const Value& index) {
  const int64_t* const position = index.AsInteger();
  if (position == nullptr) {
    if (index.AsText() == nullptr) return InvalidArgument("an index is ", index.Kind());
    return Attribute(value, *index.AsText());
  }
  if (value.IsUndefined()) return InvalidArgument("an item of an undefined value");
  if (value.AsDictionary() != nullptr) return Value();
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const auto size = static_cast<int64_t>(items.size());
  const int64_t at = *position < 0 ? *position + size : *position;
  return at >= 0 && at < size ? items[static_cast<size_t>(at)] : Value();
}

StatusOr<Value> Slice(const Value& value, const std::array<Value, 3>& bounds) {
  if (value.AsText() == nullptr && value.AsList() == nullptr)
    return InvalidArgument("a slice of ", value.Kind());
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const auto size = static_cast<int64_t>(items.size());
  const int64_t* const given = bounds[2].AsInteger();
  const int64_t step = std::clamp<int64_t>(given != nullptr ? *given : 1, -size - 1, size + 1);
  if (step == 0) return InvalidArgument("the step of a slice is 0");
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto place = [&](const Value& bound, int64_t absent) {
    const int64_t* const at = bound.AsInteger();
    if (at == nullptr) return absent;
    return std::clamp(*at < 0 ? *at + size : *at, low, high);
  };
  const int64_t begin = place(bounds[0], step > 0 ? low : high);
  const int64_t end = place(bounds[1], step > 0 ? high : low);
  List picked;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
    picked.push_back(items[static_cast<size_t>(i)]);
  if (value.AsList() != nullptr) return Value::Of(std::move(picked));
  std::string text;
  for (const Value& character : picked) text += *character.AsText();
  return Value::Of(std::move(text));
}

}  // namespace quire::worker::jinja
