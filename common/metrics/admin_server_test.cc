// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/admin_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "common/metrics/testing/http_get.h"
#include "common/metrics/testing/prometheus_parser.h"
#include "quire/clock.h"
#include "tests/kit/look_again.h"

namespace quire::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AdminServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto admin = AdminServer::Start("127.0.0.1:0");
    ASSERT_TRUE(admin.ok()) << admin.status();
    admin_ = *std::move(admin);
  }
  std::string Get(const std::string& path) const { return HttpGet(admin_->port(), path); }
  static void OneGauge(MetricsVisitor& visit) { visit.Gauge("held", "Held.", 42); }

  std::unique_ptr<AdminServer> admin_;
};

TEST_F(AdminServerTest, SaysWhatTheServerIsDegradedByAndStaysReady) {
  Health health(&SystemClock());
  health.Raise(Trouble::kDataDamaged, "3 segments are lost");
  const auto admin = AdminServer::Start("127.0.0.1:0", &health).value();
  EXPECT_THAT(HttpGet(admin->port(), "/readyz"), StartsWith("HTTP/1.1 503"));
  const auto serving = admin->Serve(OneGauge);
  const std::string degraded = HttpGet(admin->port(), "/readyz");
  EXPECT_THAT(degraded, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(HttpBody(degraded), "ready\ndegraded: data_damaged: 3 segments are lost\n");
  health.Clear(Trouble::kDataDamaged);
  EXPECT_EQ(HttpBody(HttpGet(admin->port(), "/readyz")), "ready\n");
}

TEST_F(AdminServerTest, IsReadyWhileSomethingIsServed) {
  EXPECT_EQ(admin_->address(), "127.0.0.1:" + std::to_string(admin_->port()));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 503"));
  {
    auto serving = admin_->Serve(OneGauge);
    EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
    const std::string metrics = Get("/metrics");
    EXPECT_THAT(metrics, AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("version=0.0.4")));
    const auto families = PrometheusParser::Parse(HttpBody(metrics));
    ASSERT_TRUE(families.ok()) << families.status();
    EXPECT_EQ(families->at("quire_held").samples.at(0).value, 42);
    serving.Drain();
    EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
    EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 200")) << "the end can be watched";
  }
  EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServerTest, AnswersAreWholeAndPlainWhateverAClientAccepts) {
  const auto serving = admin_->Serve(OneGauge);
  TcpClient client(admin_->port());
  client.Send("GET /metrics HTTP/1.1\r\nAccept-Encoding: br, gzip\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), HasSubstr("\nquire_held 42\n"));
  std::string ranges = "0-";
  for (int i = 0; i < 1000; ++i) ranges += ",0-";
  TcpClient parts(admin_->port());
  parts.Send("GET /metrics HTTP/1.1\r\nRange: bytes=" + ranges + "\r\n\r\n");
  EXPECT_LT(parts.ReadAll().size(), 1000u);
}

TEST_F(AdminServerTest, OffersNothingElse) {
  EXPECT_THAT(Get("/"), StartsWith("HTTP/1.1 404"));
  EXPECT_THAT(Get("/metrics/../etc/passwd"), StartsWith("HTTP/1.1 404"));
  TcpClient client(admin_->port());
  client.Send("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 4"));
}

/// A server with a page, and an answer that counts how often it is made.
class AdminSiteTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AdminSite site;
    site.pages["/"] = {.content_type = "text/html", .body = "<p>", .headers = "X-Page: 1\r\n"};
    site.answers = {"/status"};
    admin_ = AdminServer::Start("127.0.0.1:0", nullptr, std::move(site)).value();
  }
  AdminServer::Serving Serve() {
    AnswerMakers answers;
    answers["/status"] = [this](const HttpRequest& request) {
      ++made_;
      if (request.query == "wait") go_on_.get_future().wait();
      return HttpReply{.body = "about " + request.query};
    };
    return admin_->Serve([](MetricsVisitor& visit) { visit.Gauge("held", "Held.", 42); },
                         std::move(answers));
  }
  std::string Get(const std::string& path) const { return HttpGet(admin_->port(), path); }
  std::string Send(const std::string& request) const {
    TcpClient client(admin_->port());
    client.Send(request);
    return client.ReadAll();
  }

  std::unique_ptr<AdminServer> admin_;
  std::promise<void> go_on_;
  std::atomic<int> made_{0};
};

TEST_F(AdminSiteTest, PagesAreAlwaysThereAndAnswersWhileItServes) {
  EXPECT_THAT(Get("/"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("\r\nX-Page: 1\r\n")));
  EXPECT_THAT(Get("/status?a=b"), StartsWith("HTTP/1.1 503"));
  {
    const auto serving = Serve();
    EXPECT_EQ(HttpBody(Get("/status?a=b")), "about a=b");
  }
  EXPECT_THAT(Get("/status"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/other"), StartsWith("HTTP/1.1 404"));
}

TEST_F(AdminSiteTest, AnswersAreForItsOwnPagesOnly) {
  const auto serving = Serve();
  EXPECT_THAT(Send("GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil\r\n\r\n"),
              StartsWith("HTTP/1.1 403"));
  EXPECT_THAT(Send("GET /status HTTP/1.1\r\nHost: evil.example.org\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 421"), HasSubstr("--admin-name")));
  EXPECT_THAT(Send("GET /metrics HTTP/1.1\r\nHost: node.example.org\r\n\r\n"),
              HasSubstr("quire_held 42"))
      << "Prometheus asks by any name";
  EXPECT_EQ(made_, 0);
}

// A slow answer delays neither metrics nor health, and is made once for all that wait for it.
TEST_F(AdminSiteTest, ManyBrowsersGetOneAnswer) {
  const auto serving = Serve();
  TcpClient slow(admin_->port());
  slow.Send("GET /status?wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  while (made_ == 0) WaitToLookAgain();
  std::vector<std::unique_ptr<TcpClient>> browsers;
  for (int i = 0; i < 200; ++i) {
    browsers.push_back(std::make_unique<TcpClient>(admin_->port()));
    browsers.back()->Send("GET /status?same HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_THAT(Get("/metrics"), HasSubstr("quire_held 42"));
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  go_on_.set_value();
  for (const auto& browser : browsers) EXPECT_EQ(HttpBody(browser->ReadAll()), "about same");
  EXPECT_EQ(HttpBody(slow.ReadAll()), "about wait");
  EXPECT_LE(made_, 3);
}

TEST_F(AdminServerTest, WhatAClientSendsIsBounded) {
  const std::string megabyte(1 << 20, 'x');
  for (const std::string& start :
       {std::string(""), std::string("GET /healthz HTTP/1.1\r\nX: "),
        std::string("POST /healthz HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n")}) {
    TcpClient client(admin_->port());
    client.Send(start);
    int sent = 0;  // Bytes in the system's buffers, until the server takes no more.
    while (sent < 1000 && client.Send(megabyte)) ++sent;
    EXPECT_LT(sent, 32) << start;
  }
  for (const std::string& bytes :
       {std::string("\r\n\r\n"), std::string("\0\xff\r\n\r\n", 6), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9\r\n\r\n")}) {
    TcpClient client(admin_->port());
    client.Send(bytes);
    EXPECT_THAT(client.ReadAll(), Not(HasSubstr(" 200 "))) << bytes;
  }
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
}

// Silent clients delay no other one, whether they send nothing or receive nothing.
TEST_F(AdminServerTest, SilentClientsHoldUpNobody) {
  const auto serving = admin_->Serve([](MetricsVisitor& visit) {
    static const std::string kLong(256, 'x');
    for (int i = 0; i < 4000; ++i) {
      visit.Gauge("wide", "Wide.", 1, {{"name", kLong}, {"n", std::to_string(i)}});
    }
  });
  std::vector<std::unique_ptr<TcpClient>> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(std::make_unique<TcpClient>(admin_->port()));
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<TcpClient>(admin_->port()));
    silent.back()->Send("GET /metrics HTTP/1.1\r\n\r\n");
  }
  const TimePoint start = SystemClock().Now();
  for (int i = 0; i < 20; ++i) EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_LT(SystemClock().Now() - start, std::chrono::seconds(2));
}

TEST_F(AdminServerTest, HealthIsToldWhileMetricsAreMade) {
  std::promise<void> began, go_on;
  auto serving = admin_->Serve([&](MetricsVisitor& visit) {
    began.set_value();
    go_on.get_future().wait();
    OneGauge(visit);
  });
  TcpClient scrape(admin_->port());
  scrape.Send("GET /metrics HTTP/1.1\r\n\r\n");
  began.get_future().wait();
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
  go_on.set_value();
  EXPECT_THAT(scrape.ReadAll(), HasSubstr("quire_held 42"));
}

TEST_F(AdminServerTest, StopsAlthoughClientsSayNothing) {
  std::vector<std::unique_ptr<TcpClient>> silent;
  for (int i = 0; i < 12; ++i) silent.push_back(std::make_unique<TcpClient>(admin_->port()));
  const TimePoint start = SystemClock().Now();
  admin_.reset();
  EXPECT_LT(SystemClock().Now() - start, std::chrono::seconds(4));
}

TEST_F(AdminServerTest, ATakenPortAndMalformedAddressesAreNamed) {
  const Status taken = AdminServer::Start(admin_->address()).status();
  EXPECT_EQ(taken.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(taken)), HasSubstr(admin_->address()));
  for (const char* address : {"", "localhost", ":80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1",
                              "127.0.0.1:65536", "127.0.0.1:1:"}) {
    EXPECT_EQ(AdminServer::Start(address).status().code(), StatusCode::kInvalidArgument) << address;
  }
}

}  // namespace
}  // namespace quire::testing
