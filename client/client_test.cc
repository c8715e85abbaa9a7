// SPDX-License-Identifier: Apache-2.0
//
// Properties of every method: retries, deadlines, tenants, limits.
#include "quire/client.h"

#include <gmock/gmock.h>

#include "client/client_test_kit.h"
#include "common/base/retry_hint.h"
#include "quire/session.h"
#include "quire/v1/admin.pb.h"
#include "quire/v1/registry.pb.h"
#include "quire/v1/store.pb.h"

namespace quire {
namespace {

using namespace internal;

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::KeyOf;
using testing::RandomPayload;

constexpr const char* kStats = "quire.v1.Admin/Stats";

class RetryingClientTest : public testing::ClientTest {};

TEST_F(RetryingClientTest, UnavailableTwiceThenOkSucceedsAfterTwoBackoffs) {
  server_.Fail(kStats, Unavailable("starting"));
  server_.Fail(kStats, Unavailable("starting"));
  v1::StatsReply reply;
  reply.set_version("1.2.3");
  server_.Reply(kStats, reply);
  const auto client = MakeClient({.retry = {.first_backoff = milliseconds(100), .jitter = 0.1}});
  const TimePoint start = clock_.Now();
  const auto stats = client->Stats();
  ASSERT_TRUE(stats.ok()) << stats.status();
  EXPECT_EQ(stats->version, "1.2.3");
  EXPECT_EQ(server_.calls().size(), 3u);
  EXPECT_GE(clock_.Now() - start, milliseconds(270));  // 100 and 200, each less 10 % at most
  EXPECT_LE(clock_.Now() - start, milliseconds(330));
}

TEST_F(RetryingClientTest, AttemptsEndAtTheMaximum) {
  for (int i = 0; i < 10; ++i) server_.Fail(kStats, Unavailable("down"));
  const auto stats = MakeClient({.retry = {.max_attempts = 4}})->Stats();
  EXPECT_TRUE(IsUnavailable(stats.status())) << stats.status();
  EXPECT_EQ(server_.calls().size(), 4u);
}

TEST_F(RetryingClientTest, OneDeadlineCoversAllAttempts) {
  for (int i = 0; i < 100; ++i) server_.Fail(kStats, Unavailable("still down"));
  const auto client = MakeClient({.deadline = seconds(3), .retry = {.max_attempts = 100}});
  const TimePoint start = clock_.Now();
  const auto stats = client->Stats();
  EXPECT_TRUE(IsDeadlineExceeded(stats.status())) << stats.status();
  EXPECT_NE(Message(stats.status()).find("still down"), std::string_view::npos) << stats.status();
  EXPECT_LE(clock_.Now() - start, seconds(3));
  EXPECT_GT(server_.calls().size(), 2u);
  for (const auto& call : server_.calls()) EXPECT_EQ(call.deadline, start + seconds(3));
}

// Whatever the attempts, a server that is back before the deadline is found.
TEST_F(RetryingClientTest, AServerThatIsBackWithinTheDeadlineIsFound) {
  for (int i = 0; i < 18; ++i) server_.Fail(kStats, Unavailable("restarting"));
  server_.Reply(kStats, v1::StatsReply());
  EXPECT_EQ(MakeClient({.deadline = seconds(60)})->Stats().status(), OkStatus());
}

TEST_F(RetryingClientTest, NothingGoesOnAfterTheLimitOfAll) {
  const TimePoint limit = clock_.Now() + seconds(3);
  const auto client = MakeClient({.deadline = seconds(60), .limit = limit});
  for (int i = 0; i < 100; ++i) server_.Fail(kStats, Unavailable("down"));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(IsDeadlineExceeded(client->Stats().status()));
    EXPECT_LE(clock_.Now(), limit);
  }
}

TEST_F(RetryingClientTest, ErrorsThatARepetitionCannotCureAreReturnedAtOnce) {
  server_.Fail(kStats, PermissionDenied("no"));
  EXPECT_TRUE(IsPermissionDenied(MakeClient()->Stats().status()));
  EXPECT_EQ(server_.calls().size(), 1u);
}

TEST_F(RetryingClientTest, ARepetitionSendsTheSameBytes) {
  const char* method = "quire.v1.Store/AppendPages";
  v1::AppendPagesReply reply;
  reply.set_num_tokens(4);
  server_.Fail(method, Unavailable("the reply was lost"));
  server_.Reply(method, reply);
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const Payload payload = RandomPayload(UnitBytes(spec_) * 4, 3);
  const auto count = MakeClient()->AppendPages(9, 0, tokens, payload);
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_EQ(*count, 4u);
  ASSERT_EQ(server_.calls().size(), 2u);
  EXPECT_EQ(server_.calls()[0].request.control, server_.calls()[1].request.control);
  EXPECT_EQ(testing::Bytes(server_.calls()[1].request.payload), testing::Bytes(payload));
}

/// Methods whose repetition could do something twice: a lost reply must not be followed by a retry.
class OnceOnlyTest : public testing::ClientTest {
 protected:
  using Run = std::function<Status(Client&)>;
  std::vector<std::pair<std::string, Run>> Methods() {
    return {
        {"quire.v1.Store/OpenContext",
         [this](Client& c) { return c.OpenContext(spec_, {}).status(); }},
        {"quire.v1.Store/DropContext", [](Client& c) { return c.DropContext(1); }},
        {"quire.v1.Store/Delete",
         [](Client& c) { return c.DeleteSegments({{KeyOf(1)}}).status(); }},
        {"quire.v1.Registry/Register",
         [](Client& c) { return c.RegisterDocument({.name = "a"}, KeyOf(1)).status(); }},
        {"quire.v1.Registry/Delete",
         [](Client& c) { return c.DeleteDocument({.name = "a"}).status(); }},
        {"quire.v1.Session/Open",
         [this](Client& c) {
           return c.OpenSession(KeyOf(1), {.spec = spec_, .slots_per_head = 4}).status();
         }},
    };
  }
};

TEST_F(OnceOnlyTest, AreNotRepeatedWhenTheReplyMayHaveBeenLost) {
  const auto client = MakeClient();
  for (const auto& [method, run] : Methods()) {
    const size_t before = server_.calls().size();
    server_.Fail(method, Unavailable("connection reset"));
    EXPECT_TRUE(IsUnavailable(run(*client))) << method;
    EXPECT_EQ(server_.calls().size(), before + 1) << method;
  }
}

TEST_F(OnceOnlyTest, AreRepeatedWhenTheServerRefused) {
  const auto client = MakeClient();
  for (const auto& [method, run] : Methods()) {
    const size_t before = server_.calls().size();
    server_.Fail(method, WithRetryAfter(ResourceExhausted("too many"), milliseconds(1)));
    server_.Fail(method, NotFound("reached again"));
    EXPECT_TRUE(IsNotFound(run(*client))) << method;
    EXPECT_EQ(server_.calls().size(), before + 2) << method;
  }
}

TEST_F(RetryingClientTest, TheTenantTravelsWithEveryCall) {
  server_.Reply(kStats, v1::StatsReply());
  ASSERT_TRUE(MakeClient({.tenant = "team-a"})->Stats().ok());
  EXPECT_EQ(server_.calls()[0].tenant, "team-a");
}

TEST_F(RetryingClientTest, ARequestOverTheTransportsLimitIsRefusedBeforeItIsSent) {
  const auto client = MakeClient({}, /*max_message_bytes=*/4096);
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const auto count = client->AppendPages(1, 0, tokens, RandomPayload(5000, 1));
  EXPECT_TRUE(IsResourceExhausted(count.status())) << count.status();
  EXPECT_TRUE(server_.calls().empty());
}

TEST_F(RetryingClientTest, AReplyThatCannotBeParsedIsInternalAtOnce) {
  const auto client = MakeClient();
  // No message at all, and one whose text is half a character.
  const std::string half("\x0a\x01\xc3");
  for (const std::string& reply : {std::string("\xff\xff\xff"), half}) {
    const size_t calls = server_.calls().size();
    server_.Push(kStats, [reply](const CallMessage&) { return CallMessage{reply, {}}; });
    const Status status = client->Stats().status();
    EXPECT_TRUE(IsInternal(status)) << status;
    EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr("the server's reply to "));
    EXPECT_EQ(server_.calls().size(), calls + 1) << "it was asked for again";
  }
}

TEST_F(RetryingClientTest, RepliesThatBringUnexpectedBytesAreDataLoss) {
  const auto client = MakeClient();
  server_.Reply(kStats, v1::StatsReply(), RandomPayload(3, 1));
  EXPECT_TRUE(IsDataLoss(client->Stats().status()));
}

TEST(ClientOptionsTest, ImpossibleOptionsAreNamed) {
  testing::ScriptedHandler server;
  const auto transport = std::make_shared<LoopbackTransport>(&server, LoopbackTransport::Options{});
  const auto refused = [&](Client::Options options) {
    return IsInvalidArgument(Client::Create(std::move(options)).status());
  };
  EXPECT_TRUE(refused({.transport = nullptr}));
  EXPECT_TRUE(refused({.transport = transport, .tenant = ""}));
  EXPECT_TRUE(refused({.transport = transport, .tenant = "a/b"}));
  EXPECT_TRUE(refused({.transport = transport, .deadline = Duration::zero()}));
  EXPECT_TRUE(refused({.transport = transport, .retry = {.max_attempts = 0}}));
  EXPECT_TRUE(refused({.transport = transport, .retry = {.jitter = 1.5}}));
  EXPECT_FALSE(refused({.transport = transport}));
}

}  // namespace
}  // namespace quire
