// SPDX-License-Identifier: Apache-2.0
//
// A remote key as UCX packs it. ucp_ep_rkey_unpack is given no length and believes what it reads,
// so the key that a peer has signed is taken apart here, and UCX is handed one that was put
// together anew. Pure functions without UCX; everything decoded here comes from outside. Integers
// are in the order of the host's bytes, as UCX has them.
//
// The format is that of UCX 1.13.1; sources after 1.15 have the same:
//   domains u64, a bit for each memory domain of the peer; type of the memory u8;
//   for each of these domains, in order: size u8, and so many bytes of its own.
// ucp_rkey_pack puts nothing behind these. A key in any other format is refused.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_REMOTE_KEY_H_
#define QUIRE_COMMON_TRANSPORT_UCX_REMOTE_KEY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace quire {

/// What one memory domain needs to reach the memory.
struct UcxKeyPart {
  uint32_t domain = 0;  ///< Its number at the peer.
  std::string bytes;
  friend bool operator==(const UcxKeyPart&, const UcxKeyPart&) = default;
};

struct UcxRemoteKey {
  uint8_t memory_type = 0;        ///< A ucs_memory_type_t, unchecked.
  std::vector<UcxKeyPart> parts;  ///< In the order of their domains.
  friend bool operator==(const UcxRemoteKey&, const UcxRemoteKey&) = default;
};

/// INVALID_ARGUMENT unless the parts fill `packed` to its last byte.
StatusOr<UcxRemoteKey> DecodeUcxRemoteKey(std::string_view packed);
/// The key as UCX reads it, followed by kUcxKeyPadding zeros. REQUIRES: parts in the order of their
/// domains, which are below 64, and of 255 bytes at most.
std::string EncodeUcxRemoteKey(const UcxRemoteKey& key);

/// UCX's domains read what they expect and not what the size of their part says. None expects more
/// than a size can say, and a string that one reads to its end, ends here.
inline constexpr size_t kUcxKeyPadding = 256;

/// What may be done with a domain's part. After a part that a domain refuses, UCX 1.13 releases all
/// the key's parts, also those that it has not unpacked, which ends the process: so it may be given
/// only what no domain refuses, whatever its bytes are.
enum class UcxDomainKind {
  kPosix,    ///< Names a segment: see ucx_segment.h.
  kSysv,     ///< Names a segment: see ucx_segment.h.
  kPlain,    ///< UCX unpacks it by copying numbers: there is nothing to refuse.
  kUnknown,  ///< UCX is not given it.
};
/// Whether the domain is of the kernel's copies out of other processes of the host.
bool IsMemoryAttach(std::string_view component);
/// `component`: as UCX calls what the domain is of, "posix".
UcxDomainKind UcxDomainKindOf(std::string_view component);

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_REMOTE_KEY_H_
