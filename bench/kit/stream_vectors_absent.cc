// SPDX-License-Identifier: Apache-2.0
#include "bench/kit/stream_readers.h"

namespace quire::bench {

StreamReader VectorReader() { return nullptr; }
ProductLoop VectorProducts() { return nullptr; }

}  // namespace quire::bench
