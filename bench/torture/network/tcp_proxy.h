// SPDX-License-Identifier: Apache-2.0
//
// TcpProxy: a port that leads to one of loopback, over a network that can be made bad. It has one
// thread, and stays in the network namespace of the thread that starts it. Thread-safety: all
// methods may be called concurrently.
#ifndef QUIRE_BENCH_TORTURE_NETWORK_TCP_PROXY_H_
#define QUIRE_BENCH_TORTURE_NETWORK_TCP_PROXY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/random.h"
#include "common/base/threads/mutex.h"
#include "common/base/unique_fd.h"
#include "quire/clock.h"
#include "quire/status.h"

struct pollfd;

namespace quire::torture {

/// State of a network. By default it is sound.
struct Weather {
  bool holds = false;             ///< Nothing comes through; connections stay open.
  bool cuts = false;              ///< Connections are closed, new ones at once.
  Duration delay = {};            ///< Each byte comes so much later.
  double loss = 0;                ///< Share of packets that are lost and sent again; below 1.
  uint64_t bytes_per_second = 0;  ///< Limit for each direction of a connection; 0: none.
};

class TcpProxy {
 public:
  struct Options {
    std::string listen = "127.0.0.1";  ///< An IPv4 address of this host.
    uint64_t seed = 1;                 ///< Decides which packets are lost.
  };
  /// Listens. UNAVAILABLE when the system has no port.
  static StatusOr<std::unique_ptr<TcpProxy>> Start(const Options& options);
  ~TcpProxy();

  std::string address() const { return ip_ + ":" + std::to_string(port_); }
  /// Leads connections made from now on to this port of loopback. Before, they are closed.
  void SetTarget(uint16_t port) { target_ = port; }
  void Set(const Weather& weather);

 private:
  struct Chunk {
    TimePoint due = {};
    std::string bytes = {};
  };
  /// Bytes in one direction.
  struct Stream {
    std::deque<Chunk> chunks = {};
    size_t bytes = 0;
    double allowance = 0;  ///< Bytes that may be sent now, under a limit.
    TimePoint allowed_at = {};
    bool ended = false;  ///< No more will come.
  };
  struct Pair {
    UniqueFd client = {};
    UniqueFd server = {};
    Stream up = {};    ///< From the client to the server.
    Stream down = {};  ///< From the server to the client.
    bool broken = false;
  };

  TcpProxy(const Options& options, UniqueFd listener, uint16_t port);
  void Run();
  void Step(const Weather& weather);
  std::vector<pollfd> Descriptors(const Weather& weather);
  /// True when more may be read.
  static bool Takes(const Stream& stream);
  void Accept(const Weather& weather);
  void Read(int from, Stream* stream, Pair* pair, const Weather& weather);
  /// Time for which a packet that was read now is under way.
  Duration Travel(const Weather& weather);
  static void Write(int to, Stream* stream, Pair* pair, const Weather& weather);

  const std::string ip_;
  const UniqueFd listener_;
  const uint16_t port_;
  std::atomic<uint16_t> target_ = 0;
  std::atomic<bool> stops_ = false;
  Mutex mutex_;
  Weather weather_ QUIRE_GUARDED_BY(mutex_);
  std::list<Pair> pairs_;  ///< Used by the thread only, as is the next.
  SeededRandom random_;
  std::thread thread_;
};

}  // namespace quire::torture

#endif  // QUIRE_BENCH_TORTURE_NETWORK_TCP_PROXY_H_
