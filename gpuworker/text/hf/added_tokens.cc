// SPDX-License-Identifier: Apache-2.0
#include "gpuworker/text/hf/added_tokens.h"

#include <algorithm>

#include "gpuworker/text/hf/unicode.h"

namespace quire::worker {
namespace {

/// No character of a word touches the bytes [begin, end) of `text`.
bool StandsAlone(std::string_view text, size_t begin, size_t end) {
  return (begin == 0 || !IsWordCharacter(LastCharacter(text.substr(0, begin)).code)) &&
         (end == text.size() || !IsWordCharacter(FirstCharacter(text.substr(end)).code));
}

size_t BeginOfSpaceBefore(std::string_view text, size_t begin) {
  while (begin > 0) {
    const auto [code, bytes] = LastCharacter(text.substr(0, begin));
    if (!IsWhiteSpace(code)) break;
    begin -= bytes;
  }
  return begin;
}

size_t EndOfSpaceAfter(std::string_view text, size_t end) {
  while (end < text.size()) {
    const auto [code, bytes] = FirstCharacter(text.substr(end));
    if (!IsWhiteSpace(code)) break;
    end += bytes;
  }
  return end;
}

}  // namespace

void AddedTokenFinder::Add(const std::string& text, const AddedToken& token) {
  tokens_[text] = token;
  begins_[static_cast<unsigned char>(text[0])] = true;
  if (std::ranges::find(sizes_, text.size()) != sizes_.end()) return;
  sizes_.push_back(text.size());
  std::ranges::sort(sizes_, std::greater<>());
}

const AddedToken* AddedTokenFinder::At(std::string_view text, size_t* bytes) const {
  if (!begins_[static_cast<unsigned char>(text[0])]) return nullptr;
  for (const size_t size : sizes_) {
    if (size > text.size()) continue;
    const auto found = tokens_.find(text.substr(0, size));
    if (found == tokens_.end()) continue;
    *bytes = size;
    return &found->second;
  }
  return nullptr;
}

std::vector<TextSpan> AddedTokenFinder::Divide(std::string_view text) const {
  std::vector<TextSpan> spans;
  size_t covered = 0;
  size_t bytes = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* const token = At(text.substr(at), &bytes);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + bytes;
    at = end;  // Matches do not overlap, whether they count or not.
    if (token->single_word && !StandsAlone(text, begin, end)) continue;
    if (token->lstrip) begin = std::max(BeginOfSpaceBefore(text, begin), covered);
    if (token->rstrip) end = EndOfSpaceAfter(text, end);
    if (begin > covered) spans.push_back({std::nullopt, text.substr(covered, begin - covered)});
    spans.push_back({token->id, text.substr(begin, end - begin)});
    covered = end;
  }
  if (covered < text.size()) spans.push_back({std::nullopt, text.substr(covered)});
  return spans;
}

}  // namespace quire::worker
