// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/jinja/expressions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpuworker/text/jinja/builtins.h"

namespace quire::worker::jinja {
namespace {

constexpr int kDeepest = 100;  ///< Expressions within expressions.

/// An expression that computes by a function.
template <typename Body>
class Computed final : public Expression {
 public:
  explicit Computed(Body body) : body_(std::move(body)) {}
  StatusOr<Value> Evaluate(Frame& frame) const override {
    QUIRE_RETURN_IF_ERROR(frame.CountStep());
    return body_(frame);
  }

 private:
  const Body body_;
};

template <typename Body>
ExpressionPtr Compute(Body body) {
  return std::make_unique<const Computed<Body>>(std::move(body));
}

struct Call {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;

  StatusOr<Arguments> Evaluate(Frame& frame) const {
    Arguments arguments;
    for (const ExpressionPtr& argument : positional) {
      QUIRE_ASSIGN_OR_RETURN(Value value, argument->Evaluate(frame));
      arguments.positional.push_back(std::move(value));
    }
    for (const auto& [name, argument] : named) {
      QUIRE_ASSIGN_OR_RETURN(Value value, argument->Evaluate(frame));
      arguments.named.emplace_back(name, std::move(value));
    }
    return arguments;
  }
};

Status CannotCompute(std::string_view sign, const Value& left, const Value& right) {
  return InvalidArgument("cannot compute ", left.Kind(), " ", std::string(sign), " ", right.Kind());
}

StatusOr<Value> Add(const Value& left, const Value& right) {
  if (left.AsText() != nullptr && right.AsText() != nullptr)
    return Value::Of(*left.AsText() + *right.AsText());
  if (left.AsList() != nullptr && right.AsList() != nullptr) {
    List joined = *left.AsList();
    joined.insert(joined.end(), right.AsList()->begin(), right.AsList()->end());
    return Value::Of(std::move(joined));
  }
  return CannotCompute("+", left, right);
}

StatusOr<Value> IntegerResult(std::string_view sign, int64_t left, int64_t right) {
  int64_t result = 0;
  bool overflows = false;
  if (sign == "+") overflows = __builtin_add_overflow(left, right, &result);
  if (sign == "-") overflows = __builtin_sub_overflow(left, right, &result);
  if (sign == "*") overflows = __builtin_mul_overflow(left, right, &result);
  if (sign == "//" || sign == "%") {
    if (right == 0) return InvalidArgument("a division by 0");
    if (right == -1)
      return sign == "%" ? StatusOr<Value>(Value::Of(int64_t{0})) : IntegerResult("-", 0, left);
    const int64_t down =
        left / right -
        (left % right != 0 && (left < 0) != (right < 0) ? 1 : 0);  // Python rounds down.
    result = sign == "//" ? down : left - down * right;
  }
  if (overflows) return InvalidArgument("a number grows past 64 bits");
  return Value::Of(result);
}

StatusOr<Value> FloatResult(std::string_view sign, double left, double right) {
  if (sign == "+") return Value::Of(left + right);
  if (sign == "-") return Value::Of(left - right);
  if (sign == "*") return Value::Of(left * right);
  if (right == 0) return InvalidArgument("a division by 0");
  if (sign == "/") return Value::Of(left / right);
  const double down = std::floor(left / right);
  return Value::Of(sign == "//" ? down : left - down * right);
}

int64_t IntegerOf(const Value& value) { return static_cast<int64_t>(value.ToDouble()); }

StatusOr<Value> Binary(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "~") return Value::Of(left.ToText() + right.ToText());
  if (!left.IsNumber() || !right.IsNumber())
    return sign == "+" ? Add(left, right) : CannotCompute(sign, left, right);
  if (left.IsFloat() || right.IsFloat() || sign == "/")
    return FloatResult(sign, left.ToDouble(), right.ToDouble());
  return IntegerResult(sign, left.AsInt() != nullptr ? *left.AsInt() : IntegerOf(left),
                       right.AsInt() != nullptr ? *right.AsInt() : IntegerOf(right));
}

StatusOr<Value> Compare(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "==") return Value::Of(left.Equals(right));
  if (sign == "!=") return Value::Of(!left.Equals(right));
  const bool swapped = sign == ">" || sign == "<=";
  QUIRE_ASSIGN_OR_RETURN(const bool less, swapped ? right.IsLess(left) : left.IsLess(right));
  return Value::Of(sign.size() == 1 ? less : !less);
}

/// `value[begin:end:step]`.
StatusOr<Value> Slice(const Value& value, const std::array<Value, 3>& bounds) {
  const auto bound = [&](size_t i) {
    return bounds[i].AsInt() != nullptr ? std::optional(*bounds[i].AsInt()) : std::nullopt;
  };
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  const auto size = static_cast<int64_t>(items.size());
  const int64_t step = bound(2).value_or(1);
  if (step == 0) return InvalidArgument("the step of a slice must not be 0");
  const auto place = [&](std::optional<int64_t> at, int64_t absent) {
    if (!at) return absent;
    const int64_t low = step > 0 ? 0 : -1;
    return std::clamp(*at < 0 ? *at + size : *at, low, step > 0 ? size : size - 1);
  };
  const int64_t begin = place(bound(0), step > 0 ? 0 : size - 1);
  const int64_t end = place(bound(1), step > 0 ? size : -1);
  List picked;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step)
    picked.push_back(items[static_cast<size_t>(i)]);
  if (value.AsText() == nullptr) return Value::Of(std::move(picked));
  std::string text;
  for (const Value& character : picked) text += character.ToText();
  return Value::Of(text);
}

class Parser {
 public:
  explicit Parser(WordReader& words) : words_(words) {}

  StatusOr<ExpressionPtr> Conditional() {
    if (++depth_ > kDeepest) return words_.Error("expressions are too deep");
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Or());
    while (words_.Accept(WordKind::kName, "if")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr condition, Or());
      ExpressionPtr otherwise;
      if (words_.Accept(WordKind::kName, "else")) {
        QUIRE_ASSIGN_OR_RETURN(otherwise, Conditional());
      }
      value = Compute([value = std::move(value), condition = std::move(condition),
                       otherwise = std::move(otherwise)](Frame& frame) -> StatusOr<Value> {
        QUIRE_ASSIGN_OR_RETURN(const Value holds, condition->Evaluate(frame));
        if (holds.IsTrue()) return value->Evaluate(frame);
        return otherwise != nullptr ? otherwise->Evaluate(frame) : StatusOr<Value>(Value());
      });
    }
    --depth_;
    return value;
  }

  StatusOr<ExpressionPtr> Or() {
    return Joined("or", &Parser::And, [](const Value& left) { return left.IsTrue(); });
  }

 private:
  using Rule = StatusOr<ExpressionPtr> (Parser::*)();

  /// Operands of `or` and `and`; the value is that of the first for which `ends` holds, or of the
  /// last.
  StatusOr<ExpressionPtr> Joined(std::string_view name, Rule operand, bool (*ends)(const Value&)) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
    while (words_.Accept(WordKind::kName, name)) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
      left = Compute([left = std::move(left), right = std::move(right),
                      ends](Frame& frame) -> StatusOr<Value> {
        QUIRE_ASSIGN_OR_RETURN(Value value, left->Evaluate(frame));
        if (ends(value)) return value;
        return right->Evaluate(frame);
      });
    }
    return left;
  }

  StatusOr<ExpressionPtr> And() {
    return Joined("and", &Parser::Not, [](const Value& left) { return !left.IsTrue(); });
  }

  StatusOr<ExpressionPtr> Not() {
    if (!words_.Accept(WordKind::kName, "not")) return Comparison();
    if (++depth_ > kDeepest) return words_.Error("expressions are too deep");
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Not());
    --depth_;
    return Negated(std::move(value));
  }

  static ExpressionPtr Negated(ExpressionPtr value) {
    return Compute([value = std::move(value)](Frame& frame) -> StatusOr<Value> {
      QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
      return Value::Of(!held.IsTrue());
    });
  }

  StatusOr<ExpressionPtr> Comparison() {
    static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<=", ">=", "<", ">"};
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, Sum());
    while (true) {
      const bool negated =
          words_.Is(WordKind::kName, "not") && words_.IsNext(WordKind::kName, "in");
      if (negated) words_.Take();
      if (words_.Accept(WordKind::kName, "in")) {
        QUIRE_ASSIGN_OR_RETURN(left, InList(std::move(left)));
        if (negated) left = Negated(std::move(left));
        continue;
      }
      const Word word = words_.peek();
      if (word.kind != WordKind::kSign || std::ranges::find(kSigns, word.text) == kSigns.end())
        return left;
      words_.Take();
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, Sum());
      left =
          Pair(std::move(left), std::move(right),
               [sign = word.text](const Value& a, const Value& b) { return Compare(sign, a, b); });
    }
  }

  StatusOr<ExpressionPtr> InList(ExpressionPtr left) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, Sum());
    return Pair(std::move(left), std::move(right),
                [](const Value& item, const Value& set) -> StatusOr<Value> {
                  QUIRE_ASSIGN_OR_RETURN(const bool is_in,
                                         ApplyTest("in", item, {.positional = {set}, .named = {}}));
                  return Value::Of(is_in);
                });
  }

  template <typename Combine>
  static ExpressionPtr Pair(ExpressionPtr left, ExpressionPtr right, Combine combine) {
    return Compute([left = std::move(left), right = std::move(right),
                    combine](Frame& frame) -> StatusOr<Value> {
      QUIRE_ASSIGN_OR_RETURN(const Value first, left->Evaluate(frame));
      QUIRE_ASSIGN_OR_RETURN(const Value second, right->Evaluate(frame));
      return combine(first, second);
    });
  }

  StatusOr<ExpressionPtr> Chain(std::initializer_list<std::string_view> signs, Rule operand) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
    while (words_.peek().kind == WordKind::kSign &&
           std::ranges::find(signs, words_.peek().text) != signs.end()) {
      const std::string sign = words_.Take().text;
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
      left = Pair(std::move(left), std::move(right),
                  [sign](const Value& a, const Value& b) { return Binary(sign, a, b); });
    }
    return left;
  }

  StatusOr<ExpressionPtr> Sum() { return Chain({"+", "-"}, &Parser::Concatenation); }
  StatusOr<ExpressionPtr> Concatenation() { return Chain({"~"}, &Parser::Product); }
  StatusOr<ExpressionPtr> Product() { return Chain({"*", "/", "//", "%"}, &Parser::Unary); }

  StatusOr<ExpressionPtr> Unary() {
    if (words_.Accept(WordKind::kSign, "-")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Operand());
      return Compute([value = std::move(value)](Frame& frame) -> StatusOr<Value> {
        QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
        return Binary("-", Value::Of(int64_t{0}), held);
      });
    }
    words_.Accept(WordKind::kSign, "+");
    return Operand();
  }

  /// A primary with its attributes, subscripts, calls, filters and tests.
  StatusOr<ExpressionPtr> Operand() {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Primary());
    while (true) {
      if (words_.Accept(WordKind::kSign, ".")) {
        QUIRE_ASSIGN_OR_RETURN(value, AttributeOf(std::move(value)));
      } else if (words_.Accept(WordKind::kSign, "[")) {
        QUIRE_ASSIGN_OR_RETURN(value, Subscript(std::move(value)));
      } else if (words_.Accept(WordKind::kSign, "(")) {
        QUIRE_ASSIGN_OR_RETURN(value, CallOf(std::move(value)));
      } else if (words_.Accept(WordKind::kSign, "|")) {
        QUIRE_ASSIGN_OR_RETURN(value, Filtered(std::move(value)));
      } else if (words_.Accept(WordKind::kName, "is")) {
        QUIRE_ASSIGN_OR_RETURN(value, Tested(std::move(value)));
      } else {
        return value;
      }
    }
  }

  StatusOr<ExpressionPtr> AttributeOf(ExpressionPtr value) {
    if (!words_.Is(WordKind::kName)) return words_.Error("a name must follow the dot");
    return Compute(
        [value = std::move(value), name = words_.Take().text](Frame& frame) -> StatusOr<Value> {
          QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
          if (held.IsUndefined())
            return InvalidArgument("the attribute ", name, " of what is undefined");
          return Attribute(held, name);
        });
  }

  StatusOr<ExpressionPtr> Subscript(ExpressionPtr value) {
    std::array<ExpressionPtr, 3> bounds;
    size_t colons = 0;
    while (!words_.Accept(WordKind::kSign, "]")) {
      if (words_.Accept(WordKind::kSign, ":")) {
        if (++colons == bounds.size()) return words_.Error("a slice has two colons at most");
      } else {
        QUIRE_ASSIGN_OR_RETURN(bounds[colons], Conditional());
      }
    }
    if (colons == 0 && bounds[0] == nullptr) return words_.Error("an index is missing");
    return Compute([value = std::move(value), bounds = std::move(bounds),
                    colons](Frame& frame) -> StatusOr<Value> {
      QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
      std::array<Value, 3> places;
      for (size_t i = 0; i < places.size(); ++i) {
        if (bounds[i] == nullptr) continue;
        QUIRE_ASSIGN_OR_RETURN(places[i], bounds[i]->Evaluate(frame));
      }
      return colons == 0 ? Item(held, places[0]) : Slice(held, places);
    });
  }

  /// What stands between the brackets of a call, the first of which has been read.
  StatusOr<Call> ArgumentsOf() {
    Call call;
    while (!words_.Accept(WordKind::kSign, ")")) {
      std::string name;
      if (words_.Is(WordKind::kName) && words_.IsNext(WordKind::kSign, "=")) {
        name = words_.Take().text;
        words_.Take();
      }
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
      if (name.empty()) {
        call.positional.push_back(std::move(value));
      } else {
        call.named.emplace_back(name, std::move(value));
      }
      if (!words_.Is(WordKind::kSign, ")"))
        QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ","));
    }
    return call;
  }

  StatusOr<ExpressionPtr> CallOf(ExpressionPtr callee) {
    QUIRE_ASSIGN_OR_RETURN(Call call, ArgumentsOf());
    return Compute(
        [callee = std::move(callee), call = std::move(call)](Frame& frame) -> StatusOr<Value> {
          QUIRE_ASSIGN_OR_RETURN(const Value function, callee->Evaluate(frame));
          QUIRE_ASSIGN_OR_RETURN(const Arguments arguments, call.Evaluate(frame));
          if (function.AsFunction() == nullptr)
            return InvalidArgument("a call of ", function.Kind(), ", which is no function");
          return (*function.AsFunction())(arguments);
        });
  }

  StatusOr<ExpressionPtr> Filtered(ExpressionPtr value) {
    if (!words_.Is(WordKind::kName) || !IsFilter(words_.peek().text))
      return words_.Error("a known filter must follow |");
    std::string name = words_.Take().text;
    Call call;
    if (words_.Accept(WordKind::kSign, "(")) {
      QUIRE_ASSIGN_OR_RETURN(call, ArgumentsOf());
    }
    return Compute([value = std::move(value), name = std::move(name),
                    call = std::move(call)](Frame& frame) -> StatusOr<Value> {
      QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
      QUIRE_ASSIGN_OR_RETURN(const Arguments arguments, call.Evaluate(frame));
      return ApplyFilter(name, held, arguments);
    });
  }

  StatusOr<ExpressionPtr> Tested(ExpressionPtr value) {
    const bool negated = words_.Accept(WordKind::kName, "not");
    if (!words_.Is(WordKind::kName) || !IsTest(Lowered(words_.peek().text))) {
      return words_.Error("a known test must follow `is`");
    }
    std::string name = Lowered(words_.Take().text);
    Call call;
    if (words_.Accept(WordKind::kSign, "(")) {
      QUIRE_ASSIGN_OR_RETURN(call, ArgumentsOf());
    } else if (name == "equalto" || name == "eq" || name == "ne" || name == "in") {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr other, Primary());
      call.positional.push_back(std::move(other));
    }
    return Compute([value = std::move(value), name = std::move(name), call = std::move(call),
                    negated](Frame& frame) -> StatusOr<Value> {
      QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
      QUIRE_ASSIGN_OR_RETURN(const Arguments arguments, call.Evaluate(frame));
      QUIRE_ASSIGN_OR_RETURN(const bool passes, ApplyTest(name, held, arguments));
      return Value::Of(passes != negated);
    });
  }

  /// Jinja has `none` and `None`, `true` and `True`.
  static std::string Lowered(std::string name) {
    if (name == "None" || name == "True" || name == "False")
      name[0] = static_cast<char>(name[0] + ('a' - 'A'));
    return name;
  }

  StatusOr<ExpressionPtr> Primary() {
    const Word word = words_.Take();
    switch (word.kind) {
      case WordKind::kString:
        return Strings(word.text);
      case WordKind::kInteger:
      case WordKind::kFloat:
        return Number(word);
      case WordKind::kName:
        return Name(Lowered(word.text));
      default:
        if (word.text == "(") return Bracketed();
        if (word.text == "[") return ListLiteral();
        if (word.text == "{") return DictionaryLiteral();
        return InvalidArgument("line ", word.line, ": an expression is missing before '", word.text,
                               "'");
    }
  }

  static ExpressionPtr Constant(Value value) {
    return Compute([value = std::move(value)](Frame&) -> StatusOr<Value> { return value; });
  }

  /// Strings that stand one after another are one.
  ExpressionPtr Strings(std::string text) {
    while (words_.Is(WordKind::kString)) text += words_.Take().text;
    return Constant(Value::Of(std::move(text)));
  }

  static StatusOr<ExpressionPtr> Number(const Word& word) {
    const char* const end = word.text.data() + word.text.size();
    if (word.kind == WordKind::kFloat) {
      double number = 0;
      std::from_chars(word.text.data(), end, number);
      return Constant(Value::Of(number));
    }
    int64_t number = 0;
    if (std::from_chars(word.text.data(), end, number).ec != std::errc()) {
      return InvalidArgument("line ", word.line, ": the number ", word.text, " is past 64 bits");
    }
    return Constant(Value::Of(number));
  }

  static ExpressionPtr Name(const std::string& name) {
    if (name == "none") return Constant(Value::None());
    if (name == "true" || name == "false") return Constant(Value::Of(name == "true"));
    return Compute([name](Frame& frame) -> StatusOr<Value> { return frame.Find(name); });
  }

  StatusOr<ExpressionPtr> Bracketed() {
    if (words_.Accept(WordKind::kSign, ")")) return Constant(Value::Of(List()));
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
    if (words_.Accept(WordKind::kSign, ")")) return value;
    QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ","));
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(value));
    return RestOfList(std::move(items), ")");
  }

  StatusOr<ExpressionPtr> ListLiteral() { return RestOfList({}, "]"); }

  StatusOr<ExpressionPtr> RestOfList(std::vector<ExpressionPtr> items, std::string_view close) {
    while (!words_.Accept(WordKind::kSign, close)) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr item, Conditional());
      items.push_back(std::move(item));
      if (!words_.Is(WordKind::kSign, close))
        QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ","));
    }
    return MakeList(std::move(items));
  }

 public:
  static ExpressionPtr MakeList(std::vector<ExpressionPtr> items) {
    return Compute([items = std::move(items)](Frame& frame) -> StatusOr<Value> {
      List list;
      for (const ExpressionPtr& item : items) {
        QUIRE_ASSIGN_OR_RETURN(Value value, item->Evaluate(frame));
        list.push_back(std::move(value));
      }
      return Value::Of(std::move(list));
    });
  }

 private:
  StatusOr<ExpressionPtr> DictionaryLiteral() {
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
    while (!words_.Accept(WordKind::kSign, "}")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr key, Conditional());
      QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ":"));
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
      entries.emplace_back(std::move(key), std::move(value));
      if (!words_.Is(WordKind::kSign, "}"))
        QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ","));
    }
    return Compute([entries = std::move(entries)](Frame& frame) -> StatusOr<Value> {
      Dictionary dictionary;
      for (const auto& [key, value] : entries) {
        QUIRE_ASSIGN_OR_RETURN(const Value name, key->Evaluate(frame));
        QUIRE_ASSIGN_OR_RETURN(Value held, value->Evaluate(frame));
        dictionary.Set(name.ToText(), std::move(held));
      }
      return Value::Of(std::move(dictionary));
    });
  }

  WordReader& words_;
  int depth_ = 0;
};

}  // namespace

Status WordReader::Expect(WordKind kind, std::string_view text) {
  if (Accept(kind, text)) return OkStatus();
  return Error("'" + std::string(text.empty() ? "the end of the tag" : text) + "' is missing");
}

Status WordReader::Error(std::string_view what) const {
  const std::string word = peek().kind == WordKind::kEnd ? "at the end of the template"
                           : peek().text.empty()         ? "at the end of the tag"
                                                         : "at '" + peek().text.substr(0, 40) + "'";
  return InvalidArgument("line ", peek().line, ": ", std::string(what), ", ", word);
}

StatusOr<ExpressionPtr> ParseExpression(WordReader& words, bool with_condition) {
  Parser parser(words);
  return with_condition ? parser.Conditional() : parser.Or();
}

StatusOr<ExpressionPtr> ParseTuple(WordReader& words) {
  QUIRE_ASSIGN_OR_RETURN(ExpressionPtr first, ParseExpression(words));
  if (!words.Is(WordKind::kSign, ",")) return first;
  std::vector<ExpressionPtr> items;
  items.push_back(std::move(first));
  while (words.Accept(WordKind::kSign, ",")) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression(words));
    items.push_back(std::move(item));
  }
  return Parser::MakeList(std::move(items));
}

}  // namespace quire::worker::jinja
