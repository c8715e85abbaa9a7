// SPDX-License-Identifier: Apache-2.0
//
// Which door of the server a method goes through. Calls that write have places of their own, so
// that a device that does not take bytes any more leaves those that read alone; calls about the
// server itself need no place at all, so that an operator gets through when nobody else does, and
// neither do those that make connections or renew leases, which touch memory only and have bounds
// of their own: a lease must not run out because the server is busy. Pure function.
#ifndef QUIRE_KVSERVER_SERVICE_DOOR_H_
#define QUIRE_KVSERVER_SERVICE_DOOR_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace quire::kvserver {

enum class Door : uint8_t { kRead, kWrite, kControl };

/// Methods that write nothing.
inline constexpr std::array<std::string_view, 14> kReadingMethods = {
    "quire.v1.Registry/Get",        "quire.v1.Registry/GetCollection",
    "quire.v1.Registry/List",       "quire.v1.Registry/ListCollections",
    "quire.v1.Session/AddSequence", "quire.v1.Session/Close",
    "quire.v1.Session/Digests",     "quire.v1.Session/Open",
    "quire.v1.Session/Recall",      "quire.v1.Session/RemoveSequence",
    "quire.v1.Session/Resync",      "quire.v1.Store/Fetch",
    "quire.v1.Store/Lookup",        "quire.v1.Store/Stat",
};

/// The door of "quire.v1.Service/Method"; that of writes when it is not known to do without.
inline Door DoorOf(std::string_view method) {
  if (method.starts_with("quire.v1.Admin/") || method.starts_with("quire.v1.DataPlane/") ||
      method.starts_with("quire.v1.Leases/")) {
    return Door::kControl;
  }
  return std::ranges::find(kReadingMethods, method) != kReadingMethods.end() ? Door::kRead
                                                                             : Door::kWrite;
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_DOOR_H_
