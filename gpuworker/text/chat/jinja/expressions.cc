// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/expressions.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <memory>
#include <string>

#include "gpuworker/text/chat/jinja/builtins.h"
#include "gpuworker/text/chat/jinja/methods.h"
#include "gpuworker/text/chat/jinja/operators.h"

namespace quire::worker::jinja {
namespace {

constexpr int kDeepest = 50;  ///< Brackets within brackets.

/// An expression that a function computes.
template <typename Body>
class Computed final : public Expression {
 public:
  Computed(Place place, Body body) : Expression(place), body_(std::move(body)) {}

 private:
  StatusOr<Value> Compute(Frame& frame) const override { return body_(frame); }

  const Body body_;
};

template <typename Body>
ExpressionPtr Make(Place place, Body body) {
  return std::make_unique<const Computed<Body>>(place, std::move(body));
}

ExpressionPtr Constant(Place place, Value value) {
  return Make(place, [value = std::move(value)](Frame&) -> StatusOr<Value> { return value; });
}

/// An expression over the value of another one.
template <typename Map>
ExpressionPtr MakeUnary(Place place, ExpressionPtr value, Map map) {
  return Make(place, [value = std::move(value), map](Frame& frame) -> StatusOr<Value> {
    QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
    return map(held);
  });
}

template <typename Combination>
ExpressionPtr MakeBinary(Place place, ExpressionPtr left, ExpressionPtr right,
                         Combination combination) {
  return Make(place,
              [left = std::move(left), right = std::move(right),
               combination](Frame& frame) -> StatusOr<Value> {
                QUIRE_ASSIGN_OR_RETURN(const Value first, left->Evaluate(frame));
                QUIRE_ASSIGN_OR_RETURN(const Value second, right->Evaluate(frame));
                return combination(first, second);
              });
}

ExpressionPtr Negated(Place place, ExpressionPtr value) {
  return MakeUnary(place, std::move(value),
                   [](const Value& held) -> StatusOr<Value> { return Value::Of(!held.IsTrue()); });
}

/// Arguments of a call, not evaluated yet.
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

/// An expression over the value of another one and arguments.
template <typename Apply>
ExpressionPtr MakeCall(Place place, ExpressionPtr value, Call call, Apply apply) {
  return Make(
      place,
      [value = std::move(value), call = std::move(call), apply](Frame& frame) -> StatusOr<Value> {
        QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
        QUIRE_ASSIGN_OR_RETURN(const Arguments arguments, call.Evaluate(frame));
        return apply(held, arguments);
      });
}

StatusOr<Value> CallFunction(const Value& function, const Arguments& arguments) {
  if (function.AsFunction() != nullptr) return (*function.AsFunction())(arguments);
  return InvalidArgument("a call of ", function.Kind(), ", where a function is needed");
}

/// Jinja has none and None, true and True, false and False.
std::string Lowered(const std::string& name) {
  const bool has_two = name == "None" || name == "True" || name == "False";
  return has_two ? Lower(name) : name;
}

class Parser {
 public:
  explicit Parser(WordReader& words) : words_(words) {}

  StatusOr<ExpressionPtr> Conditional() {
    const Place place = words_.place();
    if (++depth_ > kDeepest) return ErrorAt(place, "brackets nest more than ", kDeepest, " deep");
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Or());
    if (words_.AcceptName("if")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr condition, Or());
      ExpressionPtr otherwise = Constant(place, Value());
      if (words_.AcceptName("else")) {
        QUIRE_ASSIGN_OR_RETURN(otherwise, Conditional());
      }
      value = Make(place,
                   [value = std::move(value), condition = std::move(condition),
                    otherwise = std::move(otherwise)](Frame& frame) -> StatusOr<Value> {
                     QUIRE_ASSIGN_OR_RETURN(const Value holds, condition->Evaluate(frame));
                     return holds.IsTrue() ? value->Evaluate(frame) : otherwise->Evaluate(frame);
                   });
    }
    --depth_;
    return value;
  }

  StatusOr<ExpressionPtr> Or() { return Joined("or", &Parser::And, true); }

 private:
  using Rule = StatusOr<ExpressionPtr> (Parser::*)();

  /// Operands of `or` and `and`. The value is the first one whose truth is `last`, or the last one.
  StatusOr<ExpressionPtr> Joined(std::string_view name, Rule operand, bool last) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
    while (words_.Is(WordKind::kName, name)) {
      const Place place = words_.Take().place;
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
      left = Make(place,
                  [left = std::move(left), right = std::move(right),
                   last](Frame& frame) -> StatusOr<Value> {
                    QUIRE_ASSIGN_OR_RETURN(Value value, left->Evaluate(frame));
                    if (value.IsTrue() == last) return value;
                    return right->Evaluate(frame);
                  });
    }
    return left;
  }

  StatusOr<ExpressionPtr> And() { return Joined("and", &Parser::Not, false); }

  StatusOr<ExpressionPtr> Not() {
    const Place place = words_.place();
    bool negated = false, any = false;
    while (words_.AcceptName("not")) {
      negated = !negated;
      any = true;
    }
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Comparison());
    if (!any) return value;
    if (negated) return Negated(place, std::move(value));
    return Negated(place, Negated(place, std::move(value)));
  }

  StatusOr<ExpressionPtr> Comparison() {
    static constexpr std::array<std::string_view, 6> kSigns = {"==", "!=", "<=", ">=", "<", ">"};
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, Sum());
    const Word word = words_.peek();
    if (word.kind == WordKind::kSign && std::ranges::find(kSigns, word.text) != kSigns.end()) {
      words_.Take();
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, Sum());
      left = MakeBinary(
          word.place, std::move(left), std::move(right),
          [sign = word.text](const Value& a, const Value& b) { return Compare(sign, a, b); });
    } else if (words_.Is(WordKind::kName, "in") || IsNotIn()) {
      QUIRE_ASSIGN_OR_RETURN(left, Membership(std::move(left)));
    }
    if (words_.Is(WordKind::kSign) && std::ranges::find(kSigns, words_.peek().text) != kSigns.end())
      return ErrorAt(words_.place(), "a comparison of a comparison; write `and` or brackets");
    return left;
  }

  bool IsNotIn() const {
    return words_.Is(WordKind::kName, "not") && words_.IsSecond(WordKind::kName, "in");
  }

  StatusOr<ExpressionPtr> Membership(ExpressionPtr item) {
    const Place place = words_.place();
    const bool negated = words_.AcceptName("not");
    words_.Take();  // in
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Sum());
    return MakeBinary(place, std::move(item), std::move(value),
                      [negated](const Value& held, const Value& in) -> StatusOr<Value> {
                        QUIRE_ASSIGN_OR_RETURN(const bool contains, Contains(in, held));
                        return Value::Of(contains != negated);
                      });
  }

  /// Operands with one of `signs` between them.
  StatusOr<ExpressionPtr> Chain(std::initializer_list<std::string_view> signs, Rule operand) {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr left, (this->*operand)());
    while (words_.Is(WordKind::kSign) &&
           std::ranges::find(signs, words_.peek().text) != signs.end()) {
      const Word sign = words_.Take();
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr right, (this->*operand)());
      left = MakeBinary(
          sign.place, std::move(left), std::move(right),
          [sign = sign.text](const Value& a, const Value& b) { return Combine(sign, a, b); });
    }
    return left;
  }

  StatusOr<ExpressionPtr> Sum() { return Chain({"+", "-"}, &Parser::Concatenation); }
  StatusOr<ExpressionPtr> Concatenation() { return Chain({"~"}, &Parser::Product); }
  StatusOr<ExpressionPtr> Product() { return Chain({"*", "//", "%"}, &Parser::Signed); }

  StatusOr<ExpressionPtr> Signed() {
    const Place place = words_.place();
    if (!words_.AcceptSign("-")) return Operand();
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Operand());
    return MakeUnary(place, std::move(value),
                     [](const Value& held) { return Combine("-", Value::Of(int64_t{0}), held); });
  }

  /// A primary with its attributes, subscripts, calls, filters and tests.
  StatusOr<ExpressionPtr> Operand() {
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Primary());
    while (true) {
      const Place place = words_.place();
      if (words_.AcceptSign(".")) {
        QUIRE_ASSIGN_OR_RETURN(value, AttributeOf(std::move(value)));
      } else if (words_.AcceptSign("[")) {
        QUIRE_ASSIGN_OR_RETURN(value, Subscript(place, std::move(value)));
      } else if (words_.AcceptSign("(")) {
        QUIRE_ASSIGN_OR_RETURN(Call call, RestOfCall());
        value = MakeCall(place, std::move(value), std::move(call), CallFunction);
      } else if (words_.AcceptSign("|")) {
        QUIRE_ASSIGN_OR_RETURN(value, Filtered(std::move(value)));
      } else if (words_.AcceptName("is")) {
        QUIRE_ASSIGN_OR_RETURN(value, Tested(std::move(value)));
      } else {
        return value;
      }
    }
  }

  /// An attribute, or the call of a method.
  StatusOr<ExpressionPtr> AttributeOf(ExpressionPtr value) {
    const Place place = words_.place();
    QUIRE_ASSIGN_OR_RETURN(const std::string name, words_.ExpectName("a name after the dot"));
    if (!words_.AcceptSign("(")) {
      return MakeUnary(place, std::move(value),
                       [name](const Value& held) { return Attribute(held, name); });
    }
    QUIRE_ASSIGN_OR_RETURN(Call call, RestOfCall());
    return MakeCall(place, std::move(value), std::move(call),
                    [name](const Value& held, const Arguments& arguments) {
                      return CallMethod(held, name, arguments);
                    });
  }

  StatusOr<ExpressionPtr> Subscript(Place place, ExpressionPtr value) {
    std::array<ExpressionPtr, 3> bounds;
    size_t colons = 0;
    while (!words_.AcceptSign("]")) {
      if (words_.Is(WordKind::kSign, ":") && colons + 1 < bounds.size()) {
        words_.Take();
        ++colons;
      } else if (bounds[colons] == nullptr) {
        QUIRE_ASSIGN_OR_RETURN(bounds[colons], Conditional());
      } else {
        return words_.Missing("']'");
      }
    }
    if (colons == 0 && bounds[0] == nullptr) return words_.Missing("an index");
    for (ExpressionPtr& bound : bounds) {
      if (bound == nullptr) bound = Constant(place, Value());
    }
    return Make(place,
                [value = std::move(value), bounds = std::move(bounds),
                 is_slice = colons > 0](Frame& frame) -> StatusOr<Value> {
                  QUIRE_ASSIGN_OR_RETURN(const Value held, value->Evaluate(frame));
                  std::array<Value, 3> places;
                  for (size_t i = 0; i < places.size(); ++i) {
                    QUIRE_ASSIGN_OR_RETURN(places[i], bounds[i]->Evaluate(frame));
                  }
                  return is_slice ? Slice(held, places) : Item(held, places[0]);
                });
  }

  /// Arguments behind "(".
  StatusOr<Call> RestOfCall() {
    Call call;
    while (!words_.AcceptSign(")")) {
      std::string name;
      if (words_.Is(WordKind::kName) && words_.IsSecond(WordKind::kSign, "=")) {
        name = words_.Take().text;
        words_.Take();
      }
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
      if (name.empty()) {
        call.positional.push_back(std::move(value));
      } else {
        call.named.emplace_back(name, std::move(value));
      }
      QUIRE_RETURN_IF_ERROR(CommaBefore(")"));
    }
    return call;
  }

  Status CommaBefore(std::string_view close) {
    return words_.Is(WordKind::kSign, close) ? OkStatus() : words_.ExpectSign(",");
  }

  StatusOr<ExpressionPtr> Filtered(ExpressionPtr value) {
    const Place place = words_.place();
    QUIRE_ASSIGN_OR_RETURN(const std::string name, words_.ExpectName("a filter"));
    const Filter filter = FindFilter(name);
    if (filter == nullptr) return ErrorAt(place, "the filter '", name, "' is not known");
    Call call;
    if (words_.AcceptSign("(")) {
      QUIRE_ASSIGN_OR_RETURN(call, RestOfCall());
    }
    return MakeCall(place, std::move(value), std::move(call), filter);
  }

  StatusOr<ExpressionPtr> Tested(ExpressionPtr value) {
    const bool negated = words_.AcceptName("not");
    const Place place = words_.place();
    QUIRE_ASSIGN_OR_RETURN(std::string name, words_.ExpectName("a test"));
    name = Lowered(name);
    const Test test = FindTest(name);
    if (test == nullptr) return ErrorAt(place, "the test '", name, "' is not known");
    Call call;
    if (words_.AcceptSign("(")) {
      QUIRE_ASSIGN_OR_RETURN(call, RestOfCall());
    } else if (TakesArgument(name)) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr argument, Primary());
      call.positional.push_back(std::move(argument));
    }
    return MakeCall(place, std::move(value), std::move(call),
                    [test, negated](const Value& held, const Arguments& args) -> StatusOr<Value> {
                      return Value::Of(test(held, args) != negated);
                    });
  }

  StatusOr<ExpressionPtr> Primary() {
    const Place place = words_.place();
    if (words_.Is(WordKind::kString)) return Strings(place);
    if (words_.Is(WordKind::kInteger)) return Integer(place);
    if (words_.Is(WordKind::kName)) return Variable(place, Lowered(words_.Take().text));
    if (words_.AcceptSign("(")) return Bracketed(place);
    if (words_.AcceptSign("[")) return RestOfList(place, {}, "]");
    if (words_.AcceptSign("{")) return RestOfDictionary(place);
    return words_.Missing("an expression");
  }

  /// Strings one after another are one.
  ExpressionPtr Strings(Place place) {
    std::string text;
    while (words_.Is(WordKind::kString)) text += words_.Take().text;
    return Constant(place, Value::Of(std::move(text)));
  }

  StatusOr<ExpressionPtr> Integer(Place place) {
    const std::string digits = words_.Take().text;
    int64_t number = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (read.ec != std::errc()) return ErrorAt(place, "the number ", digits, " is past 64 bits");
    return Constant(place, Value::Of(number));
  }

  static ExpressionPtr Variable(Place place, const std::string& name) {
    if (name == "none") return Constant(place, Value::None());
    if (name == "true" || name == "false") return Constant(place, Value::Of(name == "true"));
    return Make(place, [name](Frame& frame) -> StatusOr<Value> { return frame.Find(name); });
  }

  /// An expression in round brackets, or a tuple.
  StatusOr<ExpressionPtr> Bracketed(Place place) {
    if (words_.AcceptSign(")")) return Constant(place, Value::Of(List()));
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
    if (words_.AcceptSign(")")) return value;
    QUIRE_RETURN_IF_ERROR(words_.ExpectSign(","));
    std::vector<ExpressionPtr> items;
    items.push_back(std::move(value));
    return RestOfList(place, std::move(items), ")");
  }

  StatusOr<ExpressionPtr> RestOfList(Place place, std::vector<ExpressionPtr> items,
                                     std::string_view close) {
    while (!words_.AcceptSign(close)) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr item, Conditional());
      items.push_back(std::move(item));
      QUIRE_RETURN_IF_ERROR(CommaBefore(close));
    }
    return Make(place, [items = std::move(items)](Frame& frame) -> StatusOr<Value> {
      List list;
      for (const ExpressionPtr& item : items) {
        QUIRE_ASSIGN_OR_RETURN(Value value, item->Evaluate(frame));
        list.push_back(std::move(value));
      }
      return Value::Of(std::move(list));
    });
  }

  StatusOr<ExpressionPtr> RestOfDictionary(Place place) {
    std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
    while (!words_.AcceptSign("}")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr key, Conditional());
      QUIRE_RETURN_IF_ERROR(words_.ExpectSign(":"));
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, Conditional());
      entries.emplace_back(std::move(key), std::move(value));
      QUIRE_RETURN_IF_ERROR(CommaBefore("}"));
    }
    return Make(place, [entries = std::move(entries)](Frame& frame) -> StatusOr<Value> {
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

StatusOr<ExpressionPtr> ParseExpression(WordReader& words) { return Parser(words).Conditional(); }

StatusOr<ExpressionPtr> ParseUnconditional(WordReader& words) { return Parser(words).Or(); }

}  // namespace quire::worker::jinja
