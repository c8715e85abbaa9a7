// SPDX-License-Identifier: Apache-2.0
//
// Puts of objects, which go out several calls ahead of their replies.
#include <memory>
#include <string>
#include <vector>

#include "client/client_test_kit.h"
#include "quire/client.h"
#include "quire/objects.h"
#include "quire/v1/object.pb.h"

namespace quire {
namespace {

using testing::RandomPayload;

constexpr char kPut[] = "quire.v1.Objects/Put";
constexpr uint64_t kObjectBytes = 60000;

class ObjectPutsTest : public testing::ClientTest {
 protected:
  /// A message takes one object.
  ObjectPutsTest() : client_(MakeClient({}, /*max_message_bytes=*/2 * kObjectBytes)) {}

  std::vector<ObjectToPut> Objects(uint64_t count) {
    std::vector<ObjectToPut> objects;
    for (uint64_t i = 0; i < count; ++i) {
      objects.push_back({.key = std::to_string(i), .bytes = RandomPayload(kObjectBytes, i)});
    }
    return objects;
  }
  /// Answers the next call, and says whether its objects existed.
  void Answer(bool existed, int objects = 1) {
    v1::PutObjectsReply reply;
    for (int i = 0; i < objects; ++i) reply.add_objects()->set_existed(existed);
    server_.Reply(kPut, reply);
  }
  std::vector<std::string> KeysOfCalls() {
    std::vector<std::string> keys;
    for (size_t call = 0; call < server_.calls().size(); ++call) {
      const auto request = server_.RequestOf<v1::PutObjectsRequest>(call);
      EXPECT_EQ(request.objects_size(), 1);
      keys.push_back(request.objects(0).key());
    }
    return keys;
  }

  const std::unique_ptr<Client> client_;
};

TEST_F(ObjectPutsTest, CallsAheadOfALostOneAreNotRepeatedAndRepliesStayInOrder) {
  Answer(false);
  server_.Fail(kPut, Unavailable("lost"));
  Answer(false);
  Answer(true);
  Answer(true);
  Answer(false);  // The second call again.
  Answer(true);
  const auto put = client_->PutObjects(Objects(6));
  ASSERT_TRUE(put.ok()) << put.status();
  std::vector<bool> existed;
  for (const PutObjectReply& reply : *put) existed.push_back(reply.existed);
  // Three calls follow the lost one before its reply is looked at; a fourth follows the first
  // reply.
  EXPECT_EQ(KeysOfCalls(), (std::vector<std::string>{"0", "1", "2", "3", "4", "1", "5"}));
  EXPECT_EQ(existed, (std::vector<bool>{false, false, false, true, true, true}));
}

TEST_F(ObjectPutsTest, NothingIsSentAfterARefusal) {
  Answer(false);
  server_.Fail(kPut, InvalidArgument("not this one"));
  for (int i = 0; i < 3; ++i) Answer(false);
  const auto put = client_->PutObjects(Objects(20));
  EXPECT_TRUE(IsInvalidArgument(put.status())) << put.status();
  EXPECT_EQ(KeysOfCalls(), (std::vector<std::string>{"0", "1", "2", "3", "4"}));
}

TEST_F(ObjectPutsTest, ARefusalBeforeAnythingWasDoneIsTriedAgainUntilTheDeadline) {
  for (int i = 0; i < 1000; ++i) server_.Fail(kPut, Unavailable("still away"));
  const auto put = client_->PutObjects(Objects(2));
  EXPECT_TRUE(IsUnavailable(put.status()) || IsDeadlineExceeded(put.status())) << put.status();
  EXPECT_GT(server_.calls().size(), 3u);
}

TEST_F(ObjectPutsTest, AReplyForOtherObjectsIsNoReply) {
  Answer(false, /*objects=*/2);
  const auto put = client_->PutObjects(Objects(1));
  EXPECT_TRUE(IsDataLoss(put.status())) << put.status();
}

}  // namespace
}  // namespace quire
