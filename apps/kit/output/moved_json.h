// SPDX-License-Identifier: Apache-2.0
//
// Keys of every --json that say what moved.
#ifndef QUIRE_APPS_KIT_OUTPUT_MOVED_JSON_H_
#define QUIRE_APPS_KIT_OUTPUT_MOVED_JSON_H_

#include "apps/kit/output/json_output.h"
#include "gpuworker/engine/sequence.h"

namespace quire::cli {

/// Sets bytes_full, bytes_moved (everything that came from the store), of it bytes_units,
/// bytes_digests and bytes_at_open, and moved_ratio = bytes_moved / bytes_full.
void AddMoved(const worker::MovedBytes& moved, Json* json);

}  // namespace quire::cli

#endif  // QUIRE_APPS_KIT_OUTPUT_MOVED_JSON_H_
