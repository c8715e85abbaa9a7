// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/raw_grpc.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace quire::bench {
namespace {

TEST(RawGrpcTest, EveryUnitComesToItsPlace) {
  const RawGrpcShape shape{.unit_bytes = 4096, .num_units = 333, .message_bytes = 40000};
  auto server = RawGrpcServer::Start(shape);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::byte> places(shape.unit_bytes * shape.num_units);
  RawGrpcClient client(shape, "127.0.0.1:" + std::to_string((*server)->port()), places);
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    places.assign(places.size(), std::byte{0});
    ASSERT_EQ(client.ReadAll(seed), OkStatus());
    for (uint64_t unit = 0; unit < shape.num_units; ++unit) {
      uint64_t number = 0;
      std::memcpy(&number, places.data() + unit * shape.unit_bytes, sizeof number);
      ASSERT_EQ(number, unit);
    }
  }
}

}  // namespace
}  // namespace quire::bench
