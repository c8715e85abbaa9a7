// SPDX-License-Identifier: Apache-2.0
//
// TenantTokens: which tokens prove which tenant (docs/design/0022-tenant-tokens.md). A server holds
// the SHA-256 of each token, not the token, so its file is no secret. Tokens are random, so a plain
// hash is enough.
//
// The file is text. A line is the name of a tenant and the SHA-256, in hexadecimal digits, of each
// token that proves it, separated by blanks:
//
//   # made with: echo "team-a $(sha256sum < team-a.token | cut -c 1-64)"
//   team-a  5d1c9be1...  90b7a2f0...
//
// While a token is being replaced, the line has both hashes. Empty lines and lines that begin with
// '#' are ignored. A line may end with CR LF.
// Thread-safety: a value type.
#ifndef QUIRE_TRANSPORT_AUTH_TENANT_TOKENS_H_
#define QUIRE_TRANSPORT_AUTH_TENANT_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/bearer_token.h"
#include "quire/status.h"

namespace quire {

class TenantTokens {
 public:
  static constexpr size_t kMaxFileBytes = size_t{1} << 20;
  static constexpr size_t kMaxLineBytes = 4096;

  /// Lines may name the tenants of `known`, each once; an empty `known` allows any tenant.
  /// INVALID_ARGUMENT names the line and the fault. It never quotes the line, which may contain a
  /// secret.
  static StatusOr<TenantTokens> Parse(std::string_view text, std::span<const std::string> known);
  /// Errors: those of ReadSmallFile and of Parse, naming the path.
  static StatusOr<TenantTokens> ReadFile(const std::string& path,
                                         std::span<const std::string> known);

  /// OK when `authorization` is "Bearer " and a token of `tenant`. Everything else is
  /// UNAUTHENTICATED with one fixed text. Compares the token with all hashes in full. The error and
  /// the time taken therefore reveal neither a partial match nor whether the tenant exists.
  [[nodiscard]] Status Check(std::string_view tenant, std::string_view authorization) const;

  /// True when `authorization` is "Bearer " and the token of nodes. In constant time, as Check.
  [[nodiscard]] bool ProvesNode(std::string_view authorization) const;

  /// Lets `token` prove each of `tenants`: the nodes of a cluster call each other with it.
  void AddForNodes(std::span<const std::string> tenants, const BearerToken& token);

  /// True if some token proves `tenant`, besides that of nodes.
  bool Has(std::string_view tenant) const;

 private:
  using Hash = std::array<uint8_t, 32>;
  struct Entry {
    std::string tenant;
    Hash hash;
    bool of_nodes = false;
  };

  static Hash HashOf(std::string_view text);
  /// Hash of the token that the metadata shows; nullopt without one.
  static std::optional<Hash> HashShown(std::string_view authorization);
  static StatusOr<Hash> ParseHash(std::string_view digits);
  Status AddLine(std::string_view line, std::span<const std::string> known);

  std::vector<Entry> entries_;
};

}  // namespace quire

#endif  // QUIRE_TRANSPORT_AUTH_TENANT_TOKENS_H_
