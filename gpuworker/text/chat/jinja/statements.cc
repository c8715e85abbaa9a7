// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/chat/jinja/statements.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "gpuworker/text/chat/jinja/blocks.h"
#include "gpuworker/text/chat/jinja/expressions.h"

namespace quire::worker::jinja {
namespace {

constexpr int kMostBlocks = 32;  ///< Blocks within blocks.

class TemplateParser {
 public:
  explicit TemplateParser(WordReader words) : words_(std::move(words)) {}

  StatusOr<StatementPtr> Whole() { return BodyUntil({}, {}); }

 private:
  using Names = std::initializer_list<std::string_view>;

  /// Statements up to a block with one of the names `ends`, which is the next word then. `begin` is
  /// the block that they end.
  StatusOr<StatementPtr> BodyUntil(Names ends, Place begin) {
    if (++depth_ > kMostBlocks)
      return ErrorAt(begin, "blocks nest more than ", kMostBlocks, " deep");
    auto body = std::make_unique<Body>();
    while (!words_.Is(WordKind::kEnd)) {
      if (words_.Accept(WordKind::kBeginBlock)) {
        if (std::ranges::find(ends, words_.peek().text) != ends.end()) {
          --depth_;
          return body;
        }
        QUIRE_ASSIGN_OR_RETURN(StatementPtr block, Block());
        body->Add(std::move(block));
      } else {
        QUIRE_ASSIGN_OR_RETURN(StatementPtr shown, TextOrValue());
        body->Add(std::move(shown));
      }
    }
    if (ends.size() > 0)
      return ErrorAt(begin, "this block does not end in {% ", *(ends.end() - 1), " %}");
    --depth_;
    return body;
  }

  StatusOr<StatementPtr> TextOrValue() {
    if (words_.Is(WordKind::kText)) return std::make_unique<TextStatement>(words_.Take().text);
    words_.Take();  // {{
    QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression(words_));
    QUIRE_RETURN_IF_ERROR(words_.ExpectEndOf(WordKind::kEndValue));
    return std::make_unique<PrintStatement>(std::move(value));
  }

  Status EndOfTag() { return words_.ExpectEndOf(WordKind::kEndBlock); }

  /// The rest of a tag, and the statements up to one of `ends`.
  StatusOr<StatementPtr> BodyBehindTag(Names ends, Place begin) {
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    return BodyUntil(ends, begin);
  }

  /// The name of the ending block, and the rest of its tag.
  Status EndOfBlock() {
    words_.Take();
    return EndOfTag();
  }

  StatusOr<StatementPtr> Block() {
    const Place begin = words_.place();
    QUIRE_ASSIGN_OR_RETURN(const std::string name, words_.ExpectName("the name of a block"));
    if (name == "if") return IfBlock(begin);
    if (name == "for") return ForBlock(begin);
    if (name == "set") return SetBlock(begin);
    if (name == "macro") return MacroBlock(begin);
    if (name == "generation") return GenerationBlock(begin);
    if (name == "break") return Jump(Flow::kBreak);
    if (name == "continue") return Jump(Flow::kContinue);
    return ErrorAt(begin, "the block '", name, "' is not known here");
  }

  StatusOr<StatementPtr> Jump(Flow flow) {
    QUIRE_RETURN_IF_ERROR(EndOfTag());
    return std::make_unique<JumpStatement>(flow);
  }

  StatusOr<StatementPtr> IfBlock(Place begin) {
    auto branches = std::make_unique<IfStatement>();
    do {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr condition, ParseExpression(words_));
      QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyBehindTag({"elif", "else", "endif"}, begin));
      branches->Add(std::move(condition), std::move(body));
    } while (words_.AcceptName("elif"));
    if (words_.AcceptName("else")) {
      QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyBehindTag({"endif"}, begin));
      branches->Add(nullptr, std::move(body));
    }
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return branches;
  }

  StatusOr<std::vector<std::string>> LoopNames() {
    std::vector<std::string> names;
    const bool in_brackets = words_.AcceptSign("(");
    do {
      QUIRE_ASSIGN_OR_RETURN(std::string name, words_.ExpectName("a name for the items"));
      names.push_back(std::move(name));
    } while (words_.AcceptSign(","));
    if (in_brackets) QUIRE_RETURN_IF_ERROR(words_.ExpectSign(")"));
    return names;
  }

  StatusOr<StatementPtr> ForBlock(Place begin) {
    Loop loop{.place = begin};
    QUIRE_ASSIGN_OR_RETURN(loop.names, LoopNames());
    if (!words_.AcceptName("in")) return words_.Missing("'in'");
    QUIRE_ASSIGN_OR_RETURN(loop.items, ParseUnconditional(words_));
    if (words_.AcceptName("if")) {
      QUIRE_ASSIGN_OR_RETURN(loop.condition, ParseExpression(words_));
    }
    QUIRE_ASSIGN_OR_RETURN(loop.body, BodyBehindTag({"else", "endfor"}, begin));
    if (words_.AcceptName("else")) {
      QUIRE_ASSIGN_OR_RETURN(loop.otherwise, BodyBehindTag({"endfor"}, begin));
    }
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<ForStatement>(std::move(loop));
  }

  StatusOr<StatementPtr> SetBlock(Place begin) {
    QUIRE_ASSIGN_OR_RETURN(std::string name, words_.ExpectName("the name of a variable"));
    std::string attribute;
    if (words_.AcceptSign(".")) {
      QUIRE_ASSIGN_OR_RETURN(attribute, words_.ExpectName("a name after the dot"));
    }
    if (words_.AcceptSign("=")) {
      QUIRE_ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression(words_));
      QUIRE_RETURN_IF_ERROR(EndOfTag());
      return std::make_unique<SetStatement>(begin, std::move(name), std::move(attribute),
                                            std::move(value));
    }
    if (!attribute.empty()) return words_.Missing("'='");
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyBehindTag({"endset"}, begin));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<SetTextStatement>(std::move(name), std::move(body));
  }

  StatusOr<Parameter> MacroParameter() {
    Parameter parameter;
    QUIRE_ASSIGN_OR_RETURN(parameter.name, words_.ExpectName("the name of a parameter"));
    if (words_.AcceptSign("=")) {
      QUIRE_ASSIGN_OR_RETURN(parameter.absent, ParseExpression(words_));
    }
    if (!words_.Is(WordKind::kSign, ")")) QUIRE_RETURN_IF_ERROR(words_.ExpectSign(","));
    return parameter;
  }

  StatusOr<StatementPtr> MacroBlock(Place begin) {
    QUIRE_ASSIGN_OR_RETURN(std::string name, words_.ExpectName("the name of a macro"));
    QUIRE_RETURN_IF_ERROR(words_.ExpectSign("("));
    std::vector<Parameter> parameters;
    while (!words_.AcceptSign(")")) {
      QUIRE_ASSIGN_OR_RETURN(Parameter parameter, MacroParameter());
      parameters.push_back(std::move(parameter));
    }
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyBehindTag({"endmacro"}, begin));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return std::make_unique<MacroStatement>(std::move(name), std::move(parameters),
                                            std::move(body));
  }

  /// Marks the model's words for training, and prints its body.
  StatusOr<StatementPtr> GenerationBlock(Place begin) {
    QUIRE_ASSIGN_OR_RETURN(StatementPtr body, BodyBehindTag({"endgeneration"}, begin));
    QUIRE_RETURN_IF_ERROR(EndOfBlock());
    return body;
  }

  WordReader words_;
  int depth_ = 0;
};

}  // namespace

StatusOr<StatementPtr> ParseTemplate(WordReader words) {
  return TemplateParser(std::move(words)).Whole();
}

}  // namespace quire::worker::jinja
