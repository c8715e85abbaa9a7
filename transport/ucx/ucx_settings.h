// SPDX-License-Identifier: Apache-2.0
//
// Which settings a UCX context is given. What UcxOptions ask for by name goes over the variables of
// UCX's that the administrator has set; those go over the defaults of this program. Nothing of UCX
// is needed here. Thread-safety: pure functions.
#ifndef QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_
#define QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "transport/ucx/ucx.h"

namespace quire {

/// Whether the environment has the variable of this name, "UCX_TLS".
using IsVariableSet = std::function<bool(const std::string& variable)>;

struct UcxSettings {
  /// By UCX's names without the prefix, "TLS". What is not here stays as UCX has read it.
  std::map<std::string, std::string> values;
  /// Messages of this size and more may go by rendezvous, so they have to be in one piece.
  uint64_t gather_bytes = UINT64_MAX;

  bool operator==(const UcxSettings&) const = default;
};

/// `loopback`: the connections go to this host's own address.
UcxSettings ChooseUcxSettings(const UcxOptions& options, bool loopback,
                              const IsVariableSet& is_set);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_
