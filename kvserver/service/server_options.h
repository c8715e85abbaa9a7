// SPDX-License-Identifier: Apache-2.0
//
// ServerOptions: all settings of a server, embedded or as a daemon. Plain values. daemon.h fills
// them from flags and configuration files.
#ifndef QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_
#define QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/base/observe/health.h"
#include "common/base/trace/tracer.h"
#include "common/wire/limits.h"
#include "kvserver/service/cluster_place.h"
#include "kvserver/store/page_store.h"
#include "quire/clock.h"
#include "quire/status.h"

namespace quire::kvserver {

struct ServerOptions {
  // Storage.
  std::string data_dir;                     ///< Created when missing. Required.
  uint64_t dram_bytes = uint64_t{1} << 30;  ///< Arena, reserved at start.
  int dram_numa_node = -1;                  ///< NUMA node of the arena; -1 = all nodes in turn.
  bool dram_prefault = false;               ///< Fill the arena at start.
  /// Share of the arena above which extents are evicted; 1 = only when full.
  double dram_high_watermark = 1;
  double dram_low_watermark = 1;  ///< Share of the arena down to which they are evicted.
  /// Disk limit of the data directory; 0 = 80 % of the file system's room at start.
  uint64_t ssd_bytes = 0;
  /// Time that unused segments without documents stay on SSD; 0 = until room is needed.
  uint64_t cached_ttl_seconds = 3600;
  /// SSD rate of puts that need not persist; 0 = no budget.
  uint64_t ssd_write_bytes_per_second = 0;
  uint64_t ssd_write_burst_bytes = uint64_t{1} << 30;  ///< Largest burst of that budget.
  std::vector<std::string> tenants = {"default"};
  Durability default_durability = Durability::kPersisted;  ///< Durability of puts that do not say.
  std::string default_codec = "raw";  ///< Codec of collections without their own; codec/codec.h.
  /// Payload quotas of tenants in each tier; unnamed tenants have none.
  TenantBytes tenant_dram_quota_bytes = {};
  TenantBytes tenant_ssd_quota_bytes = {};
  std::string eviction_policy = "lru";  ///< Eviction order of DRAM; store/policy/.
  uint32_t promote_after_touches = 2;   ///< SSD reads of an extent before its promotion to DRAM.
  /// Rates of background verification, by kind; 0 = none.
  ScrubRates scrub_bytes_per_second = {
      .payload = 8 << 20, .dram = 32 << 20, .digests = 1 << 20, .records = 1 << 20};
  ScrubObserver* scrub_observer = nullptr;  ///< Receives results of verification; may be null.

  // Limits.
  uint64_t max_message_bytes = wire::kDefaultMaxMessageBytes;  ///< Each direction.
  uint32_t max_sessions = 256;                                 ///< Limit per tenant.
  uint32_t max_contexts = 64;                                  ///< Limit of open ones per tenant.
  uint64_t context_bytes = uint64_t{1} << 30;  ///< Limit of pages not yet stored, per tenant.
  /// Digests held in memory for open sessions, in total and per tenant. 0 per tenant = half of the
  /// total when there are several tenants.
  uint64_t digest_bytes = uint64_t{1} << 30;
  uint64_t tenant_digest_bytes = 0;
  /// Lease of sessions and open contexts: they end this long after their last call or renewal.
  uint32_t idle_seconds = 30;
  /// Calls that run at a time. A quarter of them may write, another quarter may be at the SSD.
  uint32_t max_concurrent_calls = 128;
  uint32_t max_queued_calls_per_tenant = 32;  ///< Limit of waiting reads, and of waiting writes.

  uint32_t max_connections = 1024;           ///< Limit of data connections.
  uint32_t max_connections_per_tenant = 64;  ///< Limit of data connections of each tenant.
  uint32_t stall_seconds = 10;  ///< Longest time that a client may take none of its reply.
  uint32_t lease_seconds = 60;  ///< Longest loan of shared memory to a client.

  ClusterPlace cluster = {};  ///< In no cluster by default.

  Clock* clock = nullptr;          ///< SystemClock() when null.
  Health* health = nullptr;        ///< Null: the server makes its own. Outlives the server.
  const Tracer* tracer = nullptr;  ///< Traces calls; null: none. Outlives the server.

  /// Most calls in the server at once, running or waiting.
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
  /// INVALID_ARGUMENT naming an option out of range.
  [[nodiscard]] Status Validate() const;
};

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_SERVER_OPTIONS_H_
