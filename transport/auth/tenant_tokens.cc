// SPDX-License-Identifier: Apache-2.0
#include "transport/auth/tenant_tokens.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <charconv>

#include "common/base/small_file.h"
#include "common/wire/convert.h"

namespace quire {
namespace {

constexpr std::string_view kScheme = "Bearer ";

/// Takes the next word off the front of `*text`; empty if there is none.
std::string_view TakeWord(std::string_view* text) {
  constexpr std::string_view kBlanks = " \t";
  text->remove_prefix(std::min(text->find_first_not_of(kBlanks), text->size()));
  const std::string_view word = text->substr(0, text->find_first_of(kBlanks));
  text->remove_prefix(word.size());
  return word;
}

}  // namespace

StatusOr<TenantTokens> TenantTokens::Parse(std::string_view text,
                                           std::span<const std::string> known) {
  TenantTokens tokens;
  for (size_t number = 1; !text.empty(); ++number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    QUIRE_RETURN_IF_ERROR(Annotate(tokens.AddLine(line, known), "line ", number));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  if (!tokens.entries_.empty()) return tokens;
  return InvalidArgument(
      "no tenant stands there, so every call would be refused; write lines of "
      "a tenant's name and the SHA-256 of its token");
}

StatusOr<TenantTokens> TenantTokens::ReadFile(const std::string& path,
                                              std::span<const std::string> known) {
  QUIRE_ASSIGN_OR_RETURN(const SmallFile file, ReadSmallFile(path, kMaxFileBytes));
  auto tokens = Parse(file.text, known);
  if (!tokens.ok()) return Annotate(tokens.status(), path);
  return tokens;
}

Status TenantTokens::AddLine(std::string_view line, std::span<const std::string> known) {
  if (line.size() > kMaxLineBytes) {
    return InvalidArgument("it has ", line.size(), " bytes, more than ", kMaxLineBytes);
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  const std::string tenant(TakeWord(&line));
  if (tenant.empty() || tenant.starts_with('#')) return OkStatus();
  if (!wire::CheckTenantName(tenant).ok()) {
    return InvalidArgument("it does not begin with the name of a tenant");
  }
  if (!known.empty() && std::ranges::find(known, tenant) == known.end()) {
    return InvalidArgument("there is no such tenant; add it to --tenants, or take the line out");
  }
  if (Has(tenant)) {
    return InvalidArgument("its tenant has a line already; write all hashes of a tenant on one");
  }
  std::string_view digits = TakeWord(&line);
  if (digits.empty()) return InvalidArgument("there is no SHA-256 of a token after the name");
  for (; !digits.empty(); digits = TakeWord(&line)) {
    QUIRE_ASSIGN_OR_RETURN(const Hash hash, ParseHash(digits));
    entries_.push_back({.tenant = tenant, .hash = hash});
  }
  return OkStatus();
}

StatusOr<TenantTokens::Hash> TenantTokens::ParseHash(std::string_view digits) {
  Hash hash;
  bool good = digits.size() == 2 * hash.size();
  for (size_t i = 0; good && i < hash.size(); ++i) {
    const char* const first = digits.data() + 2 * i;
    good = std::from_chars(first, first + 2, hash[i], 16).ptr == first + 2;
  }
  if (!good) {
    return InvalidArgument(
        "after the name stands what is no SHA-256, 64 hexadecimal digits; write "
        "the first word that 'sha256sum < TOKEN_FILE' prints, not the token");
  }
  if (hash == HashOf("")) {
    return InvalidArgument("the SHA-256 is that of an empty file: there was no token");
  }
  return hash;
}

TenantTokens::Hash TenantTokens::HashOf(std::string_view text) {
  Hash hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

Status TenantTokens::Check(std::string_view tenant, std::string_view authorization) const {
  const Status refused =
      MakeStatus(StatusCode::kUnauthenticated,
                 "the call does not prove its tenant: send the metadata 'authorization: Bearer "
                 "TOKEN' with a token of the tenant that it names (quire: --token-file FILE, or "
                 "the variable QUIRE_TOKEN)");
  const auto shown = HashShown(authorization);
  if (!shown) return refused;
  bool proven = false;
  for (const Entry& entry : entries_) {
    const bool same = CRYPTO_memcmp(entry.hash.data(), shown->data(), shown->size()) == 0;
    const bool its = entry.tenant == tenant;
    // Constant time: both operands are evaluated, and no entry ends the loop.
    proven |= same && its;
  }
  return proven ? OkStatus() : refused;
}

bool TenantTokens::ProvesNode(std::string_view authorization) const {
  const auto shown = HashShown(authorization);
  if (!shown) return false;
  bool proven = false;
  for (const Entry& entry : entries_) {
    const bool same = CRYPTO_memcmp(entry.hash.data(), shown->data(), shown->size()) == 0;
    proven |= same && entry.of_nodes;
  }
  return proven;
}

std::optional<TenantTokens::Hash> TenantTokens::HashShown(std::string_view authorization) {
  if (!authorization.starts_with(kScheme)) return std::nullopt;
  const auto token = BearerToken::Make(authorization.substr(kScheme.size()));
  if (!token.ok()) return std::nullopt;
  return HashOf(token->secret());
}

void TenantTokens::AddForNodes(std::span<const std::string> tenants, const BearerToken& token) {
  for (const std::string& tenant : tenants) {
    entries_.push_back({.tenant = tenant, .hash = HashOf(token.secret()), .of_nodes = true});
  }
}

bool TenantTokens::Has(std::string_view tenant) const {
  return std::ranges::any_of(
      entries_, [&](const Entry& entry) { return entry.tenant == tenant && !entry.of_nodes; });
}

}  // namespace quire
