// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes NetAddress: an accepted address has the same text and meaning after a round trip.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/base/net_address.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quire::NetAddress;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto address = NetAddress::ParseListen(text);
  if (!address.ok()) return 0;
  const auto again = NetAddress::ParseListen(address->Text());
  if (!again.ok() || again->Text() != address->Text() || again->host() != address->host() ||
      again->port() != address->port() || again->path() != address->path() ||
      address->is_unix() != address->host().empty() ||
      (address->StaysOnThisHost() && address->IsEveryAddress())) {
    std::abort();
  }
  return 0;
}
