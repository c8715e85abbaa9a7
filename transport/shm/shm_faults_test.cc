// SPDX-License-Identifier: Apache-2.0
//
// Shared-memory connections whose other end dies, stalls or lies. Nothing stays held, other
// connections are unaffected, and no byte of the server changes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "tests/kit/child_process.h"
#include "tests/kit/paths.h"
#include "tests/kit/random_bytes.h"
#include "transport/shm/shm_address.h"
#include "transport/shm/shm_socket_file.h"
#include "transport/shm/shm_wire.h"
#include "transport/testing/shm_fixture.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kPeer[] = QUIRE_BINARY_DIR "/bin/shm_test_peer";

/// One end of a connection that sends arbitrary bytes.
class RawPeer {
 public:
  explicit RawPeer(UniqueFd fd) : fd_(std::move(fd)) {}
  static RawPeer Connect(const std::string& path) {
    const sockaddr_un address = UnixAddress(path).value();
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return RawPeer(std::move(fd));
  }

  bool Send(std::span<const std::byte> bytes) const {
    return send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  bool Send(const ShmHeader& header) const {
    return Send(std::as_bytes(std::span<const ShmHeader>(&header, 1)));
  }
  bool SendWithDescriptor(const ShmHeader& header, int fd) const {
    iovec bytes = {const_cast<ShmHeader*>(&header), sizeof header};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const with = CMSG_FIRSTHDR(&message);
    with->cmsg_level = SOL_SOCKET;
    with->cmsg_type = SCM_RIGHTS;
    with->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(with), &fd, sizeof fd);
    return sendmsg(fd_.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof header);
  }
  /// Reads a header and the descriptor with it.
  ShmHeader Receive(UniqueFd* descriptor) const {
    ShmHeader header;
    iovec bytes = {&header, sizeof header};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    EXPECT_EQ(recvmsg(fd_.get(), &message, MSG_WAITALL | MSG_CMSG_CLOEXEC),
              static_cast<ssize_t>(sizeof header));
    if (const cmsghdr* const with = CMSG_FIRSTHDR(&message); with != nullptr) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(with), sizeof fd);
      *descriptor = UniqueFd(fd);
    }
    return header;
  }

 private:
  UniqueFd fd_;
};

class ShmFaultsTest : public ShmTest {
 protected:
  /// Raises all timeouts beyond the test. Whatever is then released in time is released by the end
  /// of the connection.
  void AgeNothing() {
    options_.max_lease = std::chrono::hours(1);
    options_.stall_timeout = std::chrono::hours(1);
    static_assert(kPatience < std::chrono::hours(1));
  }
  /// Checks that another client is still served.
  void ExpectOthersAreServed() {
    ShmEnd client = Connect(), server = Accepted();
    auto gone = std::make_shared<Event>();
    ASSERT_TRUE(server.pipe->Send(UnitsInArena(2, 4096, gone)).ok());
    EXPECT_TRUE(client.frames->Next());
    EXPECT_TRUE(gone->Wait());
  }
  /// Sends `bytes` as a client and expects the server to end the connection over it.
  void ExpectRefused(std::span<const std::byte> bytes, const std::string& why) {
    RawPeer liar = RawPeer::Connect(options_.path);
    ShmEnd server = Accepted();
    ASSERT_TRUE(liar.Send(bytes));
    const Status status = server.frames->Closed();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  static std::vector<std::byte> Packet(const ShmHeader& header,
                                       std::span<const ShmDescriptor> slices) {
    std::vector<std::byte> packet;
    AppendShmPacket(header, "", slices, {}, &packet);
    return packet;
  }
};

TEST_F(ShmFaultsTest, WhatAKilledClientHeldIsFreeAtOnce) {
  AgeNothing();
  Listen();
  ChildProcess client(kPeer, {"hold", options_.path}, directory_ / "stderr");
  ShmEnd server = Accepted();
  std::vector<std::shared_ptr<Event>> gone;
  std::string line;
  for (int i = 1; i <= 5; ++i) {
    gone.push_back(std::make_shared<Event>());
    ASSERT_TRUE(server.pipe->Send(UnitsInArena(10, 4096, gone.back())).ok());
    ASSERT_TRUE(client.ReadLine(&line)) << client.Stderr();
    EXPECT_EQ(line, "holds " + std::to_string(i));
  }
  EXPECT_EQ(listener_->leased_bytes(), 50u * 4096);
  EXPECT_FALSE(gone[0]->IsSet());
  client.Signal(SIGKILL);
  EXPECT_EQ(server.frames->Closed().code(), StatusCode::kUnavailable);
  for (const auto& event : gone) EXPECT_TRUE(event->Wait());
  EXPECT_EQ(listener_->leased_bytes(), 0u);
  ExpectOthersAreServed();
}

TEST_F(ShmFaultsTest, AClientKilledInTheMiddleOfTransfersLeavesNothing) {
  AgeNothing();
  Listen();
  ChildProcess client(kPeer, {"hold", options_.path}, directory_ / "stderr");
  ShmEnd server = Accepted();
  std::string line;
  std::vector<std::shared_ptr<Event>> gone;
  for (int i = 0;; ++i) {
    Frame frame = UnitsInArena(10, 4096, gone.emplace_back(std::make_shared<Event>()));
    frame.payload.Append(Slice{Arena(0, 300 << 10), nullptr});  // Copied, then inline.
    if (!server.pipe->Send(std::move(frame)).ok()) break;
    if (i == 50) {
      ASSERT_TRUE(client.ReadLine(&line));
    }
    if (i == 400) client.Signal(SIGKILL);
  }
  for (const auto& event : gone) EXPECT_TRUE(event->Wait());
  EXPECT_EQ(server.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(listener_->leased_bytes(), 0u);
  ExpectOthersAreServed();
}

TEST_F(ShmFaultsTest, WhenTheServerIsKilledTheClientLearnsItAndKeepsItsSlices) {
  ChildProcess child(kPeer, {"serve", options_.path}, directory_ / "stderr");
  std::string line;
  ASSERT_TRUE(child.ReadLine(&line));
  ASSERT_EQ(line, "OK") << child.Stderr();
  ShmEnd client = Connect();
  ASSERT_TRUE(client.pipe->Send({.head = "first", .payload = {}}).ok());
  std::optional<Frame> held = client.frames->Next();
  ASSERT_TRUE(held);
  child.Signal(SIGKILL);
  EXPECT_EQ(client.frames->Closed().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.pipe->Send({.head = "second", .payload = {}}).code(), StatusCode::kUnavailable);
  EXPECT_EQ(held->payload.size_bytes(), 16u * 4096);
  for (const Slice& slice : held->payload.slices()) {
    EXPECT_TRUE(std::ranges::all_of(slice.bytes, [](std::byte b) { return b == std::byte{'q'}; }));
  }
  client.pipe.reset();
  held.reset();
  child.Wait();  // Its socket is closed with the rest of it.

  // The dead server's socket exists and is taken over.
  struct stat file;
  EXPECT_EQ(stat(options_.path.c_str(), &file), 0);
  Listen();
  ExpectOthersAreServed();
}

TEST_F(ShmFaultsTest, AStalledReaderLosesTheConnectionAndStallsNobody) {
  options_.stall_timeout = std::chrono::milliseconds(50);
  options_.max_leased_bytes = 0;
  options_.copy_out_bytes = 0;
  Listen();
  const RawPeer stalled = RawPeer::Connect(options_.path);
  ShmEnd server = Accepted();
  Status status;
  std::vector<std::shared_ptr<Event>> gone;
  while (status.ok()) {
    status =
        server.pipe->Send(UnitsInArena(64, 4096, gone.emplace_back(std::make_shared<Event>())));
    if (gone.size() == 3) ExpectOthersAreServed();
  }
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(server.frames->Closed().message()), HasSubstr("taken no bytes"));
  for (const auto& event : gone) EXPECT_TRUE(event->Wait());
}

/// Answers from the loop's thread, which may not wait.
class Echo final : public FrameReceiver {
 public:
  Echo(std::unique_ptr<FramePipe> pipe, size_t answer_bytes)
      : pipe_(std::move(pipe)), answer_bytes_(answer_bytes) {
    pipe_->Start(this);
  }
  void OnFrame(Frame) override {
    const Status sent = pipe_->Send({.head = std::string(answer_bytes_, 'x'), .payload = {}});
    if (sent.ok()) answered.Set();
  }
  void OnClosed(const Status& why) override {
    end = why;
    closed.Set();
  }
  FramePipe& pipe() { return *pipe_; }

  Event answered, closed;
  Status end;  ///< Valid once `closed` is set.

 private:
  const std::unique_ptr<FramePipe> pipe_;
  const size_t answer_bytes_;
};

TEST_F(ShmFaultsTest, AReaderThatLetsAnswersPileUpLosesTheConnection) {
  options_.max_queued_bytes = 64 << 10;
  options_.max_leased_bytes = 0;
  options_.copy_out_bytes = 0;
  Listen();
  const RawPeer greedy = RawPeer::Connect(options_.path);
  Echo echo(AcceptedPipe(), 60000);
  for (int i = 0; i < 10000 && greedy.Send(ShmHeader{}); ++i) {
  }
  ASSERT_TRUE(echo.closed.Wait());
  EXPECT_THAT(std::string(echo.end.message()), HasSubstr("pile up"));
}

TEST_F(ShmFaultsTest, ASenderThatWaitsDoesNotKeepTheLoopFromSending) {
  options_.max_queued_bytes = 64 << 10;
  options_.copy_out_bytes = 0;
  Listen();
  const RawPeer slow = RawPeer::Connect(options_.path);
  Echo echo(AcceptedPipe(), 100);
  Frame large{.head = "large", .payload = {}};
  large.payload.Append(Slice{Arena(0, kArenaBytes), nullptr});
  std::thread sender([&] { (void)echo.pipe().Send(std::move(large)); });
  ASSERT_TRUE(slow.Send(ShmHeader{}));
  EXPECT_TRUE(echo.answered.Wait());
  EXPECT_FALSE(echo.closed.IsSet());
  echo.pipe().Close();
  sender.join();
}

TEST_F(ShmFaultsTest, LyingClientsAreCutOff) {
  options_.max_frame_bytes = 1 << 20;
  Listen();
  ExpectRefused(std::vector<std::byte>(100, std::byte{'x'}), "no packet");
  ExpectRefused(Packet({.type = ShmPacketType::kRegion, .number = 1, .bytes = 4096}, {}),
                "descriptor is missing");
  ExpectRefused(Packet({.type = ShmPacketType::kRegion, .number = 2, .bytes = 4096}, {}),
                "no client has");
  ExpectRefused(
      Packet({.type = ShmPacketType::kRegion, .number = 1, .bytes = kLargestShmClientRegion + 1},
             {}),
      "no client has");
  ExpectRefused(Packet({.type = ShmPacketType::kTaken, .lease = 1}, {}), "only servers send");
  ExpectRefused(Packet({.type = static_cast<ShmPacketType>(77)}, {}), "only servers send");
  ExpectRefused(Packet({.bytes = (1 << 20) + 1}, {}), "max_frame_bytes");
  ExpectRefused(Packet({.lease = 1}, {}), "has no region");
  ExpectRefused(Packet({.flags = 0x80}, {}), "unknown flags");
  const ShmDescriptor in_region{.offset = 0, .bytes = 64, .region = 1};
  ExpectRefused(Packet({}, {&in_region, 1}), "without a lease");
  const ShmDescriptor empty{};
  ExpectRefused(Packet({}, {&empty, 1}), "slice that is none");
  const ShmDescriptor short_of{.bytes = 64};
  ExpectRefused(Packet({.bytes = 63}, {&short_of, 1}), "add up");
  std::vector<std::byte> many = Packet({}, {});
  const uint32_t count = kMaxShmSlices + 1;
  std::memcpy(many.data() + offsetof(ShmHeader, num_slices), &count, sizeof count);
  ExpectRefused(many, "too many slices");
  ExpectOthersAreServed();
}

/// Messages of a client about a lease that it never held.
class UnknownLeaseTest : public ShmFaultsTest,
                         public ::testing::WithParamInterface<ShmLeaseWord> {};

INSTANTIATE_TEST_SUITE_P(Words, UnknownLeaseTest,
                         ::testing::Values(ShmLeaseWord::kGivenBack, ShmLeaseWord::kRenew,
                                           ShmLeaseWord::kRenewed, ShmLeaseWord::kRefused));

TEST_P(UnknownLeaseTest, WhatIsGivenBackOrRenewedMustHaveBeenLent) {
  Listen();
  RawPeer liar = RawPeer::Connect(options_.path);
  ShmEnd server = Accepted();
  UniqueFd none, region, channel;
  EXPECT_EQ(liar.Receive(&none).type, ShmPacketType::kGreeting);
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(1, 4096, gone)).ok());
  EXPECT_EQ(liar.Receive(&region).type, ShmPacketType::kRegion);
  EXPECT_EQ(liar.Receive(&channel).type, ShmPacketType::kLeaseChannel);
  ASSERT_TRUE(region.valid() && channel.valid());

  // The memory given to clients is read only.
  EXPECT_EQ(mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, region.get(), 0),
            MAP_FAILED);
  const UniqueFd again(
      open(("/proc/self/fd/" + std::to_string(region.get())).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_SHARED, again.get(), 0),
            MAP_FAILED);
  EXPECT_LT(pwrite(again.get(), "x", 1, 0), 0);
  EXPECT_LT(pwrite(region.get(), "x", 1, 0), 0);
  EXPECT_NE(ftruncate(again.get(), 0), 0);

  const uint64_t never_lent = ShmWordOf(99, GetParam());
  ASSERT_EQ(send(channel.get(), &never_lent, sizeof never_lent, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof never_lent));
  EXPECT_EQ(server.frames->Closed().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(gone->Wait());
  EXPECT_EQ(listener_->leased_bytes(), 0u);
  ExpectOthersAreServed();
}

/// A server of several tenants, each with a connection.
class ShmTenantsTest : public ShmFaultsTest {
 protected:
  static constexpr uint64_t kUnits = 10;
  static constexpr uint64_t kUnitBytes = 4096;

  /// A tenant's connection, and its units among those of others in the arena.
  struct Tenant {
    std::optional<RawPeer> client;
    ShmEnd server;
    std::span<const std::byte> units;
    std::unique_ptr<ReadOnlyMapping> memory = nullptr;  ///< All memory that it was given.
    ino_t file = 0;                                     ///< Identity of that memory's file.
  };

  ShmTenantsTest() {
    options_.share_memory = false;
    options_.copy_out_bytes = 256 << 10;
    std::ranges::copy(RandomBytes(arena_->bytes().size(), 5), arena_->bytes().begin());
    Listen();
  }
  Tenant Join(uint64_t number) {
    RawPeer client = RawPeer::Connect(options_.path);
    return {.client = std::move(client),
            .server = Accepted(),
            .units = Arena(number * kUnits * kUnitBytes, kUnits * kUnitBytes)};
  }
  static void Serve(Tenant& tenant) {
    Frame frame{.head = "units", .payload = {}};
    for (uint64_t i = 0; i < kUnits; ++i) {
      frame.payload.Append(Slice{tenant.units.subspan(i * kUnitBytes, kUnitBytes), nullptr});
    }
    ASSERT_TRUE(tenant.server.pipe->Send(std::move(frame)).ok());
  }
  /// Takes the memory that arrives before the first frame.
  static void MapWhatIsGiven(Tenant& tenant) {
    for (;;) {
      UniqueFd given;
      const ShmHeader header = tenant.client->Receive(&given);
      if (header.type == ShmPacketType::kFrame) break;
      if (header.type != ShmPacketType::kRegion) continue;
      ASSERT_EQ(tenant.memory, nullptr) << "a second memory";
      struct stat file;
      ASSERT_EQ(fstat(given.get(), &file), 0);
      tenant.file = file.st_ino;
      const auto bytes = static_cast<uint64_t>(file.st_size);
      tenant.memory = ReadOnlyMapping::Map(given.get(), bytes).value();
    }
    ASSERT_NE(tenant.memory, nullptr) << "the payload did not come in memory";
  }
  /// Number of units of `owner`, whole or partial, that `reader` can read.
  static uint64_t UnitsSeen(const Tenant& reader, const Tenant& owner) {
    const std::span<const std::byte> all = reader.memory->bytes();
    uint64_t seen = 0;
    for (uint64_t i = 0; i < kUnits; ++i) {
      const auto start = owner.units.subspan(i * kUnitBytes, 64);
      if (std::search(all.begin(), all.end(), start.begin(), start.end()) != all.end()) ++seen;
    }
    return seen;
  }
};

TEST_F(ShmTenantsTest, NobodyCanReadAByteOfAnother) {
  Tenant a = Join(0), b = Join(1);
  for (int round = 0; round < 3; ++round) {
    Serve(a);
    Serve(b);
  }
  MapWhatIsGiven(a);
  MapWhatIsGiven(b);
  EXPECT_NE(a.file, b.file);
  EXPECT_EQ(UnitsSeen(a, a), kUnits) << "it finds what is there";
  EXPECT_EQ(UnitsSeen(b, b), kUnits);
  EXPECT_EQ(UnitsSeen(a, b), 0u);
  EXPECT_EQ(UnitsSeen(b, a), 0u);

  // A later connection does not find the bytes of an earlier one either.
  a.client.reset();
  EXPECT_EQ(a.server.frames->Closed().code(), StatusCode::kUnavailable);
  Tenant c = Join(2);
  Serve(c);
  MapWhatIsGiven(c);
  EXPECT_EQ(UnitsSeen(c, c), kUnits);
  EXPECT_EQ(UnitsSeen(c, a), 0u);
  EXPECT_EQ(UnitsSeen(c, b), 0u);
}

TEST_F(ShmFaultsTest, AClientThatOnlyClosesItsLeaseChannelIsServedWithoutLeases) {
  Listen();
  RawPeer client = RawPeer::Connect(options_.path);
  ShmEnd server = Accepted();
  UniqueFd none, region, channel;
  client.Receive(&none);
  auto gone = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(1, 8192, gone)).ok());
  client.Receive(&region);
  client.Receive(&channel);
  channel.Reset();
  EXPECT_TRUE(gone->Wait());
  EXPECT_EQ(listener_->leased_bytes(), 0u);
  auto later = std::make_shared<Event>();
  ASSERT_TRUE(server.pipe->Send(UnitsInArena(1, 8192, later)).ok());
  EXPECT_TRUE(later->Wait());
}

TEST_F(ShmFaultsTest, WhatAClientLendsMustLieInItsOneSealedRegion) {
  Listen();
  const ShmHeader region{.type = ShmPacketType::kRegion, .number = 1, .bytes = kArenaBytes};
  const auto refused = [&](int fd, const std::vector<ShmDescriptor>& slices, bool twice,
                           const std::string& why) {
    RawPeer liar = RawPeer::Connect(options_.path);
    ShmEnd server = Accepted();
    ASSERT_TRUE(liar.SendWithDescriptor(region, fd));
    if (twice) (void)liar.SendWithDescriptor(region, fd);
    if (!slices.empty()) (void)liar.Send(Packet({.lease = 1}, slices));
    const Status status = server.frames->Closed();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  };
  const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
  refused(other.get(), {}, false, "no sealed memory file");
  const int arena = arena_->view().fd;
  refused(arena, {}, true, "has a region already");
  refused(arena, {{.offset = kArenaBytes, .bytes = 1, .region = 1}}, false, "that is not there");
  refused(arena, {{.offset = UINT64_MAX, .bytes = 2, .region = 1}}, false, "that is not there");
  refused(arena, {{.offset = 0, .bytes = 1, .region = 2}}, false, "that is not there");
  ExpectOthersAreServed();
}

TEST_F(ShmFaultsTest, OfTheDescriptorsThatAClientSendsOneIsKept) {
  Listen();
  RawPeer liar = RawPeer::Connect(options_.path);
  ShmEnd server = Accepted();
  const UniqueFd first(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(liar.SendWithDescriptor({}, first.get()));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  {
    const UniqueFd write_end(ends[1]);
    ASSERT_TRUE(liar.SendWithDescriptor({}, write_end.get()));
    ASSERT_TRUE(server.frames->Next());
    ASSERT_TRUE(server.frames->Next());
  }
  char byte;
  EXPECT_EQ(read(read_end.get(), &byte, 1), 0) << "the server's copy would keep the pipe open";
}

/// A server that lies to a client of ours.
class LyingServerTest : public ShmFaultsTest {
 protected:
  LyingServerTest() : socket_(ShmSocketFile::Listen(options_.path, 0600).value()) {}

  /// Returns the server's end of a connection whose client has been greeted.
  RawPeer Greet() {
    std::thread greeter([this] {
      UniqueFd fd;
      while (!fd.valid()) fd = UniqueFd(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      peer_.emplace(std::move(fd));
      EXPECT_TRUE(peer_->Send(kGreeting));
    });
    client_.emplace(Connect());
    greeter.join();
    return std::move(*peer_);
  }
  void ExpectClientEnds(const std::string& why) {
    const Status status = client_->frames->Closed();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    client_.reset();
  }
  UniqueFd Channel() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    other_end_ = UniqueFd(ends[0]);
    return UniqueFd(ends[1]);
  }

  static constexpr ShmHeader kGreeting{
      .type = ShmPacketType::kGreeting, .number = kShmVersion, .bytes = 1 << 20};
  static constexpr ShmHeader kChannelHeader{.type = ShmPacketType::kLeaseChannel,
                                            .bytes = 60'000'000};
  static constexpr ShmHeader kRegionHeader{
      .type = ShmPacketType::kRegion, .number = 1, .bytes = kArenaBytes};
  /// Sends `words` on the latest channel.
  void SendWords(const std::vector<uint64_t>& words) const {
    const std::span<const uint64_t> all(words);
    EXPECT_EQ(send(other_end_.get(), all.data(), all.size_bytes(), MSG_NOSIGNAL),
              static_cast<ssize_t>(all.size_bytes()));
  }
  ShmSocketFile socket_;
  std::optional<RawPeer> peer_;
  std::optional<ShmEnd> client_;
  UniqueFd other_end_;
};

TEST_F(LyingServerTest, ARegionMustBeSealedMemoryOfItsSize) {
  {
    const RawPeer server = Greet();
    ASSERT_TRUE(server.Send(Packet({.type = ShmPacketType::kRegion, .number = 1, .bytes = 1}, {})));
    ExpectClientEnds("descriptor is missing");
  }
  {
    const RawPeer server = Greet();
    const UniqueFd other(open("/dev/null", O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(server.SendWithDescriptor({.type = ShmPacketType::kRegion, .number = 1, .bytes = 1},
                                          other.get()));
    ExpectClientEnds("no sealed memory file");
  }
  {
    const RawPeer server = Greet();
    ASSERT_TRUE(server.SendWithDescriptor(
        {.type = ShmPacketType::kRegion, .number = 1, .bytes = kArenaBytes + 1},
        arena_->view().fd));
    ExpectClientEnds("not 4194305");
  }
}

TEST_F(LyingServerTest, SlicesMustLieInRegionsAndCarryALease) {
  const ShmHeader region{.type = ShmPacketType::kRegion, .number = 1, .bytes = kArenaBytes};
  for (const ShmDescriptor outside : {ShmDescriptor{.offset = kArenaBytes, .bytes = 1, .region = 1},
                                      ShmDescriptor{.offset = UINT64_MAX, .bytes = 2, .region = 1},
                                      ShmDescriptor{.offset = 0, .bytes = 1, .region = 2}}) {
    const RawPeer server = Greet();
    const UniqueFd channel = Channel();
    ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, channel.get()));
    ASSERT_TRUE(server.SendWithDescriptor(region, arena_->view().fd));
    ASSERT_TRUE(server.Send(Packet({.lease = 1}, {&outside, 1})));
    ExpectClientEnds("that is not there");
  }
  const RawPeer server = Greet();
  const ShmDescriptor inside{.offset = 0, .bytes = 1, .region = 1};
  ASSERT_TRUE(server.SendWithDescriptor(region, arena_->view().fd));
  ASSERT_TRUE(server.Send(Packet({.lease = 1}, {&inside, 1})));
  ExpectClientEnds("without a channel");
}

TEST_F(LyingServerTest, WhatIsReturnedMustHaveBeenLent) {
  const RawPeer server = Greet();
  ASSERT_TRUE(server.Send(Packet({.type = ShmPacketType::kTaken, .lease = 1}, {})));
  ExpectClientEnds("was not lent");
}

TEST_F(LyingServerTest, AChannelMustBeASocketAndTheOnlyOne) {
  {
    const RawPeer server = Greet();
    ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, arena_->view().fd));
    ExpectClientEnds("no lease channel");
  }
  const RawPeer server = Greet();
  ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, Channel().get()));
  ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, Channel().get()));
  ExpectClientEnds("no lease channel");
}

TEST_F(LyingServerTest, ALeaseThatEndedBeforeItsFrameCameIsNotGoodAndNoneIsGivenTwice) {
  const RawPeer server = Greet();
  ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, Channel().get()));
  ASSERT_TRUE(server.SendWithDescriptor(kRegionHeader, arena_->view().fd));
  const ShmDescriptor inside{.offset = 0, .bytes = 1, .region = 1};
  ASSERT_TRUE(server.Send(Packet({.lease = 1}, {&inside, 1})));
  const std::optional<Frame> first = client_->frames->Next();
  ASSERT_TRUE(first);
  SendWords({ShmWordOf(2, ShmLeaseWord::kEnded), ShmWordOf(1, ShmLeaseWord::kRenewed), 77});
  EXPECT_TRUE(first->payload.IsValid());
  ASSERT_TRUE(server.Send(Packet({.lease = 2}, {&inside, 1})));
  const std::optional<Frame> second = client_->frames->Next();
  ASSERT_TRUE(second);
  EXPECT_FALSE(second->payload.IsValid());
  EXPECT_TRUE(first->payload.IsValid());
  ASSERT_TRUE(server.Send(Packet({.lease = 1}, {&inside, 1})));
  const Status closed = client_->frames->Closed();
  EXPECT_EQ(closed.code(), StatusCode::kInvalidArgument) << closed;
  // A client without a channel trusts no lease.
  other_end_.Reset();
  EXPECT_FALSE(first->payload.IsValid());
  EXPECT_EQ(first->payload.leases()[0]->Renew(kPatience).code(), StatusCode::kFailedPrecondition);
}

TEST_F(LyingServerTest, ARenewalThatIsNotAnsweredEndsInTime) {
  const RawPeer server = Greet();
  ASSERT_TRUE(server.SendWithDescriptor(kChannelHeader, Channel().get()));
  ASSERT_TRUE(server.SendWithDescriptor(kRegionHeader, arena_->view().fd));
  const ShmDescriptor inside{.offset = 0, .bytes = 1, .region = 1};
  ASSERT_TRUE(server.Send(Packet({.lease = 1}, {&inside, 1})));
  const std::optional<Frame> frame = client_->frames->Next();
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->payload.leases()[0]->Renew(std::chrono::milliseconds(20)).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(frame->payload.IsValid());
}

TEST_F(LyingServerTest, AServerThatSaysNothingOrAnotherVersionIsNotConnectedTo) {
  ShmConnectOptions options;
  options.connect_timeout = std::chrono::milliseconds(30);
  Status status = ConnectShm(options_.path, options).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("in time"));
  UniqueFd silent(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));

  for (const auto& [first, code] : std::vector<std::pair<ShmHeader, StatusCode>>{
           {{.type = ShmPacketType::kGreeting, .number = 9}, StatusCode::kFailedPrecondition},
           {kChannelHeader, StatusCode::kUnavailable},
           {{.magic = 1}, StatusCode::kInvalidArgument}}) {
    std::thread server([&, header = first] {
      UniqueFd fd;
      while (!fd.valid()) fd = UniqueFd(accept4(socket_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
      EXPECT_TRUE(RawPeer(std::move(fd)).Send(header));
    });
    EXPECT_EQ(ConnectShm(options_.path, {}).status().code(), code);
    server.join();
  }
}

}  // namespace
}  // namespace quire::testing
