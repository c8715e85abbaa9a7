// SPDX-License-Identifier: Apache-2.0
#include "common/documents/document_state.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

struct NamedState {
  DocumentState state;
  std::string_view name;
};

constexpr std::array<NamedState, 4> kStates = {{{DocumentState::kReady, "ready"},
                                                {DocumentState::kIngesting, "ingesting"},
                                                {DocumentState::kFailed, "failed"},
                                                {DocumentState::kExpired, "expired"}}};

}  // namespace

std::string_view StateName(DocumentState state) {
  const auto* const named = std::ranges::find(kStates, state, &NamedState::state);
  return named == kStates.end() ? "unknown" : named->name;
}

std::optional<DocumentState> StateNamed(std::string_view name) {
  const auto* const named = std::ranges::find(kStates, name, &NamedState::name);
  if (named == kStates.end()) return std::nullopt;
  return named->state;
}

}  // namespace quire
