// SPDX-License-Identifier: Apache-2.0
//
// StaysOnThisHost: whether only this host can connect to what listens at an address. Pure.
#ifndef QUIRE_COMMON_TRANSPORT_LISTEN_ADDRESS_H_
#define QUIRE_COMMON_TRANSPORT_LISTEN_ADDRESS_H_

#include <string>

namespace quire {

/// True for "unix:/path" and for a host:port whose host is localhost or a loopback address. A name
/// is not looked up: any other one may be reached from elsewhere.
bool StaysOnThisHost(const std::string& address);

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_LISTEN_ADDRESS_H_
