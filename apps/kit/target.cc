// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/target.h"

#include <charconv>

#include "common/wire/convert.h"

namespace quire::cli {
namespace {

/// Splits "NAME@VERSION", the version written as FormatName writes it; nullopt for other texts.
std::optional<std::pair<std::string_view, uint64_t>> SplitVersion(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at + 1);
  uint64_t version = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  if (parsed.ec != std::errc() || std::to_string(version) != digits) return std::nullopt;
  return std::pair(text.substr(0, at), version);
}

}  // namespace

Status CheckDocumentName(const DocumentName& name) {
  QUIRE_RETURN_IF_ERROR(wire::CheckCollection(name.collection));
  return wire::CheckName(name.name, "name");
}

StatusOr<Readings<DocumentName>> ParseDocumentName(std::string_view text,
                                                   std::string_view collection) {
  const size_t slash = text.find('/');
  const bool qualified = slash != std::string_view::npos;
  const std::string_view rest = qualified ? text.substr(slash + 1) : text;
  const DocumentName whole{
      .collection = std::string(qualified ? text.substr(0, slash) : collection),
      .name = std::string(rest)};
  const auto split = SplitVersion(rest);
  if (!split || split->first.empty()) {
    QUIRE_RETURN_IF_ERROR(Annotate(CheckDocumentName(whole), "'", text, "'"));
    return Readings<DocumentName>{whole};
  }
  const DocumentName versioned{
      .collection = whole.collection, .name = std::string(split->first), .version = split->second};
  QUIRE_RETURN_IF_ERROR(Annotate(CheckDocumentName(versioned), "'", text, "'"));
  Readings<DocumentName> readings{versioned};
  if (CheckDocumentName(whole).ok())
    readings.second = whole;  // With the version it may be too long.
  return readings;
}

StatusOr<Readings<ContextRef>> ParseTarget(std::string_view text, std::string_view collection) {
  QUIRE_ASSIGN_OR_RETURN(const Readings<DocumentName> names, ParseDocumentName(text, collection));
  if (const auto key = SegmentKey::FromHex(text)) {
    return Readings<ContextRef>{ContextRef(*key), ContextRef(names.first)};
  }
  Readings<ContextRef> targets{ContextRef(names.first)};
  if (names.second) targets.second = ContextRef(*names.second);
  return targets;
}

std::string FormatName(const DocumentName& name) {
  std::string text = name.collection + "/" + name.name;
  if (name.version != 0 || SplitVersion(name.name)) {
    text.append(1, '@').append(std::to_string(name.version));
  }
  return text;
}

}  // namespace quire::cli
