// SPDX-License-Identifier: Apache-2.0
//
// What an endpoint says of its lanes. UCX before 1.14 reports them only as text for people, so this
// reads that text, and knows nothing of the names of transports and domains.
#ifndef QUIRE_COMMON_TRANSPORT_UCX_LANES_H_
#define QUIRE_COMMON_TRANSPORT_UCX_LANES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace quire {

struct UcxLanes {
  std::string names;          ///< Of the lanes that carry data: "posix/memory cma/memory".
  bool remote_write = false;  ///< A lane writes remote memory; otherwise messages stand in for it.
  /// All of them are shared memory, which writes what it has mapped itself, and has messages stand
  /// in for writes to any other memory of the host.
  bool within_host = false;
  bool tcp = false;  ///< All of them are TCP.
  /// The memory domains of the peer that lanes lead to: by number, what UCX calls them, "posix".
  std::map<uint32_t, std::string> domains = {};
};

/// Reads the text of ucp_ep_print_info. What it does not understand it takes for absent.
UcxLanes ParseUcxLanes(std::string_view info);

}  // namespace quire

#endif  // QUIRE_COMMON_TRANSPORT_UCX_LANES_H_
