// SPDX-License-Identifier: Apache-2.0
#include "common/wire/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "quire/v1/registry.pb.h"
#include "quire/v1/session.pb.h"
#include "quire/v1/worker.pb.h"

namespace quire::wire {
namespace {

using ::testing::HasSubstr;

void ExpectBad(const google::protobuf::Message& message, const std::string& where) {
  const Status status = CheckText(message);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), where);
  std::string bytes;
  EXPECT_EQ(Encode(message, &bytes), status);
}

TEST(MessageTest, TextThatIsNotWholeIsNamedWithItsFieldAndByte) {
  v1::GenerateReply reply;
  reply.set_text("Caf\xc3");
  ExpectBad(reply, "text is not UTF-8 at byte 3");
  v1::GenerateRequest request;
  request.mutable_document()->set_name("\xff");
  ExpectBad(request, "document.name is not UTF-8 at byte 0");
  request.clear_document();
  request.set_text("ab\x80");  // A field of a oneof.
  ExpectBad(request, "text is not UTF-8 at byte 2");
  request.set_text("ab");
  request.add_stop_texts("a");
  request.add_stop_texts("b\xc3");
  ExpectBad(request, "stop_texts[1] is not UTF-8 at byte 1");
  v1::ListDocumentsReply list;
  list.add_documents()->mutable_name()->set_collection("a");
  list.add_documents()->mutable_name()->set_name("a\xed\xa0\x80");
  ExpectBad(list, "documents[1].name.name is not UTF-8 at byte 1");
}

TEST(MessageTest, WholeTextAndBytesOfAnyKindGoThere) {
  v1::GenerateRequest request;
  EXPECT_EQ(CheckText(request), OkStatus());
  request.mutable_document()->set_name("Café");
  request.set_text("中文 🙂");
  std::string bytes;
  ASSERT_EQ(Encode(request, &bytes), OkStatus());
  v1::GenerateRequest read;
  ASSERT_EQ(Decode(bytes, &read), OkStatus());
  EXPECT_EQ(read.text(), "中文 🙂");
  v1::RegisterRequest document;
  document.set_chain_tip("\xff\xfe");  // `bytes` are not text.
  EXPECT_EQ(CheckText(document), OkStatus());
}

TEST(MessageTest, WhatDoesNotParseIsThePeersFault) {
  v1::GenerateReply reply;
  // Malformed messages of a peer: field 2 of one byte, half a character; and field 2 without its
  // bytes.
  for (const std::string& bytes : {std::string("\x12\x01\xc3"), std::string("\x12\x05")}) {
    const Status status = Decode(bytes, &reply);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(std::string(Message(status)), HasSubstr("quire.v1.GenerateReply"));
  }
}

}  // namespace
}  // namespace quire::wire
