// SPDX-License-Identifier: Apache-2.0
#include "kvserver/registry/rows/document_record.h"

#include <gtest/gtest.h>

#include "kvserver/registry/collections/collection_settings.h"
#include "kvserver/registry/rows/document_keys.h"
#include "kvserver/registry/rows/registry_row.h"

namespace quire::kvserver::testing {
namespace {

TEST(DocumentRecordTest, DecodesWhatItEncodesAndSeesEveryFlippedBit) {
  const Document document{.name = {"c", "n", 3},
                          .chain_tip = SegmentKey{{1, 2, 3}},
                          .num_tokens = 123,
                          .bytes = 456,
                          .model = "m",
                          .created_unix_micros = -5,
                          .content_hash = std::string(32, 'h')};
  std::string encoded = EncodeDocument(document);
  const auto decoded = DecodeDocument(document.name, encoded);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(EncodeDocument(*decoded), encoded);
  EXPECT_EQ(decoded->created_unix_micros, -5);
  for (size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_EQ(DecodeDocument(document.name, encoded).status().code(), StatusCode::kDataLoss);
    encoded[bit / 8] = static_cast<char>(encoded[bit / 8] ^ (1 << (bit % 8)));
  }
  const std::vector<SegmentKey> keys = {SegmentKey{{1}}, SegmentKey{{2}}};
  EXPECT_EQ(*DecodeSegmentKeys(EncodeSegmentKeys(keys)), keys);
  EXPECT_EQ(DecodeSegmentKeys(EncodeSegmentKeys(keys).substr(1)).status().code(),
            StatusCode::kDataLoss);
}

TEST(RegistryRowTest, ARowThatCannotBeReadAnyMoreIsNamedWithTheRemedy) {
  const DocumentName name{"books", "dossier", 3};
  Document document;
  document.name = name;
  CollectionSettings settings;
  settings.ttl_seconds = 7;
  const std::pair<std::string, std::string> rows[] = {
      {DocumentKey("t", name), EncodeDocument(document)},
      {ChainKey("t", name), EncodeSegmentKeys({SegmentKey{{1}}})},
      {CollectionKey("t", "books"), EncodeCollection(settings)}};
  for (const auto& [key, value] : rows) {
    EXPECT_EQ(CheckRegistryRow(key, value), OkStatus());
    const Status damaged = CheckRegistryRow(key, value.substr(1));
    EXPECT_EQ(damaged.code(), StatusCode::kDataLoss) << damaged;
    EXPECT_NE(Message(damaged).find("books"), std::string_view::npos) << damaged;
  }
  EXPECT_EQ(CheckRegistryRow(PinKey("t", name), ""), OkStatus());
  EXPECT_EQ(CheckRegistryRow("somebody else's", "x"), OkStatus());
}

TEST(DocumentRecordTest, ATimeToLiveMakesItAVersionOfItsOwn) {
  Document document;
  document.name = {"c", "n", 3};
  const std::string without = EncodeDocument(document);
  document.ttl_seconds = 77;
  std::string with = EncodeDocument(document);
  EXPECT_EQ(without[0], 1) << "as servers before it wrote them";
  EXPECT_EQ(with[0], 2);
  EXPECT_FALSE(DecodeDocument(document.name, without)->ttl_seconds);
  EXPECT_EQ(DecodeDocument(document.name, with)->ttl_seconds, 77u);
  document.ttl_seconds = 0;
  EXPECT_EQ(DecodeDocument(document.name, EncodeDocument(document)).status().code(),
            StatusCode::kDataLoss);
}

TEST(DocumentKeysTest, ParseReadsWhatTheKeysSay) {
  const DocumentName name{"a b", "c", 0xfeed};
  const SegmentKey segment{{7}};
  for (const std::string& key : {DocumentKey("t", name), ReferenceKey("t", segment, name)}) {
    const auto parsed = ParseDocumentName(key);
    ASSERT_TRUE(parsed) << key;
    EXPECT_EQ(Describe(*parsed), Describe(name));
    EXPECT_FALSE(ParseDocumentName(key.substr(1)));
    EXPECT_FALSE(ParseDocumentName(key + "0"));
  }
  const auto pending = ParsePendingDelete(PendingDeleteKey("t", segment));
  ASSERT_TRUE(pending);
  EXPECT_EQ(pending->tenant, "t");
  EXPECT_EQ(pending->segment, segment);
  EXPECT_FALSE(ParsePendingDelete(DocumentKey("t", name)));
  const auto document = ParseDocumentKey(DocumentKey("t", name));
  ASSERT_TRUE(document);
  EXPECT_EQ(document->tenant, "t");
  EXPECT_EQ(Describe(document->name), Describe(name));
  EXPECT_FALSE(ParseDocumentKey(ReferenceKey("t", segment, name)));
  const auto collection = ParseCollectionKey(CollectionKey("t", "a b"));
  ASSERT_TRUE(collection);
  EXPECT_EQ(collection->tenant, "t");
  EXPECT_EQ(collection->collection, "a b");
  EXPECT_FALSE(ParseCollectionKey(DocumentKey("t", name)));
  EXPECT_FALSE(ParseCollectionKey(CollectionKey("t", "")));
}

}  // namespace
}  // namespace quire::kvserver::testing
