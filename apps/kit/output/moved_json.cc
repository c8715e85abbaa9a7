// SPDX-License-Identifier: Apache-2.0
#include "apps/kit/output/moved_json.h"

namespace quire::cli {

void AddMoved(const worker::MovedBytes& moved, Json* json) {
  (*json)["bytes_full"] = moved.full;
  (*json)["bytes_moved"] = moved.total();
  (*json)["bytes_units"] = moved.units;
  (*json)["bytes_digests"] = moved.digests;
  (*json)["bytes_at_open"] = moved.at_open;
  (*json)["moved_ratio"] = moved.ratio();
}

}  // namespace quire::cli
