// SPDX-License-Identifier: Apache-2.0
//
// The client library against a real server. One suite runs over loopback, over gRPC alone, and over
// each kind of data connection.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/client_test_kit.h"
#include "client/data/data_transport.h"
#include "common/base/observe/metrics.h"
#include "common/base/random.h"
#include "common/wire/limits.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kvserver/service/data_plane/network_server.h"
#include "kvserver/service/server.h"
#include "quire/client.h"
#include "quire/connect.h"
#include "quire/layout.h"
#include "quire/session.h"
#include "quire/session_landing.h"
#include "tests/integration/direct_ucx.h"
#include "tests/kit/look_again.h"
#include "tests/kit/same_bytes.h"
#include "tests/kit/temp_dir.h"
#include "transport/local/loopback_transport.h"
#include "transport/ucx/ucx.h"

namespace quire {
namespace {

using testing::Bytes;
using testing::RandomBytes;

constexpr uint32_t kPages = 20;
constexpr uint32_t kTailTokens = 3;

class ClientServerTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }

  void Start() {
    if (DataKind() == "ucx" && !UcxAvailable()) GTEST_SKIP() << "built without UCX";
    kvserver::ServerOptions options;
    options.data_dir = dir_ / "data";
    options.dram_bytes = 64 << 20;
    if (kind() != "one_tenant_shm") options.tenants = {"default", "other"};
    auto server = kvserver::Server::Open(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    if (kind() == "loopback") {
      transport_ =
          std::make_shared<LoopbackTransport>(server_->handler(), LoopbackTransport::Options{});
    } else {
      auto listener = kvserver::NetworkServer::Start(
          *server_, options,
          {.listeners = {
               .transports = {DataKind().empty() ? "grpc" : DataKind()},
               .shm_socket = dir_ / "socket",
               .ucx = kind() == "ucx_direct" ? testing::DirectUcxOptions() : UcxOptions()}});
      ASSERT_TRUE(listener.ok()) << listener.status();
      listener_ = *std::move(listener);
      transport_ = *ConnectGrpc(listener_->address());
    }
    client_ = MakeClient("default");
  }
  std::string_view kind() const { return GetParam(); }
  /// Kind of the data connection; empty for none.
  std::string DataKind() const {
    if (kind() == "loopback" || kind() == "grpc") return "";
    if (kind() == "grpc_stream") return "grpc";
    return kind() == "one_tenant_shm" ? "shm" : kind() == "ucx_direct" ? "ucx" : GetParam();
  }
  void Stop() {
    client_.reset();
    transport_.reset();
    listener_.reset();
    server_.reset();
  }
  std::unique_ptr<Client> MakeClient(const std::string& tenant) {
    Client::Options options{.transport = transport_, .tenant = tenant};
    options.retry.max_attempts = 2;
    if (!DataKind().empty()) {
      DataOptions data_options{
          .transport = DataKind(), .tenant = tenant, .control_address = listener_->address()};
      internal::DataSeams seams;
      if (kind() == "ucx_direct") seams.dialers = testing::DirectUcxDialers();
      auto data = internal::DataTransport::Open(transport_, data_options, {}, seams);
      // A tenant that the server does not know gets no connection; its calls tell why.
      EXPECT_TRUE(data.ok() || IsNotFound(data.status())) << data.status();
      if (data.ok()) options.data_transport = *std::move(data);
    }
    return *Client::Create(options);
  }

  /// Unit (page, layer, head) of the document, the same bytes every time.
  std::vector<std::byte> Unit(uint32_t page, uint32_t layer, uint32_t head) const {
    const auto seed = (uint64_t{page} * spec_.num_layers + layer) * spec_.num_kv_heads + head;
    std::vector<std::byte> bytes = RandomBytes(UnitBytes(spec_), seed + 1);
    for (size_t i = 3; i < bytes.size(); i += 4) bytes[i] &= std::byte{0x3f};  // Finite as floats.
    return bytes;
  }
  /// The values of the unit.
  std::vector<std::byte> Values(uint32_t page, uint32_t layer, uint32_t head) const {
    const std::vector<std::byte> unit = Unit(page, layer, head);
    return {unit.begin() + static_cast<std::ptrdiff_t>(ValueOffsetBytes(spec_)), unit.end()};
  }
  /// The units of `result`, decoded.
  std::vector<std::byte> Decoded(const RecallResult& result) const {
    const std::vector<std::byte> bytes = Bytes(result.payload);
    const uint64_t raw = UnitBytes(spec_);
    std::vector<std::byte> units(result.placements.size() * raw);
    uint64_t at = 0;
    for (size_t i = 0; i < result.placements.size(); ++i) {
      const UnitCodec codec = result.CodecOf(i);
      const bool last = result.placements[i].page == kPages;
      const auto rows = static_cast<int32_t>(last ? kTailTokens : spec_.page_tokens);
      const uint64_t size = UnitBytes(spec_, codec);
      EXPECT_EQ(kernels::CpuKernels().decode_unit({.encoded = bytes.data() + at,
                                                   .encoded_bytes = static_cast<int64_t>(size),
                                                   .valid_rows = &rows,
                                                   .units = units.data() + i * raw,
                                                   .n_units = 1,
                                                   .shape = ShapeOf(spec_),
                                                   .codec = codec}),
                kernels::OpStatus::kOk);
      at += size;
    }
    return units;
  }
  /// A fetch brings units of document "a" as `codec` has them.
  void ExpectFetchedAsStored(UnitCodec codec) {
    const std::vector<UnitRange> ranges = {{.layer = 1, .pages = {3, 0, 19}, .heads = {1}},
                                           {.layer = 0, .pages = {7}}};
    const ContextRef context = DocumentName{.name = "a"};
    const auto plain = client_->Fetch(context, ranges);
    const auto fetched = client_->FetchUnits(context, ranges, spec_, CodecSet::All());
    ASSERT_TRUE(plain.ok() && fetched.ok()) << plain.status() << fetched.status();
    EXPECT_EQ(fetched->codecs, std::vector<UnitCodec>(5, codec));
    EXPECT_EQ(fetched->payload.size_bytes(), 5 * UnitBytes(spec_, codec));
    RecallResult result;
    result.placements.resize(5);
    result.codecs = fetched->codecs;
    result.payload = fetched->payload;
    EXPECT_EQ(Decoded(result), Bytes(*plain));
    const auto decoded = client_->FetchUnits(context, ranges, spec_, {});
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(decoded->codecs.empty());
    EXPECT_EQ(Bytes(decoded->payload), Bytes(*plain));
  }
  /// Recalls, into a landing and in messages, bring a document as `codec` has it.
  void ExpectUnitsAsStored(const std::string& name, UnitCodec codec) {
    ASSERT_TRUE(client_->SetCollection("default", {.codec = name}).ok());
    ASSERT_TRUE(PutDocument("a").ok());
    const auto plain = OpenSession(*client_, {.spec = spec_, .slots_per_head = 4});
    const auto coded =
        OpenSession(*client_, {.spec = spec_, .slots_per_head = 4, .codecs = CodecSet::All()});
    ASSERT_TRUE(plain.ok() && coded.ok()) << plain.status() << coded.status();
    ExpectFetchedAsStored(codec);
    EXPECT_EQ((*plain)->unit_bytes(codec), 0u);
    EXPECT_EQ((*coded)->unit_bytes(codec), UnitBytes(spec_, codec));
    EXPECT_EQ((*coded)->unit_bytes(), UnitBytes(spec_));
    const auto landing = (*coded)->MakeLanding(1);
    ASSERT_TRUE(landing.ok()) << landing.status();
    for (const uint32_t page : {1u, 9u}) {
      const LayerWant landed = {.num_layers = 2, .pages = {{page, page + 1}, {page + 3, kPages}}};
      const LayerWant sent = {.num_layers = 2, .pages = {{}, {page + 5, page + 6}}};
      for (const LayerWant& want : {landed, sent}) {
        RecallOptions options;
        if (!want.pages.Head(0).empty()) options.landing = landing->get();
        const auto expected = (*plain)->Recall({&want, 1});
        const auto result = (*coded)->Recall({&want, 1}, options);
        ASSERT_TRUE(expected.ok() && result.ok()) << expected.status() << result.status();
        EXPECT_TRUE(expected->codecs.empty());
        EXPECT_EQ(result->codecs, std::vector(result->placements.size(), codec));
        EXPECT_EQ(result->payload.size_bytes(),
                  result->placements.size() * UnitBytes(spec_, codec));
        const bool lands = options.landing != nullptr && (*coded)->LandsDirectly();
        EXPECT_EQ(result->landed_bytes, lands ? result->payload.size_bytes() : 0);
        EXPECT_EQ(Decoded(*result), Bytes(expected->payload));
        (*plain)->Applied(*expected);
        (*coded)->Applied(*result);
      }
    }
  }
  /// Opens a session over document "a".
  static StatusOr<std::unique_ptr<ClientSession>> OpenSession(Client& client,
                                                              const SessionOptions& options) {
    return client.OpenSession(DocumentName{.name = "a"}, options);
  }
  Payload Pages(uint32_t first, uint32_t end) const {
    Payload payload;
    for (uint32_t page = first; page < end; ++page) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        for (uint32_t head = 0; head < spec_.num_kv_heads; ++head)
          payload.Append(Unit(page, layer, head));
      }
    }
    return payload;
  }
  std::vector<TokenId> Tokens(uint32_t count) const {
    std::vector<TokenId> tokens(count);
    std::iota(tokens.begin(), tokens.end(), 100);
    return tokens;
  }
  /// Stores kPages whole pages and a short one, and registers them as `name`.
  StatusOr<Document> PutDocument(const std::string& name) {
    QUIRE_ASSIGN_OR_RETURN(const SegmentKey tip, StoreDocument(*client_));
    return client_->RegisterDocument({.name = name}, tip);
  }
  /// Stores the same pages as `client`, and returns the chain's tip.
  StatusOr<SegmentKey> StoreDocument(Client& client) const {
    const std::vector<TokenId> tokens = Tokens(kPages * spec_.page_tokens + kTailTokens);
    const std::span<const TokenId> whole(tokens.data(), kPages * spec_.page_tokens);
    QUIRE_ASSIGN_OR_RETURN(const OpenedContext context,
                           client.OpenContext(spec_, std::nullopt, {.collection = "default"}));
    QUIRE_RETURN_IF_ERROR(client.AppendPages(context.id, 0, whole, Pages(0, kPages)).status());
    QUIRE_ASSIGN_OR_RETURN(
        const ContextInfo info,
        client.Seal(context.id, std::span(tokens).subspan(whole.size()), Tail()));
    return info.chain_tip;
  }
  /// The short page: rows past its tokens are zero.
  Payload Tail() const {
    const uint64_t row = UnitBytes(spec_) / spec_.rows_per_unit();
    Payload payload;
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        std::vector<std::byte> unit = Unit(kPages, layer, head);
        for (uint64_t half = 0; half < 2; ++half) {
          const uint64_t begin = (half * spec_.page_tokens + kTailTokens) * row;
          std::fill_n(unit.begin() + static_cast<std::ptrdiff_t>(begin),
                      (spec_.page_tokens - kTailTokens) * row, std::byte{0});
        }
        payload.Append(std::move(unit));
      }
    }
    return payload;
  }
  void ExpectUnitsOfFetch(const ContextRef& context) {
    const std::vector<UnitRange> ranges = {{.layer = 1, .pages = {3, 0, 19}, .heads = {1}},
                                           {.layer = 0, .pages = {7}}};
    const auto fetched = client_->Fetch(context, ranges);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    Payload expected;
    for (const uint32_t page : {3u, 0u, 19u}) expected.Append(Unit(page, 1, 1));
    expected.Append(Unit(7, 0, 0));
    expected.Append(Unit(7, 0, 1));
    EXPECT_EQ(Bytes(*fetched), Bytes(expected));
  }

  /// Objects of several sizes, small and of several extents, under keys that name them.
  static std::vector<ObjectToPut> SomeObjects() {
    std::vector<ObjectToPut> objects;
    for (const uint64_t size :
         {uint64_t{1}, uint64_t{1000}, uint64_t{70001}, kObjectExtentBytes + 3}) {
      objects.push_back({.key = std::string("size\0", 5) + std::to_string(size),
                         .bytes = testing::RandomPayload(size, size)});
    }
    return objects;
  }
  /// A client that gets bytes in place.
  std::unique_ptr<Client> InPlace() {
    return *Client::Create({.transport = std::make_shared<LoopbackTransport>(
                                server_->handler(), LoopbackTransport::Options{}),
                            .tenant = "default"});
  }

  const KvSpec spec_ = testing::TinySpec();
  testing::TempDir dir_;
  std::unique_ptr<kvserver::Server> server_;
  std::unique_ptr<kvserver::NetworkServer> listener_;
  std::shared_ptr<Transport> transport_;
  std::unique_ptr<Client> client_;
};

INSTANTIATE_TEST_SUITE_P(Transports, ClientServerTest,
                         ::testing::Values("loopback", "grpc", "grpc_stream", "shm",
                                           "one_tenant_shm", "ucx", "ucx_direct"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ClientServerTest, ADocumentSentLayerByLayerIsTheSameDocument) {
  const auto whole = PutDocument("whole");
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::vector<TokenId> tokens = Tokens(kPages * spec_.page_tokens + kTailTokens);
  const auto context = client_->OpenContext(spec_, std::nullopt);
  ASSERT_TRUE(context.ok()) << context.status();
  for (uint32_t layer = spec_.num_layers; layer-- > 0;) {
    Payload units;
    for (uint32_t page = 0; page < kPages; ++page) {
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        units.Append(Unit(page, layer, head));
      }
    }
    const auto sent = client_->AppendLayers(
        context->id, 0, std::span(tokens).first(kPages * spec_.page_tokens), {&layer, 1}, units);
    ASSERT_TRUE(sent.ok()) << sent.status();
    EXPECT_EQ(*sent, layer == 0 ? kPages * spec_.page_tokens : 0u);
  }
  const auto sealed = client_->Seal(context->id, std::span(tokens).last(kTailTokens), Tail());
  ASSERT_TRUE(sealed.ok()) << sealed.status();
  EXPECT_EQ(sealed->chain_tip, whole->chain_tip);
}

TEST_P(ClientServerTest, AStoredDocumentIsReadBackByteForByte) {
  const auto document = PutDocument("a");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->num_tokens, kPages * spec_.page_tokens + kTailTokens);
  ExpectUnitsOfFetch(DocumentName{.name = "a"});
  ExpectUnitsOfFetch(document->chain_tip);
  const auto stat = client_->Stat(DocumentName{.name = "a"});
  ASSERT_TRUE(stat.ok()) << stat.status();
  EXPECT_EQ(stat->context.num_pages, kPages + 1);
  EXPECT_EQ(stat->context.spec, spec_);
}

TEST_P(ClientServerTest, ARestartedServerStillHasItsDocuments) {
  ASSERT_TRUE(PutDocument("a").ok());
  Stop();
  Start();
  ExpectUnitsOfFetch(DocumentName{.name = "a"});
}

/// Pieces of growing sizes, none of them that of a unit.
Destination InPieces(std::span<std::byte> memory) {
  Destination to;
  for (size_t bytes = 1; !memory.empty(); bytes = 3 * bytes + 1) {
    const size_t take = std::min(bytes, memory.size());
    to.Append(memory.first(take));
    memory = memory.subspan(take);
  }
  return to;
}

// Promise 1: the first bytes under a key stand.
TEST_P(ClientServerTest, ObjectsAreReadWholeInRangesAndIntoMemoryAlsoAfterARestart) {
  const std::vector<ObjectToPut> objects = SomeObjects();
  const auto put = client_->PutObjects(objects);
  ASSERT_TRUE(put.ok()) << put.status();
  ASSERT_EQ(put->size(), objects.size());
  for (int times = 0; times < 2; ++times) {
    std::vector<ObjectRange> ranges = {{.key = "nobody"}};
    for (const ObjectToPut& object : objects) {
      ranges.push_back({.key = object.key});
      const uint64_t half = object.bytes.size_bytes() / 2;
      ranges.push_back({.key = object.key, .offset = half});
      ranges.push_back({.key = object.key, .offset = half / 3, .bytes = half + 1});
    }
    const auto read = client_->GetObjects(ranges);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), ranges.size());
    EXPECT_FALSE(read->front().has_value());
    std::vector<std::byte> memory(objects.back().bytes.size_bytes() + 1);
    for (size_t i = 1; i < ranges.size(); ++i) {
      SCOPED_TRACE(i);
      const std::vector<std::byte> whole = Bytes(objects[(i - 1) / 3].bytes);
      const uint64_t begin = ranges[i].offset;
      const uint64_t bytes =
          std::min(whole.size() - begin, ranges[i].bytes == 0 ? whole.size() : ranges[i].bytes);
      const auto expected = std::span(whole).subspan(begin, bytes);
      ASSERT_TRUE((*read)[i].has_value());
      EXPECT_EQ((*read)[i]->object_bytes, whole.size());
      EXPECT_TRUE(testing::SameBytes(Bytes((*read)[i]->payload), expected));
      EXPECT_TRUE((*read)[i]->payload.IsValid());
      const auto to = std::span(memory).first(ranges[i].bytes == 0 ? memory.size() : bytes);
      const std::vector<ObjectInto> into = {{.key = ranges[i].key, .offset = begin, .to = to}};
      const auto copied = client_->GetObjectsInto(into);
      ASSERT_TRUE(copied.ok()) << copied.status();
      ASSERT_EQ(copied->front(), bytes);
      EXPECT_TRUE(testing::SameBytes(to.first(bytes), expected));
      const std::vector<ObjectInto> exactly = {
          {.key = ranges[i].key, .offset = begin, .to = InPieces(to.first(bytes)), .exact = true}};
      std::fill(memory.begin(), memory.end(), std::byte{0});
      if (begin + bytes == whole.size()) {
        ASSERT_EQ(client_->GetObjectsInto(exactly)->front(), bytes);
        EXPECT_TRUE(testing::SameBytes(to.first(bytes), expected));
      } else {
        EXPECT_EQ(client_->GetObjectsInto(exactly)->front(), std::nullopt);
      }
    }
    if (times > 0) break;
    Stop();
    Start();
  }
  const std::vector<std::string> keys = {objects[2].key, "nobody"};
  EXPECT_EQ(*client_->StatObjects(keys),
            (std::vector<std::optional<uint64_t>>{70001, std::nullopt}));
  EXPECT_EQ(*client_->DeleteObjects(keys), (std::vector<bool>{true, false}));
  EXPECT_EQ(*client_->DeleteObjects(keys), (std::vector<bool>{false, false}));
  EXPECT_FALSE(client_->GetObjects(std::vector<ObjectRange>{{.key = keys[0]}})->front());
}

TEST_P(ClientServerTest, ObjectsThatCannotBeAreRefusedAndTheFirstBytesStand) {
  const auto put = [&](const std::string& key, uint64_t bytes, const PutOptions& options = {}) {
    const std::vector<ObjectToPut> one = {{key, testing::RandomPayload(bytes, bytes)}};
    return client_->PutObjects(one, options);
  };
  EXPECT_TRUE(IsInvalidArgument(put("a", 0).status()));
  EXPECT_TRUE(IsInvalidArgument(put("", 1).status()));
  EXPECT_TRUE(IsInvalidArgument(put(std::string(kMaxObjectKeyBytes + 1, 'k'), 1).status()));
  ObjectToPut large{.key = "a"};
  const Payload part = testing::RandomPayload(1 << 20, 1);
  while (large.bytes.size_bytes() < kDefaultMaxMessageBytes) large.bytes.Append(part);
  EXPECT_TRUE(IsInvalidArgument(client_->PutObjects({&large, 1}).status()));
  EXPECT_TRUE(IsUnimplemented(put("a", 1, {.durability = PutDurability::kReplicated}).status()));
  EXPECT_FALSE(put("a", 100, {.durability = PutDurability::kPersisted})->front().existed);
  EXPECT_FALSE(put("a", 100)->front().differs);
  EXPECT_TRUE(put("a", 101)->front().existed && put("a", 101)->front().differs);
  EXPECT_EQ(put("a", 101, {.strict = true}).status().code(), StatusCode::kAlreadyExists);
  const auto read = [&](uint64_t offset) {
    return client_->GetObjects(std::vector<ObjectRange>{{.key = "a", .offset = offset}}).status();
  };
  EXPECT_TRUE(read(99).ok());
  EXPECT_TRUE(IsInvalidArgument(read(100)));
  EXPECT_TRUE(
      IsInvalidArgument(client_->GetObjectsInto(std::vector<ObjectInto>{{.key = "a"}}).status()));
  EXPECT_TRUE(client_->PutObjects({})->empty());
  EXPECT_TRUE(client_->GetObjects({})->empty());
}

// Promise 2, on the way too: the reader verifies every unit, and the server mends what it has.
TEST_P(ClientServerTest, Promise2AByteOfAnObjectThatChangedInMemoryIsNoticedAndMended) {
  const std::vector<ObjectToPut> objects = SomeObjects();
  ASSERT_TRUE(client_->PutObjects(objects).ok());
  const auto in_place = InPlace();
  const std::vector<ObjectRange> range = {{.key = objects[2].key, .offset = 10}};
  const std::vector<std::byte> whole = Bytes(objects[2].bytes);
  std::vector<std::byte> memory(whole.size());
  for (const size_t at : {size_t{10}, size_t{65536}, whole.size() - 1}) {
    const auto place = in_place->GetObjects(range);
    ASSERT_TRUE(place.ok()) << place.status();
    ASSERT_EQ(place->front()->payload.slices().size(), 1u) << "units of one extent are one slice";
    const_cast<std::byte*>(place->front()->payload.slices()[0].bytes.data())[at - 10] ^=
        std::byte{8};
    const auto read = client_->GetObjects(range);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(testing::SameBytes(Bytes(read->front()->payload), std::span(whole).subspan(10)));
    const std::vector<ObjectInto> into = {{.key = objects[2].key, .to = std::span(memory)}};
    ASSERT_TRUE(client_->GetObjectsInto(into).ok());
    EXPECT_EQ(memory, whole);
  }
}

// Objects of the arena are lent over shared memory: neither end copies them.
TEST_P(ClientServerTest, AnObjectOverSharedMemoryIsOnePieceOfTheServersMemoryAndStaysWhileHeld) {
  if (kind() != "one_tenant_shm") GTEST_SKIP() << "nothing is lent";
  const std::vector<ObjectToPut> objects = {
      {.key = "a", .bytes = testing::RandomPayload(kObjectExtentBytes, 1)}};
  ASSERT_TRUE(client_->PutObjects(objects).ok());
  const std::vector<ObjectRange> range = {{.key = "a"}};
  const auto first = client_->GetObjects(range);
  const auto second = client_->GetObjects(range);
  ASSERT_TRUE(first.ok() && second.ok()) << first.status() << second.status();
  const Payload& held = first->front()->payload;
  ASSERT_EQ(held.slices().size(), 1u);
  EXPECT_FALSE(held.leases().empty());
  EXPECT_EQ(held.slices()[0].bytes.data(), second->front()->payload.slices()[0].bytes.data());
  EXPECT_TRUE(client_->DeleteObjects(std::vector<std::string>{"a"})->front());
  EXPECT_FALSE(client_->GetObjects(range)->front());
  // Enough to reuse the memory, were it not held.
  for (uint64_t i = 0; i < 20; ++i) {
    const std::vector<ObjectToPut> other = {
        {.key = std::to_string(i), .bytes = testing::RandomPayload(kObjectExtentBytes, 2 + i)}};
    ASSERT_TRUE(client_->PutObjects(other).ok());
  }
  EXPECT_TRUE(Bytes(held) == Bytes(objects[0].bytes));
  EXPECT_TRUE(held.IsValid());
}

TEST_P(ClientServerTest, OtherBytesForASegmentTakeTheFirstUnlessStrict) {
  const std::vector<TokenId> tokens = Tokens(spec_.segment_tokens());
  const Payload payload = testing::RandomPayload(SegmentBytes(spec_, spec_.segment_pages), 1);
  const auto key = client_->PutSegment(spec_, kRootKey, tokens, payload);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(*client_->PutSegment(spec_, kRootKey, tokens, payload), *key);
  const Payload other = testing::RandomPayload(payload.size_bytes(), 2);
  const auto taken = client_->PutSegment(spec_, kRootKey, tokens, other, PutOptions{});
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ(taken->key, *key);
  EXPECT_TRUE(taken->existed && taken->differs);
  EXPECT_TRUE(IsAlreadyExists(
      client_->PutSegment(spec_, kRootKey, tokens, other, PutOptions{.strict = true}).status()));
}

// Promise 1: two workers on different hardware share a store. Their bytes for the same tokens
// differ by noise, and both put the document at the same time.
TEST_P(ClientServerTest, TwoWorkersWhoseBytesDifferByNoisePutOneDocument) {
  const std::vector<TokenId> tokens = Tokens(kPages * spec_.page_tokens + kTailTokens);
  const auto units_of = [&](uint32_t worker, uint32_t page, uint32_t layer) {
    std::vector<std::byte> row;
    for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
      std::vector<std::byte> unit = Unit(page, layer, head);
      // Flips a last bit.
      unit[(page + layer) % unit.size() & ~size_t{3}] ^= std::byte{1} << worker;
      row.insert(row.end(), unit.begin(), unit.end());
    }
    return row;
  };
  StatusOr<Document> documents[2] = {Internal("not run"), Internal("not run")};
  const auto put = [&](uint32_t worker) -> StatusOr<Document> {
    const std::unique_ptr<Client> client = MakeClient("default");
    QUIRE_ASSIGN_OR_RETURN(const OpenedContext context, client->OpenContext(spec_, std::nullopt));
    for (uint32_t page = 0; page < kPages; ++page) {
      for (uint32_t layer = spec_.num_layers; layer-- > 0;) {
        Payload units;
        units.Append(units_of(worker, page, layer));
        QUIRE_RETURN_IF_ERROR(
            client
                ->AppendLayers(
                    context.id, page,
                    std::span(tokens).subspan(size_t{page} * spec_.page_tokens, spec_.page_tokens),
                    {&layer, 1}, units)
                .status());
      }
    }
    QUIRE_ASSIGN_OR_RETURN(const ContextInfo sealed,
                           client->Seal(context.id, std::span(tokens).last(kTailTokens), Tail()));
    return client->RegisterDocument({.name = "by " + std::to_string(worker)}, sealed.chain_tip);
  };
  std::thread other([&] { documents[1] = put(1); });
  documents[0] = put(0);
  other.join();
  for (const auto& document : documents) ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(documents[0]->chain_tip, documents[1]->chain_tip);
  // Every segment comes whole from one worker.
  for (uint32_t first = 0; first < kPages; first += spec_.segment_pages) {
    std::set<uint32_t> whose = {0, 1};
    for (uint32_t page = first; page < std::min(first + spec_.segment_pages, kPages); ++page) {
      for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
        const std::vector<UnitRange> range = {{.layer = layer, .pages = {page}}};
        const auto fetched = client_->Fetch(documents[0]->chain_tip, range);
        ASSERT_TRUE(fetched.ok()) << fetched.status();
        std::erase_if(whose, [&](uint32_t worker) {
          return Bytes(*fetched) != units_of(worker, page, layer);
        });
      }
    }
    EXPECT_EQ(whose.size(), 1u) << "segment of page " << first;
  }
}

// The pages of a put stay until it is registered, whatever others do with the same bytes.
TEST_P(ClientServerTest, ADeleteTakesNothingThatAnotherClientPutAndRegistersLater) {
  const auto other = MakeClient("default");
  const auto mine = StoreDocument(*client_), theirs = StoreDocument(*other);
  ASSERT_TRUE(mine.ok() && theirs.ok()) << mine.status() << theirs.status();
  ASSERT_EQ(*mine, *theirs);
  ASSERT_TRUE(other->RegisterDocument({.name = "theirs"}, *theirs).ok());
  ASSERT_TRUE(other->DeleteDocument({.name = "theirs"}).ok());
  const auto registered = client_->RegisterDocument({.name = "mine"}, *mine);
  ASSERT_TRUE(registered.ok()) << registered.status();
  ExpectUnitsOfFetch(DocumentName{.name = "mine"});
  ASSERT_TRUE(client_->DeleteDocument({.name = "mine"}).ok());
  EXPECT_TRUE(IsNotFound(client_->Stat(*mine).status())) << "nothing holds it any more";
}

TEST_P(ClientServerTest, LookupFindsTheLongestStoredPrefix) {
  ASSERT_TRUE(PutDocument("a").ok());
  std::vector<TokenId> tokens = Tokens(kPages * spec_.page_tokens);
  tokens[2 * spec_.segment_tokens() + 1] = 7;
  const auto found = client_->Lookup(spec_, tokens);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->num_tokens, 2 * spec_.segment_tokens());
}

TEST_P(ClientServerTest, RecallsBringExactlyWhatIsMissing) {
  ASSERT_TRUE(PutDocument("a").ok());
  const uint32_t slots = 6;
  auto session =
      client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = slots});
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ((*session)->tail_tokens().size(), kTailTokens);
  using SlotName = std::tuple<uint32_t, uint32_t, uint32_t>;  // layer, head, slot
  std::map<SlotName, uint32_t> pages;
  std::map<SlotName, std::vector<std::byte>> units;
  SeededRandom random(5);
  for (int step = 0; step < 30; ++step) {
    std::vector<LayerWant> wants;
    size_t missing = 0;
    for (uint32_t layer = 0; layer < spec_.num_layers; ++layer) {
      wants.push_back({.layer = layer});
      for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
        std::vector<uint32_t> wanted;
        for (uint32_t page = 0; page < kPages; ++page) {
          if (wanted.size() < slots && random.Below(4) == 0) wanted.push_back(page);
        }
        for (const uint32_t page : wanted) {
          missing += std::ranges::none_of(pages, [&](const auto& held) {
            return held.first >= SlotName{layer, head, 0} &&
                   held.first < SlotName{layer, head, slots} && held.second == page;
          });
        }
        wants.back().pages.AppendHead(wanted);
      }
    }
    const auto result = (*session)->Recall(wants);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->placements.size(), missing) << "step " << step;
    const std::vector<std::byte> bytes = Bytes(result->payload);
    for (size_t i = 0; i < result->placements.size(); ++i) {
      const Placement& at = result->placements[i];
      const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(i * UnitBytes(spec_));
      EXPECT_EQ(
          std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(UnitBytes(spec_))),
          Unit(at.page, at.layer, at.head));
      pages[{at.layer, at.head, at.slot}] = at.page;
    }
    (*session)->Applied(*result);
  }
  EXPECT_TRUE((*session)->Close().ok());
}

TEST_P(ClientServerTest, ASessionOfValuesBringsTheSecondHalvesOfUnits) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      OpenSession(*client_, {.spec = spec_, .slots_per_head = 4, .part = UnitPart::kValues});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto landing = (*session)->MakeLanding(1);
  ASSERT_TRUE(landing.ok()) << landing.status();
  EXPECT_EQ((*landing)->bytes().size(), 2 * 2 * 4 * UnitBytes(spec_) / 2);
  for (const uint32_t page : {1u, 10u}) {
    const LayerWant landed = {.num_layers = 2, .pages = {{page, page + 1}, {page + 3}}};
    const auto result = (*session)->Recall({&landed, 1}, {.landing = landing->get()});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->placements.size(), 6u);
    EXPECT_EQ(result->landed_bytes, (*session)->LandsDirectly() ? result->payload.size_bytes() : 0);
    const std::vector<std::byte> halves = Bytes(result->payload);
    const uint64_t half = UnitBytes(spec_) / 2;
    for (size_t i = 0; i < result->placements.size(); ++i) {
      const Placement& at = result->placements[i];
      EXPECT_TRUE(testing::SameBytes(std::span(halves).subspan(i * half, half),
                                     Values(at.page, at.layer, at.head)));
    }
    (*session)->Applied(*result);
    // As payload, verified by the session.
    const LayerWant sent = {.layer = 1, .pages = {{}, {page + 5, page + 6}}};
    const auto payload = (*session)->Recall({&sent, 1});
    ASSERT_TRUE(payload.ok()) << payload.status();
    ASSERT_EQ(payload->placements.size(), 2u);
    std::vector<std::byte> expected = Values(page + 5, 1, 1);
    const std::vector<std::byte> second = Values(page + 6, 1, 1);
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(Bytes(payload->payload), expected);
    (*session)->Applied(*payload);
    // And in pieces, where there are any.
    const auto recall = (*session)->Start(
        {{.layer = 0, .pages = {{page + 7, page + 8}, {}}}},
        {.verify = false, .piece_bytes = static_cast<uint32_t>(UnitBytes(spec_) / 2)});
    ASSERT_TRUE(recall.ok()) << recall.status();
    std::vector<std::byte> came;
    for (;;) {
      const auto part = (*recall)->Next();
      ASSERT_TRUE(part.ok()) << part.status();
      if (!part->has_value()) break;
      const std::vector<std::byte> piece = Bytes((*part)->payload);
      came.insert(came.end(), piece.begin(), piece.end());
    }
    expected = Values(page + 7, 0, 0);
    const std::vector<std::byte> last = Values(page + 8, 0, 0);
    expected.insert(expected.end(), last.begin(), last.end());
    EXPECT_EQ(came, expected);
  }
}

TEST_P(ClientServerTest, ASessionThatDecodesFp8GetsUnitsAsTheyAreStored) {
  ExpectUnitsAsStored("fp8", UnitCodec::kFp8E4M3);
}

TEST_P(ClientServerTest, ASessionThatDecodesInt8GetsUnitsAsTheyAreStored) {
  ExpectUnitsAsStored("int8", UnitCodec::kInt8);
}

TEST_P(ClientServerTest, ASessionThatDecodesInt4GetsUnitsAsTheyAreStored) {
  ExpectUnitsAsStored("int4+zstd", UnitCodec::kInt4);
}

TEST_P(ClientServerTest, ACodecThatASessionDoesNotDecodeIsDecodedByTheServer) {
  ASSERT_TRUE(client_->SetCollection("default", {.codec = "int8"}).ok());
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      OpenSession(*client_, {.spec = spec_, .slots_per_head = 4, .codecs = {UnitCodec::kInt4}});
  ASSERT_TRUE(session.ok()) << session.status();
  const LayerWant want = {.num_layers = 2, .pages = {{1, 2}, {3}}};
  const auto result = (*session)->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->codecs.empty());
  EXPECT_EQ(result->payload.size_bytes(), 6 * UnitBytes(spec_));
}

TEST_P(ClientServerTest, AContextReadWhileItIsWrittenHasUnitsOfSeveralCodecs) {
  ASSERT_TRUE(client_->SetCollection("default", {.codec = "int8"}).ok());
  const auto context = client_->OpenContext(spec_, std::nullopt, {.collection = "default"});
  ASSERT_TRUE(context.ok()) << context.status();
  const uint32_t pages = spec_.segment_pages + 1;  // The last page is not in a segment yet.
  ASSERT_TRUE(
      client_->AppendPages(context->id, 0, Tokens(pages * spec_.page_tokens), Pages(0, pages))
          .ok());
  const auto coded = client_->OpenSession(
      context->id, {.spec = spec_, .slots_per_head = 16, .codecs = CodecSet::All()});
  ASSERT_TRUE(coded.ok()) << coded.status();
  const LayerWant want = {.num_layers = 2, .pages = {{0, pages - 1}, {pages - 1}}};
  const auto result = (*coded)->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<UnitCodec> lane = {UnitCodec::kInt8, UnitCodec::kRaw, UnitCodec::kRaw};
  std::vector<UnitCodec> both = lane;
  both.insert(both.end(), lane.begin(), lane.end());
  EXPECT_EQ(result->codecs, both);
  EXPECT_EQ(result->payload.size_bytes(),
            2 * UnitBytes(spec_, UnitCodec::kInt8) + 4 * UnitBytes(spec_));
  const std::vector<std::byte> decoded = Decoded(*result);
  EXPECT_TRUE(testing::SameBytes(std::span(decoded).subspan(UnitBytes(spec_), UnitBytes(spec_)),
                                 Unit(pages - 1, 0, 0)));
}

// Promise 2: the checksum of a stored unit is compared where the unit is used.
TEST_P(ClientServerTest, AByteOfAnEncodedUnitThatChangedInMemoryIsNoticedAndMended) {
  ASSERT_TRUE(client_->SetCollection("default", {.codec = "int8"}).ok());
  ASSERT_TRUE(PutDocument("a").ok());
  const auto in_place = *Client::Create({.transport = std::make_shared<LoopbackTransport>(
                                             server_->handler(), LoopbackTransport::Options{}),
                                         .tenant = "default"});
  const SessionOptions options = {.spec = spec_, .slots_per_head = 4, .codecs = {UnitCodec::kInt8}};
  const LayerWant want = {.layer = 0, .pages = {{2}, {}}};
  const auto lent = OpenSession(*in_place, options);
  ASSERT_TRUE(lent.ok()) << lent.status();
  const auto unit = (*lent)->Recall({&want, 1});
  ASSERT_TRUE(unit.ok()) << unit.status();
  const std::vector<std::byte> intact = Bytes(unit->payload);
  const auto session = OpenSession(*client_, options);
  ASSERT_TRUE(session.ok()) << session.status();
  *const_cast<std::byte*>(unit->payload.slices()[0].bytes.data() + 9) ^= std::byte{4};
  const auto recalled = (*session)->Recall({&want, 1});
  ASSERT_TRUE(recalled.ok()) << recalled.status();
  EXPECT_EQ(Bytes(recalled->payload), intact);
}

TEST_P(ClientServerTest, EncodedValuesAloneAreRefused) {
  ASSERT_TRUE(PutDocument("a").ok());
  EXPECT_EQ(OpenSession(*client_, {.spec = spec_,
                                   .slots_per_head = 4,
                                   .part = UnitPart::kValues,
                                   .codecs = {UnitCodec::kInt8}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

// Promise 2: the store's checksum covers keys and values together, and the server keeps the keys.
TEST_P(ClientServerTest, AByteThatChangedInMemoryIsNoticedByWhoTakesTheValuesAndMended) {
  ASSERT_TRUE(PutDocument("a").ok());
  // The loopback returns units in place.
  const auto in_place = *Client::Create({.transport = std::make_shared<LoopbackTransport>(
                                             server_->handler(), LoopbackTransport::Options{}),
                                         .tenant = "default"});
  const std::vector<UnitRange> ranges = {{.layer = 0, .pages = {2}, .heads = {0}}};
  const LayerWant want = {.layer = 0, .pages = {{2, 3}, {2}}};
  std::vector<std::byte> intact;
  for (const uint64_t at :
       {uint64_t{0}, UnitBytes(spec_) / 2 - 1, UnitBytes(spec_) / 2, UnitBytes(spec_) - 1}) {
    SCOPED_TRACE(at);
    // The extent may have another place after its repair.
    const auto fetched = in_place->Fetch(DocumentName{.name = "a"}, ranges);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    ASSERT_EQ(fetched->slices().size(), 1u);
    const std::span<const std::byte> unit = fetched->slices()[0].bytes;
    if (intact.empty()) intact.assign(unit.begin(), unit.end());
    EXPECT_TRUE(testing::SameBytes(unit, intact));
    const auto session =
        OpenSession(*client_, {.spec = spec_, .slots_per_head = 4, .part = UnitPart::kValues});
    ASSERT_TRUE(session.ok()) << session.status();
    const_cast<std::byte*>(unit.data())[at] ^= std::byte{4};
    const auto recalled = (*session)->Recall({&want, 1});
    EXPECT_EQ(recalled.status(), OkStatus());
    const auto again = in_place->Fetch(DocumentName{.name = "a"}, ranges);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(testing::SameBytes(again->slices()[0].bytes, intact));
  }
}

TEST_P(ClientServerTest, AWorkerThatGivesUpARecallAndAsksForSomethingElseIsServed) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      *client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = 2});
  const LayerWant first = {.layer = 0, .pages = {{1, 2}, {3}}};
  const LayerWant second = {.layer = 0, .pages = {{4}, {5, 6}}};
  ASSERT_TRUE(session->Recall({&first, 1}).ok());  // Its result is never applied.
  const auto result = session->Recall({&second, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->placements.size(), 3u);
  session->Applied(*result);
  const auto again = session->Recall({&second, 1});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->placements.empty());
}

TEST_P(ClientServerTest, TheServerSelectsWithAQueryAndSendsWhatItSelected) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      *client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = 4});
  LayerWant want = {.layer = 1, .candidates = {{.first_page = 2, .end_page = 18}}, .num_pages = 3};
  want.query.assign(size_t{spec_.num_query_heads} * spec_.head_dim, 0.5f);
  const auto result = session->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->lanes.size(), 1u);
  const PageLists& selected = result->lanes[0].selected;
  ASSERT_EQ(selected.num_heads(), spec_.num_kv_heads);
  for (uint32_t head = 0; head < spec_.num_kv_heads; ++head) {
    EXPECT_EQ(selected.Head(head).size(), 3u);
  }
  EXPECT_EQ(result->placements.size(), 6u);
  const std::vector<uint32_t> layers = {0, 1};
  EXPECT_TRUE(session->Digests(layers, 0, kPages).ok());
}

TEST_P(ClientServerTest, DigestsAreReadFromTheDiskWhenASessionIsOpened) {
  ASSERT_TRUE(PutDocument("a").ok());
  LayerWant want = {.layer = 1, .candidates = {{.first_page = 2, .end_page = 18}}, .num_pages = 3};
  want.query.assign(size_t{spec_.num_query_heads} * spec_.head_dim, 0.5f);
  const auto select = [&] {
    const SessionOptions options = {
        .spec = spec_,
        .slots_per_head = 4,
        .hold_digests = HeldDigests{.kind = kernels::DigestKind::kMinMax, .layers = {1}}};
    const auto session = *client_->OpenSession(DocumentName{.name = "a"}, options);
    while (MetricValuesOf(*server_).at("digest_layers_held_at_open") == 0) {
      testing::WaitToLookAgain();
    }
    const auto result = session->Recall({&want, 1});
    EXPECT_EQ(result.status(), OkStatus());
    return result.ok() ? result->lanes.at(0).selected : PageLists();
  };
  const PageLists before = select();
  Stop();
  Start();
  EXPECT_EQ(MetricValuesOf(*server_).at("digest_layers_held_at_open"), 0u);
  EXPECT_EQ(select(), before);
}

TEST_P(ClientServerTest, ARecallByQueryIsOneRoundTrip) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      *client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = 4});
  const auto calls = [&] { return MetricValuesOf(*server_).at("calls"); };
  for (const float direction : {0.5f, -0.5f, 0.25f}) {
    LayerWant want = {
        .layer = 1, .candidates = {{.first_page = 2, .end_page = 18}}, .num_pages = 3};
    for (uint32_t i = 0; i < spec_.num_query_heads * spec_.head_dim; ++i) {
      want.query.push_back(i % 3 == 0 ? direction : 0.125f);
    }
    const uint64_t before = calls();
    const auto result = session->Recall({&want, 1});
    ASSERT_TRUE(result.ok()) << result.status();
    // One reply contains the selection, its places and its bytes. The next call acknowledges them.
    EXPECT_EQ(result->lanes.at(0).selected.Head(0).size(), 3u);
    EXPECT_EQ(result->placements.size() * UnitBytes(spec_),
              result->payload.size_bytes() + result->landed_bytes);
    session->Applied(*result);
    EXPECT_EQ(calls(), before + 1);
  }
}

TEST_P(ClientServerTest, SequencesOfABatchAreRecalledPartByPartIntoALanding) {
  ASSERT_TRUE(PutDocument("a").ok());
  const SequenceMember whole = {.context = DocumentName{.name = "a"}};
  const std::vector<SequenceSpec> sequences = {{.members = {whole}}, {.members = {whole, whole}}};
  const auto session = client_->OpenSession(sequences, {.spec = spec_, .slots_per_head = 4});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto landing = (*session)->MakeLanding(2);
  ASSERT_TRUE(landing.ok()) << landing.status();
  for (const uint32_t page : {1u, 9u, 1u}) {
    const LayerWant first = {.num_layers = 2, .pages = {{page, page + 1}, {}}};
    const LayerWant second = {.sequence = 1, .layer = 1, .pages = {{page}, {0, PageName(1, page)}}};
    const auto recall = (*session)->Start({first, second}, {.landing = landing->get()});
    ASSERT_TRUE(recall.ok()) << recall.status();
    std::vector<std::pair<uint32_t, uint32_t>> came;
    for (;;) {
      const auto part = (*recall)->Next();
      ASSERT_TRUE(part.ok()) << part.status();
      if (!part->has_value()) break;
      for (const RecalledLane& lane : (*part)->lanes) came.emplace_back(lane.sequence, lane.layer);
      const std::vector<std::byte> units = Bytes((*part)->payload);
      for (size_t i = 0; i < (*part)->placements.size(); ++i) {
        const Placement& at = (*part)->placements[i];
        EXPECT_TRUE(
            testing::SameBytes(std::span(units).subspan(i * UnitBytes(spec_), UnitBytes(spec_)),
                               Unit(at.page & (wire::kMaxContextPages - 1), at.layer, at.head)));
      }
      (*session)->Applied(**part);
    }
    EXPECT_EQ(came, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 0}, {0, 1}, {1, 1}}));
  }
  EXPECT_TRUE((*session)->RemoveSequence(0).ok());
  EXPECT_EQ(*(*session)->AddSequence({.members = {whole}}), 0u);
  const LayerWant again = {.layer = 0, .pages = {{1}, {}}};
  const auto result = (*session)->Recall({&again, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->placements.size(), 1u);  // A new sequence starts empty.
}

TEST_P(ClientServerTest, ACancelledRecallIsTakenBackAndTheLaneGoesOn) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      *client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = 2});
  const LayerWant first = {.layer = 0, .pages = {{1, 2}, {}}};
  session->Applied(*session->Recall({&first, 1}));
  {
    const auto prefetch =
        session->Start({{.layer = 0, .pages = {{3, 4}, {}}}, {.layer = 1, .pages = {{3, 4}, {}}}},
                       {.priority = Priority::kPrefetch});
    ASSERT_TRUE(prefetch.ok()) << prefetch.status();
    (*prefetch)->Cancel();
  }
  const auto again = session->Recall({&first, 1}, {.priority = Priority::kCorrection});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->placements.empty());
}

TEST_P(ClientServerTest, WhatIsGivenUpBeforeItLandedNeverGoesOverWhatTheNewerRecallBrought) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto session =
      *client_->OpenSession(DocumentName{.name = "a"}, {.spec = spec_, .slots_per_head = 8});
  std::unique_ptr<SessionLanding> staging;
  if (session->LandsDirectly()) staging = *session->MakeLanding(1);
  const RecallOptions options = {.priority = Priority::kCorrection, .landing = staging.get()};
  const LayerWant older = {.num_layers = 2, .pages = {{0, 1, 2, 3, 4, 5, 6, 7}, {8, 9, 10, 11}}};
  const LayerWant newer = {.num_layers = 2, .pages = {{12, 13, 14, 15, 16}, {12, 13, 14, 15}}};
  for (int i = 0; i < 200; ++i) {
    auto prefetch =
        session->Start({older}, {.priority = Priority::kPrefetch, .landing = staging.get()});
    ASSERT_TRUE(prefetch.ok()) << prefetch.status();
    prefetch->reset();
    const auto result = session->Recall({&newer, 1}, options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->placements.size(), 18u);  // Never applied, so all of it comes each time.
    const std::vector<std::byte> bytes = Bytes(result->payload);
    for (size_t j = 0; j < result->placements.size(); ++j) {
      const Placement& at = result->placements[j];
      ASSERT_TRUE(
          testing::SameBytes(std::span(bytes).subspan(j * UnitBytes(spec_), UnitBytes(spec_)),
                             Unit(at.page, at.layer, at.head)));
    }
  }
  if (staging == nullptr) return;
  // Once nothing of what was given up can arrive, units land again.
  const TimePoint patience = SystemClock().Now() + std::chrono::minutes(1);
  uint64_t landed = 0;
  while (landed == 0 && SystemClock().Now() < patience) {
    const auto result = session->Recall({&newer, 1}, options);
    ASSERT_TRUE(result.ok()) << result.status();
    landed = result->landed_bytes;
  }
  EXPECT_GT(landed, 0u);
}

TEST_P(ClientServerTest, PagesAppendedToAnOpenContextCanBeRecalled) {
  const auto document = PutDocument("a");
  ASSERT_TRUE(document.ok()) << document.status();
  const auto context = client_->OpenContext(spec_, DocumentName{.name = "a"});
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(context->num_tokens, kPages * spec_.page_tokens);
  const auto session = *client_->OpenSession(context->id, {.spec = spec_, .slots_per_head = 2});
  const std::vector<TokenId> tokens = Tokens(spec_.page_tokens);
  const auto count = client_->AppendPages(context->id, kPages, tokens, Pages(kPages, kPages + 1));
  ASSERT_TRUE(count.ok()) << count.status();
  const LayerWant want = {.layer = 0, .pages = {{0, kPages}, {}}};
  const auto result = session->Recall({&want, 1});
  ASSERT_TRUE(result.ok()) << result.status();
  Payload expected;
  expected.Append(Unit(result->placements[0].page, 0, 0));
  expected.Append(Unit(result->placements[1].page, 0, 0));
  EXPECT_EQ(Bytes(result->payload), Bytes(expected));
  EXPECT_TRUE(client_->DropContext(context->id).ok());
}

TEST_P(ClientServerTest, VersionsAreListedReadAndDeleted) {
  ASSERT_TRUE(PutDocument("a").ok());
  ASSERT_TRUE(PutDocument("a").ok());
  ASSERT_TRUE(PutDocument("b").ok());
  const auto documents = client_->ListDocuments("default");
  ASSERT_TRUE(documents.ok()) << documents.status();
  ASSERT_EQ(documents->size(), 3u);
  EXPECT_EQ((*documents)[1].name.version, 2u);
  EXPECT_EQ(client_->GetDocument({.name = "a"})->name.version, 2u);
  EXPECT_EQ(client_->DeleteDocument({.name = "a"})->documents, 2u);
  EXPECT_TRUE(IsNotFound(client_->GetDocument({.name = "a"}).status()));
  ExpectUnitsOfFetch(DocumentName{.name = "b"});  // It shares every segment with the deleted one.
}

TEST_P(ClientServerTest, CollectionsTimesToLiveAndPinsComeAcross) {
  const auto set = client_->SetCollection("default", {.codec = "raw", .ttl_seconds = 7200});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_FALSE(set->codec_is_default);
  const auto document = PutDocument("a");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(document->expires_unix_micros, document->created_unix_micros + 7'200'000'000);
  const auto own = client_->RegisterDocument({.name = "b"}, document->chain_tip, {}, 60);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(own->ttl_seconds, 60u);
  EXPECT_FALSE(client_->PinDocument({.name = "a"})->was_pinned);
  EXPECT_TRUE(client_->UnpinDocument({.name = "a", .version = 1})->was_pinned);

  Stop();
  Start();
  EXPECT_EQ(client_->Stat(DocumentName{.name = "a"})->expires_unix_micros,
            document->expires_unix_micros);
  EXPECT_EQ(client_->GetDocument({.name = "b"})->expires_unix_micros,
            own->created_unix_micros + 60'000'000);
  const auto listed = client_->ListCollections();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->front().ttl_seconds, 7200u);
  EXPECT_EQ(client_->GetCollection("elsewhere")->ttl_seconds, std::nullopt);
  EXPECT_TRUE(IsInvalidArgument(client_->SetCollection("c", {}).status()));
}

TEST_P(ClientServerTest, TenantsDoNotSeeEachOther) {  // Promise 7.
  if (kind() == "one_tenant_shm") GTEST_SKIP() << "a server of one tenant";
  const auto document = PutDocument("a");
  ASSERT_TRUE(document.ok()) << document.status();
  const auto other = MakeClient("other");
  EXPECT_TRUE(IsNotFound(other->GetDocument({.name = "a"}).status()));
  EXPECT_TRUE(IsNotFound(other->Stat(document->chain_tip).status()));
  EXPECT_EQ(other->Lookup(spec_, Tokens(kPages * spec_.page_tokens))->num_tokens, 0u);
  EXPECT_FALSE(MakeClient("nobody")->ListDocuments("").ok());
}

TEST_P(ClientServerTest, ASpecThatDoesNotMatchIsRefusedNamingTheField) {
  ASSERT_TRUE(PutDocument("a").ok());
  KvSpec other = spec_;
  other.rope.theta = 500000;
  const auto session =
      client_->OpenSession(DocumentName{.name = "a"}, {.spec = other, .slots_per_head = 2});
  EXPECT_TRUE(IsInvalidArgument(session.status())) << session.status();
  EXPECT_NE(Message(session.status()).find("theta"), std::string_view::npos) << session.status();
}

TEST_P(ClientServerTest, StatsTellVersionAndCounters) {
  ASSERT_TRUE(PutDocument("a").ok());
  const auto stats = client_->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_FALSE(stats->version.empty());
  EXPECT_FALSE(stats->counters.empty());
  EXPECT_TRUE(std::ranges::is_sorted(stats->counters));
}

}  // namespace
}  // namespace quire
