// SPDX-License-Identifier: Apache-2.0
//
// One thread moves the bytes of all connections and blocks on none. Another makes metrics, which
// may take a while and delays only their readers.
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
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/net_address.h"
#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "common/metrics/http_request.h"
#include "common/metrics/prometheus_text.h"
#include "quire/clock.h"

namespace quire {
namespace {

constexpr size_t kMaxConnections = 64;
constexpr size_t kMaxRequestBytes = 16 << 10;
constexpr Duration kConnectionTime = std::chrono::seconds(5);
constexpr int kBacklog = 64;
/// Time that the listener waits while the process has no descriptors.
constexpr std::chrono::milliseconds kWaitForDescriptor{100};
constexpr char kPlain[] = "text/plain";

/// A connection with the moved parts of its request and answer. The connection thread owns it; `id`
/// names it to the metrics thread.
struct Connection {
  UniqueFd fd;
  uint64_t id = 0;
  TimePoint end;
  std::string received = {};
  bool waits_for_metrics = false;
  std::string answer = {};
  size_t sent = 0;

  bool is_answered() const { return !answer.empty(); }
  /// Events that the connection waits for, as in poll.
  short events() const {
    if (is_answered()) return POLLOUT;
    return waits_for_metrics ? 0 : POLLIN;
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
  UniqueFd listening;
  UniqueFd wake;  ///< An eventfd: `stopping` or `answers` changed.
  std::atomic<bool> ready{false};
  std::thread moving;    ///< Moves bytes of connections.
  std::thread scraping;  ///< Makes metrics.

  Mutex visit_mutex;  ///< Held while metrics are visited: one scrape at a time.
  VisitMetrics visit QUIRE_GUARDED_BY(visit_mutex);

  Mutex mutex;
  CondVar changed;
  bool stopping QUIRE_GUARDED_BY(mutex) = false;
  std::vector<uint64_t> asking QUIRE_GUARDED_BY(mutex);  ///< Connections waiting for metrics.
  std::vector<std::pair<uint64_t, std::string>> answers QUIRE_GUARDED_BY(mutex);

  // Owned by the connection thread:
  std::list<Connection> connections;  ///< Oldest first.
  uint64_t next_id = 1;

  void Wake();
  void Stop();
  /// Thread bodies.
  void Move();
  void Scrape();

  std::string MetricsAnswer();
  std::string ReadyAnswer() const;
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
    changed.NotifyAll();
  }
  Wake();
  moving.join();
  scraping.join();
}

std::string AdminServer::Rep::MetricsAnswer() {
  MutexLock lock(visit_mutex);
  if (visit == nullptr) {
    return HttpAnswer(503, kPlain, "the server is not running yet, or not any more\n");
  }
  PrometheusText text;
  visit(text);
  return HttpAnswer(200, PrometheusText::kContentType, text.Text());
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

void AdminServer::Rep::Scrape() {
  for (;;) {
    std::vector<uint64_t> asked;
    {
      MutexLock lock(mutex);
      while (asking.empty() && !stopping) changed.Wait(mutex);
      if (stopping) return;
      asked.swap(asking);
    }
    // All requests made before it began get the same answer.
    const std::string answer = MetricsAnswer();
    {
      MutexLock lock(mutex);
      for (const uint64_t id : asked) answers.emplace_back(id, answer);
    }
    Wake();
  }
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

void AdminServer::Rep::Accept() {
  for (;;) {
    UniqueFd fd(accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      const bool full = errno == EMFILE || errno == ENFILE;
      if (full && !connections.empty()) {
        connections.pop_front();
        continue;
      }
      if (full) std::this_thread::sleep_for(kWaitForDescriptor);
      return;
    }
    // The oldest connection makes room.
    if (connections.size() >= kMaxConnections) connections.pop_front();
    connections.push_back(
        {.fd = std::move(fd), .id = next_id++, .end = SystemClock().Now() + kConnectionTime});
  }
}

void AdminServer::Rep::Answer(Connection& connection) {
  const auto request = ParseHttpRequest(connection.received);
  std::string& answer = connection.answer;
  if (!request) {
    answer = HttpAnswer(400, kPlain, "this is no request of HTTP/1.1\n");
  } else if (request->method != "GET") {
    answer = HttpAnswer(405, kPlain, "there is only GET here\n");
  } else if (request->path == "/healthz") {
    answer = HttpAnswer(200, kPlain, "ok\n");
  } else if (request->path == "/readyz") {
    answer = ReadyAnswer();
  } else if (request->path == "/metrics") {
    connection.waits_for_metrics = true;
    MutexLock lock(mutex);
    asking.push_back(connection.id);
    changed.NotifyAll();
  } else {
    answer = HttpAnswer(404, kPlain, "there are /metrics, /healthz and /readyz\n");
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
    connection.answer = HttpAnswer(431, kPlain, "the request is too long\n");
  }
  return true;
}

bool AdminServer::Rep::Serve(Connection& connection) {
  if (!connection.is_answered()) return Receive(connection);
  const std::string_view rest = std::string_view(connection.answer).substr(connection.sent);
  const ssize_t sent = send(connection.fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  connection.sent += static_cast<size_t>(sent);
  return connection.sent < connection.answer.size();
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
      it = over ? connections.erase(it) : std::next(it);
    }
    if ((entries[0].revents & POLLIN) != 0 && !TakeAnswers()) return;
    if ((entries[1].revents & POLLIN) != 0) Accept();
  }
}

StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address,
                                                          const Health* health) {
  QUIRE_ASSIGN_OR_RETURN(const NetAddress at, ParseAdminAddress(address));
  auto rep = std::make_unique<Rep>();
  rep->health = health;
  QUIRE_ASSIGN_OR_RETURN(rep->listening, ListenAt(at));
  rep->wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!rep->wake.valid()) return ResourceExhausted("no descriptor is left for the admin port");
  rep->port = PortOf(rep->listening.get());
  rep->address = at.WithPort(static_cast<uint16_t>(rep->port)).Text();
  rep->moving = std::thread([raw = rep.get()] { raw->Move(); });
  rep->scraping = std::thread([raw = rep.get()] { raw->Scrape(); });
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(rep)));
}

AdminServer::AdminServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

AdminServer::~AdminServer() { rep_->Stop(); }

const std::string& AdminServer::address() const { return rep_->address; }
int AdminServer::port() const { return rep_->port; }

AdminServer::Serving AdminServer::Serve(VisitMetrics visit) {
  {
    MutexLock lock(rep_->visit_mutex);
    rep_->visit = std::move(visit);
  }
  rep_->ready = true;
  return Serving(rep_.get());
}

void AdminServer::Serving::Drain() { rep_->ready = false; }

void AdminServer::Serving::End() {
  rep_->ready = false;
  MutexLock lock(rep_->visit_mutex);
  rep_->visit = nullptr;
}

}  // namespace quire
