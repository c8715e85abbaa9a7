// SPDX-License-Identifier: Apache-2.0
//
// The registry of a server in another process, over gRPC: ingests beside each other, a watcher that
// was away, and a server that is killed in the middle of ingests.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "tests/integration/fault_document.h"
#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/temp_dir.h"

namespace quire {
namespace {

using testing::ChildProcess;

class RegistryProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void Start() {
    server_ = std::make_unique<ChildProcess>(
        QUIRE_BINARY_DIR "/bin/quired",
        std::vector<std::string>{"--data-dir", dir_ / "data", "--listen", "127.0.0.1:0",
                                 "--dram-bytes", "64MiB", "--idle-seconds", "1"},
        dir_ / "quired.err");
    std::string line;
    const std::string prefix = "quired listening on ";
    ASSERT_TRUE(server_->ReadLine(&line) && line.starts_with(prefix)) << server_->Stderr();
    // A call to the killed server ends soon.
    client_ = Client::Create({.transport = ConnectGrpc(line.substr(prefix.size())).value(),
                              .deadline = std::chrono::seconds(10),
                              .retry = {.max_attempts = 2}})
                  .value();
  }
  void Kill() {
    server_->Signal(SIGKILL);
    server_->Wait();
  }

  StatusOr<SegmentKey> PutText(TokenId seed) {
    const KvSpec spec = testing::FaultSpec();
    const std::vector<TokenId> tokens(spec.segment_tokens(), seed);
    Payload payload;
    payload.Append(std::vector<std::byte>(SegmentBytes(spec, spec.segment_pages)));
    return client_->PutSegment(spec, kRootKey, tokens, payload);
  }
  StatusOr<Document> Ingest(int number) {
    const DocumentName name{.name = "document-" + std::to_string(number)};
    QUIRE_ASSIGN_OR_RETURN(
        const auto begun,
        client_->BeginIngest(name, {.source = "/src", .tags = {{"number", int64_t{number}}}}));
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, PutText(number + 1));
    return client_->RegisterDocument(begun.document.name, tip,
                                     RegisterOptions{.ingest_id = begun.id});
  }
  /// Every event after `*position`, which moves to the end.
  std::vector<DocumentEvent> EventsAfter(uint64_t* position) {
    std::vector<DocumentEvent> all;
    for (;;) {
      const auto page = client_->WatchDocuments({.after = *position, .max_events = 7});
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok() || page->position == *position) return all;
      all.insert(all.end(), page->events.begin(), page->events.end());
      *position = page->position;
    }
  }
  std::vector<Document> Listed(const std::string& filter) {
    const auto page = client_->ListDocuments(ListOptions{.filter = filter, .page_size = 1000});
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? page->documents : std::vector<Document>();
  }

  testing::TempDir dir_;
  std::unique_ptr<ChildProcess> server_;
  std::unique_ptr<Client> client_;
};

TEST_F(RegistryProcessTest, FiftyIngestsBesideEachOtherAndAWatcherSeesThemAll) {
  uint64_t position = 0;
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int i = 0; i < 50; ++i) {
    threads.emplace_back([&, i] {
      if (!Ingest(i).ok()) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(Listed("number<25").size(), 25u);
  EXPECT_TRUE(Listed("state!=ready").empty());
  std::map<DocumentEventKind, int> kinds;
  for (const DocumentEvent& event : EventsAfter(&position)) ++kinds[event.kind];
  EXPECT_EQ(kinds[DocumentEventKind::kIngestBegan], 50);
  EXPECT_EQ(kinds[DocumentEventKind::kRegistered], 50);
  EXPECT_EQ(position, 100u);

  const auto waited = client_->WatchDocuments({.after = position, .wait = std::chrono::seconds(0)});
  EXPECT_TRUE(waited->events.empty());
  std::thread later([&] { EXPECT_TRUE(client_->InvalidateSource("/src").ok()); });
  const auto woken = client_->WatchDocuments({.after = position, .wait = std::chrono::seconds(20)});
  later.join();
  ASSERT_TRUE(woken.ok()) << woken.status();
  ASSERT_FALSE(woken->events.empty());
  EXPECT_EQ(woken->events[0].kind, DocumentEventKind::kInvalidated);
}

TEST_F(RegistryProcessTest, AKilledServerShowsWholeDocumentsOnlyAndMissesNoEvent) {
  uint64_t position = 0;
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; Ingest(i).ok(); i += 4) ++done;
    });
  }
  while (done < 20) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(EventsAfter(&position).empty());
  Kill();
  for (std::thread& thread : threads) thread.join();
  client_.reset();
  Start();

  std::map<std::string, int> balance;  // Registrations seen, less documents there.
  uint64_t all = 0;
  for (const DocumentEvent& event : EventsAfter(&all)) {
    if (event.kind == DocumentEventKind::kRegistered) ++balance[event.document.name];
  }
  EXPECT_GE(all, position) << "nothing that was seen is gone";
  const std::vector<Document> ready = Listed("");
  EXPECT_GE(ready.size(), static_cast<size_t>(done)) << "what was acknowledged is there";
  for (const Document& document : ready) {
    --balance[document.name.name];
    EXPECT_EQ(document.segments_lost, 0u);
    EXPECT_EQ(client_->Stat(ContextRef(document.name))->context.num_tokens, document.num_tokens);
  }
  for (const auto& [name, difference] : balance) EXPECT_EQ(difference, 0) << name;
  for (int i = 0; i < 100 && !Listed("state=ingesting").empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(Listed("state=ingesting").empty()) << "their leases have ended";
}

TEST_F(RegistryProcessTest, AnIngestLivesWhileItsClientHoldsIt) {
  auto begun = client_->BeginIngest({.name = "a"}, {.content_hash = std::string(32, 'h')});
  ASSERT_TRUE(begun.ok()) << begun.status();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(Listed("state=ingesting").size(), 1u) << "three leases long";
  const auto tip = PutText(1);
  ASSERT_TRUE(
      client_->RegisterDocument(begun->document.name, *tip, RegisterOptions{.ingest_id = begun->id})
          .ok());
  EXPECT_TRUE(
      client_->BeginIngest({.name = "a"}, {.content_hash = std::string(32, 'h')})->unchanged);

  uint32_t slices = 0;
  const auto warm = client_->WarmDocument({.name = "a"}, [&](const WarmProgress&) {
    ++slices;
    return true;
  });
  ASSERT_TRUE(warm.ok()) << warm.status();
  EXPECT_EQ(warm->segments_done, warm->num_segments);
  EXPECT_EQ(slices, 1u);

  Payload payload;
  payload.Append(std::vector<std::byte>(1000, std::byte{3}));
  ASSERT_TRUE(client_->PutExtra({.name = "a"}, "summary", 1, payload).ok());
  EXPECT_EQ(client_->GetExtra({.name = "a"}, "summary")->payload.size_bytes(), 1000u);
  EXPECT_EQ(client_->ListExtras({.name = "a"})->size(), 1u);
}

}  // namespace
}  // namespace quire
