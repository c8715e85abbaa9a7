// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/blocks.h"

#include "gpuworker/text/chat/jinja/operators.h"

namespace quire::worker::jinja {
namespace {

/// The output of a body.
StatusOr<Value> Captured(const Statement& body, Frame& frame) {
  std::string outer = frame.ExchangeOutput("");
  const StatusOr<Flow> flow = body.Run(frame);
  std::string inner = frame.ExchangeOutput(std::move(outer));
  QUIRE_RETURN_IF_ERROR(flow.status());
  return Value::Of(std::move(inner));
}

/// The variable `loop` at item `i`.
Value LoopVariable(const List& items, size_t i) {
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

}  // namespace

StatusOr<Flow> Body::Run(Frame& frame) const {
  for (const StatementPtr& statement : statements_) {
    const Status may_run = frame.EnterStep();
    const StatusOr<Flow> flow = may_run.ok() ? statement->Run(frame) : StatusOr<Flow>(may_run);
    frame.LeaveStep();
    QUIRE_RETURN_IF_ERROR(flow.status());
    if (*flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

StatusOr<Flow> TextStatement::Run(Frame& frame) const {
  QUIRE_RETURN_IF_ERROR(frame.Print(text_));
  return Flow::kNext;
}

StatusOr<Flow> PrintStatement::Run(Frame& frame) const {
  QUIRE_ASSIGN_OR_RETURN(const Value value, value_->Evaluate(frame));
  QUIRE_RETURN_IF_ERROR(frame.Print(value.ToText()));
  return Flow::kNext;
}

StatusOr<Flow> IfStatement::Run(Frame& frame) const {
  for (const auto& [condition, body] : branches_) {
    if (condition != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(const Value holds, condition->Evaluate(frame));
      if (!holds.IsTrue()) continue;
    }
    return body->Run(frame);
  }
  return Flow::kNext;
}

StatusOr<Flow> SetStatement::Run(Frame& frame) const {
  QUIRE_ASSIGN_OR_RETURN(Value value, value_->Evaluate(frame));
  if (attribute_.empty()) {
    frame.Set(name_, std::move(value));
    return Flow::kNext;
  }
  const Value space = frame.Find(name_);
  if (space.AsNamespace() == nullptr) {
    frame.NoteError(place_);
    return InvalidArgument("'", name_, "' is ", space.Kind(), ", not a namespace");
  }
  space.AsNamespace()->Set(attribute_, std::move(value));
  return Flow::kNext;
}

StatusOr<Flow> SetTextStatement::Run(Frame& frame) const {
  QUIRE_ASSIGN_OR_RETURN(Value text, Captured(*body_, frame));
  QUIRE_RETURN_IF_ERROR(frame.Admit(text));
  frame.Set(name_, std::move(text));
  return Flow::kNext;
}

Status ForStatement::Assign(const Value& item, Frame& frame) const {
  if (loop_.names.size() == 1) {
    frame.Set(loop_.names[0], item);
    return OkStatus();
  }
  QUIRE_ASSIGN_OR_RETURN(const List parts, Items(item));
  if (parts.size() != loop_.names.size())
    return InvalidArgument(parts.size(), " values for ", loop_.names.size(), " names");
  for (size_t i = 0; i < parts.size(); ++i) frame.Set(loop_.names[i], parts[i]);
  return OkStatus();
}

StatusOr<bool> ForStatement::IsWanted(const Value& item, Frame& frame) const {
  QUIRE_RETURN_IF_ERROR(Assign(item, frame));
  QUIRE_ASSIGN_OR_RETURN(const Value holds, loop_.condition->Evaluate(frame));
  return holds.IsTrue();
}

StatusOr<List> ForStatement::Wanted(Frame& frame) const {
  QUIRE_ASSIGN_OR_RETURN(const Value value, loop_.items->Evaluate(frame));
  QUIRE_ASSIGN_OR_RETURN(const List items, Items(value));
  if (loop_.condition == nullptr) return items;
  List wanted;
  for (const Value& item : items) {
    frame.EnterScope();
    const StatusOr<bool> is_wanted = IsWanted(item, frame);
    frame.LeaveScope();
    QUIRE_RETURN_IF_ERROR(is_wanted.status());
    if (*is_wanted) wanted.push_back(item);
  }
  return wanted;
}

StatusOr<Flow> ForStatement::RunOne(const List& items, size_t i, Frame& frame) const {
  QUIRE_RETURN_IF_ERROR(frame.CountRound());
  QUIRE_RETURN_IF_ERROR(Assign(items[i], frame));
  frame.Set("loop", LoopVariable(items, i));
  return loop_.body->Run(frame);
}

StatusOr<Flow> ForStatement::Run(Frame& frame) const {
  const StatusOr<List> items = Wanted(frame);
  if (!items.ok()) frame.NoteError(loop_.place);
  QUIRE_RETURN_IF_ERROR(items.status());
  if (items->empty() && loop_.otherwise != nullptr) return loop_.otherwise->Run(frame);
  for (size_t i = 0; i < items->size(); ++i) {
    frame.EnterScope();
    const StatusOr<Flow> flow = RunOne(*items, i, frame);
    frame.LeaveScope();
    if (!flow.ok()) frame.NoteError(loop_.place);
    QUIRE_RETURN_IF_ERROR(flow.status());
    if (*flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

StatusOr<Flow> MacroStatement::Run(Frame& frame) const {
  frame.Set(name_, Value::Of(Function([this, &frame](const Arguments& arguments) {
              frame.EnterScope();
              StatusOr<Value> text = Call(arguments, frame);
              frame.LeaveScope();
              return text;
            })));
  return Flow::kNext;
}

StatusOr<Value> MacroStatement::Call(const Arguments& arguments, Frame& frame) const {
  QUIRE_RETURN_IF_ERROR(Bind(arguments, frame));
  return Captured(*body_, frame);
}

Status MacroStatement::Bind(const Arguments& arguments, Frame& frame) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Value value = arguments.Get(i, parameters_[i].name);
    if (value.IsUndefined() && parameters_[i].absent != nullptr) {
      QUIRE_ASSIGN_OR_RETURN(value, parameters_[i].absent->Evaluate(frame));
    }
    frame.Set(parameters_[i].name, std::move(value));
  }
  return OkStatus();
}

}  // namespace quire::worker::jinja
