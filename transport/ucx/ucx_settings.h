// SPDX-License-Identifier: Apache-2.0
//
// The choice of settings for a UCX context. UcxOptions named explicitly override the UCX variables
// of the environment. Those override the defaults of this program. Needs nothing of UCX.
// Thread-safety: pure functions.
#ifndef QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_
#define QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "transport/ucx/ucx.h"

namespace quire {

/// Messages of at least this size are sent from where they lie.
inline constexpr uint64_t kUcxInPlaceBytes = 64 << 10;
/// Most slices of a message that UCX sends from where they lie without dividing it. UCX has 16
/// places, one for the message's header and one for what follows the payload.
inline constexpr size_t kMostUcxSlices = 14;

/// True if the environment has the variable of this name, for example "UCX_TLS".
using IsVariableSet = std::function<bool(const std::string& variable)>;

struct UcxSettings {
  /// Values by UCX's names without the prefix, for example "TLS". Other settings stay as UCX has
  /// read them.
  std::map<std::string, std::string> values;
  /// Messages of at least this size may go by rendezvous, and must be contiguous.
  uint64_t gather_bytes = UINT64_MAX;

  bool operator==(const UcxSettings&) const = default;
};

/// `loopback`: the connections go to this host's own address.
UcxSettings ChooseUcxSettings(const UcxOptions& options, bool loopback,
                              const IsVariableSet& is_set);

}  // namespace quire

#endif  // QUIRE_TRANSPORT_UCX_UCX_SETTINGS_H_
