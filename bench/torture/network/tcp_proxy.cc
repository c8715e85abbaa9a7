// SPDX-License-Identifier: Apache-2.0
#include "bench/torture/network/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::torture {
namespace {

constexpr int kTickMillis = 2;  ///< Precision of delays and limits.
constexpr size_t kMostBuffered = size_t{256} << 10;
constexpr size_t kReadBytes = size_t{64} << 10;
/// Time after which TCP sends a lost packet again; it doubles. Later ones wait for it.
constexpr Duration kSentAgainAfter = std::chrono::milliseconds(200);

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

UniqueFd NewSocket(int flags) {
  return UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

void Prepare(int fd) {
  const int yes = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

}  // namespace

StatusOr<std::unique_ptr<TcpProxy>> TcpProxy::Start(const Options& options) {
  UniqueFd listener = NewSocket(SOCK_NONBLOCK);
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (!listener.valid() || inet_pton(AF_INET, options.listen.c_str(), &address.sin_addr) != 1 ||
      bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return Unavailable("cannot listen on ", options.listen, ": ", std::strerror(errno));
  }
  return std::unique_ptr<TcpProxy>(
      new TcpProxy(options, std::move(listener), ntohs(address.sin_port)));
}

TcpProxy::TcpProxy(const Options& options, UniqueFd listener, uint16_t port)
    : ip_(options.listen),
      listener_(std::move(listener)),
      port_(port),
      random_(options.seed),
      thread_([this] { Run(); }) {}

TcpProxy::~TcpProxy() {
  stops_ = true;
  thread_.join();
}

void TcpProxy::Set(const Weather& weather) {
  const MutexLock lock(mutex_);
  weather_ = weather;
}

void TcpProxy::Run() {
  while (!stops_) {
    Weather weather;
    {
      const MutexLock lock(mutex_);
      weather = weather_;
    }
    Step(weather);
  }
}

void TcpProxy::Step(const Weather& weather) {
  std::vector<pollfd> polled = Descriptors(weather);
  const bool waits = std::ranges::any_of(
      pairs_, [](const Pair& pair) { return pair.up.bytes + pair.down.bytes > 0; });
  (void)poll(polled.data(), polled.size(), waits ? kTickMillis : 5 * kTickMillis);
  if (weather.holds) return;
  if (weather.cuts) pairs_.clear();
  for (Pair& pair : pairs_) {
    Read(pair.client.get(), &pair.up, &pair, weather);
    Read(pair.server.get(), &pair.down, &pair, weather);
    Write(pair.server.get(), &pair.up, &pair, weather);
    Write(pair.client.get(), &pair.down, &pair, weather);
  }
  // An end on one side ends both, once everything has been handed on.
  std::erase_if(pairs_, [](const Pair& pair) {
    return pair.broken || (pair.up.ended && pair.up.chunks.empty()) ||
           (pair.down.ended && pair.down.chunks.empty());
  });
  Accept(weather);
}

std::vector<pollfd> TcpProxy::Descriptors(const Weather& weather) {
  std::vector<pollfd> polled;
  if (weather.holds) return polled;
  polled.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
  for (const Pair& pair : pairs_) {
    if (Takes(pair.up)) polled.push_back({pair.client.get(), POLLIN, 0});
    if (Takes(pair.down)) polled.push_back({pair.server.get(), POLLIN, 0});
  }
  return polled;
}

bool TcpProxy::Takes(const Stream& stream) { return !stream.ended && stream.bytes < kMostBuffered; }

void TcpProxy::Accept(const Weather& weather) {
  for (;;) {
    UniqueFd client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid()) return;
    const sockaddr_in address = Loopback(target_);
    UniqueFd server = NewSocket(0);
    const bool leads =
        !weather.cuts && target_ != 0 && server.valid() &&
        connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (!leads) continue;
    Prepare(client.get());
    Prepare(server.get());
    pairs_.push_back({.client = std::move(client), .server = std::move(server)});
  }
}

Duration TcpProxy::Travel(const Weather& weather) {
  Duration travel = weather.delay;
  for (Duration again = kSentAgainAfter; random_.Uniform() < weather.loss; again *= 2) {
    travel += again;
  }
  return travel;
}

void TcpProxy::Read(int from, Stream* stream, Pair* pair, const Weather& weather) {
  std::array<char, kReadBytes> buffer;
  while (Takes(*stream)) {
    const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got > 0) {
      stream->chunks.push_back({.due = SystemClock().Now() + Travel(weather),
                                .bytes = std::string(buffer.data(), static_cast<size_t>(got))});
      stream->bytes += static_cast<size_t>(got);
      continue;
    }
    if (got == 0) stream->ended = true;
    if (got < 0 && errno != EAGAIN && errno != EINTR) pair->broken = true;
    return;
  }
}

void TcpProxy::Write(int to, Stream* stream, Pair* pair, const Weather& weather) {
  const TimePoint now = SystemClock().Now();
  const std::chrono::duration<double> passed = now - std::exchange(stream->allowed_at, now);
  const auto rate = static_cast<double>(weather.bytes_per_second);
  stream->allowance = std::min(stream->allowance + passed.count() * rate, rate);
  while (!stream->chunks.empty() && stream->chunks.front().due <= now) {
    std::string& bytes = stream->chunks.front().bytes;
    const size_t most =
        rate == 0 ? bytes.size() : std::min(bytes.size(), static_cast<size_t>(stream->allowance));
    if (most == 0) return;
    const ssize_t sent = send(to, bytes.data(), most, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) pair->broken = true;
      return;
    }
    stream->allowance -= static_cast<double>(sent);
    stream->bytes -= static_cast<size_t>(sent);
    bytes.erase(0, static_cast<size_t>(sent));
    if (bytes.empty()) stream->chunks.pop_front();
  }
}

}  // namespace quire::torture
