// SPDX-License-Identifier: Apache-2.0
//
// The class of admission of each method. Calls that write have places of their own, so a device
// that takes no bytes leaves reads alone. Calls about the server need no place, so an operator
// always gets through. Calls that make connections or renew leases need none either: they touch
// only memory and have their own bounds. A lease must not run out because the server is busy. Calls
// that wait for events hold no place; their number is bounded too. Calls that have a node copy or
// adopt a document hold none, since their callers hold one at another node. Two nodes could
// otherwise wait for each other. Pure function.
#ifndef QUIRE_KVSERVER_SERVICE_ADMISSION_DOOR_H_
#define QUIRE_KVSERVER_SERVICE_ADMISSION_DOOR_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace quire::kvserver {

enum class Door : uint8_t { kRead, kWrite, kControl };

/// Methods that write nothing.
inline constexpr std::array<std::string_view, 29> kReadingMethods = {
    "quire.v1.Conversations/Prefetch",
    "quire.v1.Conversations/Release",
    "quire.v1.Events/List",
    "quire.v1.Objects/Get",
    "quire.v1.Objects/Stat",
    "quire.v1.Registry/Get",
    "quire.v1.Registry/GetCollection",
    "quire.v1.Registry/GetExtra",
    "quire.v1.Registry/List",
    "quire.v1.Registry/ListCollections",
    "quire.v1.Registry/ListExtras",
    "quire.v1.Registry/PageUses",
    "quire.v1.Registry/Warm",
    "quire.v1.Replica/DescribeChain",
    "quire.v1.Replica/Holds",
    "quire.v1.Replica/ReadRepresentatives",
    "quire.v1.Replica/ReadSegment",
    "quire.v1.Session/AddSequence",
    "quire.v1.Session/Close",
    "quire.v1.Session/Digests",
    "quire.v1.Session/Open",
    "quire.v1.Session/Recall",
    "quire.v1.Session/RemoveSequence",
    "quire.v1.Session/Resync",
    "quire.v1.Session/ScorePages",
    "quire.v1.Store/Fetch",
    "quire.v1.Store/Lookup",
    "quire.v1.Store/ReadTokens",
    "quire.v1.Store/Stat",
};

/// Class of "quire.v1.Service/Method". Unknown methods count as writes.
inline Door DoorOf(std::string_view method) {
  if (method.starts_with("quire.v1.Admin/") || method.starts_with("quire.v1.Cluster/") ||
      method.starts_with("quire.v1.DataPlane/") || method.starts_with("quire.v1.Leases/") ||
      method == "quire.v1.Events/Follow" || method == "quire.v1.Registry/Watch") {
    return Door::kControl;
  }
  if (std::ranges::find(kReadingMethods, method) != kReadingMethods.end()) return Door::kRead;
  return method.starts_with("quire.v1.Replica/") ? Door::kControl : Door::kWrite;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADMISSION_DOOR_H_
