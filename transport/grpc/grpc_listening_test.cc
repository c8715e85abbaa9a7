// SPDX-License-Identifier: Apache-2.0
//
// Addresses of gRPC servers: each listens at the intended one, one server at a time.
#include "transport/grpc/grpc_listening.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <span>

#include "tests/kit/temp_dir.h"
#include "transport/grpc/grpc_server.h"
#include "transport/grpc/grpc_transport.h"
#include "transport/shm/shm_address.h"

namespace quire::testing {
namespace {

using ::testing::HasSubstr;

/// Answers with its name.
class NamedHandler final : public CallHandler {
 public:
  explicit NamedHandler(std::string name) : name_(std::move(name)) {}
  std::vector<std::string> Methods() const override { return {"quire.test.A/Name"}; }
  Status Handle(const CallContext&, std::string_view, const CallMessage&,
                ReplyWriter& reply) override {
    CallMessage part;
    part.payload.Append(Slice{std::as_bytes(std::span(name_)), nullptr});
    return reply.Write(std::move(part));
  }

 private:
  const std::string name_;
};

class GrpcListeningTest : public ::testing::Test {
 protected:
  static StatusOr<std::unique_ptr<GrpcServer>> Listen(const std::string& address,
                                                      CallHandler& handler) {
    return GrpcServer::Start({.address = address}, &handler);
  }
  static std::string NameAt(const std::string& address) {
    const auto transport = GrpcTransport::Create({.address = address});
    if (!transport.ok()) return transport.status().ToString();
    CallMessage reply;
    const Status status =
        (*transport)->Call("quire.test.A/Name", {}, &reply, {.timeout = std::chrono::seconds(60)});
    if (!status.ok()) return status.ToString();
    std::string name(reply.payload.size_bytes(), ' ');
    reply.payload.CopyTo(reinterpret_cast<std::byte*>(name.data()));
    return name;
  }

  TempDir dir_;
  NamedHandler first_{"first"};
  NamedHandler second_{"second"};
};

// Covers gRPC's own completions: port 443, a port modulo 65536.
TEST_F(GrpcListeningTest, NoServerListensWhereNobodyToldItTo) {
  for (const char* const address : {"127.0.0.1", "[::1]", ":99999", ":7410", "localhost", "::1",
                                    "127.0.0.1:99999", "unix:", ""}) {
    const auto server = Listen(address, first_);
    EXPECT_EQ(server.status().code(), StatusCode::kInvalidArgument)
        << address << " is served on " << (server.ok() ? (*server)->address() : "");
    EXPECT_FALSE(GrpcTransport::Create({.address = address}).ok()) << address;
  }
}

TEST_F(GrpcListeningTest, ClientsFindTheServerAtEveryKindOfAddress) {
  for (const std::string& address :
       {std::string("127.0.0.1:0"), std::string("localhost:0"), "unix:" + (dir_ / "plain"),
        "unix:" + (dir_ / "a b%20?c#d&e")}) {
    const auto server = Listen(address, first_);
    ASSERT_TRUE(server.ok()) << address << ": " << server.status();
    EXPECT_EQ(NameAt((*server)->address()), "first") << address;
  }
}

TEST_F(GrpcListeningTest, ASecondServerIsRefusedAndTheFirstKeepsItsClients) {
  const std::string address = "unix:" + (dir_ / "socket");
  auto first = Listen(address, first_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = Listen(address, second_);
  ASSERT_EQ(second.status().code(), StatusCode::kAlreadyExists) << second.status();
  EXPECT_THAT(std::string(Message(second.status())), HasSubstr("another server listens on"));
  EXPECT_EQ(NameAt(address), "first");
  first->reset();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "")) << "a socket or its lock was left behind";
  const auto third = Listen(address, second_);
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_EQ(NameAt(address), "second");
}

TEST_F(GrpcListeningTest, TheSocketOfAServerThatDiedIsReplaced) {
  const std::string path = dir_ / "socket";
  const sockaddr_un address = UnixAddress(path).value();
  {
    const UniqueFd dead(socket(AF_UNIX, SOCK_STREAM, 0));
    ASSERT_EQ(bind(dead.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(dead.get(), 1), 0);
  }
  std::ofstream(path + ".lock") << "";
  const auto server = Listen("unix:" + path, first_);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ(NameAt("unix:" + path), "first");
}

TEST_F(GrpcListeningTest, AnotherProgramsSocketAndFileAreLeftAlone) {
  const std::string path = dir_ / "socket";
  const sockaddr_un address = UnixAddress(path).value();
  const UniqueFd other(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  EXPECT_EQ(Listen("unix:" + path, first_).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(path));

  std::ofstream(dir_ / "file") << "kept";
  EXPECT_EQ(Listen("unix:" + (dir_ / "file"), first_).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "file"));
}

}  // namespace
}  // namespace quire::testing
