// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/jinja/template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "gpuworker/text/jinja/builtins.h"
#include "gpuworker/text/jinja/expressions.h"
#include "gpuworker/text/jinja/lexer.h"

namespace quire::worker::jinja {
namespace {

constexpr int kDeepest = 64;  ///< Blocks within blocks, and calls of macros within macros.

class Text final : public Statement {
 public:
  explicit Text(std::string text) : text_(std::move(text)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    QUIRE_RETURN_IF_ERROR(frame.Print(text_));
    return Flow::kNext;
  }

 private:
  const std::string text_;
};

class Print final : public Statement {
 public:
  explicit Print(ExpressionPtr value) : value_(std::move(value)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    QUIRE_ASSIGN_OR_RETURN(const Value value, value_->Evaluate(frame));
    QUIRE_RETURN_IF_ERROR(frame.Print(value.ToText()));
    return Flow::kNext;
  }

 private:
  const ExpressionPtr value_;
};

class Jump final : public Statement {
 public:
  explicit Jump(Flow flow) : flow_(flow) {}
  StatusOr<Flow> Run(Frame&) const override { return flow_; }

 private:
  const Flow flow_;
};

/// Branches in order; the last may have no condition.
class If final : public Statement {
 public:
  void Add(ExpressionPtr condition, StatementPtr body) {
    branches_.emplace_back(std::move(condition), std::move(body));
  }
  StatusOr<Flow> Run(Frame& frame) const override {
    for (const auto& [condition, body] : branches_) {
      if (condition != nullptr) {
        QUIRE_ASSIGN_OR_RETURN(const Value holds, condition->Evaluate(frame));
        if (!holds.IsTrue()) continue;
      }
      return body->Run(frame);
    }
    return Flow::kNext;
  }

 private:
  std::vector<std::pair<ExpressionPtr, StatementPtr>> branches_;
};

/// Gives `value` to one name, or its items to several.
Status Assign(const std::vector<std::string>& names, const Value& value, Frame& frame) {
  if (names.size() == 1) {
    frame.Set(names[0], value);
    return OkStatus();
  }
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  if (items.size() != names.size()) {
    return InvalidArgument(items.size(), " values for ", names.size(), " names");
  }
  for (size_t i = 0; i < names.size(); ++i) frame.Set(names[i], items[i]);
  return OkStatus();
}

class Set final : public Statement {
 public:
  /// `attribute` of the namespace `names[0]` is set when it is not empty.
  Set(std::vector<std::string> names, std::string attribute, ExpressionPtr value)
      : names_(std::move(names)), attribute_(std::move(attribute)), value_(std::move(value)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    QUIRE_ASSIGN_OR_RETURN(Value value, value_->Evaluate(frame));
    if (attribute_.empty()) {
      QUIRE_RETURN_IF_ERROR(Assign(names_, value, frame));
      return Flow::kNext;
    }
    const Value space = frame.Find(names_[0]);
    if (space.AsNamespace() == nullptr) {
      return InvalidArgument("cannot set an attribute of ", names_[0], ", which is ", space.Kind());
    }
    space.AsNamespace()->Set(attribute_, std::move(value));
    return Flow::kNext;
  }

 private:
  const std::vector<std::string> names_;
  const std::string attribute_;
  const ExpressionPtr value_;
};

/// What a body prints.
StatusOr<std::string> Captured(const Statement& body, Frame& frame) {
  std::string outer = frame.ExchangeOutput("");
  const StatusOr<Flow> flow = body.Run(frame);
  std::string inner = frame.ExchangeOutput(std::move(outer));
  QUIRE_RETURN_IF_ERROR(flow.status());
  return inner;
}

class SetBlock final : public Statement {
 public:
  SetBlock(std::string name, StatementPtr body) : name_(std::move(name)), body_(std::move(body)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    QUIRE_ASSIGN_OR_RETURN(std::string text, Captured(*body_, frame));
    frame.Set(name_, Value::Of(std::move(text)));
    return Flow::kNext;
  }

 private:
  const std::string name_;
  const StatementPtr body_;
};

/// The variable `loop` of item `i`.
Value LoopOf(const List& items, size_t i) {
  const auto number = [](size_t n) { return Value::Of(static_cast<int64_t>(n)); };
  Dictionary loop;
  loop.Set("index", number(i + 1));
  loop.Set("index0", number(i));
  loop.Set("revindex", number(items.size() - i));
  loop.Set("revindex0", number(items.size() - i - 1));
  loop.Set("first", Value::Of(i == 0));
  loop.Set("last", Value::Of(i + 1 == items.size()));
  loop.Set("length", number(items.size()));
  loop.Set("previtem", i > 0 ? items[i - 1] : Value());
  loop.Set("nextitem", i + 1 < items.size() ? items[i + 1] : Value());
  return Value::Of(std::move(loop));
}

struct Loop {
  std::vector<std::string> names;
  ExpressionPtr items;
  ExpressionPtr condition;  ///< Null: all items.
  StatementPtr body;
  StatementPtr otherwise;  ///< When there is no item; may be null.
};

class For final : public Statement {
 public:
  explicit For(Loop loop) : loop_(std::move(loop)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    QUIRE_ASSIGN_OR_RETURN(const List items, Wanted(frame));
    if (items.empty() && loop_.otherwise != nullptr) return loop_.otherwise->Run(frame);
    for (size_t i = 0; i < items.size(); ++i) {
      frame.Enter();
      const StatusOr<Flow> flow = RunOne(items, i, frame);
      frame.Leave();
      QUIRE_RETURN_IF_ERROR(flow.status());
      if (*flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

 private:
  StatusOr<List> Wanted(Frame& frame) const {
    QUIRE_ASSIGN_OR_RETURN(const Value value, loop_.items->Evaluate(frame));
    QUIRE_ASSIGN_OR_RETURN(List items, Items(value));
    if (loop_.condition == nullptr) return items;
    List wanted;
    for (Value& item : items) {
      frame.Enter();
      const StatusOr<Value> holds = Condition(item, frame);
      frame.Leave();
      QUIRE_RETURN_IF_ERROR(holds.status());
      if (holds->IsTrue()) wanted.push_back(std::move(item));
    }
    return wanted;
  }

  StatusOr<Value> Condition(const Value& item, Frame& frame) const {
    QUIRE_RETURN_IF_ERROR(Assign(loop_.names, item, frame));
    return loop_.condition->Evaluate(frame);
  }

  StatusOr<Flow> RunOne(const List& items, size_t i, Frame& frame) const {
    QUIRE_RETURN_IF_ERROR(Assign(loop_.names, items[i], frame));
    frame.Set("loop", LoopOf(items, i));
    return loop_.body->Run(frame);
  }

  const Loop loop_;
};

struct Parameter {
  std::string name;
  ExpressionPtr absent;  ///< Null: undefined.
};

class Macro final : public Statement {
 public:
  Macro(std::string name, std::vector<Parameter> parameters, StatementPtr body)
      : name_(std::move(name)), parameters_(std::move(parameters)), body_(std::move(body)) {}
  StatusOr<Flow> Run(Frame& frame) const override {
    frame.Set(name_, Value::Of(Function([this, &frame](const Arguments& arguments) {
                return Call(arguments, frame);
              })));
    return Flow::kNext;
  }

 private:
  StatusOr<Value> Call(const Arguments& arguments, Frame& frame) const {
    QUIRE_RETURN_IF_ERROR(frame.EnterCall());
    frame.Enter();
    StatusOr<std::string> text = BindAndRun(arguments, frame);
    frame.Leave();
    frame.LeaveCall();
    QUIRE_RETURN_IF_ERROR(text.status());
    return Value::Of(*std::move(text));
  }

  StatusOr<std::string> BindAndRun(const Arguments& arguments, Frame& frame) const {
    QUIRE_RETURN_IF_ERROR(Bind(arguments, frame));
    return Captured(*body_, frame);
  }

  Status Bind(const Arguments& arguments, Frame& frame) const {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Value value = arguments.Get(i, parameters_[i].name, Value());
      if (value.IsUndefined() && parameters_[i].absent != nullptr) {
        QUIRE_ASSIGN_OR_RETURN(value, parameters_[i].absent->Evaluate(frame));
      }
      frame.Set(parameters_[i].name, std::move(value));
    }
    return OkStatus();
  }

  const std::string name_;
  const std::vector<Parameter> parameters_;
  const StatementPtr body_;
};

class TemplateParser {
 public:
  explicit TemplateParser(std::vector<Word> words) : words_(std::move(words)) {}

  StatusOr<std::unique_ptr<Body>> Whole() {
    QUIRE_ASSIGN_OR_RETURN(auto body, BodyUntil({}));
    if (!words_.Is(WordKind::kEnd)) return words_.Error("a block ends that has not begun");
    return body;
  }

 private:
  /// Statements up to a block that is named one of `ends`, whose name is the next word.
  StatusOr<std::unique_ptr<Body>> BodyUntil(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kDeepest) return words_.Error("blocks are too deep");
    auto body = std::make_unique<Body>();
    while (!words_.Is(WordKind::kEnd)) {
      if (words_.Is(WordKind::kText)) {
        body->Add(std::make_unique<Text>(words_.Take().text));
      } else if (words_.Accept(WordKind::kBeginValue)) {
        QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple(words_));
        QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kEndValue, ""));
        body->Add(std::make_unique<Print>(std::move(value)));
      } else {
        words_.Take();  // {%
        if (std::ranges::find(ends, words_.peek().text) != ends.end()) break;
        QUIRE_ASSIGN_OR_RETURN(StatementPtr block, Block());
        body->Add(std::move(block));
      }
    }
    if (words_.Is(WordKind::kEnd) && ends.size() > 0) {
      return words_.Error("a block does not end: {% " + std::string(*(ends.end() - 1)) +
                          " %} is missing");
    }
    --depth_;
    return body;
  }

  Status EndOfTag() { return words_.Expect(WordKind::kEndBlock, ""); }

  /// The end of a block, whose name is the next word.
  Status EndOfBlock() {
    words_.Take();
    return EndOfTag();
  }

  StatusOr<StatementPtr> Block() {
    const Word name = words_.peek();
    if (name.kind != WordKind::kName) return words_.Error("the name of a block is missing");
    words_.Take();
    if (name.text == "if") return IfBlock();
    if (name.text == "for") return ForBlock();
    if (name.text == "set") return SetStatement();
    if (name.text == "macro") return MacroBlock();
    if (name.text == "generation") return GenerationBlock();
    if (name.text == "break" || name.text == "continue") {
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      return std::make_unique<Jump>(name.text == "break" ? Flow::kBreak : Flow::kContinue);
    }
    return InvalidArgument("line ", name.line, ": the block ", name.text, " is not known");
  }

  StatusOr<StatementPtr> IfBlock() {
    auto branches = std::make_unique<If>();
    while (true) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseExpression(words_));
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyUntil({"elif", "else", "endif"}));
      branches->Add(std::move(condition), std::move(body));
      if (!words_.Accept(WordKind::kName, "elif")) break;
    }
    if (words_.Accept(WordKind::kName, "else")) {
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyUntil({"endif"}));
      branches->Add(nullptr, std::move(body));
    }
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return branches;
  }

  StatusOr<std::vector<std::string>> Names() {
    std::vector<std::string> names;
    const bool bracket = words_.Accept(WordKind::kSign, "(");
    do {
      if (!words_.Is(WordKind::kName)) return words_.Error("a name is missing");
      names.push_back(words_.Take().text);
    } while (words_.Accept(WordKind::kSign, ","));
    if (bracket) QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ")"));
    return names;
  }

  StatusOr<StatementPtr> ForBlock() {
    Loop loop;
    QUIRE_ASSIGN_OR_RETURN(loop.names, Names());
    QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kName, "in"));
    QUIRE_ASSIGN_OR_RETURN(loop.items, ParseExpression(words_, /*with_condition=*/false));
    if (words_.Accept(WordKind::kName, "if")) {
      QUIRE_ASSIGN_OR_RETURN(loop.condition, ParseExpression(words_));
    }
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    QUIRE_ASSIGN_OR_RETURN(loop.body, BodyUntil({"else", "endfor"}));
    if (words_.Accept(WordKind::kName, "else")) {
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      QUIRE_ASSIGN_OR_RETURN(loop.otherwise, BodyUntil({"endfor"}));
    }
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<For>(std::move(loop));
  }

  StatusOr<StatementPtr> SetStatement() {
    QUIRE_ASSIGN_OR_RETURN(std::vector<std::string> names, Names());
    std::string attribute;
    if (words_.Accept(WordKind::kSign, ".")) {
      if (!words_.Is(WordKind::kName)) return words_.Error("a name must follow the dot");
      attribute = words_.Take().text;
    }
    if (words_.Accept(WordKind::kSign, "=")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, ParseTuple(words_));
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      return std::make_unique<Set>(std::move(names), std::move(attribute), std::move(value));
    }
    if (names.size() > 1 || !attribute.empty()) return words_.Error("'=' is missing");
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyUntil({"endset"}));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<SetBlock>(std::move(names[0]), std::move(body));
  }

  StatusOr<StatementPtr> MacroBlock() {
    if (!words_.Is(WordKind::kName)) return words_.Error("the name of the macro is missing");
    std::string name = words_.Take().text;
    QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, "("));
    std::vector<Parameter> parameters;
    while (!words_.Accept(WordKind::kSign, ")")) {
      if (!words_.Is(WordKind::kName)) return words_.Error("the name of a parameter is missing");
      Parameter parameter{words_.Take().text, nullptr};
      if (words_.Accept(WordKind::kSign, "=")) {
        QUIRE_ASSIGN_OR_RETURN(parameter.absent, ParseExpression(words_));
      }
      parameters.push_back(std::move(parameter));
      if (!words_.Is(WordKind::kSign, ")"))
        QUIRE_RETURN_IF_ERROR(words_.Expect(WordKind::kSign, ","));
    }
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyUntil({"endmacro"}));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<Macro>(std::move(name), std::move(parameters), std::move(body));
  }

  /// Marks what the model has said, for training; it prints its body.
  StatusOr<StatementPtr> GenerationBlock() {
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyUntil({"endgeneration"}));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return body;
  }

  WordReader words_;
  int depth_ = 0;
};

}  // namespace

StatusOr<Template> Template::Parse(std::string_view text) {
  QUIRE_ASSIGN_OR_RETURN(std::vector<Word> words, Lex(text));
  QUIRE_ASSIGN_OR_RETURN(std::unique_ptr<Body> body, TemplateParser(std::move(words)).Whole());
  return Template(std::shared_ptr<const Statement>(std::move(body)));
}

StatusOr<std::string> Template::Render(const Dictionary& globals) const {
  Frame frame(&globals);
  QUIRE_RETURN_IF_ERROR(body_->Run(frame).status());
  return frame.ExchangeOutput("");
}

}  // namespace quire::worker::jinja
