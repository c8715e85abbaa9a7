// SPDX-License-Identifier: Apache-2.0
#include "kvserver/service/testing/service_fixture.h"

namespace quire::kvserver::testing {
namespace {

class RegistryServiceTest : public ServiceFixture {
 protected:
  StatusOr<v1::RegisterReply> Register(const std::string& name, const std::string& tip) {
    v1::RegisterRequest request;
    request.mutable_name()->set_collection("books");
    request.mutable_name()->set_name(name);
    request.set_chain_tip(tip);
    return Call<v1::RegisterReply>("Registry/Register", request);
  }
  static v1::GetDocumentRequest Named(const std::string& name) {
    v1::GetDocumentRequest request;
    request.mutable_name()->set_collection("books");
    request.mutable_name()->set_name(name);
    return request;
  }
};

TEST_F(RegistryServiceTest, ADocumentIsFoundReadAndDeleted) {
  const v1::ContextInfo sealed = Sealed(5, 2);
  const auto registered = Register("wörterbuch", sealed.chain_tip());
  ASSERT_TRUE(registered.ok()) << registered.status();
  EXPECT_EQ(registered->document().name().version(), 1u);
  EXPECT_EQ(registered->document().num_tokens(), 22u);
  EXPECT_EQ(registered->document().model(), "test");

  const auto got = Call<v1::GetDocumentReply>("Registry/Get", Named("wörterbuch"));
  EXPECT_EQ(got->document().chain_tip(), sealed.chain_tip());
  v1::StatRequest stat;
  *stat.mutable_context()->mutable_document() = Named("wörterbuch").name();
  EXPECT_EQ(Call<v1::StatReply>("Store/Stat", stat)->context().num_tokens(), 22u);

  v1::DeleteDocumentRequest remove;
  *remove.mutable_name() = Named("wörterbuch").name();
  EXPECT_EQ(Call<v1::DeleteDocumentReply>("Registry/Delete", remove)->num_documents(), 1u);
  EXPECT_EQ(Call<v1::GetDocumentReply>("Registry/Get", Named("wörterbuch")).status().code(),
            StatusCode::kNotFound);
}

TEST_F(RegistryServiceTest, ListsInPages) {
  const std::string tip = Sealed(4).chain_tip();
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Register(name, tip).ok());
  v1::ListDocumentsRequest request;
  request.set_page_size(2);
  const auto first = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(first->documents_size(), 2);
  request.set_page_token(first->next_page_token());
  const auto second = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(second->documents_size(), 1);
  EXPECT_EQ(second->documents(0).name().name(), "c");
  EXPECT_EQ(second->next_page_token(), "");
  request.set_page_size(1001);
  EXPECT_EQ(Call<v1::ListDocumentsReply>("Registry/List", request).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(RegistryServiceTest, TheLongestNamesAreListedInPagesToo) {
  const std::string tip = Sealed(4).chain_tip();
  const std::string longest(255, 'n');
  for (int version = 0; version < 2; ++version) {
    v1::RegisterRequest request;
    request.mutable_name()->set_collection(longest);
    request.mutable_name()->set_name(longest);
    request.set_chain_tip(tip);
    ASSERT_TRUE(Call<v1::RegisterReply>("Registry/Register", request).ok());
  }
  v1::ListDocumentsRequest request;
  request.set_page_size(1);
  const auto first = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_EQ(first->documents_size(), 1);
  request.set_page_token(first->next_page_token());
  const auto second = Call<v1::ListDocumentsReply>("Registry/List", request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->documents_size(), 1);
}

TEST_F(RegistryServiceTest, BadNamesTipsAndHashesAreRefused) {
  const std::string tip = Sealed(4).chain_tip();
  for (const std::string name : {"", "a/b", "tab\t"}) {
    EXPECT_EQ(Register(name, tip).status().code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(Register(std::string(256, 'x'), tip).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register("d", "short").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Register("d", std::string(32, 'k')).status().code(), StatusCode::kNotFound);
  v1::RegisterRequest hash;
  *hash.mutable_name() = Named("d").name();
  hash.set_chain_tip(tip);
  hash.set_content_hash("123");
  EXPECT_EQ(Call<v1::RegisterReply>("Registry/Register", hash).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Call<v1::GetDocumentReply>("Registry/Get", Named("d")).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace quire::kvserver::testing
