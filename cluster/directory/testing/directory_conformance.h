// SPDX-License-Identifier: Apache-2.0
//
// Conformance suite of DocumentAgreement with DirectoryFeed:
//   INSTANTIATE_TEST_SUITE_P(Local, DirectoryConformanceTest, ::testing::Values(&MakeLocal));
#ifndef QUIRE_CLUSTER_DIRECTORY_TESTING_DIRECTORY_CONFORMANCE_H_
#define QUIRE_CLUSTER_DIRECTORY_TESTING_DIRECTORY_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cluster/directory/directory_feed.h"
#include "common/documents/agreed_changes.h"
#include "common/documents/document_agreement.h"

namespace quire::cluster::testing {

/// An empty directory and its backend.
class DirectoryHarness {
 public:
  virtual ~DirectoryHarness() = default;
  virtual DocumentAgreement& agreement() = 0;
  virtual DirectoryFeed& feed() = 0;
  /// Forgets all changes so far.
  virtual void ForgetChanges() = 0;
};
using MakeDirectoryHarness = std::unique_ptr<DirectoryHarness> (*)();

class DirectoryConformanceTest : public ::testing::TestWithParam<MakeDirectoryHarness> {
 protected:
  DocumentAgreement& agreement() { return harness_->agreement(); }
  DirectoryFeed& feed() { return harness_->feed(); }
  void ForgetChanges() { harness_->ForgetChanges(); }

  static Document Version(const std::string& name, uint64_t version) {
    Document document{.name = {"books", name, version},
                      .num_tokens = 11,
                      .bytes = 22,
                      .model = "m",
                      .created_unix_micros = 33,
                      .content_hash = std::string(32, 'h'),
                      .ttl_seconds = 44,
                      .tags = {{"team", "x"}, {"part", int64_t{7}}, {"done", true}},
                      .source = "file.txt"};
    document.chain_tip.bytes[0] = static_cast<uint8_t>(version);
    return document;
  }
  AgreedName Publish(const std::string& name, uint64_t version) {
    return agreement().Publish("t", Version(name, version), /*keep_latest=*/false).value();
  }
  AgreedName Remove(const std::string& name, const std::vector<uint64_t>& versions) {
    return agreement().Remove("t", {"books", name}, versions).value();
  }
  AgreedName Read(const std::string& name) {
    return agreement().Read("t", {"books", name}).value();
  }
  static TimePoint Soon() { return SystemClock().Now() + std::chrono::seconds(20); }
  /// "name@latest" of each entry.
  static std::vector<std::string> Texts(const std::vector<DirectoryEntry>& entries) {
    std::vector<std::string> texts;
    for (const DirectoryEntry& entry : entries) {
      texts.push_back(entry.name.name + "@" + std::to_string(entry.agreed.latest));
    }
    return texts;
  }
  using Strings = std::vector<std::string>;

 private:
  std::unique_ptr<DirectoryHarness> harness_ = GetParam()();
};

TEST_P(DirectoryConformanceTest, APublishedVersionIsReadAsItWas) {
  EXPECT_FALSE(Read("a").exists());
  const AgreedName published = Publish("a", 3);
  const AgreedName read = Read("a");
  EXPECT_TRUE(SaysTheSame(read, published));
  EXPECT_EQ(read.revision, published.revision);
  EXPECT_EQ(read.latest, 3u);
  EXPECT_EQ(read.highest, 3u);
  const Document expected = Version("a", 3);
  const Document& document = read.versions.at(0);
  EXPECT_EQ(document.name, expected.name);
  EXPECT_EQ(document.chain_tip, expected.chain_tip);
  EXPECT_EQ(document.num_tokens, expected.num_tokens);
  EXPECT_EQ(document.bytes, expected.bytes);
  EXPECT_EQ(document.model, expected.model);
  EXPECT_EQ(document.created_unix_micros, expected.created_unix_micros);
  EXPECT_EQ(document.content_hash, expected.content_hash);
  EXPECT_EQ(document.ttl_seconds, expected.ttl_seconds);
  EXPECT_EQ(document.tags, expected.tags);
  EXPECT_EQ(document.source, expected.source);
  EXPECT_TRUE(document.is_latest);
  EXPECT_FALSE(agreement().Read("other", {"books", "a"})->exists()) << "another tenant's";
}

TEST_P(DirectoryConformanceTest, EachChangeHasItsEffectAndAHigherRevision) {
  uint64_t revision = 0;
  const auto newer = [&revision](const AgreedName& name) {
    EXPECT_GT(name.revision, std::exchange(revision, name.revision));
    return name;
  };
  EXPECT_EQ(newer(agreement().Reserve("t", {"books", "a"}).value()).highest, 1u);
  EXPECT_EQ(newer(Publish("a", 1)).latest, 1u);
  EXPECT_EQ(newer(Publish("a", 2)).latest, 2u);
  EXPECT_EQ(newer(agreement().MoveLatest("t", {"books", "a", 1}).value()).latest, 1u);
  Document amended = Version("a", 2);
  amended.tags = {};
  EXPECT_TRUE(newer(agreement().Amend("t", amended).value()).Find(2)->tags.empty());
  EXPECT_EQ(newer(Remove("a", {1})).latest, 2u);
  EXPECT_FALSE(newer(Remove("a", {2})).exists());
  EXPECT_FALSE(Read("a").exists());
  EXPECT_GE(Read("a").revision, revision);
}

TEST_P(DirectoryConformanceTest, WhatChangesNothingHasNoNewRevision) {
  const AgreedName name = Publish("a", 1);
  EXPECT_EQ(Publish("a", 1).revision, name.revision);
  EXPECT_EQ(Remove("a", {5}).revision, name.revision);
  EXPECT_EQ(agreement().MoveLatest("t", {"books", "a", 1})->revision, name.revision);
  EXPECT_FALSE(Remove("nothing", {1}).exists());
}

TEST_P(DirectoryConformanceTest, RefusalsChangeNothing) {
  const AgreedName name = Publish("a", 1);
  Document other = Version("a", 1);
  other.chain_tip.bytes[1] = 1;
  EXPECT_EQ(agreement().Publish("t", other, false).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(IsNotFound(agreement().Amend("t", other).status()));
  EXPECT_TRUE(IsNotFound(agreement().MoveLatest("t", {"books", "a", 2}).status()));
  EXPECT_TRUE(IsNotFound(agreement().MoveLatest("t", {"books", "nothing", 1}).status()));
  EXPECT_EQ(Read("a").revision, name.revision);
}

TEST_P(DirectoryConformanceTest, ANumberIsReservedOnceByServersAtOneTime) {
  constexpr size_t kThreads = 4, kEach = 8;
  std::vector<std::vector<uint64_t>> taken(kThreads);
  std::vector<std::thread> threads;
  for (auto& its : taken) {
    threads.emplace_back([this, &its] {
      for (size_t i = 0; i < kEach; ++i) {
        its.push_back(agreement().Reserve("t", {"books", "a"}).value().highest);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<bool> seen(kThreads * kEach + 1);
  for (const auto& its : taken) {
    for (const uint64_t number : its) {
      ASSERT_LT(number, seen.size());
      EXPECT_FALSE(seen[number]) << number;
      seen[number] = true;
    }
  }
}

TEST_P(DirectoryConformanceTest, AScanReadsEveryNameOnceInOrder) {
  for (const char* name : {"b", "a b", "c", "a"}) Publish(name, 1);
  (void)agreement().Publish("u", Version("z", 2), false);
  Strings seen;
  std::string after;
  do {
    const auto page = feed().Scan(after, 2);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_LE(page->entries.size(), 2u);
    for (const std::string& text : Texts(page->entries)) seen.push_back(text);
    after = page->next;
  } while (!after.empty());
  EXPECT_EQ(seen, (Strings{"a@1", "a b@1", "b@1", "c@1", "z@2"}));
  EXPECT_TRUE(IsInvalidArgument(feed().Scan("", 0).status()));
}

TEST_P(DirectoryConformanceTest, ChangesFollowAScanInOrder) {
  Publish("a", 1);
  uint64_t since = feed().Scan("", 10)->revision;
  Publish("b", 1);
  Publish("a", 2);
  Remove("b", {1});
  Strings seen;
  while (seen.size() < 3) {
    const auto changes = feed().Changes(since, Soon());
    ASSERT_TRUE(changes.ok()) << changes.status();
    ASSERT_GT(changes->revision, since);
    since = changes->revision;
    for (const std::string& text : Texts(changes->entries)) seen.push_back(text);
  }
  EXPECT_EQ(seen, (Strings{"b@1", "a@2", "b@0"}));
  const auto none = feed().Changes(since, TimePoint::min());
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->entries.empty());
  EXPECT_EQ(none->revision, since);
}

TEST_P(DirectoryConformanceTest, AReaderIsWokenByAChange) {
  const uint64_t since = Publish("a", 1).revision;
  std::thread writer([this] { Publish("a", 2); });
  const auto changes = feed().Changes(since, Soon());
  writer.join();
  ASSERT_TRUE(changes.ok()) << changes.status();
  EXPECT_EQ(Texts(changes->entries), (Strings{"a@2"}));
  EXPECT_EQ(changes->entries[0].tenant, "t");
  EXPECT_EQ(changes->entries[0].agreed.versions.size(), 2u);
}

TEST_P(DirectoryConformanceTest, ForgottenChangesAreTold) {
  const uint64_t since = Publish("a", 1).revision;
  Publish("a", 2);
  Publish("a", 3);
  ForgetChanges();
  EXPECT_EQ(feed().Changes(since, Soon()).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(feed().Changes(since + 1'000'000, Soon()).status().code(), StatusCode::kOutOfRange)
      << "a revision that the directory has not reached";
}

}  // namespace quire::cluster::testing

#endif  // QUIRE_CLUSTER_DIRECTORY_TESTING_DIRECTORY_CONFORMANCE_H_
