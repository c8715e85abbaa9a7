// SPDX-License-Identifier: Apache-2.0
#include "common/metrics/admin_server.h"

#include <httplib.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/prometheus_text.h"

namespace quire {
namespace {

constexpr size_t kThreads = 2;
constexpr size_t kMaxWaiting = 16;
constexpr size_t kMaxRequestBytes = 16 << 10;
constexpr Duration kConnectionTime = std::chrono::seconds(5);

/// Tells threads that wait for a client that nobody waits any more.
class StopEvent {
 public:
  StopEvent() : fd_(::eventfd(0, EFD_CLOEXEC)) {}
  ~StopEvent() {
    if (fd_ >= 0) ::close(fd_);
  }
  StopEvent(const StopEvent&) = delete;
  StopEvent& operator=(const StopEvent&) = delete;

  /// Readable once it has happened; negative (never) when the system had no descriptor left.
  int fd() const { return fd_; }
  void Set() {
    const uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof one);  // Without it clients have until their deadline.
  }

 private:
  const int fd_;
};

/// A connection that ends when it has sent too much or taken too long. The library reads lines of
/// any length, so it is here that they are bounded.
class BoundedStream final : public httplib::Stream {
 public:
  BoundedStream(int fd, const StopEvent& stop)
      : fd_(fd), stop_(stop), end_(SystemClock().Now() + kConnectionTime) {}

  bool is_readable() const override { return begin_ < filled_ || Await(POLLIN, stop_.fd()); }
  bool is_writable() const override { return Await(POLLOUT, /*stop_fd=*/-1); }
  ssize_t read(char* out, size_t size) override {
    if (begin_ == filled_ && !Fill()) return -1;
    const size_t taken = std::min(size, filled_ - begin_);
    std::memcpy(out, buffer_.data() + begin_, taken);
    begin_ += taken;
    return static_cast<ssize_t>(taken);
  }
  ssize_t write(const char* bytes, size_t size) override {
    if (!is_writable()) return -1;
    return ::send(fd_, bytes, size, MSG_NOSIGNAL);
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override { Unknown(ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const override { Unknown(ip, port); }
  int socket() const override { return fd_; }

 private:
  /// Nothing here depends on who asks.
  static void Unknown(std::string& ip, int& port) {
    ip.clear();
    port = 0;
  }
  /// False when the time is over, or `stop_fd` says so.
  bool Await(short events, int stop_fd) const {
    for (;;) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(end_ - SystemClock().Now()).count();
      if (left <= 0) return false;
      std::array<pollfd, 2> entries = {{{fd_, events, 0}, {stop_fd, POLLIN, 0}}};
      const int ready = ::poll(entries.data(), entries.size(), static_cast<int>(left));
      if (ready > 0) return entries[1].revents == 0;
      if (ready < 0 && errno != EINTR) return false;
    }
  }
  bool Fill() {
    if (received_ == kMaxRequestBytes || !Await(POLLIN, stop_.fd())) return false;
    const size_t room = std::min(buffer_.size(), kMaxRequestBytes - received_);
    const ssize_t got = ::recv(fd_, buffer_.data(), room, 0);
    if (got <= 0) return false;
    begin_ = 0;
    filled_ = static_cast<size_t>(got);
    received_ += filled_;
    return true;
  }

  const int fd_;
  const StopEvent& stop_;
  const TimePoint end_;
  std::array<char, 4096> buffer_;
  size_t begin_ = 0;   ///< Of what was received and not read yet.
  size_t filled_ = 0;  ///< Its end.
  size_t received_ = 0;
};

/// A fixed number of threads; who finds the queue full waits, and with it the listener.
class BoundedQueue final : public httplib::TaskQueue {
 public:
  BoundedQueue() {
    for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
  }
  void enqueue(std::function<void()> task) override {
    MutexLock lock(mutex_);
    while (tasks_.size() >= kMaxWaiting) changed_.Wait(mutex_);
    tasks_.push_back(std::move(task));
    changed_.NotifyAll();
  }
  void shutdown() override {
    {
      MutexLock lock(mutex_);
      stopping_ = true;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void Run() {
    for (;;) {
      std::function<void()> task;
      {
        MutexLock lock(mutex_);
        while (tasks_.empty() && !stopping_) changed_.Wait(mutex_);
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
        changed_.NotifyAll();
      }
      task();
    }
  }

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> tasks_ QUIRE_GUARDED_BY(mutex_);
  bool stopping_ QUIRE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

/// Answers are whole and plain: compressing them, or cutting them into the ranges that a client
/// names, can cost far more than making them.
void AskForAllOfIt(httplib::Request& request) {
  request.headers.erase("Accept-Encoding");
  request.ranges.clear();
}

/// One bounded request per connection.
class BoundedHttpServer final : public httplib::Server {
 public:
  void StopNow() {
    stop_event_.Set();
    stop();
  }

 private:
  bool process_and_close_socket(int fd) override {
    BoundedStream stream(fd, stop_event_);
    bool closed = false;
    const bool answered = process_request(stream, /*close_connection=*/true, closed, AskForAllOfIt);
    ::shutdown(fd, SHUT_RDWR);
    ::close(fd);
    return answered;
  }

  StopEvent stop_event_;
};

struct HostPort {
  std::string host;
  int port = 0;
};

StatusOr<HostPort> ParseAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  HostPort result;
  if (colon != std::string::npos && colon > 0) {
    result.host = address.substr(0, colon);
    const char* const end = address.data() + address.size();
    const auto [parsed, error] = std::from_chars(address.data() + colon + 1, end, result.port);
    if (error == std::errc() && parsed == end && result.port >= 0 && result.port <= 65535) {
      if (result.host.front() == '[' && result.host.back() == ']') {
        result.host = result.host.substr(1, result.host.size() - 2);
      }
      return result;
    }
  }
  return InvalidArgument("the admin address '", address,
                         "' is not host:port with a port of 0..65535, as in 127.0.0.1:7411");
}

/// A port has one listener: the library's own choice would let two servers share it.
void TakePortAlone(int fd) {
  const int yes = 1;
  (void)::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);  // Binding fails then.
}

}  // namespace

struct AdminServer::Rep {
  std::string address;
  int port = 0;
  BoundedHttpServer http;
  std::thread listener;
  std::atomic<bool> ready{false};

  Mutex mutex;  ///< Held while metrics are visited: one scrape at a time.
  CondVar started_changed;
  bool started QUIRE_GUARDED_BY(mutex) = false;
  VisitMetrics visit QUIRE_GUARDED_BY(mutex);

  void AddPages();
  void AnswerMetrics(httplib::Response& response);
  Status Bind(const HostPort& at);
  void Listen();
};

void AdminServer::Rep::AnswerMetrics(httplib::Response& response) {
  PrometheusText text;
  {
    MutexLock lock(mutex);
    if (visit == nullptr) {
      response.status = 503;
      response.set_content("the server is not running yet, or not any more\n", "text/plain");
      return;
    }
    visit(text);
  }
  response.set_content(text.Text(), PrometheusText::kContentType);
}

void AdminServer::Rep::AddPages() {
  http.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
  http.Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    const bool is_ready = ready.load();
    response.status = is_ready ? 200 : 503;
    response.set_content(is_ready ? "ready\n" : "not ready\n", "text/plain");
  });
  http.Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
    AnswerMetrics(response);
  });
}

Status AdminServer::Rep::Bind(const HostPort& at) {
  http.set_payload_max_length(0);
  http.set_socket_options(TakePortAlone);
  errno = 0;
  port = at.port == 0                          ? http.bind_to_any_port(at.host)
         : http.bind_to_port(at.host, at.port) ? at.port
                                               : -1;
  if (port > 0) return OkStatus();
  const std::string reason = errno == 0 ? "" : std::string(" (") + std::strerror(errno) + ")";
  return Unavailable("cannot listen on ", address, reason,
                     ": the port is taken or the address is not this machine's; choose another "
                     "one with --admin-listen, port 0 for any that is free, or \"\" for none");
}

/// Returns once the library can be told to stop: it makes its queue after it began to listen.
void AdminServer::Rep::Listen() {
  http.new_task_queue = [this] {
    MutexLock lock(mutex);
    started = true;
    started_changed.NotifyAll();
    return new BoundedQueue;  // The library takes it over.
  };
  listener = std::thread([this] { (void)http.listen_after_bind(); });
  MutexLock lock(mutex);
  while (!started) started_changed.Wait(mutex);
}

StatusOr<std::unique_ptr<AdminServer>> AdminServer::Start(const std::string& address) {
  QUIRE_ASSIGN_OR_RETURN(const HostPort at, ParseAddress(address));
  auto rep = std::make_unique<Rep>();
  rep->address = address;
  QUIRE_RETURN_IF_ERROR(rep->Bind(at));
  rep->address = address.substr(0, address.rfind(':') + 1) + std::to_string(rep->port);
  rep->AddPages();
  rep->Listen();
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(rep)));
}

AdminServer::AdminServer(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}

AdminServer::~AdminServer() {
  rep_->http.StopNow();
  rep_->listener.join();
}

const std::string& AdminServer::address() const { return rep_->address; }
int AdminServer::port() const { return rep_->port; }

AdminServer::Serving AdminServer::Serve(VisitMetrics visit) {
  {
    MutexLock lock(rep_->mutex);
    rep_->visit = std::move(visit);
  }
  rep_->ready = true;
  return Serving(rep_.get());
}

void AdminServer::Serving::Drain() { rep_->ready = false; }

void AdminServer::Serving::End() {
  rep_->ready = false;
  MutexLock lock(rep_->mutex);
  rep_->visit = nullptr;
}

}  // namespace quire
