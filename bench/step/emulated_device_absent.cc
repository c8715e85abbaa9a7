// SPDX-License-Identifier: Apache-2.0
#include "bench/step/emulated_device.h"

namespace quire::bench {

StatusOr<worker::Device*> EmulatedDevice() {
  return Unimplemented(
      "this program was built without the emulated device, which needs GoogleTest; give "
      "--device cuda");
}

}  // namespace quire::bench
