// SPDX-License-Identifier: Apache-2.0
//
// One thread moves the bytes of all connections and blocks on none. Others make metrics, and
// answers of the site. Both may take a while, and delay only their readers.
#include "common/metrics/admin_server.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/net_address.h"
#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "common/metrics/http_request.h"
#include "common/metrics/prometheus_text.h"
#include "common/metrics/same_origin.h"
#include "quire/clock.h"

namespace quire {
namespace {

constexpr size_t kMaxConnections = 256;
constexpr size_t kMaxRequestBytes = 16 << 10;
constexpr Duration kConnectionTime = std::chrono::seconds(5);
constexpr int kBacklog = 256;
/// Time that the listener waits while the process has no descriptors.
constexpr std::chrono::milliseconds kWaitForDescriptor{100};
constexpr char kPlain[] = "text/plain";
constexpr char kMetricsPath[] = "/metrics";

/// A connection with the moved parts of its request and answer. The connection thread owns it; `id`
/// names it to the queues.
struct Connection {
  UniqueFd fd;
  uint64_t id = 0;
  TimePoint end;
  std::string received = {};
  AnswerQueue* queue = nullptr;  ///< Has been asked for the answer.
  SharedAnswer answer = nullptr;
  size_t sent = 0;

  bool is_answered() const { return answer != nullptr; }
  void Give(std::string whole) { answer = std::make_shared<const std::string>(std::move(whole)); }
  /// Events that the connection waits for, as in poll.
  short events() const {
    if (is_answered()) return POLLOUT;
    return queue != nullptr ? 0 : POLLIN;
  }
};

StatusOr<NetAddress> ParseAdminAddress(const std::string& text) {
  auto address = NetAddress::ParseListen(text);
  if (!address.ok()) return Annotate(address.status(), "the admin address");
  if (!address->is_unix()) return address;
  return InvalidArgument("the admin address '", text,
                         "' is a Unix socket: write host:port, as in 127.0.0.1:7411");
}

Status CannotListen(const NetAddress& at, std::string_view reason) {
  return Unavailable("cannot listen on ", at.Text(), " (", reason,
                     "): the port is taken or the address is not this machine's; choose another "
                     "one with --admin-listen, port 0 for any that is free, or \"\" for none");
}

/// Returns an exclusive listening socket at the first usable address of `at`.
StatusOr<UniqueFd> ListenAt(const NetAddress& at) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(at.port());
  if (const int failed = getaddrinfo(at.host().c_str(), port.c_str(), &hints, &found);
      failed != 0) {
    return CannotListen(at, gai_strerror(failed));
  }
  int error = 0;
  UniqueFd listening;
  for (const addrinfo* each = found; each != nullptr && !listening.valid(); each = each->ai_next) {
    UniqueFd fd(socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int yes = 1;
    (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd.get(), each->ai_addr, each->ai_addrlen) == 0 && listen(fd.get(), kBacklog) == 0) {
      listening = std::move(fd);
    } else {
      error = errno;
    }
  }
  freeaddrinfo(found);
  if (!listening.valid()) return CannotListen(at, std::strerror(error));
  return listening;
}

uint16_t PortOf(int fd) {
  sockaddr_storage address = {};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  // Both families have the port at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

struct AdminServer::Rep {
  std::string address;
  int port = 0;
  const Health* health = nullptr;
  AdminSite site;
  std::map<std::string, SharedAnswer, std::less<>> pages;  ///< Those of the site, whole.
  UniqueFd listening;
  UniqueFd wake;  ///< An eventfd: `stopping` or `answers` changed.
  std::atomic<bool> ready{false};
  std::thread moving;  ///< Moves bytes of connections.

  Mutex mutex;
  bool stopping QUIRE_GUARDED_BY(mutex) = false;
  std::vector<std::pair<uint64_t, SharedAnswer>> answers QUIRE_GUARDED_BY(mutex);

  // Owned by the connection thread:
  std::list<Connection> connections;  ///< Oldest first.
  uint64_t next_id = 1;

  // Their threads end before the rest.
  AnswerQueue metrics{std::bind_front(&Rep::TakeAnswer, this)};
  AnswerQueue site_answers{std::bind_front(&Rep::TakeAnswer, this)};

  void Wake();
  void Stop();
  /// Thread body.
  void Move();

  /// Takes an answer from a queue.
  void TakeAnswer(uint64_t id, SharedAnswer answer);
  void Ask(AnswerQueue* queue, HttpRequest request, Connection& connection);
  std::string ReadyAnswer() const;
  std::string NotHere() const;
  std::list<Connection>::iterator Drop(std::list<Connection>::iterator connection);
  /// Returns false when it is time to stop.
  bool TakeAnswers();
  void Accept();
  /// Moves available bytes. Returns false when the connection is over.
  bool Serve(Connection& connection);
  bool IsOver(Connection& connection, short happened, TimePoint now);
  bool Receive(Connection& connection);
  void Answer(Connection& connection);
  int MillisToNextEnd() const;
};

void AdminServer::Rep::Wake() {
  const uint64_t one = 1;
  (void)!::write(wake.get(), &one, sizeof one);
}

void AdminServer::Rep::Stop() {
  {
    MutexLock lock(mutex);
    stopping = true;
  }
  Wake();
  moving.join();
}

void AdminServer::Rep::TakeAnswer(uint64_t id, SharedAnswer answer) {
  {
    MutexLock lock(mutex);
    answers.emplace_back(id, std::move(answer));
  }
  Wake();
}

std::string AdminServer::Rep::ReadyAnswer() const {
  const bool is_ready = ready.load();
  std::string body = is_ready ? "ready\n" : "not ready\n";
  if (health != nullptr) {
    for (const Health::Degradation& degradation : health->Degradations()) {
      body.append("degraded: ").append(Name(degradation.trouble)).append(": ");
      body.append(degradation.detail).append("\n");
    }
  }
  return HttpAnswer(is_ready ? 200 : 503, kPlain, body);
}

std::string AdminServer::Rep::NotHere() const {
  std::string paths = "/metrics, /healthz and /readyz";
  for (const auto& [path, page] : pages) paths = path + ", " + paths;
  return HttpAnswer(404, kPlain, "there are " + paths + "\n");
}

bool AdminServer::Rep::TakeAnswers() {
  uint64_t ignored = 0;
  (void)!::read(wake.get(), &ignored, sizeof ignored);
  MutexLock lock(mutex);
  for (auto& [id, answer] : answers) {
    const auto it = std::ranges::find(connections, id, &Connection::id);
    if (it != connections.end()) it->answer = std::move(answer);
  }
  answers.clear();
  return !stopping;
}

std::list<Connection>::iterator AdminServer::Rep::Drop(std::list<Connection>::iterator connection) {
  if (connection->queue != nullptr) connection->queue->Forget(connection->id);
  return connections.erase(connection);
}

void AdminServer::Rep::Accept() {
  for (;;) {
    UniqueFd fd(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      const bool full = errno == EMFILE || errno == ENFILE;
      if (full && !connections.empty()) {
        Drop(connections.begin());
        continue;
      }
      if (full) std::this_thread::sleep_for(kWaitForDescriptor);
      return;
    }
    // The oldest connection makes room.
    if (connections.size() >= kMaxConnections) Drop(connections.begin());
    connections.push_back(
        {.fd = std::move(fd), .id = next_id++, .end = SystemClock().Now() + kConnectionTime});
  }
}

void AdminServer::Rep::Ask(AnswerQueue* queue, HttpRequest request, Connection& connection) {
  connection.queue = queue;
  queue->Ask(connection.id, std::move(request));
}

void AdminServer::Rep::Answer(Connection& connection) {
  auto request = ParseHttpRequest(connection.received);
  if (!request) {
    connection.Give(HttpAnswer(400, kPlain, "this is no request of HTTP/1.1\n"));
  } else if (request->method != "GET") {
    connection.Give(HttpAnswer(405, kPlain, "there is only GET here\n"));
  } else if (request->path == "/healthz") {
    connection.Give(HttpAnswer(200, kPlain, "ok\n"));
  } else if (request->path == "/readyz") {
    connection.Give(ReadyAnswer());
  } else if (request->path == kMetricsPath) {
    request->query.clear();  // All scrapes get the same.
    Ask(&metrics, *std::move(request), connection);
  } else if (const auto page = pages.find(request->path); page != pages.end()) {
    connection.answer = page->second;
  } else if (!site.answers.contains(request->path)) {
    connection.Give(NotHere());
  } else if (const auto refusal = RefuseForeign(*request, site.names)) {
    connection.Give(HttpAnswer(*refusal));
  } else {
    Ask(&site_answers, *std::move(request), connection);
  }
}

bool AdminServer::Rep::Receive(Connection& connection) {
  std::array<char, 4096> buffer;
  const ssize_t got = recv(connection.fd.get(), buffer.data(), buffer.size(), 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  connection.received.append(buffer.data(), static_cast<size_t>(got));
  if (HasWholeHead(connection.received)) {
    Answer(connection);
  } else if (connection.received.size() > kMaxRequestBytes) {
    connection.Give(HttpAnswer(431, kPlain, "the request is too long\n"));
  }
  return true;
}

bool AdminServer::Rep::Serve(Connection& connection) {
  if (!connection.is_answered()) return Receive(connection);
  const std::string_view rest = std::string_view(*connection.answer).substr(connection.sent);
  const ssize_t sent = send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<size_t>(sent);
  return connection.sent < connection.answer->size();
}

bool AdminServer::Rep::IsOver(Connection& connection, short happened, TimePoint now) {
  if (now >= connection.end || (happened & (POLLERR | POLLNVAL)) != 0) return true;
  if (connection.events() == 0) return (happened & POLLHUP) != 0;
  return happened != 0 && !Serve(connection);
}

int AdminServer::Rep::MillisToNextEnd() const {
  if (connections.empty()) return -1;
  const Duration left = connections.front().end - SystemClock().Now();
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::max<int64_t>(millis, 0));
}

void AdminServer::Rep::Move() {
  std::vector<pollfd> entries;
  for (;;) {
    entries.assign({{wake.get(), POLLIN, 0}, {listening.get(), POLLIN, 0}});
    for (const Connection& each : connections) {
      entries.push_back({each.fd.get(), each.events(), 0});
    }
    (void)poll(entries.data(), entries.size(), MillisToNextEnd());
    const TimePoint now = SystemClock().Now();
    size_t at = 2;
    for (auto it = connections.begin(); it != connections.end(); ++at) {
      const short happened = entries[at].revents;
      const bool over = IsOver(*it, happened, now);
      it = over ? Drop(it) : std::next(it);
    }
    if ((entries[0].revents & POLLIN) != 0 && !TakeAnswers()) return;
    if ((entries[1].revents & POLLIN) != 0) Accept();
  }
}

StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                          const Health* health, AdminSite site) {
  QUIRE_ASSIGN_OR_RETURN(const NetAddress at, ParseAdminAddress(address));
  auto rep = std::make_unique<Rep>();
  rep->health = health;
  for (const auto& [path, page] : site.pages) {
    rep->pages[path] = std::make_shared<const std::string>(HttpAnswer(page));
  }
  rep->site = std::move(site);
  QUIRE_ASSIGN_OR_RETURN(rep->listening, ListenAt(at));
  rep->wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!rep->wake.valid()) return ResourceExhausted("no descriptor is left for the admin port");
  rep->port = PortOf(rep->listening.get());
  rep->address = at.WithPort(static_cast<uint16_t>(rep->port)).Text();
  rep->moving = std::thread([raw = rep.get()] { raw->Move(); });
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(rep)));
}

AdminServer::AdminServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

AdminServer::~AdminServer() { rep_->Stop(); }

const std::string& AdminServer::address() const { return rep_->address; }
int AdminServer::port() const { return rep_->port; }

AdminServer::Serving AdminServer::Serve(VisitMetrics visit, AnswerMakers answers) {
  AnswerMakers metrics;
  metrics[kMetricsPath] = [visit = std::move(visit)](const HttpRequest&) {
    PrometheusText text;
    visit(text);
    return HttpReply{.content_type = PrometheusText::kContentType, .body = text.Text()};
  };
  rep_->metrics.Serve(std::move(metrics));
  rep_->site_answers.Serve(std::move(answers));
  rep_->ready = true;
  return Serving(rep_.get());
}

void AdminServer::Serving::Drain() { rep_->ready = false; }

void AdminServer::Serving::End() {
  rep_->ready = false;
  rep_->metrics.Serve({});
  rep_->site_answers.Serve({});
}

}  // namespace quire
