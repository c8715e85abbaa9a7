// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "gpuworker/text/hf/new_characters.h"

namespace quire::worker {
namespace {

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

std::string ErrorText(int error) {
  std::array<PCRE2_UCHAR, 160> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

/// Rewrites an expression for PCRE2 where Oniguruma means more characters: U+0085 is white space,
/// and categories have what Unicode 15 and 16 added.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  std::string Translate() {
    while (!rest_.empty()) {
      if (rest_.starts_with('\\') && rest_.size() > 1) {
        Escape();
        continue;
      }
      if (rest_[0] == '[') in_class_ = true;
      if (rest_[0] == ']') in_class_ = false;
      Copy(1);
    }
    return std::move(out_);
  }

 private:
  void Copy(size_t bytes) {
    out_ += rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
  }

  void Escape() {
    const char kind = rest_[1];
    const size_t brace = rest_.find('}');
    if (kind == 's' || kind == 'S') {
      Widen(2, kind == 'S', "\\s", "\\x{85}");
    } else if ((kind == 'p' || kind == 'P') && rest_.substr(2).starts_with('{') &&
               brace != rest_.npos) {
      const std::string category(rest_.substr(3, brace - 3));
      Widen(brace + 1, kind == 'P', "\\p{" + category + "}", NewCharacters(category));
    } else {
      Copy(2);
    }
  }

  /// Puts `set` together with `more` in the place of the next `bytes`, or what is in neither.
  void Widen(size_t bytes, bool negated, const std::string& set, const std::string& more) {
    if (more.empty() || (negated && in_class_)) {
      Copy(bytes);
      return;
    }
    rest_.remove_prefix(bytes);
    if (in_class_) {
      out_ += set + more;
    } else {
      out_ += (negated ? "[^" : "[") + set + more + "]";
    }
  }

  std::string_view rest_;
  std::string out_;
  bool in_class_ = false;
};

/// Bytes of the character at `offset`, for stepping over an empty match.
size_t CharacterLength(std::string_view text, size_t offset) {
  size_t end = offset + 1;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
  return end - offset;
}

}  // namespace

struct Regex::Code {
  std::string literal;  ///< Set instead of `compiled` by Literal.
  std::unique_ptr<pcre2_code, FreeCode> compiled;
};

StatusOr<Regex> Regex::Compile(std::string_view pattern) {
  const std::string text = Translator(pattern).Translate();
  int error = 0;
  size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->compiled.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr));
  if (code->compiled == nullptr) {
    return InvalidArgument("the regular expression ", std::string(pattern), " is wrong near byte ",
                           offset, ": ", ErrorText(error));
  }
  pcre2_jit_compile(code->compiled.get(),
                    PCRE2_JIT_COMPLETE);  // Where it cannot, PCRE2 interprets.
  return Regex(std::move(code));
}

Regex Regex::Literal(std::string_view text) {
  auto code = std::make_shared<Code>();
  code->literal = text;
  return Regex(std::move(code));
}

Status Regex::ForEach(std::string_view text, const Match& match) const {
  if (code_->compiled == nullptr) {
    for (size_t at = 0; (at = text.find(code_->literal, at)) != text.npos;
         at += code_->literal.size()) {
      match(at, at + code_->literal.size());
    }
    return OkStatus();
  }
  const std::unique_ptr<pcre2_match_data, FreeMatch> found(
      pcre2_match_data_create_from_pattern(code_->compiled.get(), nullptr));
  const size_t* const bounds = pcre2_get_ovector_pointer(found.get());
  size_t at = 0;
  while (at <= text.size()) {
    const int count = pcre2_match(code_->compiled.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), at, PCRE2_NO_UTF_CHECK, found.get(), nullptr);
    if (count == PCRE2_ERROR_NOMATCH) break;
    if (count < 0)
      return InvalidArgument("the regular expression gave up at byte ", at, ": ", ErrorText(count));
    match(bounds[0], bounds[1]);
    at = bounds[1];
    if (bounds[0] == bounds[1]) at += CharacterLength(text, at);
  }
  return OkStatus();
}

}  // namespace quire::worker
