// SPDX-License-Identifier: Apache-2.0
#ifndef QUIRE_KVSERVER_STORE_CALLER_H_
#define QUIRE_KVSERVER_STORE_CALLER_H_

#include <concepts>
#include <string_view>

#include "quire/priority.h"

namespace quire::kvserver {

/// For whom the store reads, and how urgently: which of a tenant's calls that wait for the SSD go
/// first. A tenant's name alone, which converts to it, reads at normal priority. Refers to the
/// name; made for the time of a call.
struct Caller {
  template <std::convertible_to<std::string_view> Name>
  Caller(const Name& name, Priority how_urgent = Priority::kNormal)
      : tenant(name), priority(how_urgent) {}

  std::string_view tenant;
  Priority priority;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_STORE_CALLER_H_
