// SPDX-License-Identifier: Apache-2.0
//
// Limits that receivers enforce on the wire, in the units of their names. KvSpecLimits has the
// limits of a KvSpec.
#ifndef QUIRE_COMMON_WIRE_LIMITS_H_
#define QUIRE_COMMON_WIRE_LIMITS_H_

#include <cstddef>
#include <cstdint>

#include "quire/page_name.h"

namespace quire::wire {

/// Control and payload together, each direction; a server may have another limit.
inline constexpr uint64_t kDefaultMaxMessageBytes = uint64_t{64} << 20;
/// Transports frame messages with 32-bit signed lengths. 4096 bytes remain for their headers.
inline constexpr uint64_t kLargestMaxMessageBytes = (uint64_t{1} << 31) - 4096;

inline constexpr size_t kMaxTenantBytes = 64;
inline constexpr size_t kMaxNameBytes = 255;  ///< A collection or document name.
inline constexpr size_t kContentHashBytes = 32;
inline constexpr size_t kMaxFilterBytes = 4096;
inline constexpr uint32_t kMaxWatchedEvents = 1000;
inline constexpr uint32_t kMaxWatchMillis = 30000;
inline constexpr uint32_t kMaxListedSegments = 4096;
inline constexpr uint64_t kMaxTtlSeconds = 3'155'760'000;  ///< A hundred years.

inline constexpr uint64_t kMaxContextTokens = uint64_t{1} << 24;
inline constexpr uint32_t kMaxContextPages = 1u << 24;  ///< With one token per page.
inline constexpr uint32_t kMaxDeleteKeys = 65536;
/// Token ids of one ReadTokens.
inline constexpr uint32_t kMaxTokensRead = 262144;
inline constexpr uint32_t kMaxUnitRanges = 65536;      ///< Ranges of one fetch.
inline constexpr uint32_t kMaxMismatchedUnits = 4096;  ///< Units named in one request.
inline constexpr uint32_t kMaxObjectsOfCall = 4096;    ///< Objects named in one call.
inline constexpr uint32_t kMaxSlotsPerHead = 65536;

inline constexpr uint32_t kMaxSequences = 256;  ///< Sequences of one session.
inline constexpr uint32_t kMaxMembers = 64;     ///< Contexts that one sequence reads.
/// Shift of the member in a page name: member << kMemberShift | page of that member's context.
inline constexpr uint32_t kMemberShift = quire::kMemberShift;
/// Every page name is below this.
inline constexpr uint32_t kEndOfUnitPages = kMaxMembers << kMemberShift;

inline constexpr uint32_t kMaxRenewedIds = 4096;  ///< Ids of a kind, in one call.

inline constexpr size_t kTicketBytes = 16;
inline constexpr uint32_t kMaxLandings = 64;  ///< Landings of one connection.
inline constexpr uint64_t kMaxLandingBytes = uint64_t{1} << 40;
inline constexpr size_t kMaxLandingKeyBytes = 4096;

inline constexpr uint32_t kDefaultListPageSize = 100;
inline constexpr uint32_t kMaxListPageSize = 1000;
inline constexpr size_t kMaxPageTokenBytes = 2048;

}  // namespace quire::wire

#endif  // QUIRE_COMMON_WIRE_LIMITS_H_
