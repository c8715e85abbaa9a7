// SPDX-License-Identifier: Apache-2.0
//
// The Objects service on the wire: replies within their limit, and requests that are refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/wire/limits.h"
#include "kvserver/service/testing/service_fixture.h"
#include "quire/objects.h"
#include "quire/v1/object.pb.h"

namespace quire::kvserver::testing {
namespace {

class ObjectServiceTest : public ServiceFixture {
 protected:
  /// Adds an object to a request, and its units to the payload.
  void Add(const std::string& key, uint64_t size_bytes, uint8_t fill) {
    const ObjectShape shape = ObjectShape::Of(size_bytes);
    v1::ObjectToPut* const object = request_.add_objects();
    object->set_key(key);
    object->set_size_bytes(size_bytes);
    std::vector<std::byte> units(shape.stored_bytes());
    std::fill_n(units.begin(), size_bytes, std::byte{fill});
    for (uint32_t unit = 0; unit < shape.units(); ++unit) {
      object->add_unit_crc32c(
          Crc32c(std::span(units).subspan(uint64_t{unit} * shape.unit_bytes, shape.unit_bytes)));
    }
    payload_.insert(payload_.end(), units.begin(), units.end());
  }
  StatusOr<v1::PutObjectsReply> Put() {
    return Call<v1::PutObjectsReply>("Objects/Put", request_, payload_);
  }
  Status Refusal() { return Put().status(); }

  v1::PutObjectsRequest request_;
  std::vector<std::byte> payload_;
};

TEST_F(ObjectServiceTest, AReplyEndsWhereItsLimitIsAndTheRestIsAskedFor) {
  constexpr uint64_t kBytes = 400'000;
  for (const char* const key : {"a", "b", "c"}) {
    request_.Clear();
    payload_.clear();
    Add(key, kBytes, static_cast<uint8_t>(key[0]));
    ASSERT_TRUE(Put().ok());
  }
  v1::GetObjectsRequest get;
  for (const char* const key : {"none", "a", "b", "c"}) get.add_ranges()->set_key(key);
  uint64_t read = 0;
  for (int calls = 0; get.ranges_size() > 0; ++calls) {
    ASSERT_LT(calls, 3);
    Payload payload;
    const auto reply = Call<v1::GetObjectsReply>("Objects/Get", get, {}, &payload);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_LT(payload.size_bytes(), uint64_t{1} << 20);
    read += payload.size_bytes();
    v1::GetObjectsRequest rest;
    for (int i = 0; i < get.ranges_size(); ++i) {
      v1::ObjectRange range = get.ranges(i);
      if (i < reply->objects_size()) {
        const v1::ObjectUnits& units = reply->objects(i);
        const uint64_t unit_bytes = ObjectShape::Of(kBytes).unit_bytes;
        const uint64_t end = unit_bytes * (units.first_unit() + units.unit_crc32c_size());
        if (range.key() == "none" || end >= kBytes) continue;
        range.set_offset(end);
      }
      *rest.add_ranges() = range;
    }
    get = rest;
  }
  EXPECT_EQ(read, 3 * ObjectShape::Of(kBytes).stored_bytes());
}

TEST_F(ObjectServiceTest, WhatDoesNotFitItselfIsRefusedAndNothingOfItIsStored) {
  Add("a", 100'000, 1);
  request_.mutable_objects(0)->set_unit_crc32c(1, 7);
  EXPECT_TRUE(IsDataLoss(Refusal()));
  request_.mutable_objects(0)->mutable_unit_crc32c()->RemoveLast();
  EXPECT_TRUE(IsInvalidArgument(Refusal()));
  for (const uint64_t size : {uint64_t{0}, kMaxObjectBytes + 1, UINT64_MAX, uint64_t{99'998}}) {
    request_.Clear();
    payload_.clear();
    Add("a", 100'000, 1);
    request_.mutable_objects(0)->set_size_bytes(size);
    EXPECT_TRUE(IsInvalidArgument(Refusal())) << size;
  }
  request_.Clear();
  EXPECT_TRUE(IsInvalidArgument(Refusal())) << "no object";
  for (uint32_t i = 0; i <= wire::kMaxObjectsOfCall; ++i) request_.add_objects()->set_key("k");
  EXPECT_TRUE(IsInvalidArgument(Refusal()));
  v1::StatObjectsRequest stat;
  stat.add_keys("a");
  EXPECT_EQ(Call<v1::StatObjectsReply>("Objects/Stat", stat)->size_bytes(0), 0u);
  stat.add_keys("");
  EXPECT_TRUE(IsInvalidArgument(Call<v1::StatObjectsReply>("Objects/Stat", stat).status()));
}

TEST_F(ObjectServiceTest, ReportsOfUnitsThatNobodyHasAreIgnored) {
  Add("a", 100'000, 1);
  ASSERT_TRUE(Put().ok());
  v1::GetObjectsRequest get;
  get.add_ranges()->set_key("a");
  for (const auto& [key, unit] : {std::pair("a", 1u), std::pair("a", 77u), std::pair("b", 0u)}) {
    v1::MismatchedObjectUnit* const reported = get.add_mismatched();
    reported->set_key(key);
    reported->set_unit(unit);
  }
  const auto reply = Call<v1::GetObjectsReply>("Objects/Get", get);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->objects(0).size_bytes(), 100'000u);
}

}  // namespace
}  // namespace quire::kvserver::testing
