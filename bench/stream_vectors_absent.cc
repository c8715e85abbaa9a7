// SPDX-License-Identifier: Apache-2.0
#include "bench/stream_readers.h"

namespace quire::bench {

StreamReader VectorReader() { return nullptr; }

}  // namespace quire::bench
