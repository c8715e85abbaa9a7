// SPDX-License-Identifier: Apache-2.0
//
// ServerOptions: everything that decides how a server runs, embedded or as a daemon. Plain values;
// flags and configuration files are read into it by daemon.h.
#ifndef QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_
#define QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/health.h"
#include "common/wire/limits.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

struct ServerOptions {
  // What it keeps.
  std::string data_dir;                     ///< Created when missing. Required.
  uint64_t dram_bytes = uint64_t{1} << 30;  ///< Arena, reserved at start.
  int dram_numa_node = -1;                  ///< The arena's; -1 = all nodes in turn.
  bool dram_prefault = false;               ///< Fill the arena at start.
  double dram_high_watermark = 1;           ///< Shares of the arena between which extents are
  double dram_low_watermark = 1;            ///< evicted ahead of need; both 1 = never.
  /// Disk that the data directory may take; 0 = 80 % of what the file system has for it at start.
  uint64_t ssd_bytes = 0;
  /// Segments that no document refers to stay on SSD this long unused; 0 = until room is needed.
  uint64_t cached_ttl_seconds = 3600;
  uint64_t ssd_write_bytes_per_second = 0;  ///< Of puts that need not persist; 0 = no budget.
  uint64_t ssd_write_burst_bytes = uint64_t{1} << 30;  ///< What that budget saves up at most.
  std::vector<std::string> tenants = {"default"};
  Durability default_durability = Durability::kPersisted;  ///< Of puts that do not say.
  std::string default_codec = "raw";  ///< Of collections without one of their own; codec/codec.h.
  /// Payload bytes that a tenant may have in each tier; no quota for those that are not named.
  TenantBytes tenant_dram_quota_bytes = {};
  TenantBytes tenant_ssd_quota_bytes = {};
  std::string eviction_policy = "lru";  ///< Which extents leave DRAM first; store/policy/.
  uint32_t promote_after_touches = 2;   ///< SSD reads before an extent comes back to DRAM.
  /// Verified in the background, of each kind; 0 = none.
  ScrubRates scrub_bytes_per_second = {
      .payload = 8 << 20, .dram = 32 << 20, .digests = 1 << 20, .records = 1 << 20};
  ScrubObserver* scrub_observer = nullptr;  ///< Gets told of it; may be null.

  // Limits.
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
  uint32_t max_sessions = 256;                                 ///< Per tenant.
  uint32_t max_contexts = 64;                                  ///< Open ones, per tenant.
  uint64_t context_bytes = uint64_t{1} << 30;  ///< Pages not yet stored, per tenant.
  /// Digests held in memory for open sessions; those of one tenant, 0 = half of them when there are
  /// several tenants.
  uint64_t digest_bytes = uint64_t{1} << 30;
  uint64_t tenant_digest_bytes = 0;
  /// Sessions and open contexts live this long after the last call on them or renewal of their
  /// lease.
  uint32_t idle_seconds = 30;
  /// Calls that run at a time. A quarter of them may write, another quarter may be at the SSD.
  uint32_t max_concurrent_calls = 128;
  uint32_t max_queued_calls_per_tenant =
      32;  ///< That wait to read, and as many that wait to write.

  uint32_t max_connections = 1024;           ///< Data connections.
  uint32_t max_connections_per_tenant = 64;  ///< Of those.
  uint32_t stall_seconds = 10;  ///< How long a client may take nothing of what it asked for.
  uint32_t lease_seconds = 60;  ///< How long it may hold what shared memory lends it.

  Clock* clock = nullptr;    ///< SystemClock() when null.
  Health* health = nullptr;  ///< The server has one of its own when null; outlives the server.

  /// Calls that can be in the server at once, running or waiting.
  uint64_t max_calls() const {
    return max_concurrent_calls + 2 * uint64_t{max_queued_calls_per_tenant} * tenants.size();
  }
  uint64_t max_tenant_digest_bytes() const {
    if (tenant_digest_bytes > 0) return tenant_digest_bytes;
    return tenants.size() > 1 ? digest_bytes / 2 : digest_bytes;
  }
  /// Upper bound of the server's memory by its own limits, in bytes. It covers the DRAM tier, bytes
  /// held for sessions and contexts of all tenants, and the caches. Saturates.
  uint64_t max_memory_bytes() const;
  /// INVALID_ARGUMENT naming the option that is out of range.
  [[nodiscard]] Status Validate() const;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_
