// SPDX-License-Identifier: Apache-2.0
//
// Statements of a template. Thread-safety: const use is safe, with a frame for each thread.
#ifndef QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BLOCKS_H_
#define QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BLOCKS_H_

#include <string>
#include <utility>
#include <vector>

#include "gpuworker/text/chat/jinja/node.h"
#include "gpuworker/text/chat/jinja/value.h"
#include "quire/status.h"

namespace quire::worker::jinja {

/// Statements in order, until one says kContinue or kBreak.
class Body final : public Statement {
 public:
  void Add(StatementPtr statement) { statements_.push_back(std::move(statement)); }
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  std::vector<StatementPtr> statements_;
};

class TextStatement final : public Statement {
 public:
  explicit TextStatement(std::string text) : text_(std::move(text)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  const std::string text_;
};

class PrintStatement final : public Statement {
 public:
  explicit PrintStatement(ExpressionPtr value) : value_(std::move(value)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  const ExpressionPtr value_;
};

/// break and continue
class JumpStatement final : public Statement {
 public:
  explicit JumpStatement(Flow flow) : flow_(flow) {}
  StatusOr<Flow> Run(Frame&) const override { return flow_; }

 private:
  const Flow flow_;
};

class IfStatement final : public Statement {
 public:
  /// The last branch may have no condition.
  void Add(ExpressionPtr condition, StatementPtr body) {
    branches_.emplace_back(std::move(condition), std::move(body));
  }
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  std::vector<std::pair<ExpressionPtr, StatementPtr>> branches_;
};

/// {% set name = value %}, and {% set name.attribute = value %} of a namespace.
class SetStatement final : public Statement {
 public:
  SetStatement(Place place, std::string name, std::string attribute, ExpressionPtr value)
      : place_(place),
        name_(std::move(name)),
        attribute_(std::move(attribute)),
        value_(std::move(value)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  const Place place_;
  const std::string name_;
  const std::string attribute_;  ///< Empty: the variable itself.
  const ExpressionPtr value_;
};

/// {% set name %} text {% endset %}
class SetTextStatement final : public Statement {
 public:
  SetTextStatement(std::string name, StatementPtr body)
      : name_(std::move(name)), body_(std::move(body)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  const std::string name_;
  const StatementPtr body_;
};

struct Loop {
  Place place;
  std::vector<std::string> names;
  ExpressionPtr items;
  ExpressionPtr condition;  ///< Null: all items.
  StatementPtr body;
  StatementPtr otherwise;  ///< For a loop without items; may be null.
};

class ForStatement final : public Statement {
 public:
  explicit ForStatement(Loop loop) : loop_(std::move(loop)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  /// Items that fulfil the condition.
  StatusOr<List> Wanted(Frame& frame) const;
  StatusOr<bool> IsWanted(const Value& item, Frame& frame) const;
  StatusOr<Flow> RunOne(const List& items, size_t i, Frame& frame) const;
  /// Gives the item to the loop's name, or its items to the names.
  Status Assign(const Value& item, Frame& frame) const;

  const Loop loop_;
};

struct Parameter {
  std::string name;
  ExpressionPtr absent;  ///< Null: undefined.
};

/// Sets a function that returns the text of a body.
class MacroStatement final : public Statement {
 public:
  MacroStatement(std::string name, std::vector<Parameter> parameters, StatementPtr body)
      : name_(std::move(name)), parameters_(std::move(parameters)), body_(std::move(body)) {}
  StatusOr<Flow> Run(Frame& frame) const override;

 private:
  StatusOr<Value> Call(const Arguments& arguments, Frame& frame) const;
  Status Bind(const Arguments& arguments, Frame& frame) const;

  const std::string name_;
  const std::vector<Parameter> parameters_;
  const StatementPtr body_;
};

}  // namespace quire::worker::jinja

#endif  // QUIRE_GPUWORKER_TEXT_CHAT_JINJA_BLOCKS_H_
