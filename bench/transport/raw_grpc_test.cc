// SPDX-License-Identifier: Apache-2.0
#include "bench/transport/raw_grpc.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace quire::bench {
namespace {

TEST(RawGrpcTest, EveryPlaceGetsAnotherUnit) {
  const RawGrpcShape shape{
      .unit_bytes = 4096, .num_units = 333, .units_per_read = 166, .message_bytes = 40000};
  auto server = RawGrpcServer::Start(shape);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::byte> places(shape.unit_bytes * shape.units_per_read);
  RawGrpcClient client(shape, "127.0.0.1:" + std::to_string((*server)->port()), places);
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    places.assign(places.size(), std::byte{0xff});
    ASSERT_EQ(client.Read(seed), OkStatus());
    std::set<uint64_t> units;
    for (uint64_t place = 0; place < shape.units_per_read; ++place) {
      uint64_t unit = 0;
      std::memcpy(&unit, places.data() + place * shape.unit_bytes, sizeof unit);
      ASSERT_LT(unit, shape.num_units);
      EXPECT_TRUE(units.insert(unit).second) << "unit " << unit << " came to two places";
    }
  }
}

}  // namespace
}  // namespace quire::bench
