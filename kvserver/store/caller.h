// SPDX-License-Identifier: Apache-2.0
#ifndef QUIRE_KVSERVER_STORE_CALLER_H_
#define QUIRE_KVSERVER_STORE_CALLER_H_

#include <concepts>
#include <string_view>

#include "kvserver/store/call_waits.h"
#include "quire/priority.h"

namespace quire::kvserver {

/// Caller: the tenant of a read and its priority among the tenant's reads that wait for the SSD. A
/// bare tenant name converts to a Caller at normal priority. A view of the name, valid for one
/// call.
struct Caller {
  template <std::convertible_to<std::string_view> Name>
  Caller(const Name& name, Priority how_urgent = Priority::kNormal, CallWaits* of_call = nullptr)
      : tenant(name), priority(how_urgent), waits(of_call) {}

  std::string_view tenant;
  Priority priority;
  CallWaits* waits;  ///< Told of what the read waits for, on the calling thread; may be null.
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CALLER_H_
