// SPDX-License-Identifier: Apache-2.0
#include "common/transport/ucx_remote_key.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace quire {
namespace {

constexpr size_t kFixedBytes = sizeof(uint64_t) + sizeof(uint8_t);
constexpr uint32_t kDomains = 64;

}  // namespace

StatusOr<UcxRemoteKey> DecodeUcxRemoteKey(std::string_view packed) {
  if (packed.size() < kFixedBytes) {
    return InvalidArgument("a remote key of ", packed.size(), " bytes is none of UCX's");
  }
  uint64_t domains = 0;
  std::memcpy(&domains, packed.data(), sizeof(domains));
  UcxRemoteKey key;
  key.memory_type = static_cast<uint8_t>(packed[sizeof(domains)]);
  std::string_view rest = packed.substr(kFixedBytes);
  for (uint32_t domain = 0; domain < kDomains; ++domain) {
    if ((domains >> domain & 1) == 0) continue;
    const size_t size = rest.empty() ? 0 : static_cast<uint8_t>(rest.front());
    if (rest.size() < 1 + size) {
      return InvalidArgument("a remote key of ", packed.size(),
                             " bytes ends before its part of memory domain ", domain,
                             ": the peer's UCX packs keys in another way, or it was altered");
    }
    key.parts.push_back({domain, std::string(rest.substr(1, size))});
    rest.remove_prefix(1 + size);
  }
  if (!rest.empty()) {
    return InvalidArgument("a remote key of ", packed.size(), " bytes has ", rest.size(),
                           " behind the parts of its ", key.parts.size(),
                           " memory domains: the peer's UCX packs keys in another way, or it was "
                           "altered");
  }
  return key;
}

std::string EncodeUcxRemoteKey(const UcxRemoteKey& key) {
  uint64_t domains = 0;
  std::string parts;
  for (const UcxKeyPart& part : key.parts) {
    domains |= uint64_t{1} << part.domain;
    parts += static_cast<char>(part.bytes.size());
    parts += part.bytes;
  }
  std::string packed(kFixedBytes, '\0');
  std::memcpy(packed.data(), &domains, sizeof(domains));
  packed[sizeof(domains)] = static_cast<char>(key.memory_type);
  return packed.append(parts).append(kUcxKeyPadding, '\0');
}

bool IsMemoryAttach(std::string_view component) { return component == "cma"; }

UcxDomainKind UcxDomainKindOf(std::string_view component) {
  constexpr std::array<std::string_view, 5> kPlain = {"cma", "ib", "knem", "self", "tcp"};
  if (component == "posix") return UcxDomainKind::kPosix;
  if (component == "sysv") return UcxDomainKind::kSysv;
  return std::ranges::count(kPlain, component) > 0 ? UcxDomainKind::kPlain
                                                   : UcxDomainKind::kUnknown;
}

}  // namespace quire
