// SPDX-License-Identifier: Apache-2.0
#include "cluster/directory/directory_records.h"

#include <gtest/gtest.h>

#include <string>

#include "common/documents/agreed_changes.h"

namespace quire::cluster {
namespace {

const DirectoryKey kKey{"t", {"books", "a", 0}};

AgreedName Published(uint64_t version, size_t source_bytes = 1) {
  const Document document{.name = {"books", "a", version},
                          .source = std::string(source_bytes, 's')};
  return WithPublished({}, document, false).value();
}

StatusCode CodeOf(const std::string& record) {
  return ParseDirectoryRecord(kKey, record).status().code();
}

TEST(DirectoryRecordsTest, KeysNameTenantCollectionAndDocument) {
  EXPECT_EQ(DocumentsPrefix("demo"), "/quire-registry/demo/documents/");
  EXPECT_EQ(TenantKey("demo", "t"), "/quire-registry/demo/tenants/t");
  EXPECT_EQ(DirectoryKeyText("t", {"books", "a b", 3}), "t/books/a b");
  const auto key = ParseDirectoryKey("t/books/a b");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->tenant, "t");
  EXPECT_EQ(key->name, (DocumentName{"books", "a b", 0}));
  for (const char* bad : {"", "t", "t/books", "t/books/", "/books/a", "t//a", "t/books/a/b"}) {
    EXPECT_FALSE(ParseDirectoryKey(bad)) << bad;
  }
}

TEST(DirectoryRecordsTest, ARecordIsReadAsItWasWritten) {
  const AgreedName name = WithReserved(Published(4));
  const AgreedName read = ParseDirectoryRecord(kKey, DirectoryRecord(name).value()).value();
  EXPECT_TRUE(SaysTheSame(name, read));
  EXPECT_TRUE(read.versions[0].is_latest);
  EXPECT_EQ(CodeOf(R"({"highest": "1", "of_a_later_version": 1})"), StatusCode::kOk);
}

TEST(DirectoryRecordsTest, RecordsThatContradictThemselvesAreRefused) {
  const std::string good = DirectoryRecord(Published(4)).value();
  const auto with = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << good;
    return CodeOf(text.replace(at, from.size(), to));
  };
  EXPECT_EQ(with("\"highest\":\"4\"", "\"highest\":\"3\""), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"latest\":\"4\"", "\"latest\":\"3\""), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"latest\":\"4\"", "\"latest\":\"0\""), StatusCode::kDataLoss);
  EXPECT_EQ(with("\"books\"", "\"films\""), StatusCode::kDataLoss);
  EXPECT_EQ(with("DOCUMENT_STATE_READY", "DOCUMENT_STATE_FAILED"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf("{}"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf("rubbish"), StatusCode::kDataLoss);
}

TEST(DirectoryRecordsTest, ANameWithTooMuchToSayIsRefused) {
  EXPECT_EQ(DirectoryRecord(Published(1, kMaxDirectoryRecordBytes)).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(DirectoryRecordsTest, SettingsOfACollectionAreReadAsTheyWereWritten) {
  const Collection settings{.name = "books", .codec = "int8+zstd", .ttl_seconds = 60};
  const auto read = ParseCollectionRecord("t/books", CollectionRecordText(settings));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tenant, "t");
  EXPECT_EQ(read->settings.name, "books");
  EXPECT_EQ(read->settings.codec, "int8+zstd");
  EXPECT_FALSE(read->settings.codec_is_default);
  EXPECT_EQ(read->settings.ttl_seconds, 60u);
  EXPECT_TRUE(ParseCollectionRecord("t/books", "{}")->settings.codec_is_default);
  for (const char* key : {"", "t", "/books"}) {
    EXPECT_TRUE(IsDataLoss(ParseCollectionRecord(key, "{}").status())) << key;
  }
  EXPECT_TRUE(IsDataLoss(ParseCollectionRecord("t/books", "rubbish").status()));
  EXPECT_TRUE(
      IsDataLoss(ParseCollectionRecord("t/books", R"({"ttl_seconds": "99999999999"})").status()));
}

TEST(DirectoryRecordsTest, SaltsAreHexadecimal) {
  TenantSalt salt{};
  salt[31] = 0xab;
  EXPECT_EQ(ParseTenantRecord("t", TenantRecordText(salt)).value(), salt);
  EXPECT_EQ(ParseTenantRecord("t", R"({"salt": "ab"})").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ParseTenantRecord("t", "rubbish").status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace quire::cluster
