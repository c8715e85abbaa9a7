// SPDX-License-Identifier: Apache-2.0
//
// Division of the calls that may run at a time. Calls at the SSD, reading or writing, have places
// of their own. The remaining reads are served from DRAM, whatever the device does.
//
//   max_concurrent_calls
//     1/4   calls that write
//     3/4   calls that read; of these
//             1/4  (of all) at the SSD's gate, inside or waiting
//             1/4  (of all) behind such a call of the same session, at most one for each
//                  (LaneClaims)
//             the rest is always left
//
// Among several tenants each has at most half of the gate. Pure functions.
#ifndef QUIRE_KVSERVER_SERVICE_ADMISSION_CALL_LIMITS_H_
#define QUIRE_KVSERVER_SERVICE_ADMISSION_CALL_LIMITS_H_

#include "kvserver/service/admission/admission.h"
#include "kvserver/service/admission/door.h"
#include "kvserver/service/server_options.h"
#include "kvserver/store/read/io_gate.h"

namespace quire::kvserver {

/// REQUIRES, for both: `options` is valid. `door` is kRead or kWrite.
inline Admission::Options AdmissionOf(const ServerOptions& options, Door door) {
  const uint32_t writes = options.max_concurrent_calls / 4;
  const bool reads = door == Door::kRead;
  return {.door = reads ? "read" : "write",
          .max_running = reads ? options.max_concurrent_calls - writes : writes,
          .max_queued_per_tenant = options.max_queued_calls_per_tenant};
}

inline IoGate::Options SsdGateOf(const ServerOptions& options) {
  const uint32_t inside = options.max_concurrent_calls * 3 / 16;
  const uint32_t waiting = options.max_concurrent_calls / 16;
  const auto share = [&](uint32_t places) {
    return options.tenants.size() > 1 ? (places + 1) / 2 : places;
  };
  return {.max_inside = inside,
          .max_waiting = waiting,
          .max_inside_per_tenant = share(inside),
          .max_waiting_per_tenant = share(waiting)};
}

}  // namespace quire::kvserver

#endif  // QUIRE_KVSERVER_SERVICE_ADMISSION_CALL_LIMITS_H_
