// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes TenantTokens: the first line is the caller's authorization, the rest is the server's file.
// No input finds the token of a hash by chance, so none may prove a tenant.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "transport/auth/tenant_tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::TenantTokens;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view shown = input.substr(0, input.find('\n'));
  const std::string_view file = input.substr(std::min(shown.size() + 1, input.size()));
  const std::vector<std::string> known = {"default", "team-a"};
  for (const auto& tokens : {TenantTokens::Parse(file, known), TenantTokens::Parse(file, {})}) {
    if (!tokens.ok()) continue;
    for (const std::string& tenant : known) {
      if (tokens->Check(tenant, shown).ok()) std::abort();
    }
  }
  return 0;
}
